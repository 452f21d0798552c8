"""Frames on the links of a device, and the scapy packets in them: build, read, describe and compare them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from scapy.config import conf
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoReply, ICMPv6EchoRequest, IPv6, IPv6ExtHdrFragment
from scapy.packet import NoPayload, Packet, Raw
from scapy.utils import checksum
from v6t.audit.clause import Frame
from v6t.intent.device import Links
from v6t.plugins.audit_views import SideName
from v6t.plugins.reference_device import ETHERTYPE, link_headers

conf.debug_dissector = False
SIDES: tuple[SideName, SideName] = ("left", "right")
NOTHING = "nothing"
TTL = 61
"""TTL of sent packets: neither a usual default nor a value that a device could write itself."""
INNER_TTL = 7
"""TTL of a packet that an ICMP error quotes; translators do not decrement it."""
DATA = b"v6t audit payload "
PORT, SERVER_PORT = 40123, 443
PROTOCOLS = {"udp": 17, "tcp": 6, "icmp": 1}
_PROTOCOL_NAMES = {1: "ICMP", 4: "IPv4", 6: "TCP", 17: "UDP", 41: "IPv6", 58: "ICMPv6"}
_CHECKSUM_OFFSETS = {1: 2, 6: 16, 17: 6, 58: 2}
_NEIGHBOR_MESSAGES = (*range(130, 138), 143)
"""ICMPv6 types that devices send to their neighbors at any time: MLD and neighbor discovery."""


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
        head = link_headers(getattr(self.links, side)).ingress
        return Frame(side, (head + ETHERTYPE[octets[0] >> 4] + octets).ljust(60, b"\0"))

    def packets(self, side: SideName, frames: Iterable[Frame]) -> list[Packet]:
        """Return the IP packets that the device sent on a link, without its messages to neighbors."""
        parsed = map(parse, self._bodies(f for f in frames if f.side == side))
        return [packet for packet in parsed if packet is not None and not _is_neighborly(packet)]

    def describe_bad_lengths(self, frames: Iterable[Frame]) -> str:
        """Describe the first IP packet whose lengths are wrong; empty if there is none."""
        wrong = (body for body in self._bodies(frames) if parse(body) is None)
        return next((f"a packet whose lengths are wrong: {body[:60].hex()}" for body in wrong), "")

    def describe(self, frames: Sequence[Frame]) -> str:
        """Describe what the device sent on both links."""
        sent = [f"{side}: {summary(p)}" for side in SIDES for p in self.packets(side, frames)]
        if malformed := self.describe_bad_lengths(frames):
            sent.append(malformed)
        return "; ".join(sent) or NOTHING

    def describe_sent(self, frames: Sequence[Frame]) -> str:
        """Describe what the tester sent: the first packet, and the number of further ones."""
        head = link_headers(getattr(self.links, frames[0].side)).ingress
        packet = parse(frames[0].octets[len(head) + 2 :])
        words = "no valid packet" if packet is None else summary(packet)
        more = f", and {len(frames) - 1} more" if len(frames) > 1 else ""
        return f"{frames[0].side}: {words}{more}"

    def _bodies(self, frames: Iterable[Frame]) -> Iterable[bytes]:
        """Return what the IP frames of the device carry."""
        for frame in frames:
            head = link_headers(getattr(self.links, frame.side)).egress
            at = len(head)
            if frame.octets[:at] == head and frame.octets[at : at + 2] in ETHERTYPE.values():
                yield frame.octets[at + 2 :]


def opposite(side: SideName) -> SideName:
    """Return the other link."""
    return "right" if side == "left" else "left"


def data(length: int) -> bytes:
    """Return payload in which no two neighboring words are equal."""
    words = b"".join(number.to_bytes(2, "big") for number in range((length + 1) // 2))
    return (DATA + words)[:length]


def ip(version: int, **fields: Any) -> Packet:
    """Return an IP header; ``ttl`` and ``tos`` are the hop limit and traffic class of IPv6."""
    if version == 4:
        return IP(**fields)
    names = {"ttl": "hlim", "tos": "tc"}
    return IPv6(**{names.get(name, name): value for name, value in fields.items()})


def header(source: object, destination: object, **fields: Any) -> Packet:
    """Return the IP header of a packet to send; see :func:`ip`."""
    ends = {"src": str(source), "dst": str(destination)}
    return ip(ip_address(ends["src"]).version, **{**ends, "ttl": TTL, **fields})


def transport(protocol: str, source: int, destination: int, version: int = 4) -> Packet:
    """Return a datagram, a SYN or an echo, a reply if it comes from the server's port."""
    if protocol == "tcp":
        return TCP(sport=source, dport=destination, seq=0x01020304)
    if protocol == "udp":
        return UDP(sport=source, dport=destination) / Raw(DATA)
    is_reply = source == SERVER_PORT
    identifier = destination if is_reply else source
    if version == 4:
        return ICMP(type=0 if is_reply else 8, id=identifier, seq=1) / Raw(DATA)
    return (ICMPv6EchoReply if is_reply else ICMPv6EchoRequest)(id=identifier, seq=1, data=DATA)


