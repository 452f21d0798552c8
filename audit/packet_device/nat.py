"""NATs: mappings with timers, and the NAT44, NAT66, NAT64 and AFTR that are made of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address
from itertools import chain
from typing import NamedTuple, TypeAlias

from scapy.layers.inet import TCP
from v6t.audit import ip_packet as ip
from v6t.audit.ip_packet import Drop, Endpoint, IcmpError, IPPacket
from v6t.audit.packet_device.device import PacketDevice, Sent, build_error_packet
from v6t.audit.packet_device.maps import TableMap
from v6t.audit.packet_device.relays import TunnelingDevice
from v6t.audit.packet_device.translator import TranslatingDevice
from v6t.intent.device import DeviceIntent
from v6t.plugins.audit_views import Address, Nat, SideName

RESET_S, UDP_S = 240.0, 300.0  # after an RST (RFC 7857, section 2.2); default of UDP
WINDOW = 1 << 20
INSIDE_IPV4 = IPv4Address("0.0.0.1")  # of each host of a NAT64, before its mappings
HOST_UNREACHABLE = {4: IcmpError(3, 1), 6: IcmpError(1, 3)}
Translated: TypeAlias = tuple[SideName, IPPacket, Address | None]  # with its host on the left link


class SessionKey(NamedTuple):
    """Key of a session: host, inside endpoint (which several hosts may use) and server."""

    protocol: int
    host: Address
    inside: Endpoint
    server: Endpoint


@dataclass
class NatMapping:
    """An inside endpoint and its public one; ``next_sequence`` is the server's."""

    protocol: int
    host: Address
    inside: Endpoint
    public: Endpoint
    lifetime_s: float
    used_s: float
    servers: set[Endpoint] = field(default_factory=set)
    syn_sides: set[str] = field(default_factory=set)
    next_sequence: int = 0


