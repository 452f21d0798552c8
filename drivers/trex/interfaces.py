"""The interfaces of a server that v6t starts: PCI addresses, names of Linux, ``--vdev=...``."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from v6t.base.errors import InvalidValue
from v6t.drivers.trex.port_driver import DRIVERS, find_driver

with suppress(ImportError):  # without this module, its ports are not supported
    import v6t.drivers.trex.af_packet  # noqa: F401

_MEMIF_LINK_FIELDS = {"id", "role", "socket", "socket-abstract"}  # Fields that join two ports
_PCI = re.compile(r"(?:[0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7]")
_PCI_LIKE = re.compile(r"(?:[0-9a-fA-F]+:)?[0-9a-fA-F]+:[0-9a-fA-F]+(?:\.[0-9a-fA-F]+)?(?:/\d+)?")
_VDEV = re.compile(r"--vdev=[A-Za-z0-9_.:@/=,-]+")
_SOCKET_VDEV = re.compile(r"--vdev=\w+?_af_")  # Linux interface, by a socket of the kernel


def list_driver_files() -> Iterator[str]:
    """Yield the source files of port drivers, which the worker needs as well."""
    for driver in DRIVERS:
        yield type(driver).__module__.partition(".")[2].replace(".", "/") + ".py"


def is_pci(interface: str) -> bool:
    """Whether an interface is the PCI address of a NIC, which TRex binds to DPDK."""
    return _PCI.fullmatch(interface) is not None


def find_device(interface: str) -> str:
    """Return the device behind an interface, equal for all spellings of it."""
    if is_pci(interface):
        return make_full_address(interface)
    return find_driver(interface).find_device(interface)


def make_full_address(interface: str) -> str:
    """Return a PCI address with its domain, as the kernel writes it."""
    return (interface if interface.count(":") == 2 else f"0000:{interface}").lower()


def check_interface(name: str) -> None:
    """Check the form of an interface's name, or raise InvalidValue."""
    if _SOCKET_VDEV.match(name) and not find_driver(name).name:
        problem = f"'{name}' is a Linux interface, which this installation of v6t does not support"
        hint = "name PCI addresses or memif ports"
        raise InvalidValue(problem, hint, code="unsupported-by-tester")
    is_spelled_out = name.startswith("--")
    if _VDEV.fullmatch(name) if is_spelled_out else is_pci(name) or find_driver(name).name:
        return
    if name == "dummy":
        problem = "a dummy port carries no frames: name an interface"
        raise InvalidValue(problem, code="wrong-interface")
    if _PCI_LIKE.fullmatch(name) and "/" in name:
        problem = f"'{name}' is one of several ports of one PCI address, which v6t does not support"
        raise InvalidValue(problem, code="unsupported-by-tester")
    if _PCI_LIKE.fullmatch(name):
        problem = f"'{name}' is not a PCI address: write domain:bus:device.function (0000:03:00.0)"
        hint = "give the domain four digits or leave it out; devices end at 1f, functions at 7"
        raise InvalidValue(problem, hint, code="wrong-form")
    forms = ", ".join(["a PCI address", *(driver.interface_form for driver in DRIVERS)])
    problem = f"'{name}' is not an interface: write {forms} or --vdev=..."
    raise InvalidValue(problem, code="wrong-form")


def join_memif(memif: Sequence[str]) -> tuple[str, ...]:
    """Return two memif interfaces that are joined with each other, for the self-test."""
    devices = []
    for port, role in zip(memif, ("server", "client"), strict=True):
        name, *words = port.split(",")
        kept = [w for w in words if w.partition("=")[0] not in _MEMIF_LINK_FIELDS]
        devices.append(",".join([name, "id=0", f"role={role}", "socket=v6t-cable", *kept]))
    return tuple(devices)
