"""IP/ICMP translators (RFC 7915): headers, fragments, ICMP errors with the packets that they quote."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from typing import ClassVar

from scapy.layers.inet import ICMP, IP
from scapy.layers.inet6 import (
    ICMPv6DestUnreach,
    ICMPv6EchoReply,
    ICMPv6EchoRequest,
    ICMPv6PacketTooBig,
    ICMPv6ParamProblem,
    ICMPv6TimeExceeded,
    IPv6,
    IPv6ExtHdrFragment,
)
from scapy.packet import Packet, Raw
from v6t.audit.packet_device.device import DeviceLinks, PacketDevice, Sent, expiry_error
from v6t.audit.packet_device.maps import AddressMap, ExplicitMap, HostMap, TableMap
from v6t.audit.packet_device.packets import (
    DONT_FRAGMENT,
    EXTENSIONS,
    FRAGMENT,
    ICMP4,
    ICMP6,
    MORE_FRAGMENTS,
    PORT_PROTOCOLS,
    UDP17,
    Drop,
    IPPacket,
    address_of,
    fill_udp_checksum,
    ipv6_packet,
    is_error,
    is_fragment,
    packed_addresses,
    payload,
    read_header,
    refragment_ipv6,
    skip_extensions,
    update_transport,
    with_hop_limit,
)
from v6t.plugins.audit_views import AddressTable, SideName

WELL_KNOWN = IPv6Network("64:ff9b::/96")
IGMP, AUTHENTICATION = 2, 51
LOOSE_SOURCE_ROUTE, STRICT_SOURCE_ROUTE = 3, 9
PLATEAUS = (65535, 32000, 17914, 8166, 4352, 2002, 1492, 1006, 508, 296, 68)
"""RFC 1191, section 7."""
TO_ICMPV6_CODE = {
    **dict.fromkeys((0, 1, 5, 6, 7, 8, 11, 12), 0),
    **dict.fromkeys((9, 10, 13, 15), 1),
    3: 4,
}
TO_ICMP_CODE = {0: 1, 1: 10, 2: 1, 3: 1, 4: 3}
TO_ICMPV6_POINTER = {
    **{0: 0, 1: 1, 2: 4, 3: 4, 8: 7, 9: 6},
    **dict.fromkeys(range(12, 16), 8),
    **dict.fromkeys(range(16, 20), 24),
}
"""RFC 7915, figure 3."""
TO_ICMP_POINTER = {
    **{0: 0, 1: 1, 4: 2, 5: 2, 6: 9, 7: 8},
    **dict.fromkeys(range(8, 24), 12),
    **dict.fromkeys(range(24, 40), 16),
}
"""RFC 7915, figure 6."""
ICMPV6_ERRORS = {
    1: ICMPv6DestUnreach,
    2: ICMPv6PacketTooBig,
    3: ICMPv6TimeExceeded,
    4: ICMPv6ParamProblem,
}


class TranslatingDevice(PacketDevice):
    """A translator between an IPv6 and an IPv4 link."""

    echo_to_ipv6: ClassVar[Mapping[int, type[Packet]]] = {8: ICMPv6EchoRequest, 0: ICMPv6EchoReply}
    echo_to_ipv4: ClassVar[Mapping[int, int]] = {128: 8, 129: 0}
    untranslated: ClassVar[tuple[int, ...]] = (IGMP,)
    forbidden_in_fragments: ClassVar[tuple[int, ...]] = (*EXTENSIONS, FRAGMENT, AUTHENTICATION)

    checks_global = True

    def __init__(self, ports: DeviceLinks, six_side: SideName, lowest_ipv6_mtu: int) -> None:
        super().__init__(ports)
        self.six_side = six_side
        self.four_side: SideName = "right" if six_side == "left" else "left"
        self.lowest_ipv6_mtu = lowest_ipv6_mtu
        self.ipv6_mtu = ports.mtu(self.six_side)
        self.ipv4_mtu = ports.mtu(self.four_side)

    @abstractmethod
    def map_for(self, packet: IPPacket) -> AddressMap:
        """Return the address map for a packet.

        Raises:
            Drop: the packet's addresses or ports must not be translated.
        """

    @abstractmethod
    def is_ipv4_destination(self, destination: str) -> bool:
        """Return whether an IPv6 destination stands for an IPv4 host."""

    def forward(self, side: SideName, packet: IPPacket) -> Iterable[Sent]:
        if packet.version == 6:
            if side != self.six_side or not self.is_ipv4_destination(packet.dst):
                return self.route(side, packet)
            return self.forward_ipv6(packet)
        if side != self.four_side:
            raise Drop
        return self.forward_ipv4(packet)

    def forward_ipv6(self, packet: IPv6) -> Iterable[Sent]:
        """Translate a packet from the IPv6 link."""
        skip_extensions(packet)
        return self.emit_ipv4(packet, self.to_ipv4(packet, self.map_for(packet)))

    def emit_ipv4(self, arrived: IPv6, packet: IP) -> Iterable[Sent]:
        """Send an IPv4 packet; hairpinning devices override this."""
        del arrived
        return [(self.four_side, packet)]

    def forward_ipv4(self, packet: IP) -> Iterable[Sent]:
        """Translate a packet from the IPv4 link."""
        if has_source_route(packet):
            raise Drop(ICMP(type=3, code=5))
        return [(self.six_side, p) for p in self.to_ipv6(packet, self.map_for(packet))]

    def is_hidden(self, ipv6: IPv6Address, ipv4: IPv4Address) -> bool:
        """Return whether the well-known prefix must not stand for an address (RFC 6052, section 3.1)."""
        return self.checks_global and ipv6 in WELL_KNOWN and not ipv4.is_global

    # RFC 7915, section 4: IPv4 to IPv6

    def to_ipv6(self, packet: IP, addresses: AddressMap) -> list[IPv6]:
        """Return the IPv6 packet for an IPv4 packet, or its fragments."""
        if packet.ttl <= 1:
            raise Drop(expiry_error(4))
        packet = fill_udp_checksum(packet)
        header = self.header_to_ipv6(packet, addresses, packet.ttl - 1)
        proto, octets = self.transport_to_ipv6(packet, header, addresses)
        size = 40 + (8 if is_fragment(packet) else 0) + len(octets)
        if packet.flags.DF and size > self.ipv6_mtu:
            raise Drop(ICMP(type=3, code=4, nexthopmtu=self.ipv6_mtu - 20))
        limit = self.ipv6_mtu if packet.flags.DF else min(self.lowest_ipv6_mtu, self.ipv6_mtu)
        if size <= limit and not is_fragment(packet):
            return [ipv6_packet(header, proto, octets)]
        return refragment_ipv6(header, proto, octets, limit, fragment_header(packet))

    def header_to_ipv6(self, packet: IP, addresses: AddressMap, hop_limit: int) -> IPv6:
        """Return the IPv6 header for an IPv4 header (section 4.1)."""
        src, dst = (self.ipv6_of(addresses, text) for text in (packet.src, packet.dst))
        return IPv6(src=src, dst=dst, tc=packet.tos, fl=0, hlim=hop_limit)

    def ipv6_of(self, addresses: AddressMap, ipv4: str) -> str:
        """Return the IPv6 address of an IPv4 host."""
        ipv6 = addresses.to_ipv6(address_of(ipv4))
        if ipv6 is None or self.is_hidden(ipv6, address_of(ipv4)):
            raise Drop(ICMP(type=3, code=13))
        return str(ipv6)

    def transport_to_ipv6(
        self, packet: IP, header: IPv6, addresses: AddressMap
    ) -> tuple[int, bytes]:
        """Return next header and octets behind the IPv6 header (sections 4.2 and 4.5)."""
        proto, octets = int(packet.proto), payload(packet)
        if proto in self.untranslated:
            raise Drop
        if proto == ICMP4:
            if is_fragment(packet) or len(octets) < 8:
                raise Drop
            return ICMP6, self.icmp_to_ipv6(octets, header, addresses)
        if proto == UDP17 and not packet.frag and octets[6:8] == b"\0\0":
            raise Drop
        return proto, self.move_checksum(packet, proto, octets, header)

    def move_checksum(self, old: IPPacket, proto: int, octets: bytes, new: IPPacket) -> bytes:
        """Return transport octets whose checksum covers the addresses of a new header."""
        if (old.version == 4 and old.frag) or proto not in PORT_PROTOCOLS:
            return octets
        return update_transport(proto, octets, packed_addresses(old), packed_addresses(new))

    def icmp_to_ipv6(self, octets: bytes, header: IPv6, addresses: AddressMap) -> bytes:
        """Return the ICMPv6 message for an ICMP message (section 4.2)."""
        echo = self.echo_to_ipv6.get(octets[0])
        if echo is not None:
            word = int.from_bytes(octets[4:8], "big")
            message = echo(code=octets[1], id=word >> 16, seq=word & 0xFFFF, data=octets[8:])
        elif octets[0] in (3, 4, 5, 11, 12):
            quoted = read_header(octets[8:])
            error = self.error_to_ipv6(ICMP(octets[:8]), quoted)
            message = error / Raw(self.quoted_to_ipv6(quoted, addresses))
        else:
            raise Drop
        return bytes(IPv6(src=header.src, dst=header.dst) / message)[40:]

    def error_to_ipv6(self, error: ICMP, quoted: IP) -> Packet:
        """Return the header of the ICMPv6 error for an ICMP error (section 4.2)."""
        kind, code = error.type, error.code
        if (kind, code) == (3, 4):
            mtu = error.nexthopmtu or next((p for p in PLATEAUS if p < quoted.len), PLATEAUS[-1])
            return ICMPv6PacketTooBig(
                mtu=max(1280, min(mtu, self.ipv6_mtu - 20, self.ipv4_mtu) + 20)
            )
        if (kind, code) == (3, 2):
            return ICMPv6ParamProblem(code=1, ptr=6)
        if kind == 3 and code in TO_ICMPV6_CODE:
            return ICMPv6DestUnreach(code=TO_ICMPV6_CODE[code])
        if kind == 11:
            return ICMPv6TimeExceeded(code=code)
        if kind == 12 and code in (0, 2) and error.ptr in TO_ICMPV6_POINTER:
            return ICMPv6ParamProblem(code=0, ptr=TO_ICMPV6_POINTER[error.ptr])
        raise Drop

    def quoted_to_ipv6(self, quoted: IP, addresses: AddressMap) -> bytes:
        """Return the packet that an error quotes, perhaps cut short, as IPv6 (section 4.3)."""
        header = self.header_to_ipv6(quoted, addresses, quoted.ttl)
        proto, octets = int(quoted.proto), payload(quoted)
        length = quoted.len - 4 * quoted.ihl
        octets = self.move_checksum(quoted, proto, octets, header)
        if proto == ICMP4:
            proto = ICMP6
            if not quoted.frag:
                types = {four: six for six, four in self.echo_to_ipv4.items()}
                octets = translate_quoted_echo(octets, types)
        if is_fragment(quoted):
            fragment = fragment_header(quoted)
            fragment.nh, proto = proto, FRAGMENT
            octets, length = bytes(fragment) + octets, length + 8
        packet = ipv6_packet(header, proto, octets)
        packet.plen = length
        return bytes(packet)

    # RFC 7915, section 5: IPv6 to IPv4

    def to_ipv4(self, packet: IPv6, addresses: AddressMap) -> IP:
        """Return the IPv4 packet for an IPv6 packet."""
        if packet.hlim <= 1:
            raise Drop(expiry_error(6))
        translated = self.translate_to_ipv4(packet, addresses, packet.hlim - 1)
        if len(translated) > self.ipv4_mtu:
            raise Drop(ICMPv6PacketTooBig(mtu=self.ipv4_mtu + 20))
        return translated

    def translate_to_ipv4(self, packet: IPv6, addresses: AddressMap, ttl: int) -> IP:
        """Return the IPv4 packet for an IPv6 packet; a quoted packet still has its payload length."""
        proto, octets = skip_extensions(packet)
        fragment = None
        if proto == FRAGMENT:
            fragment, octets = read_fragment_header(octets)
            proto = int(fragment.nh)
            if proto in self.forbidden_in_fragments or proto == ICMP6:
                raise Drop
        header = self.header_to_ipv4(packet, fragment, addresses, ttl)
        header.proto = ICMP4 if proto == ICMP6 else proto
        is_quoted = packet.plen is not None
        length = 20 + len(octets)
        if is_quoted:
            length += packet.plen - len(payload(packet))
        if proto == ICMP6:
            octets = self.icmpv6_to_ipv4(octets, addresses, is_quoted=is_quoted)
        elif fragment is None or not fragment.offset:
            octets = self.move_checksum(packet, proto, octets, header)
        header.len = length if is_quoted else 20 + len(octets)
        if fragment is None and header.len > 1260:
            header.flags = DONT_FRAGMENT
        return header / Raw(octets) if octets else header

    def header_to_ipv4(
        self, packet: IPv6, fragment: IPv6ExtHdrFragment | None, addresses: AddressMap, ttl: int
    ) -> IP:
        """Return the IPv4 header for an IPv6 header (sections 5.1 and 5.1.1)."""
        src, dst = (self.ipv4_of(addresses, text) for text in (packet.src, packet.dst))
        header = IP(src=src, dst=dst, tos=packet.tc, ttl=ttl, id=0, flags=0, frag=0)
        if fragment is not None:
            header.id = fragment.id & 0xFFFF
            header.flags = MORE_FRAGMENTS if fragment.m else 0
            header.frag = fragment.offset
        return header

    def ipv4_of(self, addresses: AddressMap, ipv6: str) -> str:
        """Return the IPv4 address of an IPv6 host."""
        ipv4 = addresses.to_ipv4(address_of(ipv6))
        if ipv4 is None or self.is_hidden(address_of(ipv6), ipv4):
            raise Drop(ICMPv6DestUnreach(code=1))
        return str(ipv4)

    def icmpv6_to_ipv4(self, octets: bytes, addresses: AddressMap, *, is_quoted: bool) -> bytes:
        """Return the ICMP message for an ICMPv6 message (sections 5.2 and 5.3)."""
        if is_quoted:
            return translate_quoted_echo(octets, self.echo_to_ipv4)
        if len(octets) < 8:
            raise Drop
        if octets[0] in self.echo_to_ipv4:
            word = int.from_bytes(octets[4:8], "big")
            message = ICMP(
                type=self.echo_to_ipv4[octets[0]], code=octets[1], id=word >> 16, seq=word & 0xFFFF
            ) / Raw(octets[8:])
        else:
            quoted = read_header(octets[8:])
            if quoted.version != 6:
                raise Drop
            error = self.error_to_ipv4(read_error(octets))
            about = self.translate_to_ipv4(quoted, addresses, quoted.hlim)
            message = error / Raw(bytes(about))
        return bytes(message)

    def error_to_ipv4(self, error: Packet) -> ICMP:
        """Return the header of the ICMP error for an ICMPv6 error (section 5.2)."""
        kind, code = error.type, error.code
        if kind == 1 and code in TO_ICMP_CODE:
            return ICMP(type=3, code=TO_ICMP_CODE[code])
        if kind == 2:
            mtu = min(max(error.mtu - 20, 0), self.ipv4_mtu, self.ipv6_mtu - 20)
            return ICMP(type=3, code=4, nexthopmtu=mtu)
        if kind == 3:
            return ICMP(type=11, code=code)
        if (kind, code) == (4, 1):
            return ICMP(type=3, code=2)
        if (kind, code) == (4, 0) and error.ptr in TO_ICMP_POINTER:
            return ICMP(type=12, code=0, ptr=TO_ICMP_POINTER[error.ptr])
        raise Drop


class StatelessTranslatingDevice(TranslatingDevice):
    """SIIT or CLAT with an address table; hosts with explicit mappings reach each other."""

    def __init__(
        self, ports: DeviceLinks, six_side: SideName, lowest_ipv6_mtu: int, table: AddressTable
    ) -> None:
        super().__init__(ports, six_side, lowest_ipv6_mtu)
        self.table = TableMap(table)

    def map_for(self, packet: IPPacket) -> AddressMap:
        return self.table

    def is_ipv4_destination(self, destination: str) -> bool:
        address = address_of(destination)
        prefix = self.table.prefix
        is_behind = prefix is not None and address in prefix.prefix
        return is_behind or self.table.to_ipv4(address) is not None

    def emit_ipv4(self, arrived: IPv6, packet: IP) -> Iterable[Sent]:
        """Hairpin intrinsically (RFC 7757, section 4.2.2): the hop limit decreases once."""
        host = address_of(packet.dst)
        explicit = self.table.explicit_for_ipv4(host)
        if explicit is None or not self.is_behind_prefix(arrived):
            return super().emit_ipv4(arrived, packet)
        packets = self.to_ipv6(packet, self.hairpin_map(explicit, packet))
        return [(self.six_side, with_hop_limit(p, p.hlim + 1)) for p in packets]

    def is_behind_prefix(self, arrived: IPv6) -> bool:
        """Return whether the prefix stands for the destination; of an error, for the quoted source."""
        text = read_header(payload(arrived)[8:]).src if is_error(arrived) else arrived.dst
        prefix, address = self.table.prefix, address_of(text)
        if prefix is None or self.table.explicit_for_ipv6(address) is not None:
            return False
        return address in prefix.prefix

    def hairpin_map(self, explicit: ExplicitMap, packet: IP) -> AddressMap:
        """Return the map that hides the sender behind the prefix (RFC 7757, section 4.2.1)."""
        host, prefix = address_of(packet.dst), self.table.prefix
        own = explicit.to_ipv6(host)
        if prefix is None or own is None:
            raise Drop
        return HostMap(host, own, prefix)


def has_source_route(packet: IP) -> bool:
    """Return whether a source route is not used up (RFC 7915, section 4.1)."""
    return any(
        option.option in (LOOSE_SOURCE_ROUTE, STRICT_SOURCE_ROUTE)
        and getattr(option, "pointer", 255) <= option.length
        for option in packet.options
    )


def fragment_header(packet: IP) -> IPv6ExtHdrFragment:
    """Return the IPv6 fragment header for an IPv4 fragment."""
    return IPv6ExtHdrFragment(offset=packet.frag, m=int(packet.flags.MF), id=packet.id)


def read_fragment_header(octets: bytes) -> tuple[IPv6ExtHdrFragment, bytes]:
    """Return a fragment header and the octets behind it."""
    if len(octets) < 8:
        raise Drop
    return IPv6ExtHdrFragment(octets[:8]), octets[8:]


def read_error(octets: bytes) -> Packet:
    """Return the header of an ICMPv6 error."""
    if octets[0] not in ICMPV6_ERRORS:
        raise Drop
    return ICMPV6_ERRORS[octets[0]](octets[:8])


def translate_quoted_echo(octets: bytes, types: Mapping[int, int]) -> bytes:
    """Return an echo within an error with its type translated, its checksum unchanged.

    Raises:
        Drop: it is another ICMP message; errors about errors are not translated.
    """
    if not octets or octets[0] not in types:
        raise Drop
    return bytes([types[octets[0]]]) + octets[1:]
