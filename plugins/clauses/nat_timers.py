"""How long sessions of a NAT live, by waiting: short ones the device is configured with, and RFCs' minima."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from v6t.plugins.clauses import nat_queries
from v6t.plugins.clauses.base import Clause, Send, clause, conforms, deviates, untold
from v6t.plugins.clauses.nat_connection import ACK, NO_CONNECTION, PSH, SYN, new
from v6t.plugins.clauses.nat_delivery import NO_MAPPING, Steps
from v6t.plugins.clauses.nat_ends import NatEnds
from v6t.plugins.clauses.packets import PAYLOAD

SHORT_S = 4
"""Lifetime of UDP mappings that the device is told, so that its end can be waited for."""
SHORT = f"UDP mappings of {SHORT_S} s"
VARIANTS: Mapping[str, Mapping[str, Any]] = {SHORT: {"udp_timeout_s": SHORT_S}}
UDP_S, QUERY_S, TRANSITORY_S, ESTABLISHED_S = 120, 60, 240, 7440
"""RFC 4787 REQ-5; RFC 5508 REQ-2; RFC 5382 REQ-5."""
_EARLY_S, _LATE_S = 0.75 * SHORT_S, 1.75 * SHORT_S


def short(n: NatEnds) -> Iterator[Clause]:
    """What is asked of mappings that live for seconds."""

    def waited(pauses: tuple[tuple[str, float], ...], alive: bool, said: str) -> Steps:
        """Refresh from one side after each pause; the last answer tells."""
        port, server = next(n.ports), n.server(0)
        seen = yield from n.mapped(0, port, server)
        if seen is None:
            return untold(said, NO_MAPPING)
        for side, pause in pauses:
            up = side == "left"
            frame = n.frame("left", n.up(0, port, server)) if up else None
            frame = frame or n.frame("right", n.down(server, seen))
            heard = yield Send([frame], pause_s=pause)
        came = any(h == 0 and p.ports[1] == port for h, p in n.inside(heard))
        return conforms(said) if came == alive else deviates(said, n.seen(heard))

    early, late = f"{_EARLY_S:g} s", f"{_LATE_S:g} s"
    rows = (
        ("REQ-5", "timer-lasts", "MUST", f"a mapping of {SHORT_S} s is there after {early}",
         (("right", _EARLY_S),), True, "the answer, inside"),
        ("REQ-5b", "timer-ends", "MAY", f"a mapping of {SHORT_S} s is gone after {late}",
         (("right", _LATE_S),), False, "nothing inside"),
        ("REQ-6", "timer-refresh-out", "MUST", "a datagram from inside refreshes its mapping",
         (("left", _EARLY_S), ("right", _EARLY_S)), True, "the answer, inside"),
        ("REQ-6b", "timer-refresh-in", "MAY", "a datagram from outside refreshes a mapping",
         (("right", _EARLY_S), ("right", _EARLY_S)), True, "the second answer, inside"),
    )  # fmt: skip
    for section, name, level, title, pauses, alive, said in rows:
        yield clause(
            "RFC 4787",
            section,
            name,
            level,  # type: ignore[arg-type]
            title,
            lambda p=pauses, a=alive, s=said: waited(p, a, s),  # type: ignore[misc]
            lasts_s=sum(pause for _, pause in pauses),
        )


def long(n: NatEnds) -> Iterator[Clause]:
    """The least that RFCs ask for; each waits that long."""
    said = "the answer, inside"

    def udp() -> Steps:
        port, server = next(n.ports), n.server(0)
        seen = yield from n.mapped(0, port, server)
        if seen is None:
            return untold(said, NO_MAPPING)
        heard = yield Send([n.frame("right", n.down(server, seen))], pause_s=UDP_S - 2)
        came = any(h == 0 and p.ports[1] == port for h, p in n.inside(heard))
        return conforms(said) if came else deviates(said, n.seen(heard))

    def query() -> Steps:
        identifier = next(n.ports)
        seen = yield from nat_queries.queried(n, 0, identifier)
        if seen is None:
            return untold(said, nat_queries.NO_QUERY)
        frame = n.frame("right", nat_queries.reply(n, seen))
        heard = yield Send([frame], pause_s=QUERY_S - 2)
        came = nat_queries.answered(n, heard, 0, identifier)
        return conforms(said) if came else deviates(said, n.seen(heard))

    def transitory() -> Steps:
        c = new(n)
        if (yield from c.syn()) is None:
            return untold(said, NO_CONNECTION)
        frame = n.frame("right", c.back(SYN | ACK))
        heard = yield Send([frame], pause_s=TRANSITORY_S - 2)
        return conforms(said) if c.arrived(heard, SYN | ACK) else deviates(said, n.seen(heard))

    def established() -> Steps:
        c = new(n)
        if not (yield from c.opened()):
            return untold(said, NO_CONNECTION)
        frame = n.frame("right", c.back(ACK | PSH, PAYLOAD))
        heard = yield Send([frame], pause_s=ESTABLISHED_S - 2)
        came = c.arrived(heard, ACK | PSH, PAYLOAD)
        return conforms(said) if came else deviates(said, n.seen(heard))

    for rfc, section, name, lasts, title, steps in (
        ("RFC 4787", "REQ-5", "timer-udp", UDP_S, "a UDP mapping lives for two minutes", udp),
        ("RFC 5508", "REQ-2", "timer-query", QUERY_S, "an ICMP query lives for 60 s", query),
        ("RFC 5382", "REQ-5", "timer-tcp-transitory", TRANSITORY_S,
         "a connection that is not open yet lives for 4 minutes", transitory),
        ("RFC 5382", "REQ-5", "timer-tcp-established", ESTABLISHED_S,
         "an open connection lives for 2 hours and 4 minutes", established),
    ):  # fmt: skip
        yield clause(rfc, section, name, "MUST", title, steps, lasts_s=lasts)
