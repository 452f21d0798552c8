"""Records of the throughput for ``results.json`` (RFC 2544 section 26.1, RFC 8219 section 7.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Literal

from v6t.analysis.record import (
    AGGREGATE,
    FPS,
    FindResult,
    Model,
    Number,
    RateRecord,
    Row,
    Series,
    bounded_by_tester,
    counted_by,
    head,
    rates_found,
)
from v6t.benchmarks.records.goals import CONTROLLER, GoalFigures, goal_figures
from v6t.procedures.search import mlr
from v6t.procedures.throughput import Repetition, ThroughputResult, ThroughputSpec
from v6t.trials.trial import list_directions


class AdaptiveBounds(Model):
    """When adaptive repetition ends."""

    fewest: int
    """repetitions at least"""
    most: int
    """repetitions at most"""
    width: Number
    """relative width of the median's confidence interval that is good enough"""
    confidence: Number
    """its coverage"""


class ThroughputRecord(RateRecord):
    """Highest rate without loss; rates are per direction, also those of bidirectional trials."""

    unit: Literal["frames per second"]
    """of the rates"""
    convention: Literal["per_direction"]
    """rates are per direction, and so is everything in their unit"""
    search: str = "binary"
    """`binary` or `mlrsearch`"""
    search_label: str | None = None
    """how MLRsearch calls its result"""
    controller: str | None = None
    """what chose the trials of MLRsearch; its version is fixed"""
    goal: GoalFigures | None = None
    """MLRsearch's goal with its bounds; `rates` are the relevant lower bounds, if nothing confirmed
    them"""
    adaptive: AdaptiveBounds | None = None
    """bounds of adaptive repetition; null: a fixed number"""
    non_monotonic: int = 0
    """repetitions in which a rate passed above one that failed"""
    unresolved: int = 0
    """repetitions whose search gave up before its bracket was as narrow as asked"""
    confirmations: int = 0
    """full trials that confirm each result"""
    final_duration_s: Number | None = None
    """length of the confirming trials; null: as all others [s]"""
    frame_timeout_s: Number | None = None
    """deadline of every frame; null: none [s]"""
    aggregate_median: Number
    """sum of the directions' medians [frames per second]"""
    aggregate_convention: Literal["aggregate"]
    """how `aggregate_median` counts: both directions together"""
    loss: dict[str, Number | None]
    """largest lost share at the reported rates, by direction"""
    loss_tolerance: Number
    """accepted lost share in each direction; 0 is the RFC's"""
    matched: Number | None
    """share of the checked frames equal to the reference translation; null: none was compared"""
    checked: int
    """sampled frames that were compared with the reference translation"""
    resolution_fps: Number
    """error of the search [frames per second per direction]"""
    duration_s: Number
    """length of the deciding trials [s]"""
    residual_wait_s: Number | None = None
    """wait for late frames (RFC 2544 section 23) [s]"""
    pause_s: Number | None = None
    """pause between trials (RFC 2544 section 23) [s]"""
    sending_time_tolerance: Number = 1.00001
    """longest sending time of a valid trial, as a multiple of its length"""
    decisive_trials: list[str]
    """trial that decided each repetition: the highest that passed"""

    @property
    def throughput_fps(self) -> float | None:
        return self.median if self.measured and self.frame_timeout_s is None else None

    @property
    def published_conditions(self) -> Mapping[str, Any]:
        return {"trial_s": 60.0, "acceptance": "100%"}

    def find_published_value(
        self, figure: str, direction: str, mode: str, *, is_aggregate: bool
    ) -> tuple[float | None, str] | None:
        value = super().find_published_value(figure, direction, mode, is_aggregate=is_aggregate)
        if value is None or not is_aggregate:
            return value
        return self.aggregate_median, "sum of both directions"

    def series(self) -> Iterator[tuple[str, Series, str]]:
        yield "", self, "fps"


