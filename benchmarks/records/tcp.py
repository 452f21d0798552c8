"""Records of the TCP benchmarks for ``results.json`` (RFC 8219 section 8, RFC 3511 sections 5.2, 5.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from v6t.analysis.record import FindResult, Model, Number, Row
from v6t.benchmarks.records.connections import (
    ConnectionRateRecord,
    connection_rate_values,
    connection_row,
)
from v6t.benchmarks.records.state_table import CapacityRecord, capacity_values
from v6t.procedures.stateful.connection_rate import ConnectionRateResult
from v6t.procedures.stateful.tcp_capacity import TcpCapacityResult
from v6t.profiles.tcp.http import VERSION
from v6t.trials.tcp import Tcp, TcpCounts
from v6t.trials.verdict import Attempt

RATE_TITLE = "Maximum TCP connection establishment rate"
CAPACITY_TITLE = "Concurrent TCP connection capacity"


class Exchange(Model):
    """How connections are made, tried and closed."""

    http: str
    """version that client and server speak"""
    object_octets: int
    """size of the object that every connection asks for, without the header [octets]"""
    timeout_s: Number
    """time within which a SYN or a request must be answered [s]"""
    retransmissions: int
    """times a SYN is sent again that was not answered"""
    closing: str
    """how connections end: `rst` or `fin`"""


class Iteration(Model):
    """A trial: every connection by what became of it (RFC 3511 sections 5.2.5, 5.3.5)."""

    trial: str
    """its key"""
    rate_cps: Number
    """connections attempted [connections per second]"""
    attempted: int
    """connections whose SYN was sent"""
    established: int
    """of them open on both sides"""
    half_open: int
    """of them open on the client's side only"""
    reset_refused: int
    """of them refused by a reset"""
    icmp_refused: int
    """of them refused by an ICMP error"""
    timed_out: int
    """of them not answered in time"""
    retransmitted: int
    """SYNs sent again"""
    reset_later: int
    """connections that were reset by somebody else after they were open"""
    requested: int
    """objects requested"""
    answered: int
    """objects received, whole and right"""
    closed: int
    """connections that ended as they should have, on both sides"""
    sessions: int | None
    """counted by the device when all were open; null: it does not tell"""
    sessions_after: int | None
    """counted by the device after their end; null: it does not tell"""
    fastest_s: Number | None
    """shortest establishment time [s]"""
    slowest_s: Number | None
    """longest [s]"""
    mean_s: Number | None
    """mean [s]"""
    sum_s: Number | None
    """sum of all [s]"""
    passed: bool
    """every connection was established and answered"""
    valid: bool
    """the tester did its part"""

    @property
    def refusals(self) -> str:
        """How those ended that were not established, in words."""
        names = set(TcpCounts.__dataclass_fields__) & set(type(self).model_fields)
        return TcpCounts(**{name: getattr(self, name) for name in names}).failures


class Alone(Model):
    """Establishment times of a trial of the self-test: what of the others is the tester's own."""

    rate_cps: Number
    """connections attempted [connections per second]"""
    fastest_s: Number
    """shortest establishment time [s]"""
    mean_s: Number
    """mean [s]"""
    slowest_s: Number
    """longest [s]"""


class TcpRateRecord(ConnectionRateRecord):
    """Maximum TCP connection establishment rate (RFC 3511 section 5.3)."""

    exchange: Exchange
    """how connections are made, tried and closed"""
    iterations: list[Iteration]
    """all trials"""
    decisive: Sequence[Iteration] = ()
    """of each repetition the trial that decided: the highest rate that passed"""
    alone: Alone | None = None
    """the fastest trial of the self-test in which every connection was established; null: there is none"""


class Ending(Model):
    """What is left of connections on the device after their end."""

    closing: str
    """how they ended: `rst` or `fin`"""
    connections: int
    """that were attempted"""
    closed: int
    """that ended as they should have, on both sides"""
    sessions_after: int | None
    """counted by the device right after it; null: it does not tell"""
    aged_s: Number | None
    """time until the device had forgotten them [s]; null: longer than was waited, or it does not tell"""
    waited_s: Number
    """longest wait for that [s]"""


class TcpCapacityRecord(CapacityRecord):
    """Concurrent TCP connection capacity (RFC 3511 section 5.2)."""

    attempt_rate_cps: Number
    """connection attempt rate [connections per second]"""
    rate_source: str
    """where that rate comes from"""
    exchange: Exchange
    """how connections are made, tried and closed"""
    iterations: list[Iteration]
    """all trials of the search"""
    decisive: Iteration | None
    """the trial with the most connections that passed"""
    overfull: Iteration | None
    """the trial with more connections than the table holds; null: no end was found"""
    still_answered: int | None
    """of the connections established in it, those that answered afterwards; null: none was made"""
    endings: list[Ending]
    """what is left on the device after connections end"""
    tcp_timeouts_s: dict[str, Number]
    """the device's own time-outs of TCP, by its own names [s]; empty: it does not tell"""


def exchange_of(tcp: Tcp) -> Exchange:
    """The settings of trials."""
    return Exchange(
        http=VERSION,
        object_octets=tcp.object_octets,
        timeout_s=tcp.timeout_s,
        retransmissions=tcp.retransmissions,
        closing=tcp.closing,
    )


