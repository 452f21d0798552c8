"""TCP connections by TRex's stateful engine, ASTF: its profile, its counters, and trials step by step.

ASTF counts, and follows no single connection. It sends a SYN again after half a second
(``TCPTV_RTOBASE``, and at each further half second), and gives it up after two (``tcp.keepinit``). So
every SYN that was sent again, less the two of each connection that was given up, is counted as a
connection that was not established in time: never more are established than a tester would find that
sends each SYN once.
"""

import base64
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Literal, Protocol, runtime_checkable

from v6t.base.errors import UsageError
from v6t.drivers.oracle.connection_oracle import unwrap_plugin
from v6t.drivers.tester import TCP_CLASS, Oracle, PhaseCounts
from v6t.drivers.trex.attachment import Attachment
from v6t.drivers.trex.channel import DEADLINE_S, parse_answer
from v6t.drivers.trex.client.astf import MAX_START_S
from v6t.drivers.trex.client.stats import StepStats, TcpCounters
from v6t.drivers.trex.counting import SendingTime, find_overload, measure_sending_time
from v6t.profiles.model import Layer
from v6t.profiles.tcp.http import REQUEST, SEGMENT_OCTETS, build_response
from v6t.trials.connections import Connections, Tcp, TcpCounts
from v6t.trials.result import ClassCount, DirectionResult

PORTS_PER_ADDRESS = 60_000
"""Connections that TRex makes from one address of a client: it has the ports above 1,023, and keeps those
of connections that have just ended."""
TIMEOUT_S = 1  # The only ``tcp.timeout_s`` that is supported
OPENING_TIMEOUT_S, SYN_RETRANSMISSIONS = 2, 2
"""Time in which TRex must open a connection, and SYNs that it repeats before it gives one up. TRex accepts
no shorter time, and ignores all settings of a profile after one that it rejects."""
_TIMER_DELAY_S = 0.75  # Longest delay of TRex's timers
_COUNTING_S = 2.0  # Time for reading the device's count while all connections are open
METHOD_WARNING = (
    "TCP connections are made by TRex's stateful engine, which counts connections but does not "
    "track each one: it chooses the source ports, each repeated SYN (after 0.5 s) counts as a "
    "connection that was not established, objects are recognized by their size, and establishment "
    "times are not known"
)
"""Warning that accompanies every result."""

Step = Literal["open", "ask", "end"]  # Step of a trial with TCP connections
Counters = Mapping[str, TcpCounters]  # Counters of ``client`` and ``server``


@runtime_checkable
class TcpTechnology(Protocol):
    """Technology that carries TCP; its parameters give the first client and server, and how many of each."""

    ip_versions: tuple[int, int]
    params: Any
    links: Any

    def make_client_layers(self) -> tuple[Layer, ...]:
        """Return the headers between Ethernet and transport on the clients' side."""


def find_endpoints(technology: object) -> dict[str, Any]:
    """Find the endpoints of a technology's connections; refuse those that TRex cannot use.

    Returns:
        First and last address of ``clients`` and ``servers``, for IPv6 the last four octets, written as
        IPv4; the other octets of both, ``prefixes``, or None; and the servers' TCP ``port``.
    """
    embedded, code = "measure TCP with --tester embedded", "unsupported-by-tester"
    if not isinstance(technology, TcpTechnology):
        text = "this technology does not have connections that TRex could open"
        raise UsageError(text, code=code)
    p, links = technology.params, technology.links
    has_vlan = links.left.vlan is not None or links.right.vlan is not None
    for is_wrong, text, hint in (
        (len(technology.make_client_layers()) > 1,
         "TRex's stateful engine does not support tunnels", embedded),
        (p.transport != "UDP", "this technology does not use TCP", embedded),
        (has_vlan, "TRex cannot send TCP connections with a VLAN tag", embedded),
        (getattr(p, "initiator_offset", 14) != 14, "TRex's stateful engine has consecutive clients",
         "leave initiator_offset at 14"),
    ):  # fmt: skip
        if is_wrong:
            raise UsageError(text, hint, code=code)
    clients, servers = (
        tuple(str(IPv4Address(int(end) & 0xFFFFFFFF)) for end in (first, first + count - 1))
        for first, count in ((p.initiator, p.initiator_count), (p.server, p.responder_count))
    )
    prefixes = None
    if technology.ip_versions[0] == 6:
        firsts = int(p.initiator), int(p.server)
        prefixes = tuple(str(IPv6Address(first & ~0xFFFFFFFF)) for first in firsts)
    port = p.responder_ports.min
    return {"clients": clients, "servers": servers, "port": port, "prefixes": prefixes}


