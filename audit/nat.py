"""The suite ``nat``: TCP connections, limits, an emptied table and lifetimes; the rest is in ``nat_mapping``.

DS-Lite (RFC 6333, section 8.2) and NAT64 (RFC 6146) require the same as RFC 4787, 5382, 5508, 6888 and 7857.
No RFC covers NAT66: what these RFCs require is information there.
"""

from collections.abc import Iterator

from v6t.audit import nat_mapping
from v6t.audit.clause import Clause, Judgement, Requirement, Send, Subject, Suite, Talk
from v6t.audit.nat_session import FIRST_PORT, NatHosts, NatSession, Result, Row, require, row
from v6t.audit.packets import DATA
from v6t.audit.translation import find_prefix_requirement
from v6t.plugins import audit_views as views
from v6t.plugins.audit_views import PORT_LIMIT, SHORT_TIMEOUT_S, Nat

RATE_LIMIT_PAUSE_S = 1.5  # a device may send another error afterwards: silence means something
UNSOLICITED_S = 6.0  # how long a NAT must not answer an unsolicited SYN (RFC 5382, REQ-4)
EXCESS_MAPPINGS = 3  # mappings that a host requests beyond those that fit
# ICMP and ICMPv6 host unreachable or prohibited (RFC 6888, REQ-11; RFC 5508, REQ-8; RFC 7915)
UNREACHABLE = ((3, 1), (3, 13), (1, 0), (1, 1), (1, 3))
# RFC 4787, REQ-5; RFC 5508, REQ-2; RFC 7857, section 2.1; RFC 5382, REQ-5
UDP_S, QUERY_S, TRANSITORY_S, ESTABLISHED_S = 120, 60, 240, 7440
UNREGISTERED_PORT = 40007  # for well-known ports a NAT may have shorter timers (RFC 4787, REQ-5a)
MARGIN_S = 5.0  # the audit waits this much less than a minimum: frames and busy machines take time
SHARES = (1 / 27, 1 / 9, 1 / 3, 1.0)  # shares of a minimum after which sessions are tried
# states of sessions: protocol, script after the first packet, packet that is sent again and again: by default
# the last one, which of a closing connection is the FIN (RFC 5382, section 5)
STATES: dict[str, tuple[str, str, str | None]] = {
    "udp": ("udp", "", ""),
    "udp-answered": ("udp", "<? ~>? <", None),
    "query": ("icmp", "", ""),
    "tcp-transitory": ("tcp", "", "SA"),
    "tcp-closing": ("tcp", "<SA A> FA> <FA", None),
    "tcp-established": ("tcp", "<SA A>", "PA"),
}
NOTHING_INSIDE = "nothing inside"
EARLY_S, LATE_S = 0.75 * SHORT_TIMEOUT_S, 1.75 * SHORT_TIMEOUT_S


def _check_segments(h: NatHosts, opening: str, script: str) -> Talk[Result]:
    s = NatSession(h, "tcp")
    yield from s.play_opening(opening)
    missing = yield from s.play(script)
    return missing and f"{missing} does not arrive"


def _check_unsolicited(h: NatHosts, opens_later: bool) -> Talk[Result]:
    s = yield from NatSession(h, "tcp").establish()
    server = h.server(1, 4323 if opens_later else 4322)
    stranger = NatSession(h, "tcp", 0, s.port, server, s.public)
    listen_s = 0.0 if opens_later else UNSOLICITED_S - 0.1
    yield from stranger.answer("S", pause_s=RATE_LIMIT_PAUSE_S, listen_s=listen_s)
    if h.list_departures() or not opens_later:
        return not h.list_departures()
    known = NatSession(h, "tcp", 0, s.port, server)
    is_open = yield from known.send()
    if not is_open or any(p.is_error for p in h.list_departures()):
        return False
    return (yield from known.play("<SA A>")) and "the connection is not opened"


