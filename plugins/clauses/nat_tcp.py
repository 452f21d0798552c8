"""What RFC 5382 asks of TCP through a NAT."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from v6t.plugins.clauses.base import Clause, Send, clause, conforms, deviates, untold
from v6t.plugins.clauses.nat_connection import (
    ACK,
    FIN,
    NO_CONNECTION,
    PSH,
    RST,
    SYN,
    Connection,
    Heard,
    new,
    right,
    seen,
)
from v6t.plugins.clauses.nat_delivery import Steps
from v6t.plugins.clauses.nat_ends import Endpoint, NatEnds, overlapping
from v6t.plugins.clauses.packets import ICMP, PAYLOAD, TCP, icmp, ip4, tcp

_RATIONED_S = 1.5
"""After such a pause a device that rations its errors has one left: silence shall not come of that."""
UNSOLICITED_S = 6.0
"""So long a NAT keeps silent about a SYN that nobody asked for."""


def clauses(n: NatEnds) -> Iterator[Clause]:
    """All of them."""
    yield from _mapping(n)
    yield from _segments(n)
    yield from _unasked(n)
    yield from _errors(n)


def _mapping(n: NatEnds) -> Iterator[Clause]:
    def independent(taken: bool, expected: str) -> Steps:
        port = next(n.ports)
        if taken:
            yield from seen(n, 1, port, n.server(0))
        endpoints = []
        for to in (n.server(0), n.server(0, 9), n.server(1)):
            endpoints.append((yield from seen(n, 0, port, to)))
        if None in endpoints:
            return untold(expected, NO_CONNECTION)
        words = ", ".join(map(str, endpoints))
        return conforms(expected, words) if len(set(endpoints)) == 1 else deviates(expected, words)

    for name, taken, more in (
        ("tcp-endpoint-independent", False, ""),
        ("tcp-endpoint-independent-contended", True, ", also where another host has the port"),
    ):
        yield clause(
            "RFC 5382",
            "REQ-1",
            name,
            "MUST",
            f"endpoint-independent mapping of TCP{more}",
            lambda t=taken, m=more: independent(t, f"one public endpoint towards all servers{m}"),
        )

    def overloaded(server: int, expected: str) -> Steps:
        port = next(n.ports)
        one = yield from seen(n, 0, port, n.server(0))
        two = yield from seen(n, 1, port, n.server(server))
        if one is None or two is None:
            return untold(expected, NO_CONNECTION)
        return (
            conforms(expected, f"{one}, {two}")
            if one != two
            else deviates(expected, f"both are {one}")
        )

    for server, more, (rfc, section, level) in (
        (0, "", ("RFC 5382", "REQ-7", "MUST")),
        (1, "-by-server", overlapping(n, "3.5.2.3")),
    ):
        yield clause(
            rfc,
            section,
            f"tcp-overloading{more}",
            level,
            "two hosts' connections from the same port have different public endpoints"
            + (", also towards different servers" if server else ""),
            lambda s=server: overloaded(s, "two public endpoints"),
        )

    def hairpinned(source: bool, expected: str) -> Steps:
        mine, other = new(n), new(n, 1)
        if not (yield from mine.opened()) or not (yield from other.opened()):
            return untold(expected, NO_CONNECTION)
        if other.public is None or mine.public is None:
            return untold(expected, NO_CONNECTION)
        turned = Connection(n, 0, mine.port, other.public)
        heard = yield Send([n.frame("left", turned.out(SYN))])
        got = [
            p
            for h, p in n.inside(heard)
            if h == 1 and p.ports[1] == other.port and right(p, SYN, b"")
        ]
        if not source:
            return conforms(expected) if got else deviates(expected, n.seen(heard))
        if not got:
            return untold(expected, "no hairpinning")
        p = got[0]
        known = p.ports[0] == mine.public.port and n.is_public(p.source, mine.public.ipv4)
        return conforms(expected) if known else deviates(expected, f"{p.source} port {p.ports[0]}")

    yield clause(
        "RFC 5382",
        "REQ-8",
        "tcp-hairpinning",
        "MUST",
        "a host's SYN reaches another one by its public endpoint",
        lambda: hairpinned(False, "the SYN, at the other host"),
    )
    yield clause(
        "RFC 5382",
        "REQ-8a",
        "tcp-hairpinning-source",
        "MUST",
        "the other host sees the public endpoint as the SYN's source",
        lambda: hairpinned(True, "the public endpoint as source"),
    )


def _segments(n: NatEnds) -> Iterator[Clause]:
    def segments_pass(
        steps: Callable[[Connection], Heard], expected: str, opened: bool = True
    ) -> Steps:
        c = new(n)
        if opened and not (yield from c.opened()):
            return untold(expected, NO_CONNECTION)
        return (
            conforms(expected)
            if (yield from steps(c))
            else deviates(expected, "a segment is missing")
        )

    def whole(c: Connection) -> Heard:
        if not (yield from c.opened()) or not (yield from c.lives()):
            return False
        first = yield from c.goes(FIN | ACK)
        second = yield from c.comes(FIN | ACK)
        return (yield from c.goes(ACK)) and first and second

    def half(c: Connection) -> Heard:
        if not (yield from c.goes(FIN | ACK)) or not (yield from c.comes(ACK)):
            return False
        return (yield from c.comes(ACK | PSH, PAYLOAD)) and (yield from c.goes(ACK))

    def simultaneous(c: Connection) -> Heard:
        if (yield from c.syn()) is None:
            return False
        if not (yield from c.comes(SYN)):
            return False
        # both SYNs are repeated with an acknowledgement (RFC 9293 section 3.5, figure 8)
        c.client -= 1
        out = yield from c.goes(SYN | ACK)
        c.answer -= 1
        return (yield from c.comes(SYN | ACK)) and out

    def reset(c: Connection) -> Heard:
        return (yield from c.comes(RST | ACK))

    def reset_out(c: Connection) -> Heard:
        return (yield from c.goes(RST | ACK))

    rows: tuple[tuple[str, str, Callable[[Connection], Heard], str, bool], ...] = (
        ("tcp-exchange", "opened, carries data both ways and is closed", whole,
         "every segment arrives, checksums right", False),
        ("tcp-half-closed", "closed by one end carries what the other one still sends", half,
         "data after a FIN, and its acknowledgement", True),
        ("tcp-simultaneous-open", "opened by both ends at the same time", simultaneous,
         "the SYN from outside within, and both SYN-ACKs", False),
        ("tcp-reset-in", "reset from outside", reset, "the RST, inside", True),
        ("tcp-reset-out", "reset from inside", reset_out, "the RST, outside", True),
    )  # fmt: skip
    for name, words, steps, expected, opened in rows:
        yield clause(
            "RFC 5382",
            "REQ-2",
            name,
            "MUST",
            f"a connection that is {words}",
            lambda f=steps, s=expected, o=opened: segments_pass(f, s, o),
        )

    # RFC 7857 section 2.2: an RST that no end accepts must not end what both ends go on with
    def survives(c: Connection) -> Heard:
        """One that the client does not accept, since its number is far outside the window."""
        number = c.answer
        c.answer = number + 0x40000000
        yield Send([n.frame("right", c.back(RST))])
        c.answer = number
        return (yield from c.lives())

    yield clause(
        "RFC 7857",
        "2.2",
        "tcp-stray-reset",
        "SHOULD",
        "an RST whose number is outside the window ends no session: data pass afterwards",
        lambda: segments_pass(survives, "data both ways after the RST"),
    )

    def repaired(c: Connection) -> Heard:
        yield from c.comes(RST | ACK)
        return (yield from c.lives())

    yield clause(
        *(
            ("RFC 6146", "3.5.2.2", "tcp-after-reset", "MUST")
            if n.prefix is not None
            else ("RFC 7857", "2.2", "tcp-after-reset", "SHOULD")
        ),
        "a session outlives an RST for 4 minutes: data pass at once afterwards",
        lambda: segments_pass(repaired, "data both ways after the RST"),
    )


def _unasked(n: NatEnds) -> Iterator[Clause]:
    def let_in(who: Endpoint, expected: str) -> Steps:
        c = new(n)
        if not (yield from c.opened()):
            return untold(expected, NO_CONNECTION)
        other = Connection(n, 0, c.port, who, public=c.public)
        heard = yield Send([n.frame("right", other.back(SYN))])
        return (
            conforms(expected) if other.arrived(heard, SYN) else deviates(expected, n.seen(heard))
        )

    for name, who, level, words in (
        ("tcp-filtering-address", n.server(0, 4321), "SHOULD", "a server from another port"),
        ("tcp-filtering-endpoint", n.server(1, 4321), "MAY", "any server"),
    ):
        yield clause(
            "RFC 5382",
            "REQ-3",
            name,
            level,
            f"{words} may open a connection to a mapped host",
            lambda w=who: let_in(w, "the SYN, inside"),
        )

    expected = f"silence for {UNSOLICITED_S:g} s"

    def silent() -> Steps:
        c = new(n)
        if not (yield from c.opened()):
            return untold(expected, NO_CONNECTION)
        stranger = Connection(n, 0, c.port, n.server(1, 4322), public=c.public)
        frame = n.frame("right", stranger.back(SYN))
        heard = yield Send([frame], pause_s=_RATIONED_S, listen_s=UNSOLICITED_S - 0.1)
        answers = n.packets("right", heard)
        if answers:
            return deviates(expected, n.seen(heard))
        return conforms(expected, n.seen(heard))

    yield clause(
        "RFC 5382",
        "REQ-4",
        "tcp-unsolicited-silent",
        "MUST",
        "a SYN that nobody asked for is not answered for 6 seconds",
        silent,
    )
    late = "no answer to the first SYN; the host's own opens the connection"

    def asked_for() -> Steps:
        c = new(n)
        if not (yield from c.opened()):
            return untold(late, NO_CONNECTION)
        stranger = Connection(n, 0, c.port, n.server(1, 4323), public=c.public)
        heard = yield Send([n.frame("right", stranger.back(SYN))], pause_s=_RATIONED_S)
        if n.packets("right", heard):
            return deviates(late, n.seen(heard))
        stranger.answer -= 1
        heard = yield Send([n.frame("left", stranger.out(SYN))])
        came = [who for who, p in n.outside(heard, TCP) if right(p, SYN, b"")]
        if not came or any(p.error for p in n.packets("right", heard)):
            return deviates(late, n.seen(heard))
        stranger.public = came[0]
        if (yield from stranger.comes(SYN | ACK)) and (yield from stranger.goes(ACK)):
            return conforms(late)
        return deviates(late, "it is not opened")

    yield clause(
        "RFC 5382",
        "REQ-4",
        "tcp-unsolicited-then-asked",
        "MUST",
        "an unasked SYN is silently dropped where the host's own follows, which opens the connection",
        asked_for,
    )


def _errors(n: NatEnds) -> Iterator[Clause]:
    def error(c: Connection, kind: int, code: int, rest: int) -> bytes:
        """About a segment of which 8 octets are told, as routers do since RFC 792."""
        to, who = c.public, c.server
        if to is None:
            raise ValueError("nobody to tell")
        about = ip4(
            to.ipv4,
            who.ipv4,
            TCP,
            tcp(to.ipv4, who.ipv4, (to.port, who.port), ACK, sequence=c.client)[:8],
            total=40,
        )
        return ip4(who.ipv4, to.ipv4, ICMP, icmp(kind, code, rest, about))

    def translated(kind: int, code: int, rest: int) -> Steps:
        c, expected = new(n), "the error inside, about the host's own endpoint"
        if not (yield from c.opened()):
            return untold(expected, NO_CONNECTION)
        heard = yield Send([n.frame("right", error(c, kind, code, rest))])
        errors = [p for h, p in n.inside(heard) if h == 0 and p.error]
        if not errors:
            return deviates(expected, n.seen(heard))
        about = errors[0].about
        if about is None or about.source != n.own(0) or about.ports[0] != c.port:
            return deviates(expected, f"about {about}")
        return (
            conforms(expected) if errors[0].summed else deviates(expected, "a wrong ICMP checksum")
        )

    def keeps_connection(kind: int, code: int, rest: int) -> Steps:
        c, expected = new(n), "data both ways after the error"
        if not (yield from c.opened()):
            return untold(expected, NO_CONNECTION)
        yield Send([n.frame("right", error(c, kind, code, rest))])
        return (
            conforms(expected)
            if (yield from c.lives())
            else deviates(expected, "the connection carries nothing any more")
        )

    for kind, code, rest, words in (
        (3, 1, 0, "host unreachable"),
        (3, 3, 0, "port unreachable"),
        (3, 4, 1400, "fragmentation needed"),
        (11, 0, 0, "time exceeded"),
    ):
        if kind == 3:
            yield clause(
                "RFC 5382",
                "REQ-9",
                f"tcp-error-{kind}-{code}",
                "SHOULD",
                f"ICMP {words} about a connection reaches the host, translated with what is in it",
                lambda k=kind, c=code, r=rest: translated(k, c, r),
            )
        yield clause(
            "RFC 5382",
            "REQ-10",
            f"tcp-error-keeps-{kind}-{code}",
            "MUST",
            f"ICMP {words} ends no connection",
            lambda k=kind, c=code, r=rest: keeps_connection(k, c, r),
        )
