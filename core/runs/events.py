"""Events of a run and their listeners: progress, descriptions for people, the log file."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache, partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from v6t.analysis.record import Record
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import pluralize
from v6t.base.entry_points import attribute_errors
from v6t.base.errors import V6tError
from v6t.benchmarks.registry import load_presentations
from v6t.core import log
from v6t.core.runs.rundir import LOG
from v6t.procedures.trial_runner import FPS, Progress
from v6t.trials.result import TrialResult
from v6t.trials.trial import Trial

if TYPE_CHECKING:
    from v6t.core.runs.plan import Stage


@dataclass(frozen=True)
class CurrentTrial:
    """Trial that is about to start, with its number and the estimated remaining time of the run."""

    stage: Stage
    trial: Trial
    previous_result: TrialResult | None  # of the stage; None before its first trial
    remaining_s: float  # estimated duration of the rest of the run
    elapsed_s: float = 0.0  # since the run began
    number: int = 1  # counted from 1, including self-tests and retries
    remaining_trials: int = 0  # estimated

    @property
    def attempt(self) -> int:
        """Number of the attempt to measure the trial, counted from 1."""
        ending = self.trial.key.rpartition("/")[2]
        return int(ending[1:]) if ending[:1] == "a" and ending[1:].isdigit() else 1


class Listener:
    """Receives the events of a run; this base class ignores them."""

    def on_run_start(self, name: str) -> None:
        """Receive the name of a run of a campaign before it starts; empty after the last run."""

    def on_run_data(self, get_data: Callable[[], RunData]) -> None:
        """Receive, before the first trial, the function that returns the data of the run so far."""

    def on_message(self, text: str) -> None:
        """Receive a progress message or a notice for the user."""

    def on_trial_start(self, current_trial: CurrentTrial) -> None:
        """Receive a trial before it starts, including self-tests and retries."""

    def on_step_start(self, progress: Progress) -> None:
        """Receive a step of a benchmark before its first attempt."""

    def on_step_end(self, progress: Progress) -> None:
        """Receive a finished step of a benchmark with its verdict."""

    def on_point_end(self, records: Sequence[Record]) -> None:
        """Receive the records of a phase at one frame size and mode after its last benchmark."""


class CompositeListener(Listener):
    """Listener that passes every event to several others, in order."""

    def __init__(self, *listeners: Listener) -> None:
        for event in (name for name in vars(Listener) if name.startswith("on_")):
            setattr(self, event, partial(_call_all, [getattr(each, event) for each in listeners]))


def _call_all(receivers: Sequence[Callable[[Any], None]], value: Any) -> None:
    for receive in receivers:
        receive(value)


class RunDataCollector(Listener):
    """Keeps the data of runs, including failed ones, by name; a single run has an empty name."""

    def __init__(self) -> None:
        self.ended: dict[str, RunData] = {}  # data of ended runs
        self._name = ""
        self._get_data: Callable[[], RunData] | None = None

    def find(self, name: str) -> RunData | None:
        """Return the data of a run so far; None if the run is unknown."""
        current = self._get_data if name == self._name else None
        return self.ended.get(name) if current is None else current()

    def on_run_start(self, name: str) -> None:
        if self._get_data is not None:
            self.ended[self._name] = self._get_data()
        self._name, self._get_data = name, None

    def on_run_data(self, get_data: Callable[[], RunData]) -> None:
        self._get_data = get_data


MIN_TIMED_TRIAL_S = 5.0  # shortest trial whose elapsed time is shown


class RemainingTimeEstimator:
    """Estimates the remaining time from the plan and the pace of the measured stages.

    Stages whose trials are in the journal, all or some of them, show no pace.
    """

    def __init__(
        self, planned: Iterable[Stage], clock: Callable[[], float] = time.monotonic
    ) -> None:
        # stages of the plan; keys are equal to their values, but may have other times
        self._planned = {stage: stage for stage in planned}
        self._clock = clock
        self._taken_s: dict[Stage, float] = {}
        self._coming = list(self._planned.values())
        self._finished: list[Stage] = []
        self.stage: Stage | None = None
        self._since = self._began = clock()
        self._share_done = 0.0
        self._first_share: float | None = None  # done at the first trial; None before it
        self._measured: set[Stage] = set()  # without trials from the journal
        self._trials = 0

    def begin(self, stage: Stage) -> None:
        """End the previous stage and begin another, whose planned time replaces the plan's."""
        if self.stage is not None:
            self._taken_s[self.stage] = self._compute_stage_time_s()
            if self._first_share == 0:
                self._measured.add(self.stage)
        if stage.seconds:
            self._planned[stage] = stage
        self.stage = self._planned.get(stage, stage)
        self._since, self._share_done, self._first_share = self._clock(), 0.0, None
        others = [other for other in self._planned.values() if other != stage]
        self._coming = [other for other in others if other not in self._taken_s]
        self._finished = [other for other in others if other in self._measured]

    def record_progress(self, progress: Progress) -> None:
        steps = max(progress.steps, progress.step, 1)
        done = progress.step - (progress.verdict is None)
        self._share_done = (progress.repetition - 1 + done / steps) / max(1, progress.repetitions)

    def start_trial(self, trial: Trial, previous_result: TrialResult | None) -> CurrentTrial:
        """Count a trial that is about to start, and return it with the remaining time."""
        if self.stage is None:
            raise ValueError("no stage has begun")
        self._trials += 1
        if self._first_share is None:
            self._first_share = self._share_done
        remaining_trials = self.stage.trials * (1 - self._share_done)
        return CurrentTrial(
            self.stage,
            trial,
            previous_result,
            self.estimate_remaining_s(),
            self._clock() - self._began,
            self._trials,
            round(remaining_trials + sum(stage.trials for stage in self._coming)),
        )

    def estimate_remaining_s(self) -> float:
        first, elapsed_s = self._first_share or 0.0, self._compute_stage_time_s()
        find_pace = cache(self._compute_pace)
        expected_s = self.stage.expected_s * find_pace(self.stage) if self.stage else 0.0
        expected_s *= 1 - first
        share = (self._share_done - first) / (1 - first) if first < 1 else 0.0
        current_s = max(0.0, expected_s - elapsed_s)
        if share:  # its own trials count more towards the end
            by_pace_s = elapsed_s / share * (1 - share)
            current_s = share * by_pace_s + (1 - share) * (1 - share) * expected_s
        return current_s + sum(stage.expected_s * find_pace(stage) for stage in self._coming)

    def _compute_stage_time_s(self) -> float:
        taken_s = self._taken_s.get(self.stage, 0.0) if self.stage is not None else 0.0
        return taken_s + self._clock() - self._since

    def _compute_pace(self, stage: Stage) -> float:
        """Return the ratio of measured to planned time, from the most similar stages."""
        same = [other for other in self._finished if other.name == stage.name]
        for stages in ([s for s in same if s.mode == stage.mode], same, self._finished):
            if expected_s := sum(other.expected_s for other in stages):
                return sum(self._taken_s[other] for other in stages) / expected_s
        return 1.0


