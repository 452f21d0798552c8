"""How long sessions of a NAT live, by waiting: short ones the device is configured with, and RFCs' minima."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from v6t.plugins.clauses import nat_queries
from v6t.plugins.clauses.base import Clause, Frame, Level, Send, clause, conforms, deviates, untold
from v6t.plugins.clauses.nat_connection import ACK, FIN, NO_CONNECTION, PSH, SYN, new
from v6t.plugins.clauses.nat_delivery import NO_MAPPING, Steps
from v6t.plugins.clauses.nat_ends import NatEnds
from v6t.plugins.clauses.packets import PAYLOAD

SHORT_S = 4
"""Lifetime of UDP mappings that the device is told, so that its end can be waited for."""
SHORT = f"UDP mappings of {SHORT_S} s"
VARIANTS: Mapping[str, Mapping[str, Any]] = {SHORT: {"udp_timeout_s": SHORT_S}}
UDP_S, QUERY_S, TRANSITORY_S, ESTABLISHED_S = 120, 60, 240, 7440
"""RFC 4787 REQ-5; RFC 5508 REQ-2; RFC 7857 section 2.1; RFC 5382 REQ-5."""
UNREGISTERED = 40007
"""A server's port that is not well known: for those a NAT may have shorter timers (RFC 4787 REQ-5a)."""
_SPARE_S = 5.0
"""So much less than a timer's least is waited: frames and busy machines take their time."""
_SHARES = (1 / 27, 1 / 9, 1 / 3, 1.0)
"""Of a timer's least, at which sessions are asked."""
_STREAM_S = 2.5
_EARLY_S, _LATE_S = 0.75 * SHORT_S, 1.75 * SHORT_S


def short(n: NatEnds) -> Iterator[Clause]:
    """What is asked of mappings that live for seconds."""

    def waited(pauses: tuple[tuple[str, float], ...], alive: bool, expected: str) -> Steps:
        """Refresh from one side after each pause; the last answer tells."""
        port, server = next(n.ports), n.server(0)
        seen = yield from n.mapped(0, port, server)
        if seen is None:
            return untold(expected, NO_MAPPING)
        for side, pause in pauses:
            up = side == "left"
            frame = n.frame("left", n.up(0, port, server)) if up else None
            frame = frame or n.frame("right", n.down(server, seen))
            heard = yield Send([frame], pause_s=pause)
        came = any(h == 0 and p.ports[1] == port for h, p in n.inside(heard))
        return conforms(expected) if came == alive else deviates(expected, n.seen(heard))

    early, late = f"{_EARLY_S:g} s", f"{_LATE_S:g} s"
    rows = (
        ("REQ-5", "timer-lasts", "MUST", f"a mapping of {SHORT_S} s is there after {early}",
         (("right", _EARLY_S),), True, "the answer, inside"),
        ("REQ-5b", "timer-ends", "MAY", f"a mapping of {SHORT_S} s is gone after {late}",
         (("right", _LATE_S),), False, "nothing inside"),
        ("REQ-6", "timer-refresh-out", "MUST", "a datagram from inside refreshes its mapping",
         (("left", _EARLY_S), ("right", _EARLY_S)), True, "the answer, inside"),
        ("REQ-6a", "timer-refresh-in", "MAY", "a datagram from outside refreshes a mapping",
         (("right", _EARLY_S), ("right", _EARLY_S)), True, "the second answer, inside"),
    )  # fmt: skip
    for section, name, level, title, pauses, alive, expected in rows:
        yield clause(
            "RFC 4787",
            section,
            name,
            level,
            title,
            lambda p=pauses, a=alive, s=expected: waited(p, a, s),
            lasts_s=sum(pause for _, pause in pauses),
        )


@dataclass(frozen=True)
class Late:
    """What is sent to a session that has been idle, and who tells whether it got there."""

    frame: Frame
    arrived: Callable[[Sequence[Frame]], bool]


Opened = Generator[Send, Sequence[Frame], Late | None]


def lived(opened: Callable[[], Opened], least_s: float, missing: str) -> Steps:
    """Sessions of one kind, each asked once, since an answer may refresh it; the first that is gone tells.

    Args:
        opened: makes one.
        least_s: it lives for at least.
        missing: said where none can be made.
    """
    last_s = least_s - _SPARE_S
    expected = f"an answer after {last_s:g} s, inside"
    sessions = []
    for _ in _SHARES:
        late = yield from opened()
        if late is None:
            return untold(expected, missing)
        sessions.append(late)
    before_s = 0.0
    for share, late in zip(_SHARES, sessions, strict=True):
        at_s = last_s * share
        heard = yield Send([late.frame], pause_s=at_s - before_s)
        if not late.arrived(heard):
            heard = yield Send([late.frame])  # one lost frame shall not end hours of waiting
        if not late.arrived(heard):
            words = f"after {before_s:.0f} s it arrived" if before_s else "nor before"
            return deviates(expected, f"nothing after {at_s:.0f} s; {words}")
        before_s = at_s
    return conforms(expected)


