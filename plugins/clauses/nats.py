"""The suite ``nat``: mapping, filtering, hairpinning, ICMP errors and fragments of NATs, by UDP.

RFC 4787, RFC 5508 and RFC 6888 by the numbers of their requirements. For DS-Lite and NAT64, too: RFC 6333
section 8.2 and RFC 6146 ask for the same of UDP.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from v6t.plugins.clauses.base import (
    Clause,
    Exchange,
    Frame,
    Judgement,
    Level,
    Send,
    Suite,
    conforms,
    deviates,
    untold,
)
from v6t.plugins.clauses.nat_ends import Endpoint, NatEnds, nat
from v6t.plugins.clauses.packets import ICMP, MF, UDP, data, icmp, ip4, udp
from v6t.plugins.dslite.aftr import DsLiteAftr
from v6t.plugins.nat.nat44 import Nat44
from v6t.plugins.nat.nat64 import Nat64

if TYPE_CHECKING:
    from v6t.plugins.base import Technology

_TWO = {
    "initiator_count": 2,
    "responder_count": 2,
    "enumerate_ips": 3,
    "initiator_ports": {"min": 1024, "max": 21023},
}
"""Hosts on either side."""
_POOL = {"pool_first": "198.19.1.1", "pool_count": 2}
_SEVERAL = 8
NO_MAPPING = "nothing right comes out, so nothing can be told of mappings"
Steps = Generator[Send, Sequence[Frame], Judgement]


class Nat(Suite):
    """For NATs whose outside is IPv4."""

    name = "nat"
    title = "NATs by UDP: mapping, filtering, hairpinning, parity, pooling, ICMP errors, fragments"

    def preferred(self, technology: Technology) -> Mapping[str, Any]:
        """Two hosts inside and two outside."""
        return _TWO if isinstance(technology, (Nat44, Nat64)) else {}

    def clauses(self, technology: Technology) -> Iterator[Clause]:
        """All with the configured pool."""
        n = nat(technology)
        if n is None:
            return
        yield from _mapping(n)
        yield from _filtering(n)
        yield from _hairpinning(n)
        yield from _errors(n)
        yield from _fragments(n)

    def variants(self, technology: Technology) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Two public addresses."""
        if isinstance(technology, (Nat44, Nat64, DsLiteAftr)):
            yield "two public addresses", _POOL

    def varied(self, technology: Technology, variant: str) -> Iterator[Clause]:
        """Whether a host keeps to one of them."""
        del variant
        n = nat(technology)
        if n is not None:
            yield _clause(
                "RFC 6888",
                "REQ-2",
                "pooling",
                "MUST",
                "all mappings of a host have the same public address",
                lambda: _paired(n),
            )


def _clause(
    rfc: str, section: str, name: str, level: Level, title: str, exchange: Callable[[], Exchange]
) -> Clause:
    return Clause(
        f"{rfc.lower().replace(' ', '')}-{section}-{name}", rfc, section, level, title, exchange
    )


def _mapping(n: NatEnds) -> Iterator[Clause]:
    def plain() -> Steps:
        port, said = next(n.ports), "from a public address, checksums right; the answer comes back"
        seen = yield from n.mapped(0, port, n.server(0))
        if seen is None:
            return deviates(said, "nothing, or a wrong checksum")
        if seen.ipv4 not in n.pool:
            return deviates(said, f"the source is {seen}")
        heard = yield Send([n.frame("right", n.down(n.server(0), seen))])
        back = [(h, p) for h, p in n.inside(heard) if p.ports[1] == port and p.summed]
        return (
            conforms(said, f"mapped to {seen}")
            if [h for h, _ in back] == [0]
            else deviates(said, n.seen(heard))
        )

    yield _clause(
        "RFC 4787",
        "REQ-1",
        "mapped",
        "MUST",
        "a datagram from inside gets a public address, its answer the way back",
        plain,
    )

    def independent() -> Steps:
        port, said = next(n.ports), "one public endpoint towards all servers and ports"
        found = []
        for to in (n.server(0), n.server(0, 9), n.server(1)):
            found.append((yield from n.mapped(0, port, to)))
        if None in found:
            return untold(said, NO_MAPPING)
        words = ", ".join(map(str, found))
        return conforms(said, words) if len(set(found)) == 1 else deviates(said, words)

    yield _clause(
        "RFC 4787",
        "REQ-1",
        "endpoint-independent",
        "MUST",
        "endpoint-independent mapping: one inside endpoint has one public endpoint",
        independent,
    )

    def contended() -> Steps:
        """Another host has the port already, so the NAT must choose; towards a second server it need not."""
        port, said = (
            next(n.ports),
            "one public endpoint towards both servers, though the port was taken",
        )
        other = yield from n.mapped(1, port, n.server(0))
        one = yield from n.mapped(0, port, n.server(0))
        two = yield from n.mapped(0, port, n.server(1))
        if other is None or one is None or two is None:
            return untold(said, NO_MAPPING)
        return conforms(said, f"{one}") if one == two else deviates(said, f"{one}, {two}")

    yield _clause(
        "RFC 4787",
        "REQ-1",
        "endpoint-independent-contended",
        "MUST",
        "endpoint-independent mapping, also where another host has taken the port",
        contended,
    )

    def overloaded() -> Steps:
        port, said = next(n.ports), "two public endpoints"
        one = yield from n.mapped(0, port, n.server(0))
        two = yield from n.mapped(1, port, n.server(0))
        if one is None or two is None:
            return untold(said, NO_MAPPING)
        return conforms(said, f"{one}, {two}") if one != two else deviates(said, f"both are {one}")

    yield _clause(
        "RFC 4787",
        "REQ-3",
        "overloading",
        "MUST",
        "two hosts with the same port get different public endpoints",
        overloaded,
    )

    def overlapping() -> Steps:
        port, said = next(n.ports), "two public endpoints, though the servers differ"
        one = yield from n.mapped(0, port, n.server(0))
        two = yield from n.mapped(1, port, n.server(1))
        if one is None or two is None:
            return untold(said, NO_MAPPING)
        return conforms(said, f"{one}, {two}") if one != two else deviates(said, f"both are {one}")

    yield _clause(
        "RFC 4787",
        "REQ-3",
        "overloading-by-server",
        "MUST",
        "two hosts with the same port never share a public endpoint, not even towards different servers",
        overlapping,
    )

    def parity() -> Steps:
        said, words = "even ports stay even, odd ones odd", []
        for _ in range(_SEVERAL):
            port = next(n.ports)
            seen = yield from n.mapped(0, port, n.server(0))
            if seen is None:
                return untold(said, NO_MAPPING)
            words.append(f"{port} to {seen.port}")
            if (seen.port - port) % 2:
                return deviates(said, words[-1])
        return conforms(said, ", ".join(words[:2]) + ", ...")

    yield _clause(
        "RFC 4787",
        "REQ-4",
        "parity",
        "SHOULD",
        "the public port has the parity of the inside port",
        parity,
    )