def _fill_table(h: NatHosts, room: int, host: int = 0) -> Talk[tuple[list[NatSession], int, bool]]:
    """Exhaust the mappings; return those made, the number refused, and whether an ICMP error reported it."""
    mapped, refused, is_notified = [], 0, False
    while refused < EXCESS_MAPPINGS and len(mapped) + refused < room + EXCESS_MAPPINGS:
        s = NatSession(h, "udp", host)
        if (yield from s.send()):
            mapped.append(s)
            continue
        refused += 1
        is_notified |= any(p.message in UNREACHABLE for p in h.list_errors(host))
    require(mapped, "no valid packet leaves the device, so no mapping can be observed")
    return mapped, refused, is_notified


def _check_exhaustion(h: NatHosts, aspect: str, room: int) -> Talk[Result]:
    mapped, refused, is_notified = yield from _fill_table(h, room)
    count = len({s.public for s in mapped})
    if aspect == "limit":
        words = f"{len(mapped)} mappings, {count} public endpoints, {refused} refused"
        return count <= room and refused > 0, words
    if aspect == "notification":
        require(refused, f"{len(mapped)} mappings and room for more")
        return "" if is_notified else "nothing"
    for s in mapped:
        if not (yield from s.answer()):
            return f"{s.public}: {h.describe()}"
    require(count <= room, "there is room for more")
    return ""


def _check_blocks(h: NatHosts) -> Talk[Result]:
    spans = []
    for host in (0, 1):
        mapped, _, _ = yield from _fill_table(h, PORT_LIMIT, host)
        addresses, ports = {s.public.address for s in mapped}, {s.public.port for s in mapped}
        low, high = min(ports), max(ports)
        spans.append((str(min(addresses)), low, high))
        if len(addresses) > 1 or high - low >= PORT_LIMIT:
            return f"host {host + 1}: ports {low} to {high}"
    one, two = sorted(spans)
    return one[0] != two[0] or one[2] < two[1], f"{one[1]} to {one[2]}, {two[1]} to {two[2]}"


def _check_second_host(h: NatHosts) -> Talk[Result]:
    _, refused, _ = yield from _fill_table(h, PORT_LIMIT)
    require(refused, "the first host has room for more")
    s = NatSession(h, "udp", 1)
    return ((yield from s.send()) and (True, str(s.public))) or "nothing"


def _check_reset(h: NatHosts) -> Talk[Result]:
    before = NatSession(h, "udp")
    after = NatSession(h, "udp", 1, before.port)
    yield from before.open()
    yield Send((), before="reset")
    if not (yield from after.send()):
        return "no packet passes afterwards"
    if not (yield from after.answer()):
        return False
    yield from before.answer()
    is_alive = [host for host, _ in h.list_arrivals()] == [0]
    state = "still reaches its host" if is_alive else "is gone"
    words = f"{before.public} before, {after.public} afterwards; the old one {state}"
    return before.public != after.public or not is_alive, words


def _check_flush(h: NatHosts, protocol: str) -> Talk[Result]:
    s = yield from NatSession(h, protocol).establish()
    has_passed = yield from s.answer("A", b"late")
    require(has_passed, "the answer does not pass before the flush either")
    yield Send((), before="flush")
    yield from NatSession(h, "udp").open()
    yield from s.repeat()
    if h.list_arrivals():
        return False
    if (yield from NatSession(h, "udp").send()):
        return ""
    seen = "nothing, and the device no longer forwards other packets"
    return Judgement("deviates", NOTHING_INSIDE, seen, dead=True)


def _check_short_timeout(h: NatHosts, script: str, pause_s: float, is_alive: bool) -> Talk[Result]:
    s, has_arrived = NatSession(h, "udp"), False
    yield from s.open()
    for step in script:
        has_arrived = yield from (s.send if step == ">" else s.answer)(pause_s=pause_s)
    return has_arrived == is_alive


def _check_minimum(h: NatHosts, state: str, minimum_s: float) -> Talk[Result]:
    sessions, before_s = [], 0.0
    for _ in SHARES:
        sessions.append((yield from _open_session(h, state)))
    for share, s in zip(SHARES, sessions, strict=True):
        at_s = (minimum_s - MARGIN_S) * share
        is_alive = yield from s.repeat(pause_s=at_s - before_s)
        # One lost frame must not end hours of waiting.
        if not is_alive and not (yield from s.repeat()):
            words = f"after {before_s:.0f} s it arrived" if before_s else "nor before"
            return f"nothing after {at_s:.0f} s; {words}"
        before_s = at_s
    return ""


