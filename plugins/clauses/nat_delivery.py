"""What comes through a NAT beside plain datagrams: ICMP errors about them, and fragments."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

from v6t.plugins.clauses.base import (
    Clause,
    Frame,
    Judgement,
    Send,
    clause,
    conforms,
    deviates,
    untold,
)
from v6t.plugins.clauses.nat_ends import Endpoint, NatEnds
from v6t.plugins.clauses.packets import ICMP, MF, UDP, data, icmp, ip4, udp

Steps = Generator[Send, Sequence[Frame], Judgement]
NO_MAPPING = "nothing right comes out, so nothing can be told of mappings"


def clauses(n: NatEnds) -> Iterator[Clause]:
    """All of them."""
    yield from _errors(n)
    yield from _fragments(n)


def _errors(n: NatEnds) -> Iterator[Clause]:
    def error(seen: Endpoint, kind: int, code: int, rest: int = 0) -> bytes:
        who = n.server(0)
        about = ip4(
            seen.ipv4, who.ipv4, UDP, udp(seen.ipv4, who.ipv4, (seen.port, who.port), data(40))
        )
        return ip4(who.ipv4, seen.ipv4, ICMP, icmp(kind, code, rest, about))

    def translated(kind: int, code: int, rest: int = 0) -> Steps:
        port, expected = next(n.ports), "the error inside, about the host's own endpoint"
        seen = yield from n.mapped(0, port, n.server(0))
        if seen is None:
            return untold(expected, NO_MAPPING)
        heard = yield Send([n.frame("right", error(seen, kind, code, rest))])
        errors = [p for h, p in n.inside(heard) if h == 0 and p.error]
        if not errors:
            return deviates(expected, n.seen(heard))
        about = errors[0].about
        own = n.own(0)
        if about is None or about.source != own or about.ports[0] != port:
            return deviates(expected, f"about {about}")
        return (
            conforms(expected) if errors[0].summed else deviates(expected, "a wrong ICMP checksum")
        )

    for kind, code, rest, words in (
        (3, 3, 0, "port unreachable"),
        (3, 4, 1400, "fragmentation needed"),
        (11, 0, 0, "time exceeded"),
    ):
        yield clause(
            "RFC 5508",
            "REQ-4",
            f"error-{kind}-{code}",
            "MUST",
            f"ICMP {words} about a mapped datagram reaches the host, translated with what is in it",
            lambda k=kind, c=code, r=rest: translated(k, c, r),
        )

    def unknown() -> Steps:
        expected = "nothing inside"
        heard = yield Send([n.frame("right", error(Endpoint(n.pool[0], 61112), 3, 3))])
        if n.inside(heard):
            return deviates(expected, n.seen(heard))
        seen = yield from n.mapped(0, next(n.ports), n.server(0))
        return untold(expected, NO_MAPPING) if seen is None else conforms(expected, n.seen(heard))

    yield clause(
        "RFC 5508",
        "REQ-4",
        "error-unmapped",
        "SHOULD",
        "an ICMP error about no mapping is silently dropped",
        unknown,
    )

    def keeps_mapping() -> Steps:
        port, expected = next(n.ports), "the datagram after the error, inside"
        seen = yield from n.mapped(0, port, n.server(0))
        if seen is None:
            return untold(expected, NO_MAPPING)
        yield Send([n.frame("right", error(seen, 3, 3))])
        heard = yield Send([n.frame("right", n.down(n.server(0), seen))])
        return (
            conforms(expected)
            if any(p.protocol == UDP for _, p in n.inside(heard))
            else deviates(expected, n.seen(heard))
        )

    yield clause(
        "RFC 4787",
        "REQ-12",
        "error-keeps-mapping",
        "MUST",
        "an ICMP error ends no mapping",
        keeps_mapping,
    )


def _fragments(n: NatEnds) -> Iterator[Clause]:
    whole = data(700)

    def outward(order: int) -> Steps:
        port, expected = next(n.ports), "708 octets of UDP from one public endpoint"
        parts = n.parts(0, port, n.server(0), whole, (0, 400), 0x3300 + port)
        heard = yield Send([n.frame("left", p) for p in parts[::order]])
        fragments = [p for _, p in n.outside(heard)]
        joined = b"".join(p.payload for p in sorted(fragments, key=lambda p: p.offset))
        right = (
            joined[8:] == whole
            and len({p.source for p in fragments}) == 1
            and fragments[0].source in n.pool
        )
        return conforms(expected) if right else deviates(expected, n.seen(heard))

    def inward(order: int) -> Steps:
        port, expected = next(n.ports), "708 octets of UDP inside"
        seen = yield from n.mapped(0, port, n.server(0))
        if seen is None:
            return untold(expected, NO_MAPPING)
        ends = n.servers[0], seen.ipv4
        octets = udp(*ends, (n.server(0).port, seen.port), whole)
        parts = [
            ip4(*ends, UDP, octets[:400], flags=MF, identification=port),
            ip4(*ends, UDP, octets[400:], offset=400, identification=port),
        ]
        heard = yield Send([n.frame("right", p) for p in parts[::order]])
        fragments = [p for _, p in n.inside(heard)]
        joined = b"".join(p.payload for p in sorted(fragments, key=lambda p: p.offset))
        return conforms(expected) if joined[8:] == whole else deviates(expected, n.seen(heard))

    for name, order, words in (("in-order", 1, "in order"), ("out-of-order", -1, "the last first")):
        yield clause(
            "RFC 4787",
            "REQ-14",
            f"fragments-out-{name}",
            "MUST",
            f"a fragmented datagram from inside arrives whole ({words})",
            lambda o=order: outward(o),
        )
        yield clause(
            "RFC 4787",
            "REQ-14",
            f"fragments-in-{name}",
            "MUST",
            f"a fragmented datagram from outside arrives whole ({words})",
            lambda o=order: inward(o),
        )
