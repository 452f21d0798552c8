"""IP packets of either version as devices and clauses handle them: header fields, then octets."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, NamedTuple

from scapy.layers.inet import IP
from scapy.utils import checksum
from v6t.plugins.audit_views import Address

ICMP4, IPIP, TCP6, UDP17, IPV6_IN_IP, FRAGMENT, ICMP6 = 1, 4, 6, 17, 41, 44, 58
HOP_BY_HOP, ROUTING, OPTIONS = EXTENSIONS = 0, 43, 60
SOURCE_ROUTES = (3, 9)  # IPv4 options: loose and strict source route
CHECKSUM_OFFSET = {TCP6: 16, UDP17: 6, ICMP4: 2, ICMP6: 2}
PORT_PROTOCOLS = (TCP6, UDP17)
PROTOCOLS = "udp", "tcp", "icmp"
NAMES = {TCP6: "tcp", UDP17: "udp", ICMP4: "icmp", ICMP6: "icmp"}
ICMP = {4: ICMP4, 6: ICMP6}
ECHO_TYPES = {4: (8, 0), 6: (128, 129)}
ERROR_TYPES = {4: (3, 4, 5, 11, 12), 6: tuple(range(128))}
NEVER_FORWARDED = (
    *map(IPv4Network, ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3")),
    *map(IPv6Network, ("::/127", "fe80::/10", "ff00::/8")),
)  # RFC 1812, section 5.3.7; RFC 4291, sections 2.4 and 2.5.6


class IcmpError(NamedTuple):
    """Type, code and second word of an ICMP or ICMPv6 error."""

    type: int
    code: int = 0
    word: int = 0

    def __bytes__(self) -> bytes:
        return struct.pack("!BBxxI", *self)


def make_too_big_error(version: int, mtu: int) -> IcmpError:
    """Return the ICMP error for a packet that exceeds an MTU."""
    return IcmpError(3, 4, mtu) if version == 4 else IcmpError(2, 0, mtu)


class Endpoint(NamedTuple):
    """An address and a port, or the identifier of an echo."""

    address: Address
    port: int

    def __str__(self) -> str:
        return f"{self.address} port {self.port}"


class Drop(Exception):
    """Exception for a discarded packet, with the ICMP error that the device sends, if any."""

    def __init__(self, error: IcmpError | None = None, about: IPPacket | None = None) -> None:
        super().__init__(error)
        self.error, self.about = error, about


@dataclass
class IPPacket:
    """An IP packet; for IPv6, `tos` and `ttl` are traffic class and hop limit."""

    src: Address
    dst: Address
    proto: int  # of the transport, behind IPv6 extension headers
    octets: bytes = b""
    tos: int = 0
    ttl: int = 64
    id: int | None = None  # identification; None for IPv6 without a fragment header
    offset: int = 0  # of a fragment, in units of eight octets
    more: bool = False
    df: bool = False
    flow: int = 0
    options: Sequence[Any] = ()  # of IPv4, as scapy reads them
    extensions: Sequence[tuple[int, bytes]] = ()  # of IPv6, before the fragment header
    missing: int = 0  # octets that were cut off the end, where an ICMP error quotes the packet
    damaged: bool = False  # the IPv4 header checksum was wrong

    @property
    def version(self) -> int:
        return self.src.version

    @property
    def protocol(self) -> str:
        return NAMES.get(self.proto, "")

    def __bytes__(self) -> bytes:
        proto, octets = self.proto, self.octets
        ends = self.src.packed + self.dst.packed
        if self.version == 4:
            options = bytes(IP(options=list(self.options)))[20:] if self.options else b""
            size, flags = 20 + len(options), self.more + 2 * self.df
            length, fragment = size + len(octets) + self.missing, flags << 13 | self.offset
            values = 0x40 | size // 4, self.tos, length, self.id or 0, fragment, self.ttl, proto
            header = struct.pack("!BBHHHBBxx", *values) + ends + options
            return header[:10] + checksum(header).to_bytes(2, "big") + header[12:] + octets
        if self.id is not None:
            fragment = self.offset << 3 | self.more
            proto, octets = FRAGMENT, struct.pack("!BxHI", proto, fragment, self.id) + octets
        for kind, extension in reversed(self.extensions):
            proto, octets = kind, bytes([proto]) + extension[1:] + octets
        word = 6 << 28 | self.tos << 20 | self.flow
        length = len(octets) + self.missing
        return struct.pack("!IHBB", word, length, proto, self.ttl) + ends + octets

    def __len__(self) -> int:
        return len(bytes(self))

    @property
    def is_fragment(self) -> bool:
        """Whether the packet is a fragment, or has an IPv6 fragment header."""
        return self.id is not None if self.version == 6 else bool(self.offset or self.more)

    @property
    def is_icmp(self) -> bool:
        return self.proto == ICMP[self.version]

    @property
    def message(self) -> tuple[int, int] | None:
        """Type and code of an ICMP or ICMPv6 message; None for other packets and later fragments."""
        if not self.is_icmp or len(self.octets) < 2 or self.offset:
            return None
        return self.octets[0], self.octets[1]

    @property
    def is_echo(self) -> bool:
        return self.message is not None and self.message[0] in ECHO_TYPES[self.version]

    @property
    def is_error(self) -> bool:
        return self.message is not None and self.message[0] in ERROR_TYPES[self.version]

    @property
    def is_answerable(self) -> bool:
        """Whether a device may send an ICMP error about the packet (RFC 1122, section 3.2.2)."""
        return self.is_echo if self.proto == ICMP4 and self.version == 4 else not self.is_error

    @property
    def pseudo_header(self) -> bytes:
        """Addresses that the checksum of the transport covers; none for ICMP."""
        return b"" if self.proto == ICMP4 else self.src.packed + self.dst.packed

    @property
    def transport_checksum(self) -> int:
        """Checksum over the complete transport data; 0 if the packet's own checksum is valid."""
        pseudo = self.pseudo_header and struct.pack("!II", len(self.octets), self.proto)
        return checksum(self.pseudo_header + pseudo + self.octets)

    def with_checksum(self, octets: bytes, at: int) -> IPPacket:
        packet = replace(self, octets=octets[:at] + b"\0\0" + octets[at + 2 :])
        packet.put_checksum(at, packet.transport_checksum)
        return packet

    def put_checksum(self, at: int, value: int) -> None:
        """Write the checksum in place; for UDP, 0 becomes 0xFFFF."""
        word = (value or 0xFFFF if self.proto == UDP17 else value).to_bytes(2, "big")
        self.octets = self.octets[:at] + word + self.octets[at + 2 :]

    def with_message(self, octets: bytes) -> IPPacket:
        return replace(self, proto=ICMP[self.version], missing=0).with_checksum(octets, 2)

    def read_quoted_packet(self) -> IPPacket:
        return read_header(self.octets[8:])

    def read_endpoint(self, *, is_source: bool = True) -> Endpoint:
        """Return the source or destination endpoint; its port is 0 if the packet has no ports."""
        address = self.src if is_source else self.dst
        return Endpoint(address, get_port(self, is_source=is_source) or 0)


