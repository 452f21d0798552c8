"""Records of the benchmarks of stateful devices for ``results.json`` (ST-14, ST-15)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, NonNegativeInt
from v6t.analysis.records.base import (
    CPS,
    FindResult,
    Model,
    Number,
    RateRecord,
    Record,
    Row,
    Series,
    bounded_by_tester,
    head,
    rates_found,
)
from v6t.analysis.statistics import finite
from v6t.procedures.conditions import Attempt, Conditions
from v6t.procedures.stateful.capacity import CapacityResult
from v6t.procedures.stateful.connection_rate import ConnectionRateResult
from v6t.procedures.stateful.teardown import TeardownResult

ANY_DIRECTION = "connections"
"""In place of a direction: phase 1 goes forward, the validation back."""


class PortRange(Model):
    """Ports of one side."""

    min: int
    """lowest"""
    max: int
    """highest"""


class StatefulDevice(Model):
    """A device between the tester's ports."""

    name: str
    """of the device"""
    stateful: bool
    """whether it keeps connections"""


class Setup(Model):
    """How connections are made (RFC 9693)."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"additionalProperties": True})

    initiator_ports: PortRange | None = None
    """source ports"""
    responder_ports: PortRange | None = None
    """destination ports"""
    initiator_count: int | None = None
    """addresses of initiators"""
    responder_count: int | None = None
    """addresses of responders"""
    combinations: int | None = None
    """four-tuples there are"""
    initiator_endpoints: int | None = None
    """pairs of address and port of the initiators"""
    usual_timeout_s: Number | None = None
    """idle timeout that such devices usually have [s]"""
    mapping: str | None = None
    """which mapping behaviour the RFCs ask for, and what devices do"""
    devices: Sequence[StatefulDevice] = ()
    """devices in a row, and which of them is stateful"""


class Counts(Model):
    """Connections of phase 1, counted on both sides of the device and by it (RFC 9693)."""

    connections: int
    """asked for"""
    learned: int
    """learned by the Responder"""
    sessions: int | None
    """counted by the device after phase 1; null: it does not tell"""
    sessions_before: int | None
    """counted by the device after it was emptied; null: it does not tell"""
    initiator_endpoints: int | None
    """distinct pairs of address and port before the device; null: unknown"""
    public_endpoints: int | None
    """distinct pairs of address and port behind the device; null: unknown"""
    device: dict[str, Any] | None
    """what the device says of its table, by its own names; null: nothing"""
    gap_s: Number | None
    """from the end of phase 1 to the first frame that follows; null: unknown [s]"""
    kept: bool
    """they were there already"""


class ConnectionRateRecord(RateRecord):
    """Maximum connection establishment rate (RFC 9693 section 4.5)."""

    unit: Literal["connections per second"]
    """of the rates"""
    connections: Annotated[int, Field(ge=1)]
    """connections of each trial"""
    alpha: Number | None
    """share of the rate at which every connection was tried after phase 1; null: not tried"""
    validated: bool
    """a frame was sent back through every connection"""
    tolerance_connections: Literal[0]
    """connections that may be missing: none"""
    resolution_cps: Number
    """error of the search [connections per second]"""
    wait_s: Number | None = None
    """wait for late frames after phase 1 [s]"""
    counts: Counts | None
    """connections and frames of the last trial that passed"""
    setup: Setup
    """how the connections were made"""

    def series(self) -> Iterator[tuple[str, Series, str]]:
        """See the base class."""
        yield "", self, "connections/s"


class EmptyingRecord(Series, Record):
    """Times to empty a connection table, full and empty."""

    unit: Literal["connections per second"]
    """of the rates"""
    rates: list[Number | None]
    """each repetition's result; null: the full table took no longer than the empty one"""
    connections: Annotated[int, Field(ge=1)]
    """connections of each trial"""
    established_at_cps: Number | None = None
    """rate of phase 1 [connections per second]"""
    rate_source: str = ""
    """where that rate comes from"""
    method: str
    """how the table is emptied"""
    full_s: list[Number | None]
    """time to empty the full table, each repetition [s]"""
    idle_s: list[Number | None]
    """time the same takes with an empty table, each repetition [s]"""
    sessions: Sequence[int | None] = ()
    """connections that the device counted before it was emptied, each repetition"""
    setup: Setup
    """how the connections were made"""

    @property
    def repeated(self) -> Sequence[float | None]:
        """See the base class."""
        return self.rates

    def series(self) -> Iterator[tuple[str, Series, str]]:
        """See the base class."""
        yield "", self, "connections/s"


