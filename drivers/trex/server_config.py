"""The configuration file of a server that v6t starts (``/etc/trex_cfg.yaml``'s format, version 2).

Written as text: it is a dozen lines, and TRex's own parser is particular about their form.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from v6t.base.errors import EnvironmentLacking, InvalidValue

RING_FRAMES = 8192
"""Frames of a ring between TRex and a Linux interface. With DPDK's own 512 the ring overflows while
the data path waits for a CPU; more than 8,192 carried no more through a kernel router."""
_FRAME_OCTETS = 2048
_LONG_FRAME_OCTETS = 16_384
_BLOCK_OCTETS = 65_536

_MEMIF_END = {"id", "role", "socket", "socket-abstract"}
_PCI = re.compile(r"(?:[0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7]")
_PCI_LIKE = re.compile(r"(?:[0-9a-fA-F]+:)?[0-9a-fA-F]+:[0-9a-fA-F]+(?:\.[0-9a-fA-F]+)?(?:/\d+)?")
_LINUX_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,15}")
_VDEV = re.compile(r"--vdev=[A-Za-z0-9_.:@/=,-]+")
_IFACE = re.compile(r",iface=([^,]+)")
_AF_PACKET = re.compile(r"--vdev=(?:net|eth)_af_packet")
_SEVERAL_QUEUES = re.compile(r",qpairs=(?!0*1(?:,|$))")


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
    if is_pci(name) or _VDEV.fullmatch(name):
        return
    if name == "dummy":
        raise InvalidValue(
            "a dummy port carries no frames: name an interface", code="wrong-interface"
        )
    if _PCI_LIKE.fullmatch(name):
        if "/" in name:
            raise InvalidValue(
                f"'{name}' is one of several ports behind one PCI address, which v6t does not support",
                code="unsupported-by-tester",
            )
        raise InvalidValue(
            f"'{name}' is not a PCI address: write domain:bus:device.function, for example "
            "0000:03:00.0, with four digits or no domain, a device up to 1f and a function up to 7",
            code="wrong-form",
        )
    if name.startswith("-") or name in (".", "..") or not _LINUX_NAME.fullmatch(name):
        raise InvalidValue(
            f"'{name}' is not an interface: write a PCI address, a name of Linux (up to 15 letters, "
            "digits, and any of . _ @ -) or --vdev=...",
            code="wrong-form",
        )


def device_of(interface: str) -> str:
    """The device behind an interface, equal for all spellings of it."""
    if is_pci(interface):
        return full_address(interface)
    if through_af_packet(interface) and (named := _IFACE.search(interface)):
        return named[1]
    return interface


def is_linux(interface: str) -> bool:
    """Whether an interface is one of Linux, which TRex has through af_packet."""
    return not (is_pci(interface) or interface.startswith("--") or interface == "dummy")


def through_af_packet(interface: str) -> bool:
    """Whether TRex has an interface through af_packet, be it named or spelled out as a port."""
    return is_linux(interface) or _AF_PACKET.match(interface) is not None


def queues_unread(interface: str) -> bool:
    """Whether an af_packet port would have queues that nobody reads: TRex uses the first alone.

    The kernel spreads flows over the queues of such a port (PACKET_FANOUT), as long as there is room.
    """
    return through_af_packet(interface) and _SEVERAL_QUEUES.search(interface) is not None


def full_address(interface: str) -> str:
    """A PCI address with its domain, as the kernel writes it."""
    return (interface if interface.count(":") == 2 else f"0000:{interface}").lower()


def linux_port(number: int, interface: str, *, ring: int = RING_FRAMES, mtu: int = 1500) -> str:
    """How TRex is told of an interface: those of Linux get rings long enough for a busy machine.

    A plain name would become DPDK's af_packet port with its default rings. PCI addresses and
    ``--vdev=...`` are the user's own words and stay.

    Args:
        number: of the port, unique among TRex's.
        interface: PCI address, name or ``--vdev=...``.
        ring: frames of the receive ring, and of the send ring.
        mtu: octets of IP packet; longer frames need larger slots in the ring.
    """
    if not is_linux(interface):
        return interface
    slot = _FRAME_OCTETS if mtu <= _FRAME_OCTETS - 256 else _LONG_FRAME_OCTETS
    return (
        f"--vdev=net_af_packet{number},iface={interface},blocksz={_BLOCK_OCTETS},"
        f"framesz={slot},framecnt={ring}"
    )


def joined(memif: Sequence[str]) -> tuple[str, ...]:
    """The same two memif ports with each other at the other end, for the tester's self-test."""
    devices = []
    for port, role in zip(memif, ("server", "client"), strict=True):
        name, *words = port.split(",")
        own = [w for w in words if w.partition("=")[0] not in _MEMIF_END]
        devices.append(",".join([name, "id=0", f"role={role}", "socket=v6t-cable", *own]))
    return tuple(devices)


