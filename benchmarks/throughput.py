"""Throughput: RFC 2544 section 26.1 with the summary of RFC 8219 section 12."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import Field, computed_field
from v6t.analysis.blocks import Drawing
from v6t.analysis.figures import plots
from v6t.analysis.presentation import Quantity, Ruling, judge, split_into_figures
from v6t.analysis.record import Number, RateRecord, find_counting_method, summarize_rates
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import UNDEFINED, Column, compute_medium_fps, format_count, mark_limited
from v6t.base.errors import UsageError
from v6t.base.strict_model import StrictModel
from v6t.benchmarks import common
from v6t.benchmarks.base import RFC_TRIAL_S, Benchmark
from v6t.benchmarks.mlrsearch import SEARCH_LIBRARY, GoalBounds, find_goal_warnings, summarize_goal
from v6t.benchmarks.point import Measurement, Point, RunContext
from v6t.benchmarks.settings import SEARCH_SETTINGS, AdaptiveSettings, Flag
from v6t.procedures.search import mlr
from v6t.procedures.throughput import (
    ThroughputRepetition,
    ThroughputResult,
    ThroughputSpec,
    find_error_fps,
    measure_throughput,
)
from v6t.trials.codec import decode
from v6t.trials.conditions import Conditions
from v6t.trials.trial import Capability, Trial, list_directions
from v6t.trials.verdict import assess_trial

T = TypeVar("T", bound=ThroughputSpec)
MAX_TRACED_TRIALS = 2000  # largest number of trials in the figure of a search trace

_SEARCH_TEXTS = {"binary": "binary search", "mlrsearch": "MLRsearch with the RFC 2544 goal"}


class ThroughputRecord(RateRecord):
    """Record of the highest rate without loss; rates are per direction in all modes."""

    heading = "Throughput"
    unit: Literal["frames per second"] = Field(description="unit of rates")
    convention: Literal["per_direction"] = Field(description="all rates are per direction")
    search: str = Field("binary", description="`binary` or `mlrsearch`")
    search_label: str | None = Field(None, description="name of the result in MLRsearch")
    controller: str | None = Field(None, description="library that chose the trials of MLRsearch")
    goal: GoalBounds | None = Field(None, description="MLRsearch's goal with its bounds")
    adaptive: AdaptiveSettings | None = Field(None, description="limits of adaptive repetition")
    non_monotonic: int = Field(0, description="repetitions that passed a rate above a failed one")
    unresolved: int = Field(0, description="repetitions that did not reach the resolution")
    confirmations: int = Field(0, description="full trials that confirm each result")
    final_duration_s: Number | None = Field(None, description="length of confirming trials [s]")
    frame_timeout_s: Number | None = Field(None, description="deadline of every frame, if any [s]")
    aggregate_convention: Literal["aggregate"] = Field(description="applies to `aggregate_median`")
    loss: dict[str, Number | None] = Field(description="largest loss ratio at the results")
    loss_tolerance: Number = Field(description="accepted loss ratio per direction (RFC: 0)")
    matched: Number | None = Field(description="share of `checked` frames that were correct")
    checked: int = Field(description="frames compared with the reference translation")
    resolution_fps: Number = Field(description="search error [frames per second per direction]")
    duration_s: Number = Field(description="length of the deciding trials [s]")
    residual_wait_s: Number | None = Field(None, description="wait for late frames [s]")
    pause_s: Number | None = Field(None, description="pause between trials (RFC 2544) [s]")
    sending_time_tolerance: Number = Field(1.00001, description="longest sending time over length")
    decisive_trials: list[str] = Field(description="keys of the highest passed trials")

    def describe(self) -> str:
        title = self.heading
        if self.frame_timeout_s is not None:
            title = f"{title}{WITH_TIMEOUT} {self.frame_timeout_s * 1000:g} ms"
        if self.search == "mlrsearch":
            title += " (MLRsearch, RFC 2544 goal)"
        if self.adaptive is not None:
            title += f" (adaptive, n={len(self.rates)})"
        return title

    @computed_field
    @property
    def aggregate_median(self) -> Number:
        """Rate of both directions together, the sum of their medians [frames per second]."""
        value: Number = self.median * self.load_directions
        return value

    @property
    def throughput_fps(self) -> float | None:
        return self.median if self.measured and self.frame_timeout_s is None else None

    @property
    def worst_loss(self) -> float | None:
        """Largest loss ratio of a direction at the reported rates, or None if unknown."""
        return max((v for v in self.loss.values() if v is not None), default=None)

    @property
    def published_conditions(self) -> Mapping[str, Any]:
        return {"trial_s": 60.0, "loss_tolerance": 0.0}


def make_search_record(point: Point, result: ThroughputResult) -> ThroughputRecord:
    """Make the record of the searches at a point or with a variant of its traffic."""
    spec, repetitions, find = result.spec, result.repetitions, point.find
    directions = list_directions(spec.conditions.mode)
    rates = [(r.rate_fps, r.attempts) for r in repetitions]
    decisive = [key for key in map(find_decisive_trial, repetitions) if key]
    counted = [d for key in decisive for d in find(key).directions.values()]
    checked = 0 if point.context.tester.simulates else sum(d.checked for d in counted)
    goals = [r.search.goal for r in repetitions if r.search.goal is not None]
    return ThroughputRecord.from_result(
        result,
        point.run_conditions,
        **summarize_rates(rates, point.tester_capacity.rate_fps, point.procedure.selftest_margin),
        search_label=mlr.RESULT_LABEL if spec.search == "mlrsearch" else None,
        controller=SEARCH_LIBRARY if goals else None,
        goal=summarize_goal(goals) if goals else None,
        non_monotonic=sum(r.passed_above_failure for r in repetitions),
        unresolved=sum(_is_unresolved(r, spec) for r in repetitions),
        loss={d: _find_worst_loss(repetitions, d, decisive) for d in directions},
        matched=sum(d.matched for d in counted) / checked if checked else None,
        checked=checked,
        upper_bound_hit=any(
            r.search.hit_upper_bound and r.rate_fps >= spec.upper_bound_fps for r in repetitions
        ),
        resolution_fps=find_error_fps(result),
        decisive_trials=decisive,
        counted_by=find_counting_method(find(a.trial.key) for a in result.attempts),
    )


def _is_unresolved(repetition: ThroughputRepetition, spec: ThroughputSpec) -> bool:
    high = repetition.search.first_failed_fps
    if high is None:
        return False
    widest = repetition.search.compute_error_fps(spec.resolution_fps)
    return high - repetition.search.rate_fps > widest * 1.001


def find_decisive_trial(repetition: ThroughputRepetition) -> str | None:
    """Return the key of the last trial that passed at the reported rate, or None."""
    passed = [a.trial for a in repetition.attempts if a.verdict.passed]
    passed = [t for t in passed if t.rate_fps == repetition.rate_fps]
    # the search's probes are shorter than the trial that decides
    longest = max((t.duration_s for t in passed), default=0.0)
    return next((t.key for t in reversed(passed) if t.duration_s == longest), None)


def _find_worst_loss(
    repetitions: tuple[ThroughputRepetition, ...], direction: str, decisive: list[str]
) -> float | None:
    verdicts = [a.verdict for r in repetitions for a in r.attempts if a.trial.key in decisive]
    return max((v.loss[direction] for v in verdicts if direction in v.loss), default=None)


WITH_TIMEOUT = " with per-frame timeout"


class FrameTimeoutSettings(StrictModel):
    """Settings of the deadline of every frame."""

    deadline_ms: Annotated[float | None, Flag("--frame-timeout")] = Field(default=None, gt=0)
    """Longest accepted one-way delay; later frames are lost [ms]."""


class FrameTimeoutBenchmark(Benchmark[Any, Any]):
    """Mixin for a benchmark with a deadline for every frame."""

    used_settings = SEARCH_SETTINGS
    included_in_all = False
    shared_settings: ClassVar[Mapping[str, type[StrictModel]]] = {
        "frame_timeout": FrameTimeoutSettings
    }
    capabilities: ClassVar[frozenset[Capability]] = frozenset({"frame-timeout"})

    @property
    def heading(self) -> str:
        return f"{super().heading}{WITH_TIMEOUT}"

    def get_timeout_s(self, context: RunContext) -> float:
        """Return the deadline [s]."""
        return (self.get_shared_settings(context, "frame_timeout").deadline_ms or 0.0) / 1000

    def make_conditions(self, point: Point) -> Conditions:
        return point.make_conditions(frame_timeout_s=self.get_timeout_s(point.context))

    def check(self, context: RunContext) -> None:
        super().check(context)
        deadline_ms = 1000 * self.get_timeout_s(context)
        if not deadline_ms:
            hint = "give --frame-timeout in milliseconds"
            raise UsageError(f"{self.name} needs a deadline", hint, code="missing-setting")
        trial_s = self.find_trial_s(context) or 0.0
        longest = 1000 * (trial_s + context.settings.procedure.residual_wait_s)
        if deadline_ms >= longest:
            raise UsageError(
                f"a deadline of {deadline_ms:g} ms never ends before the trial: "
                f"it must be below {longest:g} ms",
                code="trial-too-short",
            )


def _format_aggregate(record: ThroughputRecord) -> str:
    if record.direction != "bidirectional":
        return "-"
    return mark_limited(format_count(record.aggregate_median), record.limited)


class Throughput(Benchmark[ThroughputRecord, StrictModel]):
    """Highest rate at which no frame is lost.

    RFC 2544 section 26.1. The smaller of the medium's rate and the tester's own capacity is
    offered first. A binary search then halves the interval between the highest rate that passed
    and the lowest that failed. The result is the highest rate that passed.
    """

    name = "throughput"
    csv_file = "results.csv"
    csv_columns: ClassVar = {
        "n": "modulus of the mixture: m of every n frames are foreground traffic",
        "m": "foreground frames of every n",
        "Duration": common.DURATION_MEANING,
        "Initial Rate": common.SEARCH_COLUMNS["Initial Rate"],
        "Timeout": "wait for late frames after the trial [s]",
        **common.SEARCH_COLUMNS,
    }
    record = ThroughputRecord
    metrics: ClassVar = {"throughput": "rate", "tester capacity": "rate"}
    order = 10
    is_search = True
    connection_use = "optional"
    used_settings = SEARCH_SETTINGS

    def run(self, point: Point) -> Measurement:
        spec = specify_search(point, self.make_conditions(point))
        result = measure_throughput(spec, point.measure, point.watch)
        record = make_search_record(point, result)
        mixture = point.context.technology.params.mixture or ("", "")
        rows = (
            (r.number, (*mixture, spec.duration_s, spec.upper_bound_fps, spec.conditions.residual_wait_s,
                        r.compute_error_fps(spec.resolution_fps),
                        *common.describe_attempts(point, r.attempts), r.rate_fps))
            for r in result.repetitions
        )  # fmt: skip
        return Measurement(record, self.make_rows(spec.conditions, rows), record.rates)

    columns = (
        *common.POINT_COLUMNS,
        *common.make_rate_columns("median fps\nper direction"),
        common.INTERVAL_COLUMN,
        common.DISPERSION_COLUMN,
        Column("aggregate\nfps", _format_aggregate),
        Column("loss", lambda r: UNDEFINED if r.worst_loss is None else f"{r.worst_loss:.4%}"),
        Column("frames\nmatched", lambda r: common.format_match_share(r.matched)),
        common.WIDE_REPETITIONS_COLUMN,
        Column("search\nends within", lambda r: r.resolution_fps, wide=True),
        Column("bound of\nthe search", lambda r: r.upper_bound, wide=True),
        Column("its\nreason", lambda r: r.upper_bound_reason, wide=True),
        common.COUNTING_METHOD_COLUMN,
    )

    def draw_lead(self, data: RunData, records: Sequence[ThroughputRecord]) -> Iterator[Drawing]:
        line_rate = data.config["line_rate_bps"]
        media = {r.sizes: compute_medium_fps(r, line_rate) for r in records}
        summary = "; ".join(
            f"{r.sizes} {r.direction}: {r.median:,.0f} of {media[r.sizes]:,.0f}" for r in records
        )
        yield Drawing(
            _draw_rate_by_size(records, f"{self.name}-sizes", media),
            "Frame rate against frame size: median of the repetitions, bars from P1 to P99, the "
            "theoretical maximum of the medium for the larger frame, and what the tester "
            "itself carries in loopback. Frames per second per direction.",
            f"{records[0].title} by frame size, frames per second per direction. {summary}.",
        )

    def draw_overlays(
        self,
        rows: Sequence[tuple[tuple[str, ...], ThroughputRecord]],
        name: str,
        line_rate_bps: float,
    ) -> Iterator[Drawing]:
        if len({record.sizes for _, record in rows}) < 2:
            yield from super().draw_overlays(rows, name, line_rate_bps)
            return
        title = rows[0][1].title
        media = {record.sizes: compute_medium_fps(record, line_rate_bps) for _, record in rows}
        for number, records in enumerate(split_into_figures(rows)):
            caption = (
                f"{title} against frame size: median, bars from P1 to P99, and the "
                "theoretical maximum of the medium for the larger frame."
            )
            drawn = _draw_rate_by_size(records, f"{name}-sizes-{number}", media)
            yield Drawing(drawn, caption, caption)

    def draw_traces(self, data: RunData, records: Sequence[ThroughputRecord]) -> Iterator[Drawing]:
        for r in records:
            name = f"{self.name}-{r.frame_sizes.key}-{r.direction}"
            if steps := _list_trials(data, r):
                first = "" if len(steps) < MAX_TRACED_TRIALS else " (the first ones)"
                yield Drawing(
                    _draw_trace(steps, r.median, f"{name}-trace"),
                    f"Search trace, {r.point}: every trial of the point in order, {len(steps)} "
                    f"trials{first}.",
                    f"Search trace of {r.point}: {len(steps)} trials, median "
                    f"{r.median:,.0f} frames per second per direction.",
                )
            if len(r.rates) > 2:
                yield Drawing(
                    _draw_repetitions(r, f"{name}-repetitions"),
                    f"Repetitions, {r.point}.",
                    f"Rates of {len(r.rates)} repetitions of {r.point}.",
                )

    def list_quantities(self, record: ThroughputRecord) -> Iterator[Quantity]:
        what = f"{record.title}, {record.point}, median of {record.repetitions}"
        yield common.make_rate_quantity(
            record,
            resolution=record.resolution_fps,
            headline=self.name,
            card=("frames/s per direction", what),
        )

    def find_warnings(self, record: ThroughputRecord) -> Iterator[tuple[str, str]]:
        if record.goal:
            yield from find_goal_warnings(record.goal)
            upper, conditional = record.goal.upper_bounds, record.goal.conditional_throughput
            bounds = f"relevant upper bound {format_count(upper.median)} fps"
            expected = f"conditional throughput {format_count(conditional.median)} fps"
            yield "goal", f"{bounds}, {expected} (medians)"
        if record.non_monotonic:
            yield "non-monotonic", "a rate passed above one that failed"
        if record.unresolved:
            text = "searches ended before their bracket was as narrow as required"
            yield "unresolved-search", f"{record.unresolved} {text}"

    def check_clauses(self, data: RunData, records: Sequence[ThroughputRecord]) -> Iterator[Ruling]:
        decisive = {key for r in records for key in r.decisive_trials}
        deciding = [t for t in data.list_valid_trials(records) if t.key in decisive]
        lengths = (t.request["duration_s"] for t in deciding)
        yield judge(f"RFC 2544 section 24, {self.name}", "every result held for 60 s",
                    *common.compare_minimum(RFC_TRIAL_S, lengths))  # fmt: skip
        yield common.check_repetitions(self.name, records)
        lost = sum(
            count.required > count.received
            for t in deciding
            for direction in t.result.directions.values()
            for count in direction.classes.values()
            if count.role != "negative"
        )
        tolerated = max((r.loss_tolerance for r in records), default=0.0)
        yield judge(f"RFC 2544 section 26.1, {self.name}", "no frame may be lost",
                    f"frames lost in {lost} classes of {len(deciding)} deciding trials"
                    + (f", {tolerated:.4%} tolerated" if tolerated else ""),
                    not lost and not tolerated if deciding else None)  # fmt: skip
        if records:
            unresolved = sum(r.unresolved for r in records)
            yield judge("RFC 2544 section 26.1",
                        "the highest rate without loss, by any search",
                        _SEARCH_TEXTS[data.procedure["search"]]
                        + (f"; {unresolved} ended early" if unresolved else ""),
                        not unresolved)  # fmt: skip
            known = any(r.tester_ceiling for r in records)
            limited = sum(r.tester_limited for r in records)
            yield judge("RFC 8219 section 4", "the tester is not the bottleneck",
                        f"{limited} of {len(records)} points above the margin of the tester's capacity"
                        if known else "its capacity is not known",
                        not limited if known else None)  # fmt: skip


class ThroughputFrameTimeout(FrameTimeoutBenchmark, Throughput):
    """Highest rate at which every frame arrives within a deadline.

    RFC 2544 section 26.1 with a deadline: a frame that takes longer is lost.
    """

    name = "throughput-frame-timeout"
    metrics: ClassVar = {"throughput with timeout": "rate"}
    order = 20

    def draw_lead(self, data: RunData, records: Sequence[ThroughputRecord]) -> Iterator[Drawing]:
        yield from ()

    def draw_figures(self, data: RunData, records: Sequence[ThroughputRecord]) -> Iterator[Drawing]:
        yield from super().draw_lead(data, records)


def specify_search(
    point: Point,
    conditions: Conditions,
    kind: type[T] = ThroughputSpec,
    *,
    upper_fps: float | None = None,
    resolution_fps: float | None = None,
) -> T:
    """Specify the search; the upper bound is the limit of medium and tester, or ``upper_fps``."""
    p = point.procedure
    upper_fps = upper_fps or point.search_limit_fps
    return point.specify(
        kind,
        p,
        conditions=replace(conditions, search_limit_fps=upper_fps),
        upper_bound_fps=upper_fps,
        upper_bound_reason="media" if upper_fps == point.media_fps else "tester",
        resolution_fps=resolution_fps or p.resolution_fps or p.resolution_ratio * upper_fps,
        duration_s=p.trial_duration_s,
        repetitions=point.max_repetitions,
        adaptive=point.adaptive,
    )


class SearchTrial(NamedTuple):
    """Trial of a search in a figure: repetition, number, rate [fps] and outcome."""

    repetition: int
    number: int
    rate_fps: float
    outcome: str


def _list_trials(data: RunData, record: ThroughputRecord) -> list[SearchTrial]:
    steps = []
    for number, trial in enumerate(islice(data.find_trials(record), MAX_TRACED_TRIALS), 1):
        match = re.search(r"/r(\d+)/", trial.key)
        verdict = assess_trial(
            decode(Trial, trial.request),
            trial.result,
            loss_tolerance=record.loss_tolerance,
            sending_time_tolerance=record.sending_time_tolerance,
        )
        outcome = "passed" if verdict.passed else "failed" if verdict.valid else "invalid"
        repetition = int(match[1]) if match else 0
        steps.append(SearchTrial(repetition, number, trial.request["rate_fps"], outcome))
    return steps


_OUTCOME_STYLES = {
    "passed": ("o", plots.BLUE),
    "failed": ("x", plots.VERMILLION),
    "invalid": ("s", plots.ORANGE),
}
_RATE_AXIS_LABEL = "frames per second\nper direction"


def _draw_trace(steps: Sequence[SearchTrial], result_fps: float, name: str) -> str:
    grouped = {s.repetition: [t for t in steps if t.repetition == s.repetition] for s in steps}
    curves = [_make_curve("_", group, color="#bbbbbb", linewidth=0.8) for group in grouped.values()]
    for outcome, (marker, color) in _OUTCOME_STYLES.items():
        if trials := [s for s in steps if s.outcome == outcome]:
            curves.append(_make_curve(outcome, trials, marker=marker, color=color, linestyle=""))
    label = f"median {plots.abbreviate(result_fps)}"
    return plots.draw_series(
        name,
        curves,
        "trial of the point",
        f"offered {_RATE_AXIS_LABEL}",
        levels=[(result_fps, label, {"color": plots.BLACK, "linestyle": "--"})],
        adjust=lambda at: at.set_ylim(bottom=0),
    )


def _make_curve(label: str, steps: Sequence[SearchTrial], **style: Any) -> plots.Curve:
    return plots.Curve(label, [s.number for s in steps], [s.rate_fps for s in steps], style=style)


def _draw_repetitions(record: ThroughputRecord, name: str) -> str:
    style = {"color": plots.BLUE, "marker": "o", "linestyle": ""}
    dots = plots.Curve("repetition", range(1, len(record.rates) + 1), record.rates, style=style)
    lines = (("median", record.median, "-"), ("P1", record.p1, "--"), ("P99", record.p99, ":"))
    levels = [
        (value, f"{word} {plots.abbreviate(value)}", {"color": plots.VERMILLION, "linestyle": dash})
        for word, value, dash in lines
        if value is not None
    ]
    return plots.draw_series(name, [dots], "repetition", _RATE_AXIS_LABEL, levels=levels)


def _draw_rate_by_size(
    records: Sequence[ThroughputRecord], name: str, media: Mapping[str, float]
) -> str:
    ordered = sorted({(r.frame_sizes.ipv6, r.sizes) for r in records})
    places = {label: i for i, (_, label) in enumerate(ordered)}
    limit = {"color": plots.BLACK, "marker": "_", "markersize": 18}
    limits = [media[label] for label in places]
    curves = [
        plots.Curve("theoretical maximum of the medium", list(places.values()), limits, style=limit)
    ]
    modes = list(dict.fromkeys(r.direction for r in records))
    label = "tester's own capacity" + ", by direction" * (len(modes) > 1)
    for number, mode in enumerate(modes):
        shift = 0.06 * (number - (len(modes) - 1) / 2)
        here = [(places[r.sizes] + shift, r) for r in records if r.direction == mode]
        curves.append(plots.make_summary_curve(number, mode, here))
        if known := [(x, r.tester_ceiling) for x, r in here if r.tester_ceiling]:
            style = {"color": plots.GREY, "linestyle": ":", "marker": "_", "markersize": 14}
            xs, rates = zip(*known, strict=True)
            curves.append(plots.Curve(label if number == 0 else "_", xs, rates, style=style))
    both = any(r.frame_sizes.ipv6 != r.frame_sizes.ipv4 for r in records)
    return plots.draw_errorbars(
        name,
        curves,
        f"frame size, octets ({'IPv6/IPv4, ' * both}FCS included)",
        "frames per second per direction",
        ticks={place: label for label, place in places.items()},
        adjust=lambda axes: axes.set_xlim(-0.5, len(places) - 0.5),
    )
