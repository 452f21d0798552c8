"""Soak and critical load: loss over a long time, and the load of a given loss ratio."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field
from v6t.analysis.blocks import Drawing
from v6t.analysis.figures import plots
from v6t.analysis.presentation import Card, Percentiles, Quantity, Ruling, judge
from v6t.analysis.record import FPS, CsvRow, Number, Record, RecordModel
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import UNDEFINED, Column, format_count, format_percent, mark_limited
from v6t.base.errors import UsageError
from v6t.base.strict_model import StrictModel
from v6t.benchmarks import common
from v6t.benchmarks.base import Benchmark, RateShareBenchmark, ShareSettings, StreamRecord
from v6t.benchmarks.point import Measurement, NotMeasured, Point, RunContext
from v6t.benchmarks.settings import Flag
from v6t.procedures.critical_load import (
    CriticalLoadResult,
    CriticalLoadSpec,
    measure_critical_load,
    sum_loss,
)
from v6t.procedures.soak import SoakResult, SoakSpec, measure_soak
from v6t.trials.load_estimate import EstimateLoad
from v6t.trials.result import TrafficInterval
from v6t.trials.trial import list_directions

SECONDS_PER_HOUR = 3600.0


class SoakLoss(RecordModel):
    """Loss of one direction in a soak test."""

    frames: int = Field(description="frames required")
    lost: int = Field(description="required frames that were lost")
    loss_percent: Number | None = Field(description="lost frames; null: no frame was required [%]")
    intervals: int = Field(description="intervals measured")
    lossy: int = Field(description="intervals in which frames were lost")
    episodes: int = Field(description="periods of consecutive intervals with loss")
    longest_s: Number = Field(description="longest time without loss [s]")
    worst_percent: Number | None = Field(description="loss of the worst interval [%]")
    worst_at_s: Number | None = Field(description="start of the worst interval; null: no loss [s]")
    halves_percent: list[Number | None] = Field(description="loss of each half of the test [%]")


class SoakRecord(StreamRecord):
    """Record of the loss during a long test at one rate."""

    heading = "Soak test"
    unit: Literal["%"] = Field(description="unit of losses")
    duration_s: Number = Field(description="requested length of all stretches [s]")
    measured_s: Number = Field(description="length of the valid stretches [s]")
    stretch_s: Number = Field(description="length of a stretch [s]")
    stretches: int = Field(description="stretches sent")
    faltered: int = Field(description="invalid stretches, which are gaps and not loss")
    directions: dict[str, SoakLoss] = Field(description="loss of each direction")


class ShapeEstimate(RecordModel):
    """Estimate of the critical load with one shape of the loss function."""

    mean: Number = Field(description="mean of the critical load")
    deviation: Number = Field(description="standard deviation of the critical load")


class CriticalLoadRecord(Record):
    """Record of the load at which a given share of the frames is lost on average."""

    heading = "Critical load"
    unit: Literal["frames per second"] = Field(default=FPS, description="unit of rates")
    target_percent: Number = Field(description="loss ratio at the critical load [%]")
    estimate: Number | None
    """the critical load; null: no trial lost frames, or the mean is above `upper_bound`"""
    deviation: Number | None = Field(description="standard deviation of the estimate")
    low: Number | None = Field(description="lower end of its 95 % interval")
    high: Number | None = Field(description="upper end of its 95 % interval")
    shapes: dict[str, ShapeEstimate]
    """estimates by shape of the loss function; empty without an estimate"""
    searched_s: Number = Field(description="total duration of all valid trials [s]")
    lossless: int = Field(description="valid trials without loss")
    lowest: Number = Field(description="smallest rate offered in a valid trial")
    highest: Number = Field(description="highest rate offered in a valid trial")
    upper_bound: Number = Field(description="highest rate that could be offered")
    upper_bound_reason: str = Field(description="`media` or `tester`")
    tester_ceiling: Number | None = Field(None, description="the tester's own capacity")

    def describe(self) -> str:
        loss = f"{self.target_percent:g} % loss"
        return f"{self.heading} at {loss} (PLRsearch, not an RFC 8219 throughput)"

    @property
    def has_loss(self) -> bool:
        """Whether a valid trial lost frames."""
        return self.lossless < len(self.trials) - len(self.invalid_trials)

    @property
    def interval(self) -> str:
        """Confidence interval of the critical load, as text for a table."""
        return UNDEFINED if self.low is None else f"{self.low:,.0f} to {self.high:,.0f}"

    @property
    def limited(self) -> bool:
        return self.high is None or self.high >= self.upper_bound

    @property
    def excess(self) -> str:
        """Table text for a critical load that exceeds all offered rates."""
        return f"above {self.highest:,.0f} fps, the highest offered load"


def _summarize_direction(stretches: Iterable[Sequence[TrafficInterval]]) -> dict[str, Any]:
    """Return the fields of a direction's loss; an invalid stretch has no intervals and is a gap."""
    parts = [intervals or (None,) for intervals in stretches]
    intervals = [i for part in parts for i in part if i]
    lossy = [i for i in intervals if i.lost]
    worst = max(lossy, key=lambda i: i.lost / max(i.frames, 1), default=None)
    groups = groupby(chain.from_iterable(parts), key=lambda i: i and i.lost > 0)
    runs = [(bad, [i for i in run if i]) for bad, run in groups]
    half = len(intervals) // 2
    return {
        "frames": sum(i.frames for i in intervals),
        "lost": sum(i.lost for i in intervals),
        "loss_percent": _compute_loss_percent(intervals),
        "intervals": len(intervals),
        "lossy": len(lossy),
        "episodes": sum(bool(bad) for bad, _ in runs),
        "longest_s": max((sum(i.length_s for i in run) for bad, run in runs if not bad), default=0),
        "worst_percent": _compute_loss_percent([worst]) if worst else (0.0 if intervals else None),
        "worst_at_s": worst.begins_s if worst else None,
        "halves_percent": [
            _compute_loss_percent(intervals[:half]),
            _compute_loss_percent(intervals[half:]),
        ],
    }


