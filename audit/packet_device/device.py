"""What all packet-level devices do: Ethernet, discards, routes, hop limits and ICMP errors."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeAlias

from v6t.audit import ip_packet as ip
from v6t.audit.clause import SIDES
from v6t.audit.ip_packet import Drop, IcmpError, IPPacket
from v6t.audit.packets import Wire
from v6t.intent.device import DeviceIntent
from v6t.plugins.audit_views import Address, SideName
from v6t.plugins.reference_device import ETHERTYPE, make_link_headers

HOP_LIMIT = 64
QUOTED_OCTETS = {4: 548, 6: 1232}  # errors have 576 (RFC 1812, section 4.3.2.3) or 1,280 octets
TIME_EXCEEDED = {4: IcmpError(11), 6: IcmpError(3)}
Sent: TypeAlias = tuple[SideName, IPPacket]


class PacketDevice:
    """A device with two links that handles one frame at a time; this base class is a router."""

    def __init__(self, intent: DeviceIntent, view: Any = None) -> None:
        self.links, self.view, self.mtu = intent.links, view, Wire(intent.links).mtu
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

    def receive(
        self, side: SideName, frame: bytes, now_s: float = 0.0
    ) -> list[tuple[SideName, bytes]]:
        """Return the frames (without FCS) that the device sends in response to a received frame."""
        self.now_s = now_s
        head = make_link_headers(getattr(self.links, side)).ingress
        start = len(head) + 2
        tag = head[12:] + ETHERTYPE[6 if frame[start : start + 1] >= b"\x60" else 4]
        try:
            is_for_device = frame[:6] == head[:6] and frame[12:start] == tag
            packet = ip.read_packet(frame[start:] if is_for_device else b"")
        except Drop:
            return []
        frames = []
        for out, sent in self.process(side, packet):
            head = make_link_headers(getattr(self.links, out)).egress
            frames.append((out, (head + ETHERTYPE[sent.version] + bytes(sent)).ljust(60, b"\0")))
        return frames

    def flush(self) -> None:
        self.reassembly = ip.Reassembly()

    def reset(self) -> None:
        self.flush()

    def process(self, side: SideName, packet: IPPacket) -> list[Sent]:
        try:
            return [sent for out, p in self.forward(side, packet) for sent in self.fit(out, p)]
        except Drop as drop:
            return self.send_error(side, drop.about or packet, drop.error) if drop.error else []

    def fit(self, side: SideName, packet: IPPacket) -> list[Sent]:
        """Return a packet or its fragments, as the link requires, or raise Drop with an ICMP error."""
        mtu = self.mtu(side)
        if len(packet) > mtu and (packet.df or packet.version == 6):
            raise Drop(ip.make_too_big_error(packet.version, mtu))
        return [(side, piece) for piece in ip.fragment(packet, mtu)]

    def forward(self, side: SideName, packet: IPPacket) -> Iterable[Sent]:
        """Return the packets that the device sends in response to a received packet, or raise Drop."""
        return self.route(side, packet)

    def send_error(self, side: SideName, about: IPPacket, error: IcmpError) -> list[Sent]:
        source = self.addresses.get((side, about.version))
        can_answer = source is not None and about.is_answerable
        return [(side, build_error_packet(source, about, error))] if can_answer else []

    def route(self, side: SideName, packet: IPPacket) -> list[Sent]:
        """Forward a packet by the longest matching route, but not back to the link it came from."""
        matches = [(net.prefixlen, out) for net, out in self.routes if packet.dst in net]
        _, out = max(matches, default=(0, side))
        return [] if out == side else [(out, self.decrement(packet))]

    def decrement(self, packet: IPPacket) -> IPPacket:
        if packet.ttl <= 1:
            raise Drop(TIME_EXCEEDED[packet.version])
        return replace(packet, ttl=packet.ttl - 1)


def build_error_packet(source: Address, about: IPPacket, error: IcmpError) -> IPPacket:
    """Return the device's ICMP error to the source of a packet."""
    packet = IPPacket(source, about.src, ip.ICMP[about.version], ttl=HOP_LIMIT)
    return packet.with_message(bytes(error) + bytes(about)[: QUOTED_OCTETS[about.version]])
