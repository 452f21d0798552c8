"""NATs: mappings with timers, and the NAT44, NAT66, NAT64 and AFTR that are made of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv6Network
from itertools import chain
from typing import NamedTuple

from scapy.layers.inet import TCP
from v6t.audit.packet_device.device import DeviceLinks, PacketDevice, Sent, error_packet
from v6t.audit.packet_device.maps import HostMap, PrefixMap
from v6t.audit.packet_device.packets import (
    ICMP4,
    PORT_PROTOCOLS,
    TCP6,
    UDP17,
    Drop,
    IcmpError,
    IPPacket,
    fragment,
    port,
    replace_endpoint,
)
from v6t.audit.packet_device.relays import TunnelDevice
from v6t.audit.packet_device.translator import TranslatingDevice
from v6t.plugins.audit_views import Address, Nat, SideName

RESET_S, UDP_S = 240.0, 300.0
"""Lifetimes after an RST (RFC 7857, section 2.2), and of UDP if none is configured."""
WINDOW = 1 << 20
INSIDE_IPV4 = IPv4Address("0.0.0.1")
"""Source of what a NAT64 hands to its mappings; IPv6 addresses distinguish the hosts."""
HOST_UNREACHABLE = {4: IcmpError(3, 1), 6: IcmpError(1, 3)}


class NatEndpoint(NamedTuple):
    """An address and a port or identifier."""

    address: Address
    port: int


class Inside(NamedTuple):
    """An inside endpoint; `host` distinguishes B4s and IPv6 hosts with the same IPv4 address."""

    host: Address
    address: Address
    port: int


class SessionKey(NamedTuple):
    """An inside endpoint and the server that it exchanges packets with."""

    protocol: int
    inside: Inside
    server: NatEndpoint


class Translated(NamedTuple):
    """A packet that leaves a NAT, and the host that it is for on the left link."""

    side: SideName
    packet: IPPacket
    host: Address | None = None


@dataclass
class NatMapping:
    """An inside endpoint and its public one.

    Attributes:
        next_sequence: sequence number that the server sends next.
    """

    protocol: int
    inside: Inside
    public: NatEndpoint
    lifetime_s: float
    used_s: float
    servers: set[NatEndpoint] = field(default_factory=set)
    syn_sides: set[str] = field(default_factory=set)
    next_sequence: int = 0


class NatTable:
    """Mappings of a NAT (RFC 4787, 5382, 5508, 6146) and what they make of packets."""

    def __init__(self, view: Nat) -> None:
        self.view = view
        self.pool = list(view.pool)
        self.mappings: list[NatMapping] = []
        self.hosts: list[Address] = []
        self.now_s = 0.0

    def expire(self, now_s: float) -> None:
        """Remove the mappings that have been idle for their lifetime."""
        self.now_s = now_s
        self.mappings = [m for m in self.mappings if now_s - m.used_s <= m.lifetime_s]

    def flush(self) -> None:
        """Remove all mappings."""
        self.mappings = []

    def find_inside(self, session: SessionKey) -> NatMapping | None:
        """Return the mapping of an inside endpoint: the same for all servers."""
        return next((m for m in self.mappings if (m.protocol, m.inside) == session[:2]), None)

    def find_public(self, proto: int, public: NatEndpoint) -> NatMapping | None:
        """Return the mapping of a public endpoint."""
        matches = (m for m in self.mappings if (m.protocol, m.public) == (proto, public))
        return next(matches, None)

    def create(self, session: SessionKey) -> NatMapping:
        """Add a mapping.

        Raises:
            Drop: the table or the port range is full.
        """
        limit, address = self.view.session_limit, self.choose_address(session.inside)
        is_full = limit and len(self.mappings) >= limit
        number = None if is_full else self.choose_port(session, address)
        if number is None:
            return self.handle_exhaustion(session)
        public, lifetime_s = NatEndpoint(address, number), self.initial_lifetime_s(session.protocol)
        mapping = NatMapping(session.protocol, session.inside, public, lifetime_s, self.now_s)
        self.mappings.append(mapping)
        return mapping

    def handle_exhaustion(self, session: SessionKey) -> NatMapping:
        """Refuse a mapping and report it to the host (RFC 6888, REQ-11; RFC 5508, REQ-8)."""
        raise Drop(HOST_UNREACHABLE[session.inside.address.version])

    def host_number(self, inside: Inside) -> int:
        """Return a number for each host, in order of appearance."""
        if inside.host not in self.hosts:
            self.hosts.append(inside.host)
        return self.hosts.index(inside.host)

    def choose_address(self, inside: Inside) -> Address:
        """Return a public address: one for all mappings of a host (RFC 4787, REQ-2)."""
        return self.pool[self.host_number(inside) % len(self.pool)]

    def port_range(self, inside: Inside) -> tuple[int, int]:
        """Return the lowest and highest public port of a host."""
        low, high = self.view.public
        if not self.view.block:
            return low, high
        low += self.view.block * (self.host_number(inside) // len(self.pool))
        return low, low + self.view.block - 1

    def used_ports(self, session: SessionKey, address: Address) -> set[int]:
        """Return the ports of a public address that other mappings have."""
        key = (session.protocol, address)
        return {m.public.port for m in self.mappings if (m.protocol, m.public.address) == key}

    def choose_port(self, session: SessionKey, address: Address) -> int | None:
        """Return the inside port if it is free, else one of its parity, else any; None if full."""
        inside = session.inside
        low, high = self.port_range(inside)
        used = self.used_ports(session, address)
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
        segment, expected = TCP(packet.octets[:20]), mapping.next_sequence
        flags = segment.flags
        fits = side == "left" or not expected or abs(segment.seq - expected) < WINDOW
        if flags.S:
            mapping.syn_sides.add(side)
        if side == "right" and fits:
            size = len(packet.octets) - 4 * segment.dataofs
            mapping.next_sequence = segment.seq + size + bool(flags.S or flags.F)
        if flags.R:
            self.follow_reset(mapping, fits=fits)
        elif len(mapping.syn_sides) == 2 and (flags.S or mapping.lifetime_s == RESET_S):
            mapping.lifetime_s = self.view.tcp_established_s

    def follow_reset(self, mapping: NatMapping, *, fits: bool) -> None:
        """Shorten the lifetime after an RST that an end accepts."""
        if fits:
            mapping.lifetime_s = RESET_S

    def send_out(self, packet: IPPacket, host: Address | None = None) -> list[Translated]:
        """Translate a packet from inside.

        Args:
            packet: its hop limit has been decremented.
            host: distinguishes hosts with equal addresses; by default the source.

        Raises:
            Drop: it is not forwarded.
        """
        host = host or packet.src
        if packet.is_error:
            return self.send_error_out(packet, host)
        inside = Inside(host, *endpoint(packet, is_source=True))
        server = endpoint(packet, is_source=False)
        session = SessionKey(transport_of(packet), inside, server)
        mapping = self.find_inside(session) or self.create(session)
        mapping.servers.add(server)
        self.refresh(mapping, "left")
        if session.protocol == TCP6:
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

    def send_error_out(self, packet: IPPacket, host: Address) -> list[Translated]:
        """Translate a host's ICMP error with the packet that it quotes (RFC 5508, REQ-5)."""
        quoted = packet.quoted_packet()
        inside = Inside(host, *endpoint(quoted, is_source=False))
        server = endpoint(quoted, is_source=True)
        mapping = self.find_inside(SessionKey(transport_of(quoted), inside, server))
        if mapping is None:
            raise Drop
        about = self.translate_quoted_destination(quoted, mapping)
        changed = replace(packet, src=mapping.public.address)
        if packet.dst in self.pool:
            return self.hairpin_error(changed, about)
        return [Translated("right", replace_quoted_packet(changed, about))]

    def translate_quoted_destination(self, quoted: IPPacket, mapping: NatMapping) -> IPPacket:
        """Return the packet that a host's error quotes, to the public endpoint."""
        return replace_endpoint(quoted, mapping.public, is_source=False)

    def hairpin_error(self, packet: IPPacket, about: IPPacket) -> list[Translated]:
        """Send a host's ICMP error to the host that it is about (RFC 5508, REQ-7)."""
        source = NatEndpoint(packet.dst, endpoint(about, is_source=True).port)
        mapping = self.find_public(transport_of(about), source)
        if mapping is None:
            raise Drop
        return self.send_error_to_host(packet, about, mapping)

    def send_error_to_host(
        self, packet: IPPacket, about: IPPacket, mapping: NatMapping
    ) -> list[Translated]:
        """Send an ICMP error to the host whose packet it is about."""
        about = self.translate_quoted_source(about, mapping)
        changed = replace(packet, dst=mapping.inside.address)
        return [Translated("left", replace_quoted_packet(changed, about), mapping.inside.host)]

    def translate_quoted_source(self, quoted: IPPacket, mapping: NatMapping) -> IPPacket:
        """Return the packet that an error quotes, as its host sent it."""
        return replace_endpoint(quoted, mapping.inside[1:], is_source=True)

    def send_in(self, packet: IPPacket, *, is_hairpinned: bool = False) -> list[Translated]:
        """Translate a packet from outside."""
        if packet.is_error:
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
        translated = replace_endpoint(packet, mapping.inside[1:], is_source=False)
        return [Translated("left", translated, mapping.inside.host)]

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
        quoted = packet.quoted_packet()
        mapping = self.find_public(transport_of(quoted), endpoint(quoted, is_source=True))
        if mapping is None:
            return self.handle_unknown(packet)
        return self.send_error_to_host(packet, quoted, mapping)

    def is_valid_error(self, packet: IPPacket) -> bool:
        """Return whether the checksum of an ICMP error is right (RFC 5508, REQ-3)."""
        return packet.has_valid_message