def read_header(octets: bytes) -> IPPacket:
    """Parse a possibly truncated packet, or raise Drop; an incomplete extension header is the transport."""
    version = octets[0] >> 4 if octets else 0
    size = 40 if version == 6 else 4 * (octets[0] & 15) if version == 4 else 0
    if size < 20 or len(octets) < size:
        raise Drop
    rest = octets[size:]
    if version == 4:
        tos, length, number, fragment, ttl, proto = struct.unpack_from("!xBHHHBB", octets)
        ends = IPv4Address(octets[12:16]), IPv4Address(octets[16:20])
        flags = bool(fragment & 0x2000), bool(fragment & 0x4000)
        packet = IPPacket(*ends, proto, rest, tos, ttl, number, fragment & 0x1FFF, *flags)
        packet.options = IP(octets[:size]).options if size > 20 else ()
        packet.missing, packet.damaged = length - len(octets), bool(checksum(octets[:size]))
        return packet
    word, length, proto, ttl = struct.unpack_from("!IHBB", octets)
    ends, extensions = (IPv6Address(octets[8:24]), IPv6Address(octets[24:40])), []
    while proto in EXTENSIONS and len(rest) >= 8:
        size = 8 * (rest[1] + 1)
        extensions.append((proto, rest[:size]))
        proto, rest = rest[0], rest[size:]
    packet = IPPacket(*ends, proto, rest, word >> 20 & 0xFF, ttl, flow=word & 0xFFFFF)
    packet.extensions, packet.missing = extensions, 40 + length - len(octets)
    if proto == FRAGMENT and len(rest) >= 8:
        packet.proto, fragment, packet.id = struct.unpack_from("!BxHI", rest)
        packet.octets, packet.offset, packet.more = rest[8:], fragment >> 3, bool(fragment & 1)
    return packet


def find_packet(octets: bytes) -> IPPacket | None:
    """Return the possibly truncated packet at the start of octets, or None."""
    try:
        return read_header(octets)
    except Drop:
        return None


def find_inner_packet(packet: IPPacket) -> IPPacket | None:
    """Return the inner packet of a tunnel packet, or None."""
    return find_packet(packet.octets) if packet.proto in (IPIP, IPV6_IN_IP) else None


def read_packet(octets: bytes) -> IPPacket:
    """Parse a packet without its padding; raise Drop if a device must not forward it."""
    packet = read_header(octets)
    if packet.missing < 0:
        packet = read_header(octets[: packet.missing])
    is_refused = any(end in net for end in (packet.src, packet.dst) for net in NEVER_FORWARDED)
    if packet.missing or packet.damaged or is_refused:
        raise Drop
    return packet


def check_source_route(packet: IPPacket) -> None:
    """Drop a packet with an unused source route (RFC 7915, sections 4.1 and 5.1)."""
    for option in packet.options:
        if option.option in SOURCE_ROUTES and getattr(option, "pointer", 255) <= option.length:
            raise Drop(IcmpError(3, 5))
    start = 40
    for kind, extension in packet.extensions:
        if kind == ROUTING and extension[3]:
            raise Drop(IcmpError(4, 0, start + 3))
        start += len(extension)


