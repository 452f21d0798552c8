"""The way to a device that is a set of namespaces of this machine."""

from __future__ import annotations

from v6t.base.errors import DutError
from v6t.drivers.transport.contract import ON_DEVICE
from v6t.drivers.transport.here import HereTransport


class NamespaceTransport(HereTransport):
    """Commands run as this user within the namespaces of a process."""

    where = ON_DEVICE

    def __init__(self, pid: int, name: str = "lab device") -> None:
        super().__init__(name, enter(pid))
        self.pid = pid

    def open(self) -> None:
        if self.run("true").status:
            raise DutError(f"{self.name}: its namespaces cannot be entered", code="lab-failed")


def enter(pid: int) -> list[str]:
    """Return the command that runs another one in the namespaces of a process."""
    return ["nsenter", "-t", str(pid), "-n", "-m", "-p", "--"]
