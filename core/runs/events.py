"""Events of a run: the terminal, the log file, the live page and campaigns listen to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from v6t.analysis.record import Record
    from v6t.core.runs.plan import Stage
    from v6t.procedures.trial_runner import Progress
    from v6t.trials.result import TrialResult
    from v6t.trials.trial import Trial


@dataclass(frozen=True)
class Activity:
    """A trial that is about to start.

    Attributes:
        stage: stage of the run.
        trial: the trial.
        attempt: number of the attempt, from 1.
        before: result of the trial before it in this stage; None for the first.
        left_s: estimated rest of the run [s].
        done_s: time since the run began [s].
        number: number of the trial, from 1, self-tests and retries included.
        trials_left: estimated number of trials after this one.
    """

    stage: Stage
    trial: Trial
    attempt: int
    before: TrialResult | None
    left_s: float
    done_s: float = 0.0
    number: int = 1
    trials_left: int = 0


class Listener:
    """Receives the events of a run; this one ignores them."""

    def on_run_start(self, name: str) -> None:
        """Receive the name of each run of a campaign; empty after the last."""

    def on_message(self, text: str) -> None:
        """Receive a line about what begins, or what the user should know."""

    def on_trial_start(self, activity: Activity) -> None:
        """Receive each trial before it starts, self-tests and retries included."""

    def on_step_start(self, progress: Progress) -> None:
        """Receive a step of a benchmark, once for all its attempts."""

    def on_step_end(self, progress: Progress) -> None:
        """Receive a step of a benchmark with its verdict."""

    def on_point_end(self, records: Sequence[Record]) -> None:
        """Receive the records of all benchmarks of a phase at one frame size and mode."""


class Listeners(Listener):
    """Passes each event on to several listeners, in order."""

    def __init__(self, *listeners: Listener) -> None:
        self._listeners = listeners

    def on_run_start(self, name: str) -> None:
        for listener in self._listeners:
            listener.on_run_start(name)

    def on_message(self, text: str) -> None:
        for listener in self._listeners:
            listener.on_message(text)

    def on_trial_start(self, activity: Activity) -> None:
        for listener in self._listeners:
            listener.on_trial_start(activity)

    def on_step_start(self, progress: Progress) -> None:
        for listener in self._listeners:
            listener.on_step_start(progress)

    def on_step_end(self, progress: Progress) -> None:
        for listener in self._listeners:
            listener.on_step_end(progress)

    def on_point_end(self, records: Sequence[Record]) -> None:
        for listener in self._listeners:
            listener.on_point_end(records)