def parse(octets: bytes) -> Packet | None:
    """Return the IP packet at the start of octets, without padding; None if its lengths are wrong."""
    if len(octets) < 20 or octets[0] >> 4 not in (4, 6):
        return None
    if octets[0] >> 4 == 4:
        start, length = 4 * (octets[0] & 15), int.from_bytes(octets[2:4], "big")
    else:
        start, length = 40, 40 + int.from_bytes(octets[4:6], "big")
    return dissect(octets[:length]) if 20 <= start <= length <= len(octets) else None


def dissect(octets: bytes) -> Packet:
    """Return an IP packet whose UDP and TCP data is not interpreted."""
    packet: Packet = IP(octets) if octets[0] >> 4 == 4 else IPv6(octets)
    layer = packet.getlayer(UDP) or packet.getlayer(TCP)
    if layer and layer.payload and not isinstance(layer.payload, Raw):
        payload = layer.payload.original
        layer.remove_payload()
        layer.add_payload(Raw(payload))
    return packet


def _last_header(packet: Packet) -> Packet:
    """Return the IPv4 header, or the IPv6 or extension header before the transport header."""
    if not isinstance(packet, IP):
        while packet.payload and "nh" in packet.payload.fields:
            packet = packet.payload
    return packet


def protocol_of(packet: Packet) -> int:
    """Return the protocol of an IP packet, behind IPv6 extension headers."""
    last = _last_header(packet)
    return int(last.proto if isinstance(last, IP) else last.nh)


def transport_octets(packet: Packet) -> bytes:
    """Return what follows the IP header and IPv6 extension headers."""
    return bytes(_last_header(packet).payload)


def inner_packet(packet: Packet) -> Packet | None:
    """Return the packet in a tunnel packet; None if there is none."""
    octets = transport_octets(packet)
    shortest = {4: 20, 41: 40}.get(protocol_of(packet))
    return dissect(octets) if shortest and len(octets) >= shortest else None


def quoted_packet(packet: Packet) -> Packet | None:
    """Return the packet that an ICMP error quotes; None if there is none."""
    octets = transport_octets(packet)[8:]
    return dissect(octets) if len(octets) >= 20 else None


def fragment_place(packet: Packet) -> tuple[int, bool]:
    """Return the offset of an IP fragment in octets, and whether others follow."""
    if isinstance(packet, IP):
        return 8 * int(packet.frag), bool(packet.flags.MF)
    part = packet.getlayer(IPv6ExtHdrFragment)
    return (8 * int(part.offset), bool(part.m)) if part else (0, False)


def join_fragments(fragments: Iterable[Packet]) -> bytes:
    """Return the data of fragments in the order of their offsets."""
    return b"".join(transport_octets(p) for p in sorted(fragments, key=fragment_place))


def icmp_type(packet: Packet) -> tuple[int, int] | None:
    """Return type and code of an ICMP or ICMPv6 message; None for other packets."""
    octets, number = transport_octets(packet), 1 if isinstance(packet, IP) else 58
    if protocol_of(packet) != number or fragment_place(packet)[0] or len(octets) < 4:
        return None
    return octets[0], octets[1]


def is_icmp_error(packet: Packet) -> bool:
    """Return whether a packet is an ICMP or ICMPv6 error."""
    kind = icmp_type(packet)
    errors = (3, 4, 5, 11, 12) if isinstance(packet, IP) else range(1, 128)
    return kind is not None and kind[0] in errors


def ports_of(packet: Packet) -> tuple[int, int]:
    """Return source and destination port; for ICMP, the identifier twice."""
    octets = transport_octets(packet)
    places = (slice(4, 6),) * 2 if protocol_of(packet) in (1, 58) else (slice(2), slice(2, 4))
    source, destination = (int.from_bytes(octets[place], "big") for place in places)
    return source, destination


def summary(packet: Packet) -> str:
    """Describe a packet that was read in one line."""
    protocol, kind, (offset, more) = protocol_of(packet), icmp_type(packet), fragment_place(packet)
    name = _PROTOCOL_NAMES.get(protocol, f"protocol {protocol}")
    if kind is not None:
        name += f" {kind[0]}/{kind[1]}"
    if offset or more:
        name += f", fragment at {offset}{', more follow' if more else ''}"
    octets = len(packet.original)
    return f"IPv{packet.version} {packet.src} > {packet.dst}, {name}, {octets} octets"