def transport_of(packet: IPPacket) -> int:
    """Return the protocol of a packet that a NAT translates; ICMPv6 counts as ICMP.

    Raises:
        Drop: it has no ports, and is not an echo.
    """
    if packet.proto in PORT_PROTOCOLS:
        return packet.proto
    if packet.is_echo:
        return ICMP4
    raise Drop


def endpoint(packet: IPPacket, *, is_source: bool) -> NatEndpoint:
    """Return the source or destination of a packet.

    Raises:
        Drop: it has no port.
    """
    number = port(packet, is_source=is_source)
    if number is None:
        raise Drop
    return NatEndpoint(packet.src if is_source else packet.dst, number)


def replace_quoted_packet(packet: IPPacket, quoted: IPPacket) -> IPPacket:
    """Return an ICMP error with another quoted packet and a new checksum."""
    return packet.with_message(packet.octets[:8] + bytes(quoted))


class MappingDevice(PacketDevice):
    """A device that translates packets of IPv4 or IPv6 by a table of mappings."""

    table_class = NatTable
    table: NatTable

    def flush(self) -> None:
        super().flush()
        self.table.flush()

    def send_out(self, packet: IPPacket, host: Address) -> list[Sent]:
        """Translate and send a packet from inside."""
        self.table.expire(self.now_s)
        sent = self.table.send_out(packet, host)
        return [piece for translated in sent for piece in self.emit(*translated)]

    def send_in(self, packet: IPPacket) -> list[Sent]:
        """Translate and send a packet from outside."""
        self.table.expire(self.now_s)
        sent = self.table.send_in(packet)
        return [piece for translated in sent for piece in self.emit(*translated)]

    def emit(self, side: SideName, packet: IPPacket, host: Address | None) -> list[Sent]:
        """Send a translated packet; fragment it if it exceeds the MTU of its link."""
        del host
        mtu = self.ports.mtu(side)
        if len(packet) > mtu and packet.version == 6:
            raise Drop(IcmpError(2, 0, mtu))
        if len(packet) > mtu and packet.df:
            raise Drop(IcmpError(3, 4, mtu))
        return [(side, piece) for piece in fragment(packet, mtu)]


