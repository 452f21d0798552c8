"""Behaviour that depends on the DPDK driver of TRex's ports: defaults, and a registry of drivers.

Runs in v6t and, sent as text, in the interpreter of TRex's client (Python 3.8, standard library only).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


class PortDriver:
    """Driver without special behaviour, such as those of NICs and memif; base of all others.

    Attributes:
        name: name that TRex reports; empty for the default driver.
        interface_form: form of its interfaces' names, for messages.
        cpu_limit: load of the data path above which a trial is invalid [%].
        uses_kernel: whether the kernel works for its ports, on the CPUs of TRex's threads.
    """

    name = interface_form = ""
    cpu_limit = 85.0
    uses_kernel = False

    def opens(self, interface: str) -> bool:
        """Whether TRex opens an interface, as a user names it, with this driver."""
        return False

    def find_conflict(self, interface: str, cores: int) -> tuple[str, ...]:
        """Return message, hint and settings if this number of cores cannot serve an interface."""
        return ()

    def find_device(self, interface: str) -> str:
        """Return the device behind an interface, equal for all spellings of it."""
        return interface

    def format_interface(self, number: int, interface: str, ring: dict[str, int]) -> str:
        """Return the entry for a port's interface in TRex's configuration; ``ring`` has ring sizes."""
        return interface

    def examine(self, interface: str) -> tuple[str, str] | None:
        """Check an interface of this host; return state and text, or None if TRex creates it."""
        return None

    def find_faults(
        self, client: Any, ports: list[int], count_arrivals: Callable[[], int]
    ) -> list[str]:
        """Find faults of the ports after a trial in which frames are missing.

        Args:
            client: TRex's client, connected.
            ports: ports that sent.
            count_arrivals: returns the number of frames that have arrived so far.
        """
        return []


_DEFAULT_DRIVER = PortDriver()
DRIVERS: list[PortDriver] = []  # Drivers with special behaviour, added by their modules


def find_driver(interface: str) -> PortDriver:
    """Return the driver with which TRex opens an interface, as a user names it."""
    return next((one for one in DRIVERS if one.opens(interface)), _DEFAULT_DRIVER)


def choose_driver(names: Iterable[str]) -> PortDriver:
    """Return the driver of ports by the names that TRex reports."""
    kernel_drivers = set(names)
    return next((one for one in DRIVERS if kernel_drivers == {one.name}), _DEFAULT_DRIVER)