def _open_session(h: NatHosts, state: str) -> Talk[NatSession]:
    protocol, script, repeated = STATES[state]
    server = h.server(0) if protocol == "tcp" else h.server(0, UNREGISTERED_PORT)
    s = NatSession(h, protocol, server=server)
    yield from s.open()
    yield from s.play_opening(script)
    return s if repeated is None else s.prepare(repeated, DATA if repeated == "PA" else b"")


# fmt: off
OPENING = "S> <SA A>"
ROWS = (
    *(row(f"5382 REQ-2 tcp-{label} MUST", f"the NAT forwards a connection that is {words}", expected,
          _check_segments, *segments, plain=label == "exchange")
      for label, words, segments, expected in (
          ("exchange", "opened, carries data both ways and is closed",
           ("", f"{OPENING} <PA+ PA+> FA> <FA A>"), "every segment arrives with a correct checksum"),
          ("half-closed", "closed by one end only and still carries data from the other",
           (OPENING, "FA> <A <PA+ A>"), "data after a FIN, and its acknowledgement"),
          # RFC 9293, section 3.5, figure 8
          ("simultaneous-open", "opened by both ends at the same time",
           ("S>", "<S SA> <SA"), "the outside SYN, inside, and both SYN-ACKs"),
          ("reset-in", "reset from outside", (OPENING, "<RA"), "the RST, inside"),
          ("reset-out", "reset from inside", (OPENING, "RA>"), "the RST, outside"))),
    row("7857 2.2 tcp-stray-reset SHOULD", "an RST with a sequence number outside the window does not end a "
                                           "session",
        "data both ways after the RST", _check_segments, OPENING, "<R* <PA+ PA+>"),
    row("7857 2.2 tcp-after-reset SHOULD", "a session remains for 4 minutes after an RST: data still passes",
        "data both ways after the RST", _check_segments, OPENING, "<RA? <PA+ PA+>",
        nat64="6146 3.5.2.2 MUST"),
    row("5382 REQ-4 tcp-unsolicited-silent MUST", "an unsolicited SYN is not answered for 6 seconds",
        f"silence for {UNSOLICITED_S:g} s", _check_unsolicited, False),
    row("5382 REQ-4 tcp-unsolicited-then-asked MUST",
        "an unsolicited SYN is dropped if the host's own SYN follows and opens the connection",
        "no answer to the first SYN; the host's own opens the connection", _check_unsolicited, True),
    row("4787 REQ-3 configured-again MUST",
        "a device that is configured again serves hosts and does not reassign endpoints in use",
        "a mapping and its answer for the second host, and no endpoint of the first", _check_reset),
    *(row(f"9693 4.8 flush-{name} MUST", f"no {words} remains after the table is emptied", NOTHING_INSIDE,
          _check_flush, protocol)
      for name, protocol, words in (("udp", "udp", "UDP mapping"), ("tcp", "tcp", "TCP connection"),
                                ("icmp", "icmp", "ICMP query"))),
    *(row(f"{place} timer-{label} {level}", title, f"an answer after {minimum_s - MARGIN_S:g} s, inside",
          _check_minimum, label, minimum_s, lasts_s=minimum_s,
          nat64="6146 3.5.2.2 MUST" if minimum_s == TRANSITORY_S else "")
      for place, level, label, minimum_s, title in (
          ("4787 REQ-5", "MUST", "udp", UDP_S, "a UDP mapping lives for two minutes"),
          ("4787 REQ-5", "MUST", "udp-answered", UDP_S,
           "a UDP mapping that is used both ways lives for two minutes"),
          ("5508 REQ-2", "MUST", "query", QUERY_S, "an ICMP query lives for 60 s"),
          # RFC 7857, section 2.1, made a default of what RFC 5382, REQ-5, requires of such connections.
          ("7857 2.1", "SHOULD", "tcp-transitory", TRANSITORY_S,
           "a connection that is not open yet lives for 4 minutes"),
          ("7857 2.1", "SHOULD", "tcp-closing", TRANSITORY_S,
           "a connection that both ends have closed lives for 4 minutes"),
          ("5382 REQ-5", "MUST", "tcp-established", ESTABLISHED_S,
           "an open connection lives for 2 hours and 4 minutes"))),
)
BLOCKS = (
    row("6888 REQ-14 block-contiguous SHOULD",
        "the public ports of each host form one block, separate from those of other hosts",
        f"two disjoint blocks of {PORT_LIMIT} ports", _check_blocks),
    row("6888 REQ-4 block-others MUST", "a host that has used up its ports takes none from others",
        "a mapping of the second host", _check_second_host),
)
LIFE = f"a mapping of {SHORT_TIMEOUT_S} s"
SHORT = tuple(
    row(f"4787 {place}", title, "the last answer, inside" if is_alive else NOTHING_INSIDE,
        _check_short_timeout, script, pause_s, is_alive, lasts_s=len(script) * pause_s)
    for place, title, script, pause_s, is_alive in (
        ("REQ-5 timer-lasts MUST", f"{LIFE} exists after {EARLY_S:g} s", "<", EARLY_S, True),
        ("REQ-5b timer-ends MAY", f"{LIFE} has ended after {LATE_S:g} s", "<", LATE_S, False),
        ("REQ-6 timer-refresh-out MUST", "a datagram from inside refreshes its mapping", "><", EARLY_S, True),
        ("REQ-6a timer-refresh-in MAY", "a datagram from outside refreshes a mapping", "<<", EARLY_S, True))
)
BY_VARIANT: dict[str, tuple[Row, ...]] = {
    "": (*nat_mapping.ROWS, *ROWS),
    views.TWO_PUBLIC_ADDRESSES: (nat_mapping.POOLING,),
    views.SHORT_TIMEOUT: SHORT,
    **{variant: (
        row(f"6888 {section} {label}-limit MUST", title, f"no more than {room} public ports for one server",
            _check_exhaustion, "limit", room),
        row(f"6888 REQ-11 {label}-told SHOULD", "a host that gets no mapping receives an ICMP unreachable",
            "ICMP host unreachable or prohibited, inside", _check_exhaustion, "notification", room,
            rate_limited=True),
        row(f"6888 REQ-11 {label}-keeps MUST", "no mapping is removed to make room for another one",
            "answers through all mappings, at the hosts' ports", _check_exhaustion, "mappings", room),
        *(BLOCKS if variant == views.PORT_BLOCKS else ()))
      for variant, label, room, section, title in (
          (views.PORT_BLOCKS, "block", PORT_LIMIT, "REQ-4",
           "a host gets public ports up to its limit and no more"),
          (views.SMALL_PORT_POOL, "full", PORT_LIMIT, "REQ-11",
           "without a free public port a packet is dropped"),
          (views.SMALL_TABLE, "table", views.SESSION_LIMIT, "REQ-11",
           "without room for a session a packet is dropped"))},
}
# fmt: on


