"""The way to a device that is a set of namespaces of this machine."""

from __future__ import annotations

import signal

from v6t.drivers.transport.contract import (
    DEADLINE_S,
    ConnectionLost,
    DeadlinePassed,
    Output,
    for_shell,
)
from v6t.drivers.transport.process import ProcessHeld, begin, finish
from v6t.profiles.errors import DutError


class NamespaceTransport:
    """Commands run as this user within the namespaces of a process."""

    def __init__(self, pid: int, name: str = "lab device") -> None:
        """Remember.

        Args:
            pid: a process in the network, process and mount namespaces of the device.
            name: for messages.
        """
        self.name = name
        self.condition = ""
        self._pid = pid

    def open(self) -> None:
        """Nothing to connect to; see whether it is there."""
        if self.run("true").status:
            raise DutError(f"{self.name}: its namespaces cannot be entered")

    def run(self, command: str, text: str = "", deadline_s: float | None = None) -> Output:
        """See :class:`v6t.drivers.transport.contract.Transport`."""
        limit = deadline_s or DEADLINE_S
        process = begin(self._words(command, self.condition))
        outputs = finish(process, text, limit)
        if outputs is None:
            raise DeadlinePassed(
                f"{self.name}: no end of a command after {limit:g} s: {command[:120]}"
            )
        if process.returncode == -signal.SIGKILL:
            raise ConnectionLost(f"{self.name}: it vanished during: {command[:120]}")
        return Output.of(self.name, process.returncode, *outputs)

    def hold(self, command: str) -> ProcessHeld:
        """See :class:`v6t.drivers.transport.contract.Transport`."""
        return ProcessHeld(self.name, begin(self._words(command)))

    def close(self) -> None:
        """Nothing to give back."""

    def _words(self, command: str, condition: str = "") -> list[str]:
        return [*enter(self._pid), "sh", "-c", for_shell(command, condition=condition)]


def enter(pid: int) -> list[str]:
    """The command that runs another one in the namespaces of a process."""
    return ["nsenter", "-t", str(pid), "-n", "-m", "-p", "--"]