def _compute_loss_percent(intervals: Sequence[TrafficInterval]) -> float | None:
    frames = sum(i.frames for i in intervals)
    return 100 * sum(i.lost for i in intervals) / frames if frames else None


def _format_share(value: float | None) -> str:
    return format_percent(value) if not value or value >= 0.1 else f"{value:.2g}"


class SoakSettings(ShareSettings):
    """Settings of a soak test, which lasts hours at one rate."""

    duration_s: Annotated[float, Flag("--soak")] = Field(default=7200.0, ge=0.01, le=2_592_000)
    """Total length of a soak test: `4h`, `30min` [s]."""
    stretch_s: float = Field(60.0, ge=0.01, le=3600, description="Length of each trial [s].")


class Soak(RateShareBenchmark[SoakRecord, SoakSettings]):
    """Loss during hours at a share of the throughput, by interval.

    No RFC. Trials follow each other at the rate; a table shows the intervals in which frames
    were lost.
    """

    name = "soak"
    csv_columns: ClassVar = {
        "started": "start of the stretch, ISO 8601, UTC",
        "direction": common.DIRECTION_MEANING,
        "begins_s": "start of the interval, in seconds of traffic [s]",
        "length_s": "length of the interval [s]",
        "frames": "frames due in the interval; empty: the stretch is invalid [frames]",
        "lost": "of them lost [frames]",
    }
    record: ClassVar[type[SoakRecord]] = SoakRecord
    order = 110
    connection_use = "optional"
    settings_model = SoakSettings
    quick_settings = SoakSettings(duration_s=3.0, stretch_s=1.0)
    included_in_all = False
    no_rate_reason = "no rate passed, so the rate of the soak test is unknown"
    format_value = staticmethod(_format_share)

    def list_deviations(self, context: RunContext) -> Iterator[str]:
        settings, wait_s = self.get_settings(context), context.settings.procedure.residual_wait_s
        yield (
            f"soak: stretches of {settings.stretch_s:g} s with a wait of {wait_s:g} s for late frames after "
            "each, in which nothing is sent"
        )

    def run(self, point: Point) -> Measurement:
        rate_fps, source = self.find_rate(point)
        settings = self.get_settings(point.context)
        stretches = max(1, math.ceil(settings.duration_s / settings.stretch_s - 1e-9))
        spec = point.specify(
            SoakSpec, settings, rate_fps=rate_fps, rate_source=source, stretches=stretches
        )
        result = measure_soak(spec, point.measure, point.watch)
        return self.make_measurement(result, point.run_conditions)

    def make_measurement(self, result: SoakResult, conditions: Mapping[str, Any]) -> Measurement:
        """Make the record of a point, a row for each interval, and one for each invalid stretch."""
        spec, directions = result.spec, list_directions(result.spec.conditions.mode)
        valid = [s for s in result.repetitions if s.intervals]
        record = SoakRecord.from_result(
            result,
            conditions,
            not_measured=None if valid else "the tester failed in every stretch",
            repetitions=1,
            duration_s=spec.stretches * spec.stretch_s,
            measured_s=len(valid) * spec.stretch_s,
            stretches=len(result.repetitions),
            faltered=len(result.repetitions) - len(valid),
            directions={
                d: _summarize_direction(s.intervals.get(d, ()) for s in result.repetitions)
                for d in directions
            },
        )
        rows = [
            (s.number, (s.started, direction, *(
                (i.begins_s, i.length_s, i.frames, i.lost)
                if i else ((s.number - 1) * spec.stretch_s, spec.stretch_s, None, None)
            )))
            for s in result.repetitions
            for direction in directions
            for i in s.intervals.get(direction) or (None,)
        ]  # fmt: skip
        return Measurement(record, self.make_rows(spec.conditions, rows))

    columns = (
        *common.POINT_COLUMNS,
        common.OFFERED_RATE_COLUMN,
        Column("traffic s", lambda line: line.record.measured_s),
        Column("frames", lambda line: line.value.frames),
        Column("lost", lambda line: line.value.lost),
        Column("lost %", lambda line: _format_share(line.value.loss_percent)),
        Column("intervals\nwith loss", lambda i: f"{i.value.lossy} of {i.value.intervals}"),
        Column("episodes", lambda line: str(line.value.episodes)),
        Column("longest s\nwithout", lambda line: line.value.longest_s, ",.4f"),
        Column("worst\ninterval %", lambda line: _format_share(line.value.worst_percent)),
        Column("1st half %", lambda line: _format_share(line.value.halves_percent[0])),
        Column("2nd half %", lambda line: _format_share(line.value.halves_percent[1])),
    )

    def draw_figures(self, data: RunData, records: Sequence[SoakRecord]) -> Iterator[Drawing]:
        for record in records:
            curves = []
            for number, direction in enumerate(record.directions):
                times_s, losses = zip(*_list_interval_losses(data, record, direction), strict=True)
                style = {"linewidth": 0.9, "color": plots.style_line(number)["color"]}
                times_h = [t / SECONDS_PER_HOUR for t in times_s]
                curves.append(plots.Curve(direction, times_h, losses, style=style))
            invalid = {t.key for t in record.invalid_trials}
            gaps = [n for n, trial in enumerate(data.find_trials(record)) if trial.key in invalid]
            hours = record.stretch_s / SECONDS_PER_HOUR

            def format_axes(axes: Any, gaps: Sequence[int] = gaps, hours: float = hours) -> None:
                for number in gaps:
                    axes.axvspan(number * hours, (number + 1) * hours, color="#dddddd")
                axes.set_ylim(bottom=0)

            name = f"{self.name}-{record.frame_sizes.key}-{record.direction}"
            figure = plots.draw_series(
                name, curves, "hours of traffic", "lost frames, %", whole=False, adjust=format_axes
            )
            what = (
                f"Loss over {record.measured_s:,.0f} s at {record.rate:,.0f} fps per direction, "
                f"{record.point}; grey: the tester failed, no result."
            )
            yield Drawing(figure, what, what)

    def list_quantities(self, record: SoakRecord) -> Iterator[Quantity]:
        for direction, figures in record.directions.items():
            yield Quantity(
                f"lost {direction}",
                "%",
                [figures.loss_percent],
                more_is_better=False,
                load=f"{record.rate:,.0f} fps",
                headline=f"soak, lost % {direction}",
                summary=Percentiles(figures.loss_percent, None, None),
            )

    def find_warnings(self, record: SoakRecord) -> Iterator[tuple[str, str]]:
        if record.faltered:
            some = f"{record.faltered} of {record.stretches} stretches"
            yield "invalid-stretches", f"the tester failed in {some}, which have no result"
        for direction, figures in record.directions.items():
            first, second = figures.halves_percent
            if second and second > 2 * (first or 0.0) and figures.lost > 10:
                text = "the second half lost more than twice as much as the first"
                yield "growing-loss", f"{direction}: {text}"

    def check_clauses(self, data: RunData, records: Sequence[SoakRecord]) -> Iterator[Ruling]:
        complete = all(not r.faltered for r in records)
        yield judge("v6t, soak test", "every stretch is measured",
                    f"{sum(r.faltered for r in records)} of {sum(r.stretches for r in records)} "
                    "without a result", complete if records else None)  # fmt: skip


