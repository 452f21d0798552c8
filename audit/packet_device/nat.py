"""NATs: mappings with timers, and the NAT44, NAT66, NAT64 and AFTR that are made of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from scapy.layers.inet import ICMP, IP, TCP
from scapy.layers.inet6 import ICMPv6DestUnreach, ICMPv6PacketTooBig, IPv6
from scapy.packet import Packet, Raw
from v6t.audit.packet_device.device import DeviceLinks, PacketDevice, Sent, error_packet
from v6t.audit.packet_device.maps import AddressMap, HostMap, PrefixMap
from v6t.audit.packet_device.packets import (
    ICMP4,
    TCP6,
    UDP17,
    Drop,
    IPPacket,
    address_of,
    fragment_ipv4,
    is_echo,
    is_error,
    is_icmp,
    is_valid_message,
    payload,
    port,
    protocol,
    read_header,
    replace_endpoint,
    skip_extensions,
    with_payload,
)
from v6t.audit.packet_device.relays import TunnelDevice
from v6t.audit.packet_device.translator import TranslatingDevice, has_source_route, read_error
from v6t.plugins.audit_views import Nat, SideName

RESET_S, UDP_S = 240.0, 300.0
"""Lifetimes after an RST (RFC 7857, section 2.2), and of UDP if none is configured."""
WINDOW = 1 << 20
INSIDE_IPV4 = "0.0.0.1"
"""Source of what a NAT64 hands to its mappings; hosts are told apart by their IPv6 addresses."""
FIN, SYN, RST = 0x01, 0x02, 0x04


class NatEndpoint(NamedTuple):
    """An address and a port or identifier."""

    address: str
    port: int


class Inside(NamedTuple):
    """An inside endpoint; `host` tells B4s and IPv6 hosts apart that use the same IPv4 address."""

    host: str
    address: str
    port: int


class Translated(NamedTuple):
    """A packet that leaves a NAT; `host` is whom it is for on the left link."""

    side: SideName
    packet: IPPacket
    host: str = ""


@dataclass
class NatMapping:
    """An inside endpoint and its public one."""

    protocol: int
    inside: Inside
    public: NatEndpoint
    lifetime_s: float
    used_s: float
    servers: set[NatEndpoint] = field(default_factory=set)
    syn_sides: set[str] = field(default_factory=set)
    next_sequence: int = 0
    """Sequence number that the server sends next."""


class NatTable:
    """Mappings of a NAT (RFC 4787, 5382, 5508, 6146) and what they make of packets."""

    def __init__(self, view: Nat) -> None:
        self.view = view
        self.pool = [str(address) for address in view.pool]
        self.mappings: list[NatMapping] = []
        self.hosts: list[str] = []
        self.now_s = 0.0

    def expire(self, now_s: float) -> None:
        """Remove the mappings that have been idle for their lifetime."""
        self.now_s = now_s
        self.mappings = [m for m in self.mappings if now_s - m.used_s <= m.lifetime_s]

    def flush(self) -> None:
        """Remove all mappings."""
        self.mappings = []

    def find_inside(self, proto: int, inside: Inside, server: NatEndpoint) -> NatMapping | None:
        """Return the mapping of an inside endpoint: the same for all servers."""
        del server
        matches = (m for m in self.mappings if (m.protocol, m.inside) == (proto, inside))
        return next(matches, None)

    def find_public(self, proto: int, public: NatEndpoint) -> NatMapping | None:
        """Return the mapping of a public endpoint."""
        matches = (m for m in self.mappings if (m.protocol, m.public) == (proto, public))
        return next(matches, None)

    def create(self, proto: int, inside: Inside, server: NatEndpoint) -> NatMapping:
        """Add a mapping.

        Raises:
            Drop: the table or the port range is full.
        """
        limit = self.view.session_limit
        if limit and len(self.mappings) >= limit:
            return self.handle_exhaustion(proto, inside, server)
        address = self.choose_address(inside)
        number = self.choose_port(proto, inside, address, server)
        if number is None:
            return self.handle_exhaustion(proto, inside, server)
        lifetime_s = self.initial_lifetime_s(proto)
        mapping = NatMapping(proto, inside, NatEndpoint(address, number), lifetime_s, self.now_s)
        self.mappings.append(mapping)
        return mapping

    def handle_exhaustion(self, proto: int, inside: Inside, server: NatEndpoint) -> NatMapping:
        """Refuse a mapping and tell the host (RFC 6888, REQ-11; RFC 5508, REQ-8)."""
        raise Drop(unreachable(6 if ":" in inside.address else 4))

    def host_number(self, inside: Inside) -> int:
        """Return a number for each host, in order of appearance."""
        host = inside.host or inside.address
        if host not in self.hosts:
            self.hosts.append(host)
        return self.hosts.index(host)

    def choose_address(self, inside: Inside) -> str:
        """Return a public address: one for all mappings of a host (RFC 4787, REQ-2)."""
        return self.pool[self.host_number(inside) % len(self.pool)]

    def port_range(self, inside: Inside) -> tuple[int, int]:
        """Return the lowest and highest public port of a host."""
        low, high = self.view.public
        if not self.view.block:
            return low, high
        low += self.view.block * (self.host_number(inside) // len(self.pool))
        return low, low + self.view.block - 1

    def used_ports(self, proto: int, inside: Inside, address: str, server: NatEndpoint) -> set[int]:
        """Return the ports of a public address that other mappings have."""
        del inside, server
        return {
            m.public.port
            for m in self.mappings
            if (m.protocol, m.public.address) == (proto, address)
        }

    def choose_port(
        self, proto: int, inside: Inside, address: str, server: NatEndpoint
    ) -> int | None:
        """Return the inside port if it is free, else one of its parity, else any; None if full."""
        low, high = self.port_range(inside)
        used = self.used_ports(proto, inside, address, server)
        preserved = [inside.port] if low <= inside.port <= high else []
        same_parity = range(low + (inside.port - low) % 2, high + 1, 2)
        candidates = chain(preserved, same_parity, range(low, high + 1))
        return next((number for number in candidates if number not in used), None)

    def initial_lifetime_s(self, proto: int) -> float:
        """Return how long a new mapping may be idle."""
        if proto == UDP17:
            return self.view.udp_timeout_s or UDP_S
        return self.view.tcp_transitory_s if proto == TCP6 else self.view.icmp_timeout_s

    def refresh(self, mapping: NatMapping, side: SideName) -> None:
        """Restart the timer of a mapping that a packet from a side uses."""
        del side
        mapping.used_s = self.now_s

    def accepts(self, mapping: NatMapping, server: NatEndpoint) -> bool:
        """Return whether a server may reach a mapping: endpoint-independent filtering."""
        del mapping, server
        return True

    def follow(
        self, mapping: NatMapping, packet: IPPacket, side: SideName, server: NatEndpoint
    ) -> None:
        """Follow a TCP connection (RFC 5382, REQ-5; RFC 7857, section 2).

        Raises:
            Drop: the segment is not forwarded.
        """
        del server
        segment = TCP(payload(packet)[:20])
        fits = side == "left" or self.is_in_window(mapping, segment)
        if segment.flags.S:
            mapping.syn_sides.add(side)
            if len(mapping.syn_sides) == 2:
                mapping.lifetime_s = self.view.tcp_established_s
        if side == "right" and fits:
            size = len(payload(packet)) - 4 * segment.dataofs
            mapping.next_sequence = segment.seq + size + bool(segment.flags & (SYN | FIN))
        if segment.flags.R:
            self.follow_reset(mapping, side, fits=fits)
        elif mapping.lifetime_s == RESET_S and len(mapping.syn_sides) == 2:
            mapping.lifetime_s = self.view.tcp_established_s

    def is_in_window(self, mapping: NatMapping, segment: Packet) -> bool:
        """Return whether a server's segment may be accepted by the client."""
        expected = mapping.next_sequence
        return not expected or abs(segment.seq - expected) < WINDOW

    def follow_reset(self, mapping: NatMapping, side: SideName, *, fits: bool) -> None:
        """Shorten the lifetime after an RST that an end accepts."""
        del side
        if fits:
            mapping.lifetime_s = RESET_S

    # packets from inside

    def send_out(self, packet: IPPacket, host: str = "") -> list[Translated]:
        """Translate a packet from inside.

        Args:
            packet: its hop limit has been decremented.
            host: tells hosts with equal addresses apart.

        Raises:
            Drop: it is not forwarded.
        """
        if is_error(packet):
            return self.send_error_out(packet, host)
        proto = transport_of(packet)
        inside = Inside(host, packet.src, endpoint(packet, is_source=True).port)
        server = endpoint(packet, is_source=False)
        mapping = self.find_inside(proto, inside, server) or self.create(proto, inside, server)
        mapping.servers.add(server)
        self.refresh(mapping, "left")
        if proto == TCP6:
            self.follow(mapping, packet, "left", server)
        translated = self.translate_source(packet, mapping)
        if packet.dst in self.pool:
            return self.hairpin(packet, translated)
        return [Translated("right", translated)]

    def translate_source(self, packet: IPPacket, mapping: NatMapping) -> IPPacket:
        """Return a packet from the public endpoint."""
        return replace_endpoint(packet, mapping.public, is_source=True)

    def hairpin(self, packet: IPPacket, translated: IPPacket) -> list[Translated]:
        """Send a packet to another inside host, from the public endpoint (RFC 4787, REQ-9)."""
        del packet
        return self.send_in(translated, is_hairpinned=True)

    def send_error_out(self, packet: IPPacket, host: str) -> list[Translated]:
        """Translate a host's ICMP error with the packet that it quotes (RFC 5508, REQ-5)."""
        quoted = read_quoted_packet(packet)
        host_end, server = endpoint(quoted, is_source=False), endpoint(quoted, is_source=True)
        mapping = self.find_inside(transport_of(quoted), Inside(host, *host_end), server)
        if mapping is None:
            raise Drop
        about = self.translate_quoted_destination(quoted, mapping)
        changed = replace_address(packet, mapping.public.address, is_source=True)
        if packet.dst in self.pool:
            return self.hairpin_error(changed, about)
        return [Translated("right", replace_quoted_packet(changed, about))]

    def translate_quoted_destination(self, quoted: IPPacket, mapping: NatMapping) -> IPPacket:
        """Return the packet that a host's error quotes, to the public endpoint."""
        return replace_endpoint(quoted, mapping.public, is_source=False)

    def hairpin_error(self, packet: IPPacket, about: IPPacket) -> list[Translated]:
        """Send a host's ICMP error to the host that it is about (RFC 5508, REQ-7)."""
        source = endpoint(about, is_source=True)
        mapping = self.find_public(transport_of(about), NatEndpoint(packet.dst, source.port))
        if mapping is None:
            raise Drop
        inner = replace_endpoint(about, mapping.inside[1:], is_source=True)
        changed = replace_address(packet, mapping.inside.address, is_source=False)
        return [Translated("left", replace_quoted_packet(changed, inner), mapping.inside.host)]

    # packets from outside

    def send_in(self, packet: IPPacket, *, is_hairpinned: bool = False) -> list[Translated]:
        """Translate a packet from outside."""
        if is_error(packet):
            return self.send_error_in(packet)
        proto, public = transport_of(packet), endpoint(packet, is_source=False)
        mapping = self.find_public(proto, public)
        if mapping is None:
            return self.handle_unknown(packet)
        server = endpoint(packet, is_source=True)
        if not is_hairpinned and not self.accepts(mapping, server):
            return self.handle_stranger(packet, server)
        if proto == TCP6:
            self.follow(mapping, packet, "right", server)
        self.refresh(mapping, "right")
        inside = mapping.inside
        translated = replace_endpoint(packet, inside[1:], is_source=False)
        return [Translated("left", translated, inside.host)]

    def handle_unknown(self, packet: IPPacket) -> list[Translated]:
        """Drop a packet to a public endpoint without a mapping."""
        raise Drop

    def handle_stranger(self, packet: IPPacket, server: NatEndpoint) -> list[Translated]:
        """Drop a packet of a server that may not reach a mapping."""
        raise Drop

    def send_error_in(self, packet: IPPacket) -> list[Translated]:
        """Translate an ICMP error with the packet that it quotes (RFC 5508, REQ-4)."""
        if not self.is_valid_error(packet):
            raise Drop
        quoted = read_quoted_packet(packet)
        proto, public = transport_of(quoted), endpoint(quoted, is_source=True)
        mapping = self.find_public(proto, public)
        if mapping is None:
            return self.handle_unknown(packet)
        about = self.translate_quoted_source(quoted, mapping)
        changed = replace_address(packet, mapping.inside.address, is_source=False)
        return [Translated("left", replace_quoted_packet(changed, about), mapping.inside.host)]

    def is_valid_error(self, packet: IPPacket) -> bool:
        """Return whether the checksum of an ICMP error is right (RFC 5508, REQ-3)."""
        return is_valid_message(packet)

    def translate_quoted_source(self, quoted: IPPacket, mapping: NatMapping) -> IPPacket:
        """Return the packet that an error quotes, as its host sent it."""
        return replace_endpoint(quoted, mapping.inside[1:], is_source=True)


