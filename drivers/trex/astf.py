"""Connections of TCP by TRex's stateful engine, ASTF: what it is given, and what its counters mean.

ASTF counts, and follows no single connection. It sends a SYN again after half a second whatever it is told
(``TCPTV_RTOBASE``, and at each further half second), and gives it up after two (``tcp.keepinit``). So
every SYN that was sent again, less the two of each connection that was given up, is counted as a
connection that was not established in time: never more are established than a tester would find that
sends each SYN once.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Literal, Protocol, runtime_checkable

from v6t.base.errors import UsageError
from v6t.profiles.model import Layer
from v6t.profiles.tcp.http import REQUEST, SEGMENT_OCTETS, build_response
from v6t.trials.connections import Connections
from v6t.trials.tcp import Tcp, TcpCounts

PORTS_EACH = 60_000
"""Connections that TRex makes from one address of a client: it has the ports above 1,023, and keeps those
of connections that have just ended."""
TIMEOUT_S = 1
"""What a run has to ask for: a SYN that was sent again counts as not answered, whatever the time-out."""
GIVEN_UP_S, AGAIN = 2, 2
"""How long TRex tries to open a connection, and how often it sends the SYN of one again that it gives up.
It takes no less, and of a profile's settings it reads none after one that it does not take."""
SETTLING_S = 0.75
"""TRex's timers may end so long after their time: it must have given up whom it will."""
COUNTING_S = 2.0
"""Time in which the device can be asked for its count while all connections are open."""

METHOD = (
    "connections of TCP are made by TRex's stateful engine, which counts them and follows none: source "
    "ports are its own choice, each SYN that it sent again (after 0.5 s) counts as a connection that was not "
    "established, objects are told by their octets' number, and establishment times are not known"
)
"""To be said beside every number."""

Step = Literal["open", "ask", "end"]
Counters = Mapping[str, Mapping[str, float]]
"""Of ``client`` and ``server``, by TRex's names; those that are zero may lack."""

FAULTS = {
    "err_no_memory": "had no memory for connections",
    "err_c_tuple_err": "had too few addresses and ports for its clients",
    "err_dct": "used a four-tuple twice",
    "err_c_nf_throttled": "held back connections of its clients",
    "err_s_nf_throttled": "held back connections of its servers",
    "err_flow_overflow": "had more connections than it can keep",
    "err_no_template": "had no server for a connection",
    "err_redirect_rx": "lost frames on the way to its receiver",
    "tcps_keepprobe": "asked its connections whether they still stood",
    "rss_redirect_drops": "lost frames on the way between its cores",
}
"""What ASTF counts that is its own doing."""
WRONG = ("err_l3_cs", "err_l4_cs", "err_len_err", "tcps_rcvbadsum", "tcps_rcvbadoff")
"""Segments that no right device sends."""


class Ranges(Protocol):
    """A technology's parameters, as far as they say who talks to whom."""

    transport: str
    initiator_count: int
    responder_count: int

    @property
    def initiator(self) -> IPv4Address | IPv6Address:
        """First client."""

    @property
    def server(self) -> IPv4Address | IPv6Address:
        """First server, as clients know it."""

    @property
    def responder_ports(self) -> Any:
        """Range of the servers' ports."""


@runtime_checkable
class Translating(Protocol):
    """A stateful technology."""

    ip_versions: tuple[int, int]
    params: Ranges
    links: Any

    def client_layers(self) -> tuple[Layer, ...]:
        """Headers on the clients' side between Ethernet and transport."""


@dataclass(frozen=True)
class Ends:
    """Who talks to whom.

    Attributes:
        clients, servers: first and last address; of IPv6 the last four octets, written as IPv4.
        port: the servers'.
        prefixes: the rest of a client's address and of its server's, where clients speak IPv6.
    """

    clients: tuple[str, str]
    servers: tuple[str, str]
    port: int
    prefixes: tuple[str, str] | None = None


def ends_of(technology: object) -> Ends:
    """The ends of connections.

    Raises:
        UsageError: TRex cannot have such connections.
    """
    technology = _translating(technology)
    p, versions = technology.params, technology.ip_versions
    if len(technology.client_layers()) > 1:
        raise UsageError(
            "TRex's stateful engine does not support tunnels",
            "measure TCP with --tester embedded",
            code="unsupported-by-tester",
        )
    if p.transport != "UDP":
        raise UsageError(
            "this technology does not use TCP",
            "measure TCP with --tester embedded",
            code="unsupported-by-tester",
        )
    if technology.links.left.vlan is not None or technology.links.right.vlan is not None:
        raise UsageError(
            "TRex cannot send TCP connections with a VLAN tag",
            "measure TCP with --tester embedded",
            code="unsupported-by-tester",
        )
    if getattr(p, "initiator_offset", 14) != 14:
        raise UsageError(
            "TRex's stateful engine has consecutive clients",
            "leave initiator_offset at 14",
            code="unsupported-by-tester",
        )
    (first, last), (low, high) = (
        (_low(at), _low(at + count - 1))
        for at, count in ((p.initiator, p.initiator_count), (p.server, p.responder_count))
    )
    prefixes = None
    if versions[0] == 6:
        prefixes = (_high(p.initiator), _high(p.server))
    return Ends((first, last), (low, high), p.responder_ports.min, prefixes)