def _paired(n: NatEnds) -> Steps:
    said, found = "one public address", set()
    for _ in range(_SEVERAL):
        seen = yield from n.mapped(0, next(n.ports), n.server(0))
        if seen is None:
            return untold(said, NO_MAPPING)
        found.add(seen.ipv4)
    words = ", ".join(map(str, sorted(found)))
    return conforms(said, words) if len(found) == 1 else deviates(said, words)


def _filtering(n: NatEnds) -> Iterator[Clause]:
    def from_outside(who: Endpoint, said: str) -> Steps:
        port = next(n.ports)
        seen = yield from n.mapped(0, port, n.server(0))
        if seen is None:
            return untold(said, NO_MAPPING)
        heard = yield Send([n.frame("right", n.down(who, seen))])
        return conforms(said) if n.inside(heard) else deviates(said, n.seen(heard))

    yield _clause(
        "RFC 4787",
        "REQ-8",
        "filtering-address",
        "SHOULD",
        "filtering is at most address-dependent: a server may answer from another port",
        lambda: from_outside(n.server(0, 4321), "the datagram, inside"),
    )
    yield _clause(
        "RFC 4787",
        "REQ-8",
        "filtering-endpoint",
        "MAY",
        "endpoint-independent filtering: any server reaches a mapped host",
        lambda: from_outside(n.server(1, 4321), "the datagram, inside"),
    )


def _hairpinning(n: NatEnds) -> Iterator[Clause]:
    def turned(judge: Callable[[Endpoint, list[Any], str], Judgement], said: str) -> Steps:
        mine, theirs = next(n.ports), next(n.ports)
        one = yield from n.mapped(0, mine, n.server(0))
        two = yield from n.mapped(1, theirs, n.server(0))
        if one is None or two is None:
            return untold(said, NO_MAPPING)
        heard = yield Send([n.frame("left", n.up(0, mine, two))])
        got = [p for h, p in n.inside(heard) if h == 1 and p.ports[1] == theirs]
        return judge(one, got, n.seen(heard))

    said = "the datagram, at the other host"
    yield _clause(
        "RFC 4787",
        "REQ-9",
        "hairpinning",
        "MUST",
        "a host reaches another one by its public endpoint",
        lambda: turned(
            lambda one, got, seen: conforms(said) if got else deviates(said, seen), said
        ),
    )
    outer = "the public endpoint as source"

    def public(one: Endpoint, got: list[Any], seen: str) -> Judgement:
        if not got:
            return untold(outer, "no hairpinning")
        packet = got[0]
        known = packet.ports[0] == one.port and int(packet.source) & 0xFFFFFFFF == int(one.ipv4)
        if n.prefix is not None and n.prefix.prefixlen != 96:
            known = packet.ports[0] == one.port
        return (
            conforms(outer)
            if known
            else deviates(outer, f"source {packet.source} port {packet.ports[0]}")
        )

    yield _clause(
        "RFC 4787",
        "REQ-9a",
        "hairpinning-source",
        "MUST",
        "the other host sees the public endpoint as source",
        lambda: turned(public, outer),
    )