def core_plan(
    cores: int, available: Sequence[int], wanted: Sequence[int] = (), *, sharing: bool = True
) -> list[int]:
    """CPU numbers: master, latency, then data path cores.

    Where there are too few, the data path gets the last one for itself, as the kernel does most of
    the work for Linux interfaces on the CPU that sends.

    Args:
        cores: data path cores wanted.
        available: CPU numbers this process may use.
        wanted: what the user wants instead.
        sharing: threads may share a CPU if there are too few.

    Raises:
        EnvironmentLacking: several data path cores on a machine without them.
    """
    if wanted:
        return list(wanted)
    if len(available) >= cores + 2:
        return list(available[: cores + 2])
    if not sharing:
        raise EnvironmentLacking(
            f"{cores} data path cores need {cores + 2} CPUs, this machine offers {len(available)}",
            "ask for fewer cores",
            code="resource-missing",
        )
    return [available[0]] * 2 + [available[-1]] * cores


def shared(plan: Sequence[int]) -> bool:
    """Whether threads share a CPU: TRex can do that in its ``low_end`` mode only."""
    return len(set(plan)) < len(plan)


def forwarding_cpus(plan: Sequence[int], available: Sequence[int]) -> list[int]:
    """CPUs where the kernel should forward what TRex sends on interfaces of the lab; empty: any.

    A veth device hands frames over on the CPU that sends them, which has most to do already where
    TRex's threads share CPUs.

    Args:
        plan: see :func:`core_plan`.
        available: CPU numbers this process may use.
    """
    if not shared(plan):
        return []
    return [cpu for cpu in available if cpu not in plan[2:]]


def server_config(
    ports: Sequence[PortConfig],
    plan: Sequence[int],
    *,
    sockets: Sequence[int] = (0,),
    rpc_port: int = 4501,
    pub_port: int = 4500,
    prefix: str = "v6t",
) -> str:
    """Text of the configuration file.

    Args:
        ports: left and right, pair after pair.
        plan: see :func:`core_plan`.
        sockets: NUMA node of each pair; the last one also for the pairs that follow.
        rpc_port: where the server answers requests.
        pub_port: where it publishes events.
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
    if shared(plan):  # TRex puts all threads on one CPU; they are moved when it runs
        lines += ["  low_end: true", f"  low_end_core: {plan[-1]}"]
    else:
        master, latency, *threads = plan
        share = len(threads) * 2 // len(ports)
        lines += [
            "  platform:",
            f"    master_thread_id: {master}",
            f"    latency_thread_id: {latency}",
            "    dual_if:",
        ]
        for pair, first in enumerate(range(0, len(threads), share)):
            socket = sockets[min(pair, len(sockets) - 1)]
            lines += [
                f"      - socket: {socket}",
                f"        threads: [{', '.join(map(str, threads[first : first + share]))}]",
            ]
    return "\n".join(lines) + "\n"