class TeardownRecord(EmptyingRecord):
    """Connection tear-down rate (RFC 9693 section 4.8)."""

    median: Number
    """middle value of the rates"""
    p1: Number
    """1st percentile, nearest rank"""
    p99: Number
    """99th percentile, nearest rank"""
    notes: Sequence[str] = ()
    """what is odd about the repetitions"""

    @property
    def odd(self) -> Sequence[str]:
        """See the base class."""
        return self.notes


class Step(Model):
    """One number of connections in the search."""

    phase: str
    """`first`, `exponential` or `binary`"""
    connections: int
    """that were asked for"""
    rate_cps: Number | None
    """highest rate at which they were established; null: none [connections per second]"""
    carried: bool
    """the table is large enough for them"""


class CapacityRecord(Record):
    """Connection tracking table capacity (RFC 9693 section 4.9)."""

    unit: Literal["connections"]
    """of the capacity and the error"""
    capacity: NonNegativeInt
    """connections the table holds"""
    rate_cps: Number
    """at the capacity [connections per second]"""
    first_failed: int | None
    """smallest number of connections that was not held"""
    at_least: bool
    """the table held the most connections that were tried"""
    most: int | None = None
    """most connections that the search tries"""
    error: Annotated[int, Field(ge=1)]
    """error of the search"""
    c0: int
    """connections that the search begins with"""
    first_connections: int | None = None
    """connections of the first search that passed"""
    r0: Number
    """rate of the first search [connections per second]"""
    alpha: Number | None
    """share of the rate at which every connection was tried; null: not tried"""
    beta: Number
    """share of the last rate below which the table was too small"""
    gamma: Number
    """share of the rate from which on the table was large enough"""
    resolution_cps: Number | None = None
    """error of the rate searches [connections per second]"""
    steps: list[Step]
    """the search, step by step"""
    setup: Setup
    """how the connections were made"""


def connection_rate_record(
    result: ConnectionRateResult, find: FindResult, *, setup: Mapping[str, Any],
    conditions: Mapping[str, Any], ceiling_cps: Number, selftest_margin: Number,
) -> ConnectionRateRecord:  # fmt: skip
    """The record of the maximum connection establishment rate.

    Args:
        result: the repetitions.
        find: where counts come from.
        setup: ranges of the connections and what the technology says of them.
        conditions: what else the reader must know.
        ceiling_cps: what the tester itself establishes without a device.
        selftest_margin: results above ``(1 - margin)`` of it are flagged (SELF-02).
    """
    spec = result.spec
    title = "Maximum connection establishment rate"
    attempts = [a for r in result.repetitions for a in r.attempts]
    found = rates_found([r.rate_cps for r in result.repetitions], "connections/s")
    return ConnectionRateRecord(
        **head(spec.conditions, spec.benchmark, title, attempts, conditions, ANY_DIRECTION),
        **found,
        unit=CPS,
        connections=spec.connections,
        alpha=spec.filling.alpha,
        validated=spec.filling.alpha is not None,
        tolerance_connections=0,
        resolution_cps=spec.resolution_cps,
        upper_bound=spec.upper_bound_cps,
        upper_bound_reason=spec.upper_bound_reason,
        upper_bound_hit=any(r.search.hit_upper_bound for r in result.repetitions),
        tester_ceiling=ceiling_cps,
        tester_limited=found["median"] > ceiling_cps * (1 - selftest_margin)
        or any(bounded_by_tester(r.rate_cps, r.attempts) for r in result.repetitions),
        wait_s=spec.filling.wait_s,
        counts=_counts(attempts, find),
        setup=dict(setup),
    )


def connection_rate_rows(result: ConnectionRateResult, started: Callable[[str], str]) -> list[Row]:
    """One row per repetition."""
    spec = result.spec
    return [
        {
            **_row(r.number, spec.conditions),
            "Connections": spec.connections,
            "Initial Rate": spec.upper_bound_cps,
            "Timeout": spec.filling.wait_s,
            "Alpha": "" if spec.filling.alpha is None else spec.filling.alpha,
            "Error": spec.resolution_cps,
            "Date": started(r.attempts[0].trial.key) if r.attempts else "",
            "Iterations": len(r.attempts),
            "rate": r.rate_cps,
        }
        for r in result.repetitions
    ]