def throughput_record(
    result: ThroughputResult,
    find: FindResult,
    *,
    capacity_fps: float | None,
    selftest_margin: float,
    conditions: Mapping[str, Any],
    compared: bool = True,
) -> ThroughputRecord:
    """The record of one throughput point.

    Args:
        result: the repetitions.
        find: where counts and comparisons come from.
        capacity_fps: the tester's own lossless rate per direction, None if unknown.
        selftest_margin: results above ``(1 - margin)`` of it are flagged (SELF-02).
        conditions: what else the reader must know.
        compared: whether there were frames to compare at all.
    """
    spec = result.spec
    at = spec.conditions
    ways = list_directions(at.mode)
    attempts = [a for r in result.repetitions for a in r.attempts]
    summary = rates_found([r.rate_fps for r in result.repetitions], "fps")
    decisive = [t for t in (decisive_trial(r) for r in result.repetitions) if t]
    counted = [d for key in decisive for d in find(key).directions.values()]
    checked = sum(d.checked for d in counted) if compared else 0
    limit = None if capacity_fps is None else capacity_fps * (1 - selftest_margin)
    goals = [r.search.goal for r in result.repetitions if r.search.goal is not None]
    return ThroughputRecord(
        **head(at, spec.benchmark, _title(result), attempts, conditions),
        **summary,
        unit=FPS,
        search=spec.search,
        search_label=mlr.LABEL if spec.search == "mlrsearch" else None,
        controller=CONTROLLER if goals else None,
        goal=goal_figures(goals) if goals else None,
        adaptive=None if spec.adaptive is None else asdict(spec.adaptive),
        non_monotonic=sum(r.non_monotonic for r in result.repetitions),
        unresolved=sum(_unresolved(r, spec) for r in result.repetitions),
        confirmations=spec.confirmations,
        final_duration_s=spec.final_duration_s,
        frame_timeout_s=at.frame_timeout_s,
        aggregate_median=summary["median"] * len(ways),
        aggregate_convention=AGGREGATE,
        loss={way: _worst_loss(result.repetitions, way, decisive) for way in ways},
        loss_tolerance=at.loss_tolerance,
        matched=sum(d.matched for d in counted) / checked if checked else None,
        checked=checked,
        tester_limited=(limit is not None and summary["median"] > limit)
        or any(bounded_by_tester(r.rate_fps, r.attempts) for r in result.repetitions),
        tester_ceiling=capacity_fps,
        upper_bound=spec.upper_bound_fps,
        upper_bound_reason=spec.upper_bound_reason,
        upper_bound_hit=any(
            r.search.hit_upper_bound and r.rate_fps >= spec.upper_bound_fps
            for r in result.repetitions
        ),
        resolution_fps=result.error_fps,
        duration_s=spec.duration_s,
        residual_wait_s=at.residual_wait_s,
        pause_s=at.pause_s,
        sending_time_tolerance=at.sending_time_tolerance,
        decisive_trials=decisive,
        counted_by=counted_by(find(a.trial.key) for a in attempts),
    )


def _title(result: ThroughputResult) -> str:
    """What the number is; a search or rule other than the RFC's is part of its name."""
    spec = result.spec
    title = "Throughput"
    if spec.benchmark != "throughput":
        title += f" with per-frame timeout {(spec.conditions.frame_timeout_s or 0) * 1000:g} ms"
    if spec.search == "mlrsearch":
        title += " (MLRsearch, RFC 2544 goal)"
    if spec.adaptive is not None:
        title += f" (adaptive, n={len(result.repetitions)})"
    return title


def repetition_rows(result: ThroughputResult, started: Callable[[str], str]) -> list[Row]:
    """One row per repetition in siitperf's column order (GEN-28); rates per direction."""
    spec = result.spec
    return [
        {
            "No": r.number,
            "Size": spec.conditions.size_label,
            "Dir": spec.conditions.mode[0],
            "Duration": spec.duration_s,
            "Initial Rate": spec.upper_bound_fps,
            "Timeout": spec.conditions.residual_wait_s,
            "Error": r.error_fps(spec.resolution_fps),
            "Date": started(r.attempts[0].trial.key) if r.attempts else "",
            "Iterations": len(r.attempts),
            "rate": r.rate_fps,
        }
        for r in result.repetitions
    ]


def _unresolved(repetition: Repetition, spec: ThroughputSpec) -> bool:
    """The search gave up with a wider bracket than asked for."""
    high = repetition.search.first_failed_fps
    if high is None:
        return False
    widest = repetition.search.error_fps(spec.resolution_fps)
    return high - repetition.search.rate_fps > widest * 1.001


def decisive_trial(repetition: Repetition) -> str | None:
    """Key of the last trial that passed at the reported rate."""
    passed = [
        a.trial
        for a in repetition.attempts
        if a.verdict.passed and a.trial.rate_fps == repetition.rate_fps
    ]
    # the search's probes are shorter than the trial that decides
    longest = max((t.duration_s for t in passed), default=0.0)
    return next((t.key for t in reversed(passed) if t.duration_s == longest), None)


def _worst_loss(repetitions: tuple[Repetition, ...], way: str, decisive: list[str]) -> float | None:
    losses = [
        a.verdict.loss[way]
        for r in repetitions
        for a in r.attempts
        if a.trial.key in decisive and way in a.verdict.loss
    ]
    return max(losses, default=None)