MAX_LOAD_RATIO = 1000  # ratio of the largest to the smallest load of a search


def _make_estimator(point: Point) -> EstimateLoad:
    """Return the function that estimates a critical load; in a plan, it never finds one."""
    if point.runner.is_planning:
        return lambda loads, target, most_fps: None
    # imports numpy, which most runs do without
    from v6t.analysis.posterior import CriticalLoadInference

    return CriticalLoadInference()


class CriticalLoadSettings(StrictModel):
    """Settings of the search for the critical load (PLRsearch)."""

    target: Annotated[float, Flag("--critical-loss")] = Field(default=1e-7, gt=0, lt=0.5)
    """Mean lost share of the frames at the critical load."""
    search_s: float = Field(1800.0, ge=0.1, le=86_400, description="Length of all trials [s].")
    first_s: float = Field(5.1, ge=0.01, le=3600, description="Length of the first trial [s].")
    longer_s: float = Field(0.1, ge=0, le=60, description="Increment of the trial length [s].")


class CriticalLoad(Benchmark[CriticalLoadRecord, CriticalLoadSettings]):
    """Load at which a device with random loss loses a given share on average (PLRsearch).

    draft-vpolak-bmwg-plrsearch. Trials near the critical load fit two loss functions; the
    result is the mean of both, with its interval.
    """

    name = "critical-load"
    csv_columns: ClassVar = {
        "rate": common.RATE_MEANING,
        "duration_s": common.DURATION_MEANING,
        "frames": "frames to send [frames]",
        "lost": "of them lost [frames]",
        "estimate": "mean of the critical load after this trial [frames per second per direction]",
        "low": "lower end of its interval [frames per second per direction]",
        "high": "upper end of its interval [frames per second per direction]",
    }
    record: ClassVar[type[CriticalLoadRecord]] = CriticalLoadRecord
    order = 120
    is_search = True
    connection_use = "optional"
    settings_model = CriticalLoadSettings
    quick_settings = CriticalLoadSettings(target=1e-3, search_s=8.0, first_s=0.3, longer_s=0.01)
    included_in_all = False

    def check(self, context: RunContext) -> None:
        settings = self.get_settings(context)
        least_s = 2 * settings.first_s + settings.longer_s
        if settings.search_s < least_s:
            raise UsageError(
                f"critical-load needs two trials, which take {least_s:g} s, but the search takes "
                f"{settings.search_s:g} s",
                "raise critical_load.search_s, or lower critical_load.first_s",
                code="trial-too-short",
            )

    def list_deviations(self, context: RunContext) -> Iterator[str]:
        settings = self.get_settings(context)
        yield (
            f"critical-load is the rate at which {100 * settings.target:g} % are lost on average: "
            "not an RFC 8219 throughput"
        )
        if settings.search_s < 1800:
            yield f"critical-load: {settings.search_s:g} s of trials, not the 1,800 s of FD.io CSIT"

    def run(self, point: Point) -> Measurement:
        spec = point.specify(
            CriticalLoadSpec,
            self.get_settings(point.context),
            conditions=point.make_conditions(search_limit_fps=point.limit_fps),
            least_fps=point.limit_fps / MAX_LOAD_RATIO,
            most_fps=point.limit_fps,
        )
        result = measure_critical_load(spec, point.measure, _make_estimator(point), point.watch)
        steps, estimate = result.steps, result.estimate
        if len(steps) < 2:
            raise NotMeasured("the tester failed in all trials but one")
        rates = [step.loss.rate_fps for step in steps]
        shapes = estimate.shapes if estimate else ()
        record = CriticalLoadRecord.from_result(
            result,
            point.run_conditions,
            target_percent=100 * spec.target,
            estimate=estimate and estimate.mean_fps,
            deviation=estimate and estimate.deviation_fps,
            low=estimate and estimate.low_fps,
            high=estimate and estimate.high_fps,
            shapes={
                s.name: ShapeEstimate(mean=s.mean_fps, deviation=s.deviation_fps) for s in shapes
            },
            searched_s=sum(step.duration_s for step in steps),
            lossless=sum(not step.loss.lost for step in steps),
            lowest=min(rates),
            highest=max(rates),
            upper_bound=point.limit_fps,
            upper_bound_reason=point.limit_reason,
            tester_ceiling=point.tester_capacity.rate_fps,
        )
        return Measurement(record, self.list_trial_rows(result))

    def list_trial_rows(self, result: CriticalLoadResult) -> list[CsvRow]:
        """Return a row for each valid trial, with the estimate after it."""
        rows = (
            (s.loss.rate_fps, s.duration_s, s.loss.frames, s.loss.lost,
             e and e.mean_fps, e and e.low_fps, e and e.high_fps)
            for s, e in zip(result.steps, result.step_estimates, strict=True)
        )  # fmt: skip
        return self.make_rows(result.spec.conditions, enumerate(rows, 1))

    columns = (
        *common.POINT_COLUMNS,
        Column("target\nloss %", lambda r: f"{r.target_percent:g}"),
        Column(
            "critical load\nfps per direction",
            lambda r: mark_limited(format_count(r.estimate), r.limited),
        ),
        Column("95 % interval", lambda r: r.interval),
        Column("deviation", lambda r: r.deviation),
        Column("stretch", lambda r: _format_shape(r, "stretch")),
        Column("erf", lambda r: _format_shape(r, "erf")),
        Column("traffic s", lambda r: r.searched_s),
        Column("trials", lambda r: str(len(r.trials) - len(r.invalid_trials))),
        Column("without\nloss", lambda r: str(r.lossless)),
        Column("bound fps", lambda r: f"{r.upper_bound:,.0f} {r.upper_bound_reason}"),
    )

    def define_quantity(self, records: Sequence[CriticalLoadRecord]) -> str:
        return (
            "Critical load: the rate per direction at which the target share of the frames of all "
            "directions together is lost on average, by Bayesian inference from the loss counts of "
            "all trials (PLRsearch, draft-vpolak-bmwg-plrsearch-03)."
        )

    def draw_figures(
        self, data: RunData, records: Sequence[CriticalLoadRecord]
    ) -> Iterator[Drawing]:
        for record in records:
            where = record.excess
            if record.estimate is not None:
                within = record.interval.replace("to", "and")
                where = f"{record.estimate:,.0f} fps, within {within} (95 %)"
            what = (
                f"Lost share of each trial against its load, {record.point}: the critical load at "
                f"{record.target_percent:g} % is {where}."
            )
            yield Drawing(_draw_losses_by_load(data, record), what, what)

    def list_quantities(self, record: CriticalLoadRecord) -> Iterator[Quantity]:
        beyond = f": {record.excess}" if record.estimate is None else ""
        limit = " - limited by the tester or the medium" if record.limited else ""
        loss = f"{record.target_percent:g} % loss"
        yield Quantity(
            "critical load",
            "fps",
            [record.estimate],
            resolution=record.deviation or 0.0,
            limited=record.limited,
            load=loss,
            headline=self.name,
            summary=Percentiles(record.estimate, record.low, record.high),
            card=Card(
                mark_limited(format_count(record.estimate), record.limited),
                "fps per direction",
                f"critical load at {loss}, {record.point}{beyond}{limit}",
            ),
        )

    def find_warnings(self, record: CriticalLoadRecord) -> Iterator[tuple[str, str]]:
        if record.estimate is None:
            seen = "too few frames were lost" if record.has_loss else "no trial lost frames"
            yield "not-found", f"{seen}: the critical load is {record.excess}"
        elif record.estimate < record.lowest:
            yield "extrapolated", "the critical load is below all offered loads: it is extrapolated"

    def check_clauses(
        self, data: RunData, records: Sequence[CriticalLoadRecord]
    ) -> Iterator[Ruling]:
        least = min((r.searched_s for r in records), default=0)
        yield judge("draft-vpolak-bmwg-plrsearch-03 (CSIT's setting)", "trials of 1,800 s together",
                    f"{least:,.0f} s", least >= 0.95 * 1800 if records else None)  # fmt: skip


