"""Scapy packets as devices handle them: an IP header with its fields, then octets."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, TypeAlias

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import ICMPv6ParamProblem, IPv6, IPv6ExtHdrFragment
from scapy.packet import Packet, Raw
from scapy.utils import checksum

IPPacket: TypeAlias = IP | IPv6
ICMP4, IPIP, TCP6, UDP17, FRAGMENT, ICMP6 = 1, 4, 6, 17, 44, 58
HOP_BY_HOP, ROUTING, OPTIONS = 0, 43, 60
EXTENSIONS = (HOP_BY_HOP, ROUTING, OPTIONS)
MORE_FRAGMENTS, DONT_FRAGMENT = "MF", "DF"
CHECKSUM_OFFSET = {TCP6: 16, UDP17: 6, ICMP4: 2, ICMP6: 2}
PORT_PROTOCOLS = (TCP6, UDP17)
ECHO_TYPES = {4: (8, 0), 6: (128, 129)}
ERROR_TYPES = {4: (3, 4, 5, 11, 12), 6: tuple(range(128))}
NEVER_FORWARDED = (
    *map(IPv4Network, ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3")),
    *map(IPv6Network, ("::/127", "fe80::/10", "ff00::/8")),
)
"""RFC 1812, section 5.3.7; RFC 4291, sections 2.4 and 2.5.6."""


class Drop(Exception):
    """A device discards a packet.

    Attributes:
        error: the ICMP or ICMPv6 header of the error that the device sends, or None.
        about: the packet that the error quotes, or None for the one that arrived.
    """

    def __init__(self, error: Packet | None = None, about: IPPacket | None = None) -> None:
        super().__init__(error)
        self.error = error
        self.about = about


def read_header(octets: bytes) -> IPPacket:
    """Read the IP header of a packet that may be cut short.

    Raises:
        Drop: the header is incomplete.
    """
    version = octets[0] >> 4 if octets else 0
    size = 40 if version == 6 else 4 * (octets[0] & 15) if version == 4 else 0
    if size < 20 or len(octets) < size:
        raise Drop
    header = (IPv6 if version == 6 else IP)(octets[:size])
    return attach(header, octets[size:])


def read_packet(octets: bytes) -> IPPacket:
    """Read a packet that a device may forward; octets behind its end are padding.

    Raises:
        Drop: lengths or the header checksum are wrong, or an address must not be forwarded.
    """
    packet = read_header(octets)
    header = len(octets) - len(payload(packet))
    length = packet.len if packet.version == 4 else 40 + packet.plen
    wrong_checksum = packet.version == 4 and checksum(octets[:header]) != 0
    if not header <= length <= len(octets) or wrong_checksum:
        raise Drop
    if not is_forwardable(packet.src) or not is_forwardable(packet.dst):
        raise Drop
    return with_payload(packet, octets[header:length])


def is_forwardable(text: str) -> bool:
    """Return whether a router may forward packets from or to an address."""
    address = address_of(text)
    return not any(
        address in network for network in NEVER_FORWARDED if network.version == address.version
    )


def address_of(text: str) -> Any:
    """Return the IPv4Address or IPv6Address that scapy writes as text."""
    return IPv6Address(text) if ":" in text else IPv4Address(text)


def payload(packet: IPPacket) -> bytes:
    """Return the octets behind the IP header."""
    return bytes(packet.payload)


def with_payload(packet: IPPacket, octets: bytes) -> IPPacket:
    """Return the packet with other octets behind its header; scapy computes length and checksum."""
    computed = ("len", "chksum") if packet.version == 4 else ("plen",)
    fields = {name: value for name, value in packet.fields.items() if name not in computed}
    return attach(type(packet)(**fields), octets)


def attach(header: IPPacket, octets: bytes) -> IPPacket:
    """Put octets behind a header and return it."""
    if octets:
        header.add_payload(Raw(octets))
    return header


def hop_limit(packet: IPPacket) -> int:
    """Return the TTL or hop limit."""
    return int(packet.ttl if packet.version == 4 else packet.hlim)


def with_hop_limit(packet: IPPacket, value: int) -> IPPacket:
    """Return the packet with another TTL or hop limit."""
    changed = with_payload(packet, payload(packet))
    setattr(changed, "ttl" if packet.version == 4 else "hlim", value)
    return changed


def protocol(packet: IPPacket) -> int:
    """Return the protocol, or the next header of IPv6."""
    return int(packet.proto if packet.version == 4 else packet.nh)


def is_fragment(packet: IPPacket) -> bool:
    """Return whether the packet is a fragment, or has an IPv6 fragment header."""
    if packet.version == 6:
        return bool(packet.nh == FRAGMENT)
    return bool(packet.frag or packet.flags.MF)


def is_icmp(packet: IPPacket) -> bool:
    """Return whether the packet carries the ICMP of its version."""
    return protocol(packet) == (ICMP4 if packet.version == 4 else ICMP6)


def icmp_type(packet: IPPacket) -> int | None:
    """Return the type of an ICMP or ICMPv6 message; None for other packets and later fragments."""
    octets = payload(packet)
    if not is_icmp(packet) or not octets or (packet.version == 4 and packet.frag):
        return None
    return octets[0]


def is_echo(packet: IPPacket) -> bool:
    """Return whether the packet is an ICMP or ICMPv6 echo message."""
    return icmp_type(packet) in ECHO_TYPES[packet.version]


def is_error(packet: IPPacket) -> bool:
    """Return whether the packet is an ICMP or ICMPv6 error."""
    return icmp_type(packet) in ERROR_TYPES[packet.version]


def is_answerable(packet: IPPacket) -> bool:
    """Return whether a device may send an ICMP error about the packet (RFC 1122, section 3.2.2)."""
    is_icmp4 = packet.version == 4 and packet.proto == ICMP4
    return is_echo(packet) if is_icmp4 else not is_error(packet)


def skip_extensions(packet: IPPacket) -> tuple[int, bytes]:
    """Return the protocol behind IPv6 extension headers, and what begins there.

    Raises:
        Drop: a header is incomplete, or a routing header has segments left.
    """
    proto, octets = protocol(packet), payload(packet)
    start = len(octets) + 40
    while packet.version == 6 and proto in EXTENSIONS:
        if len(octets) < 8:
            raise Drop
        if proto == ROUTING and octets[3]:
            raise Drop(ICMPv6ParamProblem(code=0, ptr=start - len(octets) + 3))
        proto, octets = octets[0], octets[8 * (octets[1] + 1) :]
    return proto, octets


def skip_fragment_header(packet: IPPacket) -> tuple[int, bytes]:
    """Return protocol and transport octets of a packet or first fragment.

    Raises:
        Drop: the packet is a later fragment.
    """
    proto, octets = skip_extensions(packet)
    if packet.version == 4 and packet.frag:
        raise Drop
    if packet.version == 6 and proto == FRAGMENT:
        header = IPv6ExtHdrFragment(octets[:8])
        if header.offset:
            raise Drop
        proto, octets = header.nh, octets[8:]
    return proto, octets


def port(packet: IPPacket, *, is_source: bool) -> int | None:
    """Return a port: the identifier of an echo, or the port of the packet that an error quotes.

    Args:
        packet: of either version.
        is_source: the port belongs to the packet's source, else to its destination.

    Returns:
        None if the packet has none.
    """
    try:
        proto, octets = skip_fragment_header(packet)
        if proto in PORT_PROTOCOLS and len(octets) >= 4:
            return int.from_bytes(octets[:2] if is_source else octets[2:4], "big")
        if proto != (ICMP4 if packet.version == 4 else ICMP6) or len(octets) < 8:
            return None
        if octets[0] in ECHO_TYPES[packet.version]:
            return int.from_bytes(octets[4:6], "big")
        if octets[0] not in ERROR_TYPES[packet.version]:
            return None
        quoted = read_header(octets[8:])
        return None if is_error(quoted) else port(quoted, is_source=not is_source)
    except Drop:
        return None


def update_checksum(value: int, old: bytes, new: bytes) -> int:
    """Return a checksum after octets that it covers have changed (RFC 1624, equation 3)."""
    total = 0xFFFF - value + (0xFFFF - _fold(old)) + _fold(new)
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total


def _fold(octets: bytes) -> int:
    """Return the one's complement sum of 16-bit words."""
    return 0xFFFF - int(checksum(octets))


