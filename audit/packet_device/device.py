"""What all packet-level devices do: Ethernet, discards, routes, hop limits and ICMP errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from scapy.layers.l2 import Dot1Q, Ether
from v6t.audit import ip_packet as ip
from v6t.audit.ip_packet import Drop, IcmpError, IPPacket
from v6t.plugins.audit_views import Address, SideName

if TYPE_CHECKING:
    from v6t.intent.device import DeviceIntent, Link

HOP_LIMIT = 64
QUOTED_OCTETS = {4: 548, 6: 1232}
"""An ICMP error fits 576 octets of IPv4 (RFC 1812, section 4.3.2.3) and 1,280 of IPv6."""
TIME_EXCEEDED = {4: IcmpError(11), 6: IcmpError(3)}
SIDES: tuple[SideName, SideName] = ("left", "right")
Sent: TypeAlias = tuple[SideName, IPPacket]


class PacketDevice(ABC):
    """A device with two links that handles one frame at a time."""

    def __init__(self, intent: DeviceIntent, view: Any = None) -> None:
        """Take links, addresses and routes from what a technology wants of its device."""
        self.links, self.view = intent.links, view
        self.addresses: dict[tuple[SideName, int], Address] = {}
        self.routes = []
        for side in SIDES:
            settings = getattr(intent, side)
            for interface in settings.addresses:
                self.addresses.setdefault((side, interface.version), interface.ip)
            networks = (*(interface.network for interface in settings.addresses), *settings.routes)
            self.routes += [(network, side) for network in networks]
        self.now_s = 0.0
        self.reassembly = ip.Reassembly()

    def mtu(self, side: SideName) -> int:
        return int(getattr(self.links, side).mtu)

    def receive(
        self, side: SideName, frame: bytes, now_s: float = 0.0
    ) -> list[tuple[SideName, bytes]]:
        """Return the frames that the device sends because of one that arrived, without FCS.

        ``now_s`` is a time on a clock that never goes back.
        """
        self.now_s = now_s
        link = getattr(self.links, side)
        start = 14 if link.vlan is None else 18
        header = ethernet_header(link, 6 if frame[start : start + 1] >= b"\x60" else 4)
        is_for_device = frame[:6] == header[6:12] and frame[12:start] == header[12:]
        try:
            packet = ip.read_packet(frame[start:] if is_for_device else b"")
        except Drop:
            return []
        frames = []
        for out, sent in self.process(side, packet):
            header = ethernet_header(getattr(self.links, out), sent.version)
            frames.append((out, (header + bytes(sent)).ljust(60, b"\0")))
        return frames

    def flush(self) -> None:
        """Forget the device's connections and incomplete packets."""
        self.reassembly = ip.Reassembly()

    def reset(self) -> None:
        self.flush()

    def process(self, side: SideName, packet: IPPacket) -> list[Sent]:
        """Return the packets that leave because of one that arrived, ICMP errors included."""
        try:
            return list(self.forward(side, packet))
        except Drop as drop:
            return self.send_error(side, drop.about or packet, drop.error) if drop.error else []

    @abstractmethod
    def forward(self, side: SideName, packet: IPPacket) -> Iterable[Sent]:
        """Return the packets that leave because of one that arrived, or raise Drop."""

    def send_error(self, side: SideName, about: IPPacket, error: IcmpError) -> list[Sent]:
        """Return an ICMP error to a packet's source, if there may be one."""
        source = self.addresses.get((side, about.version))
        if source is None or not about.is_answerable:
            return []
        return [(side, error_packet(source, about, error))]

    def route(self, side: SideName, packet: IPPacket) -> list[Sent]:
        """Forward a packet by the longest route to its destination, but not back to its link."""
        matches = [(net.prefixlen, out) for net, out in self.routes if packet.dst in net]
        _, out = max(matches, default=(0, side))
        return [] if out == side else [(out, self.decrement(packet))]

    def decrement(self, packet: IPPacket) -> IPPacket:
        """Return the packet with its TTL or hop limit less one."""
        if packet.ttl <= 1:
            raise Drop(TIME_EXCEEDED[packet.version])
        return replace(packet, ttl=packet.ttl - 1)


def ethernet_header(link: Link, version: int) -> bytes:
    """Return the header of the device's frames with an IP version."""
    header = Ether(src=link.dut_mac, dst=link.tester_mac)
    if link.vlan is not None:
        header /= Dot1Q(vlan=link.vlan)
    header.lastlayer().type = 0x0800 if version == 4 else 0x86DD
    return bytes(header)


def error_packet(source: Address, about: IPPacket, error: IcmpError) -> IPPacket:
    """Return an ICMP error from an address of the device to the source of a packet."""
    packet = IPPacket(
        source, about.src, ip.ICMP4 if about.version == 4 else ip.ICMP6, ttl=HOP_LIMIT
    )
    return packet.with_message(bytes(error) + bytes(about)[: QUOTED_OCTETS[about.version]])


class RoutingDevice(PacketDevice):
    """A plain router."""

    def forward(self, side: SideName, packet: IPPacket) -> Iterable[Sent]:
        return self.route(side, packet)