class NatDevice(MappingDevice):
    """A NAT44 or NAT66: hosts on the left link, servers on the right link."""

    def __init__(self, ports: DeviceLinks, view: Nat) -> None:
        super().__init__(ports)
        self.table = self.table_class(view)
        self.version = view.pool[0].version

    def forward(self, side: SideName, packet: IPPacket) -> Iterable[Sent]:
        if packet.version != self.version:
            return self.route(side, packet)
        whole = self.reassembly.add(packet)
        if whole is None:
            return []
        aged = self.decrement(whole)
        return self.send_out(aged, aged.src) if side == "left" else self.send_in(aged)


class Nat64Device(MappingDevice, TranslatingDevice):
    """A NAT64 (RFC 6146): a translator in front of mappings."""

    def __init__(self, ports: DeviceLinks, view: Nat, prefix: IPv6Network) -> None:
        super().__init__(ports, "left", view.lowest_ipv6_mtu)
        self.table, self.prefix = self.table_class(view), PrefixMap(prefix)

    def is_ipv4_destination(self, destination: Address) -> bool:
        return destination in self.prefix.prefix

    def map_for(self, packet: IPPacket) -> HostMap:
        if packet.src in self.prefix.prefix:  # RFC 6146, section 3.5
            raise Drop
        return self.map_for_host(packet.src)

    def map_for_host(self, host: Address) -> HostMap:
        """Return the map of packets from and to a host."""
        return HostMap(INSIDE_IPV4, host, self.prefix)

    def reassemble(self, packet: IPPacket) -> IPPacket | None:
        return self.reassembly.add(packet)

    def emit_ipv4(self, arrived: IPPacket, packet: IPPacket) -> list[Sent]:
        try:
            return self.send_out(packet, arrived.src)
        except Drop as drop:
            error = drop.error
            raise Drop(self.error_to_ipv6(error, packet) if error else None) from None

    def emit(self, side: SideName, packet: IPPacket, host: Address | None) -> list[Sent]:
        """Send a translated packet to a server, or to a host as IPv6."""
        if side == "right" or host is None:
            return super().emit(side, packet, host)
        return [(side, piece) for piece in self.to_ipv6(packet, self.map_for_host(host))]

    def forward_ipv4(self, packet: IPPacket) -> Iterable[Sent]:
        return self.send_in(packet)