def update_transport(proto: int, octets: bytes, old: bytes, new: bytes) -> bytes:
    """Return TCP or UDP octets whose checksum covers new addresses or ports instead of old ones.

    A checksum that is missing from a datagram, or cut off a quoted segment, stays so.
    """
    at = CHECKSUM_OFFSET.get(proto)
    if at is None or len(octets) < at + 2:
        return octets
    before = int.from_bytes(octets[at : at + 2], "big")
    if proto == UDP17 and not before:
        return octets
    value = update_checksum(before, old, new)
    if proto == UDP17:
        value = value or 0xFFFF
    return octets[:at] + value.to_bytes(2, "big") + octets[at + 2 :]


def replace_endpoint(packet: IPPacket, end: tuple[str, int], *, is_source: bool) -> IPPacket:
    """Return a packet, perhaps cut short, with another address and port, its checksums updated.

    The port of an echo message is its identifier.
    """
    proto, octets = protocol(packet), payload(packet)
    changed = with_payload(packet, b"")
    setattr(changed, "src" if is_source else "dst", end[0])
    number = end[1].to_bytes(2, "big")
    if is_icmp(packet):
        at, numbers = 4, octets[4:6]
    else:
        at, numbers = (0 if is_source else 2), octets[0 if is_source else 2 :][:2]
    octets = octets[:at] + number + octets[at + 2 :]
    old, new = packed_addresses(packet), packed_addresses(changed)
    if proto == ICMP4:  # its checksum has no pseudo header
        old = new = b""
    octets = update_transport(proto, octets, old + numbers, new + number)
    changed = with_payload(changed, octets)
    for name in {"len", "plen"} & packet.fields.keys():
        setattr(changed, name, getattr(packet, name))
    return changed


