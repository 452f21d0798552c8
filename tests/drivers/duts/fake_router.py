"""Fake router: a program with a command line that configures its network namespace.

An sshd starts ``python fake_router.py ios|junos`` at login. Neither dialect is a complete copy of a vendor's command
line, but each has modes, errors, questions and a rollback timer. A statement of the configuration is a shell command.
Files in ``/run/fakerouter`` inject faults:

* ``cut``: beginning of the line at which the router closes the connection;
* ``enable``: the password for ``enable``;
* ``minute``: length of a minute of the rollback timer in seconds.

The file ``typed`` contains all received lines.
"""

import getpass
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

STATE = Path("/run/fakerouter")
SIDES = ("left", "right")
NAME = "fakerouter"
FORWARDING = "sysctl -q -w net.ipv6.conf.all.forwarding=1"
ADDRESS = "ip addr add {1} dev {0} nodad"
NEIGHBOR = "ip neigh replace {1} lladdr {2} dev {0} nud permanent"
ROUTE = "ip route replace {0} via {1}"
# Removes all that the statements add.
RESET = ("sysctl -q -w net.ipv6.conf.all.forwarding=0", "ip -6 route flush proto boot",
         "ip -6 neigh flush nud permanent", "ip -6 addr flush scope global")  # fmt: skip
# Output of `show load`: CPU utilization, session table and drops.
LOAD = "CPU0 utilization: 35%\nCPU1 utilization: 5%\nsessions: 1,200 of 4,000\nno route: 7"


class RejectedLineError(Exception):
    """Error message of the router for a rejected line."""


def load_state(name: str, default=None):
    path = STATE / name
    return json.loads(path.read_text()) if path.exists() else default


def save_state(name: str, value) -> None:
    (STATE / f"{name}.part").write_text(json.dumps(value))
    (STATE / f"{name}.part").rename(STATE / name)


def get_running() -> list[str]:
    return load_state("running", [])


def run(command: str) -> str:
    result = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    if result.returncode:
        raise RejectedLineError(f"% Error: {result.stderr.strip()}")
    return result.stdout


def apply(new: list[str]) -> None:
    """Replace the running configuration and that of the kernel."""
    for command in (*RESET, *new):
        run(command)
    save_state("running", new)
    save_state("changed", time.time())


def start_timer(minutes: str, back_to: list[str]) -> None:
    """Restore a configuration after this time, unless the timer is stopped or started again."""
    token = secrets.token_hex(4)
    save_state("timer", {"token": token, "back_to": back_to})
    if os.fork() == 0:
        os.setsid()
        os.closerange(0, 3)  # the login can end before the timer
        time.sleep(int(minutes) * load_state("minute", 60.0))
        if load_state("timer", {}).get("token") == token:
            apply(stop_timer() or [])
        os._exit(0)


def stop_timer() -> list[str] | None:
    """Stop the timer; return the configuration that it would restore, or None without a timer."""
    timer = load_state("timer")
    (STATE / "timer").unlink(missing_ok=True)
    return timer and timer["back_to"]


class CommandLine:
    """Base of the dialects, which define ``prompt`` and ``execute``."""

    mode = "exec"

    def serve(self) -> None:
        print("\n**** fakerouter: for tests only ****\n")
        while True:
            line = input(self.prompt()).strip()
            with (STATE / "typed").open("a") as log:
                log.write(line + "\n")
            cut = STATE / "cut"
            if cut.exists() and line.startswith(cut.read_text()):
                cut.unlink()
                os.kill(os.getppid(), signal.SIGKILL)  # sshd of this connection
            try:
                output = self.execute(line) if line else ""
            except RejectedLineError as exc:
                output = str(exc)
            print("".join(text + "\n" for text in output.splitlines()), end="", flush=True)


class Ios(CommandLine):
    """IOS-like command line, in which every line takes effect immediately."""

    side = ""

    def __init__(self) -> None:
        if (STATE / "enable").exists():
            self.mode = "user"

    def prompt(self) -> str:
        config = "(config-if)#" if self.side else "(config)#"
        return NAME + {"user": ">", "exec": "#", "config": config}[self.mode]

    def execute(self, line: str) -> str:
        match self.mode, *line.split():
            case "user", "enable":
                if getpass.getpass("Password: ") != (STATE / "enable").read_text().strip():
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
                name = input(f"Destination filename [{name}]? ") or name
                save_state(f"file-{name}", get_running())
                return "1024 bytes copied in 0.5 secs"
            case "exec", "delete", "/force", target:
                (STATE / f"file-{target.removeprefix('flash:')}").unlink(missing_ok=True)
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
                apply(load_state(f"file-{source.removeprefix('flash:')}"))
                return "Total number of passes: 1\nRollback Done"
            case "config", "end":
                self.mode, self.side = "exec", ""
            case "config", "exit":
                self.side = ""
            case "config", "interface", "left" | "right" as side:
                self.side = side
            case "config", "no", "shutdown":
                pass
            case "config", "ipv6", "unicast-routing":
                self.add(FORWARDING)
            case "config", "ipv6", "address", address:
                self.add(ADDRESS.format(self.side, address))
            case "config", "ipv6", "neighbor", host, side, mac:
                mac = bytes.fromhex(mac.replace(".", "")).hex(":")
                self.add(NEIGHBOR.format(side, host, mac))
            case "config", "ipv6", "route", net, via:
                self.add(ROUTE.format(net, via))
            case _:
                raise RejectedLineError("     ^\n% Invalid input detected at '^' marker.\n")
        return ""

    def add(self, statement: str) -> None:
        apply([*get_running(), statement])


class Junos(CommandLine):
    """Junos-like command line, in which lines take effect at the commit."""

    def prompt(self) -> str:
        return f"\n[edit]\nroot@{NAME}# " if self.mode == "config" else f"root@{NAME}> "

    def execute(self, line: str) -> str:
        match self.mode, *line.split():
            case "exec", "show", "version":
                return f"Hostname: {NAME}\nModel: fake\nJunos: 99.9F1.2"
            case "exec", "show", "load":
                return LOAD
            case "exec", "show", "configuration", "|", "display", "set", "|", "no-more":
                return "\n".join(get_running())
            case "exec", "show", "route", "table", "inet6.0":
                return run("ip -6 route")
            case "exec", "set", "cli", "screen-length", _:
                pass
            case "exec", "file", "delete", name:
                (STATE / f"file-{name}").unlink(missing_ok=True)
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
                self.candidate = load_state(f"file-{name}")
                return "load complete"
            case "config", "set", "forwarding":
                self.candidate.append(FORWARDING)
            case "config", "set", "interfaces", side, *_, "address", address:
                self.candidate.append(ADDRESS.format(side, address))
            case "config", "set", "interfaces", side, *_, "ndp", host, "mac", mac:
                self.candidate.append(NEIGHBOR.format(side, host, mac))
            case "config", "set", "routing-options", *_, "route", net, "next-hop", via:
                self.candidate.append(ROUTE.format(net, via))
            case _:
                raise RejectedLineError("         ^\nunknown command.")
        return ""


if __name__ == "__main__":
    STATE.mkdir(exist_ok=True)
    {"ios": Ios, "junos": Junos}[sys.argv[1]]().serve()
