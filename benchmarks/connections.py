"""Connection rate, tear-down rate and capacity of stateful devices (RFC 9693)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import ConfigDict, Field, NonNegativeInt
from v6t.analysis.marks import marked
from v6t.analysis.presentation import (
    AT_LEAST,
    Card,
    Clause,
    Percentiles,
    Result,
    clause,
)
from v6t.analysis.record import (
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
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import SIZES, Sheet, count, percent, seconds, table
from v6t.analysis.statistics import finite
from v6t.base.errors import UsageError
from v6t.base.strict_model import StrictModel
from v6t.benchmarks.base import Benchmark, Phase
from v6t.benchmarks.common import repeated
from v6t.benchmarks.point import Cost, Measured, MeasurementPoint, Point
from v6t.benchmarks.settings import MOST_CONNECTIONS
from v6t.procedures.search.binary import halvings
from v6t.procedures.stateful.capacity import CapacityResult, CapacitySpec, measure_capacity
from v6t.procedures.stateful.connection_rate import BENCHMARK as CONNECTION_RATE
from v6t.procedures.stateful.connection_rate import (
    ConnectionRateResult,
    ConnectionRateSpec,
    measure_connection_rate,
)
from v6t.procedures.stateful.phases import PhaseOneSettings, Prepared
from v6t.procedures.stateful.teardown import TeardownSpec, measure_teardown
from v6t.trials.codec import connections_to_json
from v6t.trials.conditions import Conditions
from v6t.trials.connections import Connections
from v6t.trials.order_statistics import percentile
from v6t.trials.verdict import Attempt

if TYPE_CHECKING:
    from v6t.benchmarks.context import MeasuredTechnology, RunContext
    from v6t.benchmarks.settings import ProcedureSettings

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


def connection_rate_values(
    result: ConnectionRateResult, point: MeasurementPoint, title: str
) -> dict[str, Any]:
    """Return the fields of a record of the connection rate, over UDP or TCP."""
    spec = result.spec
    attempts = [a for r in result.repetitions for a in r.attempts]
    values = rates_found([r.rate_cps for r in result.repetitions], "connections/s")
    ceiling_cps = point.tester_capacity.rate_fps
    return dict(
        **head(spec.conditions, spec.benchmark, title, attempts, point.said, ANY_DIRECTION),
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
        tester_ceiling=ceiling_cps,
        tester_limited=values["median"] > ceiling_cps * (1 - point.procedure.selftest_margin)
        or any(bounded_by_tester(r.rate_cps, r.attempts) for r in result.repetitions),
        wait_s=spec.phase_one.wait_s,
        counts=_counts(attempts, point.find),
        setup=setup_of(point.bound.technology),
    )


def _counts(attempts: Sequence[Attempt], find: FindResult) -> Counts | None:
    """Return the counts of the last trial that passed, those of both sides apart (ST-15)."""
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


def capacity_values(
    result: CapacityResult, point: MeasurementPoint, title: str, also: Sequence[Attempt] = ()
) -> dict[str, Any]:
    """Return the fields of a record of the capacity; ``also``: further trials behind it."""
    spec = result.spec
    none = {"not_measured": "not even one connection was established"}
    attempts = [*result.attempts, *also]
    return dict(
        **head(spec.conditions, spec.benchmark, title, attempts, point.said, ANY_DIRECTION),
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
            {
                "phase": s.phase,
                "connections": s.connections,
                "rate_cps": finite(s.rate_cps),
                "carried": s.carried,
            }
            for s in result.steps
        ],
        setup=setup_of(point.bound.technology),
    )


_EMPTYING_S = 12e-6
"""For each connection that stood: nftables on Linux 6.18 with 100,000 of them, and the tester's tables
[s]. Of plans only."""


def phase_one_settings(p: ProcedureSettings) -> PhaseOneSettings:
    """How connections come about."""
    c = p.connections
    return PhaseOneSettings(
        wait_s=c.wait_ms / 1000,
        gap_s=c.gap_ms / 1000,
        alpha=c.alpha if c.validate_connections else None,
        entries=c.entries,
        keep=c.keep,
    )


def upper_bound(point: Point) -> tuple[float, str]:
    """Highest connection rate that makes sense, and why."""
    upper_cps = point.procedure.connections.upper_cps
    if upper_cps is not None and upper_cps < point.limit_fps:
        return upper_cps, "given"
    return point.limit_fps, point.limit_reason


def assumed_most(point: Point) -> float:
    """Assume a highest rate of the device: half of what is likely offered."""
    return min(upper_bound(point)[0], point.likely_cps) / 2


def assumed_rate(point: Point) -> float:
    """R before anything is known of the device."""
    c = point.procedure.connections
    return c.rate_cps or assumed_most(point) * c.rate_share


def rate(point: MeasurementPoint) -> tuple[float, str]:
    """R of phase 2, and where it comes from (ST-09)."""
    c = point.procedure.connections
    return share_of(point, CONNECTION_RATE, "connection rate", c.rate_share, c.rate_cps)


def share_of(
    point: MeasurementPoint, benchmark: str, words: str, share: float, given_cps: float | None
) -> tuple[float, str]:
    """Return a rate that is given, or a share of P1 of one that was found; and where it comes from.

    Args:
        point: where it was found.
        benchmark: that found it.
        words: what it is called.
        share: of it.
        given_cps: takes its place [connections per second].
    """
    if given_cps is not None:
        return given_cps, "given"
    rates = point.found.get(benchmark, ())
    rate = percentile(rates, 1) if rates else 0.0
    return rate * share, f"{share:.0%} of P1 of the {words}"


def rate_search(
    point: Point, phase_one: PhaseOneSettings, benchmark: str = CONNECTION_RATE
) -> ConnectionRateSpec:
    """Specify the search for the highest rate at which connections come about."""
    p, c = point.procedure, point.procedure.connections
    upper, reason = upper_bound(point)
    return ConnectionRateSpec(
        conditions=point.conditions(),
        connections=c.count,
        upper_bound_cps=upper,
        upper_bound_reason=reason,
        resolution_cps=c.resolution_cps or p.resolution_ratio * upper,
        repetitions=p.repetitions,
        phase_one=phase_one,
        benchmark=benchmark,
    )


def prepared(point: MeasurementPoint, flows: int | None = None) -> MeasurementPoint | None:
    """Return the point at which every trial gets its connections first; None: no rate passed.

    Args:
        point: as it is without.
        flows: so many connections, which frames take in turn both ways; None: as the run has it.
    """
    c = point.procedure.connections
    rate_cps, source = rate(point)
    if not rate_cps:
        return None
    connections = phase_one_settings(point.procedure).connections(flows or c.count, rate_cps)
    connections = replace(connections, reading="linear" if flows else c.reading, alpha=None)
    if flows:
        connections = replace(connections, entries=None)
    measure = Prepared(point.measure, connections, c.retakes)
    conditions = {
        **connections_to_json(connections),
        "rate_source": source,
        "delay_s": connections.phase_one_s + connections.wait_s + connections.gap_s,
        **setup_of(point.bound.technology),
    }
    return replace(
        point, measure=measure, find=measure.finder(point.find), also={"connections": conditions}
    )


def with_phase_one(point: Point, cost: Cost) -> Cost:
    """Add the cost of connections to trials that get them first; kept ones are made once."""
    c = point.procedure.connections
    settings = replace(phase_one_settings(point.procedure), alpha=None)
    connections = settings.connections(c.count, assumed_rate(point))
    filling_s = connections.total_s + c.gap_ms / 1000 + emptying_s(point, c.count)
    return cost + Cost(0, filling_s) if c.keep else cost.with_each(filling_s)


def filling_cost(point: Point, pause_s: float, connections: Iterable[Connections]) -> Cost:
    """Trials that are phase 1 and nothing else, each after the table was emptied."""
    times_s = [pause_s + one.total_s + emptying_s(point, one.count) for one in connections]
    return Cost(len(times_s), sum(times_s))


def emptying_s(point: Point, connections: int) -> float:
    """Estimate what it takes to empty the device's table, and the tester's own, of so many [s]."""
    return 0.0 if point.bound.tester.simulates else _EMPTYING_S * connections


def setup_of(plugin: MeasuredTechnology) -> dict[str, Any]:
    """Ranges of the connections and which device is stateful, for the report (ST-14, DD-04)."""
    technology: Any = plugin
    names = ("initiator_ports", "responder_ports", "initiator_count", "responder_count")
    dumped: Mapping[str, Any] = technology.params.model_dump(mode="json")
    return {
        **{name: dumped[name] for name in names if name in dumped},
        "combinations": technology.combinations,
        "initiator_endpoints": technology.params.endpoints,
        "usual_timeout_s": technology.usual_timeout_s,
        "mapping": technology.mapping,
        "devices": [{"name": r.name, "stateful": r.stateful} for r in technology.roles],
    }


C = TypeVar("C", bound=Record)


S = TypeVar("S", bound=StrictModel)


class OfConnections(Benchmark[C, S]):
    """Benchmarks that say nothing where connections may be gone."""

    connections = "only"

    def caveats(self, bound: RunContext) -> Iterator[str]:
        if not bound.settings.procedure.connections.validate_connections:
            yield "connections are not validated: the device may have forgotten them"

    def search_cost(self, point: Point, spec: ConnectionRateSpec) -> Cost:
        """Return what all searches cost, at half of the highest rate offered."""
        connections = spec.phase_one.connections(spec.connections, assumed_most(point))
        one = filling_cost(point, spec.conditions.pause_s, [connections])
        return one * (spec.repetitions * spec.steps)


class CapacitySearch(OfConnections[C, S]):
    """A search for how many connections there can be at a time; settings have ``first`` and ``most``."""

    searches = True
    fills_table = False

    def most_connections(self, bound: RunContext) -> int:
        settings: Any = self.own(bound)
        most, there = settings.most, bound.technology.combinations
        return there if most is None else min(there, most)

    def least_connections(self, bound: RunContext) -> int:
        """Return what the search begins with; where the table ends is its result."""
        settings: Any = self.own(bound)
        return int(settings.first)

    def check(self, bound: RunContext) -> None:
        """Refuse to begin with more connections than there can be."""
        super().check(bound)
        first, most = self.least_connections(bound), self.most_connections(bound)
        if first > most:
            raise UsageError(
                f"the search begins with {first} connections, but may not ask for more than {most}",
                f"lower {self.section}.first, raise {self.section}.most, or widen the ranges of "
                "ports and addresses",
                code="empty-range",
            )

    def usual_counts(self, spec: CapacitySpec) -> list[int]:
        """Return the numbers of connections tried if the table holds nearly the most."""
        counts = [spec.first]
        while counts[-1] < spec.most:
            counts.append(min(2 * counts[-1], spec.most))
        width = max(1, counts[-1] - (counts[-2] if len(counts) > 1 else 0))
        return counts + [spec.most] * math.ceil(math.log2(max(1.0, width / spec.error)))


class ConnectionRate(OfConnections[ConnectionRateRecord, StrictModel]):
    """The highest rate at which every new connection is forwarded and stands."""

    name = "connection-rate"
    title = "Maximum connection establishment rate"
    record = ConnectionRateRecord
    metrics: ClassVar = {"max connection establishment rate": ""}
    summary = "The highest rate at which every new connection stands."
    phase = Phase.CONNECTIONS
    order = 10
    searches = True

    def cost(self, point: Point) -> Cost:
        return self.search_cost(point, rate_search(point, phase_one_settings(point.procedure)))

    def run(self, point: MeasurementPoint) -> Measured:
        spec = rate_search(point, phase_one_settings(point.procedure))
        result = measure_connection_rate(spec, point.measure, point.watch)
        rows = [
            {
                "Connections": spec.connections,
                "Initial Rate": spec.upper_bound_cps,
                "Timeout": spec.phase_one.wait_s,
                "Alpha": "" if spec.phase_one.alpha is None else spec.phase_one.alpha,
                "Error": r.search.error_fps(spec.resolution_cps),
                "Date": point.find(r.attempts[0].trial.key).started if r.attempts else "",
                "Iterations": len(r.attempts),
                "rate": r.rate_cps,
            }
            for r in result.repetitions
        ]
        return Measured(
            ConnectionRateRecord(**connection_rate_values(result, point, self.title)),
            rows_of(spec.conditions, rows),
            [r.rate_cps for r in result.repetitions],
        )

    def sheet(self, records: Sequence[ConnectionRateRecord]) -> Sheet:
        columns: Sequence[tuple[str, Callable[[ConnectionRateRecord], str]]] = [
            (SIZES, lambda r: r.sizes),
            ("connections", lambda r: count(r.connections)),
            ("median\nconnections/s", lambda r: marked(count(r.median), r.limited)),
            ("P1", lambda r: count(r.p1)),
            ("P99", lambda r: count(r.p99)),
            ("+dispersion\n%", lambda r: percent(r.dispersion)),
            ("source\nports", lambda r: _ports(r.setup.initiator_ports)),
            ("destination\nports", lambda r: _ports(r.setup.responder_ports)),
            ("validated\nat", lambda r: f"{r.alpha:g} R" if r.validated else "not"),
            ("+DUT\ncounts", lambda r: _number(r.counts.sessions if r.counts else None)),
            ("+public\nendpoints", lambda r: _number(_public(r))),
            ("+DUT\ntimeout s", lambda r: _number(_device(r).get("timeout_s"))),
            ("+DUT's table\nentries", lambda r: _number(_device(r).get("nf_conntrack_max"))),
            ("+connections\nper bucket", _per_bucket),
            ("+repetitions", lambda r: str(r.repetitions)),
            ("+search\nends within", lambda r: count(r.resolution_cps)),
        ]
        return table(records[0].title, records, columns)

    def results(self, record: ConnectionRateRecord) -> Iterator[Result]:
        yield rate_result(
            self.name, record, f"{record.title}, {record.point}", record.resolution_cps
        )

    def clauses(self, data: RunData) -> Iterator[Clause]:
        records = self.measured(data)
        yield _validated(data, records)
        counts = [r.counts for r in records if r.counts]
        missing = sum(c.connections - c.learned for c in counts)
        yield clause("RFC 9693 section 4.5 (ST-06)", "no connection of phase 1 may be missing",
                     f"{missing:,} missing at the rates found; no tolerance can be set",
                     not missing if counts else None)  # fmt: skip
        coarsest = max((r.resolution_cps for r in records), default=None)
        yield clause("RFC 9693 section 4.5 (ST-06)", "the search ends within 1,000 connections/s",
                     "not searched" if coarsest is None else f"within {coarsest:,.0f}",
                     None if coarsest is None else coarsest <= 1000)  # fmt: skip
        before = [c.sessions_before for c in counts]
        known = [n for n in before if n is not None]
        yield clause("RFC 9693 section 4.5 (ST-11)", "an empty connection table before every step",
                     "emptied; the device counted " + (f"at most {max(known):,}" if known else "-")
                     if known else "emptied; the device does not tell its count",
                     (not any(known)) if known and len(known) == len(before) else None)  # fmt: skip
        yield repeated(self.name, records)


TRIALS_PER_COUNT = 2
"""Trials of a search for each number of connections but the first, usually."""


class CapacitySettings(StrictModel):
    """Search for the connection table's capacity (ST-12); defaults of the RFC's example."""

    first: int = Field(default=1_000_000, ge=1, le=MOST_CONNECTIONS)
    """C0, connections of the first search."""
    most: int | None = Field(default=None, ge=1, le=MOST_CONNECTIONS)
    """Never more connections than these; None: as many as there are four-tuples."""
    beta: float = Field(default=0.1, gt=0, le=1)
    """Below this share of the last rate the table is too small."""
    gamma: float = Field(default=0.5, gt=0, le=1)
    """At this share of the rate and above it is large enough."""
    error: int = Field(default=1, ge=1)
    """E, error of the search [connections]."""
    resolution_cps: float | None = Field(default=None, gt=0)
    """Error of the rate searches on the way; None: as for the connection rate."""


class Capacity(CapacitySearch[CapacityRecord, CapacitySettings]):
    """How many connections a table holds."""

    name = "capacity"
    title = "Connection tracking table capacity"
    record = CapacityRecord
    summary = "How many connections the device's table holds."
    phase = Phase.TABLE
    order = 20
    one_size = True
    section = "capacity"
    model = CapacitySettings
    quick = CapacitySettings(first=10_000, most=500_000, error=2000, beta=0.5)

    def check(self, bound: RunContext) -> None:
        """Refuse shares in the wrong order, and more connections than there can be."""
        c = self.own(bound)
        if c.beta > c.gamma:
            raise UsageError(
                f"beta = {c.beta:g} is larger than gamma = {c.gamma:g}",
                "a table that is too small must be slower than one that is large enough",
                code="out-of-range",
            )
        super().check(bound)

    def cost(self, point: Point) -> Cost:
        """As if the capacity was just below the most connections there are four-tuples for."""
        spec = self._spec(point)
        rate_cps = assumed_most(point)
        first = halvings(spec.upper_bound_cps, min(spec.resolution_cps, rate_cps)) + 1
        connections = [spec.phase_one.connections(n, rate_cps) for n in self.usual_counts(spec)]
        pause_s = spec.conditions.pause_s
        return (
            filling_cost(point, pause_s, connections[:1]) * first
            + filling_cost(point, pause_s, connections[1:]) * TRIALS_PER_COUNT
        )

    def run(self, point: MeasurementPoint) -> Measured:
        result = measure_capacity(self._spec(point), point.measure, point.watch)
        record = CapacityRecord(**capacity_values(result, point, self.title))
        rows = [
            {
                "phase": s.phase,
                "connections": s.connections,
                "rate": s.rate_cps,
                "carried": s.carried,
            }
            for s in result.steps
        ]
        return Measured(record, rows_of(result.spec.conditions, rows))

    def _spec(self, point: Point) -> CapacitySpec:
        p, own = point.procedure, self.own(point.bound)
        upper, reason = upper_bound(point)
        most = self.most_connections(point.bound)
        return CapacitySpec(
            conditions=point.conditions(),
            first=min(own.first, most),
            most=most,
            upper_bound_cps=upper,
            upper_bound_reason=reason,
            resolution_cps=own.resolution_cps
            or p.connections.resolution_cps
            or p.resolution_ratio * upper,
            beta=own.beta,
            gamma=own.gamma,
            error=own.error,
            phase_one=phase_one_settings(p),
        )

    def sheet(self, records: Sequence[CapacityRecord]) -> Sheet:
        columns: Sequence[tuple[str, Callable[[CapacityRecord], str]]] = [
            (SIZES, lambda r: r.sizes),
            ("capacity\nconnections", found_capacity),
            ("error", lambda r: count(r.error)),
            ("rate at it\nconnections/s", lambda r: count(r.rate_cps)),
            ("C0", lambda r: count(r.first_connections)),
            ("R0", lambda r: count(r.r0)),
            ("alpha", lambda r: "-" if r.alpha is None else f"{r.alpha:g}"),
            ("beta", lambda r: f"{r.beta:g}"),
            ("gamma", lambda r: f"{r.gamma:g}"),
            ("steps", lambda r: str(len(r.steps))),
        ]
        return table(records[0].title, records, columns)

    def results(self, record: CapacityRecord) -> Iterator[Result]:
        yield capacity_result(self.name, record)

    def clauses(self, data: RunData) -> Iterator[Clause]:
        for r in self.measured(data):
            ended = "no end was found" if r.at_least else f"within {r.error:,} connections"
            yield clause("RFC 9693 section 4.9 (ST-12)",
                         "exponential, then binary search for the capacity",
                         f"{r.sizes}: from {r.c0:,} on, beta {r.beta:g}, gamma {r.gamma:g}; {ended}",
                         not r.at_least and _bracketed(r))  # fmt: skip
        yield _validated(data, self.measured(data))


class TeardownSettings(StrictModel):
    """Tear-down rate (RFC 9693 section 4.8)."""

    repetitions: int | None = Field(default=None, ge=1, le=100_000)
    """Fillings; none: as for throughput."""


class Teardown(Benchmark[TeardownRecord, TeardownSettings]):
    """How fast a full table is emptied."""

    name = "teardown"
    title = "Connection tear-down rate"
    record = TeardownRecord
    summary = "How fast the device empties a full table of connections."
    phase = Phase.TABLE
    order = 10
    connections = "only"
    one_size = True
    section = "teardown"
    model = TeardownSettings

    def cost(self, point: Point) -> Cost:
        spec = self._spec(point, assumed_rate(point), "assumed")
        connections = spec.phase_one.connections(spec.connections, spec.rate_cps)
        return filling_cost(point, spec.conditions.pause_s, [connections]) * spec.repetitions

    def run(self, point: MeasurementPoint) -> Measured:
        rate_cps, source = rate(point)
        if not rate_cps:
            return self.nothing(point, "no connection rate passed", point.said)
        spec = self._spec(point, rate_cps, source)
        result = measure_teardown(spec, point.measure, point.watch)
        rates = [r.rate_cps(spec.connections) for r in result.repetitions]
        attempts = [a for r in result.repetitions for a in r.attempts]
        values: dict[str, Any] = {
            **head(spec.conditions, self.name, self.title, attempts, point.said, ANY_DIRECTION),
            "unit": CPS,
            "repetitions": len(result.repetitions),
            "rates": rates,
            "connections": spec.connections,
            "established_at_cps": spec.rate_cps,
            "rate_source": spec.rate_source,
            "method": point.emptying(),
            "full_s": [r.full_s for r in result.repetitions],
            "idle_s": [r.idle_s for r in result.repetitions],
            "sessions": [r.sessions for r in result.repetitions],
            "setup": setup_of(point.bound.technology),
        }
        known = [rate for rate in rates if rate is not None]
        record: EmptyingRecord
        if known:
            summary = rates_found(known, "connections/s")
            figures = {k: summary[k] for k in ("median", "p1", "p99", "notes")}
            record = TeardownRecord(**values, **figures)
        else:
            why = "emptying a full table took no longer than emptying an empty one"
            record = EmptyingRecord(**values, not_measured=why)
        rows = [
            {
                "Connections": spec.connections,
                "full_s": r.full_s,
                "idle_s": r.idle_s,
                "rate": rate,
            }
            for r, rate in zip(result.repetitions, rates, strict=True)
        ]
        return Measured(record, rows_of(spec.conditions, rows))

    def _spec(self, point: Point, rate_cps: float, source: str) -> TeardownSpec:
        p, c = point.procedure, point.procedure.connections
        return TeardownSpec(
            conditions=point.conditions(),
            connections=c.count,
            rate_cps=rate_cps,
            rate_source=source,
            repetitions=self.own(point.bound).repetitions or p.repetitions,
            phase_one=phase_one_settings(p),
            retakes=c.retakes,
        )

    def sheet(self, records: Sequence[TeardownRecord]) -> Sheet:
        columns: Sequence[tuple[str, Callable[[TeardownRecord], str]]] = [
            (SIZES, lambda r: r.sizes),
            ("connections", lambda r: count(r.connections)),
            ("median\nconnections/s", lambda r: count(r.median)),
            ("P1", lambda r: count(r.p1)),
            ("P99", lambda r: count(r.p99)),
            ("full table\ns", lambda r: _longest(r.full_s)),
            ("empty table\ns", lambda r: _longest(r.idle_s)),
            ("repetitions", lambda r: str(r.repetitions)),
        ]
        return table(records[0].title, records, columns)

    def results(self, record: TeardownRecord) -> Iterator[Result]:
        yield rate_result(self.name, record, f"{record.title}, {record.point}")

    def clauses(self, data: RunData) -> Iterator[Clause]:
        records = self.measured(data)
        rates = [rate for r in records for rate in r.rates]
        undefined = sum(rate is None for rate in rates)
        yield clause("RFC 9693 section 4.8 (ST-10)",
                     "N / (t(N) - t(0)), the device empties its table",
                     "both times taken with the same command"
                     + (f"; {undefined} of {len(rates)} tell nothing" if undefined else ""),
                     not undefined if rates else None)  # fmt: skip
        yield repeated(self.name, records)


def rate_result(
    name: str,
    record: ConnectionRateRecord | TeardownRecord,
    label: str,
    resolution_cps: float = 0.0,
    unit: str = "connections/s",
) -> Result:
    """Return the rate of a benchmark; ``label`` and ``unit``: on its card."""
    limit = " - limited by the tester or the medium" if record.limited else ""
    what = f"{record.connections:,} connections, median of {record.repetitions}{limit}"
    number = marked(count(record.median), record.limited)
    return Result(
        "rate",
        "connections/s",
        record.rates,
        resolution=resolution_cps,
        limited=record.limited,
        headline=name,
        summary=record,
        card=Card(number, unit, f"{label}, {what}"),
    )


def capacity_result(name: str, record: CapacityRecord) -> Result:
    """Return the one number that was found, or that it is at least so large."""
    found = record.capacity
    summary = Percentiles(found, found, found)
    return Result(
        "", "connections", (), headline=AT_LEAST if record.at_least else name, summary=summary
    )


def _bracketed(record: CapacityRecord) -> bool:
    """Whether the steps show a number that was held and, at most the error above, one that was not."""
    held = max((s.connections for s in record.steps if s.carried), default=0)
    failed = min((s.connections for s in record.steps if not s.carried), default=None)
    return failed is not None and held < failed <= held + record.error


def _validated(data: RunData, records: Sequence[Record]) -> Clause:
    """Of trials whose phase 1 filled the table: others have nothing to be validated."""
    connections = [t.result.connections for t in data.counted(records)]
    filled = [c for c in connections if c is not None and c.is_complete]
    tried = [c.validated is not None for c in filled]
    return clause("RFC 9693 section 4.6 (ST-07)", "every connection is validated",
                  f"in {sum(tried)} of {len(tried)} trials that made them all",
                  all(tried) if tried else None)  # fmt: skip


def _ports(ports: PortRange | None) -> str:
    return f"{ports.min}-{ports.max}" if ports else "-"


def _longest(times_s: Sequence[float | None]) -> str:
    return seconds(max((t for t in times_s if t is not None), default=None))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,g}" if value % 1 else f"{int(value):,}"


def rows_of(at: Conditions, rows: Iterable[Row]) -> list[Row]:
    """Return rows of a benchmark without a direction, each with its number and frame size."""
    return [{"No": n, "Size": at.size_label, "Dir": "c", **row} for n, row in enumerate(rows, 1)]


def found_capacity(record: CapacityRecord) -> str:
    """Format the capacity for a table."""
    return ("at least " if record.at_least else "") + count(record.capacity)


def _device(record: ConnectionRateRecord) -> Mapping[str, Any]:
    return (record.counts.device if record.counts else None) or {}


def _public(record: ConnectionRateRecord) -> int | None:
    return record.counts.public_endpoints if record.counts else None


def _per_bucket(record: ConnectionRateRecord) -> str:
    buckets = _device(record).get("nf_conntrack_buckets")
    return f"{record.connections / buckets:.3g}" if buckets else "-"
