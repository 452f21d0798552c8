"""A NAT that has no public port left, for a host or at all; one whose sessions are emptied; one made anew.

RFC 6888 by the numbers of its requirements.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from v6t.plugins.clauses import nat_queries
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
from v6t.plugins.clauses.nat_connection import NO_CONNECTION, new
from v6t.plugins.clauses.nat_delivery import NO_MAPPING, Steps
from v6t.plugins.clauses.nat_ends import Endpoint, NatEnds

ROOM = 16
"""Public ports of a host, or of all: even, as a NAT that keeps parity can use no more of one kind."""
TABLE = 20
"""Sessions of a small table: a multiple of ten, as some devices have it."""
BLOCKS = f"blocks of {ROOM} public ports"
FEW = f"{ROOM} public ports"
SMALL = f"room for {TABLE} sessions"
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    BLOCKS: {"port_block": ROOM, "session_limit": 0},
    FEW: {
        "pool_ports": {"min": 1024, "max": 1023 + ROOM},
        "initiator_ports": {"min": 1024, "max": 1031},
        "initiator_count": 2,
        "pool_count": 1,
        "port_block": 0,
        "session_limit": 0,
    },
    SMALL: {"session_limit": TABLE, "port_block": 0},
}
_MORE = 3
"""Mappings that are asked for beyond what there is room for."""
_TOLD = ((3, 1), (3, 13), (1, 0), (1, 1), (1, 3))
"""Host unreachable or prohibited, by ICMP and ICMPv6 (RFC 6888 REQ-11, RFC 5508 REQ-8, RFC 7915)."""


@dataclass(frozen=True)
class Filled:
    """One host that asks for more mappings than there is room for, towards one server.

    Attributes:
        mapped: public endpoints by inside port, in order.
        refused: inside ports that got none.
        notified: a datagram without a mapping was answered by an ICMP error.
    """

    mapped: Mapping[int, Endpoint]
    refused: Sequence[int]
    notified: bool


@dataclass(frozen=True)
class Kind:
    """What there is little of in one of the further configurations.

    Attributes:
        name: begins the names of clauses.
        room: mappings of a host, or of all.
        section: of RFC 6888, that says so.
        title: of the clause of that.
    """

    name: str
    room: int
    section: str
    title: str


_KINDS = {
    BLOCKS: Kind(
        "block", ROOM, "REQ-4", "a host gets as many public ports as it may have, and no more"
    ),
    FEW: Kind("full", ROOM, "REQ-11", "without a free public port a packet is dropped"),
    SMALL: Kind("table", TABLE, "REQ-11", "without room for a session a packet is dropped"),
}


def filled(n: NatEnds, host: int = 0, most: int = ROOM) -> Generator[Send, Sequence[Frame], Filled]:
    """Empty the table, then fill it with more than there is room for."""
    yield Send((), first="flush")
    server, notified = n.server(0), False
    mapped: dict[int, Endpoint] = {}
    refused: list[int] = []
    # one even and one odd inside port after the other: a NAT that keeps parity has room for both
    while len(mapped) + len(refused) < most + _MORE and len(refused) < _MORE:
        port = next(n.ports)
        heard = yield Send([n.frame("left", n.up(host, port, server))])
        came = [
            who
            for who, p in n.outside(heard)
            if p.destination == server.ipv4 and p.summed and p.sound
        ]
        if came:
            mapped[port] = came[0]
        else:
            refused.append(port)
            notified = notified or any(h == host and p.kind in _TOLD for h, p in n.inside(heard))
    return Filled(mapped, refused, notified)


def flushed(clause: Clause) -> Clause:
    """Return a clause that first empties the table: mappings of earlier ones leave no room."""

    def exchange() -> Steps:
        yield Send((), first="flush")
        return (yield from clause.exchange())

    return replace(clause, exchange=exchange)


def limits(n: NatEnds, variant: str) -> Iterator[Clause]:
    """What is asked where there are few ports."""
    kind = _KINDS[variant]
    what, most = kind.name, kind.room

    def judged(judge: Callable[[Filled], Judgement], expected: str, *, full: bool = True) -> Steps:
        f = yield from filled(n, most=most)
        if not f.mapped:
            return untold(expected, NO_MAPPING)
        if full and not f.refused:
            return untold(expected, f"{len(f.mapped)} mappings and room for more")
        return judge(f)

    expected = f"no more than {most} public ports towards one server"

    def room(f: Filled) -> Judgement:
        ports = len(set(f.mapped.values()))
        words = f"{len(f.mapped)} mappings, {ports} public endpoints, {len(f.refused)} refused"
        return (
            conforms(expected, words) if ports <= most and f.refused else deviates(expected, words)
        )

    yield clause(
        "RFC 6888",
        kind.section,
        f"{what}-limit",
        "MUST",
        kind.title,
        lambda: judged(room, expected, full=False),
    )
    tell = "ICMP host unreachable or prohibited, inside"
    yield clause(
        "RFC 6888",
        "REQ-11",
        f"{what}-told",
        "SHOULD",
        "a host that gets no mapping is told (ICMP unreachable)",
        lambda: judged(lambda f: conforms(tell) if f.notified else deviates(tell, "nothing"), tell),
        rare=True,
    )
    stay = "answers over every mapping that there was, at their hosts' ports"

    def keeps_mappings() -> Steps:
        f = yield from filled(n, most=most)
        if not f.mapped:
            return untold(stay, NO_MAPPING)
        for port, seen in f.mapped.items():
            heard = yield Send([n.frame("right", n.down(n.server(0), seen))])
            if not any(h == 0 and p.ports[1] == port for h, p in n.inside(heard)):
                return deviates(stay, f"{seen}: {n.seen(heard)}")
        if len(set(f.mapped.values())) > most:
            return untold(stay, "there is room for more")
        return conforms(stay)

    yield clause(
        "RFC 6888",
        "REQ-11",
        f"{what}-keeps",
        "MUST",
        "no mapping is ended to make room for another one",
        keeps_mappings,
    )
    if variant == BLOCKS:
        yield from _blocks(n)


def _blocks(n: NatEnds) -> Iterator[Clause]:
    expected = f"two blocks of {ROOM} ports that have none in common"

    def contiguous() -> Steps:
        spans = []
        for host in (0, 1):
            f = yield from filled(n, host)
            if not f.mapped:
                return untold(expected, NO_MAPPING)
            ports = sorted({e.port for e in f.mapped.values()})
            addresses = {e.ipv4 for e in f.mapped.values()}
            spans.append((min(addresses), ports[0], ports[-1]))
            if len(addresses) > 1 or ports[-1] - ports[0] >= ROOM:
                return deviates(expected, f"host {host + 1}: ports {ports[0]} to {ports[-1]}")
        one, two = sorted(spans)
        words = f"{one[1]} to {one[2]}, {two[1]} to {two[2]}"
        apart = one[0] != two[0] or one[2] < two[1]
        return conforms(expected, words) if apart else deviates(expected, words)

    yield clause(
        "RFC 6888",
        "REQ-14",
        "block-contiguous",
        "SHOULD",
        "the public ports of a host are one block, those of another host another one",
        contiguous,
    )
    fair = "a mapping of the second host"

    def others() -> Steps:
        f = yield from filled(n)
        if not f.mapped or not f.refused:
            return untold(fair, NO_MAPPING if not f.mapped else "the first has room for more")
        seen = yield from n.mapped(1, next(n.ports), n.server(0))
        return conforms(fair, str(seen)) if seen is not None else deviates(fair, "nothing")

    yield clause(
        "RFC 6888",
        "REQ-4",
        "block-others",
        "MUST",
        "a host that has used up its ports takes none from others",
        others,
    )


def emptied(n: NatEnds) -> Iterator[Clause]:
    """What remains of sessions after the device's table was emptied, and after it was made anew."""
    expected = (
        "a mapping and its answer for the second host, and nothing of the first one's in common"
    )

    def again() -> Steps:
        port, server = next(n.ports), n.server(0)
        before = yield from n.mapped(0, port, server)
        if before is None:
            return untold(expected, NO_MAPPING)
        yield Send((), first="configure")
        after = yield from n.mapped(1, port, server)
        if after is None:
            return deviates(expected, "nothing passes afterwards")
        heard = yield Send([n.frame("right", n.down(server, after))])
        hosts = [h for h, p in n.inside(heard) if p.ports[1] == port]
        if hosts != [1]:
            return deviates(expected, n.seen(heard))
        heard = yield Send([n.frame("right", n.down(server, before))])
        left = [h for h, _ in n.inside(heard)]
        words = f"{before} before, {after} afterwards; the old one " + (
            "still reaches its host" if left == [0] else "is gone"
        )
        return (
            deviates(expected, words)
            if before == after and left == [0]
            else conforms(expected, words)
        )

    yield clause(
        "RFC 4787",
        "REQ-3",
        "configured-again",
        "MUST",
        "a device that is configured anew serves hosts, and gives away no endpoint that is still used",
        again,
    )
    nothing = "nothing inside"

    def gone(steps: Callable[[], Generator[Send, Sequence[Frame], bytes | None]]) -> Steps:
        late = yield from steps()
        if late is None:
            return untold(nothing, NO_CONNECTION)
        heard = yield Send([n.frame("right", late)])
        if not n.inside(heard):
            return untold(nothing, "the answer does not pass before, either")
        yield Send((), first="flush")
        if (yield from n.mapped(0, next(n.ports), n.server(0))) is None:
            return untold(nothing, "a table that was emptied lets nothing pass")
        heard = yield Send([n.frame("right", late)])
        if n.inside(heard):
            return deviates(nothing, n.seen(heard))
        if (yield from n.mapped(0, next(n.ports), n.server(0))) is None:
            return deviates(nothing, "nothing, and nothing else passes any more", ended=True)
        return conforms(nothing)

    def datagram() -> Generator[Send, Sequence[Frame], bytes | None]:
        seen = yield from n.mapped(0, next(n.ports), n.server(0))
        return None if seen is None else n.down(n.server(0), seen)

    def segment() -> Generator[Send, Sequence[Frame], bytes | None]:
        c = new(n)
        return c.back(16, b"late") if (yield from c.opened()) else None

    def query() -> Generator[Send, Sequence[Frame], bytes | None]:
        seen = yield from nat_queries.queried(n, 0, next(n.ports))
        return None if seen is None else nat_queries.reply(n, seen)

    for name, steps, words in (
        ("udp", datagram, "UDP mapping"),
        ("tcp", segment, "TCP connection"),
        ("icmp", query, "ICMP query"),
    ):
        yield clause(
            "RFC 9693",
            "4.8",
            f"flush-{name}",
            "MUST",
            f"no {words} is left of a table that was emptied",
            lambda s=steps: gone(s),
        )
