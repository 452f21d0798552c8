"""Command line of a fake router that configures its namespace.

An sshd starts ``python fakebox.py ios|junos`` at login. Neither copies a vendor's command line, but both have
modes, errors, questions, a candidate configuration and a rollback timer. Files in ``/run/fakebox`` inject faults:

* ``cut``: start of a line at which the router closes the connection;
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
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

STATE = Path("/run/fakebox")
SIDES = ("left", "right")
NAME = "fakebox"
# Commands that add and remove a statement of a configuration, in the order in which they are added.
STATEMENTS = {
    "forwarding": tuple(f"sysctl -q -w net.ipv6.conf.all.forwarding={n}" for n in (1, 0)),
    "address": ("ip addr add {1} dev {0} nodad", "ip addr del {1} dev {0}"),
    "neighbor": ("ip neigh replace {1} lladdr {2} dev {0} nud permanent", "ip neigh del {1} dev {0}"),
    "route": ("ip route replace {0} via {1}", "ip route del {0} via {1}"),
}  # fmt: skip
# Figures of a processor and a table.
LOAD = "CPU0 utilization: 35%\nCPU1 utilization: 5%\nsessions: 1,200 of 4,000\nno route: 7"


class Refusal(Exception):
    """Error message for a rejected line."""


def load_state(name: str, default):
    path = STATE / name
    return json.loads(path.read_text()) if path.exists() else default


def save_state(name: str, value) -> None:
    (STATE / f"{name}.part").write_text(json.dumps(value))
    (STATE / f"{name}.part").rename(STATE / name)


def get_running() -> list[str]:
    return load_state("running", [])


def run(command: str) -> str:
    result = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    if result.returncode and "File exists" not in result.stderr:
        raise Refusal(f"% Error: {result.stderr.strip()}")
    return result.stdout


def apply_statement(statement: str, *, remove: bool) -> None:
    """Add or remove one statement in the kernel."""
    kind, *words = statement.split()
    run(STATEMENTS[kind][remove].format(*words))


def apply(new: list[str]) -> None:
    """Change the kernel from the running configuration to a new one."""
    old = get_running()

    def get_rank(statement: str) -> int:
        return list(STATEMENTS).index(statement.split(maxsplit=1)[0])

    for statement in sorted((s for s in old if s not in new), key=get_rank, reverse=True):
        with contextlib.suppress(Refusal):  # removed with the address that it needed
            apply_statement(statement, remove=True)
    for statement in sorted((s for s in new if s not in old), key=get_rank):
        apply_statement(statement, remove=False)
    save_state("running", new)
    save_state("changed", time.time())


def start_timer(minutes: str, back_to: list[str]) -> None:
    token = secrets.token_hex(4)
    save_state("timer", {"token": token, "back_to": back_to})
    seconds = int(minutes) * load_state("minute", 60.0)
    subprocess.Popen(
        [sys.executable, __file__, "timer", token, str(seconds)], stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


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


class Box(ABC):
    """Base of both command lines: a terminal that echoes, and the lines of each mode."""

    # Methods by the pattern of the lines that call them, by mode.
    lines: ClassVar[dict[str, dict[str, str]]]
    # Statements by the pattern of the lines that add them in the mode ``config``.
    statements: ClassVar[dict[str, str]]
    # Answers in the mode ``exec``.
    shown: ClassVar[dict[str, str]]
    invalid = ""
    side = ""

    def __init__(self) -> None:
        if os.isatty(0):
            tty.setraw(0)
        self.mode = "exec"
        self._before = ""

    def write(self, text: str) -> None:
        os.write(1, text.replace("\n", "\r\n").encode())

    def read_line(self, *, echo: bool = True) -> str:
        typed = ""
        while key := os.read(0, 1).decode("latin1"):
            before, self._before = self._before, key
            if before + key == "\r\n":
                continue
            if key in "\r\n":
                self.write("\n")
                return typed
            typed += key
            if echo:
                self.write(key)
        sys.exit(0)

    @abstractmethod
    def prompt(self) -> str:
        """Return the prompt of the present mode."""

    def serve(self) -> None:
        self.write("\n**** fakebox: nobody but testers ####\n\n")
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
                said = self.take(line.strip()) if line.strip() else ""
            except Refusal as refusal:
                said = str(refusal)
            self.write("".join(text + "\n" for text in said.splitlines()))

    def take(self, line: str) -> str:
        if self.mode == "exec" and line in self.shown:
            return self.shown[line]
        for pattern, method in self.lines[self.mode].items():
            if found := re.fullmatch(pattern, line):
                return getattr(self, method)(*found.groups()) or ""
        for pattern, statement in self.statements.items() if self.mode == "config" else ():
            if found := re.fullmatch(pattern, line):
                self.add(statement.format(*found.groups(), side=self.side))
                return ""
        raise Refusal(self.invalid)

    @abstractmethod
    def add(self, statement: str) -> None:
        """Add a statement to the configuration."""

    def leave(self) -> None:
        sys.exit(0)

    def ignore(self) -> str:
        """Accept a line without effect."""
        return ""

    def show_routes(self) -> str:
        return run("ip -6 route")

    def delete_file(self, name: str) -> None:
        (STATE / f"file-{name}").unlink(missing_ok=True)

    def load_file(self, name: str) -> list[str]:
        if not (STATE / f"file-{name}").exists():
            raise Refusal(f"error: cannot open {name} (No such file or directory)")
        return load_state(f"file-{name}", [])


class Ios(Box):
    """IOS-like command line: every line takes effect at once."""

    invalid = "     ^\n% Invalid input detected at '^' marker.\n"
    shown: ClassVar = {"show version": "Fake IOS Software, Version 1.2(3)F4", "show load": LOAD}
    lines: ClassVar = {
        "user": {"enable": "enable", "exit": "leave"},
        "exec": {
            "show running-config": "show_running",
            "show ipv6 route": "show_routes",
            "clear sessions": "clear_sessions",
            "show sessions": "show_sessions",
            "configure confirm": "confirm",
            "configure revert now": "revert",
            "exit": "leave",
            r"terminal (?:length|width) \d+": "ignore",
            r"configure terminal(?: revert timer (\d+))?": "configure",
            r"copy running-config flash:(\S+)": "copy",
            r"configure replace flash:(\S+) force": "replace",
            r"delete /force flash:(\S+)": "delete_file",
        },
        "config": {
            "end": "end",
            "exit": "leave_mode",
            "(?:no )?shutdown": "ignore",
            "interface (left|right)": "select",
        },
    }
    statements: ClassVar = {
        "ipv6 unicast-routing": "forwarding on",
        r"ipv6 address (\S+)": "address {side} {}",
        r"ipv6 neighbor (\S+) (\S+) (..)(..).(..)(..).(..)(..)": "neighbor {1} {0} {2}:{3}:{4}:{5}:{6}:{7}",
        r"ipv6 route (\S+) (\S+)": "route {} {}",
    }  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        if (STATE / "enable").exists():
            self.mode = "user"

    def prompt(self) -> str:
        config = "(config-if)#" if self.side else "(config)#"
        return NAME + {"user": ">", "exec": "#", "config": config}[self.mode]

    def enable(self) -> None:
        self.write("Password: ")
        if self.read_line(echo=False) != (STATE / "enable").read_text().strip():
            raise Refusal("% Access denied, bad secrets")
        self.mode = "exec"

    def show_running(self) -> str:
        lines = ["Building configuration...", "", "Current configuration : 1024 bytes", "!"]
        lines += [f"! Last configuration change at {load_state('changed', 0)}", f"hostname {NAME}"]
        return "\n".join([*lines, "!", *get_running(), "end"])

    def clear_sessions(self) -> None:
        save_state("sessions", 0)

    def show_sessions(self) -> str:
        return f"active: {load_state('sessions', 5)}"

    def confirm(self) -> None:
        if stop_timer() is None:
            raise Refusal("%No Rollback Confirmed Change pending")

    def revert(self) -> str:
        back_to = stop_timer()
        if back_to is None:
            raise Refusal("%No Rollback Confirmed Change pending")
        apply(back_to)
        return "Rollback Done"

    def configure(self, minutes: str | None) -> str:
        if minutes:
            start_timer(minutes, get_running())
        self.mode = "config"
        return "Enter configuration commands, one per line.  End with CNTL/Z."

    def copy(self, name: str) -> str:
        self.write(f"Destination filename [{name}]? ")
        save_state(f"file-{self.read_line() or name}", get_running())
        return "1024 bytes copied in 0.5 secs"

    def replace(self, name: str) -> str:
        apply(self.load_file(name))
        return "Total number of passes: 1\nRollback Done"

    def end(self) -> None:
        self.mode, self.side = "exec", ""

    def leave_mode(self) -> None:
        self.mode, self.side = "config" if self.side else "exec", ""

    def select(self, side: str) -> None:
        self.side = side

    def add(self, statement: str) -> None:
        apply(list(dict.fromkeys([*get_running(), statement])))


class Junos(Box):
    """Junos-like command line: lines take effect with the commit."""

    invalid = "         ^\nunknown command."
    shown: ClassVar = {
        "show version": f"Hostname: {NAME}\nModel: fake\nJunos: 99.9F1.2",
        "show load": LOAD,
    }
    lines: ClassVar = {
        "exec": {
            "exit": "leave",
            r"show configuration \| display set \| no-more": "show_running",
            r"show route table inet6\.0": "show_routes",
            r"set cli screen-(?:length|width) \d+": "ignore",
            r"file delete (\S+)": "delete_file",
            "configure exclusive": "configure",
        },
        "config": {
            "exit": "end",
            r"commit(?: confirmed (\d+))?": "commit",
            "rollback 0": "discard",
            r"save (\S+)": "save",
            r"load override (\S+)": "replace",
        },
    }
    statements: ClassVar = {
        "set forwarding": "forwarding on",
        r"set interfaces (left|right) unit 0 family inet6 address (\S+)": "address {} {}",
        r"set interfaces (left|right) unit 0 family inet6 address \S+ ndp (\S+) mac (\S+)": "neighbor {} {} {}",
        r"set routing-options rib inet6\.0 static route (\S+) next-hop (\S+)": "route {} {}",
    }  # fmt: skip

    def prompt(self) -> str:
        return f"\n[edit]\nroot@{NAME}# " if self.mode == "config" else f"root@{NAME}> "

    def show_running(self) -> str:
        return "\n".join(get_running())

    def configure(self) -> str:
        self.mode, self.candidate = "config", get_running()
        return "warning: uncommitted changes will be discarded on exit\nEntering configuration mode"

    def end(self) -> str:
        self.mode = "exec"
        return "Exiting configuration mode"

    def commit(self, minutes: str | None) -> str:
        old = get_running()
        apply(self.candidate)
        if minutes is None:
            stop_timer()
            return "commit complete"
        start_timer(minutes, old)
        said = f"commit confirmed will be automatically rolled back in {minutes} minutes"
        return f"{said}\ncommit complete"

    def discard(self) -> str:
        self.candidate = get_running()
        return "load complete"

    def save(self, name: str) -> str:
        save_state(f"file-{name}", self.candidate)
        return f"Wrote {len(self.candidate)} lines of configuration to '{name}'"

    def replace(self, name: str) -> str:
        self.candidate = self.load_file(name)
        return "load complete"

    def add(self, statement: str) -> None:
        self.candidate.append(statement)


if __name__ == "__main__":
    STATE.mkdir(exist_ok=True)
    if sys.argv[1] == "timer":
        fire_timer(*sys.argv[2:])
    else:
        {"ios": Ios, "junos": Junos}[sys.argv[1]]().serve()
