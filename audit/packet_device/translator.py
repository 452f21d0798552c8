"""Translators: IP/ICMP (RFC 7915) with the packets that errors quote, and IPv6 prefixes (RFC 6296)."""

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from ipaddress import IPv6Network
from typing import Any, ClassVar

from v6t.audit import ip_packet as ip
from v6t.audit.clause import flip_side
from v6t.audit.ip_packet import Drop, IcmpError, IPPacket
from v6t.audit.packet_device.device import PacketDevice, Sent
from v6t.audit.packet_device.maps import TableMap, translate_prefix
from v6t.intent.device import DeviceIntent
from v6t.plugins.audit_views import Address, SideName

WELL_KNOWN = IPv6Network("64:ff9b::/96")
IGMP, AUTHENTICATION = 2, 51
INCOMPLETE = (*ip.EXTENSIONS, ip.FRAGMENT)  # next headers before incomplete extension headers
DF_FROM_OCTETS = 1260  # larger IPv4 packets that are not fragments get DF (RFC 7915, section 5.1)
PLATEAUS = (65535, 32000, 17914, 8166, 4352, 2002, 1492, 1006, 508, 296, 68)  # RFC 1191, section 7
UNTRANSLATABLE = {4: IcmpError(3, 13), 6: IcmpError(1, 1)}  # addresses have no translation
TO_ICMPV6 = {
    **{(3, code): IcmpError(1, 0) for code in (0, 1, 5, 6, 7, 8, 11, 12)},
    **{(3, code): IcmpError(1, 1) for code in (9, 10, 13, 15)},
    **{(3, 2): IcmpError(4, 1, 6), (3, 3): IcmpError(1, 4)},
    **{(11, code): IcmpError(3, code) for code in (0, 1)},
}
TO_ICMPV6_POINTER = {
    **{0: 0, 1: 1, 2: 4, 3: 4, 8: 7, 9: 6},
    **dict.fromkeys(range(12, 16), 8),
    **dict.fromkeys(range(16, 20), 24),
}  # RFC 7915, figure 3
TO_ICMP = {
    **{(1, 0): IcmpError(3, 1), (1, 1): IcmpError(3, 10), (1, 2): IcmpError(3, 1)},
    **{(1, 3): IcmpError(3, 1), (1, 4): IcmpError(3, 3), (4, 1): IcmpError(3, 2)},
    **{(3, code): IcmpError(11, code) for code in (0, 1)},
}
TO_ICMP_POINTER = {
    **{0: 0, 1: 1, 4: 2, 5: 2, 6: 9, 7: 8},
    **dict.fromkeys(range(8, 24), 12),
    **dict.fromkeys(range(24, 40), 16),
}  # RFC 7915, figure 6