def check(technology: object, most: int, tcp: Tcp, alpha: float | None) -> None:
    """Refuse connections that TRex cannot make as they are asked for.

    Args:
        technology: a plugin.
        most: connections at a time.
        tcp: how they are made.
        alpha: they are asked at this share of their rate; None: they are not.

    Raises:
        UsageError: naming what cannot be.
    """
    ends = ends_of(technology)
    if tcp.retransmissions or tcp.timeout_s != TIMEOUT_S:
        raise UsageError(
            "on TRex a connection whose SYN had to be sent again, which it does after 0.5 s, counts as "
            "not established",
            "leave out tcp.retransmissions and tcp.timeout_s, or use the embedded tester",
            code="unsupported-by-tester",
        )
    if alpha != 1:
        raise UsageError(
            "TRex's connections ask for their objects at the rate at which they were opened",
            "set connections.alpha to 1 and leave validate_connections on",
            code="unsupported-by-tester",
        )
    clients = int(IPv4Address(ends.clients[1])) - int(IPv4Address(ends.clients[0])) + 1
    if most > clients * PORTS_EACH:
        raise UsageError(
            f"TRex opens at most {PORTS_EACH:,} connections of TCP from each of {clients:,} client "
            f"addresses; {most:,} are more",
            "lower connections.count (tcp_capacity.most), or raise initiator_count and "
            "responder_count with enumerate_ips",
            code="too-many-for-trex",
        )


@dataclass(frozen=True)
class Schedule:
    """When the steps of a trial are due, from the first SYN [s].

    Attributes:
        lasts_s: each step, without waiting.
        wait_s: longest wait for answers.
    """

    lasts_s: float
    wait_s: float

    @property
    def hold_s(self) -> float:
        """Between a connection's SYN and its request."""
        return self.lasts_s + self.wait_s + COUNTING_S

    @property
    def after_s(self) -> float:
        """Between its object and its end."""
        return self.lasts_s + self.wait_s + COUNTING_S / 2

    def begins_s(self, step: Step) -> float:
        """When the first connection takes a step."""
        return {"open": 0.0, "ask": self.hold_s, "end": self.hold_s + self.after_s}[step]


def schedule(connections: Connections) -> Schedule:
    """When the steps of a trial with these connections are due."""
    return Schedule(connections.phase_one_s, max(connections.wait_s, GIVEN_UP_S) + SETTLING_S)


def profile(ends: Ends, connections: Connections, tcp: Tcp) -> dict[str, Any]:
    """What the worker makes ASTF's profile of, as JSON-like values.

    Args:
        ends: who talks to whom.
        connections: how many, and how many a second.
        tcp: what each asks for, and how it ends.

    Returns:
        ``clients``, ``servers``, ``port``, ``prefixes``: see :class:`Ends`; ``rate_cps`` [1/s] and
        ``count`` of connections; ``hold_us``, ``after_us``: waits before the request and before the end
        [us]; ``request``, ``response``: octets in base64; ``closing``: ``rst`` or ``fin``;
        ``segment_octets``: the MSS; ``given_up_s``: time in which a connection must open [s].
    """
    when = schedule(connections)
    return {
        "clients": list(ends.clients),
        "servers": list(ends.servers),
        "port": ends.port,
        "prefixes": ends.prefixes,
        "rate_cps": connections.rate_cps,
        "count": connections.count,
        "hold_us": round(when.hold_s * 1e6),
        "after_us": round(when.after_s * 1e6),
        "request": base64.b64encode(REQUEST).decode(),
        "response": base64.b64encode(build_response(tcp.object_octets)).decode(),
        "closing": tcp.closing,
        "segment_octets": SEGMENT_OCTETS,
        "given_up_s": GIVEN_UP_S,
    }


def opened(counters: Counters) -> TcpCounts:
    """The account at the end of the opening.

    Args:
        counters: as they were when the last SYN had had its time.
    """
    attempted = _count(counters, "client", "tcps_connattempt")
    here, there = (_count(counters, side, "tcps_connects") for side in ("client", "server"))
    given_up = _count(counters, "client", "tcps_keepdrops")
    refused = max(0, _count(counters, "client", "tcps_conndrops") - given_up)
    both = min(here, there)
    established = max(0, both - _late(counters))
    half_open = here - both
    return TcpCounts(
        attempted=attempted,
        established=established,
        half_open=half_open,
        reset_refused=refused,
        timed_out=attempted - established - half_open - refused,
        retransmitted=sum(_count(counters, s, "tcps_rexmttimeo_syn") for s in counters),
        wrong=_wrong(counters),
    )


