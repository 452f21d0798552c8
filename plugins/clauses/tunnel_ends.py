"""A tunnel of one customer as an audit sees it, and what is asked of it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Any

from v6t.plugins.clauses.base import Exchange, Frame, Send, untold
from v6t.plugins.clauses.ends import Ends, asked
from v6t.plugins.clauses.packets import (
    IPIP,
    PAYLOAD,
    UDP,
    ip4,
    ip6,
    udp,
)
from v6t.plugins.clauses.reading import Packet, parsed
from v6t.plugins.clauses.relay import relay
from v6t.plugins.clauses.translator import first, one
from v6t.plugins.dslite.aftr import DsLiteAftr

if TYPE_CHECKING:
    from v6t.plugins.base import Technology

SERVER_PORT = 5
"""DS-Lite's Responder has no others by default."""


@dataclass(frozen=True)
class TunnelEnds(Ends):
    """A tunnel of one customer's.

    Attributes:
        here, there: its ends: the customer's, and the device's.
        inside: the customer's IPv4 address, and a port of its own.
        outside: what the server sees it as; None: the device chooses.
        server: beyond the device.
        mtu6: of the tunnel's link.
        dslite: the device is an AFTR of DS-Lite.
        shared: other customers have other ports of the customer's address.
    """

    here: IPv6Address
    there: IPv6Address
    inside: tuple[IPv4Address, int]
    outside: tuple[IPv4Address, int] | None
    server: IPv4Address
    mtu6: int
    dslite: bool = False
    shared: bool = True

    def inner(self, payload: bytes = PAYLOAD, **header: Any) -> bytes:
        """The customer's IPv4 packet."""
        ends = self.inside[0], self.server
        return ip4(*ends, UDP, udp(*ends, (self.inside[1], SERVER_PORT), payload), **header)

    def up(self, inner: bytes | None = None, **header: Any) -> bytes:
        """In its tunnel."""
        return ip6(self.here, self.there, IPIP, inner or self.inner(), **header)

    def down(
        self, place: tuple[IPv4Address, int], payload: bytes = PAYLOAD, **header: Any
    ) -> bytes:
        """The server's."""
        ends = self.server, place[0]
        return ip4(*ends, UDP, udp(*ends, (SERVER_PORT, place[1]), payload), **header)

    def reached(self) -> Generator[Send, Sequence[Frame], tuple[IPv4Address, int] | None]:
        """Where the server reaches the customer; None: nowhere."""
        if self.outside is not None:
            return self.outside
        heard = yield Send([self.frame("left", self.up())])
        for packet in self.packets("right", heard):
            if packet.protocol == UDP and isinstance(packet.source, IPv4Address):
                return packet.source, packet.ports[0]
        return None


def tunnel(technology: Technology) -> TunnelEnds | None:
    """Tunnels of a technology; None: it has none."""
    if isinstance(technology, DsLiteAftr):
        p = technology.params
        return TunnelEnds(
            technology.links,
            p.b4_ipv6,
            p.aftr_ipv6.ip,
            (p.initiator_ipv4, p.initiator_ports.min + 7),
            None,
            p.responder_ipv4,
            technology.links.left.mtu,
            dslite=True,
        )
    r = relay(technology)
    if r is None or not r.tunnels:
        return None
    place = r.mine.ipv4, r.mine.port
    shared = r.mine.ports.psid_len > 0
    return TunnelEnds(r.links, r.mine.ipv6, r.relay, place, place, r.server, r.mtu6, shared=shared)


def from_tunnel(
    t: TunnelEnds,
    packet: bytes | list[bytes],
    expected: str,
    check: Callable[[Packet], str],
    *,
    plain: bool = False,
) -> Callable[[], Exchange]:
    """Packets in the tunnel, judged as they leave it."""
    control = None if plain else t.up()
    return lambda: asked(t, "left", packet, expected, one(check), control=control)


def to_tunnel(
    t: TunnelEnds,
    make: Callable[[tuple[IPv4Address, int]], bytes],
    expected: str,
    judge: Any,
    *,
    plain: bool = False,
) -> Callable[[], Exchange]:
    """Packets of the server's, judged as they come out of the device."""

    def exchange() -> Exchange:
        place = yield from t.reached()
        if place is None:
            return untold(expected, "nothing comes from inside, so nobody can be reached there")
        control = None if plain else t.down(place)
        return (yield from asked(t, "right", make(place), expected, judge, control=control))

    return exchange


def inside(packet: Packet) -> Packet | None:
    """What is in a tunnel packet; None: it is none."""
    return parsed(packet.payload) if packet.version == 6 and packet.protocol == IPIP else None


def carried(t: TunnelEnds, check: Callable[[Packet, Packet], str]) -> Any:
    """One tunnel packet with a right packet in it."""

    def whole(p: Packet) -> str:
        inner = inside(p)
        if inner is None:
            return "no IPv4 in IPv6"
        return first(
            (p.source != t.there, f"the tunnel's source is {p.source}"),
            (p.destination != t.here, f"the tunnel's destination is {p.destination}"),
            (not inner.sound, "the inner header checksum is wrong"),
            (not inner.summed, "the inner transport checksum is wrong"),
        ) or check(p, inner)

    return one(whole)