def iteration(attempt: Attempt, find: FindResult) -> Iteration | None:
    """One trial; None: it opened nothing."""
    phase_one = find(attempt.trial.key).connections
    if phase_one is None or phase_one.tcp is None:
        return None
    figures = {
        name: getattr(phase_one.tcp, name)
        for name in Iteration.model_fields
        if hasattr(phase_one.tcp, name)
    }
    return Iteration(
        **figures,
        trial=attempt.trial.key,
        rate_cps=attempt.trial.rate_fps,
        sessions=phase_one.sessions,
        passed=attempt.verdict.passed,
        valid=attempt.verdict.valid,
    )


def iterations(attempts: Sequence[Attempt], find: FindResult) -> list[Iteration]:
    """Those of several trials."""
    return [one for one in (iteration(a, find) for a in attempts) if one is not None]


def tcp_rate_record(
    result: ConnectionRateResult, find: FindResult, *, tcp: Tcp, setup: Mapping[str, Any],
    conditions: Mapping[str, Any], capacity_cps: float, selftest_margin: float,
    selftest: Sequence[str] = (),
) -> TcpRateRecord:  # fmt: skip
    """The record of the maximum TCP connection establishment rate.

    Args:
        result: the repetitions.
        find: where counts come from.
        tcp: how connections were made.
        setup, conditions, capacity_cps, selftest_margin: as for the connection rate of UDP.
        selftest: keys of the trials without a device.
    """
    values = connection_rate_values(
        result,
        find,
        title=RATE_TITLE,
        setup=setup,
        conditions=conditions,
        capacity_cps=capacity_cps,
        selftest_margin=selftest_margin,
    )
    each = [iterations(r.attempts, find) for r in result.repetitions]
    passed = [[one for one in iterations if one.passed] for iterations in each]
    return TcpRateRecord(
        **values,
        exchange=exchange_of(tcp),
        iterations=[one for iterations in each for one in iterations],
        decisive=[
            max(iterations, key=lambda one: one.rate_cps) for iterations in passed if iterations
        ],
        alone=_alone(selftest, find),
    )


def _alone(keys: Sequence[str], find: FindResult) -> Alone | None:
    """Of the fastest trial without a device that lost nothing."""
    times = []
    for key in keys:
        found = find(key).connections
        tcp = None if found is None else found.tcp
        if found is None or tcp is None or not found.sending_time_s:
            continue
        if tcp.fastest_s is None or tcp.mean_s is None or tcp.slowest_s is None:
            continue
        if tcp.established == tcp.attempted == found.required:
            rate_cps = tcp.attempted / found.sending_time_s
            times.append((rate_cps, tcp.fastest_s, tcp.mean_s, tcp.slowest_s))
    if not times:
        return None
    rate_cps, fastest_s, mean_s, slowest_s = max(times)
    return Alone(rate_cps=rate_cps, fastest_s=fastest_s, mean_s=mean_s, slowest_s=slowest_s)


def tcp_capacity_record(
    result: TcpCapacityResult, find: FindResult, *, rate_source: str, setup: Mapping[str, Any],
    conditions: Mapping[str, Any],
) -> TcpCapacityRecord:  # fmt: skip
    """The record of the concurrent TCP connection capacity.

    Args:
        result: the search, and what came after it.
        find: where counts come from.
        rate_source: of the attempt rate, in words.
        setup, conditions: as for the capacity with UDP.
    """
    search, tcp = result.search, result.tcp
    tries = iterations(search.attempts, find)
    passed = [one for one in tries if one.passed]
    overfull = None if result.overfull is None else iteration(result.overfull, find)
    values = capacity_values(
        search, title=CAPACITY_TITLE, setup=setup, conditions=conditions, also=result.after
    )
    return TcpCapacityRecord(
        **values,
        attempt_rate_cps=search.spec.upper_bound_cps,
        rate_source=rate_source,
        exchange=exchange_of(tcp),
        iterations=tries,
        decisive=max(passed, key=lambda one: one.attempted, default=None),
        overfull=overfull,
        still_answered=None if overfull is None else overfull.answered,
        endings=[ending for a in result.after if (ending := _ending(a, find)) is not None],
        tcp_timeouts_s=_timeouts(search.attempts, find),
    )


def _ending(attempt: Attempt, find: FindResult) -> Ending | None:
    connections, phase_one = attempt.trial.connections, find(attempt.trial.key).connections
    if connections is None or connections.tcp is None or phase_one is None or phase_one.tcp is None:
        return None
    return Ending(
        closing=connections.tcp.closing,
        connections=phase_one.tcp.attempted,
        closed=phase_one.tcp.closed,
        sessions_after=phase_one.tcp.sessions_after,
        aged_s=phase_one.tcp.expiry_s,
        waited_s=connections.tcp.aging_s,
    )


def _timeouts(attempts: Sequence[Attempt], find: FindResult) -> dict[str, float]:
    for attempt in attempts:
        phase_one = find(attempt.trial.key).connections
        if phase_one is not None and phase_one.device:
            return {name: s for name, s in phase_one.device.items() if "tcp" in name}
    return {}


def iteration_rows(tries: Sequence[Iteration], at: Any) -> list[Row]:
    """One row for each trial (RFC 3511 sections 5.2.5, 5.3.5)."""
    return [
        {
            **connection_row(number, at),
            **{name: getattr(one, name) for name in Iteration.model_fields},
        }
        for number, one in enumerate(tries, 1)
    ]