def asked(found: TcpCounts, counters: Counters, at_opening: Counters, tcp: Tcp) -> TcpCounts:
    """With the objects that were asked for and came; what had to be sent again did not.

    Args:
        found: the account so far.
        counters: at the end of the asking.
        at_opening: at the end of the opening.
        tcp: how connections are made.
    """
    late = min(_count(at_opening, side, "tcps_connects") for side in at_opening) - found.established
    requests = _count(counters, "client", "tcps_sndbyte") // len(REQUEST)
    objects = _count(counters, "client", "tcps_rcvbyte") // answer_octets(tcp)
    again = sum(
        _count(counters, side, name)
        for side in counters
        for name in ("tcps_rexmttimeo", "tcps_sndrexmitpack")
    )
    return replace(
        found,
        requested=max(0, min(found.established, requests - late)),
        answered=max(0, min(found.established, objects - late - again)),
        reset_later=_count(counters, "client", "tcps_drops"),
        wrong=_wrong(counters),
    )


def ended(found: TcpCounts, counters: Counters, tcp: Tcp) -> TcpCounts:
    """With the connections that ended as they should have, on both sides.

    Args:
        found: the account so far.
        counters: at the end.
        tcp: how connections are made.
    """
    sides = ("client", "server")
    if tcp.closing == "rst":
        closed = min(_count(counters, side, "tcps_drops") for side in sides) - found.reset_later
    else:
        closed = min(
            _count(counters, side, "tcps_closed")
            - _count(counters, side, "tcps_drops")
            - _count(counters, side, "tcps_conndrops")
            for side in sides
        )
    return replace(found, closed=max(0, min(found.established, closed)), wrong=_wrong(counters))


def answer_octets(tcp: Tcp) -> int:
    """Of an object, as it comes."""
    return len(build_response(tcp.object_octets))


def ends_sent(counters: Counters, before: Counters) -> int:
    """Resets or FINs that clients have sent since then, those that were sent again among them."""
    now, then = (_count(told, "client", "tcps_sndctrl") for told in (counters, before))
    return now - then


def faults(raw: Mapping[str, Any], step: Step, cpu_limit: float) -> list[str]:
    """What TRex itself did wrong: such a trial says nothing of the device.

    Args:
        raw: what the worker saw in a step.
        step: which.
        cpu_limit: a busier data path says nothing [%].
    """
    counters = raw["counters"]
    told = [
        f"TRex {what} ({name}: {number})"
        for name, what in FAULTS.items()
        if (number := sum(_count(counters, side, name) for side in counters))
    ]
    for side in counters if step == "open" else ():  # after a reset these timers mean nothing
        given_up = _count(counters, side, "tcps_keepdrops")
        again = _count(counters, side, "tcps_rexmttimeo_syn")
        if again < AGAIN * given_up:
            told.append(
                f"TRex's timers were late: its {side} gave up {given_up} connections and sent "
                f"{again} SYNs again"
            )
    for port, stats in raw["ports"].items():
        for name in ("ierrors", "oerrors"):
            if stats[name]:
                told.append(f"{stats[name]} errors at TRex's port {port} ({name})")
    if raw["global"].get("queue_full"):
        told.append(f"TRex's transmit queue was full {raw['global']['queue_full']} times")
    busiest = max(raw["cpu"], default=0.0)
    if busiest > cpu_limit:
        told.append(f"TRex's data path was {busiest:.0f}% busy (limit {cpu_limit:.0f}%)")
    if step == "ask" and raw["first"]:
        told.append(f"{raw['first']} objects were asked for before the device had been counted")
    return told


def _low(address: IPv4Address | IPv6Address) -> str:
    """The last four octets, as ASTF counts addresses."""
    return str(IPv4Address(int(address) & 0xFFFFFFFF))


def _high(address: IPv4Address | IPv6Address) -> str:
    """The octets before them."""
    return str(IPv6Address(int(address) & ~0xFFFFFFFF))


def _translating(technology: object) -> Translating:
    if isinstance(technology, Translating):
        return technology
    raise UsageError(
        "this technology does not have connections that TRex could open",
        code="unsupported-by-tester",
    )


def _late(counters: Counters) -> int:
    """Connections, at most, whose SYN or whose answer to it was sent again and that are open now."""
    return sum(
        max(
            0,
            _count(counters, s, "tcps_rexmttimeo_syn")
            - AGAIN * _count(counters, s, "tcps_keepdrops"),
        )
        for s in counters
    )


def _wrong(counters: Counters) -> int:
    return sum(_count(counters, side, name) for side in counters for name in WRONG)


def _count(counters: Counters, side: str, name: str) -> int:
    return int(counters[side].get(name, 0))
