"""Lifetimes of idle sessions in a NAT: short configured ones, and the minima of the RFCs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import NamedTuple, TypeAlias

from scapy.packet import Packet
from v6t.audit.clause import Clause, Send
from v6t.audit.hosts import DATA
from v6t.audit.nat_hosts import (
    ICMP_QUERY,
    UDP_FLOW,
    Exchange,
    Flow,
    Heard,
    NatHosts,
    NotTestable,
    scenario,
)
from v6t.audit.nat_tcp import Connection
from v6t.plugins.audit_views import SHORT_TIMEOUT_S, SideName

UDP_S, QUERY_S, TRANSITORY_S, ESTABLISHED_S = 120, 60, 240, 7440
"""RFC 4787, REQ-5; RFC 5508, REQ-2; RFC 7857, section 2.1; RFC 5382, REQ-5."""
UNREGISTERED_PORT = 40007
"""For well-known ports a NAT may have shorter timers (RFC 4787, REQ-5a)."""
MARGIN_S = 5.0
"""The audit waits this much less than a minimum: frames and busy machines take time."""
SHARES = (1 / 27, 1 / 9, 1 / 3, 1.0)
"""Shares of a minimum after which sessions are tried."""
STREAM_S = 2.5
"""Linux treats UDP as a stream with a longer timer from two seconds after the first answer on."""
EARLY_S, LATE_S = 0.75 * SHORT_TIMEOUT_S, 1.75 * SHORT_TIMEOUT_S


class IdleSession(NamedTuple):
    """A session that nothing uses, the server's answer, and whether the answer reached its host."""

    answer: Packet
    reaches_client: Callable[[Heard], bool]


Opening: TypeAlias = Generator[Send, Heard, IdleSession]
Pauses: TypeAlias = tuple[tuple[SideName, float], ...]
"""Sides that send, and how long nothing is sent before [s]."""


# fmt: off
def short_clauses(h: NatHosts) -> Iterator[Clause]:
    """Return the clauses about UDP mappings with a configured lifetime of seconds."""
    life = f"a mapping of {SHORT_TIMEOUT_S} s"
    in_early: tuple[SideName, float] = ("right", EARLY_S)
    for section, label, level, title, pauses, is_alive in (
        ("REQ-5", "lasts", "MUST", f"{life} exists after {EARLY_S:g} s", (in_early,), True),
        ("REQ-5b", "ends", "MAY", f"{life} is gone after {LATE_S:g} s", (("right", LATE_S),), False),
        ("REQ-6", "refresh-out", "MUST", "a datagram from inside refreshes its mapping",
         (("left", EARLY_S), in_early), True),
        ("REQ-6a", "refresh-in", "MAY", "a datagram from outside refreshes a mapping", (in_early, in_early),
         True),
    ):
        yield scenario("RFC 4787", section, f"timer-{label}", level, title,
                       "the last answer, inside" if is_alive else "nothing inside",
                       partial(check_short, h, pauses, is_alive),
                       lasts_s=sum(pause_s for _, pause_s in pauses))


def minimum_clauses(h: NatHosts) -> Iterator[Clause]:
    """Return the clauses about the minima of the RFCs; each waits that long, or until a session is gone."""
    # RFC 7857, section 2.1, made a default of what RFC 5382, REQ-5, requires of such connections.
    transitory = ("RFC 6146", "3.5.2.2", "MUST") if h.is_nat64 else ("RFC 7857", "2.1", "SHOULD")
    for (rfc, section, level), label, minimum_s, title, open_session in (
        (("RFC 4787", "REQ-5", "MUST"), "udp", UDP_S, "a UDP mapping lives for two minutes",
         partial(open_idle, flow=UDP_FLOW)),
        (("RFC 4787", "REQ-5", "MUST"), "udp-answered", UDP_S,
         "a UDP mapping that is used both ways lives for two minutes", open_two_way),
        (("RFC 5508", "REQ-2", "MUST"), "query", QUERY_S, "an ICMP query lives for 60 s",
         partial(open_idle, flow=ICMP_QUERY)),
        (transitory, "tcp-transitory", TRANSITORY_S, "a connection that is not open yet lives for 4 minutes",
         open_transitory),
        (transitory, "tcp-closing", TRANSITORY_S,
         "a connection that both ends have closed lives for 4 minutes",
         open_closing),
        (("RFC 5382", "REQ-5", "MUST"), "tcp-established", ESTABLISHED_S,
         "an open connection lives for 2 hours and 4 minutes", open_connection),
    ):
        yield scenario(rfc, section, f"timer-{label}", level, title,
                       f"an answer after {minimum_s - MARGIN_S:g} s, inside",
                       partial(check_minimum, h, open_session, minimum_s), lasts_s=minimum_s)