def check_connections(technology: object, most: int, tcp: Tcp, alpha: float | None) -> None:
    """Refuse connections that TRex cannot make.

    Args:
        most: largest number of simultaneous connections.
        alpha: rate of object requests divided by the connection rate; None for no requests.
    """
    ends = find_endpoints(technology)
    if tcp.retransmissions or tcp.timeout_s != TIMEOUT_S:
        problem = "on TRex a connection with a repeated SYN (after 0.5 s) counts as not established"
        hint = "leave out tcp.retransmissions and tcp.timeout_s, or use the embedded tester"
        raise UsageError(problem, hint, code="unsupported-by-tester")
    if alpha != 1:
        problem = "TRex's connections request their objects at the rate at which they were opened"
        hint = "set connections.alpha to 1 and leave validate_connections on"
        raise UsageError(problem, hint, code="unsupported-by-tester")
    first, last = map(IPv4Address, ends["clients"])
    clients = int(last) - int(first) + 1
    if most > (limit := clients * PORTS_PER_ADDRESS):
        problem = f"{clients:,} clients open up to {limit:,} TCP connections on TRex, not {most:,}"
        hint = "lower connections.count (tcp_capacity.most), or raise initiator_count and "
        hint += "responder_count with enumerate_ips"
        raise UsageError(problem, hint, code="too-many-for-trex")


class Schedule:
    """Duration of each step of a trial, and the longest wait for answers after it [s]."""

    def __init__(self, connections: Connections) -> None:
        self.duration_s = connections.phase_one_s
        self.wait_s = max(connections.wait_s, OPENING_TIMEOUT_S) + _TIMER_DELAY_S

    def begin_s(self, step: Step) -> float:
        """Return the time after the first SYN at which a step begins [s]."""
        step_s = self.duration_s + self.wait_s
        ask_s = step_s + _COUNTING_S
        return {"open": 0.0, "ask": ask_s, "end": ask_s + step_s + _COUNTING_S / 2}[step]


def make_profile(ends: Mapping[str, Any], connections: Connections, tcp: Tcp) -> dict[str, Any]:
    """Return the settings of ASTF's profile for the worker: JSON values, octets in base64.

    ``hold_us`` and ``after_us`` are the waits before the request and before the end; within
    ``given_up_s`` a connection must open.
    """
    schedule = Schedule(connections)
    ask_s, end_s = schedule.begin_s("ask"), schedule.begin_s("end")
    return {
        **ends,
        "rate_cps": connections.rate_cps,
        "count": connections.count,
        "hold_us": round(ask_s * 1e6),
        "after_us": round((end_s - ask_s) * 1e6),
        "request": base64.b64encode(REQUEST).decode(),
        "response": base64.b64encode(build_response(tcp.object_octets)).decode(),
        "closing": tcp.closing,
        "segment_octets": SEGMENT_OCTETS,
        "given_up_s": OPENING_TIMEOUT_S,
    }


def _count_wrong(counters: Counters) -> int:
    """Count segments with wrong checksums, lengths or offsets."""
    return sum(side.wrong_segments for side in counters.values())


