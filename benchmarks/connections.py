"""Connection rate, tear-down rate and capacity of stateful devices (RFC 9693)."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import ConfigDict, Field, NonNegativeInt
from v6t.analysis.presentation import LOWER_BOUND, Percentiles, Quantity, Ruling, judge
from v6t.analysis.record import (
    AnnotatedSeries,
    CsvRow,
    FindResult,
    Number,
    RateRecord,
    Record,
    RecordModel,
    summarize_rates,
)
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import ABSENT, SIZES_HEADING, Column, format_count, format_seconds
from v6t.base.errors import UsageError
from v6t.base.strict_model import StrictModel
from v6t.benchmarks import common
from v6t.benchmarks.base import Benchmark, Phase
from v6t.benchmarks.point import MeasuredTechnology, Measurement, NotMeasured, Point, RunContext
from v6t.benchmarks.settings import (
    RATE_SEARCH_SETTINGS,
    ConnectionCount,
    ProcedureSettings,
    RepetitionCount,
)
from v6t.procedures.stateful.capacity import CapacityResult, CapacitySpec, measure_capacity
from v6t.procedures.stateful.connection_rate import BENCHMARK as CONNECTION_RATE
from v6t.procedures.stateful.connection_rate import (
    ConnectionRateResult,
    ConnectionRateSpec,
    measure_connection_rate,
)
from v6t.procedures.stateful.phases import ConnectionPreparer, PhaseOneSettings
from v6t.procedures.stateful.teardown import TeardownSpec, measure_teardown
from v6t.procedures.trial_runner import RepeatedResult
from v6t.trials.codec import encode
from v6t.trials.order_statistics import percentile
from v6t.trials.verdict import Attempt

NO_DIRECTION = "connections"  # label of records whose trials use both directions in turn


class PortRange(RecordModel):
    """Range of ports on one side of the connections."""

    min: int = Field(description="lowest port")
    max: int = Field(description="highest port")

    def __str__(self) -> str:
        """``"1024-65535"``."""
        return f"{self.min}-{self.max}"


class StatefulDevice(RecordModel):
    """A device between the tester's ports."""

    name: str = Field(description="name of the device")
    stateful: bool = Field(description="whether it tracks connections")


class ConnectionSetup(RecordModel):
    """Ranges of the connections, and the devices in the path (RFC 9693)."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"additionalProperties": True})

    initiator_ports: PortRange | None = Field(None, description="source ports")
    responder_ports: PortRange | None = Field(None, description="destination ports")
    initiator_count: int | None = Field(None, description="number of initiator addresses")
    responder_count: int | None = Field(None, description="number of responder addresses")
    combinations: int | None = Field(None, description="number of four-tuples")
    initiator_endpoints: int | None = Field(None, description="address-port pairs of initiators")
    usual_timeout_s: Number | None = Field(None, description="typical timeout of such devices [s]")
    mapping: str | None = Field(None, description="mapping behaviour that the RFCs require")
    devices: Sequence[StatefulDevice] = Field((), description="devices in the path, in order")


class ConnectionCounts(RecordModel):
    """Connections of phase 1, as counted by the tester and by the device (RFC 9693)."""

    connections: int = Field(description="connections requested")
    learned: int = Field(description="connections that the Responder learned")
    sessions: int | None = Field(description="sessions after phase 1; null: unknown")
    sessions_before: int | None = Field(description="sessions after the flush; null: unknown")
    initiator_endpoints: int | None = Field(description="address and port pairs before the device")
    public_endpoints: int | None = Field(description="address and port pairs behind the device")
    device: dict[str, Any] | None = Field(description="counters of the device's table")
    gap_s: Number | None = Field(description="time from phase 1 to the next frame, if known [s]")
    kept: bool = Field(description="whether they were open before the trial")


class ConnectionRateRecord(RateRecord):
    """Maximum connection establishment rate (RFC 9693 section 4.5)."""

    heading = "Maximum connection establishment rate"
    unit_name = "connections/s"
    unit: Literal["connections per second"] = Field(description="unit of rates")
    connections: int = Field(ge=1, description="connections of each trial")
    alpha: Number | None = Field(description="validation over connection rate; null: no validation")
    validated: bool = Field(description="whether every connection was validated")
    tolerance_connections: Literal[0] = Field(description="connections that may be missing: none")
    resolution_cps: Number = Field(description="error of the search [connections per second]")
    wait_s: Number | None = Field(None, description="wait for late frames after phase 1 [s]")
    counts: ConnectionCounts | None = Field(description="counts of the last trial that passed")
    setup: ConnectionSetup = Field(description="how the connections were made")

    @property
    def per_bucket(self) -> str:
        """Connections per bucket of the device's hash table, as text."""
        device = (self.counts.device if self.counts else None) or {}
        buckets = device.get("nf_conntrack_buckets")
        return f"{self.connections / buckets:.3g}" if buckets else "-"