class TranslatingDevice(PacketDevice, ABC):
    """A translator between an IPv6 and an IPv4 link."""

    echo_to_ipv6: ClassVar[Mapping[int, int]] = {8: 128, 0: 129}
    echo_to_ipv4: ClassVar[Mapping[int, int]] = {128: 8, 129: 0}
    untranslated: ClassVar[tuple[int, ...]] = (IGMP,)
    forbidden_in_fragments: ClassVar[tuple[int, ...]] = (*INCOMPLETE, AUTHENTICATION)
    checks_global = True

    def __init__(self, intent: DeviceIntent, view: Any) -> None:
        super().__init__(intent, view)
        self.ipv6_side: SideName = getattr(view, "ipv6_side", "left")
        self.ipv4_side, self.lowest_ipv6_mtu = flip_side(self.ipv6_side), view.lowest_ipv6_mtu
        self.ipv6_mtu, self.ipv4_mtu = self.mtu(self.ipv6_side), self.mtu(self.ipv4_side)

    @abstractmethod
    def find_map(self, packet: IPPacket) -> TableMap:
        """Return the address map for a packet, or raise Drop."""

    @abstractmethod
    def is_ipv4_destination(self, destination: Address) -> bool:
        """Return whether an IPv6 destination stands for an IPv4 host."""

    def reassemble(self, packet: IPPacket) -> IPPacket:
        return packet

    def forward(self, side: SideName, packet: IPPacket) -> Iterable[Sent]:
        from_ipv6 = packet.version == 6
        if from_ipv6 and (side != self.ipv6_side or not self.is_ipv4_destination(packet.dst)):
            return self.route(side, packet)
        if not from_ipv6 and side != self.ipv4_side:
            raise Drop
        ip.check_source_route(packet)
        datagram = self.reassemble(packet)
        return self.forward_ipv6(datagram) if from_ipv6 else self.forward_ipv4(datagram)

    def forward_ipv6(self, packet: IPPacket) -> Iterable[Sent]:
        return self.emit_ipv4(packet, self.to_ipv4(packet, self.find_map(packet)))

    def forward_ipv4(self, packet: IPPacket) -> Iterable[Sent]:
        return self.emit_ipv6(packet, self.find_map(packet))

    def emit_ipv4(self, arrived: IPPacket, packet: IPPacket) -> Iterable[Sent]:
        return [(self.ipv4_side, packet)]

    def emit_ipv6(self, packet: IPPacket, addresses: TableMap) -> list[Sent]:
        return [(self.ipv6_side, piece) for piece in self.to_ipv6(packet, addresses)]

    def to_ipv6(self, packet: IPPacket, addresses: TableMap) -> list[IPPacket]:
        """Return the IPv6 packet for an IPv4 packet, or its fragments (RFC 7915, section 4)."""
        packet, is_fragment = self.decrement(packet), packet.is_fragment
        if packet.proto == ip.UDP17 and not packet.offset and packet.octets[6:8] == b"\0\0":
            if is_fragment:
                raise Drop
            packet = packet.with_checksum(packet.octets, 6)
        if packet.proto in self.untranslated or (packet.proto == ip.ICMP4 and is_fragment):
            raise Drop
        translated = self.translate(packet, addresses)
        if packet.df and len(translated) > self.ipv6_mtu:
            raise Drop(ip.make_too_big_error(4, self.ipv6_mtu - 20))
        limit = self.ipv6_mtu if packet.df else min(self.lowest_ipv6_mtu, self.ipv6_mtu)
        return ip.fragment(translated, limit, packet.id or 0)

    def to_ipv4(self, packet: IPPacket, addresses: TableMap) -> IPPacket:
        """Return the IPv4 packet for an IPv6 packet (RFC 7915, section 5)."""
        translated = self.translate(self.decrement(packet), addresses)
        if len(translated) > self.ipv4_mtu:
            raise Drop(ip.make_too_big_error(6, self.ipv4_mtu + 20))
        return translated

    def translate(
        self, packet: IPPacket, addresses: TableMap, *, is_quoted: bool = False
    ) -> IPPacket:
        """Return a packet in the other IP version, hop limit unchanged; quoted ones may be truncated."""
        from_ipv4, is_fragment = packet.version == 4, packet.is_fragment
        refused = (*self.forbidden_in_fragments, ip.ICMP6) if is_fragment else INCOMPLETE
        if not from_ipv4 and packet.proto in refused:
            raise Drop
        src, dst = (self.map_address(end, addresses) for end in (packet.src, packet.dst))
        cleared = {"flow": 0, "options": (), "extensions": (), "df": False, "damaged": False}
        changed = replace(packet, src=src, dst=dst, **cleared)
        changed.id = packet.id if is_fragment else None
        if not from_ipv4:
            changed.id = (packet.id or 0) & 0xFFFF
        if packet.is_icmp:
            changed = self.translate_icmp(packet, changed, addresses, is_quoted=is_quoted)
        elif packet.proto in ip.PORT_PROTOCOLS:
            changed = ip.update_transport(changed, packet.pseudo_header, changed.pseudo_header)
        length = len(changed) + changed.missing
        changed.df = not from_ipv4 and not is_fragment and length > DF_FROM_OCTETS
        return changed

    def map_address(self, address: Address, addresses: TableMap) -> Address:
        """Translate an address; the well-known prefix holds only global ones (RFC 6052, section 3.1)."""
        mapped = (addresses.to_ipv6 if address.version == 4 else addresses.to_ipv4)(address)
        if mapped is not None:
            ipv4, ipv6 = sorted((address, mapped), key=lambda a: a.version)
            if ipv4.is_global or not self.checks_global or ipv6 not in WELL_KNOWN:
                return mapped
        raise Drop(UNTRANSLATABLE[address.version])

    def translate_icmp(
        self, packet: IPPacket, changed: IPPacket, addresses: TableMap, *, is_quoted: bool
    ) -> IPPacket:
        """Translate the ICMP message of a translated packet (RFC 7915, sections 4.2 and 5.2)."""
        from_ipv4, octets = packet.version == 4, packet.octets
        types = self.echo_to_ipv6 if from_ipv4 else self.echo_to_ipv4
        changed.proto = ip.ICMP6 if from_ipv4 else ip.ICMP4
        if is_quoted and packet.offset:
            return changed
        if octets and octets[0] in types and (is_quoted or len(octets) >= 8):
            octets = bytes([types[octets[0]]]) + octets[1:]
            return replace(changed, octets=octets) if is_quoted else changed.with_message(octets)
        if is_quoted or not packet.is_error:  # Errors about errors are not translated.
            raise Drop
        quoted = packet.read_quoted_packet()
        if quoted.version != packet.version:
            raise Drop
        translate = self.translate_error_to_ipv6 if from_ipv4 else self.translate_error_to_ipv4
        header = translate(IcmpError(*struct.unpack_from("!BBxxI", octets)), quoted)
        about = self.translate(quoted, addresses, is_quoted=True)
        return changed.with_message(bytes(header) + bytes(about))

    def translate_error_to_ipv6(self, error: IcmpError, quoted: IPPacket) -> IcmpError:
        """Return the header of the ICMPv6 error for an ICMP error (RFC 7915, section 4.2)."""
        kind, code, word = error
        if (kind, code) == (3, 4):
            length = len(quoted) + quoted.missing
            mtu = word & 0xFFFF or next((p for p in PLATEAUS if p < length), PLATEAUS[-1])
            return IcmpError(2, 0, max(1280, min(mtu, self.ipv6_mtu - 20, self.ipv4_mtu) + 20))
        pointer = TO_ICMPV6_POINTER.get(word >> 24)
        if kind == 12 and code in (0, 2) and pointer is not None:
            return IcmpError(4, 0, pointer)
        if (kind, code) not in TO_ICMPV6:
            raise Drop
        return TO_ICMPV6[kind, code]

    def translate_error_to_ipv4(self, error: IcmpError, quoted: IPPacket) -> IcmpError:
        """Return the header of the ICMP error for an ICMPv6 error (RFC 7915, section 5.2)."""
        kind, code, word = error
        if kind == 2:
            return IcmpError(3, 4, min(max(word - 20, 0), self.ipv4_mtu, self.ipv6_mtu - 20))
        pointer = TO_ICMP_POINTER.get(word)
        if (kind, code) == (4, 0) and pointer is not None:
            return IcmpError(12, 0, pointer << 24)
        if (kind, code) not in TO_ICMP:
            raise Drop
        return TO_ICMP[kind, code]


