"""Frames on the links of a device, and the scapy packets in them: build, read, describe and compare them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, TypeAlias

from scapy.config import conf
from scapy.layers.inet import ICMP, IP, TCP, UDP, fragment
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment, fragment6, icmp6typescls
from scapy.packet import NoPayload, Packet, Raw
from v6t.audit.clause import SIDES, Frame
from v6t.audit.ip_packet import IPPacket, find_packet, read_header
from v6t.intent.device import Links
from v6t.plugins.audit_views import Address, SideName
from v6t.plugins.reference_device import ETHERTYPE, make_link_headers

conf.debug_dissector = False
NOTHING = "nothing"
TTL = 61  # of sent packets: neither common defaults nor values that devices write
INNER_TTL = 7  # TTL of a packet that an ICMP error quotes; translators do not decrement it
DATA = b"v6t audit payload "
PORT, SERVER_PORT = 40123, 443
_PROTOCOL_NAMES = {1: "ICMP", 4: "IPv4", 6: "TCP", 17: "UDP", 41: "IPv6", 58: "ICMPv6"}
End: TypeAlias = tuple[Address, int]
_NEIGHBOR_MESSAGES = (*range(130, 138), 143)  # ICMPv6 types of MLD and neighbor discovery


@dataclass(frozen=True)
class Wire:
    """The two links of a device."""

    links: Links

    def mtu(self, side: SideName) -> int:
        return int(getattr(self.links, side).mtu)

    def frame(self, side: SideName, packet: Packet | bytes) -> Frame:
        octets = bytes(packet)
        head = make_link_headers(getattr(self.links, side)).ingress
        return Frame(side, (head + ETHERTYPE[octets[0] >> 4] + octets).ljust(60, b"\0"))

    def octets(self, side: SideName, frames: Iterable[Frame]) -> list[bytes]:
        """Return the IP packets that the device sent on a link, except neighbor discovery."""
        packets = map(trim, self._bodies(f for f in frames if f.side == side))
        return [octets for octets in packets if octets and not _is_neighborly(read_header(octets))]

    def packets(self, side: SideName, frames: Iterable[Frame]) -> list[IPPacket]:
        return list(map(read_header, self.octets(side, frames)))

    def describe_bad_lengths(self, frames: Iterable[Frame]) -> str:
        wrong = (body for body in self._bodies(frames) if not trim(body))
        return next((f"a packet whose lengths are wrong: {body[:60].hex()}" for body in wrong), "")

    def describe(self, frames: Sequence[Frame]) -> str:
        sent = [f"{side}: {summary(p)}" for side in SIDES for p in self.packets(side, frames)]
        return "; ".join(filter(None, (*sent, self.describe_bad_lengths(frames)))) or NOTHING

    def describe_sent(self, frames: Sequence[Frame]) -> str:
        """Describe what the tester sent: the first packet, and the number of further ones."""
        head = make_link_headers(getattr(self.links, frames[0].side)).ingress
        octets = trim(frames[0].octets[len(head) + 2 :])
        words = summary(read_header(octets)) if octets else "no valid packet"
        more = f", and {len(frames) - 1} more" if len(frames) > 1 else ""
        return f"{frames[0].side}: {words}{more}"

    def _bodies(self, frames: Iterable[Frame]) -> Iterator[bytes]:
        for frame in frames:
            head = make_link_headers(getattr(self.links, frame.side)).egress
            at = len(head)
            if frame.octets[:at] == head and frame.octets[at : at + 2] in ETHERTYPE.values():
                yield frame.octets[at + 2 :]


def data(length: int) -> bytes:
    """Return a payload whose adjacent 16-bit words differ."""
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


def transport(
    protocol: str, source: int, target: int, version: int = 4, *, is_reply: bool | None = None
) -> Packet:
    """Return a UDP datagram, SYN or ICMP echo; by default, an echo from the server's port is a reply."""
    if protocol == "tcp":
        return TCP(sport=source, dport=target, seq=0x01020304)
    if protocol == "udp":
        return UDP(sport=source, dport=target) / Raw(DATA)
    is_reply = source == SERVER_PORT if is_reply is None else is_reply
    fields = {"id": target if is_reply else source, "seq": 1}
    if version == 4:
        return ICMP(type=0 if is_reply else 8, **fields) / Raw(DATA)
    return icmp6(129 if is_reply else 128, **fields, data=DATA)


