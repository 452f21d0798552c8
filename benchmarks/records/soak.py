"""Records of soak tests and of critical loads for ``results.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, NamedTuple

from v6t.analysis.record import FPS, Model, Number, Record, Row, head
from v6t.procedures.critical_load import CriticalLoadResult
from v6t.procedures.soak import SoakResult
from v6t.trials.intervals import TrafficInterval
from v6t.trials.trial import list_directions


class Soaked(Model):
    """What became of one direction."""

    frames: int
    """due in what was measured"""
    lost: int
    """of them"""
    loss_percent: Number | None
    """lost share [%]; null where nothing was measured"""
    intervals: int
    """into which the time is cut"""
    lossy: int
    """intervals in which frames were lost"""
    episodes: int
    """times in which frames were lost in one interval after the other"""
    longest_s: Number
    """longest time without loss [s]"""
    worst_percent: Number | None
    """lost share of the worst interval [%]"""
    worst_at_s: Number | None
    """when that began, in seconds of traffic; null where nothing was lost [s]"""
    halves_percent: list[Number | None]
    """lost share of the first and of the second half of the intervals [%]"""


class SoakRecord(Record):
    """Loss over hours at one rate."""

    unit: Literal["%"]
    """of lost shares"""
    rate: Number
    """offered [frames per second per direction]"""
    rate_source: str
    """where the rate is from"""
    duration_s: Number
    """asked for, all stretches together [s]"""
    measured_s: Number
    """of it, without stretches in which the tester faltered [s]"""
    stretch_s: Number
    """length of a stretch [s]"""
    stretches: int
    """that were sent"""
    faltered: int
    """stretches in which the tester faltered: gaps, no loss of the device"""
    directions: dict[str, Soaked]
    """loss of each direction"""

    @property
    def offered(self) -> Sequence[float]:
        return [self.rate]


class ShapeFound(Model):
    """What one shape of the loss function makes of the trials."""

    mean: Number
    """of the critical load"""
    deviation: Number
    """its standard deviation"""


class Found(NamedTuple):
    """A critical load that was found."""

    estimate: float
    deviation: float
    low: float
    high: float


class CriticalLoadRecord(Record):
    """The load at which a given share is lost on average; rates in the record's `unit`."""

    unit: Literal["frames per second"] = FPS
    """of rates"""
    target_percent: Number
    """lost share at the critical load [%]"""
    estimate: Number | None
    """the critical load; null where no trial lost frames, or its mean is above `upper_bound`"""
    deviation: Number | None
    """its standard deviation, both shapes together; null as the estimate"""
    low: Number | None
    """lower end of the interval that holds it with 95 % of the probability; null as the estimate"""
    high: Number | None
    """upper end of that interval; null as the estimate"""
    shapes: dict[str, ShapeFound]
    """the estimates of both shapes; where they differ the shape of the device's loss is not known;
    empty where the estimate is null"""
    searched_s: Number
    """length of all valid trials together [s]"""
    lossless: int
    """valid trials without loss"""
    lowest: Number
    """smallest rate offered in a valid trial"""
    highest: Number | None = None
    """highest rate offered in a valid trial; null in records of earlier versions"""
    upper_bound: Number
    """highest rate that could be offered"""
    upper_bound_reason: str
    """`media` or `tester`"""
    tester_ceiling: Number | None = None
    """the tester's own capacity"""

    @property
    def lossy(self) -> bool:
        """Whether a valid trial lost frames."""
        return self.lossless < len(self.trials) - len(self.invalid_trials)

    @property
    def critical_load(self) -> Found | None:
        """What was found, if anything; records of earlier versions have figures nobody measured."""
        if self.estimate is None or not self.lossy or self.estimate > self.upper_bound:
            return None
        if self.deviation is None or self.low is None or self.high is None:
            return None
        return Found(self.estimate, self.deviation, self.low, self.high)

    @property
    def limited(self) -> bool:
        """The interval reaches what tester or medium carry, or nothing was found below that."""
        return self.critical_load is None or self.critical_load.high >= self.upper_bound


def soak_record(result: SoakResult, *, conditions: Mapping[str, Any]) -> SoakRecord:
    """The record of a soak test."""
    spec = result.spec
    ways = list_directions(spec.conditions.mode)
    good = [s for s in result.stretches if s.intervals]
    return SoakRecord(
        **head(spec.conditions, spec.benchmark, "Soak test", result.attempts, conditions),
        unit="%",
        not_measured=None if good else "the tester faltered in every stretch",
        repetitions=1,
        rate=spec.rate_fps,
        rate_source=spec.rate_source,
        duration_s=spec.stretches * spec.stretch_s,
        measured_s=len(good) * spec.stretch_s,
        stretch_s=spec.stretch_s,
        stretches=len(result.stretches),
        faltered=len(result.stretches) - len(good),
        directions={way: _soaked(result.intervals(way)) for way in ways},
    )


