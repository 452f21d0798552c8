"""How long a run will still take: its plan, corrected by how long its stages took so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from v6t.core.runs.plan import PlannedStage, Stage
from v6t.procedures.conditions import Progress
from v6t.procedures.trial import Trial, TrialResult

_USUAL = (0.5, 2.0)
"""A stage of another kind than all before may be so much shorter or longer than planned."""


@dataclass(frozen=True)
class Now:
    """What is happening at this moment, for whoever watches.

    Attributes:
        stage: of the run.
        trial: about to begin.
        attempt: how often the trial has been tried, from 1.
        before: the trial before it in this stage; None: it is the first.
        left_s: the run takes about so long from now on [s].
    """

    stage: Stage
    trial: Trial
    attempt: int
    before: TrialResult | None
    left_s: float


class Forecast:
    """Told what begins, it tells how long all the rest takes.

    A stage that is going on is judged by its own pace, the more so the further it is; one that is
    to come by how long those of its kind took, measured by the plan; and one of a kind that has not
    been met by how long all took.
    """

    def __init__(
        self, planned: Iterable[PlannedStage], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin.

        Args:
            planned: all stages, in any order.
            clock: seconds that pass.
        """
        self._to_come = {p.stage: p.seconds for p in planned}
        self._clock = clock
        self._planned_s = 0.0
        self._began = clock()
        self._done = 0.0
        self._spent: dict[str, float] = {}
        self._meant: dict[str, float] = {}
        self.stage = Stage("set-up", "", "")

    def begin(self, stage: Stage) -> None:
        """The stage before is over; this one may be one that nobody planned."""
        self._end()
        self.stage = stage
        self._planned_s = self._to_come.pop(stage, 0.0)

    def progress(self, progress: Progress) -> None:
        """How far the stage is."""
        step = progress.step - (progress.verdict is None)
        share = min(1.0, step / max(1, progress.steps))
        done = (progress.repetition - 1 + share) / max(1, progress.repetitions)
        self._done = min(1.0, max(self._done, done))

    def left_s(self) -> float:
        """Seconds from now on."""
        return self._left_of_stage() + sum(
            seconds * self._pace(stage.name) for stage, seconds in self._to_come.items()
        )

    def now(self, trial: Trial, before: TrialResult | None) -> Now:
        """What is said of a trial that is about to begin."""
        ending = trial.key.rpartition("/")[2]
        attempt = int(ending[1:]) if ending[:1] == "a" and ending[1:].isdigit() else 1
        return Now(self.stage, trial, attempt, before, self.left_s())

    def _end(self) -> None:
        now = self._clock()
        if self._planned_s:
            name, spent = self.stage.name, now - self._began
            self._spent[name] = self._spent.get(name, 0.0) + spent
            self._meant[name] = self._meant.get(name, 0.0) + self._planned_s
        self._began, self._done = now, 0.0

    def _left_of_stage(self) -> float:
        """By the plan, and by its own pace as far as it has come."""
        spent = self._clock() - self._began
        whole = self._planned_s * self._pace(self.stage.name)
        if self._done:
            # the first trials of a stage set things up: half of it decides, not the first of many
            own = min(1.0, 2 * self._done)
            whole = (1 - own) * whole + own * spent / self._done
        # what takes longer than expected goes on for a while
        return max(whole - spent, 0.1 * whole if self._done < 1 else 0.0)

    def _pace(self, name: str) -> float:
        """How much longer stages of this kind take than planned."""
        if self._meant.get(name):
            return self._spent[name] / self._meant[name]
        meant, spent = sum(self._meant.values()), sum(self._spent.values())
        if self._planned_s and self._done > 0.5:
            meant += self._planned_s * self._done
            spent += self._clock() - self._began
        least, most = _USUAL
        return min(most, max(least, spent / meant)) if meant else 1.0
