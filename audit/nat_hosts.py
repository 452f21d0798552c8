"""The hosts and servers of a NAT, the packets that they send and receive, and scenarios with both."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from itertools import count
from typing import Any, NamedTuple, TypeAlias

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import (
    ICMPv6DestUnreach,
    ICMPv6EchoReply,
    ICMPv6EchoRequest,
    ICMPv6PacketTooBig,
    ICMPv6TimeExceeded,
    IPv6,
)
from scapy.packet import Packet, Raw
from v6t.audit.clause import Clause, Frame, Level, Send, Steps, conforms, deviates, not_testable
from v6t.audit.hosts import DATA, TTL
from v6t.audit.match import checksum_error, quoted_packet
from v6t.audit.wire import Wire, is_icmp_error, parse, ports_of, protocol_of, transport_octets
from v6t.plugins.address_mappings import embed, may_represent
from v6t.plugins.audit_views import Address, Nat

FIRST_PORT, SERVER_PORT = 20000, 7
Heard: TypeAlias = Sequence[Frame]
Result: TypeAlias = tuple[bool, str]
"""Whether the device does what the clause requires, and what it did."""
Exchange: TypeAlias = Generator[Send, Heard, Result]


class NotTestable(Exception):
    """A scenario cannot be carried out with a device."""


class DeviceDead(Exception):
    """No plain packet passes any more, though one did before."""


def scenario(
    rfc: str,
    section: str,
    label: str,
    level: Level,
    title: str,
    expected: str,
    exchange: Callable[[], Exchange],
    **options: Any,
) -> Clause:
    """Return a clause whose exchange tells whether the device does as expected."""

    def steps() -> Steps:
        try:
            is_right, words = yield from exchange()
        except NotTestable as exc:
            return not_testable(expected, str(exc))
        except DeviceDead as exc:
            return deviates(expected, str(exc), dead=True)
        return conforms(expected, words) if is_right else deviates(expected, words)

    return Clause(rfc, section, label, level, title, steps, **options)


class Endpoint(NamedTuple):
    """An address and a port, or the identifier of an echo."""

    address: Address
    port: int

    def __str__(self) -> str:
        return f"{self.address} port {self.port}"


@dataclass(frozen=True)
class Flow:
    """Packets of UDP, TCP or ICMP queries through a NAT.

    Attributes:
        protocol: of IPv4.
        prefix: of the labels of the clauses.
    """

    protocol: int
    prefix: str

    def request(self, version: int, port: int, server_port: int) -> Packet:
        """Return the transport of a host's first packet."""
        if self is ICMP_QUERY:
            return echo(version, port, ICMP(type=8), ICMPv6EchoRequest())
        if self is TCP_FLOW:
            return TCP(sport=port, dport=server_port, flags="S", seq=0x01020304)
        return UDP(sport=port, dport=server_port) / Raw(DATA)

    def answer(self, version: int, server_port: int, port: int) -> Packet:
        """Return the transport of a server's answer."""
        if self is ICMP_QUERY:
            return echo(version, port, ICMP(type=0), ICMPv6EchoReply())
        return UDP(sport=server_port, dport=port) / Raw(DATA)

    def number(self, version: int) -> int:
        """Return the protocol number in an IP version."""
        return 58 if version == 6 and self is ICMP_QUERY else self.protocol


UDP_FLOW, TCP_FLOW, ICMP_QUERY = Flow(17, ""), Flow(6, "tcp-"), Flow(1, "query-")


def echo(version: int, identifier: int, icmp: Packet, icmpv6: Packet) -> Packet:
    """Return an echo message of an IP version."""
    message = icmp if version == 4 else icmpv6
    message.id, message.seq = identifier, 1
    return message / Raw(DATA)


