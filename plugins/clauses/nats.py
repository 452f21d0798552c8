"""The suite ``nat``: mapping, filtering, hairpinning, ICMP, TCP, fragments, limits and timers of NATs.

RFC 4787, 5382, 5508 and 6888 by the numbers of their requirements. For DS-Lite and NAT64, too: RFC 6333
section 8.2 and RFC 6146 ask for the same.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from v6t.plugins.clauses import nat_delivery, nat_limits, nat_queries, nat_tcp, nat_timers
from v6t.plugins.clauses.base import (
    Clause,
    Judgement,
    Send,
    Suite,
    clause,
    conforms,
    deviates,
    untold,
)
from v6t.plugins.clauses.nat_delivery import NO_MAPPING, Steps
from v6t.plugins.clauses.nat_ends import FIRST_PORT, Endpoint, NatEnds, nat, overlapping
from v6t.plugins.clauses.translator import wants_other_prefix
from v6t.plugins.dslite.aftr import DsLiteAftr
from v6t.plugins.nat.nat44 import Nat44
from v6t.plugins.nat.nat64 import Nat64
from v6t.plugins.translation import rfc6052

if TYPE_CHECKING:
    from v6t.plugins.base import Technology

_TWO = {
    "initiator_count": 2,
    "responder_count": 2,
    "enumerate_ips": 3,
    "initiator_ports": {"min": 1024, "max": 21023},
}
"""Hosts on either side."""
PAIR = "two public addresses"
_SEVERAL = 16
_LAST_PORT = FIRST_PORT + 1023
_ENOUGH_ROOM = 1024
"""An audit uses inside ports up to the first of these, and makes fewer mappings than the second."""
WELL_KNOWN = 1024
"""Ports below are other ones."""
_PARITIES = 0b0110100110010110
"""Of ports, one after the other: by no rule that a simple generator of random numbers follows, too."""


class Nat(Suite):
    """For NATs whose outside is IPv4."""

    name = "nat"
    title = "NATs: mapping, filtering, hairpinning of UDP, TCP and ICMP, errors, fragments, limits, timers"
    core = ("REQ-1-mapped", "endpoint-independent", "REQ-3-overloading")

    def unmet(self, technology: Technology) -> tuple[str, str] | None:
        """Refuse a single host on a side, and private servers behind the well-known prefix."""
        if not isinstance(technology, (Nat44, Nat64, DsLiteAftr)):
            return None
        n = nat(technology)
        if n is None:
            return (
                "the suite needs two Initiators and two Responders",
                "set initiator_count and responder_count to 2 or more, and enumerate_ips to 3",
            )
        hidden = [s for s in n.servers if n.prefix and not rfc6052.may_represent(n.prefix, s)]
        return wants_other_prefix(hidden[0]) if hidden else None

    def preferred(self, technology: Technology) -> Mapping[str, Any]:
        """Two hosts inside and two outside."""
        return _TWO if isinstance(technology, (Nat44, Nat64)) else {}

    def clauses(self, technology: Technology) -> Iterator[Clause]:
        """All with the configured pool."""
        n = nat(technology)
        if n is None or self.unmet(technology):
            return
        yield from _with_room(
            n,
            *(_mapping(n), _ports(n), _filtering(n), _hairpinning(n)),
            *(nat_delivery.clauses(n), nat_tcp.clauses(n), nat_queries.clauses(n)),
            *(nat_limits.emptied(n), nat_timers.long(n)),
        )

    def variants(self, technology: Technology) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Two public addresses; few ports for each host, and few at all; mappings of seconds."""
        if isinstance(technology, (Nat44, Nat64, DsLiteAftr)):
            count = max(2, technology.params.pool_count)
            yield PAIR, {"pool_first": "198.19.1.1", "pool_count": count}
            yield from nat_limits.VARIANTS.items()
            yield from nat_timers.VARIANTS.items()

    def varied(self, technology: Technology, variant: str) -> Iterator[Clause]:
        """Whether a host keeps to one address; what becomes of one port too many; when mappings end."""
        n = nat(technology)
        if n is None or self.unmet(technology):
            return
        if variant in nat_limits.VARIANTS:
            yield from nat_limits.limits(n, variant)
        elif variant in nat_timers.VARIANTS:
            yield from _with_room(n, nat_timers.short(n))
        else:
            pooling = clause(
                "RFC 6888",
                "REQ-2",
                "pooling",
                "MUST",
                "all mappings of a host have the same public address",
                lambda: _paired(n),
            )
            yield from _with_room(n, [pooling])


