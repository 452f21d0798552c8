"""Lifetimes of idle sessions in a NAT: short configured ones, and the minima of the RFCs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TypeAlias

from v6t.audit.clause import Frame, Send
from v6t.audit.nat_hosts import (
    ICMP_QUERY,
    TCP_FLOW,
    UDP_FLOW,
    Exchange,
    Flow,
    NatHosts,
    NatScenario,
    NatSession,
    NotTestable,
)
from v6t.audit.packets import DATA
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
Opening: TypeAlias = Generator[Send, Sequence[Frame], NatSession]
Pauses: TypeAlias = tuple[tuple[SideName, float], ...]
"""Sides that send, and how long nothing is sent before [s]."""


def check_short(h: NatHosts, pauses: Pauses, is_alive: bool) -> Exchange:
    """Send a datagram from one side after each pause, and judge the last one."""
    s, has_arrived = NatSession(h, UDP_FLOW), False
    yield from s.open()
    for side, pause_s in pauses:
        act = s.send if side == "left" else s.answer
        has_arrived = yield from act(pause_s=pause_s)
    return has_arrived == is_alive


def check_minimum(
    h: NatHosts, open_session: Callable[[NatHosts], Opening], minimum_s: float
) -> Exchange:
    """Try each of several sessions once, since an answer may refresh it, at growing times."""
    sessions = []
    for _ in SHARES:
        sessions.append((yield from open_session(h)))
    before_s = 0.0
    for share, s in zip(SHARES, sessions, strict=True):
        at_s = (minimum_s - MARGIN_S) * share
        is_alive = yield from s.repeat(pause_s=at_s - before_s)
        # One lost frame must not end hours of waiting.
        if not is_alive and not (yield from s.repeat()):
            words = f"after {before_s:.0f} s it arrived" if before_s else "nor before"
            return False, f"nothing after {at_s:.0f} s; {words}"
        before_s = at_s
    return True, "as expected"


def open_idle(h: NatHosts, flow: Flow = UDP_FLOW) -> Opening:
    """Open a mapping of UDP or of a query."""
    s = NatSession(h, flow, server=h.server(0, UNREGISTERED_PORT))
    yield from s.open()
    return s.prepare()


def open_query(h: NatHosts) -> Opening:
    """Open a mapping of a query."""
    return (yield from open_idle(h, ICMP_QUERY))


def open_two_way(h: NatHosts) -> Opening:
    """Open a UDP mapping and use it both ways."""
    s = yield from open_idle(h)
    yield from s.repeat()
    yield from s.send(pause_s=STREAM_S)
    return (yield from use_once(s))


def use_once(s: NatSession) -> Opening:
    """Send the answer of a session once and return the session."""
    if not (yield from s.repeat()):
        raise NotTestable("the answer does not arrive at once")
    return s


def open_transitory(h: NatHosts) -> Opening:
    """Send a SYN only."""
    s = NatSession(h, TCP_FLOW)
    yield from s.open()
    return s.prepare("SA")


def open_closing(h: NatHosts) -> Opening:
    """Close a connection from both ends; the last FIN is repeated (RFC 5382, section 5)."""
    s = yield from NatSession(h, TCP_FLOW).establish()
    if not (yield from s.send("FA")):
        raise NotTestable("the FIN does not arrive")
    return (yield from use_once(s.prepare("FA")))


def open_connection(h: NatHosts) -> Opening:
    """Open a connection."""
    s = yield from NatSession(h, TCP_FLOW).establish()
    return s.prepare("PA", DATA)


# fmt: off
IN_EARLY: tuple[SideName, float] = ("right", EARLY_S)
LIFE = f"a mapping of {SHORT_TIMEOUT_S} s"
SHORT = tuple(
    NatScenario("RFC 4787", section, f"timer-{label}", level, title,
                "the last answer, inside" if is_alive else "nothing inside", check_short, (pauses, is_alive),
                lasts_s=sum(pause_s for _, pause_s in pauses))
    for section, label, level, title, pauses, is_alive in (
        ("REQ-5", "lasts", "MUST", f"{LIFE} exists after {EARLY_S:g} s", (IN_EARLY,), True),
        ("REQ-5b", "ends", "MAY", f"{LIFE} is gone after {LATE_S:g} s", (("right", LATE_S),), False),
        ("REQ-6", "refresh-out", "MUST", "a datagram from inside refreshes its mapping",
         (("left", EARLY_S), IN_EARLY), True),
        ("REQ-6a", "refresh-in", "MAY", "a datagram from outside refreshes a mapping",
         (IN_EARLY, IN_EARLY), True))
)
MINIMA = tuple(
    NatScenario(rfc, section, f"timer-{label}", level, title,
                f"an answer after {minimum_s - MARGIN_S:g} s, inside",
                check_minimum, (open_session, minimum_s), lasts_s=minimum_s,
                nat64=("RFC 6146", "3.5.2.2", "MUST") if minimum_s == TRANSITORY_S else None)
    for rfc, section, level, label, minimum_s, title, open_session in (
        ("RFC 4787", "REQ-5", "MUST", "udp", UDP_S, "a UDP mapping lives for two minutes", open_idle),
        ("RFC 4787", "REQ-5", "MUST", "udp-answered", UDP_S,
         "a UDP mapping that is used both ways lives for two minutes", open_two_way),
        ("RFC 5508", "REQ-2", "MUST", "query", QUERY_S, "an ICMP query lives for 60 s", open_query),
        # RFC 7857, section 2.1, made a default of what RFC 5382, REQ-5, requires of such connections.
        ("RFC 7857", "2.1", "SHOULD", "tcp-transitory", TRANSITORY_S,
         "a connection that is not open yet lives for 4 minutes", open_transitory),
        ("RFC 7857", "2.1", "SHOULD", "tcp-closing", TRANSITORY_S,
         "a connection that both ends have closed lives for 4 minutes", open_closing),
        ("RFC 5382", "REQ-5", "MUST", "tcp-established", ESTABLISHED_S,
         "an open connection lives for 2 hours and 4 minutes", open_connection))
)
# fmt: on