def transport_of(packet: IPPacket) -> int:
    """Return the protocol of a packet that a NAT translates; ICMPv6 counts as ICMP.

    Raises:
        Drop: it has no ports, and is not an echo.
    """
    proto = protocol(packet)
    if proto in (TCP6, UDP17):
        return proto
    if is_icmp(packet) and is_echo(packet):
        return ICMP4
    raise Drop


def endpoint(packet: IPPacket, *, is_source: bool) -> NatEndpoint:
    """Return the source or destination of a packet; an echo's remote end has port 0."""
    number = port(packet, is_source=is_source)
    if number is None:
        raise Drop
    return NatEndpoint(packet.src if is_source else packet.dst, number)


def unreachable(version: int) -> Packet:
    """Return the header of an ICMP host unreachable or ICMPv6 address unreachable."""
    return ICMP(type=3, code=1) if version == 4 else ICMPv6DestUnreach(code=3)


def read_quoted_packet(packet: IPPacket) -> IPPacket:
    """Return the packet that an ICMP error quotes."""
    return read_header(payload(packet)[8:])


def replace_address(packet: IPPacket, address: str, *, is_source: bool) -> IPPacket:
    """Return a packet with another source or destination; its message is summed later."""
    changed = with_payload(packet, payload(packet))
    setattr(changed, "src" if is_source else "dst", address)
    return changed