C = TypeVar("C", bound=Record)
R = TypeVar("R", bound="ConnectionRateRecord")
S = TypeVar("S", bound=StrictModel)
X = TypeVar("X", bound="CapacityRecord")


def make_rate_record(kind: type[R], result: ConnectionRateResult, point: Point, **values: Any) -> R:
    """Make a record of the connection rate, over UDP or TCP."""
    spec = result.spec
    rates = [(r.rate_cps, r.attempts) for r in result.repetitions]
    errors = (r.search.compute_error_fps(spec.resolution_cps) for r in result.repetitions)
    capacity, margin = point.tester_capacity.rate_fps, point.procedure.selftest_margin
    return kind.from_result(
        result,
        point.run_conditions,
        **summarize_rates(rates, capacity, margin),
        direction=NO_DIRECTION,
        alpha=spec.phase_one.alpha,
        validated=spec.phase_one.alpha is not None,
        resolution_cps=max(errors, default=spec.resolution_cps),
        upper_bound_hit=any(r.search.hit_upper_bound for r in result.repetitions),
        wait_s=spec.phase_one.wait_s,
        counts=_count_connections(result.attempts, point.find),
        setup=describe_setup(point.context.technology),
        **values,
    )


def _count_connections(
    attempts: Sequence[Attempt], find_result: FindResult
) -> ConnectionCounts | None:
    """Return the counts of the last trial that passed."""
    passed = [a.trial.key for a in attempts if a.verdict.passed]
    phase_one = find_result(passed[-1]).connections if passed else None
    if phase_one is None:
        return None
    return ConnectionCounts(
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


class TeardownRecord(AnnotatedSeries, Record):
    """Connection tear-down rate (RFC 9693 section 4.8)."""

    heading = "Connection tear-down rate"
    unit_name = "connections/s"
    unit: Literal["connections per second"] = Field(description="unit of rates")
    rates: list[Number | None] = Field(description="each repetition's rate; null: undefined")
    connections: int = Field(ge=1, description="connections of each trial")
    established_at_cps: Number | None = Field(None, description="rate [connections per second]")
    rate_source: str = Field("", description="origin of that rate")
    method: str = Field(description="how the device's table is emptied")
    full_s: list[Number | None] = Field(description="time to empty a full table, by repetition [s]")
    idle_s: list[Number | None] = Field(description="time of the same command, table empty [s]")
    sessions: Sequence[int | None] = Field((), description="sessions of the full table")
    setup: ConnectionSetup = Field(description="how the connections were made")

    @property
    def repetition_values(self) -> Sequence[float | None]:
        return [rate for rate in self.rates if rate is not None]


class CapacitySearchStep(RecordModel):
    """Step of the search: a number of connections."""

    phase: str = Field(description="`first`, `exponential` or `binary`")
    connections: int = Field(description="connections requested")
    rate_cps: Number | None = Field(description="highest passed rate [connections per second]")
    carried: bool = Field(description="whether the table was large enough")


class CapacityRecord(Record):
    """Connection tracking table capacity (RFC 9693 section 4.9)."""

    heading = "Connection tracking table capacity"
    unit: Literal["connections"] = Field(description="unit of the capacity and the error")
    capacity: NonNegativeInt = Field(description="connections the table holds")
    rate_cps: Number = Field(description="rate at the capacity [connections per second]")
    first_failed: int | None = Field(description="smallest number of connections that failed")
    at_least: bool = Field(description="whether the capacity is a lower bound")
    most: int | None = Field(None, description="upper limit of the search")
    error: int = Field(ge=1, description="error of the search")
    c0: int = Field(description="connections of the first step")
    first_connections: int | None = Field(None, description="connections of the first passed step")
    r0: Number = Field(description="rate of the first search [connections per second]")
    alpha: Number | None = Field(description="validation over connection rate; null: no validation")
    beta: Number = Field(description="rate ratio below which the table is too small")
    gamma: Number = Field(description="smallest rate ratio at which the table is large enough")
    resolution_cps: Number | None = Field(None, description="search error [connections per second]")
    steps: list[CapacitySearchStep] = Field(description="the search, step by step")
    setup: ConnectionSetup = Field(description="how the connections were made")

    @property
    def is_bracketed(self) -> bool:
        """Whether the smallest failed number is within the search error of the capacity."""
        held = max((s.connections for s in self.steps if s.carried), default=0)
        failed = min((s.connections for s in self.steps if not s.carried), default=None)
        return failed is not None and held < failed <= held + self.error

    @property
    def capacity_text(self) -> str:
        """Capacity as text for a table."""
        return ("at least " if self.at_least else "") + format_count(self.capacity)

    @property
    def end_text(self) -> str:
        """Text about the end of the search, for a ruling."""
        return "no limit was found" if self.at_least else f"within {self.error:,} connections"


def make_capacity_record(
    kind: type[X],
    result: CapacityResult,
    point: Point,
    later: Sequence[Attempt] = (),
    **values: Any,
) -> X:
    """Make a record of the capacity; ``later``: trials after the search."""
    spec = result.spec
    if not result.capacity:
        failed = "a trial of 1 connection failed"
        values["not_measured"] = failed if result.first_failed else "the tester failed"
    return kind.from_result(
        RepeatedResult(spec, (result,), (*result.attempts, *later)),
        point.run_conditions,
        direction=NO_DIRECTION,
        capacity=result.capacity,
        rate_cps=result.rate_cps,
        first_failed=result.first_failed,
        at_least=result.first_failed is None,
        c0=spec.first,
        first_connections=result.first_connections,
        r0=result.first_rate_cps,
        alpha=spec.phase_one.alpha,
        steps=[CapacitySearchStep.model_validate(s, from_attributes=True) for s in result.steps],
        setup=describe_setup(point.context.technology),
        **values,
    )


def make_phase_one_settings(procedure: ProcedureSettings) -> PhaseOneSettings:
    """Make the settings of phase 1 from those of the run."""
    c = procedure.connections
    alpha = c.alpha if c.validate_connections else None
    return PhaseOneSettings(c.wait_ms / 1000, c.gap_ms / 1000, alpha, c.entries, c.keep)


def find_upper_bound(point: Point) -> dict[str, Any]:
    """Return the highest connection rate to offer, and its reason."""
    upper_cps, reason = point.procedure.connections.upper_cps, "given"
    if upper_cps is None or upper_cps >= point.limit_fps:
        upper_cps, reason = point.limit_fps, point.limit_reason
    return {"upper_bound_cps": upper_cps, "upper_bound_reason": reason}


def find_rate(point: Point) -> tuple[float, str]:
    """Return the connection rate of phase 1 (R in RFC 9693) and its origin."""
    c = point.procedure.connections
    return choose_rate(point, CONNECTION_RATE, "connection rate", c.rate_share, c.rate_cps)


def choose_rate(
    point: Point, benchmark: str, description: str, share: float, given_cps: float | None
) -> tuple[float, str]:
    """Return the configured rate, or a share of P1 of the measured rates, and its origin."""
    if given_cps is not None:
        return given_cps, "given"
    rates = point.measured_rates.get(benchmark, ())
    rate = percentile(rates, 1) if rates else 0.0
    return rate * share, f"{share:.0%} of P1 of the {description}"


def specify_rate_search(
    point: Point, phase_one: PhaseOneSettings, benchmark: str = CONNECTION_RATE
) -> ConnectionRateSpec:
    """Specify the search for the highest rate at which connections are established."""
    p, c, upper = point.procedure, point.procedure.connections, find_upper_bound(point)
    return point.specify(
        ConnectionRateSpec,
        p,
        **upper,
        connections=c.count,
        resolution_cps=c.resolution_cps or p.resolution_ratio * upper["upper_bound_cps"],
        phase_one=phase_one,
        benchmark=benchmark,
    )


def prepare_connections(point: Point, flows: int | None = None) -> Point | None:
    """Return the point with connections established before every trial, or None if no rate passed.

    Args:
        flows: number of connections that frames of both directions use in turn; None: that of the run.
    """
    c = point.procedure.connections
    rate_cps, source = find_rate(point)
    if not rate_cps:
        return None
    phase_one = replace(make_phase_one_settings(point.procedure), alpha=None)
    if flows:
        phase_one = replace(phase_one, entries=None)
    connections = phase_one.make_connections(flows or c.count, rate_cps)
    connections = replace(connections, reading="linear" if flows else c.reading)
    measure = ConnectionPreparer(point.measure, connections, c.retakes)
    conditions = {
        **encode(connections),
        "tcp": encode(connections.tcp),
        "rate_source": source,
        "delay_s": connections.phase_one_s + connections.wait_s + connections.gap_s,
        **describe_setup(point.context.technology),
    }
    return replace(
        point,
        measure=measure,
        find=measure.make_finder(point.find),
        extra_conditions={"connections": conditions},
    )


def describe_setup(plugin: MeasuredTechnology) -> dict[str, Any]:
    """Describe the ranges of the connections and the devices for a record."""
    technology: Any = plugin
    names = {"initiator_ports", "responder_ports", "initiator_count", "responder_count"}
    return {
        **technology.params.model_dump(mode="json", include=names),
        "combinations": technology.combinations,
        "initiator_endpoints": technology.params.endpoints,
        "usual_timeout_s": technology.usual_timeout_s,
        "mapping": technology.mapping,
        "devices": [{"name": r.name, "stateful": r.stateful} for r in technology.roles],
    }


class TableBenchmark(Benchmark[C, S]):
    """Benchmark of the device's connection table."""

    connection_use = "required"

    def list_deviations(self, context: RunContext) -> Iterator[str]:
        if not context.settings.procedure.connections.validate_connections:
            yield "connections are not validated: the device may have removed them"

    def make_csv_rows(self, point: Point, rows: Iterable[Collection[Any]]) -> list[CsvRow]:
        """Make the rows of the benchmark's CSV file, which have no direction."""
        return self.make_rows(point.make_conditions(), enumerate(map(tuple, rows), 1), NO_DIRECTION)


class CapacityRange(StrictModel):
    """Settings of a search for a number of connections."""

    first: ConnectionCount = Field(1_000_000, description="C0, connections of the first step.")
    most: ConnectionCount | None = Field(None, description="Upper limit; None: all four-tuples.")
    error: int = Field(1, ge=1, description="E, error of the search [connections].")


class CapacityBenchmark(TableBenchmark[C, S]):
    """Search for the largest number of simultaneous connections."""

    is_search = True
    fills_table = False

    def find_max_connections(self, context: RunContext) -> int:
        settings: Any = self.get_settings(context)
        most, combinations = settings.most, context.technology.combinations
        return combinations if most is None else min(combinations, most)

    def find_min_connections(self, context: RunContext) -> int:
        settings: Any = self.get_settings(context)
        return int(settings.first)

    def check(self, context: RunContext) -> None:
        super().check(context)
        first, most = self.find_min_connections(context), self.find_max_connections(context)
        if first > most:
            raise UsageError(
                f"the search begins with {first} connections, but their upper limit is {most}",
                f"lower {self.section}.first, raise {self.section}.most, or widen the ranges of "
                "ports and addresses",
                code="empty-range",
            )


def _make_count_column(
    heading: str, count_of: Callable[[ConnectionCounts], float | None]
) -> Column[ConnectionRateRecord]:
    """Make a table column of a count of connections."""

    def format_cell(record: ConnectionRateRecord) -> str:
        value = count_of(record.counts) if record.counts else None
        return ABSENT if value is None else f"{value:,g}" if value % 1 else f"{int(value):,}"

    return Column(heading, format_cell, wide=True)


_SEARCH_COLUMNS = common.describe_search_columns("connections per second")


class ConnectionRate(TableBenchmark[ConnectionRateRecord, StrictModel]):
    """Highest rate at which every new connection is established.

    RFC 9693 section 4.5. A binary search offers connections at a rate, from an empty table, and
    validates each of them by a frame back.
    """

    name = "connection-rate"
    csv_columns: ClassVar = {
        "Connections": "connections to establish",
        "Initial Rate": _SEARCH_COLUMNS["Initial Rate"],
        "Timeout": "wait for late frames after phase 1 [s]",
        "Alpha": "rate of the validation as a share of that of phase 1; empty: no validation",
        **_SEARCH_COLUMNS,
    }
    record = ConnectionRateRecord
    metrics: ClassVar = {"max connection establishment rate": "rate"}
    used_settings = RATE_SEARCH_SETTINGS
    phase = Phase.CONNECTIONS
    order = 10
    is_search = True

    def run(self, point: Point) -> Measurement:
        spec = specify_rate_search(point, make_phase_one_settings(point.procedure))
        result = measure_connection_rate(spec, point.measure, point.watch)
        alpha = "" if spec.phase_one.alpha is None else spec.phase_one.alpha
        rows = (
            (spec.connections, spec.upper_bound_cps, spec.phase_one.wait_s, alpha,
             r.search.compute_error_fps(spec.resolution_cps),
             *common.describe_attempts(point, r.attempts), r.rate_cps)
            for r in result.repetitions
        )  # fmt: skip
        record = make_rate_record(ConnectionRateRecord, result, point)
        return Measurement(record, self.make_csv_rows(point, rows), record.rates)

    columns = (
        Column(SIZES_HEADING, lambda r: r.sizes),
        Column("connections", lambda r: r.connections),
        *common.make_rate_columns("median\nconnections/s"),
        common.DISPERSION_COLUMN,
        Column("source\nports", lambda r: str(r.setup.initiator_ports or ABSENT)),
        Column("destination\nports", lambda r: str(r.setup.responder_ports or ABSENT)),
        Column("validated\nat", lambda r: f"{r.alpha:g} R" if r.validated else "not"),
        _make_count_column("DUT\ncounts", lambda c: c.sessions),
        _make_count_column("public\nendpoints", lambda c: c.public_endpoints),
        _make_count_column("DUT\ntimeout s", lambda c: (c.device or {}).get("timeout_s")),
        _make_count_column(
            "DUT's table\nentries", lambda c: (c.device or {}).get("nf_conntrack_max")
        ),
        Column("connections\nper bucket", lambda r: r.per_bucket, wide=True),
        common.WIDE_REPETITIONS_COLUMN,
        Column("search\nends within", lambda r: r.resolution_cps, wide=True),
    )

    def list_quantities(self, record: ConnectionRateRecord) -> Iterator[Quantity]:
        yield make_rate_quantity(record, f"{record.title}, {record.point}", record.resolution_cps)

    def check_clauses(
        self, data: RunData, records: Sequence[ConnectionRateRecord]
    ) -> Iterator[Ruling]:
        yield _judge_validation(data, records)
        counts = [r.counts for r in records if r.counts]
        missing = sum(c.connections - c.learned for c in counts)
        yield judge("RFC 9693 section 4.5", "no connection of phase 1 may be missing",
                    f"{missing:,} missing at the rates found; no tolerance can be set",
                    not missing if counts else None)  # fmt: skip
        coarsest = max((r.resolution_cps for r in records), default=None)
        yield judge("RFC 9693 section 4.5", "the search ends within 1,000 connections/s",
                    "not searched" if coarsest is None else f"within {coarsest:,.0f}",
                    None if coarsest is None else coarsest <= 1000)  # fmt: skip
        before = [c.sessions_before for c in counts]
        known = [n for n in before if n is not None]
        yield judge("RFC 9693 section 4.5", "an empty connection table before every step",
                    "emptied; the device counted " + (f"at most {max(known):,}" if known else "-")
                    if known else "emptied; the device does not report its count",
                    (not any(known)) if known and len(known) == len(before) else None)  # fmt: skip
        yield common.check_repetitions(self.name, records)


class CapacitySettings(CapacityRange):
    """Settings of the search for the table's capacity; the defaults are the RFC's example."""

    beta: float = Field(0.1, gt=0, le=1, description="The table is too small below this ratio.")
    gamma: float = Field(0.5, gt=0, le=1, description="Smallest ratio of a large enough table.")
    resolution_cps: float | None = Field(default=None, gt=0)
    """Error of the rate searches; None: as for the connection rate."""


class Capacity(CapacityBenchmark[CapacityRecord, CapacitySettings]):
    """Number of connections that the device's table holds.

    RFC 9693 section 4.9. The number of connections grows until the device loses some or their
    rate collapses; a binary search then halves the interval.
    """

    name = "capacity"
    csv_columns: ClassVar = {
        "phase": "phase of the search: `first`, `exponential` or `binary`",
        "connections": "connections to establish",
        "rate": "highest rate at which they were established; empty: none [connections per second]",
        "carried": "the table is large enough for them",
    }
    record = CapacityRecord
    phase = Phase.TABLE
    order = 20
    requires_single_size = True
    settings_model = CapacitySettings
    quick_settings = CapacitySettings(first=10_000, most=500_000, error=2000, beta=0.5)

    def check(self, context: RunContext) -> None:
        c = self.get_settings(context)
        if c.beta > c.gamma:
            problem = f"beta = {c.beta:g} is larger than gamma = {c.gamma:g}"
            hint = "a table that is too small must be slower than one that is large enough"
            raise UsageError(problem, hint, code="out-of-range")
        super().check(context)

    def run(self, point: Point) -> Measurement:
        p, settings = point.procedure, self.get_settings(point.context)
        upper, most = find_upper_bound(point), self.find_max_connections(point.context)
        resolution_cps = settings.resolution_cps or p.connections.resolution_cps
        spec = point.specify(
            CapacitySpec,
            settings,
            **upper,
            first=min(settings.first, most),
            most=most,
            resolution_cps=resolution_cps or p.resolution_ratio * upper["upper_bound_cps"],
            phase_one=make_phase_one_settings(p),
        )
        result = measure_capacity(spec, point.measure, point.watch)
        record = make_capacity_record(CapacityRecord, result, point)
        rows = self.make_csv_rows(point, (dict(s).values() for s in record.steps))
        return Measurement(record, rows)

    columns = (
        Column(SIZES_HEADING, lambda r: r.sizes),
        Column("capacity\nconnections", lambda r: r.capacity_text),
        Column("error", lambda r: r.error),
        Column("rate at it\nconnections/s", lambda r: r.rate_cps),
        Column("C0", lambda r: r.first_connections),
        Column("R0", lambda r: r.r0),
        Column("alpha", lambda r: "-" if r.alpha is None else f"{r.alpha:g}"),
        Column("beta", lambda r: f"{r.beta:g}"),
        Column("gamma", lambda r: f"{r.gamma:g}"),
        Column("steps", lambda r: str(len(r.steps))),
    )

    def list_quantities(self, record: CapacityRecord) -> Iterator[Quantity]:
        yield make_capacity_quantity(self.name, record)

    def check_clauses(self, data: RunData, records: Sequence[CapacityRecord]) -> Iterator[Ruling]:
        for r in records:
            yield judge("RFC 9693 section 4.9",
                        "exponential, then binary search for the capacity",
                        f"{r.sizes}: from {r.c0:,} on, beta {r.beta:g}, gamma {r.gamma:g}; {r.end_text}",
                        not r.at_least and r.is_bracketed)  # fmt: skip
        yield _judge_validation(data, records)


class TeardownSettings(StrictModel):
    """Settings of the tear-down rate (RFC 9693 section 4.8)."""

    repetitions: RepetitionCount | None = Field(None, description="None: as for throughput.")


class Teardown(TableBenchmark[TeardownRecord, TeardownSettings]):
    """Rate at which the device empties a full connection table.

    RFC 9693 section 4.8. The device deletes its full table, then an empty one. The rate is the
    number of connections over the difference of both times.
    """

    name = "teardown"
    csv_columns: ClassVar = {
        "Connections": "connections in the table",
        "full_s": "time to empty the full table; empty: not measured [s]",
        "idle_s": "time to empty the empty table; empty: not measured [s]",
        "rate": "connections by the difference of both times; empty: undefined [connections per second]",
    }
    record = TeardownRecord
    phase = Phase.TABLE
    order = 10
    requires_single_size = True
    settings_model = TeardownSettings

    def run(self, point: Point) -> Measurement:
        rate_cps, source = find_rate(point)
        if not rate_cps:
            raise NotMeasured("no connection rate passed")
        p, c = point.procedure, point.procedure.connections
        spec = point.specify(
            TeardownSpec,
            self.get_settings(point.context),
            connections=c.count,
            rate_cps=rate_cps,
            rate_source=source,
            phase_one=make_phase_one_settings(p),
            retakes=c.retakes,
        )
        result = measure_teardown(spec, point.measure, point.watch)
        rates = [r.compute_rate_cps(spec.connections) for r in result.repetitions]
        unknown = "emptying a full table took no longer than emptying an empty one"
        record = TeardownRecord.from_result(
            result,
            point.run_conditions,
            direction=NO_DIRECTION,
            not_measured=unknown if all(rate is None for rate in rates) else None,
            rates=rates,
            established_at_cps=spec.rate_cps,
            method=point.context.flush_description,
            **{
                name: [getattr(r, name) for r in result.repetitions]
                for name in ("full_s", "idle_s", "sessions")
            },
            setup=describe_setup(point.context.technology),
        )
        rows = (
            (spec.connections, r.full_s, r.idle_s, rate)
            for r, rate in zip(result.repetitions, rates, strict=True)
        )
        return Measurement(record, self.make_csv_rows(point, rows))

    columns = (
        Column(SIZES_HEADING, lambda r: r.sizes),
        Column("connections", lambda r: r.connections),
        *common.make_rate_columns("median\nconnections/s"),
        Column("full table\ns", lambda r: _format_longest_time(r.full_s)),
        Column("empty table\ns", lambda r: _format_longest_time(r.idle_s)),
        common.REPETITIONS_COLUMN,
    )

    def list_quantities(self, record: TeardownRecord) -> Iterator[Quantity]:
        yield make_rate_quantity(record, f"{record.title}, {record.point}")

    def check_clauses(self, data: RunData, records: Sequence[TeardownRecord]) -> Iterator[Ruling]:
        rates = [rate for r in records for rate in r.rates]
        undefined = sum(rate is None for rate in rates)
        yield judge("RFC 9693 section 4.8",
                    "N / (t(N) - t(0)), the device empties its table",
                    "both times taken with the same command"
                    + (f"; {undefined} of {len(rates)} are undefined" if undefined else ""),
                    not undefined if rates else None)  # fmt: skip
        yield common.check_repetitions(self.name, records)


def make_rate_quantity(
    record: ConnectionRateRecord | TeardownRecord,
    label: str,
    resolution_cps: float = 0.0,
    unit: str = "connections/s",
) -> Quantity:
    """Make the quantity of a connection rate; ``label`` and ``unit`` are for its card."""
    what = f"{label}, {record.connections:,} connections, median of {record.repetitions}"
    return common.make_rate_quantity(
        record,
        unit="connections/s",
        resolution=resolution_cps,
        headline=record.benchmark,
        card=(unit, what),
    )


def make_capacity_quantity(name: str, record: CapacityRecord) -> Quantity:
    """Make the quantity of a capacity, or of its lower bound."""
    summary = Percentiles(*(record.capacity,) * 3)
    headline = LOWER_BOUND if record.at_least else name
    return Quantity("", "connections", (), headline=headline, summary=summary)


def _judge_validation(data: RunData, records: Sequence[Record]) -> Ruling:
    """Check that every connection was validated."""
    connections = [t.result.connections for t in data.list_valid_trials(records)]
    filled = [c for c in connections if c is not None and c.is_complete]
    tried = [c.validated is not None for c in filled]
    return judge("RFC 9693 section 4.6", "every connection is validated",
                 f"in {sum(tried)} of {len(tried)} trials that made them all",
                 tried)  # fmt: skip


def _format_longest_time(times_s: Sequence[float | None]) -> str:
    return format_seconds(max((t for t in times_s if t is not None), default=None))
