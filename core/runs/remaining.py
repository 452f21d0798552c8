"""How long a run still takes: its plan, at the pace of what is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from v6t.core.runs.events import Activity
from v6t.core.runs.plan import PlannedStage, Stage
from v6t.procedures.trial_runner import Progress
from v6t.trials.result import TrialResult
from v6t.trials.trial import Trial


class RemainingTime:
    """Estimates the time left from the stages that are over and the trials of the current one."""

    def __init__(
        self, planned: Iterable[PlannedStage], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._planned = {p.stage: p for p in planned}
        self._clock = clock
        self._taken_s: dict[Stage, float] = {}
        self.stage = Stage("", "", "")
        self._since = clock()
        self._share_done = 0.0
        self._began = self._since
        self._trials = 0

    def begin(self, stage: Stage, planned: PlannedStage | None = None) -> None:
        """Note that a stage begins and the one before is over; ``planned``: what is known by now."""
        self._taken_s[self.stage] = self._elapsed_s()
        if planned is not None:
            self._planned[stage] = planned
        self.stage, self._since, self._share_done = stage, self._clock(), 0.0

    def progress(self, progress: Progress) -> None:
        """Note how far the stage is."""
        steps = max(progress.steps, progress.step, 1)
        done = progress.step - (progress.verdict is None)
        self._share_done = (progress.repetition - 1 + done / steps) / max(1, progress.repetitions)

    def activity(self, trial: Trial, before: TrialResult | None) -> Activity:
        """Describe a trial that is about to start."""
        self._trials += 1
        return Activity(
            self.stage,
            trial,
            _attempt(trial),
            before,
            self.left_s(),
            self._clock() - self._began,
            self._trials,
            self._trials_left(),
        )

    def left_s(self) -> float:
        """Return the seconds from now on."""
        share, elapsed_s, expected_s = self._share_done, self._elapsed_s(), self._expected_s()
        current_s = max(0.0, expected_s - elapsed_s)
        if share:  # the further it is, the more its own trials count
            by_pace_s = elapsed_s / share * (1 - share)
            current_s = share * by_pace_s + (1 - share) * (1 - share) * expected_s
        return current_s + sum(
            self._planned[s].expected_s * self._pace(s) for s in self._stages_to_come()
        )

    def _stages_to_come(self) -> list[Stage]:
        return [s for s in self._planned if s not in self._taken_s and s != self.stage]

    def _trials_left(self) -> int:
        current = self._planned.get(self.stage)
        left = current.trials * (1 - self._share_done) if current else 0.0
        return round(left + sum(self._planned[s].trials for s in self._stages_to_come()))

    def _elapsed_s(self) -> float:
        return self._taken_s.get(self.stage, 0.0) + self._clock() - self._since

    def _expected_s(self) -> float:
        planned = self._planned.get(self.stage)
        return planned.expected_s * self._pace(self.stage) if planned else 0.0

    def _pace(self, stage: Stage) -> float:
        """How much longer than planned such stages took: in this mode, in any, or all stages."""
        over = [s for s in self._taken_s if s in self._planned and s != self.stage]
        same = [s for s in over if s.name == stage.name]
        for stages in ([s for s in same if s.mode == stage.mode], same, over):
            expected_s = sum(self._planned[s].expected_s for s in stages)
            if expected_s:
                return sum(self._taken_s[s] for s in stages) / expected_s
        return 1.0


def _attempt(trial: Trial) -> int:
    """How often it has been tried, this time included."""
    ending = trial.key.rpartition("/")[2]
    return int(ending[1:]) if ending[:1] == "a" and ending[1:].isdigit() else 1
