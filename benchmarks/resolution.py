"""DNS resolution performance: RFC 8219 section 9.2 with its table of two dimensions."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from v6t.analysis.blocks import Drawing
from v6t.analysis.figures.plots import draw_errorbars, make_summary_curve
from v6t.analysis.presentation import Card, Quantity, Ruling, TableRow, judge
from v6t.analysis.record import (
    FindResult,
    Number,
    Record,
    RecordModel,
    RepetitionSeries,
    SearchedRates,
    is_bounded_by_tester,
)
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import (
    ABSENT,
    Column,
    Table,
    format_count,
    make_text_columns,
    make_text_table,
    mark_limited,
)
from v6t.base.errors import UsageError
from v6t.base.strict_model import StrictModel
from v6t.benchmarks import common
from v6t.benchmarks.base import RFC_REPETITIONS, RFC_TRIAL_S, Benchmark, Phase
from v6t.benchmarks.point import Measurement, Point, RunContext
from v6t.benchmarks.settings import SEARCH_SETTINGS, Flag
from v6t.benchmarks.throughput import find_decisive_trial, specify_search
from v6t.procedures.resolution import SELFTEST_TIMEOUT_SHARE, ResolutionSpec, compute_covered_qps
from v6t.procedures.throughput import ThroughputResult, find_error_fps, measure_throughput
from v6t.trials.trial import MAX_QUERIES_PER_NAME, Capability, Queries

MAX_TIMEOUT_S = 1.0  # RFC 8219 section 9.2

CLAUSE_SOURCE = "RFC 8219 section 9.2"

QPS: Literal["queries per second"] = "queries per second"


class ResolutionSelfTest(RecordModel):
    """Capacity of the tester without a device (RFC 8219 section 9.2.1)."""

    capacity_qps: Number = Field(description="AAAA queries answered in time [queries per second]")
    timeout_s: Number = Field(description="time limit, a quarter of the benchmark's [s]")
    delta: Number = Field(description="margin beyond twice the rate (RFC 8219 section 9.2.1)")
    covered_qps: Number = Field(description="highest rate it permits [queries per second]")


class ResolutionCombination(SearchedRates):
    """Query rates with a share of cached names and a share of names with an AAAA record."""

    unit_name = "queries/s"
    cached_percent: int = Field(description="queries for names that were queried before [%]")
    own_aaaa_percent: int = Field(description="names with a native AAAA record [%]")
    refused: str | None = Field(None, description="why the self-test does not cover it")
    asked_aaaa: Number | None = Field(description="AAAA queries of the device per client query")
    asked_a: Number | None = Field(description="A queries of the device per client query")
    cached_found_percent: Number | None = Field(description="cache hits among repeated names [%]")
    reasons: dict[str, int] = Field(description="failed queries of all trials, by reason")
    response_us: Number | None = Field(description="median response time, last decisive trial")
    decisive_trials: list[str] = Field(description="keys of the highest passed trials")

    @property
    def name(self) -> str:
        """Label of the combination: ``"20 % cached, 40 % AAAA"``."""
        return f"{self.cached_percent} % cached, {self.own_aaaa_percent} % AAAA"


class ResolutionRecord(Record):
    """Highest query rate that is answered correctly, for each combination."""

    heading = "DNS resolution performance"
    unit: Literal["queries per second"] = Field(default=QPS, description="unit of all rates")
    combinations: list[ResolutionCombination] = Field(description="results; the first is the RFC's")
    selftest: ResolutionSelfTest = Field(description="self-test of the tester")
    timeout_s: Number = Field(description="time limit for an answer [s]")
    duration_s: Number = Field(description="length of each trial [s]")
    resolution_qps: Number = Field(description="error of the search [queries per second]")
    upstream: Literal[4, 6] = Field(description="IP version towards the authoritative server")
    sending_time_tolerance: Number = Field(1.00001, description="longest sending time over length")

    @property
    def limited(self) -> bool:
        return any(combination.limited for combination in self.combinations)

    @property
    def repetition_notes(self) -> Sequence[str]:
        return [note for combination in self.combinations for note in combination.notes]

    def list_series(self) -> Iterator[tuple[str, RepetitionSeries, str]]:
        for combination in self.combinations:
            yield f"{combination.name} ", combination, "queries/s"


def _make_combination(
    cached: int,
    own_aaaa: int,
    result: ThroughputResult,
    find_result: FindResult,
    selftest: ResolutionSelfTest,
) -> ResolutionCombination:
    spec = result.spec
    rates = [r.rate_fps for r in result.repetitions]
    decisive = [key for key in map(find_decisive_trial, result.repetitions) if key]
    counted = [find_result(key).directions["forward"] for key in decisive]
    answers = [c.answers for c in counted if c.answers]
    queries = sum(c.count_frames("required") for c in counted)
    repeated = queries * cached / 100
    trials = [find_result(a.trial.key) for a in result.attempts]
    reasons = [d.answers.reasons for t in trials for d in t.directions.values() if d.answers]
    hit = any(r.search.hit_upper_bound for r in result.repetitions)
    by_tester = spec.upper_bound_reason == "tester"
    last = counted[-1].delay_us if counted else None
    refused = (
        f"refused: the device answers at least {selftest.covered_qps:,.0f} queries/s, and the "
        f"self-test, bounded by the {'tester' if by_tester else 'line rate'}, covers no more "
        "(RFC 8219 section 9.2.1)"
    )
    return ResolutionCombination(
        repetitions=len(rates),
        rates=rates,
        cached_percent=cached,
        own_aaaa_percent=own_aaaa,
        refused=refused if hit else None,
        tester_limited=(hit and by_tester)
        or any(is_bounded_by_tester(r.rate_fps, r.attempts) for r in result.repetitions),
        tester_ceiling=selftest.capacity_qps,
        upper_bound=spec.upper_bound_fps,
        upper_bound_reason=spec.upper_bound_reason,
        upper_bound_hit=hit,
        asked_aaaa=sum(a.aaaa_queries for a in answers) / queries if queries else None,
        asked_a=sum(a.a_queries for a in answers) / queries if queries else None,
        cached_found_percent=100 * (1 - sum(a.repeated_queries for a in answers) / repeated)
        if repeated
        else None,
        reasons={
            why: sum(t.get(why, 0) for t in reasons)
            for why in sorted({w for t in reasons for w in t})
        },
        response_us=last["p50"] if last else None,
        decisive_trials=decisive,
    )


_Percent = Annotated[int, Field(ge=0, le=100)]


class ResolutionSettings(StrictModel):
    """Settings of the DNS resolution performance (RFC 8219 section 9)."""

    cached: Annotated[tuple[_Percent, ...], Flag("--cached")] = Field(
        default=(0,), min_length=1, max_length=101
    )
    """Shares of queries for names that were queried before the trial [%]; 0 is always measured."""
    own_aaaa: Annotated[tuple[_Percent, ...], Flag("--own-aaaa")] = Field(
        default=(0,), min_length=1, max_length=101
    )
    """Shares of names with a native AAAA record [%]; 0 is always measured."""
    timeout_s: float = Field(MAX_TIMEOUT_S, gt=0, le=60, description="Time limit for an answer.")
    delta: float = Field(default=0.1, ge=0.1, le=10)
    """Rates up to 1 / (2 (1 + delta)) of the self-test's rate are valid (section 9.2.1)."""
    cached_names: int = Field(1000, ge=1, le=65_000, description="Names queried in advance.")
    resolution_qps: Annotated[float | None, Flag("--resolution-qps")] = Field(default=None, gt=0)
    """Stop when the bracket is this narrow [queries/s]; None: ``resolution_ratio`` of the upper
    bound."""