# fmt: on


def check_short(h: NatHosts, pauses: Pauses, is_alive: bool) -> Exchange:
    """Send a datagram from one side after each pause, and judge the last one."""
    port, server = next(h.ports), h.server(0)
    public = yield from h.open_mapping(UDP_FLOW, 0, port, server)
    heard: Heard = ()
    for side, pause_s in pauses:
        if side == "left":
            heard = yield from h.send(h.request(UDP_FLOW, 0, port, server), pause_s=pause_s)
        else:
            heard = yield from h.send_down(h.answer(UDP_FLOW, server, public), pause_s=pause_s)
    arrived = bool(h.at_host(heard, 0, UDP_FLOW, port))
    return arrived == is_alive, h.wire.describe(heard)


def check_minimum(
    h: NatHosts, open_session: Callable[[NatHosts], Opening], minimum_s: float
) -> Exchange:
    """Try each of several sessions once, since an answer may refresh it, at growing times."""
    sessions = []
    for _ in SHARES:
        sessions.append((yield from open_session(h)))
    before_s = 0.0
    for share, session in zip(SHARES, sessions, strict=True):
        at_s = (minimum_s - MARGIN_S) * share
        heard = yield from h.send_down(session.answer, pause_s=at_s - before_s)
        if not session.reaches_client(heard):  # One lost frame must not end hours of waiting.
            heard = yield from h.send_down(session.answer)
        if not session.reaches_client(heard):
            words = f"after {before_s:.0f} s it arrived" if before_s else "nor before"
            return False, f"nothing after {at_s:.0f} s; {words}"
        before_s = at_s
    return True, "as expected"


def open_idle(h: NatHosts, flow: Flow) -> Opening:
    """Open a mapping of UDP or of a query."""
    port, server = next(h.ports), h.server(0, UNREGISTERED_PORT)
    public = yield from h.open_mapping(flow, 0, port, server)
    answer = h.answer(flow, server, public)
    return IdleSession(answer, lambda heard: bool(h.at_host(heard, 0, flow, port)))


def open_two_way(h: NatHosts) -> Opening:
    """Open a UDP mapping and use it both ways."""
    port, server = next(h.ports), h.server(0, UNREGISTERED_PORT)
    public = yield from h.open_mapping(UDP_FLOW, 0, port, server)
    answer = h.answer(UDP_FLOW, server, public)
    yield from h.send_down(answer)
    yield from h.send(h.request(UDP_FLOW, 0, port, server), pause_s=STREAM_S)
    session = IdleSession(answer, lambda heard: bool(h.at_host(heard, 0, UDP_FLOW, port)))
    return (yield from use_once(h, session))


def use_once(h: NatHosts, session: IdleSession) -> Opening:
    """Send the answer of a session once and return the session."""
    if not session.reaches_client((yield from h.send_down(session.answer))):
        raise NotTestable("the answer does not arrive at once")
    return session


def open_transitory(h: NatHosts) -> Opening:
    """Send a SYN only."""
    connection = Connection.new(h)
    yield from connection.connect()
    return idle_connection(connection, "SA")


def open_closing(h: NatHosts) -> Opening:
    """Close a connection from both ends; the last FIN is repeated (RFC 5382, section 5)."""
    connection = Connection.new(h)
    yield from connection.open()
    if not (yield from connection.send("FA")):
        raise NotTestable("the FIN does not arrive")
    return (yield from use_once(h, idle_connection(connection, "FA")))


def open_connection(h: NatHosts) -> Opening:
    """Open a connection."""
    connection = Connection.new(h)
    yield from connection.open()
    return idle_connection(connection, "PA", DATA)


def idle_connection(connection: Connection, flags: str, payload: bytes = b"") -> IdleSession:
    """Return a connection whose server sends one more segment."""
    segment = connection.server_segment(flags, payload)
    return IdleSession(segment, lambda heard: connection.reaches_client(heard, flags, payload))
