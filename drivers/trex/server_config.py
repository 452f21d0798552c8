"""The interfaces of a server that v6t starts, and its configuration file (``trex_cfg.yaml``, version 2)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from v6t.base.errors import InvalidValue
from v6t.drivers.placement import ThreadPlacement
from v6t.drivers.trex.client.af_packet import find_interface, is_linux

_MEMIF_END = {"id", "role", "socket", "socket-abstract"}
_PCI = re.compile(r"(?:[0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7]")
_PCI_LIKE = re.compile(r"(?:[0-9a-fA-F]+:)?[0-9a-fA-F]+:[0-9a-fA-F]+(?:\.[0-9a-fA-F]+)?(?:/\d+)?")
_VDEV = re.compile(r"--vdev=[A-Za-z0-9_.:@/=,-]+")


@dataclass(frozen=True)
class PortConfig:
    """One port: interface as TRex names it, own MAC address and the device's."""

    interface: str
    tester_mac: str
    dut_mac: str


def is_pci(interface: str) -> bool:
    """Whether an interface is a NIC by PCI address, which TRex binds to DPDK."""
    return _PCI.fullmatch(interface) is not None


def check_interface(name: str) -> None:
    """Refuse what TRex could not open, or what would become a port of an interface that cannot exist.

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


def find_device(interface: str) -> str:
    """Return the device behind an interface, equal for all spellings of it."""
    return full_address(interface) if is_pci(interface) else find_interface(interface)


def full_address(interface: str) -> str:
    """Return a PCI address with its domain, as the kernel writes it."""
    return (interface if interface.count(":") == 2 else f"0000:{interface}").lower()


def join_memif(memif: Sequence[str]) -> tuple[str, ...]:
    """Join two memif ports with each other, for the tester's self-test."""
    devices = []
    for port, role in zip(memif, ("server", "client"), strict=True):
        name, *words = port.split(",")
        kept = [w for w in words if w.partition("=")[0] not in _MEMIF_END]
        devices.append(",".join([name, "id=0", f"role={role}", "socket=v6t-cable", *kept]))
    return tuple(devices)


def make_config(
    ports: Sequence[PortConfig],
    placement: ThreadPlacement,
    *,
    sockets: Sequence[int] = (0,),
    rpc_port: int = 4501,
    pub_port: int = 4500,
    prefix: str = "v6t",
) -> str:
    """Make the text of the configuration file: TRex's own parser is particular about its form.

    Args:
        ports: left and right, pair after pair.
        placement: CPUs of its threads.
        sockets: NUMA node of each pair; the last one also for the pairs that follow.
        rpc_port: TCP port for requests.
        pub_port: TCP port for events.
        prefix: keeps DPDK's files apart from those of other servers.
    """
    names = ", ".join(f"'{p.interface}'" for p in ports)
    lines = [
        "- version: 2",
        f"  port_limit: {len(ports)}",
        f"  prefix: {prefix}",
        f"  zmq_pub_port: {pub_port}",
        f"  zmq_rpc_port: {rpc_port}",
        f"  interfaces: [{names}]",
        "  port_info:",
    ]
    for port in ports:
        lines += [f"    - src_mac: '{port.tester_mac}'", f"      dest_mac: '{port.dut_mac}'"]
    sending = placement.sending
    if placement.is_shared:  # TRex puts all threads on one CPU; they are moved when it runs
        lines += ["  low_end: true", f"  low_end_core: {sending[-1]}"]
    else:
        lines += [
            "  platform:",
            f"    master_thread_id: {placement.master}",
            f"    latency_thread_id: {placement.latency}",
            "    dual_if:",
        ]
        share = len(sending) * 2 // len(ports)
        for pair, first in enumerate(range(0, len(sending), share)):
            threads = ", ".join(map(str, sending[first : first + share]))
            lines += [
                f"      - socket: {sockets[min(pair, len(sockets) - 1)]}",
                f"        threads: [{threads}]",
            ]
    return "\n".join(lines) + "\n"