def _errors(n: NatEnds) -> Iterator[Clause]:
    def error(seen: Endpoint, kind: int, code: int, rest: int = 0) -> bytes:
        who = n.server(0)
        about = ip4(
            seen.ipv4, who.ipv4, UDP, udp(seen.ipv4, who.ipv4, (seen.port, who.port), data(40))
        )
        return ip4(who.ipv4, seen.ipv4, ICMP, icmp(kind, code, rest, about))

    def translated(kind: int, code: int, rest: int = 0) -> Steps:
        port, said = next(n.ports), "the error inside, about the host's own endpoint"
        seen = yield from n.mapped(0, port, n.server(0))
        if seen is None:
            return untold(said, NO_MAPPING)
        heard = yield Send([n.frame("right", error(seen, kind, code, rest))])
        found = [p for h, p in n.inside(heard) if h == 0 and p.error]
        if not found:
            return deviates(said, n.seen(heard))
        about = found[0].about
        own = n.customer if n.customer is not None else n.hosts[0]
        if about is None or about.source != own or about.ports[0] != port:
            return deviates(said, f"about {about}")
        return conforms(said) if found[0].summed else deviates(said, "a wrong ICMP checksum")

    for kind, code, rest, words in (
        (3, 3, 0, "port unreachable"),
        (3, 4, 1400, "fragmentation needed"),
        (11, 0, 0, "time exceeded"),
    ):
        yield _clause(
            "RFC 5508",
            "REQ-4",
            f"error-{kind}-{code}",
            "MUST",
            f"ICMP {words} about a mapped datagram reaches the host, translated with what is in it",
            lambda k=kind, c=code, r=rest: translated(k, c, r),  # type: ignore[misc]
        )

    def unknown() -> Steps:
        said = "nothing inside"
        heard = yield Send([n.frame("right", error(Endpoint(n.pool[0], 61112), 3, 3))])
        if n.inside(heard):
            return deviates(said, n.seen(heard))
        seen = yield from n.mapped(0, next(n.ports), n.server(0))
        return untold(said, NO_MAPPING) if seen is None else conforms(said, n.seen(heard))

    yield _clause(
        "RFC 5508",
        "REQ-4",
        "error-unmapped",
        "SHOULD",
        "an ICMP error about no mapping is silently dropped",
        unknown,
    )

    def kept() -> Steps:
        port, said = next(n.ports), "the datagram after the error, inside"
        seen = yield from n.mapped(0, port, n.server(0))
        if seen is None:
            return untold(said, NO_MAPPING)
        yield Send([n.frame("right", error(seen, 3, 3))])
        heard = yield Send([n.frame("right", n.down(n.server(0), seen))])
        return (
            conforms(said)
            if any(p.protocol == UDP for _, p in n.inside(heard))
            else deviates(said, n.seen(heard))
        )

    yield _clause(
        "RFC 4787", "REQ-12", "error-keeps-mapping", "MUST", "an ICMP error ends no mapping", kept
    )


def _fragments(n: NatEnds) -> Iterator[Clause]:
    whole = data(700)

    def outward(order: int) -> Steps:
        port, said = next(n.ports), "708 octets of UDP from one public endpoint"
        parts = n.parts(0, port, n.server(0), whole, (0, 400), 0x3300 + port)
        heard = yield Send([n.frame("left", p) for p in parts[::order]])
        found = [p for _, p in n.outside(heard)]
        joined = b"".join(p.payload for p in sorted(found, key=lambda p: p.offset))
        right = (
            joined[8:] == whole
            and len({p.source for p in found}) == 1
            and found[0].source in n.pool
        )
        return conforms(said) if right else deviates(said, n.seen(heard))

    def inward(order: int) -> Steps:
        port, said = next(n.ports), "708 octets of UDP inside"
        seen = yield from n.mapped(0, port, n.server(0))
        if seen is None:
            return untold(said, NO_MAPPING)
        ends = n.servers[0], seen.ipv4
        octets = udp(*ends, (n.server(0).port, seen.port), whole)
        parts = [
            ip4(*ends, UDP, octets[:400], flags=MF, identification=port),
            ip4(*ends, UDP, octets[400:], offset=400, identification=port),
        ]
        heard = yield Send([n.frame("right", p) for p in parts[::order]])
        found = [p for _, p in n.inside(heard)]
        joined = b"".join(p.payload for p in sorted(found, key=lambda p: p.offset))
        return conforms(said) if joined[8:] == whole else deviates(said, n.seen(heard))

    for name, order, words in (("in-order", 1, "in order"), ("out-of-order", -1, "the last first")):
        yield _clause(
            "RFC 4787",
            "REQ-14",
            f"fragments-out-{name}",
            "MUST",
            f"a fragmented datagram from inside arrives whole ({words})",
            lambda o=order: outward(o),  # type: ignore[misc]
        )
        yield _clause(
            "RFC 4787",
            "REQ-14",
            f"fragments-in-{name}",
            "MUST",
            f"a fragmented datagram from outside arrives whole ({words})",
            lambda o=order: inward(o),  # type: ignore[misc]
        )