def _with_room(n: NatEnds, *groups: Iterable[Clause]) -> Iterator[Clause]:
    """Empty the table before each clause if it has no room for the mappings of all."""
    clauses: Iterable[Clause] = chain(*groups)
    if n.prefix and not all(rfc6052.may_represent(n.prefix, a) for a in n.pool):
        # hosts cannot name each other's public addresses
        clauses = (c for c in clauses if "hairpin" not in c.name)
    return iter(clauses) if n.room >= _ENOUGH_ROOM else map(nat_limits.flushed, clauses)


def _mapping(n: NatEnds) -> Iterator[Clause]:
    def plain() -> Steps:
        port, expected = (
            next(n.ports),
            "from a public address, checksums right; the answer comes back",
        )
        seen = yield from n.mapped(0, port, n.server(0))
        if seen is None:
            return deviates(expected, "nothing, or a wrong checksum")
        if seen.ipv4 not in n.pool:
            return deviates(expected, f"the source is {seen}")
        heard = yield Send([n.frame("right", n.down(n.server(0), seen))])
        back = [(h, p) for h, p in n.inside(heard) if p.ports[1] == port and p.summed]
        return (
            conforms(expected, f"mapped to {seen}")
            if [h for h, _ in back] == [0]
            else deviates(expected, n.seen(heard))
        )

    yield clause(
        "RFC 4787",
        "REQ-1",
        "mapped",
        "MUST",
        "a datagram from inside gets a public address, its answer the way back",
        plain,
    )

    def independent() -> Steps:
        port, expected = next(n.ports), "one public endpoint towards all servers and ports"
        endpoints = []
        for to in (n.server(0), n.server(0, 9), n.server(1)):
            endpoints.append((yield from n.mapped(0, port, to)))
        if None in endpoints:
            return untold(expected, NO_MAPPING)
        words = ", ".join(map(str, endpoints))
        return conforms(expected, words) if len(set(endpoints)) == 1 else deviates(expected, words)

    yield clause(
        "RFC 4787",
        "REQ-1",
        "endpoint-independent",
        "MUST",
        "endpoint-independent mapping: one inside endpoint has one public endpoint",
        independent,
    )

    def contended() -> Steps:
        """Another host has the port already, so the NAT must choose; towards a second server it need not."""
        port, expected = (
            next(n.ports),
            "one public endpoint towards both servers, though the port was taken",
        )
        other = yield from n.mapped(1, port, n.server(0))
        one = yield from n.mapped(0, port, n.server(0))
        two = yield from n.mapped(0, port, n.server(1))
        if other is None or one is None or two is None:
            return untold(expected, NO_MAPPING)
        return conforms(expected, f"{one}") if one == two else deviates(expected, f"{one}, {two}")

    yield clause(
        "RFC 4787",
        "REQ-1",
        "endpoint-independent-contended",
        "MUST",
        "endpoint-independent mapping, also where another host has taken the port",
        contended,
    )

    def overloaded(server: int, expected: str) -> Steps:
        port = next(n.ports)
        one = yield from n.mapped(0, port, n.server(0))
        two = yield from n.mapped(1, port, n.server(server))
        if one is None or two is None:
            return untold(expected, NO_MAPPING)
        return (
            conforms(expected, f"{one}, {two}")
            if one != two
            else deviates(expected, f"both are {one}")
        )

    yield clause(
        "RFC 4787",
        "REQ-3",
        "overloading",
        "MUST",
        "two hosts with the same port get different public endpoints",
        lambda: overloaded(0, "two public endpoints"),
    )

    rfc, section, level = overlapping(n, "3.5.1.1")
    yield clause(
        rfc,
        section,
        "overloading-by-server",
        level,
        "two hosts with the same port never share a public endpoint, not even towards different servers",
        lambda: overloaded(1, "two public endpoints, though the servers differ"),
    )