class NatSuite(Suite):
    """Clauses for NATs with two hosts and two servers."""

    name = "nat"
    core = ("REQ-1-mapped", "endpoint-independent", "REQ-3-overloading")

    def find_requirement(self, subject: Subject) -> Requirement:
        view = subject.find(Nat)
        if view and min(len(view.hosts), len(view.servers)) < 2:
            fix = "set initiator_count and responder_count to 2 or more, and enumerate_ips to 3"
            return "the suite needs two Initiators and two Responders", fix
        return find_prefix_requirement(view.prefix, view.servers) if view else None

    def list_clauses(self, subject: Subject, variant: str = "") -> Iterator[Clause]:
        view = subject.find(Nat)
        if view is None or self.find_requirement(subject):
            return
        low, high = view.public_ports
        can_hairpin = find_prefix_requirement(view.prefix, view.pool) is None
        can_preserve = not view.port_block and low <= FIRST_PORT and high >= FIRST_PORT + 1023
        # the flush is proved by a second mapping next to the host's first one
        impossible = {"hairpin": not can_hairpin, "port-preserved": not can_preserve,
                      "flush-": view.mapping_capacity < 2}  # fmt: skip
        h = NatHosts(view, subject.wire)
        for clause in (scenario(h) for scenario in BY_VARIANT.get(variant, ())):
            if not any(part in clause.label for part in impossible if impossible[part]):
                yield clause
