"""A NAT with public IPv4 addresses as an audit sees it: two hosts inside, two outside."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from itertools import count
from typing import TYPE_CHECKING, Any

from v6t.plugins.clauses.base import Frame, Level, Send
from v6t.plugins.clauses.ends import Ends
from v6t.plugins.clauses.packets import (
    FRAGMENT,
    ICMP,
    ICMPV6,
    IPIP,
    MF,
    PAYLOAD,
    TTL,
    UDP,
    echo_word,
    fragment_header,
    icmp,
    icmp6,
    ip4,
    ip6,
    udp,
)
from v6t.plugins.clauses.reading import Packet, parsed
from v6t.plugins.dslite.aftr import DsLiteAftr
from v6t.plugins.nat.nat44 import Nat44
from v6t.plugins.nat.nat64 import Nat64
from v6t.plugins.translation import rfc6052

if TYPE_CHECKING:
    from collections.abc import Iterator

    from v6t.plugins.base import Technology

FIRST_PORT = 20000
SERVER_PORT = 7
Address = IPv4Address | IPv6Address
Made = Callable[[Any, Any], bytes]
"""What a packet carries, of its source and destination."""


@dataclass(frozen=True)
class Endpoint:
    """An IPv4 address and a port."""

    ipv4: IPv4Address
    port: int

    def __str__(self) -> str:
        return f"{self.ipv4} port {self.port}"


@dataclass(frozen=True)
class NatEnds(Ends):
    """Inside is left, outside right.

    Attributes:
        hosts: inside, two; B4s of DS-Lite.
        servers: outside, two.
        pool: public addresses.
        prefix: of servers, as hosts with IPv6 know them; None: they have IPv4.
        customer: the address behind each B4; None: there are no B4s.
        aftr: where tunnels end; None: there are none.
        public: lowest and highest public port.
        block: public ports of each host, consecutive ones; 0: all hosts share all ports.
        room: mappings that fit, of a host or of all.
        ports: inside ports that no clause has used yet: state of one must not help another.
    """

    hosts: tuple[Address, Address]
    servers: tuple[IPv4Address, IPv4Address]
    pool: tuple[IPv4Address, ...]
    prefix: IPv6Network | None = None
    customer: IPv4Address | None = None
    aftr: IPv6Address | None = None
    public: tuple[int, int] = (1024, 65535)
    block: int = 0
    room: int = 64512
    ports: Iterator[int] = field(default_factory=lambda: count(FIRST_PORT))

    def up(self, host: int, port: int, to: Endpoint, payload: bytes = PAYLOAD) -> bytes:
        """A datagram of a host's."""
        return self.parts(host, port, to, payload, (0,))[0]

    def parts(
        self,
        host: int,
        port: int,
        to: Endpoint,
        payload: bytes,
        starts: Sequence[int],
        number: int = 1,
    ) -> list[bytes]:
        """The same in fragments that begin at these octets."""
        return self.carried(
            host,
            to.ipv4,
            UDP,
            lambda here, there: udp(here, there, (port, to.port), payload),
            starts,
            number,
        )

    def carried(
        self,
        host: int,
        to: IPv4Address,
        protocol: int,
        build: Made,
        starts: Sequence[int] = (0,),
        number: int = 1,
        *,
        ttl: int = TTL,
    ) -> list[bytes]:
        """What a host sends to a server, as packets on the left link.

        Args:
            host: which one.
            to: the server.
            protocol: as IPv4 numbers it.
            build: what is carried, between the addresses the host knows.
            starts: octets at which fragments begin; one: a whole packet.
            number: identification.
            ttl: of the packet, that within a tunnel.
        """
        own = self.hosts[host]
        if isinstance(own, IPv6Address) and self.prefix is not None:
            ends6 = own, rfc6052.embed(self.prefix, to)
            octets = build(*ends6)
            six = ICMPV6 if protocol == ICMP else protocol
            if len(starts) == 1:
                return [ip6(*ends6, six, octets, hop_limit=ttl)]
            return [
                ip6(
                    *ends6,
                    FRAGMENT,
                    fragment_header(six, at, more=end < len(octets), identification=number)
                    + octets[at:end],
                )
                for at, end in zip(starts, (*starts[1:], len(octets)), strict=True)
            ]
        inner = self.own(host)
        if not isinstance(inner, IPv4Address):
            raise TypeError("a host without IPv4 needs a prefix")
        octets = build(inner, to)
        packets = [
            ip4(
                inner,
                to,
                protocol,
                octets[at:end],
                offset=at,
                identification=number,
                flags=MF if end < len(octets) else 0,
                ttl=ttl,
            )
            for at, end in zip(starts, (*starts[1:], len(octets)), strict=True)
        ]
        if self.aftr is None or not isinstance(own, IPv6Address):
            return packets
        return [ip6(own, self.aftr, IPIP, packet) for packet in packets]

    def own(self, host: int) -> Address:
        """A host's address, as itself knows it."""
        return self.customer if self.customer is not None else self.hosts[host]

    def extracted(self, address: IPv6Address) -> IPv4Address:
        """The IPv4 address that hosts know by an IPv6 one."""
        if self.prefix is None:
            raise TypeError("hosts with IPv4 know no IPv6 addresses")
        return rfc6052.extract(self.prefix, address)

    def is_public(self, address: Address, ipv4: IPv4Address) -> bool:
        """Whether hosts know a public address by this one."""
        known = ipv4 if self.prefix is None else rfc6052.embed(self.prefix, ipv4)
        return address == known

    def echo(self, host: int, identifier: int, to: IPv4Address, *, ttl: int = TTL) -> bytes:
        """An echo request of a host's."""

        def build(source: Address, destination: Address) -> bytes:
            word = echo_word(identifier)
            if isinstance(source, IPv6Address) and isinstance(destination, IPv6Address):
                return icmp6(source, destination, 128, 0, word, PAYLOAD)
            return icmp(8, 0, word, PAYLOAD)

        return self.carried(host, to, ICMP, build, ttl=ttl)[0]

    def inside(self, heard: Sequence[Frame]) -> list[tuple[int, Packet]]:
        """What came to hosts inside: which one, and the packet, out of its tunnel."""
        arrivals = []
        for packet in self.packets("left", heard):
            if packet.destination in self.hosts:
                inner = parsed(packet.payload) if self.aftr is not None else packet
                if inner is not None:
                    arrivals.append((self.hosts.index(packet.destination), inner))
        return arrivals

    def outside(self, heard: Sequence[Frame], protocol: int = UDP) -> list[tuple[Endpoint, Packet]]:
        """What came to servers, and whom they see as its source: address and port or identifier."""
        return [
            (Endpoint(p.source, p.ports[0] if not p.offset else 0), p)
            for p in self.packets("right", heard)
            if isinstance(p.source, IPv4Address) and p.protocol == protocol
        ]

    def mapped(
        self, host: int, port: int, to: Endpoint
    ) -> Generator[Send, Sequence[Frame], Endpoint | None]:
        """Whom a server sees when a host sends to it; None: nobody, or with a wrong checksum."""
        return (yield from self.seen_as(self.up(host, port, to), to.ipv4))

    def seen_as(
        self, packet: bytes, to: IPv4Address, protocol: int = UDP
    ) -> Generator[Send, Sequence[Frame], Endpoint | None]:
        """Whom a server sees when a host sends it a packet."""
        heard = yield Send([self.frame("left", packet)])
        for endpoint, came in self.outside(heard, protocol):
            if came.destination == to and came.summed and came.sound:
                return endpoint
        return None

    def down(self, server: Endpoint, to: Endpoint, payload: bytes = PAYLOAD) -> bytes:
        """A datagram of a server's."""
        return ip4(
            server.ipv4, to.ipv4, UDP, udp(server.ipv4, to.ipv4, (server.port, to.port), payload)
        )

    def server(self, number: int, port: int = SERVER_PORT) -> Endpoint:
        """One of the servers."""
        return Endpoint(self.servers[number], port)