@dataclass(frozen=True)
class NatHosts:
    """Hosts on the left link, servers on the right link.

    Attributes:
        view: the NAT.
        wire: its links.
        ports: inside ports that no clause has used yet: the state of one must not help another.
    """

    view: Nat
    wire: Wire
    ports: Iterator[int] = field(default_factory=lambda: count(FIRST_PORT))

    @property
    def inner_version(self) -> int:
        """IP version of the packets of hosts; inside the tunnel of a B4."""
        return int(self.own_address(0).version)

    @property
    def outer_version(self) -> int:
        """IP version of the servers and the pool."""
        return int(self.view.servers[0].version)

    @property
    def is_nat64(self) -> bool:
        """Whether hosts know servers by an RFC 6052 prefix."""
        return self.view.prefix is not None

    @property
    def can_hairpin(self) -> bool:
        """Whether hosts can name each other's public addresses."""
        prefix = self.view.prefix
        return prefix is None or all(may_represent(prefix, a) for a in self.view.pool)  # type: ignore[arg-type]

    def server(self, number: int, port: int = SERVER_PORT) -> Endpoint:
        """Return an endpoint of a server."""
        return Endpoint(self.view.servers[number], port)

    def own_address(self, host: int) -> Address:
        """Return a host's address as the host itself writes it."""
        return self.view.customer or self.view.hosts[host]

    def known_address(self, address: Address) -> Address:
        """Return the address by which hosts know a server or a public address."""
        return address if self.view.prefix is None else embed(self.view.prefix, address)  # type: ignore[arg-type]

    def up(self, host: int, to: Address, transport: Packet, ttl: int = TTL) -> Packet:
        """Return a packet of a host to an address that it knows, for the left link."""
        return self.into_tunnel(host, ip_header(self.own_address(host), to, ttl) / transport)

    def into_tunnel(self, host: int, packet: Packet) -> Packet:
        """Return a host's packet as its B4 sends it; other NATs have no tunnels."""
        if self.view.aftr is None:
            return packet
        return ip_header(self.view.hosts[host], self.view.aftr) / packet

    def request(self, flow: Flow, host: int, port: int, to: Endpoint, ttl: int = TTL) -> Packet:
        """Return a host's first packet to a server or public endpoint."""
        transport = flow.request(self.inner_version, port, to.port)
        return self.up(host, self.known_address(to.address), transport, ttl)

    def down(self, server: Endpoint, to: Endpoint, transport: Packet) -> Packet:
        """Return a packet of a server, for the right link."""
        return ip_header(server.address, to.address) / transport

    def answer(self, flow: Flow, server: Endpoint, to: Endpoint) -> Packet:
        """Return a server's answer to a public endpoint."""
        return self.down(server, to, flow.answer(self.outer_version, server.port, to.port))

    def error(self, flow: Flow, server: Endpoint, public: Endpoint, error: Packet) -> Packet:
        """Return an ICMP error of a server about a request from a public endpoint."""
        request = flow.request(self.outer_version, public.port, server.port)
        about = ip_header(public.address, server.address) / request
        return self.down(server, public, error / Raw(bytes(about)))

    def find_arrivals(self, heard: Heard) -> list[tuple[int, Packet]]:
        """Return the packets that reached hosts, out of their tunnels, with the hosts' numbers."""
        arrivals = []
        for packet in self.wire.packets("left", heard):
            target = ip_address(packet.dst)
            inner = packet if self.view.aftr is None else parse(transport_octets(packet))
            if target in self.view.hosts and inner is not None:
                arrivals.append((self.view.hosts.index(target), inner))
        return arrivals

    def at_host(self, heard: Heard, host: int, flow: Flow, port: int) -> list[Packet]:
        """Return the packets of a flow that reached a port of a host with correct checksums."""
        number = flow.number(self.inner_version)
        return [
            packet
            for at, packet in self.find_arrivals(heard)
            if (at, protocol_of(packet), ports_of(packet)[1]) == (host, number, port)
            and not is_icmp_error(packet)
            and not checksum_error(packet)
        ]

    def errors_at(self, heard: Heard, host: int) -> list[Packet]:
        """Return the ICMP errors that reached a host."""
        return [
            packet
            for at, packet in self.find_arrivals(heard)
            if at == host and is_icmp_error(packet)
        ]

    def find_departures(self, heard: Heard, flow: Flow) -> list[tuple[Endpoint, Packet]]:
        """Return the packets of a flow that reached servers, and their sources."""
        number = flow.number(self.outer_version)
        packets = self.wire.packets("right", heard)
        return [(source_of(packet), packet) for packet in packets if protocol_of(packet) == number]

    def public_source(self, heard: Heard, flow: Flow, server: Endpoint) -> Endpoint | None:
        """Return the source of the valid packet that reached a server."""
        for source, packet in self.find_departures(heard, flow):
            if ip_address(packet.dst) == server.address and not checksum_error(packet):
                return source
        return None

    def send(self, packet: Packet, **options: Any) -> Generator[Send, Heard, Heard]:
        """Send a packet of a host."""
        return (yield Send([self.wire.frame("left", packet)], **options))

    def send_down(self, packet: Packet, **options: Any) -> Generator[Send, Heard, Heard]:
        """Send a packet of a server."""
        return (yield Send([self.wire.frame("right", packet)], **options))

    def try_mapping(
        self, flow: Flow, host: int, port: int, server: Endpoint
    ) -> Generator[Send, Heard, Endpoint | None]:
        """Send a host's first packet; return its public endpoint, or None."""
        heard = yield from self.send(self.request(flow, host, port, server))
        return self.public_source(heard, flow, server)

    def open_mapping(
        self, flow: Flow, host: int, port: int, server: Endpoint
    ) -> Generator[Send, Heard, Endpoint]:
        """Send a host's first packet; return its public endpoint.

        Raises:
            NotTestable: no valid packet reaches the server.
        """
        public = yield from self.try_mapping(flow, host, port, server)
        if public is None:
            raise NotTestable("no valid packet comes out, so no mapping can be observed")
        return public


def ip_header(src: Address, dst: Address, ttl: int = TTL) -> Packet:
    """Return an IP header between two addresses."""
    if isinstance(src, IPv6Address):
        return IPv6(src=str(src), dst=str(dst), hlim=ttl)
    return IP(src=str(src), dst=str(dst), ttl=ttl)


def source_of(packet: Packet) -> Endpoint:
    """Return the source of a packet."""
    return Endpoint(ip_address(packet.src), ports_of(packet)[0])


def icmp_error(version: int, kind: int, code: int, mtu: int = 0) -> Packet:
    """Return the header of an ICMP error, or of the ICMPv6 error with its meaning."""
    if version == 4:
        return ICMP(type=kind, code=code, nexthopmtu=mtu) if mtu else ICMP(type=kind, code=code)
    if kind == 11:
        return ICMPv6TimeExceeded(code=code)
    return ICMPv6PacketTooBig(mtu=mtu) if mtu else ICMPv6DestUnreach(code={1: 3, 3: 4}[code])


def judge_error(h: NatHosts, heard: Heard, port: int, host: int = 0) -> Result:
    """Judge the ICMP error about a host's own packet that must reach the host."""
    errors = h.errors_at(heard, host)
    if not errors:
        return False, h.wire.describe(heard)
    about = quoted_packet(errors[0])
    source = None if about is None else source_of(about)
    if source != (h.own_address(host), port):
        return False, f"a packet from {source} is quoted"
    wrong = checksum_error(errors[0])
    return not wrong, wrong or "as expected"