def long(n: NatEnds) -> Iterator[Clause]:
    """The least that RFCs ask for; each waits that long, or until it is told."""

    def arrives(port: int) -> Callable[[Sequence[Frame]], bool]:
        return lambda heard: any(h == 0 and p.ports[1] == port for h, p in n.inside(heard))

    def udp() -> Opened:
        port, server = next(n.ports), n.server(0, UNREGISTERED)
        seen = yield from n.mapped(0, port, server)
        if seen is None:
            return None
        return Late(n.frame("right", n.down(server, seen)), arrives(port))

    def answered() -> Opened:
        port, server = next(n.ports), n.server(0, UNREGISTERED)
        seen = yield from n.mapped(0, port, server)
        if seen is None:
            return None
        down = n.frame("right", n.down(server, seen))
        yield Send([down])
        # Linux takes a connection for a stream that lasts from two seconds after the first answer on
        yield Send([n.frame("left", n.up(0, port, server))], pause_s=_STREAM_S)
        heard = yield Send([down])
        return Late(down, arrives(port)) if arrives(port)(heard) else None

    def query() -> Opened:
        identifier = next(n.ports)
        seen = yield from nat_queries.queried(n, 0, identifier)
        if seen is None:
            return None
        frame = n.frame("right", nat_queries.reply(n, seen))
        return Late(frame, lambda heard: nat_queries.answered(n, heard, 0, identifier))

    def transitory() -> Opened:
        c = new(n)
        if (yield from c.syn()) is None:
            return None
        frame = n.frame("right", c.back(SYN | ACK))
        return Late(frame, lambda heard: c.arrived(heard, SYN | ACK))

    def closing() -> Opened:
        """Both ends have sent a FIN; the last one's is repeated (RFC 5382 section 5)."""
        c = new(n)
        if not (yield from c.opened()) or not (yield from c.goes(FIN | ACK)):
            return None
        last = n.frame("right", c.back(FIN | ACK))
        heard = yield Send([last])
        if not c.arrived(heard, FIN | ACK):
            return None
        return Late(last, lambda heard: c.arrived(heard, FIN | ACK))

    def established() -> Opened:
        c = new(n)
        if not (yield from c.opened()):
            return None
        frame = n.frame("right", c.back(ACK | PSH, PAYLOAD))
        return Late(frame, lambda heard: c.arrived(heard, ACK | PSH, PAYLOAD))

    # of those that open or close, RFC 7857 section 2.1 has made a default of what RFC 5382 REQ-5 demands
    brief: tuple[str, str, Level] = (
        ("RFC 6146", "3.5.2.2", "MUST") if n.prefix is not None else ("RFC 7857", "2.1", "SHOULD")
    )
    rows: tuple[
        tuple[tuple[str, str, Level], str, float, str, Callable[[], Opened], str], ...
    ] = (
        (("RFC 4787", "REQ-5", "MUST"), "timer-udp", UDP_S, "a UDP mapping lives for two minutes",
         udp, NO_MAPPING),
        (("RFC 4787", "REQ-5", "MUST"), "timer-udp-answered", UDP_S,
         "a UDP mapping that is used both ways lives for two minutes", answered, NO_MAPPING),
        (("RFC 5508", "REQ-2", "MUST"), "timer-query", QUERY_S, "an ICMP query lives for 60 s",
         query, nat_queries.NO_QUERY),
        (brief, "timer-tcp-transitory", TRANSITORY_S,
         "a connection that is not open yet lives for 4 minutes", transitory, NO_CONNECTION),
        (brief, "timer-tcp-closing", TRANSITORY_S,
         "a connection that both ends have closed lives for 4 minutes", closing, NO_CONNECTION),
        (("RFC 5382", "REQ-5", "MUST"), "timer-tcp-established", ESTABLISHED_S,
         "an open connection lives for 2 hours and 4 minutes", established, NO_CONNECTION),
    )  # fmt: skip
    for (rfc, section, level), name, lasts, title, opened, missing in rows:
        yield clause(
            rfc,
            section,
            name,
            level,
            title,
            lambda o=opened, s=lasts, m=missing: lived(o, s, m),
            lasts_s=lasts,
        )
