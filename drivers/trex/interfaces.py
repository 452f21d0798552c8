"""The interfaces of a server that v6t starts: PCI addresses, names of Linux, ``--vdev=...``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from v6t.base.errors import InvalidValue

_MEMIF_LINK_FIELDS = {"id", "role", "socket", "socket-abstract"}  # That join ports
_PCI = re.compile(r"(?:[0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7]")
_PCI_LIKE = re.compile(r"(?:[0-9a-fA-F]+:)?[0-9a-fA-F]+:[0-9a-fA-F]+(?:\.[0-9a-fA-F]+)?(?:/\d+)?")
_LINUX_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,15}")
_IFACE = re.compile(r",iface=([^,]+)")
_AF_PACKET = re.compile(r"--vdev=(?:net|eth)_af_packet")
_SEVERAL_QUEUES = re.compile(r",qpairs=(?!0*1(?:,|$))")
_FRAME_OCTETS, _LONG_FRAME_OCTETS, _BLOCK_OCTETS = 2048, 16_384, 65_536
_VDEV = re.compile(r"--vdev=[A-Za-z0-9_.:@/=,-]+")


def is_pci(interface: str) -> bool:
    """Whether an interface is a NIC by PCI address, which TRex binds to DPDK."""
    return _PCI.fullmatch(interface) is not None


def is_linux(interface: str) -> bool:
    """Whether an interface is one of Linux, by its name; TRex has it through DPDK's af_packet."""
    names_interface = _LINUX_NAME.fullmatch(interface) and not interface.startswith("-")
    return bool(names_interface) and interface not in (".", "..", "dummy")


def _uses_af_packet(interface: str) -> bool:
    return is_linux(interface) or _AF_PACKET.match(interface) is not None


def find_af_packet_limit(interface: str) -> str:
    """Return ``queues`` if TRex would not read all queues, ``cores`` if it uses one core, else nothing.

    TRex reads the first queue of an af_packet port alone, with one core, and the kernel spreads flows
    over all queues (PACKET_FANOUT), as long as there is room.
    """
    if not _uses_af_packet(interface):
        return ""
    return "queues" if _SEVERAL_QUEUES.search(interface) else "cores"


def find_device(interface: str) -> str:
    """Return the device behind an interface, equal for all spellings of it."""
    if is_pci(interface):
        return make_full_address(interface)
    named = _IFACE.search(interface) if _uses_af_packet(interface) else None
    return interface if named is None else named[1]


def make_full_address(interface: str) -> str:
    """Return a PCI address with its domain, as the kernel writes it."""
    return (interface if interface.count(":") == 2 else f"0000:{interface}").lower()


def make_port(number: int, interface: str, *, ring: int, mtu: int = 1500) -> str:
    """Return TRex's text for an interface; those of Linux have rings of ``ring`` frames.

    A plain name would become a port with DPDK's default rings. Longer frames than those of an MTU of
    1,792 octets need larger slots in the ring.
    """
    if not is_linux(interface):
        return interface
    slot = _FRAME_OCTETS if mtu <= _FRAME_OCTETS - 256 else _LONG_FRAME_OCTETS
    return (
        f"--vdev=net_af_packet{number},iface={interface},blocksz={_BLOCK_OCTETS},"
        f"framesz={slot},framecnt={ring}"
    )


def check_interface(name: str) -> None:
    """Check the form of an interface's name.

    Raises:
        InvalidValue: the reason.
    """
    if is_pci(name) or _VDEV.fullmatch(name) or is_linux(name):
        return
    if name == "dummy":
        raise InvalidValue(
            "a dummy port carries no frames: name an interface", code="wrong-interface"
        )
    if _PCI_LIKE.fullmatch(name) and "/" in name:
        raise InvalidValue(
            f"'{name}' is one of several ports behind one PCI address, which v6t does not support",
            code="unsupported-by-tester",
        )
    if _PCI_LIKE.fullmatch(name):
        raise InvalidValue(
            f"'{name}' is not a PCI address: write domain:bus:device.function, for example "
            "0000:03:00.0, with four digits or no domain, a device up to 1f and a function up to 7",
            code="wrong-form",
        )
    raise InvalidValue(
        f"'{name}' is not an interface: write a PCI address, a name of Linux (up to 15 letters, "
        "digits, and any of . _ @ -) or --vdev=...",
        code="wrong-form",
    )


def join_memif(memif: Sequence[str]) -> tuple[str, ...]:
    """Join two memif ports with each other, for the tester's self-test."""
    devices = []
    for port, role in zip(memif, ("server", "client"), strict=True):
        name, *words = port.split(",")
        kept = [w for w in words if w.partition("=")[0] not in _MEMIF_LINK_FIELDS]
        devices.append(",".join([name, "id=0", f"role={role}", "socket=v6t-cable", *kept]))
    return tuple(devices)