def _soaked(intervals: Sequence[TrafficInterval]) -> dict[str, Any]:
    lossy = [i for i in intervals if i.lost]
    worst = max(lossy, key=lambda i: i.lost / max(i.frames, 1), default=None)
    runs = [(bad, list(some)) for bad, some in groupby(intervals, key=lambda i: i.lost > 0)]
    half = len(intervals) // 2
    return {
        "frames": sum(i.frames for i in intervals),
        "lost": sum(i.lost for i in intervals),
        "loss_percent": _percent(intervals),
        "intervals": len(intervals),
        "lossy": len(lossy),
        "episodes": sum(bad for bad, _ in runs),
        "longest_s": max(
            (sum(i.length_s for i in some) for bad, some in runs if not bad), default=0
        ),
        "worst_percent": _percent([worst]) if worst else (0.0 if intervals else None),
        "worst_at_s": worst.begins_s if worst else None,
        "halves_percent": [_percent(intervals[:half]), _percent(intervals[half:])],
    }


def _percent(intervals: Sequence[TrafficInterval]) -> float | None:
    frames = sum(i.frames for i in intervals)
    return 100 * sum(i.lost for i in intervals) / frames if frames else None


def soak_rows(result: SoakResult) -> list[Row]:
    """A row for each interval and direction, and one for each stretch that says nothing."""
    rows: list[Row] = []
    at = result.spec.conditions
    for stretch in result.stretches:
        point = {"No": stretch.number, "Size": at.size_label, "Dir": at.mode[0]}
        for way in list_directions(at.mode):
            intervals = stretch.intervals.get(way, ())
            rows += [
                {**point, "started": stretch.started, "direction": way, "begins_s": i.begins_s,
                 "length_s": i.length_s, "frames": i.frames, "lost": i.lost}
                for i in intervals
            ]  # fmt: skip
            if not intervals:
                begins_s = (stretch.number - 1) * result.spec.stretch_s
                rows.append(
                    {**point, "started": stretch.started, "direction": way, "begins_s": begins_s,
                     "length_s": result.spec.stretch_s, "frames": None, "lost": None}
                )  # fmt: skip
    return rows


def critical_load_record(
    result: CriticalLoadResult,
    *,
    bound: tuple[float, str],
    capacity_fps: float,
    conditions: Mapping[str, Any],
) -> CriticalLoadRecord | None:
    """The record of a search; None: too few of its trials were valid."""
    if len(result.steps) < 2:
        return None
    estimate = result.estimate
    return CriticalLoadRecord(
        **head(
            result.spec.conditions, result.spec.benchmark,
            f"Critical load at {100 * result.spec.target:g} % loss (PLRsearch, no RFC 8219 throughput)",
            result.attempts, conditions,
        ),
        repetitions=1,
        target_percent=100 * result.spec.target,
        estimate=estimate.mean_fps if estimate else None,
        deviation=estimate.deviation_fps if estimate else None,
        low=estimate.low_fps if estimate else None,
        high=estimate.high_fps if estimate else None,
        shapes={
            s.name: ShapeFound(mean=s.mean_fps, deviation=s.deviation_fps)
            for s in (estimate.shapes if estimate else ())
        },
        searched_s=sum(s.duration_s for s in result.steps),
        lossless=sum(not s.offered.lost for s in result.steps),
        lowest=min(s.offered.rate_fps for s in result.steps),
        highest=max(s.offered.rate_fps for s in result.steps),
        upper_bound=bound[0],
        upper_bound_reason=bound[1],
        tester_ceiling=capacity_fps,
    )  # fmt: skip


def critical_load_rows(result: CriticalLoadResult) -> list[Row]:
    """A row for each valid trial, with what was known after it."""
    at, rows = result.spec.conditions, []
    for number, (step, estimate) in enumerate(zip(result.steps, result.known, strict=True), 1):
        rows.append(
            {"No": number, "Size": at.size_label, "Dir": at.mode[0], "rate": step.offered.rate_fps,
             "duration_s": step.duration_s, "frames": step.offered.frames,
             "lost": step.offered.lost, "estimate": estimate and estimate.mean_fps,
             "low": estimate and estimate.low_fps, "high": estimate and estimate.high_fps}
        )  # fmt: skip
    return rows