def count_opened_connections(counters: Counters) -> TcpCounts:
    """Count the opened connections after the wait for answers to the last SYN."""
    client, server = counters["client"], counters["server"]
    refused = max(0, client.failed - client.given_up)
    # open now, but the SYN or the answer to it was sent again
    late = (s.repeated_syns - SYN_RETRANSMISSIONS * s.given_up for s in counters.values())
    on_both = min(client.opened, server.opened)
    established = max(0, on_both - sum(max(0, number) for number in late))
    half_open = client.opened - on_both
    return TcpCounts(
        attempted=client.attempts,
        established=established,
        half_open=half_open,
        reset_refused=refused,
        timed_out=client.attempts - established - half_open - refused,
        retransmitted=client.repeated_syns + server.repeated_syns,
        wrong=_count_wrong(counters),
    )


def add_answered_requests(
    counts: TcpCounts, counters: Counters, at_opening: Counters, tcp: Tcp
) -> TcpCounts:
    """Return the counts with the requests sent and answered, without retransmitted ones."""
    client = counters["client"]
    late = min(side.opened for side in at_opening.values()) - counts.established
    requests = client.sent_octets // len(REQUEST)
    objects = client.received_octets // len(build_response(tcp.object_octets))
    again = sum(side.timeouts + side.repeated_segments for side in counters.values())
    return replace(
        counts,
        requested=max(0, min(counts.established, requests - late)),
        answered=max(0, min(counts.established, objects - late - again)),
        reset_later=client.reset,
        wrong=_count_wrong(counters),
    )


def add_closed_connections(counts: TcpCounts, counters: Counters, tcp: Tcp) -> TcpCounts:
    """Return the counts with the connections that were closed as intended on both sides."""
    if tcp.closing == "rst":
        closed = [side.reset - counts.reset_later for side in counters.values()]
    else:
        closed = [side.closed - side.reset - side.failed for side in counters.values()]
    closed_on_both = max(0, min(counts.established, *closed))
    return replace(counts, closed=closed_on_both, wrong=_count_wrong(counters))


def find_faults(stats: StepStats, step: Step, cpu_limit: float) -> list[str]:
    """Find TRex's own faults in a step, which make the trial invalid."""
    counters = stats.counters
    own_faults = sum((Counter(side.faults) for side in counters.values()), Counter[str]())
    faults = [f"TRex {text}: {number}" for text, number in own_faults.items()]
    # after a reset these timers are meaningless
    for name, side in counters.items() if step == "open" else ():
        if side.repeated_syns < SYN_RETRANSMISSIONS * side.given_up:
            faults.append(
                f"TRex's timers were late: its {name} gave up {side.given_up} connections and sent "
                f"{side.repeated_syns} SYNs again"
            )
    for port, counted in stats.ports.items():
        for name, errors in (("ierrors", counted.input_errors), ("oerrors", counted.output_errors)):
            if errors:
                faults.append(f"{errors} errors at TRex's port {port} ({name})")
    faults += find_overload(stats.queue_full_count, stats.cpu, cpu_limit)
    if step == "ask" and (early := stats.initial_count):
        faults.append(f"{early} objects were requested before the device counted its connections")
    return faults


