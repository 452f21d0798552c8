"""Fake router: a program with a command line that configures its network namespace.

An sshd starts ``python fake_router.py ios|junos`` at login. Neither dialect is a complete copy of a vendor's command
line, but each has modes, errors, questions and a rollback timer. Files in ``/run/fakerouter`` inject faults:

* ``cut``: beginning of the line at which the router closes the connection;
* ``enable``: the password for ``enable``;
* ``minute``: length of a minute of the rollback timer in seconds.

The file ``typed`` contains all received lines.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
import tty
from pathlib import Path

STATE = Path("/run/fakerouter")
SIDES = ("left", "right")
NAME = "fakerouter"
# Commands that add and remove each kind of statement, in the order of adding.
STATEMENTS = {
    "forwarding": tuple(f"sysctl -q -w net.ipv6.conf.all.forwarding={n}" for n in (1, 0)),
    "address": ("ip addr add {1} dev {0} nodad", "ip addr del {1} dev {0}"),
    "neighbor": ("ip neigh replace {1} lladdr {2} dev {0} nud permanent", "ip neigh del {1} dev {0}"),
    "route": ("ip route replace {0} via {1}", "ip route del {0} via {1}"),
}  # fmt: skip
# Output of `show load`: CPU utilization, session table and drops.
LOAD = "CPU0 utilization: 35%\nCPU1 utilization: 5%\nsessions: 1,200 of 4,000\nno route: 7"


class RejectedLineError(Exception):
    """Error message of the router for a rejected line."""


def load_state(name: str, default):
    path = STATE / name
    return json.loads(path.read_text()) if path.exists() else default


def save_state(name: str, value) -> None:
    (STATE / f"{name}.part").write_text(json.dumps(value))
    (STATE / f"{name}.part").rename(STATE / name)


def get_running() -> list[str]:
    return load_state("running", [])


def load_file(name: str) -> list[str]:
    if not (STATE / f"file-{name}").exists():
        raise RejectedLineError(f"error: cannot open {name} (No such file or directory)")
    return load_state(f"file-{name}", [])


def delete_file(name: str) -> None:
    (STATE / f"file-{name}").unlink(missing_ok=True)


def run(command: str) -> str:
    result = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    if result.returncode and "File exists" not in result.stderr:
        raise RejectedLineError(f"% Error: {result.stderr.strip()}")
    return result.stdout


def apply(new: list[str]) -> None:
    """Change the kernel from the running configuration to a new one."""
    old = get_running()
    for kind, (_, remove) in reversed(STATEMENTS.items()):
        for name, *words in (s.split() for s in old if s not in new):
            if name == kind:
                with contextlib.suppress(RejectedLineError):  # removed with its address
                    run(remove.format(*words))
    for kind, (add, _) in STATEMENTS.items():
        for name, *words in (s.split() for s in new if s not in old):
            if name == kind:
                run(add.format(*words))
    save_state("running", new)
    save_state("changed", time.time())


def start_timer(minutes: str, back_to: list[str]) -> None:
    token = secrets.token_hex(4)
    save_state("timer", {"token": token, "back_to": back_to})
    seconds = int(minutes) * load_state("minute", 60.0)
    words, null = [sys.executable, __file__, "timer", token, str(seconds)], subprocess.DEVNULL
    subprocess.Popen(words, stdin=null, stdout=null, stderr=null, start_new_session=True)


def stop_timer() -> list[str] | None:
    """Stop the timer; return the configuration that it would restore, or None without a timer."""
    timer = load_state("timer", None)
    (STATE / "timer").unlink(missing_ok=True)
    return timer and timer["back_to"]


def fire_timer(token: str, seconds: str) -> None:
    time.sleep(float(seconds))
    if load_state("timer", {}).get("token") == token:
        apply(stop_timer() or [])


def cut_connection(pid: int) -> None:
    """Kill the sshd process above a process: it holds the connection."""
    while True:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
        if name.startswith("sshd"):
            os.kill(pid, signal.SIGKILL)
            time.sleep(3600)
        pid = int(rest.split()[1])


class CommandLine:
    """Terminal that echoes input; base of the dialects, which define ``prompt`` and ``execute``."""

    mode = "exec"

    def __init__(self) -> None:
        if os.isatty(0):
            tty.setraw(0)
        self._previous_key = ""

    def write(self, text: str) -> None:
        os.write(1, text.replace("\n", "\r\n").encode())

    def read_line(self, *, echo: bool = True) -> str:
        typed = ""
        while key := os.read(0, 1).decode("latin1"):
            previous, self._previous_key = self._previous_key, key
            if previous + key == "\r\n":
                continue
            if key in "\r\n":
                self.write("\n")
                return typed
            typed += key
            if echo:
                self.write(key)
        sys.exit(0)

    def serve(self) -> None:
        self.write("\n**** fakerouter: for tests only ####\n\n")
        while True:
            self.write(self.prompt())
            line = self.read_line()
            with (STATE / "typed").open("a") as log:
                log.write(line + "\n")
            cut = STATE / "cut"
            if cut.exists() and line.strip().startswith(cut.read_text()):
                cut.unlink()
                cut_connection(os.getppid())
            try:
                output = self.execute(line.strip()) if line.strip() else ""
            except RejectedLineError as exc:
                output = str(exc)
            self.write("".join(text + "\n" for text in output.splitlines()))


class Ios(CommandLine):
    """IOS-like command line, in which every line takes effect immediately."""

    side = ""

    def __init__(self) -> None:
        super().__init__()
        if (STATE / "enable").exists():
            self.mode = "user"

    def prompt(self) -> str:
        config = "(config-if)#" if self.side else "(config)#"
        return NAME + {"user": ">", "exec": "#", "config": config}[self.mode]

    def execute(self, line: str) -> str:
        match self.mode, *line.split():
            case "user" | "exec", "exit":
                sys.exit(0)
            case "user", "enable":
                self.write("Password: ")
                if self.read_line(echo=False) != (STATE / "enable").read_text().strip():
                    raise RejectedLineError("% Access denied, bad secrets")
                self.mode = "exec"
            case "exec", "show", "version":
                return "Fake IOS Software, Version 1.2(3)F4"
            case "exec", "show", "load":
                return LOAD
            case "exec", "show", "running-config":
                head = "Building configuration...\n\nCurrent configuration : 1024 bytes\n!\n"
                changed = f"! Last configuration change at {load_state('changed', 0)}"
                return head + "\n".join([changed, f"hostname {NAME}", "!", *get_running(), "end"])
            case "exec", "show", "ipv6", "route":
                return run("ip -6 route")
            case "exec", "show", "sessions":
                return f"active: {load_state('sessions', 5)}"
            case "exec", "clear", "sessions":
                save_state("sessions", 0)
            case "exec", "terminal", "length" | "width", _:
                pass
            case "exec", "copy", "running-config", target:
                name = target.removeprefix("flash:")
                self.write(f"Destination filename [{name}]? ")
                save_state(f"file-{self.read_line() or name}", get_running())
                return "1024 bytes copied in 0.5 secs"
            case "exec", "delete", "/force", target:
                delete_file(target.removeprefix("flash:"))
            case "exec", "configure", "terminal", *timer if timer[:-1] in ([], ["revert", "timer"]):
                if timer:
                    start_timer(timer[-1], get_running())
                self.mode = "config"
                return "Enter configuration commands, one per line.  End with CNTL/Z."
            case "exec", "configure", *action if action in (["confirm"], ["revert", "now"]):
                if (back_to := stop_timer()) is None:
                    raise RejectedLineError("%No Rollback Confirmed Change pending")
                if action != ["confirm"]:
                    apply(back_to)
                    return "Rollback Done"
            case "exec", "configure", "replace", source, "force":
                apply(load_file(source.removeprefix("flash:")))
                return "Total number of passes: 1\nRollback Done"
            case "config", "end":
                self.mode, self.side = "exec", ""
            case "config", "exit":
                self.mode, self.side = "config" if self.side else "exec", ""
            case "config", "interface", "left" | "right" as side:
                self.side = side
            case "config", "no", "shutdown":
                pass
            case "config", "ipv6", "unicast-routing":
                self.add("forwarding on")
            case "config", "ipv6", "address", address:
                self.add(f"address {self.side} {address}")
            case "config", "ipv6", "neighbor", host, side, mac:
                self.add(f"neighbor {side} {host} {bytes.fromhex(mac.replace('.', '')).hex(':')}")
            case "config", "ipv6", "route", net, via:
                self.add(f"route {net} {via}")
            case _:
                raise RejectedLineError("     ^\n% Invalid input detected at '^' marker.\n")
        return ""

    def add(self, statement: str) -> None:
        apply(list(dict.fromkeys([*get_running(), statement])))


class Junos(CommandLine):
    """Junos-like command line, in which lines take effect at the commit."""

    def prompt(self) -> str:
        return f"\n[edit]\nroot@{NAME}# " if self.mode == "config" else f"root@{NAME}> "

    def execute(self, line: str) -> str:
        match self.mode, *line.split():
            case "exec", "exit":
                sys.exit(0)
            case "exec", "show", "version":
                return f"Hostname: {NAME}\nModel: fake\nJunos: 99.9F1.2"
            case "exec", "show", "load":
                return LOAD
            case "exec", "show", "configuration", "|", "display", "set", "|", "no-more":
                return "\n".join(get_running())
            case "exec", "show", "route", "table", "inet6.0":
                return run("ip -6 route")
            case "exec", "set", "cli", "screen-length" | "screen-width", _:
                pass
            case "exec", "file", "delete", name:
                delete_file(name)
            case "exec", "configure", "exclusive":
                self.mode, self.candidate = "config", get_running()
                return "warning: uncommitted changes will be discarded on exit\nEntering configuration mode"
            case "config", "exit":
                self.mode = "exec"
                return "Exiting configuration mode"
            case "config", "commit", *timer if timer[:-1] in ([], ["confirmed"]):
                old = get_running()
                apply(self.candidate)
                if not timer:
                    stop_timer()
                    return "commit complete"
                start_timer(timer[-1], old)
                text = f"commit confirmed will be automatically rolled back in {timer[-1]} minutes"
                return f"{text}\ncommit complete"
            case "config", "rollback", "0":
                self.candidate = get_running()
                return "load complete"
            case "config", "save", name:
                save_state(f"file-{name}", self.candidate)
                return f"Wrote {len(self.candidate)} lines of configuration to '{name}'"
            case "config", "load", "override", name:
                self.candidate = load_file(name)
                return "load complete"
            case "config", "set", "forwarding":
                self.candidate.append("forwarding on")
            case "config", "set", "interfaces", side, *_, "address", address:
                self.candidate.append(f"address {side} {address}")
            case "config", "set", "interfaces", side, *_, "ndp", host, "mac", mac:
                self.candidate.append(f"neighbor {side} {host} {mac}")
            case "config", "set", "routing-options", *_, "route", net, "next-hop", via:
                self.candidate.append(f"route {net} {via}")
            case _:
                raise RejectedLineError("         ^\nunknown command.")
        return ""


if __name__ == "__main__":
    STATE.mkdir(exist_ok=True)
    if sys.argv[1] == "timer":
        fire_timer(*sys.argv[2:])
    else:
        {"ios": Ios, "junos": Junos}[sys.argv[1]]().serve()
