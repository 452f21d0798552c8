"""Frames on the links of a device, and the scapy packets in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scapy.config import conf
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment
from scapy.packet import Packet, Raw
from v6t.audit.clause import Frame
from v6t.intent.device import Links
from v6t.plugins.audit_views import SideName
from v6t.plugins.reference_device import ETHERTYPE, link_headers

conf.debug_dissector = False
SIDES: tuple[SideName, SideName] = ("left", "right")
NOTHING = "nothing"
_NEIGHBOR_MESSAGES = (*range(130, 138), 143)
"""ICMPv6 types that devices send to their neighbors at any time: MLD and neighbor discovery."""
_PROTOCOLS = {1: "ICMP", 4: "IPv4", 6: "TCP", 17: "UDP", 41: "IPv6", 58: "ICMPv6"}
_ICMP_ERRORS = (3, 4, 5, 11, 12)


@dataclass(frozen=True)
class Wire:
    """The two links of a device."""

    links: Links

    def mtu(self, side: SideName) -> int:
        """Return the MTU of a link."""
        return int(getattr(self.links, side).mtu)

    def frame(self, side: SideName, packet: Packet | bytes) -> Frame:
        """Return the frame that carries a packet to the device."""
        octets = bytes(packet)
        head = link_headers(getattr(self.links, side)).arriving
        frame = head + ETHERTYPE[octets[0] >> 4] + octets
        return Frame(side, frame + bytes(max(0, 60 - len(frame))))

    def packets(self, side: SideName, frames: Iterable[Frame]) -> list[Packet]:
        """Return the IP packets that the device sent on a link, without its messages to neighbors."""
        parsed = [parse(body) for body in self._bodies(f for f in frames if f.side == side)]
        return [packet for packet in parsed if packet is not None and not _is_neighborly(packet)]

    def describe_bad_lengths(self, frames: Iterable[Frame]) -> str:
        """Describe the first IP packet whose lengths are wrong; empty if there is none."""
        for body in self._bodies(frames):
            if parse(body) is None:
                return f"a packet whose lengths are wrong: {body[:60].hex()}"
        return ""

    def describe(self, frames: Sequence[Frame]) -> str:
        """Describe what the device sent on both links."""
        sent = [f"{side}: {summary(p)}" for side in SIDES for p in self.packets(side, frames)]
        if malformed := self.describe_bad_lengths(frames):
            sent.append(malformed)
        return "; ".join(sent) or NOTHING

    def describe_sent(self, frames: Sequence[Frame]) -> str:
        """Describe what the tester sent: the first packet, and the number of further ones."""
        if not frames:
            return NOTHING
        head = link_headers(getattr(self.links, frames[0].side)).arriving
        packet = parse(frames[0].octets[len(head) + 2 :])
        words = "no valid packet" if packet is None else summary(packet)
        more = f", and {len(frames) - 1} more" if len(frames) > 1 else ""
        return f"{frames[0].side}: {words}{more}"

    def _bodies(self, frames: Iterable[Frame]) -> Iterable[bytes]:
        """Return what the IP frames of the device carry."""
        for frame in frames:
            head = link_headers(getattr(self.links, frame.side)).leaving
            at = len(head)
            if frame.octets[:at] == head and frame.octets[at : at + 2] in ETHERTYPE.values():
                yield frame.octets[at + 2 :]


def opposite(side: SideName) -> SideName:
    """Return the other link."""
    return "right" if side == "left" else "left"


def parse(octets: bytes) -> Packet | None:
    """Return the IP packet at the start of octets, without padding; None if its lengths are wrong."""
    if len(octets) >= 20 and octets[0] >> 4 == 4:
        header, length = 4 * (octets[0] & 15), int.from_bytes(octets[2:4], "big")
        return dissect(octets[:length]) if 20 <= header <= length <= len(octets) else None
    if len(octets) >= 40 and octets[0] >> 4 == 6:
        length = 40 + int.from_bytes(octets[4:6], "big")
        return dissect(octets[:length]) if length <= len(octets) else None
    return None


def dissect(octets: bytes) -> Packet:
    """Return an IP packet whose UDP and TCP data is not interpreted."""
    packet: Packet = IP(octets) if octets[0] >> 4 == 4 else IPv6(octets)
    layer = packet.getlayer(UDP) or packet.getlayer(TCP)
    if layer and layer.payload and not isinstance(layer.payload, Raw):
        data = layer.payload.original
        layer.remove_payload()
        layer.add_payload(Raw(data))
    return packet


def _last_header(packet: Packet) -> Packet:
    """Return the IPv4 header, or the IPv6 or extension header before the transport header."""
    if not isinstance(packet, IP):
        while packet.payload and "nh" in packet.payload.fields:
            packet = packet.payload
    return packet


def protocol_of(packet: Packet) -> int:
    """Return the protocol of an IP packet, behind IPv6 extension headers."""
    header = _last_header(packet)
    return int(header.proto if isinstance(header, IP) else header.nh)


def transport_octets(packet: Packet) -> bytes:
    """Return what follows the IP header and IPv6 extension headers."""
    return bytes(_last_header(packet).payload)


def inner_packet(packet: Packet) -> Packet | None:
    """Return the packet in a tunnel packet; None if there is none."""
    octets = transport_octets(packet)
    shortest = {4: 20, 41: 40}.get(protocol_of(packet))
    return dissect(octets) if shortest and len(octets) >= shortest else None


def fragment_offset(packet: Packet) -> int:
    """Return the offset of an IP fragment in octets."""
    if isinstance(packet, IP):
        return 8 * int(packet.frag)
    header = packet.getlayer(IPv6ExtHdrFragment)
    return 8 * int(header.offset) if header else 0


def has_more_fragments(packet: Packet) -> bool:
    """Return whether a packet is a fragment that others follow."""
    if isinstance(packet, IP):
        return bool(packet.flags.MF)
    header = packet.getlayer(IPv6ExtHdrFragment)
    return bool(header and header.m)


def join_fragments(fragments: Iterable[Packet]) -> bytes:
    """Return the data of fragments in the order of their offsets."""
    return b"".join(transport_octets(p) for p in sorted(fragments, key=fragment_offset))


def icmp_type(packet: Packet) -> tuple[int, int] | None:
    """Return type and code of an ICMP or ICMPv6 message; None for other packets."""
    if fragment_offset(packet):
        return None
    if isinstance(packet, IP):
        message = packet.getlayer(ICMP, 1) if packet.proto == 1 else None
        return (int(message.type), int(message.code)) if message else None
    octets = transport_octets(packet)
    return (octets[0], octets[1]) if protocol_of(packet) == 58 and len(octets) >= 4 else None


def is_icmp_error(packet: Packet) -> bool:
    """Return whether a packet is an ICMP or ICMPv6 error."""
    kind = icmp_type(packet)
    if kind is None:
        return False
    return kind[0] in _ICMP_ERRORS if isinstance(packet, IP) else 0 < kind[0] < 128


def ports_of(packet: Packet) -> tuple[int, int]:
    """Return source and destination port; for ICMP, the identifier twice."""
    octets = transport_octets(packet)
    if protocol_of(packet) in (1, 58):
        identifier = int.from_bytes(octets[4:6], "big")
        return identifier, identifier
    return int.from_bytes(octets[:2], "big"), int.from_bytes(octets[2:4], "big")


def summary(packet: Packet) -> str:
    """Describe a packet in one line."""
    four = isinstance(packet, IP)
    if (packet.len if four else packet.plen) is None:
        packet = type(packet)(bytes(packet))
    octets = int(packet.len) if four else 40 + int(packet.plen)
    protocol = protocol_of(packet)
    name = _PROTOCOLS.get(protocol, f"protocol {protocol}")
    kind = icmp_type(packet)
    if kind is not None:
        name += f" {kind[0]}/{kind[1]}"
    offset, more = fragment_offset(packet), has_more_fragments(packet)
    if offset or more:
        name += f", fragment at {offset}{', more follow' if more else ''}"
    return f"IPv{4 if four else 6} {packet.src} > {packet.dst}, {name}, {octets} octets"


def _is_neighborly(packet: Packet) -> bool:
    if isinstance(packet, IP):
        return 224 <= int(packet.dst.partition(".")[0]) < 240
    kind = icmp_type(packet)
    return packet.dst.startswith("ff") if kind is None else kind[0] in _NEIGHBOR_MESSAGES