def teardown_record(
    result: TeardownResult, *, method: str, setup: Mapping[str, Any], conditions: Mapping[str, Any]
) -> EmptyingRecord:
    """The record of the tear-down rate; only times where no rate follows from them.

    Args:
        result: the repetitions.
        method: how the device empties its table, in words or commands (ST-10).
        setup: see :func:`connection_rate_record`.
        conditions: see there.
    """
    spec = result.spec
    rates = [r.rate_cps(spec.connections) for r in result.repetitions]
    known = [rate for rate in rates if rate is not None]
    attempts = [a for r in result.repetitions for a in r.attempts]
    title = "Connection tear-down rate"
    values = {
        **head(spec.conditions, "teardown", title, attempts, conditions, ANY_DIRECTION),
        "unit": CPS,
        "repetitions": len(result.repetitions),
        "rates": rates,
        "connections": spec.connections,
        "established_at_cps": spec.rate_cps,
        "rate_source": spec.rate_source,
        "method": method,
        "full_s": [r.full_s for r in result.repetitions],
        "idle_s": [r.idle_s for r in result.repetitions],
        "sessions": [r.sessions for r in result.repetitions],
        "setup": dict(setup),
    }
    if not known:
        why = "emptying a full table took no longer than emptying an empty one"
        return EmptyingRecord(**values, not_measured=why)
    found = rates_found(known, "connections/s")
    return TeardownRecord(**values, **{k: found[k] for k in ("median", "p1", "p99", "notes")})


def teardown_rows(result: TeardownResult) -> list[Row]:
    """One row per repetition."""
    spec = result.spec
    return [
        {
            **_row(r.number, spec.conditions),
            "Connections": spec.connections,
            "full_s": r.full_s,
            "idle_s": r.idle_s,
            "rate": r.rate_cps(spec.connections),
        }
        for r in result.repetitions
    ]


def capacity_record(
    result: CapacityResult, *, setup: Mapping[str, Any], conditions: Mapping[str, Any]
) -> CapacityRecord:
    """The record of the table's capacity; arguments as above."""
    spec = result.spec
    title = "Connection tracking table capacity"
    none = {"not_measured": "not even one connection was established"}
    return CapacityRecord(
        **head(spec.conditions, "capacity", title, result.attempts, conditions, ANY_DIRECTION),
        **({} if result.capacity else none),
        unit="connections",
        repetitions=1,
        capacity=result.capacity,
        rate_cps=result.rate_cps,
        first_failed=result.first_failed,
        at_least=result.first_failed is None,
        most=spec.most,
        error=spec.error,
        c0=spec.first,
        first_connections=result.first_connections,
        r0=result.first_rate_cps,
        alpha=spec.filling.alpha,
        beta=spec.beta,
        gamma=spec.gamma,
        resolution_cps=spec.resolution_cps,
        steps=[
            {
                "phase": s.phase,
                "connections": s.connections,
                "rate_cps": finite(s.rate_cps),
                "carried": s.carried,
            }
            for s in result.steps
        ],
        setup=dict(setup),
    )


def capacity_rows(result: CapacityResult) -> list[Row]:
    """One row per number of connections."""
    return [
        {
            **_row(number, result.spec.conditions),
            "phase": s.phase,
            "connections": s.connections,
            "rate": s.rate_cps,
            "carried": s.carried,
        }
        for number, s in enumerate(result.steps, 1)
    ]


def _counts(attempts: Sequence[Attempt], find: FindResult) -> dict[str, Any] | None:
    """Counts of the last trial that passed, those of both sides apart (ST-15)."""
    passed = [a.trial.key for a in attempts if a.verdict.passed]
    found = find(passed[-1]).connections if passed else None
    if found is None:
        return None
    return {
        "connections": found.required,
        "learned": found.learned,
        "sessions": found.sessions,
        "sessions_before": found.sessions_before,
        "initiator_endpoints": found.inside,
        "public_endpoints": found.outside,
        "device": None if found.device is None else dict(found.device),
        "gap_s": found.gap_s,
        "kept": found.kept,
    }


def _row(number: int, at: Conditions) -> Row:
    return {"No": number, "Size": at.ipv6_frame_size, "Dir": "c"}