def describe_step(progress: Progress) -> str:
    """Describe a finished step in one line."""
    verdict = progress.verdict
    if verdict is None:
        raise ValueError("the step has no verdict yet")
    word = "passed" if verdict.passed else "failed" if verdict.valid else "INVALID"
    if verdict.valid and not progress.is_search:
        word = "measured"
    why = f" ({verdict.reasons[0]})" if verdict.reasons else ""
    return f"{describe_position(progress)}: {progress.rate_fps:,.0f} {progress.unit} {word}{why}"


def describe_position(progress: Progress) -> str:
    """Describe the point, the repetition and the step of the progress."""
    name = progress.point.removeprefix("throughput/")
    return f"{name} {progress.repetition}/{progress.repetitions} step {progress.step}"


def describe_point(records: Sequence[Record], seconds: float) -> Iterator[str]:
    """Yield a line with the first result, the trials and the duration of a point."""
    for first in records[:1]:
        trials = pluralize(sum(len(r.trials) for r in records), "trial")
        direction = "" if first.direction == "connections" else f"{first.direction:<15}"
        place = f"  {first.sizes:<9} {direction}"
        yield f"{place}{make_headline(first)}   {trials}   {format_duration(seconds)}"


def make_headline(record: Record) -> str:
    """Return the benchmark of a record and its first result as a short text."""
    if not record.measured:
        return f"{record.benchmark} not measured"
    presentation = load_presentations().find(record)
    for result in presentation.list_quantities(record):
        if result.headline and result.summary:
            value = presentation.format_value(result.summary.median)
            return f"{record.benchmark} {value} {result.unit}{' *' if result.limited else ''}"
    return record.benchmark


