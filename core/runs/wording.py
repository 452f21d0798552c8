"""How trials and times are told: in the log, on the terminal, in a campaign's plan."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING

from v6t.procedures.trial_runner import FPS, Progress

if TYPE_CHECKING:
    from v6t.core.runs.remaining import Now
    from v6t.trials.result import TrialResult


def outcome(progress: Progress) -> str:
    """Describe a finished trial in one line."""
    verdict = progress.verdict
    if verdict is None:
        raise ValueError("the trial is not over")
    word = "passed" if verdict.passed else "failed" if verdict.valid else "INVALID"
    if verdict.valid and not progress.searched:
        word = "measured"  # loss is what these look for, or what they put up with
    why = f" ({verdict.reasons[0]})" if verdict.reasons else ""
    return f"{point(progress)}: {progress.rate_fps:,.0f} {progress.unit} {word}{why}"


LONG_S = 5.0
"""From this length of a trial on it is told how far it is."""


def happening(now: Now, progress: Progress | None, passed_s: float) -> str:
    """Describe the current trial in one line.

    Args:
        now: the stage, and the trial that has begun.
        progress: what the last trial of a benchmark is for; another than this in self-tests.
        passed_s: since it began.
    """
    trial = now.trial
    of_trial = progress is not None and trial.key.startswith(f"{progress.point}/")
    parts = [f"{now.stage}: "]
    unit, bracket = FPS, ""
    if progress is not None and of_trial:
        place = f" {progress.repetition}/{progress.repetitions} step {progress.step}"
        parts = [f"{now.stage}{place}: "]
        unit = progress.unit
        if progress.low_fps != progress.high_fps:
            bracket = f", between {progress.low_fps:,.0f} and {progress.high_fps:,.0f}"
    parts.append(f"offering {trial.rate_fps:,.0f} {unit}{bracket}")
    if now.attempt > 1:
        parts.append(f", attempt {now.attempt}")
    whole_s = trial.pause_s + trial.total_duration_s + trial.residual_wait_s
    if whole_s >= LONG_S:
        parts.append(f", {min(passed_s, whole_s):.0f} of {whole_s:.0f} s")
    parts += [f", {word}" for word in _before(now.before)]
    return "".join(parts) + f"; about {duration(max(0.0, now.left_s - passed_s))} left"


def _before(result: TrialResult | None) -> Iterator[str]:
    """Yield what the trial before showed: frames lost, and the device's busiest core."""
    if result is None:
        return
    required = sum(d.count_frames("required") for d in result.directions.values())
    if required:
        received = sum(d.count_frames("received") for d in result.directions.values())
        yield f"the one before lost {(required - received) / required:.4%}"
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


def point(progress: Progress) -> str:
    """Where the trial belongs, with repetition and step."""
    name = progress.point.removeprefix("throughput/")
    return f"{name} {progress.repetition}/{progress.repetitions} step {progress.step}"