class TcpTrial:
    """Runs the steps of a trial with TCP connections on a server with the ASTF engine."""

    def __init__(
        self, attachment: Attachment, oracle: Oracle, connections: Connections, tcp: Tcp
    ) -> None:
        self._attachment = attachment
        self._endpoints = find_endpoints(unwrap_plugin(oracle))
        self._connections = connections
        self._tcp = tcp
        self._schedule = Schedule(connections)
        self._counts = TcpCounts(0, 0)
        self._opened: Counters = {}
        self._answered: Counters = {}

    def establish(self) -> PhaseCounts:
        """Open all connections; each then waits until all are open."""
        profile = make_profile(self._endpoints, self._connections, self._tcp)
        # it stops those of an earlier trial first
        limit_s = 2 * MAX_START_S + DEADLINE_S
        self._attachment.ask("start_connections", deadline_s=limit_s, profile=profile)
        count = self._connections.count
        done = {side: {"opened": count} for side in ("client", "server")}
        stats = self._watch("open", "attempts", 1, count, done)
        self._opened = stats.counters
        self._counts = counts = count_opened_connections(self._opened)
        return self._make_phase(stats, "open", count, counts.attempted, counts.established)

    def validate(self) -> PhaseCounts:
        """Request an object in each connection."""
        count = min(side.opened for side in self._opened.values())
        done = {"client": {"received_octets": count * len(build_response(self._tcp.object_octets))}}
        stats = self._watch("ask", "sent_octets", len(REQUEST), count, done)
        self._answered = stats.counters
        counts = add_answered_requests(self._counts, self._answered, self._opened, self._tcp)
        self._counts = counts
        return self._make_phase(stats, "ask", counts.established, counts.requested, counts.answered)

    def disconnect(self) -> PhaseCounts:
        """Close the connections that received their object; the device's driver flushes the others."""
        if not self._answered:  # no connection requested an object
            stats = self._watch("end", "closed", 1, 0, {})
            self._stop()
            return self._make_phase(stats, "end", 0, 0, 0)
        attempts = self._opened["client"].attempts
        done = {"client": {"closed": attempts}, "server": {"closed": self._opened["server"].opened}}
        stats = self._watch("end", "control_segments", 1, 2 * attempts, done)
        self._stop()
        counts = add_closed_connections(self._counts, stats.counters, self._tcp)
        self._counts, required = counts, counts.answered
        # resets or FINs since then, those that were sent again among them
        before, after = (c["client"].control_segments for c in (self._answered, stats.counters))
        sent = min(after - before, required)
        return self._make_phase(stats, "end", required, sent, counts.closed)

    def _stop(self) -> None:
        """Stop the connections; the worker waits until TRex's client has heard of their start."""
        self._attachment.ask("stop_connections", deadline_s=MAX_START_S + DEADLINE_S)

    def _watch(
        self, step: Step, counter: str, per_unit: int, count: int, done: Mapping[str, Any]
    ) -> StepStats:
        """Have the worker watch a step; for the arguments see :meth:`AstfWorker.watch`."""
        began_s = self._schedule.begin_s(step)
        due_s = began_s + self._schedule.duration_s
        until_s = due_s + self._schedule.wait_s
        units = {"counter": counter, "per_unit": per_unit, "count": count, "done": done}
        answer = self._attachment.ask(
            "watch", watch=self._attachment.check_server, deadline_s=until_s + DEADLINE_S,
            from_s=began_s, due_s=due_s, until_s=until_s, **units,
        )  # fmt: skip
        return parse_answer(StepStats, answer)

    def _make_phase(
        self, stats: StepStats, step: Step, required: int, sent: int, good: int
    ) -> PhaseCounts:
        duration_s, now = self._connections.phase_one_s, time.monotonic()
        began_s = min(now, now - stats.began_ago_s + self._schedule.begin_s(step))
        took = SendingTime(duration_s if sent else 0.0, 0.0)
        if step != "end" and sent:
            never = SendingTime(2 * duration_s, 0.0)
            took = measure_sending_time(stats.counter_readings, 0, sent, duration_s) or never
        classes = {TCP_CLASS: ClassCount("foreground", required, sent, good)}
        result = DirectionResult(classes, took.time_s, sending_time_error_s=took.error_s)
        moment = datetime.now(timezone.utc) - timedelta(seconds=now - began_s)
        started = moment.isoformat(timespec="milliseconds")
        faults = tuple(find_faults(stats, step, self._attachment.cpu_limit))
        counters = {name: side.record for name, side in stats.counters.items()}
        health = {"cpu": [round(c, 1) for c in stats.cpu], "counters": counters}
        return PhaseCounts(
            result, began_s, faults=faults, started=started, health=health, tcp=self._counts
        )