def replace_quoted_packet(packet: IPPacket, quoted: IPPacket) -> IPPacket:
    """Return an ICMP error with another quoted packet and a new checksum."""
    octets = payload(packet)
    header = ICMP(octets[:8]) if packet.version == 4 else read_error(octets)
    header.delfieldval("chksum" if packet.version == 4 else "cksum")
    bare = with_payload(packet, b"")
    return with_payload(packet, bytes(bare / header / Raw(bytes(quoted)))[len(bare) :])


class NatDevice(PacketDevice):
    """A NAT44 or NAT66: hosts on the left link, servers on the right link."""

    table_class = NatTable

    def __init__(self, ports: DeviceLinks, view: Nat) -> None:
        super().__init__(ports)
        self.table = self.table_class(view)
        self.version = view.pool[0].version

    def flush(self) -> None:
        super().flush()
        self.table.flush()

    def forward(self, side: SideName, packet: IPPacket) -> Iterable[Sent]:
        if packet.version != self.version:
            yield from self.route(side, packet)
            return
        self.table.expire(self.now_s)
        whole = self.reassembly.add(packet)
        if whole is None:
            return
        aged = self.decrement(whole)
        send = self.table.send_out if side == "left" else self.table.send_in
        for out, translated, _ in send(aged):
            yield from self.fit(out, translated)

    def fit(self, side: SideName, packet: IPPacket) -> Iterable[Sent]:
        """Fragment a reassembled packet that exceeds the MTU of its link."""
        return [(side, piece) for piece in fit_mtu(packet, self.ports.mtu(side))]


