"""Frames on the links of a device, and the scapy packets in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scapy.config import conf
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment
from scapy.packet import Packet, Raw
from v6t.audit.probe import Frame
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

    def frame(self, side: SideName, packet: Packet | bytes) -> Frame:
        """Return the frame that carries a packet to the device."""
        octets = bytes(packet)
        head = link_headers(getattr(self.links, side)).arriving
        frame = head + ETHERTYPE[octets[0] >> 4] + octets
        return Frame(side, frame + bytes(max(0, 60 - len(frame))))

    def packets(self, side: SideName, frames: Iterable[Frame]) -> list[Packet]:
        """Return the IP packets that the device sent on a link, without its messages to neighbors."""
        packets = []
        for frame in frames:
            body = self._body(frame)
            packet = None if body is None or frame.side != side else parse(body)
            if packet is not None and not _is_neighborly(packet):
                packets.append(packet)
        return packets

    def describe_bad_lengths(self, frames: Iterable[Frame]) -> str:
        """Describe the first IP packet whose lengths are wrong; empty if there is none."""
        for frame in frames:
            body = self._body(frame)
            if body is not None and parse(body) is None:
                return f"a packet whose lengths are wrong: {body[:60].hex()}"
        return ""

    def describe(self, frames: Sequence[Frame]) -> str:
        """Describe what the device sent on both links."""
        packets = [
            f"{side}: {summary(packet)}" for side in SIDES for packet in self.packets(side, frames)
        ]
        malformed = self.describe_bad_lengths(frames)
        return "; ".join([*packets, *([malformed] if malformed else [])]) or NOTHING

    def describe_sent(self, frames: Sequence[Frame]) -> str:
        """Describe what the tester sent: the first packet, and the number of further ones."""
        if not frames:
            return NOTHING
        head = link_headers(getattr(self.links, frames[0].side)).arriving
        packet = parse(frames[0].octets[len(head) + 2 :])
        words = "no valid packet" if packet is None else summary(packet)
        more = f", and {len(frames) - 1} more" if len(frames) > 1 else ""
        return f"{frames[0].side}: {words}{more}"

    def _body(self, frame: Frame) -> bytes | None:
        """Return what an IP frame of the device carries; None for other frames."""
        head = link_headers(getattr(self.links, frame.side)).leaving
        kind = frame.octets[len(head) : len(head) + 2]
        if frame.octets[: len(head)] != head or kind not in ETHERTYPE.values():
            return None
        return frame.octets[len(head) + 2 :]


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


def protocol_of(packet: Packet) -> int:
    """Return the protocol of an IP packet, behind IPv6 extension headers."""
    if isinstance(packet, IP):
        return int(packet.proto)
    layer = packet
    while layer.payload and "nh" in layer.payload.fields:
        layer = layer.payload
    return int(layer.nh)


def fragment_offset(packet: Packet) -> int:
    """Return the offset of an IP fragment in octets."""
    if isinstance(packet, IP):
        return 8 * int(packet.frag)
    header = packet.getlayer(IPv6ExtHdrFragment)
    return 8 * int(header.offset) if header else 0


def icmp_type(packet: Packet) -> tuple[int, int] | None:
    """Return type and code of an ICMP or ICMPv6 message; None for other packets."""
    if fragment_offset(packet):
        return None
    if isinstance(packet, IP):
        message = packet.getlayer(ICMP, 1) if packet.proto == 1 else None
        return (int(message.type), int(message.code)) if message else None
    if protocol_of(packet) != 58:
        return None
    octets = transport_octets(packet)
    return (octets[0], octets[1]) if len(octets) >= 4 else None


def is_icmp_error(packet: Packet) -> bool:
    """Return whether a packet is an ICMP or ICMPv6 error."""
    kind = icmp_type(packet)
    if kind is None:
        return False
    return kind[0] in _ICMP_ERRORS if isinstance(packet, IP) else 0 < kind[0] < 128


def transport_octets(packet: Packet) -> bytes:
    """Return what follows the IP header and IPv6 extension headers."""
    if isinstance(packet, IP):
        return bytes(packet.payload)
    layer = packet
    while layer.payload and "nh" in layer.payload.fields:
        layer = layer.payload
    return bytes(layer.payload)


def ports_of(packet: Packet) -> tuple[int, int]:
    """Return source and destination port; for ICMP, the identifier twice."""
    octets = transport_octets(packet)
    if protocol_of(packet) in (1, 58):
        identifier = int.from_bytes(octets[4:6], "big")
        return identifier, identifier
    return int.from_bytes(octets[:2], "big"), int.from_bytes(octets[2:4], "big")


def summary(packet: Packet) -> str:
    """Describe a packet in one line."""
    version = 4 if isinstance(packet, IP) else 6
    length = packet.len if version == 4 else packet.plen
    if length is None:
        packet = type(packet)(bytes(packet))
    octets = int(packet.len) if version == 4 else 40 + int(packet.plen)
    protocol = protocol_of(packet)
    name = _PROTOCOLS.get(protocol, f"protocol {protocol}")
    kind = icmp_type(packet)
    if kind is not None:
        name += f" {kind[0]}/{kind[1]}"
    offset, more = fragment_offset(packet), has_more_fragments(packet)
    if offset or more:
        name += f", fragment at {offset}{', more follow' if more else ''}"
    return f"IPv{version} {packet.src} > {packet.dst}, {name}, {octets} octets"


def has_more_fragments(packet: Packet) -> bool:
    """Return whether a packet is a fragment that others follow."""
    if isinstance(packet, IP):
        return bool(packet.flags.MF)
    header = packet.getlayer(IPv6ExtHdrFragment)
    return bool(header and header.m)


def _is_neighborly(packet: Packet) -> bool:
    if isinstance(packet, IP):
        return 224 <= int(packet.dst.partition(".")[0]) < 240
    kind = icmp_type(packet)
    if kind is None:
        return packet.dst.startswith("ff")
    return kind[0] in _NEIGHBOR_MESSAGES