def datagram(source: End, target: End, payload: bytes = DATA, **fields: Any) -> Packet:
    """Return a UDP packet to send between two addresses and ports."""
    udp = UDP(sport=source[1], dport=target[1])
    return header(source[0], target[0], **fields) / udp / Raw(payload)


def split(packet: Packet, size: int, identification: int) -> list[Packet]:
    """Fragment a packet; every fragment but the last has ``size`` octets of data."""
    if packet.version == 4:
        packet.id = identification
        return fragment(packet, size)
    rest = packet.payload
    packet.remove_payload()
    return fragment6(packet / IPv6ExtHdrFragment(id=identification) / rest, 48 + size)


def icmp6(kind: int, **fields: Any) -> Packet:
    """Return an ICMPv6 message of a type, for sending or as a template."""
    return icmp6typescls[kind](**fields)


def icmp(version: int, kind: int, **fields: Any) -> Packet:
    """Return an ICMP or ICMPv6 message of a type."""
    return ICMP(type=kind, **fields) if version == 4 else icmp6(kind, **fields)


def trim(octets: bytes) -> bytes:
    """Return the IP packet at the start of octets, without padding; empty if its lengths are wrong."""
    packet = find_packet(octets)
    if packet is None or packet.missing > 0:
        return b""
    whole = octets[: len(octets) + packet.missing]
    return whole if find_packet(whole) else b""


def dissect(octets: bytes) -> Packet:
    """Return an IP packet whose UDP and TCP data is not interpreted."""
    packet: Packet = IP(octets) if octets[0] >> 4 == 4 else IPv6(octets)
    layer = packet.getlayer(UDP) or packet.getlayer(TCP)
    if layer and layer.payload and not isinstance(layer.payload, Raw):
        payload = layer.payload.original
        layer.remove_payload()
        layer.add_payload(Raw(payload))
    return packet


def summary(packet: IPPacket) -> str:
    """Describe a packet in one line."""
    name = _PROTOCOL_NAMES.get(packet.proto, f"protocol {packet.proto}")
    if packet.message is not None:
        name += " {}/{}".format(*packet.message)
    if packet.offset or packet.more:
        name += f", fragment at {8 * packet.offset}{', more follow' if packet.more else ''}"
    return f"IPv{packet.version} {packet.src} > {packet.dst}, {name}, {len(packet)} octets"


def _is_neighborly(packet: IPPacket) -> bool:
    if packet.version == 6 and packet.message:
        return packet.message[0] in _NEIGHBOR_MESSAGES
    return packet.dst.is_multicast


@dataclass(frozen=True)
class Predicate:
    """A condition on a field of a template."""

    words: str
    holds: Callable[[Any], bool]

    def __str__(self) -> str:
        return self.words


def allow(template: Packet, **fields: Predicate | tuple[Any, ...]) -> Packet:
    """Return a template whose fields accept several values or must satisfy a condition."""
    changed = template.copy()
    changed.fields.update(fields)
    return changed


def difference(template: Packet, packet: Packet) -> str:
    """Describe the first field of a template that differs; tunnels may have extension headers."""
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
                return f"{expected.name}.{name} is {_format(seen)}, not {_format(value)}"
        expected, layer = expected.payload, layer.payload
    return ""


def describe_template(template: Packet) -> str:
    """Describe the fields that a template sets, layer by layer."""
    layers = []
    for layer in template.iterpayloads():
        fields = ", ".join(
            f"{name} {f'of {len(value)} octets' if isinstance(value, bytes) else _format(value)}"
            for name, value in _set_fields(layer).items()
        )
        layers.append(f"{layer.name} ({fields})" if fields else layer.name)
    return " / ".join(layers)


def _format(value: Any) -> str:
    if isinstance(value, bytes):
        return value[:24].hex() + ("..." if len(value) > 24 else "")
    return " or ".join(map(str, value)) if isinstance(value, tuple) else str(value) or "none"


def _set_fields(layer: Packet) -> dict[str, Any]:
    """Return the fields that a template sets; scapy creates empty lists in every packet."""
    return {n: v for n, v in layer.fields.items() if v or not isinstance(v, list)}


def _equals(name: str, seen: Any, value: Any) -> bool:
    if isinstance(value, Predicate):
        return value.holds(seen)
    if name in ("src", "dst"):
        seen = ip_address(seen)
        return seen in map(ip_address, value if isinstance(value, tuple) else (value,))
    return seen in value if isinstance(value, tuple) else bool(seen == value)