def _ports(n: NatEnds) -> Iterator[Clause]:
    """Which public port an inside one gets."""

    def parity() -> Steps:
        expected, words = "even ports stay even, odd ones odd", []
        for number in range(_SEVERAL):
            port = next(n.ports)
            while port % 2 != _PARITIES >> number & 1:
                port = next(n.ports)
            seen = yield from n.mapped(0, port, n.server(0))
            if seen is None:
                return untold(expected, NO_MAPPING)
            words.append(f"{port} to {seen.port}")
            if (seen.port - port) % 2:
                return deviates(expected, words[-1])
        return conforms(expected, ", ".join(words[:2]) + ", ...")

    # RFC 7857 section 8 lets NATs of IPv4 leave out what RFC 4787 REQ-4 recommends
    yield clause(
        *(("RFC 6146", "3.5.1.1") if n.prefix is not None else ("RFC 7857", "8")),
        "parity",
        "SHOULD" if n.prefix is not None else "MAY",
        "the public port has the parity of the inside port",
        parity,
    )

    def public(expected: str, right: Callable[[int, int], bool]) -> Steps:
        """A new mapping's inside and public port are looked at together."""
        port = next(n.ports)
        seen = yield from n.mapped(0, port, n.server(0))
        if seen is None:
            return untold(expected, NO_MAPPING)
        words = f"{port} to {seen.port}"
        return conforms(expected, words) if right(port, seen.port) else deviates(expected, words)

    def preserved() -> Steps:
        return public("the inside port as public one, since nobody has it", operator.eq)

    # of a block, or of other ports, none can be the inside port
    if not n.block and n.public[0] <= FIRST_PORT and n.public[1] >= _LAST_PORT:
        yield clause(
            "RFC 4787",
            "4.2.1",
            "port-preserved",
            "MAY",
            "the public port is the inside port, where that is free",
            preserved,
        )

    def ranged() -> Steps:
        return public("a public port from 1024 on", lambda _, port: port >= WELL_KNOWN)

    yield clause(
        "RFC 4787",
        "REQ-3a",
        "port-range",
        "SHOULD",
        "an inside port from 1024 on gets a public one from 1024 on",
        ranged,
    )


def _paired(n: NatEnds) -> Steps:
    expected, addresses = "one public address", set()
    for _ in range(_SEVERAL):
        seen = yield from n.mapped(0, next(n.ports), n.server(0))
        if seen is None:
            return untold(expected, NO_MAPPING)
        addresses.add(seen.ipv4)
    words = ", ".join(map(str, sorted(addresses)))
    return conforms(expected, words) if len(addresses) == 1 else deviates(expected, words)


def _filtering(n: NatEnds) -> Iterator[Clause]:
    def from_outside(who: Endpoint, expected: str) -> Steps:
        port = next(n.ports)
        seen = yield from n.mapped(0, port, n.server(0))
        if seen is None:
            return untold(expected, NO_MAPPING)
        heard = yield Send([n.frame("right", n.down(who, seen))])
        return conforms(expected) if n.inside(heard) else deviates(expected, n.seen(heard))

    yield clause(
        "RFC 4787",
        "REQ-8",
        "filtering-address",
        "SHOULD",
        "filtering is at most address-dependent: a server may answer from another port",
        lambda: from_outside(n.server(0, 4321), "the datagram, inside"),
    )
    yield clause(
        "RFC 4787",
        "REQ-8",
        "filtering-endpoint",
        "MAY",
        "endpoint-independent filtering: any server reaches a mapped host",
        lambda: from_outside(n.server(1, 4321), "the datagram, inside"),
    )


def _hairpinning(n: NatEnds) -> Iterator[Clause]:
    def turned(judge: Callable[[Endpoint, list[Any], str], Judgement], expected: str) -> Steps:
        mine, theirs = next(n.ports), next(n.ports)
        one = yield from n.mapped(0, mine, n.server(0))
        two = yield from n.mapped(1, theirs, n.server(0))
        if one is None or two is None:
            return untold(expected, NO_MAPPING)
        heard = yield Send([n.frame("left", n.up(0, mine, two))])
        got = [p for h, p in n.inside(heard) if h == 1 and p.ports[1] == theirs]
        return judge(one, got, n.seen(heard))

    expected = "the datagram, at the other host"
    yield clause(
        "RFC 4787",
        "REQ-9",
        "hairpinning",
        "MUST",
        "a host reaches another one by its public endpoint",
        lambda: turned(
            lambda one, got, seen: conforms(expected) if got else deviates(expected, seen), expected
        ),
    )
    outer = "the public endpoint as source"

    def public(one: Endpoint, got: list[Any], seen: str) -> Judgement:
        if not got:
            return untold(outer, "no hairpinning")
        packet = got[0]
        known = packet.ports[0] == one.port and n.is_public(packet.source, one.ipv4)
        return (
            conforms(outer)
            if known
            else deviates(outer, f"source {packet.source} port {packet.ports[0]}")
        )

    yield clause(
        "RFC 4787",
        "REQ-9a",
        "hairpinning-source",
        "MUST",
        "the other host sees the public endpoint as source",
        lambda: turned(public, outer),
    )
