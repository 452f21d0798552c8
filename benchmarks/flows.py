"""Throughput by number of flows, and the probe of receive-side scaling."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import Field
from v6t.analysis.presentation import Quantity, TableRow
from v6t.analysis.record import CsvRow, Number, Record, RepeatedFigure, SearchedRates, ValueSeries
from v6t.analysis.scaling import XPD_FORMULA, XPD_LOWER_FORMULA, compute_degradation
from v6t.analysis.sheet import (
    ABSENT,
    SIZES_HEADING,
    UNDEFINED,
    Column,
    Table,
    format_count,
    format_milliseconds,
    make_text_columns,
    make_text_table,
)
from v6t.base.errors import UsageError
from v6t.base.strict_model import StrictModel
from v6t.benchmarks import common, registry
from v6t.benchmarks.base import Benchmark, Phase
from v6t.benchmarks.connections import find_rate, prepare_connections
from v6t.benchmarks.point import Measurement, NotMeasured, Point, RunContext, TechnologyClass
from v6t.benchmarks.settings import SEARCH_SETTINGS
from v6t.benchmarks.throughput import ThroughputRecord, make_search_record, specify_search
from v6t.packets.direction import DIRECTIONS
from v6t.procedures.flows import (
    FlowPoint,
    StartMode,
    list_flow_points,
    make_flow_starts,
    specify_flow_search,
)
from v6t.procedures.rss_probe import PROBE_CASES, ProbeCase, recommend_fields
from v6t.procedures.throughput import BENCHMARK as THROUGHPUT
from v6t.procedures.throughput import ThroughputResult, measure_throughput
from v6t.profiles import entropy
from v6t.profiles.entropy import find_variation, hold_variables
from v6t.profiles.model import Role
from v6t.trials.trial import Capability, list_directions

_CASE_LABELS = {
    "fixed": "fixed ports and addresses",
    "ports": "ports vary",
    "addresses": "addresses vary",
    "both": "ports and addresses vary",
}

MAX_VALUE_COLUMNS = 6  # with more quantities, a table has rows in place of columns
ALL_STARTS: tuple[StartMode, ...] = ("together", "successive")  # default start modes


class VariantRates(SearchedRates):
    """Throughput of one variant of the traffic; rates per direction."""

    resolution_fps: Number = Field(description="search error [frames per second per direction]")
    matched: Number | None = Field(description="share of checked frames that were correct")
    decisive_trials: list[str] = Field(description="keys of the highest passed trials")


class FlowRates(VariantRates):
    """Throughput of a number of flows."""

    flows: int = Field(description="network flows in each direction")
    start: str = Field(description="how the flows begin: `together` or `successive`")
    degradation_percent: Number | None
    """Xpd = (X1 - Xn) / X1; negative: n flows are faster than one (RFC 8219 section 10.2.1) [%]"""
    duration_s: Number = Field(description="length of the trials [s]")


class FlowDegradation(ValueSeries):
    """Quantity of another benchmark at a number of flows, and its degradation from one flow."""

    benchmark: str = Field(description="benchmark of the quantity")
    figure: str = Field(description="name of the quantity")
    unit: str = Field(description="unit of its values")
    more_is_better: bool = Field(description="whether larger values are better")
    flows: int = Field(description="network flows in each direction")
    start: str = Field(description="how the flows begin: `together` or `successive`")
    rate: Number | None = Field(description="applied rate, if not the result [fps per direction]")
    degradation_percent: Number | None
    """Xpd = (X1 - Xn) / X1 if larger values are better, else (Xn - X1) / X1; null: undefined, or X1 is 0.
    A smallest IPDV is negative, and worse the farther it is from 0 [%]"""


class VariantsRecord(Record):
    """Throughput of several variants of the traffic."""

    unit: Literal["frames per second"] = Field(description="unit of all rates")
    convention: Literal["per_direction"] = Field(description="rates are per direction")

    @property
    def variants(self) -> Iterable[VariantRates]:
        """Rates of each variant."""
        return ()

    @property
    def limited(self) -> bool:
        return any(rates.limited for rates in self.variants)


class FlowsRecord(VariantsRecord):
    """Throughput by the number of network flows (RFC 8219 section 10)."""

    heading = f"Throughput by network flows, {XPD_FORMULA}"
    interval_s: Number = Field(description="time between the starts of two successive flows [s]")
    points: list[FlowRates] = Field(description="rates by number of flows; the first is one flow")
    figures: Sequence[FlowDegradation] = Field((), description="figures of other benchmarks")

    @property
    def duration_s(self) -> float | None:
        """Length of the longest trials [s]."""
        return max((p.duration_s for p in self.points), default=None)

    @property
    def all_figures(self) -> list[FlowDegradation]:
        """Figures of the throughput and of the further benchmarks."""
        rates = [
            FlowDegradation(
                benchmark=THROUGHPUT,
                figure="rate",
                unit="fps",
                more_is_better=True,
                flows=p.flows,
                start=p.start,
                rate=p.median,
                values=p.rates,
                degradation_percent=p.degradation_percent,
            )
            for p in self.points
        ]
        return [*rates, *self.figures]

    @property
    def variants(self) -> Iterable[VariantRates]:
        return self.points


class ProbeRecord(VariantsRecord):
    """Throughput by the header fields that vary (RFC 4814)."""

    heading = "Entropy this device needs (throughput by what varies)"
    cases: Mapping[str, VariantRates] = Field(description="rates of each case")
    use: str | None = Field(description="the case that suffices; null: unknown")
    why: str = Field(description="reason for the recommendation")
    duration_s: Number | None = Field(None, description="length of the trials [s]")

    @property
    def variants(self) -> Iterable[VariantRates]:
        return self.cases.values()


def _list_degradations(
    further: Sequence[tuple[Benchmark[Any, Any], FlowPoint, Record]],
) -> Iterator[FlowDegradation]:
    """Yield the degradation of each quantity of the other benchmarks from one flow."""
    base: dict[tuple[str, str], float | None] = {}
    for benchmark, point, record in further:
        rate = record.offered_rates[0] if len(record.offered_rates) == 1 else None
        for result in benchmark.list_reported(record) if record.measured else ():
            figure = RepeatedFigure(values=result.values)
            key = benchmark.name, result.name
            if point.flows == 1:
                base[key] = figure.median
            one, many, more = base.get(key), figure.median, result.more_is_better
            yield FlowDegradation(
                benchmark=benchmark.name,
                figure=result.name,
                unit=result.unit,
                more_is_better=more,
                flows=point.flows,
                start=point.start,
                rate=rate,
                values=figure.values,
                degradation_percent=compute_degradation(many, one, more_is_better=more)
                if one and many is not None and (one > 0 or not more)
                else None,
            )


def _merge_trials(records: Sequence[Record]) -> dict[str, Any]:
    """Return the trials of several records as fields of one record."""
    return {
        "trials": [key for record in records for key in record.trials],
        "invalid_trials": [trial for record in records for trial in record.invalid_trials],
    }


def _select_rates(record: ThroughputRecord, kind: type[VariantRates]) -> dict[str, Any]:
    """Return the fields of a throughput record that ``kind`` also has."""
    return record.model_dump(include={*kind.model_fields}, exclude_unset=True)


DEGRADATION_FILE = "flows-degradation.csv"  # CSV file of all figures by number of flows

_RATE_COLUMNS = common.make_rate_columns("median fps\nper direction")
_LIMIT_COLUMNS: tuple[Column[TableRow], ...] = (
    Column("tester's own\ncapacity", lambda line: line.value.tester_ceiling, wide=True),
    Column("frames\nmatched", lambda line: common.format_match_share(line.value.matched)),
)


class FlowSettings(StrictModel):
    """Settings of the benchmarks by number of network flows."""

    counts: tuple[Annotated[int, Field(ge=1, le=65_535)], ...] = (1, 10, 100)
    """Numbers of flows; one flow is always measured, as the base of Xpd."""
    starts: tuple[StartMode, ...] = Field(ALL_STARTS, description="Flow start modes to measure.")
    interval_s: float = Field(1.0, gt=0, le=3600, description="Time between two starts [s].")
    quarters: bool = Field(False, description="Also 1/4, 1/2 and 3/4 of the maximum.")
    also: tuple[str, ...] = Field((), description="Further benchmarks with each number of flows.")
    also_starts: tuple[StartMode, ...] = Field(ALL_STARTS, description="Start modes for ``also``.")


def _format_start(record: FlowsRecord, point: FlowRates | FlowDegradation) -> str:
    if point.flows == 1:
        return ABSENT
    return f"one every {record.interval_s:g} s" if point.start == "successive" else point.start


V = TypeVar("V", bound=VariantsRecord)
S = TypeVar("S", bound=StrictModel)


class VariantBenchmark(Benchmark[V, S]):
    """Search for the throughput of several variants of the traffic."""

    phase = Phase.VARIANTS
    is_search = True
    used_settings = SEARCH_SETTINGS

    def list_search_rows(self, result: ThroughputResult, *variant: Any) -> list[CsvRow]:
        """Return a row for each repetition of the search with a variant."""
        rows = ((r.number, (r.rate_fps, len(r.attempts), *variant)) for r in result.repetitions)
        return self.make_rows(result.spec.conditions, rows)


class Flows(VariantBenchmark[FlowsRecord, FlowSettings]):
    """Throughput of one flow, and its degradation with more flows.

    RFC 8219 section 10. A throughput search for one flow, then for each number of flows; Xpd is
    the degradation from one flow.
    """

    name = "flows"
    csv_columns: ClassVar = {
        "rate": common.SEARCH_COLUMNS["rate"],
        "Iterations": common.SEARCH_COLUMNS["Iterations"],
        "flows": "number of flows",
        "start": "how flows begin: `together` or `successive`",
    }
    extra_csv_columns: ClassVar = {
        DEGRADATION_FILE: {
            "Size": common.FIRST_CSV_COLUMNS["Size"],
            "Dir": common.FIRST_CSV_COLUMNS["Dir"],
            "benchmark": "benchmark measured with this number of flows",
            "figure": "name of the figure",
            "unit": "unit of the figure",
            "flows": "number of flows",
            "start": "how flows begin: `together` or `successive`",
            "interval_s": "time between the starts of two flows; empty: they start together [s]",
            "applied_fps": "rate offered; empty: the figure is a rate [frames per second per direction]",
            "median": "median of the figure [see `unit`]",
            "P1": "1st percentile [see `unit`]",
            "P99": "99th percentile [see `unit`]",
            "better": "`higher` or `lower`: which value is better",
            "Xpd_percent": "degradation from one flow (RFC 8219, section 10.2) [%]",
        }
    }
    record = FlowsRecord
    order = 10
    connection_use = "optional"
    settings_model = FlowSettings
    quick_settings = FlowSettings(counts=(1, 16), interval_s=0.02)

    def list_capabilities(self, context: RunContext) -> frozenset[Capability]:
        settings = self.get_settings(context)
        is_successive = "successive" in settings.starts
        capabilities: set[Capability] = {"flow-starts"} if is_successive else set()
        is_staggered = is_successive and "successive" in settings.also_starts
        for benchmark in self.list_parts(context):
            needs = benchmark.list_capabilities(context)
            capabilities |= needs
            if needs and is_staggered and benchmark.can_stagger_flows:
                capabilities.add("timed-flow-starts")
        return frozenset(capabilities)

    def list_parts(self, context: RunContext) -> Sequence[Benchmark[Any, Any]]:
        return [registry.load(name) for name in self.get_settings(context).also]

    def list_deviations(self, context: RunContext) -> Iterator[str]:
        if context.settings.connects:
            yield "flows: each connection is a flow, and frames use them in turn in both directions"
        else:
            technology, size = context.technology, context.settings.frame_sizes[0]
            pair, _ = technology.make_sizes(size).pair_counts[0]  # a mix has the same flows
            classes = technology.build_sized_traffic("forward", pair).classes
            names = [c.name for c in classes if c.role is not Role.NEGATIVE]
            if len(names) > 1:
                yield f"flows: {' and '.join(names)} have the stated number of flows each"
        settings, parts = self.get_settings(context), self.list_parts(context)
        for each in parts:
            yield from each.list_deviations(context)
        is_staggered = "successive" in settings.also_starts
        names = [b.name for b in parts if not (is_staggered and b.can_stagger_flows)]
        if names and "successive" in settings.starts:
            yield f"with flows that begin one after the other {' and '.join(names)} is not measured"

    def list_setting_warnings(self, context: RunContext) -> Iterator[str]:
        for each in self.list_parts(context):
            yield from each.list_setting_warnings(context)

    def check(self, context: RunContext) -> None:
        for each in self.list_parts(context):
            if (
                each.phase is not Phase.STREAMS
                or each.connection_use == "required"
                or each.name == "throughput"
            ):
                raise UsageError(
                    f"flows.also: {each.name} cannot be combined with flows",
                    "name for example frame-loss, latency, pdv, ipdv, back-to-back, system-recovery",
                    code="unknown-name",
                )
            each.check(context)
        if context.settings.connects:  # each connection is a flow
            return
        plugin, most = context.technology, self._find_max_flows(context)
        for sizes in map(plugin.make_sizes, context.settings.frame_sizes):
            for direction in DIRECTIONS:
                entropy.limit_flows(plugin.build_sized_traffic(direction, sizes), most)

    def find_max_connections(self, context: RunContext) -> int:
        return max(super().find_max_connections(context), self._find_max_flows(context))

    def _find_max_flows(self, context: RunContext) -> int:
        return max(self.get_settings(context).counts, default=1)

    def run(self, point: Point) -> Measurement:
        if point.context.settings.connects and not find_rate(point)[0]:
            raise NotMeasured("no connection rate passed")
        points, rows, searches = [], [], []
        further: list[tuple[Benchmark[Any, Any], FlowPoint, Record]] = []
        at, settings = point, self.get_settings(point.context)
        for each in self._list_points(point):
            at = self._vary_point(point, each)
            words = f"{each.flows} flows, {each.start}" if each.flows > 1 else "one flow"
            message = f"{at.sizes.label} octets, {at.mode}: {words}"
            at.runner.on_message(message)
            search = specify_search(at, at.make_conditions())
            spec = specify_flow_search(search, each, settings.interval_s)
            result = measure_throughput(spec, at.measure, at.watch)
            searches.append(result)
            points.append((each, make_search_record(at, result)))
            rows += self.list_search_rows(result, each.flows, each.start)
            measured = replace(
                at,
                trial_conditions={
                    "variant": each.variant,
                    "flow_starts": make_flow_starts(each, settings.interval_s),
                },
                measured_rates={
                    **point.measured_rates,
                    THROUGHPUT: [r.rate_fps for r in result.repetitions],
                },
            )
            for benchmark in self._list_parts(point, each):
                at.runner.on_message(f"{message}, {benchmark.name}")
                further.append((benchmark, each, benchmark.measure(measured).record))
        records = [record for _, record in points] + [record for *_, record in further]
        base = points[0][1].median
        record = FlowsRecord.from_result(
            searches[0],
            at.run_conditions,
            benchmark=self.name,
            **_merge_trials(records),
            figures=list(_list_degradations(further)),
            interval_s=settings.interval_s,
            points=[
                {
                    "flows": each.flows,
                    "start": each.start,
                    "degradation_percent": compute_degradation(r.median, base) if base else None,
                    **_select_rates(r, FlowRates),
                }
                for each, r in points
            ],
        )
        extra_rows = {DEGRADATION_FILE: self._list_degradation_rows(record)}
        return Measurement(record, rows, extra_rows=extra_rows)

    def _list_degradation_rows(self, record: FlowsRecord) -> list[CsvRow]:
        """Return a row for each figure, number of flows and order of starts (RFC 8219 section 10.2)."""
        return [
            dict(zip(self.extra_csv_columns[DEGRADATION_FILE], (
                record.frame_sizes.size_or_mix, record.direction[0], f.benchmark, f.figure, f.unit, f.flows,
                f.start, record.interval_s if f.start == "successive" else "",
                "" if f.rate is None else f.rate, f.median, f.p1, f.p99,
                "higher" if f.more_is_better else "lower", f.degradation_percent,
            ), strict=True))
            for f in record.all_figures
        ]  # fmt: skip

    def _vary_point(self, point: Point, flow: FlowPoint) -> Point:
        """Return the point with traffic, or connections, of a number of flows."""
        if not point.context.settings.connects:
            return point.runner.vary(flow.variant, partial(entropy.limit_flows, count=flow.flows))
        return prepare_connections(point, flow.flows) or point

    def _list_parts(self, point: Point, flow: FlowPoint) -> Sequence[Benchmark[Any, Any]]:
        """List the benchmarks to measure with a number of flows."""
        if flow.flows > 1 and flow.start not in self.get_settings(point.context).also_starts:
            return ()
        # frames of flows that have not started are omitted, which leaves gaps in a burst
        benchmarks = self.list_parts(point.context)
        return [b for b in benchmarks if b.can_stagger_flows or flow.start == "together"]

    def _list_points(self, point: Point) -> list[FlowPoint]:
        settings, most = self.get_settings(point.context), self._find_max_flows(point.context)
        parts = {max(1, most * part // 4) for part in (1, 2, 3)} if settings.quarters else set()
        return list(list_flow_points([*settings.counts, *parts], settings.starts))

    columns = (
        *common.POINT_COLUMNS,
        Column("flows", lambda line: f"{line.value.flows:,}"),
        Column("start", lambda line: _format_start(line.record, line.value), text=True),
        *_RATE_COLUMNS,
        Column("Xpd %", lambda line: _format_xpd(line.value.degradation_percent)),
        *_LIMIT_COLUMNS,
    )

    def list_rows(self, records: Sequence[FlowsRecord]) -> list[TableRow]:
        return [TableRow(record, point) for record in records for point in record.points]

    def make_tables(self, records: Sequence[FlowsRecord]) -> Iterator[Table]:
        yield self.make_main_table(records)
        for name in dict.fromkeys(f.benchmark for r in records for f in r.figures):
            yield _make_benchmark_table(name, records)
        if len({r.sizes for r in records}) > 1:
            yield from _make_size_tables(records)

    def list_quantities(self, record: FlowsRecord) -> Iterator[Quantity]:
        for point in record.points:
            flows = f"{point.flows:,} flows"
            started = f"{flows}, {point.start}"
            yield _make_quantity(point, f"rate, {started}", started if point.flows > 1 else flows)
        for figure in record.figures:
            name = f"{figure.benchmark}, {figure.figure}, {figure.flows:,} flows, {figure.start}"
            load = "" if figure.rate is None else f"{figure.rate:,.0f} fps"
            yield Quantity(name, figure.unit, figure.values, figure.more_is_better, load=load)


class RssProbe(VariantBenchmark[ProbeRecord, StrictModel]):
    """Probe of the header fields that spread frames over the device's cores.

    RFC 4814. A throughput search each for fixed headers, varying ports, varying addresses, and
    both.
    """

    name = "rss-probe"
    csv_columns: ClassVar = {
        "rate": common.SEARCH_COLUMNS["rate"],
        "Iterations": common.SEARCH_COLUMNS["Iterations"],
        "case": "what varies: addresses, ports, both or nothing",
    }
    record = ProbeRecord
    order = 20
    runs_alone = True
    included_in_all = False

    def suggest_parameters(self, plugin: TechnologyClass) -> Mapping[str, Any]:
        return dict(plugin.varying_params)

    def check(self, context: RunContext) -> None:
        """Check that ports and addresses of the traffic vary."""
        plugin, run = context.technology, context.settings
        sizes = plugin.make_sizes(run.frame_sizes[0])
        active = {direction for mode in run.modes for direction in list_directions(mode)}
        for direction in (d for d in DIRECTIONS if d in active):
            ports, addresses = find_variation(plugin.build_sized_traffic(direction, sizes))
            if not (ports and addresses):
                what = "ports" if addresses else "addresses"
                raise UsageError(
                    f"the {what} of {plugin.name}'s {direction} traffic do not vary, so there is "
                    "nothing to probe",
                    f"`v6t plugins {plugin.name}` lists the parameters that let them vary",
                    code="unsuitable-benchmark",
                )

    def run(self, point: Point) -> Measurement:
        by_case: dict[ProbeCase, ThroughputRecord] = {}
        rows, searches = [], []
        at = point
        for case in PROBE_CASES:
            ports, addresses = case in ("fixed", "addresses"), case in ("fixed", "ports")
            change = partial(hold_variables, ports=ports, addresses=addresses)
            at = point.runner.vary(f"{case}-", change)
            at.runner.on_message(f"{at.sizes.label} octets, {at.mode}: {self.name}, {case}")
            spec = specify_search(at, at.make_conditions(variant=f"{case}-"))
            result = measure_throughput(spec, at.measure, at.watch)
            searches.append(result)
            by_case[case] = make_search_record(at, result)
            rows += self.list_search_rows(result, case)
        limited = [case for case, record in by_case.items() if record.limited]
        rates_fps = {case: record.median for case, record in by_case.items()}
        advice = recommend_fields(rates_fps, limited)
        record = ProbeRecord.from_result(
            searches[0],
            at.run_conditions,
            benchmark=self.name,
            **_merge_trials(list(by_case.values())),
            cases={case: _select_rates(record, VariantRates) for case, record in by_case.items()},
            use=advice.use,
            why=advice.why,
        )
        return Measurement(record, rows)

    columns = (
        *common.POINT_COLUMNS,
        Column("case", lambda line: _CASE_LABELS[line.case], text=True),
        *_RATE_COLUMNS,
        *_LIMIT_COLUMNS,
        Column("use", lambda line: "this" if line.case == line.record.use else "", text=True),
    )

    def list_rows(self, records: Sequence[ProbeRecord]) -> list[TableRow]:
        return [
            TableRow(r, rates, case=case)
            for r in records
            for case, rates in sorted(r.cases.items())
        ]

    def list_quantities(self, record: ProbeRecord) -> Iterator[Quantity]:
        for case, variant in sorted(record.cases.items()):
            varying = "nothing" if case == "fixed" else case
            yield _make_quantity(variant, f"rate, varying: {varying}")

    def find_warnings(self, record: ProbeRecord) -> Iterator[tuple[str, str]]:
        yield "advice", record.why


def _make_benchmark_table(name: str, records: Sequence[FlowsRecord]) -> Table:
    """Make the table of another benchmark by flows, with a column or row for each value."""
    pairs = [(r, f) for r in records for f in r.figures if f.benchmark == name]
    figures = list(dict.fromkeys((f.figure, f.unit) for _, f in pairs))
    formula = XPD_FORMULA if all(f.more_is_better for _, f in pairs) else XPD_LOWER_FORMULA
    by_point: dict[tuple[str, ...], dict[str, tuple[str, str]]] = {}
    for r, f in pairs:
        applied = ABSENT if f.rate is None else format_count(f.rate)
        point = (r.sizes, r.direction, f"{f.flows:,}", _format_start(r, f), applied)
        cells = _format_value(f), _format_xpd(f.degradation_percent)
        by_point.setdefault(point, {})[f.figure] = cells
    names = [SIZES_HEADING, *make_text_columns("direction"), "flows", *make_text_columns("start")]
    names.append("applied fps\nper direction")
    if len(figures) > MAX_VALUE_COLUMNS:
        names += [*make_text_columns("value"), f"median\n{figures[0][1]}", "Xpd %"]
        rows = [
            (*point, key, *cells) for point, row in by_point.items() for key, cells in row.items()
        ]
    else:
        names += [name for key, unit in figures for name in (f"{key}\n{unit}", "Xpd %")]
        rows = [
            (*point, *(cell for key, _ in figures for cell in row.get(key, (ABSENT, ABSENT))))
            for point, row in by_point.items()
        ]
    return make_text_table(f"{name} by network flows, medians, {formula}", names, rows)


def _make_size_tables(records: Sequence[FlowsRecord]) -> Iterator[Table]:
    """Make a table of each benchmark with a column for each frame size (RFC 8219 section 10.2.1)."""
    by_benchmark: dict[str, dict[tuple[str, ...], dict[str, str]]] = {}
    for r in records:
        for f in r.all_figures:
            if f.flows > 1:
                point = (r.direction, f"{f.flows:,}", _format_start(r, f), f.figure)
                applied = "" if f.rate is None else f" at {format_count(f.rate)}"
                cells = by_benchmark.setdefault(f.benchmark, {}).setdefault(point, {})
                cells[r.sizes] = _format_xpd(f.degradation_percent) + applied
    sizes = list(dict.fromkeys(r.sizes for r in records))
    names = [*make_text_columns("direction"), "flows", *make_text_columns("start", "value"), *sizes]
    for name, points in by_benchmark.items():
        title = f"{name} by network flows, Xpd % at the applied fps per direction, by frame size"
        rows = [(*point, *(cells.get(s, ABSENT) for s in sizes)) for point, cells in points.items()]
        yield make_text_table(title, names, rows)


def _format_xpd(percent: float | None) -> str:
    return UNDEFINED if percent is None else f"{percent:+.2f}"


def _format_value(figure: FlowDegradation) -> str:
    if figure.median is None:
        return UNDEFINED
    if figure.unit == "ms":
        return format_milliseconds(figure.median)
    return f"{figure.median:.4f}" if figure.unit == "%" else f"{figure.median:,.6g}"


def _make_quantity(variant: VariantRates, name: str, headline: str = "") -> Quantity:
    resolution = variant.resolution_fps
    return common.make_rate_quantity(variant, name, resolution=resolution, headline=headline)