class Resolution(Benchmark[ResolutionRecord, ResolutionSettings]):
    """Highest rate at which every DNS query is answered correctly in time.

    RFC 8219 section 9.2. A binary search for the query rate, for each share of cached names and
    of names with an AAAA record.
    """

    name = "resolution"
    csv_columns: ClassVar = {
        "cached %": "share of the names that are queried before the trial [%]",
        "own AAAA %": "share of the names with a native AAAA record [%]",
        "Duration": common.DURATION_MEANING,
        **common.describe_search_columns("queries per second", "queries/s"),
    }
    record = ResolutionRecord
    phase = Phase.QUERIES
    order = 10
    is_search = True
    exchange = "queries"
    used_settings = SEARCH_SETTINGS - {"resolution_fps"}
    settings_model = ResolutionSettings
    quick_settings = ResolutionSettings(cached_names=200, resolution_qps=500.0)
    capabilities: ClassVar[frozenset[Capability]] = frozenset({"queries"})

    def check(self, context: RunContext) -> None:
        """Check that there is a device: the tester does not synthesize AAAA records."""
        if context.driver.is_cable:
            problem = "DNS64 synthesis needs a device"
            hint = "`v6t selftest` measures the tester alone"
            raise UsageError(problem, hint, code="missing-device")

    def list_deviations(self, context: RunContext) -> Iterator[str]:
        settings = self.get_settings(context)
        if settings.timeout_s > MAX_TIMEOUT_S:
            yield f"queries time out after {settings.timeout_s:g} s: RFC 8219 section 9.2 allows at most 1 s"
        simulated = context.tester.simulates
        if not context.has_driver and not simulated and "flush" not in context.driver.hooks:
            yield "the device's cache is not emptied between trials; names are queried only once in a run"

    def list_pairs(self, context: RunContext) -> list[tuple[int, int]]:
        """List the shares of cached names and of native AAAA records [%]; the required pair is first.

        When all names are cached it does not matter which have one (section 9.2).
        """
        settings = self.get_settings(context)
        pairs = product(sorted({0, *settings.cached}), sorted({0, *settings.own_aaaa}))
        return [(cached, aaaa) for cached, aaaa in pairs if cached < 100 or not aaaa]

    def run(self, point: Point) -> Measurement:
        settings, context = self.get_settings(point.context), point.context
        capacity = point.tester_capacity.rate_fps
        covered = compute_covered_qps(capacity, settings.delta)
        searches = {}
        for pair in self.list_pairs(context):
            spec = self._specify(point, pair, covered)
            searches[pair] = measure_throughput(spec, point.measure, point.watch)
        selftest = ResolutionSelfTest(
            capacity_qps=capacity,
            timeout_s=SELFTEST_TIMEOUT_SHARE * settings.timeout_s,
            delta=settings.delta,
            covered_qps=covered,
        )
        combinations = [
            _make_combination(*pair, result, point.find, selftest)
            for pair, result in searches.items()
        ]
        results = list(searches.values())
        record = ResolutionRecord.from_result(
            replace(results[0], attempts=sum((r.attempts for r in results), ())),
            point.run_conditions,
            direction="queries",
            not_measured=combinations[0].refused,
            combinations=combinations,
            selftest=selftest,
            timeout_s=settings.timeout_s,
            resolution_qps=max(map(find_error_fps, results)),
            upstream=context.technology.ip_versions[1],
        )
        rows = [
            dict(zip(("No", *self.csv_columns), (
                r.number, *pair, result.spec.duration_s, result.spec.upper_bound_fps,
                r.compute_error_fps(result.spec.resolution_fps),
                *common.describe_attempts(point, r.attempts), r.rate_fps,
            ), strict=True))
            for pair, result in searches.items()
            for r in result.repetitions
        ]  # fmt: skip
        return Measurement(record, rows, combinations[0].rates)

    def _specify(self, point: Point, pair: tuple[int, int], covered: float) -> ResolutionSpec:
        settings, p = self.get_settings(point.context), point.procedure
        cached, aaaa = pair
        upper = min(point.media_fps, covered)
        conditions = point.make_conditions(
            queries=Queries(cached / 100, aaaa / 100, settings.timeout_s, settings.cached_names),
            residual_wait_s=max(settings.timeout_s, p.residual_wait_s),
            # an overloaded device keeps processing old queries for a while
            pause_s=max(settings.timeout_s, p.pause_s),
            variant=f"c{cached:03d}-a{aaaa:03d}/" if pair != (0, 0) else "",
        )
        spec = specify_search(
            point,
            conditions,
            ResolutionSpec,
            upper_fps=upper,
            resolution_fps=settings.resolution_qps or p.resolution_ratio * upper,
        )
        return replace(spec, upper_bound_reason=point.limit_reason)  # of the self-test

    columns = (
        Column("cached\n%", lambda line: str(line.value.cached_percent)),
        Column("own AAAA\n%", lambda line: str(line.value.own_aaaa_percent)),
        Column("median\nqueries/s", lambda line: _format_rate(line.value)),
        *common.make_rate_columns("")[1:],
        common.INTERVAL_COLUMN,
        common.DISPERSION_COLUMN,
        Column("AAAA asked\nfor each", lambda line: line.value.asked_aaaa, ".2f", absent=ABSENT),
        Column("A asked\nfor each", lambda line: line.value.asked_a, ".2f", absent=ABSENT),
        Column(
            "found in\nthe cache %", lambda line: line.value.cached_found_percent, ".2f", wide=True
        ),
        Column("answered\nafter us", lambda line: line.value.response_us, wide=True),
        Column("self-test\ncovers", lambda line: line.record.selftest.covered_qps, wide=True),
        common.WIDE_REPETITIONS_COLUMN,
        Column("search\nends within", lambda line: line.record.resolution_qps, wide=True),
    )

    def list_rows(self, records: Sequence[ResolutionRecord]) -> list[TableRow]:
        return [TableRow(r, f) for r in records for f in r.combinations]

    def list_notes(self, records: Sequence[ResolutionRecord]) -> list[str]:
        return [f"{f.name}: {f.refused}" for r in records for f in r.combinations if f.refused]

    def make_tables(self, records: Sequence[ResolutionRecord]) -> Iterator[Table]:
        yield self.make_main_table(records)
        for r in records:
            if len(r.combinations) < 2:
                continue
            by_pair = {(f.own_aaaa_percent, f.cached_percent): f for f in r.combinations}
            aaaa, cached = (sorted({pair[place] for pair in by_pair}) for place in (0, 1))
            columns = [f"{c} %\ncached" for c in cached]
            names = [*make_text_columns("names with\nan AAAA record"), *columns]
            rows = [(f"{a} %", *(_format_cell(by_pair.get((a, c))) for c in cached)) for a in aaaa]
            yield make_text_table(f"{r.title}: median (P1 to P99), queries/s", names, rows)

    def draw_figures(self, data: RunData, records: Sequence[ResolutionRecord]) -> Iterator[Drawing]:
        for r in records:
            if len(r.combinations) < 2:
                continue
            shown = [f for f in r.combinations if not f.refused]
            shown.sort(key=lambda f: f.cached_percent)
            curves = []
            for number, aaaa in enumerate(sorted({f.own_aaaa_percent for f in r.combinations})):
                points = [(f.cached_percent, f) for f in shown if f.own_aaaa_percent == aaaa]
                curves.append(make_summary_curve(number, f"{aaaa} % with an AAAA record", points))
            drawn = draw_errorbars(
                self.name, curves, "names in the cache [%]", "queries per second", linear=True
            )
            yield Drawing(
                drawn,
                "Queries answered per second against the share of cached names: median of the "
                "repetitions, bars from P1 to P99.",
                "Queries answered per second: "
                + "; ".join(f"{f.name}: {f.median:,.0f}" for f in r.combinations),
            )

    def define_quantity(self, records: Sequence[ResolutionRecord]) -> str:
        return (
            "The highest rate at which every query for an AAAA record is answered correctly within "
            f"{max(r.timeout_s for r in records):g} s: with the record that RFC 6147 and RFC 6052 "
            "derive from the A record, or with the name's native record."
        )

    def list_quantities(self, record: ResolutionRecord) -> Iterator[Quantity]:
        first = record.combinations[0]
        what = f"{record.title}, {first.name}, median of {first.repetitions}"
        for f in record.combinations:
            result = common.make_rate_quantity(
                f,
                f"queries/s, {f.name}",
                "queries/s",
                resolution=record.resolution_qps,
                headline=self.name if f is first else f"{self.name}, {f.name}",
            )
            card = Card(_format_rate(first), "queries/s", what) if f is first else None
            yield replace(result, card=card)

    def find_warnings(self, record: ResolutionRecord) -> Iterator[tuple[str, str]]:
        for f in record.combinations:
            if f.reasons:
                reasons = ", ".join(f"{n:,} {why}" for why, n in f.reasons.items())
                text = f"{f.name}: queries not answered in all trials, failed ones too: {reasons}"
                yield "unanswered-queries", text
            each = (f.asked_aaaa or 0) + (f.asked_a or 0)
            if each > MAX_QUERIES_PER_NAME * 1.01:
                sent = f"the device sends {each:.2f} queries for each client query"
                limit = f"the self-test assumes {MAX_QUERIES_PER_NAME} (RFC 8219 section 9.2.1)"
                yield "many-questions", f"{f.name}: {sent}; {limit}"
            if f.cached_found_percent is not None and f.cached_found_percent < 99:
                missed = f"the device forwarded {100 - f.cached_found_percent:.1f} % of the queries"
                yield "cache-misses", f"{f.name}: {missed} for names that it had answered before"

    def check_clauses(self, data: RunData, records: Sequence[ResolutionRecord]) -> Iterator[Ruling]:
        deciding = {key for r in records for f in r.combinations for key in f.decisive_trials}
        trials = [t for t in data.list_valid_trials(records) if t.key in deciding]
        lengths = (t.request["duration_s"] for t in trials)
        yield judge(CLAUSE_SOURCE, "trials of 60 s", *common.compare_minimum(RFC_TRIAL_S, lengths))
        fewest = min((f.repetitions for r in records for f in r.combinations), default=0)
        wanted = f"at least {RFC_REPETITIONS} repetitions, median, P1 and P99"
        yield judge(CLAUSE_SOURCE, wanted, str(fewest),
                    fewest >= RFC_REPETITIONS if records else None)  # fmt: skip
        longest = max((r.timeout_s for r in records), default=0.0)
        yield judge(CLAUSE_SOURCE, "a time-out of no more than 1 s for each query", f"{longest:g} s",
                    longest <= MAX_TIMEOUT_S if records else None)  # fmt: skip
        first = [r.combinations[0] for r in records]
        required = all(not f.cached_percent and not f.own_aaaa_percent for f in first)
        yield judge(CLAUSE_SOURCE, "0 % cached and 0 % with an AAAA record is measured first",
                    ", ".join(f.name for f in first), required if first else None)  # fmt: skip
        questions = [f.asked_aaaa for f in first if f.asked_aaaa is not None]
        yield judge(CLAUSE_SOURCE, "all names are different: none is in the device's cache",
                    f"at least {min(questions, default=0):.3g} AAAA queries for each client query",
                    min(questions) >= 1 if questions else None)  # fmt: skip
        refused = sum(f.refused is not None for r in records for f in r.combinations)
        yield judge("RFC 8219 section 9.2.1",
                    "the tester answers its own queries at 2 (r + delta) within a quarter of the time-out",
                    "; ".join(f"up to {r.selftest.capacity_qps:,.0f} queries/s, which covers "
                              f"{r.selftest.covered_qps:,.0f}" for r in records)
                    + (f"; {refused} rates above are refused" if refused else ""),
                    True if records else None)  # fmt: skip


def make_selftest_queries(context: RunContext) -> Queries:
    """Make the queries of the self-test (RFC 8219 section 9.2.1)."""
    timeout_s: float = context.settings.procedure.resolution.timeout_s  # type: ignore[attr-defined]
    return Queries(timeout_s=SELFTEST_TIMEOUT_SHARE * timeout_s, is_selftest=True)


def _format_rate(combination: ResolutionCombination) -> str:
    if combination.refused:
        return "refused"
    return mark_limited(format_count(combination.median), combination.limited)


def _format_cell(combination: ResolutionCombination | None) -> str:
    if combination is None:
        return ABSENT
    return f"{_format_rate(combination)} ({format_count(combination.p1)} to {format_count(combination.p99)})"