def _draw_losses_by_load(data: RunData, record: CriticalLoadRecord) -> str:
    points = [
        sum_loss(float(trial.request["rate_fps"]), trial.result)
        for trial in data.list_valid_trials([record])
    ]
    style = {"linestyle": "", "marker": "o", "markersize": 4, "color": plots.BLUE}
    losses = [100 * point.ratio for point in points]
    trials = plots.Curve("trial", [point.rate_fps for point in points], losses, style=style)
    target = (record.target_percent, "target", {"color": plots.BLACK, "linestyle": ":"})

    def format_axes(axes: Any) -> None:
        if record.estimate is not None:
            axes.axvline(record.estimate, color=plots.VERMILLION, label="critical load")
            axes.axvspan(record.low, record.high, color=plots.VERMILLION, alpha=0.2)
        axes.set_yscale("symlog", linthresh=max(record.target_percent, 1e-6))
        plots.format_thousands(axes, "x")

    return plots.draw_series(
        f"critical-load-{record.frame_sizes.key}-{record.direction}",
        [trials],
        "offered, frames per second per direction",
        "lost frames, %",
        levels=[target],
        whole=False,
        adjust=format_axes,
    )


def _list_interval_losses(
    data: RunData, record: SoakRecord, direction: str
) -> Iterator[tuple[float, float]]:
    invalid = {t.key for t in record.invalid_trials}
    for number, trial in enumerate(data.find_trials(record)):
        begins_s = number * record.stretch_s
        counted = trial.result.directions.get(direction)
        if trial.key in invalid or counted is None:
            yield begins_s, float("nan")
            continue
        for part in counted.split_into_intervals(begins_s, record.stretch_s):
            if part.frames:
                yield part.begins_s, 100 * part.lost / part.frames


def _format_shape(record: CriticalLoadRecord, name: str) -> str:
    shape = record.shapes.get(name)
    return format_count(shape.mean) if shape else "-"
