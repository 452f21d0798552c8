"""Records of the benchmarks of stateful devices for ``results.json`` (ST-14, ST-15)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field
from v6t.analysis.record import (
    CPS,
    FindResult,
    Model,
    Number,
    RateRecord,
    Row,
    Series,
    bounded_by_tester,
    head,
    rates_found,
)
from v6t.procedures.stateful.connection_rate import ConnectionRateResult
from v6t.trials.conditions import Conditions
from v6t.trials.verdict import Attempt

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
        yield "", self, "connections/s"


def connection_rate_record(
    result: ConnectionRateResult, find: FindResult, *, setup: Mapping[str, Any],
    conditions: Mapping[str, Any], capacity_cps: float, selftest_margin: float,
) -> ConnectionRateRecord:  # fmt: skip
    """The record of the maximum connection establishment rate.

    Args:
        result: the repetitions.
        find: where counts come from.
        setup: ranges of the connections and what the technology says of them.
        conditions: what else the reader must know.
        capacity_cps: what the tester itself establishes without a device.
        selftest_margin: results above ``(1 - margin)`` of it are flagged (SELF-02).
    """
    values = connection_rate_values(
        result, find, title="Maximum connection establishment rate", setup=setup,
        conditions=conditions, capacity_cps=capacity_cps, selftest_margin=selftest_margin,
    )  # fmt: skip
    return ConnectionRateRecord(**values)


def connection_rate_values(
    result: ConnectionRateResult, find: FindResult, *, title: str, setup: Mapping[str, Any],
    conditions: Mapping[str, Any], capacity_cps: float, selftest_margin: float,
) -> dict[str, Any]:  # fmt: skip
    """The fields of such a record; arguments as of :func:`connection_rate_record`."""
    spec = result.spec
    attempts = [a for r in result.repetitions for a in r.attempts]
    values = rates_found([r.rate_cps for r in result.repetitions], "connections/s")
    return dict(
        **head(spec.conditions, spec.benchmark, title, attempts, conditions, ANY_DIRECTION),
        **values,
        unit=CPS,
        connections=spec.connections,
        alpha=spec.phase_one.alpha,
        validated=spec.phase_one.alpha is not None,
        tolerance_connections=0,
        resolution_cps=result.error_cps,
        upper_bound=spec.upper_bound_cps,
        upper_bound_reason=spec.upper_bound_reason,
        upper_bound_hit=any(r.search.hit_upper_bound for r in result.repetitions),
        tester_ceiling=capacity_cps,
        tester_limited=values["median"] > capacity_cps * (1 - selftest_margin)
        or any(bounded_by_tester(r.rate_cps, r.attempts) for r in result.repetitions),
        wait_s=spec.phase_one.wait_s,
        counts=_counts(attempts, find),
        setup=dict(setup),
    )


def connection_rate_rows(result: ConnectionRateResult, started: Callable[[str], str]) -> list[Row]:
    """One row per repetition."""
    spec = result.spec
    return [
        {
            **connection_row(r.number, spec.conditions),
            "Connections": spec.connections,
            "Initial Rate": spec.upper_bound_cps,
            "Timeout": spec.phase_one.wait_s,
            "Alpha": "" if spec.phase_one.alpha is None else spec.phase_one.alpha,
            "Error": r.search.error_fps(spec.resolution_cps),
            "Date": started(r.attempts[0].trial.key) if r.attempts else "",
            "Iterations": len(r.attempts),
            "rate": r.rate_cps,
        }
        for r in result.repetitions
    ]


def _counts(attempts: Sequence[Attempt], find: FindResult) -> Counts | None:
    """Counts of the last trial that passed, those of both sides apart (ST-15)."""
    passed = [a.trial.key for a in attempts if a.verdict.passed]
    phase_one = find(passed[-1]).connections if passed else None
    if phase_one is None:
        return None
    return Counts(
        connections=phase_one.required,
        learned=phase_one.learned,
        sessions=phase_one.sessions,
        sessions_before=phase_one.sessions_before,
        initiator_endpoints=phase_one.inside_endpoints,
        public_endpoints=phase_one.outside_endpoints,
        device=None if phase_one.device is None else dict(phase_one.device),
        gap_s=phase_one.gap_s,
        kept=phase_one.reused,
    )


def connection_row(number: int, at: Conditions) -> Row:
    """What rows of benchmarks without a direction begin with."""
    return {"No": number, "Size": at.size_label, "Dir": "c"}