def get_port(packet: IPPacket, *, is_source: bool = False) -> int | None:
    """Return the source or destination port of a packet; None if it has none.

    An echo message has its identifier, and an ICMP error the port of the packet that it quotes.
    """
    octets = packet.octets
    if packet.proto in PORT_PROTOCOLS and len(octets) >= 4 and not packet.offset:
        return int.from_bytes(octets[:2] if is_source else octets[2:4], "big")
    if packet.is_echo and len(octets) >= 8:
        return int.from_bytes(octets[4:6], "big")
    quoted = find_packet(octets[8:]) if packet.is_error else None
    return get_port(quoted, is_source=not is_source) if quoted and not quoted.is_error else None


def find_checksum_error(packet: IPPacket, *, quoted: bool = False) -> str:
    """Describe the first wrong checksum; ``quoted``: also in the packet that an ICMP error quotes."""
    if packet.damaged:
        return "the IPv4 header checksum is wrong"
    at = CHECKSUM_OFFSET.get(packet.proto)
    if at is not None and not (packet.offset or packet.more) and packet.missing <= 0:
        if len(packet.octets) < at + 2:
            return "the transport header is incomplete"
        if packet.proto == UDP17 and packet.octets[6:8] == b"\0\0":
            return "" if packet.version == 4 else "the UDP checksum is zero"
        if packet.transport_checksum:
            return "the transport checksum is wrong"
    inner = find_packet(packet.octets[8:]) if quoted else None
    wrong = find_checksum_error(inner) if inner else "none" if quoted else ""
    return wrong and f"quoted packet: {wrong}"


def update_transport(packet: IPPacket, old: bytes, new: bytes) -> IPPacket:
    """Return a packet whose transport checksum covers new octets instead of old ones (RFC 1624).

    A wrong checksum stays wrong; one that is missing from a datagram, or cut off a quoted segment, stays so.
    """
    at = CHECKSUM_OFFSET.get(packet.proto)
    if at is None or len(packet.octets) < at + 2 or packet.offset:
        return packet
    before = int.from_bytes(packet.octets[at : at + 2], "big")
    if packet.proto == UDP17 and not before:
        return packet
    words = struct.pack("!3H", 0xFFFF - before, checksum(old), 0xFFFF - checksum(new))
    changed = replace(packet)
    changed.put_checksum(at, checksum(words))
    return changed


def replace_endpoint(packet: IPPacket, end: tuple[Address, int], *, is_source: bool) -> IPPacket:
    """Return a possibly truncated packet with its address and its port or echo identifier replaced."""
    number = end[1].to_bytes(2, "big")
    at = 4 if packet.is_icmp else 0 if is_source else 2
    old = packet.octets[at : at + 2]
    changed = replace(packet, src=end[0]) if is_source else replace(packet, dst=end[0])
    changed.octets = packet.octets[:at] + number + packet.octets[at + 2 :]
    return update_transport(changed, packet.pseudo_header + old, changed.pseudo_header + number)


def fragment(packet: IPPacket, mtu: int, identification: int = 0) -> list[IPPacket]:
    """Return a packet, or fragments of it that fit a link; IPv6 may need an identification."""
    if len(packet) <= mtu:
        return [packet]
    first = replace(packet, id=identification) if packet.id is None else packet
    octets = packet.octets
    room = (mtu - len(first) + len(octets)) // 8 * 8
    pieces = []
    for at in range(0, len(octets), room):
        part = {"octets": octets[at : at + room], "offset": packet.offset + at // 8}
        pieces.append(replace(first, more=packet.more or at + room < len(octets), **part))
    return pieces


def join_fragments(fragments: Iterable[IPPacket]) -> bytes:
    """Return the data of fragments in the order of their offsets."""
    return b"".join(piece.octets for piece in sorted(fragments, key=lambda piece: piece.offset))


class Reassembly:
    """Reassembly of fragmented packets; incomplete packets never expire."""

    def __init__(self) -> None:
        self.fragments: dict[tuple[object, ...], list[IPPacket]] = {}

    def add(self, packet: IPPacket, tunnel: object = None) -> IPPacket:
        """Return a whole packet, or raise Drop until all of its fragments came through one tunnel."""
        if not packet.is_fragment:
            return packet
        proto = packet.proto if packet.version == 4 else None
        key = (tunnel, packet.src, packet.dst, packet.id, proto)
        fragments = self.fragments.setdefault(key, [])
        fragments.append(packet)
        fragments.sort(key=lambda piece: piece.offset)
        ends = [0, *(8 * piece.offset + len(piece.octets) for piece in fragments)]
        if fragments[-1].more or ends[:-1] != [8 * piece.offset for piece in fragments]:
            raise Drop
        del self.fragments[key]
        number = None if packet.version == 6 else packet.id
        parts = {"octets": join_fragments(fragments), "id": number, "options": ()}
        return read_header(bytes(replace(packet, **parts, offset=0, more=False)))