class MappingDevice(PacketDevice):
    """Base of NATs, which translate packets by mappings (RFC 4787, 5382, 5508, 6146)."""

    def __init__(self, intent: DeviceIntent, view: Nat) -> None:
        super().__init__(intent, view)
        self.pool = list(view.pool)
        self.mappings: list[NatMapping] = []
        self.hosts: list[Address] = []

    def flush(self) -> None:
        super().flush()
        self.mappings = []

    def process(self, side: SideName, packet: IPPacket) -> list[Sent]:
        self.mappings = [m for m in self.mappings if self.now_s - m.used_s <= m.lifetime_s]
        return super().process(side, packet)

    def find_inside(self, session: SessionKey) -> NatMapping | None:
        key = session[:3]
        return next((m for m in self.mappings if (m.protocol, m.host, m.inside) == key), None)

    def find_public(self, proto: int, public: Endpoint) -> NatMapping:
        for mapping in self.mappings:
            if (mapping.protocol, mapping.public) == (proto, public):
                return mapping
        raise Drop

    def create(self, session: SessionKey) -> NatMapping:
        limit, address = self.view.session_limit, self.choose_address(session.host)
        has_room = not limit or len(self.mappings) < limit
        number = self.choose_port(session, address) if has_room else None
        if number is None:
            return self.handle_exhaustion(session)
        lifetime_s = self.get_initial_lifetime_s(session.protocol)
        mapping = NatMapping(*session[:3], Endpoint(address, number), lifetime_s, used_s=self.now_s)
        self.mappings.append(mapping)
        return mapping

    def handle_exhaustion(self, session: SessionKey) -> NatMapping:
        """Refuse a new mapping and notify the host (RFC 6888, REQ-11; RFC 5508, REQ-8)."""
        raise Drop(HOST_UNREACHABLE[session.inside.address.version])

    def assign_host_number(self, host: Address) -> int:
        if host not in self.hosts:
            self.hosts.append(host)
        return self.hosts.index(host)

    def choose_address(self, host: Address) -> Address:
        """Return a public address: one for all mappings of a host (RFC 4787, REQ-2)."""
        return self.pool[self.assign_host_number(host) % len(self.pool)]

    def get_port_range(self, host: Address) -> tuple[int, int]:
        low, high = self.view.public_ports
        if not self.view.port_block:
            return low, high
        low += self.view.port_block * (self.assign_host_number(host) // len(self.pool))
        return low, low + self.view.port_block - 1

    def find_used_ports(self, session: SessionKey, address: Address) -> set[int]:
        key = (session.protocol, address)
        return {m.public.port for m in self.mappings if (m.protocol, m.public.address) == key}

    def choose_port(self, session: SessionKey, address: Address) -> int | None:
        """Return the inside port, else one of its parity, else any other; None if no port is free."""
        inside, (low, high) = session.inside.port, self.get_port_range(session.host)
        used = self.find_used_ports(session, address)
        preserved = [inside] if low <= inside <= high else []
        same_parity = range(low + (inside - low) % 2, high + 1, 2)
        candidates = chain(preserved, same_parity, range(low, high + 1))
        return next((number for number in candidates if number not in used), None)

    def get_initial_lifetime_s(self, proto: int) -> float:
        other_s = {ip.UDP17: self.view.udp_timeout_s or UDP_S, ip.TCP6: self.view.tcp_transitory_s}
        return float(other_s.get(proto, self.view.icmp_timeout_s))

    def use(self, mapping: NatMapping, packet: IPPacket, side: SideName) -> None:
        """Restart the timer of a mapping; follow TCP (RFC 5382, REQ-5; RFC 7857, section 2)."""
        mapping.used_s = self.now_s
        if mapping.protocol != ip.TCP6:
            return
        segment, expected = TCP(packet.octets[:20]), mapping.next_sequence
        flags = segment.flags
        is_acceptable = side == "left" or not expected or abs(segment.seq - expected) < WINDOW
        if flags.S:
            mapping.syn_sides.add(side)
        if side == "right" and is_acceptable:
            size = len(packet.octets) - 4 * segment.dataofs
            mapping.next_sequence = segment.seq + size + bool(flags.S or flags.F)
        if flags.R:
            if is_acceptable:
                mapping.lifetime_s = RESET_S
        elif len(mapping.syn_sides) == 2 and (flags.S or mapping.lifetime_s == RESET_S):
            mapping.lifetime_s = self.view.tcp_established_s

    def translate_outbound(self, packet: IPPacket, host: Address | None = None) -> list[Translated]:
        """Translate a packet from inside, already decremented; ``host`` is its source by default."""
        host = host or packet.src
        if packet.is_error:
            return self.translate_outbound_error(packet, host)
        session = read_session(packet, host, is_outbound=True)
        mapping = self.find_inside(session) or self.create(session)
        mapping.servers.add(session.server)
        self.use(mapping, packet, "left")
        translated = ip.replace_endpoint(packet, mapping.public, is_source=True)
        is_hairpin = packet.dst in self.pool  # RFC 4787, REQ-9
        return self.translate_inbound(translated) if is_hairpin else [("right", translated, None)]

    def translate_outbound_error(self, packet: IPPacket, host: Address) -> list[Translated]:
        """Translate a host's ICMP error with the packet that it quotes (RFC 5508, REQ-5, REQ-7)."""
        quoted = packet.read_quoted_packet()
        mapping = self.find_inside(read_session(quoted, host, is_outbound=False))
        if mapping is None:
            raise Drop
        about = ip.replace_endpoint(quoted, mapping.public, is_source=False)
        changed = replace(packet, src=mapping.public.address)
        changed = changed.with_message(packet.octets[:8] + bytes(about))
        is_hairpin = packet.dst in self.pool
        return self.translate_inbound_error(changed) if is_hairpin else [("right", changed, None)]

    def translate_inbound(self, packet: IPPacket) -> list[Translated]:
        """Translate a packet from outside or a hairpinned packet, with endpoint-independent filtering."""
        if packet.is_error:
            return self.translate_inbound_error(packet)
        mapping = self.find_public(require_transport(packet), endpoint(packet, is_source=False))
        self.use(mapping, packet, "right")
        translated = ip.replace_endpoint(packet, mapping.inside, is_source=False)
        return [("left", translated, mapping.host)]

    def translate_inbound_error(self, packet: IPPacket) -> list[Translated]:
        """Translate a valid ICMP error with the packet that it quotes (RFC 5508, REQ-3, REQ-4)."""
        if packet.transport_checksum:
            raise Drop
        quoted = packet.read_quoted_packet()
        mapping = self.find_public(require_transport(quoted), endpoint(quoted, is_source=True))
        about = ip.replace_endpoint(quoted, mapping.inside, is_source=True)
        changed = replace(packet, dst=mapping.inside.address)
        return [("left", changed.with_message(packet.octets[:8] + bytes(about)), mapping.host)]

    def emit_all(self, translated: Sequence[Translated]) -> list[Sent]:
        return [piece for packet in translated for piece in self.emit(*packet)]

    def emit(self, side: SideName, packet: IPPacket, host: Address | None) -> list[Sent]:
        return self.fit(side, packet)


def read_session(packet: IPPacket, host: Address, *, is_outbound: bool) -> SessionKey:
    """Return the session of a host's packet, or of a packet to a host."""
    ends = endpoint(packet, is_source=is_outbound), endpoint(packet, is_source=not is_outbound)
    return SessionKey(require_transport(packet), host, *ends)


def require_transport(packet: IPPacket) -> int:
    """Return the transport of a packet, or raise Drop if NATs do not translate it; ICMPv6 counts as ICMP."""
    if packet.proto not in ip.PORT_PROTOCOLS and not packet.is_echo:
        raise Drop
    return ip.ICMP4 if packet.is_echo else packet.proto


def endpoint(packet: IPPacket, *, is_source: bool) -> Endpoint:
    """Return the source or destination endpoint of a packet; raise Drop if it has no ports."""
    if (number := ip.get_port(packet, is_source=is_source)) is None:
        raise Drop
    return Endpoint(packet.src if is_source else packet.dst, number)


class NatDevice(MappingDevice):
    """A NAT44 or NAT66: hosts on the left link, servers on the right link."""

    def forward(self, side: SideName, packet: IPPacket) -> Iterable[Sent]:
        if packet.version != self.pool[0].version:
            return self.route(side, packet)
        aged = self.decrement(self.reassembly.add(packet))
        translate = self.translate_outbound if side == "left" else self.translate_inbound
        return self.emit_all(translate(aged))


class Nat64Device(MappingDevice, TranslatingDevice):
    """A NAT64 (RFC 6146): a translator in front of mappings."""

    def is_ipv4_destination(self, destination: Address) -> bool:
        return destination in self.view.prefix

    def find_map(self, packet: IPPacket) -> TableMap:
        if packet.src in self.view.prefix:  # RFC 6146, section 3.5
            raise Drop
        return TableMap.map_host(INSIDE_IPV4, packet.src, self.view.prefix)

    def reassemble(self, packet: IPPacket) -> IPPacket:
        return self.reassembly.add(packet)

    def emit_ipv4(self, arrived: IPPacket, packet: IPPacket) -> list[Sent]:
        try:
            return self.emit_all(self.translate_outbound(packet, arrived.src))
        except Drop as drop:
            error = drop.error
            raise Drop(self.translate_error_to_ipv6(error, packet) if error else None) from None

    def emit(self, side: SideName, packet: IPPacket, host: Address | None) -> list[Sent]:
        if host is None:
            return super().emit(side, packet, host)
        return self.emit_ipv6(packet, TableMap.map_host(INSIDE_IPV4, host, self.view.prefix))

    def forward_ipv4(self, packet: IPPacket) -> Iterable[Sent]:
        return self.emit_all(self.translate_inbound(packet))


class AftrDevice(MappingDevice, TunnelingDevice):
    """The AFTR of DS-Lite (RFC 6333): each B4 is a host with any IPv4 address."""

    copies_dscp = True

    def __init__(self, intent: DeviceIntent, view: Nat) -> None:
        super().__init__(intent, view)
        self.relays = (self.view.aftr,)

    def forward_tunnel(self, packet: IPPacket) -> Iterable[Sent]:
        """Translate a decapsulated packet with the outer DSCP; send ICMP errors back into the tunnel."""
        inner = self.reassembly.add(self.decapsulate(packet), packet.src)
        try:
            aged = self.decrement(self.mark(packet, inner))
            return self.emit_all(self.translate_outbound(aged, packet.src))
        except Drop as drop:
            if drop.error is None or not inner.is_answerable:
                raise Drop from None
            error = build_error_packet(self.addresses["right", 4], inner, drop.error)
            return self.emit("left", error, packet.src)

    def emit(self, side: SideName, packet: IPPacket, host: Address | None) -> list[Sent]:
        if host is None:
            return super().emit(side, packet, host)
        return self.encapsulate(packet, self.view.aftr, host)

    def enter_tunnel(self, packet: IPPacket) -> Iterable[Sent]:
        return self.emit_all(self.translate_inbound(self.reassembly.add(self.decrement(packet))))
