"""A translator between an IPv6 and an IPv4 link as an audit sees it: two hosts, both known by two names."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING

from v6t.plugins.clauses.base import Exchange, Frame, Send, SideName, untold
from v6t.plugins.clauses.ends import Ends, Judge, asked, refused
from v6t.plugins.clauses.packets import (
    ICMP,
    ICMPV6,
    PAYLOAD,
    TCP,
    UDP,
    echo_word,
    icmp6,
    ip4,
    ip6,
    tcp,
    udp,
)
from v6t.plugins.clauses.relay import relay
from v6t.plugins.customer_edge.plugins import MapTCe
from v6t.plugins.map.mapt_br import MapTBorderRelay
from v6t.plugins.nat.nat64 import Nat64
from v6t.plugins.siit.base import StatelessTranslator
from v6t.plugins.siit.hosts import host
from v6t.plugins.translation import rfc6052
from v6t.plugins.translation.rfc6052 import WELL_KNOWN

if TYPE_CHECKING:
    from v6t.plugins.base import Technology
    from v6t.plugins.clauses.reading import Packet

SERVER_PORT = 443
Place = tuple[IPv4Address, int]
"""An IPv4 address and a port, or an ICMP identifier."""


@dataclass(frozen=True)
class TranslatorEnds(Ends):
    """One host on either link.

    Attributes:
        six_side, four_side: links.
        six: the host beyond the IPv6 link.
        six4: what it is in IPv4; several where the device chooses.
        port: that the host may use.
        four, four6: the host beyond the IPv4 link, and what it is in IPv6.
        mtu6, mtu4: of the links.
        lowest: IPv4 packets without DF are fragmented to so many octets of IPv6.
        stateful: the device makes a session before anything reaches the host beyond the IPv6 link.
        by_ports: the device looks at ports: it finds no host for a later fragment or an unknown protocol.
        server_port: of the host beyond the IPv4 link.
        reassembles: the device may reassemble IPv4 packets before it translates them.
    """

    six_side: SideName
    four_side: SideName
    six: IPv6Address
    six4: tuple[IPv4Address, ...]
    port: int
    four: IPv4Address
    four6: IPv6Address
    mtu6: int
    mtu4: int
    lowest: int
    stateful: bool = False
    by_ports: bool = False
    reassembles: bool = False
    server_port: int = SERVER_PORT

    def up(self, protocol: int = UDP) -> bytes:
        """A plain packet from the IPv6 side."""
        ends = self.six, self.four6
        if protocol == TCP:
            return ip6(*ends, TCP, tcp(*ends, (self.port, self.server_port)))
        if protocol == ICMP:
            return ip6(*ends, ICMPV6, icmp6(*ends, 128, 0, echo_word(self.port), PAYLOAD))
        return ip6(*ends, UDP, udp(*ends, (self.port, self.server_port)))

    def down(self, place: Place) -> bytes:
        """A plain UDP packet from the IPv4 side."""
        ends = self.four, place[0]
        return ip4(*ends, UDP, udp(*ends, (self.server_port, place[1])))

    def opened(self, protocol: int) -> Generator[Send, Sequence[Frame], Place | None]:
        """Where the host beyond the IPv6 link is reached from IPv4; None: nowhere."""
        if not self.stateful:
            return self.six4[0], self.port
        heard = yield Send([self.frame(self.six_side, self.up(protocol))])
        wanted = ICMP if protocol == ICMP else protocol
        for packet in self.packets(self.four_side, heard):
            if packet.protocol == wanted and isinstance(packet.source, IPv4Address):
                return packet.source, packet.ports[0]
        return None


def translator(technology: Technology) -> TranslatorEnds | None:
    """How a technology translates; None: it is no translator between two such links."""
    links = technology.links
    if isinstance(technology, StatelessTranslator):
        p = technology.params
        six_side: SideName = "left" if technology.ipv6_is_left else "right"
        four_side: SideName = "right" if technology.ipv6_is_left else "left"
        inner = host("ipv6_host", p.ipv6_hosts, p.mappings, 1)
        outer = host("ipv4_host", p.ipv4_hosts, p.mappings, 1)
        return TranslatorEnds(
            links,
            six_side,
            four_side,
            inner.ipv6,
            (inner.ipv4,),
            40123,
            outer.ipv4,
            outer.ipv6,
            getattr(links, six_side).mtu,
            getattr(links, four_side).mtu,
            p.lowest_ipv6_mtu,
        )
    if isinstance(technology, MapTBorderRelay):
        p_t = technology.params
        r = relay(technology)
        if r is None:
            return None
        return TranslatorEnds(
            links,
            "left",
            "right",
            r.mine.ipv6,
            (r.mine.ipv4,),
            r.mine.port,
            p_t.server_ipv4,
            rfc6052.embed(p_t.dmr_prefix, p_t.server_ipv4),
            links.left.mtu,
            links.right.mtu,
            p_t.lowest_ipv6_mtu,
            by_ports=r.mine.ports.psid_len > 0,
            reassembles=True,  # RFC 7599, section 10.2
        )
    if isinstance(technology, MapTCe):
        return _customer_edge(technology)
    if isinstance(technology, Nat64):
        p_n = technology.params
        server = rfc6052.embed(p_n.servers, p_n.responder_ipv4)
        return TranslatorEnds(
            links,
            "left",
            "right",
            p_n.initiator_ipv6,
            p_n.pool,
            40123,
            p_n.responder_ipv4,
            server,
            links.left.mtu,
            links.right.mtu,
            1280,
            stateful=True,
            by_ports=True,
            reassembles=True,  # RFC 6146, section 3.4
        )
    return None


def _customer_edge(technology: MapTCe) -> TranslatorEnds:
    """Without a NAPT, hosts behind it have its IPv4 address, and ports of its set."""
    p, links = technology.params, technology.links
    host, way, shared = p.customer.ipv4.network_address, p.way, p.rule.shared
    low, high = p.customer.ports.ranges[-1]
    own = (low + high) // 2 or high
    return TranslatorEnds(
        links,
        "left",
        "right",
        way.peer(p.server_ipv4),
        (p.server_ipv4,),
        own if shared else 40123,
        host,
        way.ipv6(host),
        links.left.mtu,
        links.right.mtu,
        p.lowest_ipv6_mtu,
        by_ports=shared,
        reassembles=shared,
        server_port=own if shared else SERVER_PORT,
    )


def unrepresentable(t: TranslatorEnds) -> IPv4Address | None:
    """Return a host's address that the well-known prefix must not stand for (RFC 6052, section 3.1)."""
    hosts = (t.six, t.six4[0]), (t.four6, t.four)
    return next((four for six, four in hosts if six in WELL_KNOWN and not four.is_global), None)