def describe_trial(current: CurrentTrial, progress: Progress | None, elapsed_s: float) -> str:
    """Describe the current trial, which began ``elapsed_s`` ago, in one line."""
    trial, stage = current.trial, current.stage
    parts = [f"{stage.size_label} {stage.mode}  {stage.name}"]
    unit, bounds = FPS, ""
    if progress is not None and trial.key.startswith(f"{progress.point}/"):
        parts.append(f" {progress.repetition}/{progress.repetitions} step {progress.step}")
        unit = progress.unit
        if progress.low_fps != progress.high_fps:
            bounds = f", between {progress.low_fps:,.0f} and {progress.high_fps:,.0f}"
    parts.append(f": {trial.rate_fps:,.0f} {'fps' if unit == FPS else unit}{bounds}")
    if current.attempt > 1:
        parts.append(f", attempt {current.attempt}")
    whole_s = trial.pause_s + trial.total_duration_s + trial.residual_wait_s
    if whole_s >= MIN_TIMED_TRIAL_S:
        parts.append(f", {min(elapsed_s, whole_s):.0f} of {whole_s:.0f} s")
    return "".join([*parts, *_describe_last_trial(current.previous_result)])


def _describe_last_trial(result: TrialResult | None) -> Iterator[str]:
    """Yield the frame loss of the last trial and the load of the device's busiest core."""
    if result is None:
        return
    if required := sum(d.count_frames("required") for d in result.directions.values()):
        received = sum(d.count_frames("received") for d in result.directions.values())
        yield f", last lost {(required - received) / required:.4%}"
    if busiest := [load.max_percent for load in result.device_loads.values() if load.max_percent]:
        yield f", device CPU {max(median(cores) for cores in busiest):.0f} %"


def format_duration(seconds: float) -> str:
    """Format a duration as ``"1 h 05 min"``, ``"3 min 20 s"`` or ``"45 s"``."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    if whole >= 60:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole} s"


class LogFile(Listener):
    """Log file in a directory, with a time stamp and text for each message and command.

    The first entry creates the file and sets ``begun``: a rejected run leaves its directory as is.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / LOG
        self.begun = False

    def on_message(self, text: str) -> None:
        """Append an entry; a file that cannot be written does not stop the run."""
        self.begun = True
        stamp = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        entry = f"{stamp} {log.sanitize_text(text)}\n".encode()
        with contextlib.suppress(OSError):
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with open(file, "ab") as out:
                out.write(entry)

    def on_step_end(self, progress: Progress) -> None:
        self.on_message(describe_step(progress))


@contextlib.contextmanager
def open_log(directory: Path | None, listener: Listener | None = None) -> Iterator[Listener]:
    """Append log records and the final error to the log file in a directory, if there is one.

    Args:
        directory: directory of a run or an audit; None for no log file.
        listener: also receives notices; they are then events, and not printed by the log.

    Yields:
        A listener that passes events to ``listener`` and to the log file.
    """
    if directory is None:
        with attribute_errors():
            yield Listener()
        return
    file = LogFile(directory)
    events = CompositeListener(listener or Listener(), file)
    with log.copy_records(file.on_message, None if listener is None else events.on_message):
        try:
            with attribute_errors():
                yield events
        except (V6tError, KeyboardInterrupt) as exc:
            text = "interrupted"
            if isinstance(exc, V6tError):
                text = f"error: {exc.message}" + (f" ({exc.hint})" if exc.hint else "")
            if file.begun:
                file.on_message(text)
            raise