class StatelessTranslatingDevice(TranslatingDevice):
    """A SIIT or CLAT with an address table and hairpinning between explicitly mapped hosts."""

    def __init__(self, intent: DeviceIntent, view: Any) -> None:
        super().__init__(intent, view)
        self.table = TableMap(view.table)

    def find_map(self, packet: IPPacket) -> TableMap:
        return self.table

    def is_ipv4_destination(self, destination: Address) -> bool:
        return self.table.to_ipv4(destination) is not None

    def emit_ipv4(self, arrived: IPPacket, packet: IPPacket) -> Iterable[Sent]:
        """Send a packet to the IPv4 link, or back to a mapped host (RFC 7757, section 4.2).

        Intrinsic hairpinning needs a destination behind the prefix; of an error, the source that it
        quotes. The prefix hides the sender, and only one hop is counted.
        """
        table, prefix = self.table, self.table.prefix
        address = arrived.read_quoted_packet().src if arrived.is_error else arrived.dst
        is_behind = prefix and address in prefix and not table.find_explicit(address)
        host = table.to_ipv6(packet.dst)
        if not is_behind or not host or not table.find_explicit(packet.dst):
            return super().emit_ipv4(arrived, packet)
        addresses = TableMap.map_host(packet.dst, host, prefix)
        return [(side, replace(p, ttl=p.ttl + 1)) for side, p in self.emit_ipv6(packet, addresses)]


class PrefixDevice(PacketDevice):
    """An NPTv6 translator between an internal prefix on the left and an external prefix on the right."""

    def forward(self, side: SideName, packet: IPPacket) -> Iterable[Sent]:
        internal, external = self.view.internal, self.view.external
        if side == "left" and packet.src in internal:
            packet = self.translate(packet, internal, external, end="src")
        if packet.dst not in external:
            return self.route(side, packet)
        return [("left", self.decrement(self.translate(packet, external, internal, end="dst")))]

    def translate(self, packet: IPPacket, old: IPv6Network, new: IPv6Network, end: str) -> IPPacket:
        if packet.is_error:
            quoted, other = packet.read_quoted_packet(), "dst" if end == "src" else "src"
            if getattr(quoted, other) in old:
                quoted = self.translate(quoted, old, new, end=other)
            packet = replace(packet, octets=packet.octets[:8] + bytes(quoted))
        return replace(packet, **{end: translate_prefix(getattr(packet, end), old, new)})  # type: ignore[arg-type]
