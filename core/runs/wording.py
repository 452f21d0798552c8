"""How trials, points and times are described: in the log, on the terminal, in a campaign's plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING

from v6t.procedures.trial_runner import FPS, Progress

if TYPE_CHECKING:
    from v6t.analysis.record import Record
    from v6t.core.runs.events import Activity
    from v6t.trials.result import TrialResult

LONG_S = 5.0
"""Length from which on the time within a trial is shown."""


def describe_step(progress: Progress) -> str:
    """Describe a finished step in one line.

    Raises:
        ValueError: the step has no verdict yet.
    """
    verdict = progress.verdict
    if verdict is None:
        raise ValueError("the step has no verdict yet")
    word = "passed" if verdict.passed else "failed" if verdict.valid else "INVALID"
    if verdict.valid and not progress.searched:
        word = "measured"
    why = f" ({verdict.reasons[0]})" if verdict.reasons else ""
    return f"{describe_place(progress)}: {progress.rate_fps:,.0f} {progress.unit} {word}{why}"


def describe_place(progress: Progress) -> str:
    """Name the point, the repetition and the step."""
    name = progress.point.removeprefix("throughput/")
    return f"{name} {progress.repetition}/{progress.repetitions} step {progress.step}"


def describe_point(records: Sequence[Record], seconds: float) -> Iterator[str]:
    """Yield a line about the benchmarks of one point: the first one's figure, trials and time."""
    if not records:
        return
    first = records[0]
    trials = sum(len(r.trials) for r in records)
    yield (
        f"  {first.sizes:<9} {first.direction:<13}  {headline(first)}   "
        f"{trials:,} trials   {duration(seconds)}"
    )


def headline(record: Record) -> str:
    """Name a record's benchmark and its first figure."""
    from v6t.benchmarks.registry import presentations

    if not record.measured:
        return f"{record.benchmark} not measured"
    presentation = presentations().of(record)
    result = next((r for r in presentation.results(record) if r.headline and r.summary), None)
    if result is None or result.summary is None:
        return record.benchmark
    value = presentation.shown(result.summary.median)
    return f"{record.benchmark} {value} {result.unit}{' *' if result.limited else ''}"


def describe_activity(activity: Activity, progress: Progress | None, passed_s: float) -> str:
    """Describe the current trial in one line.

    Args:
        activity: the trial.
        progress: last step of a benchmark; the trial may belong to a self-test instead.
        passed_s: time since the trial began.
    """
    trial, stage = activity.trial, activity.stage
    of_step = progress is not None and trial.key.startswith(f"{progress.point}/")
    parts = [f"{stage.octets} {stage.mode}  {stage.name}"]
    unit, bounds = FPS, ""
    if progress is not None and of_step:
        parts.append(f" {progress.repetition}/{progress.repetitions} step {progress.step}")
        unit = progress.unit
        if progress.low_fps != progress.high_fps:
            bounds = f", between {progress.low_fps:,.0f} and {progress.high_fps:,.0f}"
    parts.append(f": {trial.rate_fps:,.0f} {'fps' if unit == FPS else unit}{bounds}")
    if activity.attempt > 1:
        parts.append(f", attempt {activity.attempt}")
    whole_s = trial.pause_s + trial.total_duration_s + trial.residual_wait_s
    if whole_s >= LONG_S:
        parts.append(f", {min(passed_s, whole_s):.0f} of {whole_s:.0f} s")
    parts += [f", {word}" for word in _describe_last(activity.before)]
    return "".join(parts)


def _describe_last(result: TrialResult | None) -> Iterator[str]:
    """Yield what the trial before showed: frames lost, and the device's busiest core."""
    if result is None:
        return
    required = sum(d.count_frames("required") for d in result.directions.values())
    if required:
        received = sum(d.count_frames("received") for d in result.directions.values())
        yield f"last lost {(required - received) / required:.4%}"
    busiest = [load.max_percent for load in result.device_loads.values() if load.max_percent]
    if busiest:
        yield f"device CPU {max(median(cores) for cores in busiest):.0f} %"


def duration(seconds: float) -> str:
    """``"1 h 05 min"``, ``"3 min 20 s"`` or ``"45 s"``."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    if whole >= 60:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole} s"