def packed_addresses(packet: IPPacket) -> bytes:
    """Return source and destination as octets."""
    source: bytes = address_of(packet.src).packed
    destination: bytes = address_of(packet.dst).packed
    return source + destination


def is_valid_message(packet: IPPacket) -> bool:
    """Return whether the checksum of an ICMP or ICMPv6 message is right."""
    octets, pseudo = payload(packet), b""
    if packet.version == 6:
        length = len(octets).to_bytes(4, "big")
        pseudo = packed_addresses(packet) + length + ICMP6.to_bytes(4, "big")
    return checksum(pseudo + octets) == 0


def fill_udp_checksum(packet: IP) -> IP:
    """Return a whole IPv4 datagram with a checksum if it has none (RFC 7915, section 4.5)."""
    octets = payload(packet)
    if packet.proto != UDP17 or is_fragment(packet) or len(octets) < 8 or octets[6:8] != b"\0\0":
        return packet
    header = UDP(octets[:8])
    header.delfieldval("chksum")
    bare = IP(src=packet.src, dst=packet.dst) / header / Raw(octets[8:])
    return with_payload(packet, bytes(bare)[20:])


def fragment_ipv4(packet: IP, mtu: int) -> list[IP]:
    """Return the packet, or fragments of it that fit a link."""
    if len(packet) <= mtu:
        return [packet]
    octets, room = payload(packet), (mtu - 20) // 8 * 8
    fragments = []
    for at in range(0, len(octets), room):
        piece = with_payload(packet, octets[at : at + room])
        piece.frag = packet.frag + at // 8
        if at + room < len(octets):
            piece.flags |= MORE_FRAGMENTS
        fragments.append(piece)
    return fragments


def fragment_ipv6(
    header: IPv6, proto: int, octets: bytes, mtu: int, identification: int
) -> list[IPv6]:
    """Return the packet with a header and octets, or fragments of it that fit a link."""
    if 40 + len(octets) <= mtu:
        return [ipv6_packet(header, proto, octets)]
    fragment = IPv6ExtHdrFragment(offset=0, m=0, id=identification)
    return refragment_ipv6(header, proto, octets, mtu, fragment)


def refragment_ipv6(
    header: IPv6, proto: int, octets: bytes, mtu: int, fragment: IPv6ExtHdrFragment
) -> list[IPv6]:
    """Return fragments that fit a link of octets which are themselves a fragment or a whole."""
    room = (mtu - 48) // 8 * 8 if 48 + len(octets) > mtu else max(8, len(octets))
    fragments = []
    for at in range(0, max(1, len(octets)), room):
        more = fragment.m or at + room < len(octets)
        piece = IPv6ExtHdrFragment(
            nh=proto, offset=fragment.offset + at // 8, m=int(more), id=fragment.id
        )
        fragments.append(ipv6_packet(header, FRAGMENT, bytes(piece) + octets[at : at + room]))
    return fragments


def ipv6_packet(header: IPv6, proto: int, octets: bytes) -> IPv6:
    """Return an IPv6 packet with a header's addresses, traffic class and hop limit."""
    packet = with_payload(header, octets)
    packet.nh = proto
    return packet


class Reassembly:
    """Fragments of packets that are incomplete; none expires.

    Packets that are not fragmented pass unchanged.
    """

    def __init__(self) -> None:
        self._fragments: dict[tuple[object, ...], list[tuple[int, bool, bytes]]] = {}

    def add(self, packet: IPPacket, tunnel: str = "") -> IPPacket | None:
        """Return the whole packet once all of its fragments have arrived, through one tunnel."""
        if not is_fragment(packet):
            return packet
        if packet.version == 4:
            key: tuple[object, ...] = (tunnel, packet.src, packet.dst, packet.id, packet.proto)
            octets = self._join(key, packet.frag, bool(packet.flags.MF), payload(packet))
            return None if octets is None else self._whole_ipv4(packet, octets)
        header = IPv6ExtHdrFragment(payload(packet)[:8])
        key = (tunnel, packet.src, packet.dst, header.id)
        octets = self._join(key, header.offset, bool(header.m), payload(packet)[8:])
        if octets is None:
            return None
        whole = with_payload(packet, octets)
        whole.nh = header.nh
        return whole

    @staticmethod
    def _whole_ipv4(packet: IP, octets: bytes) -> IP:
        whole = with_payload(packet, octets)
        whole.frag, whole.flags, whole.options = 0, packet.flags & ~0x1, []
        whole.delfieldval("ihl")
        return whole

    def _join(
        self, key: tuple[object, ...], offset: int, more: bool, octets: bytes
    ) -> bytes | None:
        fragments = self._fragments.setdefault(key, [])
        fragments.append((8 * offset, more, octets))
        whole = b""
        for start, is_followed, piece in sorted(fragments):
            if start != len(whole):
                return None
            whole += piece
            if not is_followed:
                del self._fragments[key]
                return whole
        return None
