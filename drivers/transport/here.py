"""Commands for a shell of this machine, or of a device that is a set of its namespaces."""

from __future__ import annotations

import logging
import signal
from collections.abc import Sequence

from v6t.base.errors import DutError
from v6t.drivers.transport import contract
from v6t.drivers.transport.command_log import log_start, run_logged
from v6t.drivers.transport.contract import ConnectionLost, DeadlinePassed, Output
from v6t.drivers.transport.process import ProcessHeld, begin, finish


class HereTransport:
    """Transport that runs commands as this user on this machine."""

    where = "on this machine"
    log_level = logging.INFO  # Level of the log records of its commands

    def __init__(self, name: str, before: Sequence[str] = ()) -> None:
        self.name = name
        self.condition = ""
        self._before = list(before)

    def open(self) -> None:
        """Do nothing, since commands need no connection."""

    def run(self, command: str, text: str = "", deadline_s: float | None = None) -> Output:
        limit = deadline_s or contract.DEADLINE_S
        return run_logged(
            self.name, command, text, self.log_level, lambda: self._run(command, text, limit)
        )

    def _run(self, command: str, text: str, limit: float) -> Output:
        process = begin(self._words(command, self.condition))
        outputs = finish(process, text, limit)
        if outputs is None:
            raise DeadlinePassed(
                f"{self.name}: a command did not end within {limit:g} s: {command[:120]}",
                code="timeout",
            )
        if process.returncode == -signal.SIGKILL:
            raise ConnectionLost(
                f"{self.name}: it vanished during: {command[:120]}", code="connection-lost"
            )
        return Output.decode(self.name, process.returncode, *outputs)

    def hold(self, command: str) -> ProcessHeld:
        log_start(self.name, command, self.log_level)
        return ProcessHeld(self.name, begin(self._words(command)))

    def close(self) -> None:
        """Do nothing, since commands need no connection."""

    def _words(self, command: str, condition: str = "") -> list[str]:
        """Return the command line that runs a shell line."""
        return [*self._before, "sh", "-c", contract.for_shell(command, condition=condition)]


class NamespaceTransport(HereTransport):
    """Transport into the network, process and mount namespaces of a process."""

    where = contract.ON_DEVICE

    def __init__(self, pid: int, name: str = "lab device") -> None:
        super().__init__(name, enter(pid))
        self.pid = pid

    def open(self) -> None:
        if self.run("true").status:
            raise DutError(f"{self.name}: its namespaces cannot be entered", code="lab-failed")


def enter(pid: int) -> list[str]:
    """Return the command that runs another one in the namespaces of a process."""
    return ["nsenter", "-t", str(pid), "-n", "-m", "-p", "--"]
