"""Records of tear-down rate and capacity of a device's table of connections (RFC 9693)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeInt
from v6t.analysis.record import CPS, Model, Number, Record, Row, Series, head, rates_found
from v6t.analysis.statistics import finite
from v6t.benchmarks.records.connections import ANY_DIRECTION, Setup, connection_row
from v6t.procedures.stateful.capacity import CapacityResult
from v6t.procedures.stateful.teardown import TeardownResult
from v6t.trials.verdict import Attempt


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
        return self.rates

    def series(self) -> Iterator[tuple[str, Series, str]]:
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


def teardown_record(
    result: TeardownResult, *, method: str, setup: Mapping[str, Any], conditions: Mapping[str, Any]
) -> EmptyingRecord:
    """The record of the tear-down rate; only times where no rate follows from them.

    Args:
        result: the repetitions.
        method: how the device empties its table, in words or commands (ST-10).
        setup: ranges of the connections and what the technology says of them.
        conditions: what else the reader must know.
    """
    spec = result.spec
    rates = [r.rate_cps(spec.connections) for r in result.repetitions]
    known = [rate for rate in rates if rate is not None]
    attempts = [a for r in result.repetitions for a in r.attempts]
    title = "Connection tear-down rate"
    values: dict[str, Any] = {
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
    summary = rates_found(known, "connections/s")
    return TeardownRecord(**values, **{k: summary[k] for k in ("median", "p1", "p99", "notes")})


def teardown_rows(result: TeardownResult) -> list[Row]:
    """One row per repetition."""
    spec = result.spec
    return [
        {
            **connection_row(r.number, spec.conditions),
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
    """The record of the table's capacity; arguments as of :func:`teardown_record`."""
    title = "Connection tracking table capacity"
    return CapacityRecord(
        **capacity_values(result, title=title, setup=setup, conditions=conditions)
    )


def capacity_values(
    result: CapacityResult, *, title: str, setup: Mapping[str, Any], conditions: Mapping[str, Any],
    also: Sequence[Attempt] = (),
) -> dict[str, Any]:  # fmt: skip
    """The fields of such a record.

    Args:
        result: the search.
        title: of the record.
        setup, conditions: as of :func:`teardown_record`.
        also: further trials behind the record.
    """
    spec = result.spec
    none = {"not_measured": "not even one connection was established"}
    attempts = [*result.attempts, *also]
    return dict(
        **head(spec.conditions, spec.benchmark, title, attempts, conditions, ANY_DIRECTION),
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
        alpha=spec.phase_one.alpha,
        beta=spec.beta,
        gamma=spec.gamma,
        resolution_cps=spec.resolution_cps,
        steps=[
            Step(
                phase=s.phase,
                connections=s.connections,
                rate_cps=finite(s.rate_cps),
                carried=s.carried,
            )
            for s in result.steps
        ],
        setup=dict(setup),
    )


def capacity_rows(result: CapacityResult) -> list[Row]:
    """One row per number of connections."""
    return [
        {
            **connection_row(number, result.spec.conditions),
            "phase": s.phase,
            "connections": s.connections,
            "rate": s.rate_cps,
            "carried": s.carried,
        }
        for number, s in enumerate(result.steps, 1)
    ]
