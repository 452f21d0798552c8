"""What DNS64 servers have in common: a process of its own on Linux, with a configuration of its own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from pydantic import Field
from v6t.base.errors import UsageError
from v6t.drivers.duts.driver import Reading
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds.linux.base import LinuxDriver
from v6t.drivers.duts.kinds.linux.process import stop
from v6t.drivers.duts.kinds.linux.steps import directory, write_file
from v6t.drivers.duts.kinds.linux.telemetry import process
from v6t.drivers.duts.options import LinuxOptions
from v6t.drivers.duts.plan import Check, Intent, Plan, Step, Was, checked, line_with, shown
from v6t.drivers.duts.readings import Lost
from v6t.intent.families import Dns64Config


class ServerOptions(LinuxOptions):
    """Options of a DNS64 server."""

    threads: int = Field(default=1, ge=1, le=256)
    """That answer queries."""


class Dns64Server(LinuxDriver):
    """One process; nothing of the device's own name service is touched."""

    accepts = (Dns64Config,)
    options_model = ServerOptions
    process: ClassVar[str]
    """Name of the process."""
    file: ClassVar[str] = "server.conf"
    """Name of its configuration file."""
    prefix_lengths: ClassVar[Sequence[int]] = (32, 40, 48, 56, 64, 96)
    """Of prefixes it makes records with."""

    @abstractmethod
    def configuration(self, wanted: Dns64Config, place: str) -> str:
        """Its configuration file."""

    @abstractmethod
    def command(self, file: str, place: str) -> str:
        """How it is started in the foreground."""

    @abstractmethod
    def emptied(self, file: str, place: str) -> Step:
        """What empties its cache."""

    def ended(self, pid: str) -> str:
        """Shell line that ends it."""
        return stop(pid, self.process)

    def before_start(self, place: str) -> Sequence[Step]:
        """What it needs beside its configuration."""
        del place
        return ()

    def refuse(self, intent: Intent, facts: Facts) -> None:
        """Prefixes it does not know."""
        super().refuse(intent, facts)
        prefix = intent.configuration_as(Dns64Config).prefix
        if prefix.prefixlen not in self.prefix_lengths:
            known = " or ".join(f"/{length}" for length in self.prefix_lengths)
            raise UsageError(
                f"{self.name} makes AAAA records with a prefix of {known} only, not {prefix}",
                "set the plugin's parameter prefix",
                params={"prefix": "2001:db8:64::/96"},
                code="unsupported-by-device",
            )

    def telemetry(self, intent: Intent) -> Mapping[str, Reading]:
        """Queries that found no room in the socket of the server."""
        return {
            **super().telemetry(intent),
            "udp": Reading(
                "grep -hE '^Udp6?(InDatagrams|InErrors|RcvbufErrors)' /proc/net/snmp6",
                _pairs,
                "queries that came, and those that found no room in a socket (`/proc/net/snmp6`)",
                {"Udp6?RcvbufErrors": Lost.QUEUE, "Udp6?InErrors": Lost.ALL},
            ),
            "process": process(f"{self.options.state_dir}/dns/{self.name}.pid"),
        }

    def steps(self, intent: Intent, facts: Facts) -> Plan:
        wanted, place = intent.configuration_as(Dns64Config), f"{self.options.state_dir}/dns"
        file, pid = f"{place}/{self.file}", f"{place}/{self.name}.pid"
        log = f"{place}/{self.name}.log"
        listens = f"ss -Hlun src '[{wanted.resolver}]:53'"
        run = self.command(file, place)
        return self.finish(
            facts,
            [
                *self.base(intent, facts),
                directory(place, "a directory for the server's files"),
                *self.before_start(place),
                write_file(file, self.configuration(wanted, place), f"{self.title}: configuration"),
                Step(
                    f"cd {place} && {{ setsid {run} >{log} 2>&1 </dev/null & echo $! >{pid}; }}",
                    "the server itself",
                    undo=self.ended(pid),
                    before=f"ls {pid} 2>/dev/null; {listens}; true",
                    was=Was.FOREIGN,
                    check=self.answering(wanted, listens, pid, log),
                ),
            ],
            flush=(self.emptied(file, place),),
            notes=("the cache is emptied before each trial",),
        )

    def answering(self, wanted: Dns64Config, listens: str, pid: str, log: str) -> Check:
        """It runs, and listens where clients ask; what it says last if it has ended."""
        comm = f"/proc/$(cat {pid})/comm"
        wait = (
            f"n=0; until {listens} | grep -q . ; do n=$((n+1)); [ $n -lt 50 ] && [ -e {comm} ] || "
            f"break; sleep 0.2; done; cat {comm} || tail -n 2 {log}; {listens}"
        )

        def checker(output: str) -> str | None:
            lines = output.splitlines()
            if not lines or lines[0] != self.process:
                return f"{self.process} does not run; it says last: {shown(output)}"
            socket = line_with("\n".join(lines[1:]), f"[{wanted.resolver}]:53")
            return f"{self.process} does not listen" if socket is None else None

        return checked(wait, checker, f"{self.process}, listening")


def _pairs(output: str) -> Mapping[str, float]:
    """Lines of a name and a number."""
    words = (line.split() for line in output.splitlines())
    return {w[0]: float(w[1]) for w in words if len(w) == 2 and w[1].isdigit()}
