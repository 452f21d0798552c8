"""Command line of a fake router that configures its namespace.

An sshd starts ``python fakebox.py ios|junos`` at login. Neither copies a vendor's command line, but both have
modes, errors, questions, a candidate configuration and a rollback timer. Files in ``/run/fakebox`` inject faults:

* ``hang``, ``cut``: start of a line at which the router stops answering, or closes the connection;
* ``enable``: the password for ``enable``;
* ``minute``: seconds per minute of its timers.

``typed`` records all typed lines.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
import tty
from collections.abc import Callable
from ipaddress import ip_interface, ip_network
from pathlib import Path

STATE = Path("/run/fakebox")
SIDES = ("left", "right")
NAME = "fakebox"


class Refusal(Exception):
    """Error message for a rejected line."""


def load_state(name: str, default):
    path = STATE / name
    return json.loads(path.read_text()) if path.exists() else default


def save_state(name: str, value) -> None:
    (STATE / f"{name}.part").write_text(json.dumps(value))
    (STATE / f"{name}.part").rename(STATE / name)


def run_ip(*words: str) -> None:
    result = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if result.returncode and "File exists" not in result.stderr:
        raise Refusal(f"% Error: {result.stderr.strip()}")


def apply_statement(statement: str, *, there: bool) -> None:
    """Add or remove one statement in the kernel."""
    kind, *words = statement.split()
    if kind == "address":
        side, address = words
        more = ["nodad"] if there and ":" in address else []
        run_ip("addr", "add" if there else "del", address, "dev", side, *more)
    elif kind == "neighbor":
        side, host, mac = words
        if there:
            run_ip("neigh", "replace", host, "lladdr", mac, "dev", side, "nud", "permanent")
        else:
            run_ip("neigh", "del", host, "dev", side)
    elif kind == "route":
        net, via = words
        run_ip("route", "replace" if there else "del", net, "via", via)
    elif kind == "forwarding":
        for version in (4, 6):
            path = Path(f"/proc/sys/net/ipv{version}/conf/all/forwarding")
            path.write_text("1" if there else "0")


ORDER = ("forwarding", "address", "neighbor", "route")


def apply(new: list[str]) -> None:
    """Change the kernel from the running configuration to a new one."""
    old = load_state("running", [])

    def get_rank(statement: str) -> int:
        return ORDER.index(statement.split(maxsplit=1)[0])

    for statement in sorted((s for s in old if s not in new), key=get_rank, reverse=True):
        with contextlib.suppress(Refusal):  # removed with the address that it needed
            apply_statement(statement, there=False)
    for statement in sorted((s for s in new if s not in old), key=get_rank):
        apply_statement(statement, there=True)
    save_state("running", new)
    save_state("changed", time.time())


def start_timer(minutes: int, back_to: list[str]) -> None:
    token = secrets.token_hex(4)
    save_state("timer", {"token": token, "back_to": back_to})
    minute_s = float((STATE / "minute").read_text()) if (STATE / "minute").exists() else 60.0
    subprocess.Popen(
        [sys.executable, __file__, "timer", token, str(minutes * minute_s)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip


def stop_timer() -> bool:
    found = (STATE / "timer").exists()
    (STATE / "timer").unlink(missing_ok=True)
    return found


def fire(token: str, seconds: str) -> None:
    time.sleep(float(seconds))
    timer = load_state("timer", {})
    if timer.get("token") == token:
        stop_timer()
        apply(timer["back_to"])


def read_kernel_routes() -> str:
    result = subprocess.run(["ip", "-6", "route"], capture_output=True, text=True, check=False)
    return result.stdout


class Terminal:
    """Terminal that echoes each key."""

    def __init__(self) -> None:
        if os.isatty(0):
            tty.setraw(0)
        self._before = ""

    def key(self) -> str:
        octet = os.read(0, 1)
        if not octet:
            sys.exit(0)
        return octet.decode("latin1")

    def write(self, text: str) -> None:
        os.write(1, text.replace("\n", "\r\n").encode())

    def line(self, *, echo: bool = True) -> str:
        typed = ""
        while True:
            key = self.key()
            if key == "\n" and self._before == "\r":
                self._before = key
                continue
            self._before = key
            if key in "\r\n":
                self.write("\n")
                return typed
            typed += key
            if echo:
                self.write(key)

    def show(self, text: str) -> None:
        self.write("".join(line + "\n" for line in text.splitlines()))


def misbehave(line: str) -> None:
    for name in ("hang", "cut"):
        path = STATE / name
        wanted = path.read_text().strip() if path.exists() else None
        if wanted and line.strip().startswith(wanted):
            path.unlink()
            if name == "hang":
                os.write(1, b"working on it ...")
                time.sleep(3600)
            os.kill(find_sshd(os.getppid()), signal.SIGKILL)
            time.sleep(3600)


def find_sshd(pid: int) -> int:
    """Return the sshd process above a process: it holds the connection."""
    while True:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
        if name.startswith("sshd"):
            return pid
        pid = int(rest.split()[1])


class Box:
    """Base of both command lines."""

    def __init__(self) -> None:
        self.terminal = Terminal()

    def prompt(self) -> str:
        raise NotImplementedError

    def take(self, line: str) -> str:
        raise NotImplementedError

    def serve(self) -> None:
        self.terminal.write("\n**** fakebox: nobody but testers ####\n\n")
        while True:
            self.terminal.write(self.prompt())
            line = self.terminal.line()
            with (STATE / "typed").open("a") as log:
                log.write(line + "\n")
            misbehave(line)
            if not line.strip():
                continue
            try:
                said = self.take(line.strip())
            except Refusal as refusal:
                said = str(refusal)
            if said:
                self.terminal.show(said)

    def load(self) -> str:
        """Return figures of a processor and a table."""
        drops = load_state("drops", 7)
        return f"CPU0 utilization: 35%\nCPU1 utilization: 5%\nsessions: 1,200 of 4,000\nno route: {drops}"


INVALID = "{}^\n% Invalid input detected at '^' marker.\n"


class Ios(Box):
    """IOS-like command line: every line takes effect at once."""

    def __init__(self) -> None:
        super().__init__()
        self.mode = "user" if (STATE / "enable").exists() else "exec"
        self.side = ""

    def prompt(self) -> str:
        return {"user": f"{NAME}>", "exec": f"{NAME}#", "config": f"{NAME}(config)#",
                "if": f"{NAME}(config-if)#"}[self.mode]  # fmt: skip

    def take(self, line: str) -> str:
        if self.mode == "user":
            return self._user(line)
        return self._exec(line) if self.mode == "exec" else self._config(line)

    def _user(self, line: str) -> str:
        if line == "exit":
            sys.exit(0)
        if line != "enable":
            raise Refusal(INVALID.format(" "))
        self.terminal.write("Password: ")
        if self.terminal.line(echo=False) != (STATE / "enable").read_text().strip():
            raise Refusal("% Access denied, bad secrets")
        self.mode = "exec"
        return ""

    def _exec(self, line: str) -> str:
        answers: dict[str, Callable[[], str]] = {
            "show version": lambda: "Fake IOS Software, Version 1.2(3)F4",
            "show running-config": self._running,
            "show load": self.load,
            "show ipv6 route": read_kernel_routes,
            "clear sessions": lambda: (save_state("sessions", 0), "")[1],
            "show sessions": lambda: f"active: {load_state('sessions', 5)}",
            "configure confirm": lambda: (
                "" if stop_timer() else "%No Rollback Confirmed Change pending"
            ),
            "configure revert now": self._revert,
            "exit": lambda: sys.exit(0),
        }
        if line in answers:
            return answers[line]()
        if re.fullmatch(r"terminal (length|width) \d+", line):
            return ""
        if found := re.fullmatch(r"configure terminal(?: revert timer (\d+))?", line):
            if found[1]:
                start_timer(int(found[1]), load_state("running", []))
            self.mode = "config"
            return "Enter configuration commands, one per line.  End with CNTL/Z."
        if found := re.fullmatch(r"copy running-config flash:(\S+)", line):
            self.terminal.write(f"Destination filename [{found[1]}]? ")
            name = self.terminal.line() or found[1]
            save_state(f"flash-{name}", load_state("running", []))
            return "1024 bytes copied in 0.5 secs"
        if found := re.fullmatch(r"configure replace flash:(\S+) force", line):
            if not (STATE / f"flash-{found[1]}").exists():
                raise Refusal(f"%Error opening flash:{found[1]} (No such file or directory)")
            apply(load_state(f"flash-{found[1]}", []))
            return "Total number of passes: 1\nRollback Done"
        if found := re.fullmatch(r"delete /force flash:(\S+)", line):
            (STATE / f"flash-{found[1]}").unlink(missing_ok=True)
            return ""
        raise Refusal(INVALID.format(" "))

    def _revert(self) -> str:
        timer = load_state("timer", None)
        if timer is None:
            return "%No Rollback Confirmed Change pending"
        stop_timer()
        apply(timer["back_to"])
        return "Rollback Done"

    def _running(self) -> str:
        lines = ["Building configuration...", "", "Current configuration : 1024 bytes", "!"]
        lines += [f"! Last configuration change at {load_state('changed', 0)}", f"hostname {NAME}"]
        lines += ["!", *load_state("running", []), "end"]
        return "\n".join(lines)

    def _config(self, line: str) -> str:
        if line in ("end", "exit"):
            self.mode = "config" if line == "exit" and self.mode == "if" else "exec"
            return ""
        if line in ("no shutdown", "shutdown"):
            return ""
        if found := re.fullmatch(r"interface (\S+)", line):
            if found[1] not in SIDES:
                raise Refusal(INVALID.format(" " * 11))
            self.mode, self.side = "if", found[1]
            return ""
        statement, running = self._statement(line), load_state("running", [])
        if statement not in running:
            apply([*running, statement])
        return ""

    def _statement(self, line: str) -> str:
        """Translate an IOS configuration line into a statement of the device model."""
        try:
            if line == "ipv6 unicast-routing":
                return "forwarding on"
            if found := re.fullmatch(r"ipv6 route (\S+) (\S+)", line):
                return f"route {ip_network(found[1])} {found[2]}"
            if found := re.fullmatch(r"ipv6 neighbor (\S+) (\S+) (\w{4}\.\w{4}\.\w{4})", line):
                digits = found[3].replace(".", "")
                mac = ":".join(digits[n : n + 2] for n in range(0, 12, 2))
                return f"neighbor {found[2]} {found[1]} {mac}"
            if found := re.fullmatch(r"ipv6 address (\S+)", line):
                return f"address {self.side} {ip_interface(found[1])}"
        except ValueError as exc:
            raise Refusal(INVALID.format(" " * 5)) from exc
        raise Refusal(INVALID.format(" " * 5))


class Junos(Box):
    """Junos-like command line: lines take effect with the commit."""

    def __init__(self) -> None:
        super().__init__()
        self.candidate: list[str] | None = None

    def prompt(self) -> str:
        if self.candidate is None:
            return f"root@{NAME}> "
        return f"\n[edit]\nroot@{NAME}# "

    def take(self, line: str) -> str:
        return self._exec(line) if self.candidate is None else self._config(line)

    def _exec(self, line: str) -> str:
        if line == "exit":
            sys.exit(0)
        answers: dict[str, Callable[[], str]] = {
            "show version": lambda: f"Hostname: {NAME}\nModel: fake\nJunos: 99.9F1.2",
            "show configuration | display set | no-more": lambda: "\n".join(
                load_state("running", [])
            ),
            "show route table inet6.0": read_kernel_routes,
            "show load": self.load,
        }
        if line in answers:
            return answers[line]()
        if re.fullmatch(r"set cli screen-(?:length|width) \d+", line):
            return f"Screen length set to {line.rsplit(maxsplit=1)[-1]}"
        if re.fullmatch(r"file delete \S+", line):
            (STATE / f"file-{Path(line.rsplit(maxsplit=1)[-1]).name}").unlink(missing_ok=True)
            return ""
        if line == "configure exclusive":
            self.candidate = list(load_state("running", []))
            return "warning: uncommitted changes will be discarded on exit\nEntering configuration mode"
        raise Refusal(f"{' ' * 9}^\nunknown command.")

    def _config(self, line: str) -> str:
        assert self.candidate is not None
        if line == "exit":
            self.candidate = None
            return "Exiting configuration mode"
        if line.startswith("set "):
            statement = self._statement(line)
            self.candidate += [statement] if statement not in self.candidate else []
            return ""
        if found := re.fullmatch(r"commit(?: confirmed (\d+))?", line):
            return self._commit(int(found[1]) if found[1] else None)
        if line == "rollback 0":
            self.candidate = list(load_state("running", []))
            return "load complete"
        if found := re.fullmatch(r"save (\S+)", line):
            save_state(f"file-{Path(found[1]).name}", self.candidate)
            return f"Wrote {len(self.candidate)} lines of configuration to '{found[1]}'"
        if found := re.fullmatch(r"load override (\S+)", line):
            if not (STATE / f"file-{Path(found[1]).name}").exists():
                raise Refusal(f"error: cannot open {found[1]}: No such file or directory")
            self.candidate = load_state(f"file-{Path(found[1]).name}", [])
            return "load complete"
        raise Refusal(f"{' ' * 9}^\nunknown command.")

    def _commit(self, minutes: int | None) -> str:
        assert self.candidate is not None
        old = load_state("running", [])
        apply(self.candidate)
        if minutes is None:
            stop_timer()
            return "commit complete"
        start_timer(minutes, old)
        return f"commit confirmed will be automatically rolled back in {minutes} minutes\ncommit complete"

    def _statement(self, line: str) -> str:
        patterns = {
            r"set interfaces (\S+) unit 0 family inet6? address (\S+)": "address {} {}",
            r"set interfaces (\S+) unit 0 family inet6 address \S+ ndp (\S+) mac (\S+)": "neighbor {} {} {}",
            r"set routing-options rib inet6\.0 static route (\S+) next-hop (\S+)": "route {} {}",
            r"set forwarding": "forwarding on",
        }
        for pattern, statement in patterns.items():
            if found := re.fullmatch(pattern, line):
                if "interfaces" in pattern and found[1] not in SIDES:
                    break
                return statement.format(*found.groups())
        raise Refusal(f"{' ' * 9}^\nsyntax error.")


def main() -> None:
    STATE.mkdir(exist_ok=True)
    how = sys.argv[1]
    if how == "timer":
        fire(*sys.argv[2:])
        return
    {"ios": Ios, "junos": Junos}[how]().serve()


if __name__ == "__main__":
    main()