def _is_neighborly(packet: Packet) -> bool:
    if isinstance(packet, IP):
        return bool(ip_address(packet.dst).is_multicast)
    kind = icmp_type(packet)
    return packet.dst.startswith("ff") if kind is None else kind[0] in _NEIGHBOR_MESSAGES


@dataclass(frozen=True)
class Condition:
    """A condition that a field of a template must fulfil."""

    words: str
    holds: Callable[[Any], bool]

    def __str__(self) -> str:
        return self.words


def allow(template: Packet, **fields: Condition | tuple[Any, ...]) -> Packet:
    """Return a template with fields that fulfil a condition, or have one of several values."""
    changed = template.copy()
    changed.fields.update(fields)
    return changed


def difference(template: Packet, packet: Packet) -> str:
    """Describe the first field that a template sets and that differs; empty if the packet matches.

    Extension headers before a packet in a tunnel do not count.
    """
    expected, layer = template, packet
    while not isinstance(expected, NoPayload):
        is_inner = isinstance(expected, (IP, IPv6)) and expected is not template
        while is_inner and "nh" in layer.fields and not isinstance(layer, IPv6):
            layer = layer.payload
        if not isinstance(layer, type(expected)):
            return f"{layer.name or 'no payload'} instead of {expected.name}"
        for name, value in _set_fields(expected).items():
            seen = layer.getfieldval(name)
            if not _equals(name, seen, value):
                words = f"{format_value(seen)}, not {format_value(value)}"
                return f"{expected.name}.{name} is {words}"
        expected, layer = expected.payload, layer.payload
    return ""


def describe_template(template: Packet) -> str:
    """Describe the fields that a template sets, layer by layer."""
    layers = []
    for layer in template.iterpayloads():
        fields = ", ".join(
            f"{name} {f'of {len(value)} octets' if isinstance(value, bytes) else format_value(value)}"
            for name, value in _set_fields(layer).items()
        )
        layers.append(f"{layer.name} ({fields})" if fields else layer.name)
    return " / ".join(layers)


def format_value(value: Any) -> str:
    """Return the value of a field, octets in hexadecimal."""
    if isinstance(value, bytes):
        return value[:24].hex() + ("..." if len(value) > 24 else "")
    return " or ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def checksum_error(packet: Packet, *, quoted: bool = False) -> str:
    """Describe the first wrong checksum; ``quoted``: also in the packet that an ICMP error quotes."""
    wrong = _own_checksum_error(packet)
    if wrong or not quoted:
        return wrong
    inner = quoted_packet(packet)
    if inner is None:
        return "no packet is quoted"
    wrong = _own_checksum_error(inner)
    return f"quoted packet: {wrong}" if wrong else ""


def _own_checksum_error(packet: Packet) -> str:
    if isinstance(packet, IP) and checksum(bytes(packet)[: 4 * packet.ihl]):
        return "the IPv4 header checksum is wrong"
    protocol, octets = protocol_of(packet), transport_octets(packet)
    offset = _CHECKSUM_OFFSETS.get(protocol)
    length = packet.len if isinstance(packet, IP) else 40 + packet.plen
    complete = len(packet.original or bytes(packet)) >= length
    if offset is None or fragment_place(packet) != (0, False) or not complete:
        return ""
    if len(octets) < offset + 2:
        return "the transport header is incomplete"
    if protocol == 17 and octets[6:8] == b"\0\0":
        return "" if isinstance(packet, IP) else "the UDP checksum is zero"
    pseudo = b""
    if protocol != 1:
        ends = ip_address(packet.src).packed + ip_address(packet.dst).packed
        pseudo = ends + len(octets).to_bytes(4, "big") + protocol.to_bytes(4, "big")
    return "the transport checksum is wrong" if checksum(pseudo + octets) else ""


def _set_fields(layer: Packet) -> dict[str, Any]:
    """Return the fields that a template sets; scapy creates empty lists in every packet."""
    return {n: v for n, v in layer.fields.items() if v or not isinstance(v, list)}


def _equals(name: str, seen: Any, value: Any) -> bool:
    if isinstance(value, Condition):
        return value.holds(seen)
    if isinstance(value, tuple):
        return any(_equals(name, seen, each) for each in value)
    if name in ("src", "dst"):
        return ip_address(seen) == ip_address(value)
    return bool(seen == value)