def wants_other_prefix(ipv4: IPv4Address) -> tuple[str, str]:
    """Return why nothing can be asked of a host behind the well-known prefix, and what to set."""
    return (
        f"{ipv4} is not a global address, and correct devices drop what the well-known prefix makes "
        "of it (RFC 6052, section 3.1)",
        f"choose another prefix than {WELL_KNOWN}, or hosts with global addresses",
    )


Made = bytes | Sequence[bytes]


def from_six(
    t: TranslatorEnds, packet: Made, expected: str, judge: Judge, *, plain: bool = False
) -> Callable[[], Exchange]:
    """Packets from the IPv6 side, judged; ``plain``: it is itself what others are set beside."""
    control = None if plain else t.up()
    return lambda: asked(t, t.six_side, packet, expected, judge, control=control)


def from_four(
    t: TranslatorEnds,
    make: Callable[[Place], Made],
    expected: str,
    judge: Judge,
    protocol: int = UDP,
    *,
    plain: bool = False,
) -> Callable[[], Exchange]:
    """Packets from the IPv4 side, judged."""

    def exchange() -> Exchange:
        place = yield from t.opened(protocol)
        if place is None:
            return untold(expected, "nothing comes from inside, so nobody can be reached there")
        control = None
        if not plain:
            reached = place if protocol == UDP else (yield from t.opened(UDP))
            control = None if reached is None else t.down(reached)
        return (yield from asked(t, t.four_side, make(place), expected, judge, control=control))

    return exchange


def not_from_six(
    t: TranslatorEnds,
    packet: Made,
    expected: str,
    *,
    silently: bool = False,
    unanswered: bool = False,
) -> Callable[[], Exchange]:
    """Packets from the IPv6 side that must not pass."""
    return lambda: refused(
        t, t.six_side, packet, t.up(), expected, silently=silently, unanswered=unanswered
    )


def not_from_four(
    t: TranslatorEnds,
    make: Callable[[Place], Made],
    expected: str,
    *,
    silently: bool = False,
    unanswered: bool = False,
    protocol: int = UDP,
) -> Callable[[], Exchange]:
    """Packets from the IPv4 side that must not pass."""

    def exchange() -> Exchange:
        place = yield from t.opened(protocol)
        reached = place if protocol == UDP else (yield from t.opened(UDP))
        if place is None or reached is None:
            return untold(expected, "nothing comes from inside, so nobody can be reached there")
        control = t.down(reached)
        return (
            yield from refused(
                t,
                t.four_side,
                make(place),
                control,
                expected,
                silently=silently,
                unanswered=unanswered,
            )
        )

    return exchange


def one(check: Callable[[Packet], str]) -> Judge:
    """Exactly one packet, and what is wrong with it."""

    def judge(beyond: list[Packet], back: list[Packet]) -> str:
        if not beyond:
            return f"nothing but {back[0]}" if back else "nothing"
        if len(beyond) > 1:
            return f"{len(beyond)} packets"
        return check(beyond[0])

    return judge


def answered(
    version: int, kind: tuple[int, int], check: Callable[[Packet], str] = lambda _: ""
) -> Judge:
    """Nothing passes, and an ICMP error comes back to the sender."""

    def judge(beyond: list[Packet], back: list[Packet]) -> str:
        if beyond:
            return f"it passed: {beyond[0]}"
        errors = [p for p in back if p.error and p.version == version]
        if not errors:
            return "no ICMP error"
        if errors[0].kind != kind:
            return f"type and code {errors[0].kind}"
        return check(errors[0])

    return judge


def first(*wrongs: tuple[bool, str]) -> str:
    """The first of sentences whose condition holds; empty: none does."""
    return next((words for wrong, words in wrongs if wrong), "")