def fit_mtu(packet: IPPacket, mtu: int) -> list[IPPacket]:
    """Return a packet, or fragments of it that fit a link.

    Raises:
        Drop: the packet is too big and must not be fragmented.
    """
    if packet.version == 4:
        if len(packet) > mtu and packet.flags.DF:
            raise Drop(ICMP(type=3, code=4, nexthopmtu=mtu))
        return fragment_ipv4(packet, mtu)
    if len(packet) > mtu:
        raise Drop(ICMPv6PacketTooBig(mtu=mtu))
    return [packet]


class Nat64Device(TranslatingDevice):
    """A NAT64 (RFC 6146): a translator in front of mappings."""

    table_class = NatTable

    def __init__(self, ports: DeviceLinks, view: Nat, prefix: PrefixMap) -> None:
        super().__init__(ports, "left", view.lowest_ipv6_mtu)
        self.table, self.prefix = self.table_class(view), prefix

    def flush(self) -> None:
        super().flush()
        self.table.flush()

    def is_ipv4_destination(self, destination: str) -> bool:
        return address_of(destination) in self.prefix.prefix

    def map_for(self, packet: IPPacket) -> AddressMap:
        if packet.version == 6 and self.is_ipv4_destination(packet.src):  # RFC 6146, section 3.5
            raise Drop
        return HostMap(address_of(INSIDE_IPV4), address_of(packet.src), self.prefix)

    def map_for_host(self, host: str) -> AddressMap:
        """Return the map with which packets go to a host."""
        return HostMap(address_of(INSIDE_IPV4), address_of(host), self.prefix)

    def forward_ipv6(self, packet: IPv6) -> Iterable[Sent]:
        skip_extensions(packet)
        self.table.expire(self.now_s)
        whole = self.reassembly.add(packet)
        return [] if whole is None else super().forward_ipv6(whole)

    def emit_ipv4(self, arrived: IPv6, packet: IP) -> Iterable[Sent]:
        try:
            for out, translated, host in self.table.send_out(packet, arrived.src):
                yield from self.emit(out, translated, host)
        except Drop as drop:
            error = drop.error
            raise Drop(self.error_to_ipv6(error, packet) if error else None) from None

    def emit(self, side: SideName, packet: IP, host: str) -> Iterable[Sent]:
        """Send a translated packet to a server, or to a host as IPv6."""
        if side == "right":
            return [(side, piece) for piece in fit_mtu(packet, self.ipv4_mtu)]
        return [(side, piece) for piece in self.to_ipv6(packet, self.map_for_host(host))]

    def forward_ipv4(self, packet: IP) -> Iterable[Sent]:
        self.table.expire(self.now_s)
        whole = self.reassembly.add(packet)
        if whole is None:
            return
        if has_source_route(whole):
            raise Drop(ICMP(type=3, code=5))
        for out, translated, host in self.table.send_in(whole):
            yield from self.emit(out, translated, host)