def nat(technology: Technology) -> NatEnds | None:
    """How a technology translates; None: it is no such NAT, or has not two hosts on either side."""
    if not isinstance(technology, (Nat44, Nat64, DsLiteAftr)):
        return None
    p = technology.params
    if p.initiator_count < 2 or p.responder_count < 2:
        return None
    servers = p.responder_ipv4, p.responder_ipv4 + 1
    pool, ports = p.pool, p.public.ports
    limits: dict[str, Any] = {
        "public": p.public.span,
        "block": p.port_block,
        "room": min(p.port_block or ports.count, p.session_limit or ports.count),
    }
    links = technology.links
    if isinstance(technology, Nat44):
        first = technology.params.initiator_ipv4
        return NatEnds(links, (first, first + 1), servers, pool, **limits)
    if isinstance(technology, Nat64):
        six, step = technology.params.initiator_ipv6, technology.params.initiator_step
        prefix = technology.params.servers
        return NatEnds(links, (six, six + step), servers, pool, prefix=prefix, **limits)
    b4 = technology.params.b4_ipv6
    return NatEnds(
        links,
        (b4, b4 + 1),
        servers,
        pool,
        customer=technology.params.initiator_ipv4,
        aftr=technology.params.aftr_ipv6.ip,
        **limits,
    )


def overlapping(n: NatEnds, section: str) -> tuple[str, str, Level]:
    """What is said of one public endpoint for two hosts whose servers differ.

    RFC 4787 REQ-3 and RFC 5382 REQ-7 forbid it, RFC 7857 section 3 has allowed it since; a NAT64 has one
    entry for a public endpoint.

    Args:
        n: the NAT.
        section: of RFC 6146.
    """
    return ("RFC 7857", "3", "MAY") if n.prefix is None else ("RFC 6146", section, "MUST")