class AftrDevice(MappingDevice, TunnelDevice):
    """The AFTR of DS-Lite (RFC 6333): each B4 is a host with any IPv4 address."""

    copies_dscp = True

    def __init__(self, ports: DeviceLinks, view: Nat, aftr: Address) -> None:
        super().__init__(ports)
        self.table = self.table_class(view)
        self.aftr, self.relays = aftr, [aftr]

    def check_source(self, outer: IPPacket, inner: IPPacket) -> None:
        """Accept every source (RFC 6333, section 8.2)."""

    def age_inner(self, inner: IPPacket) -> IPPacket:
        return self.decrement(inner)

    def decapsulate(self, packet: IPPacket) -> IPPacket:
        """Return a whole inner packet: only the first fragment has ports."""
        whole = self.reassembly.add(super().decapsulate(packet), packet.src)
        if whole is None:
            raise Drop
        return whole

    def forward_from_tunnel(self, outer: IPPacket, inner: IPPacket) -> Iterable[Sent]:
        """Translate an inner packet; ICMP errors about it go into the tunnel."""
        try:
            return super().forward_from_tunnel(outer, inner)
        except Drop as drop:
            if drop.error is None or not inner.is_answerable:
                raise Drop from None
            error = error_packet(self.ports.addresses["right", 4], inner, drop.error)
            return self.emit("left", error, outer.src)

    def forward_inner(self, outer: IPPacket, inner: IPPacket) -> Iterable[Sent]:
        return self.send_out(inner, outer.src)

    def emit(self, side: SideName, packet: IPPacket, host: Address | None) -> list[Sent]:
        """Send a translated packet to a server, or to a B4."""
        if side == "right" or host is None:
            return super().emit(side, packet, host)
        return self.encapsulate(packet, self.aftr, host)

    def forward_ipv4(self, packet: IPPacket) -> Iterable[Sent]:
        whole = self.reassembly.add(self.decrement(packet))
        return [] if whole is None else self.send_in(whole)