class AftrDevice(TunnelDevice):
    """The AFTR of DS-Lite (RFC 6333): each B4 is a host with any IPv4 address."""

    copies_dscp = True
    table_class = NatTable

    def __init__(self, ports: DeviceLinks, view: Nat) -> None:
        super().__init__(ports)
        self.table = self.table_class(view)
        self.relays = [view.aftr] if view.aftr else []

    def flush(self) -> None:
        super().flush()
        self.table.flush()

    def forward(self, side: SideName, packet: IPPacket) -> Iterable[Sent]:
        self.table.expire(self.now_s)
        return super().forward(side, packet)

    def check_source(self, outer: IPv6, inner: IP) -> None:
        """Accept every source (RFC 6333, section 8.2)."""

    def age_inner(self, inner: IP) -> IP:
        return self.decrement(inner)

    def decapsulate(self, packet: IPv6) -> IP:
        """Return a whole inner packet: only the first fragment has ports."""
        whole = self.reassembly.add(super().decapsulate(packet), packet.src)
        if whole is None:
            raise Drop
        return whole

    def forward_from_tunnel(self, outer: IPv6, inner: IP) -> Iterable[Sent]:
        """Translate an inner packet; ICMP errors about it go into the tunnel."""
        try:
            return super().forward_from_tunnel(outer, inner)
        except Drop as drop:
            if drop.error is None or is_error(inner):
                raise Drop from None
            error = error_packet(self.ports.addresses["right", 4], inner, drop.error)
            return self.send_to_b4(error, outer.src)

    def forward_inner(self, outer: IPv6, inner: IP) -> Iterable[Sent]:
        return [
            sent
            for out, translated, host in self.table.send_out(inner, outer.src)
            for sent in self.emit(out, translated, host)
        ]

    def emit(self, side: SideName, packet: IP, host: str) -> Iterable[Sent]:
        """Send a translated packet to a server, or to a B4."""
        if side == "left":
            return self.send_to_b4(packet, host)
        return [(side, piece) for piece in fit_mtu(packet, self.ports.mtu(side))]

    def send_to_b4(self, packet: IP, b4: str) -> list[Sent]:
        """Encapsulate a packet for a B4."""
        (aftr,) = self.relays
        return self.encapsulate(packet, aftr, address_of(b4))

    def forward_ipv4(self, packet: IP) -> Iterable[Sent]:
        whole = self.reassembly.add(self.decrement(packet))
        if whole is None:
            return
        for out, translated, host in self.table.send_in(whole):
            yield from self.emit(out, translated, host)
