"""How long a run will still take: its plan, corrected by what the run has shown so far.

Three things are not known beforehand: what a trial takes beyond its own seconds; how many trials a
search takes, few where the device carries the upper bound at once and many where it does not; and
how long set-ups and self-tests take. Each is learned from the stages that are over, the nearest
kind of stage counting most, and what stays open makes the interval.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from v6t.core.runs.evidence import EASY, Shown, Sums, Tally
from v6t.core.runs.plan import CONNECTIONS, LOADING, SELFTEST, SETUP, PlannedStage, Stage
from v6t.procedures.trial_runner import Progress
from v6t.trials.result import TrialResult
from v6t.trials.trial import Trial

if TYPE_CHECKING:
    pass

_USUAL_TRIALS = 3
"""What is assumed of a trial beyond its own seconds counts as much as so many trials."""
_USUAL_AGAIN = 5
"""And how many are made again as much as so many."""
_ELSEWHERE = 0.8
"""Weight of what other kinds of stages showed of it."""
_OWN = 4.0
"""Weight of what the first trial of a repetition showed, for those after it."""
_STEEP = 3.0
"""How fast what is more likely is taken for what will be, once something was shown."""
_ERROR = 1.03
"""A device's rate is found, and carried, to about this factor."""
_UNSHARP = 0.08
"""Spread of what is left even where everything is known, as a share."""
_SHARP = 0.2
"""What may be off by more than this share of the whole run is told as an interval."""
_EIGHT_OF_TEN = 1.28
"""Of a normal distribution lie within so many standard deviations."""


@dataclass(frozen=True)
class Now:
    """What is happening at this moment, for whoever watches.

    Attributes:
        stage: of the run.
        trial: about to begin.
        attempt: how often the trial has been tried, from 1.
        before: the trial before it in this stage; None: it is the first.
        left_s: the run takes about so long from now on [s].
        between_s: in eight of ten runs between these, where that is not sharp; None: it is.
    """

    stage: Stage
    trial: Trial
    attempt: int
    before: TrialResult | None
    left_s: float
    between_s: tuple[float, float] | None = None


@dataclass(frozen=True)
class _Rest:
    """All stages to come: seconds, how unsure they are by mode, and when that was told."""

    known_s: float
    by_mode: dict[str, float]
    shown: int
    made_s: float


class Forecast:
    """Told what begins and what it shows, it tells how long all the rest takes."""

    def __init__(
        self,
        planned: Iterable[PlannedStage],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin.

        Args:
            planned: all stages, in any order.
            clock: seconds that pass.
        """
        self._planned_first = {p.stage: p for p in planned}
        self._to_come = dict(self._planned_first)
        self._clock, self._start = clock, clock()
        self._tallies: dict[str, Tally] = {}
        self._ratios: dict[str, tuple[float, float]] = {}
        self._shown: list[Shown] = []
        self._sums: dict[PlannedStage, Sums] = {}
        self._rest: _Rest | None = None
        self.begin(Stage("", "", ""))

    def begin(self, stage: Stage, sharper: PlannedStage | None = None) -> None:
        """The stage before is over; this one may be one that nobody planned.

        Args:
            stage: that begins.
            sharper: what is known of it by now.
        """
        if hasattr(self, "stage"):
            self._end()
        self.stage = stage
        planned = self._to_come.pop(stage, None)
        self._meant = planned or sharper or PlannedStage(stage, 0.0)
        self._planned = sharper or self._meant
        if stage.name not in (SELFTEST, SETUP, LOADING):
            self._search = self._planned
        self._again: PlannedStage | None = None
        self._began = self._clock()
        self._tally, self._known_s = Tally(), 0.0
        self._repetitions: list[float] = [0.0]
        self._progress: Progress | None = None
        self._firsts: list[bool] = []
        self._first: bool | None = None
        self._bracket: tuple[float, float] | None = None
        self._rest = None

    def known(self, sharper: Iterable[PlannedStage]) -> None:
        """More is known of stages: of those that are planned, and of the one that is about to end."""
        for planned in sharper:
            if planned.stage == self.stage:
                self._meant = planned
            if planned.stage in self._planned_first:
                self._planned_first[planned.stage] = planned
            if planned.stage in self._to_come:
                self._to_come[planned.stage] = planned
        self._rest = None

    def set_rate(self, rate_fps: float) -> None:
        """The rate that the stage found."""
        self._bracket = rate_fps, rate_fps * _ERROR

    def longer(self, planned: PlannedStage) -> None:
        """The stage that is going on takes more than was planned."""
        self._meant = self._planned = planned
        self._rest = None

    def repeated(self, *, search: bool) -> None:
        """The self-test that is going on is made once more.

        Args:
            search: and so is, after it, the search before it.
        """
        once = self._planned_first.get(self.stage)
        if once is not None:
            self._planned = replace(
                self._planned,
                seconds=self._planned.seconds + once.seconds,
                trials=self._planned.trials + once.trials,
                beyond_s=self._planned.beyond_s + once.beyond_s,
                once_s=self._planned.once_s + once.once_s,
            )
        self._again = self._search if search else None

    def progress(self, progress: Progress) -> None:
        """How far the stage is."""
        before, self._progress = self._progress, progress
        if before is None or before.repetition != progress.repetition:
            if before is not None:
                self._repetitions.append(0.0)
            self._first = None
        verdict = progress.verdict
        if verdict is not None and self._first is None and progress.searched:
            self._first = verdict.passed
            self._firsts.append(verdict.passed)
        if progress.searched and progress.step > 1:
            low, high = self._bracket or (0.0, math.inf)
            if progress.high_fps - progress.low_fps < high - low:
                self._bracket = progress.low_fps, progress.high_fps

    def counted(self, trial: Trial) -> None:
        """A trial is over, or was known already; one that is made again belongs to the pace."""
        if _attempt(trial) > 1:
            return
        own_s = _own_s(trial)
        self._known_s += own_s
        self._repetitions[-1] += own_s

    def now(self, trial: Trial, before: TrialResult | None) -> Now:
        """What is said of a trial that is about to begin."""
        attempt = _attempt(trial)
        left_s, spread_s = self._left()
        off_s = _EIGHT_OF_TEN * spread_s
        between_s = None
        if off_s > _SHARP * (self._clock() - self._start + left_s):
            between_s = max(0.3 * left_s, left_s - off_s), left_s + off_s
        self._tally.trials += attempt == 1
        self._tally.again += attempt > 1
        self._tally.own_s += _own_s(trial)
        return Now(self.stage, trial, attempt, before, left_s, between_s)

    def left_s(self) -> float:
        """Seconds from now on."""
        return self._left()[0]

    def _left(self) -> tuple[float, float]:
        """Expected seconds, and their standard deviation."""
        left_s, open_s = self._left_of_stage()
        rest = self._of_rest()
        by_mode = dict(rest.by_mode)
        by_mode[self.stage.mode] = by_mode.get(self.stage.mode, 0.0) + open_s
        known_s = left_s + rest.known_s
        if self._again is not None:  # only if the self-test finds more this time
            known_s += self._of(self._again)[0] / 2
        return known_s, math.hypot(_UNSHARP * known_s, *by_mode.values())

    def _of_rest(self) -> _Rest:
        """Of all stages to come: made anew when this one shows something, and once a second at most.

        A rehearsal has hundreds of stages and ends hundreds of trials a second.
        """
        shown, now_s = len(self._firsts), self._clock()
        if self._rest is None or self._rest.shown != shown or now_s - self._rest.made_s >= 1.0:
            known_s, by_mode = 0.0, dict[str, float]()
            for planned in self._to_come.values():
                seconds, open_s = self._of(planned)
                known_s += seconds
                # a device that carries the bound here mostly carries it there
                by_mode[planned.stage.mode] = by_mode.get(planned.stage.mode, 0.0) + open_s
            self._rest = _Rest(known_s, by_mode, shown, now_s)
        return self._rest

    def _of(self, planned: PlannedStage) -> tuple[float, float]:
        """Seconds of a stage to come, and how unsure they are."""
        if not planned.trials:
            return planned.seconds * self._ratio(planned.stage), 0.0
        ease, excess = self._ease(planned)
        pace, easy_pace = self._paces(planned)
        full_s = planned.own_s * pace
        once_s = planned.once_s * min(1.0, easy_pace)
        if planned.least is None:
            return full_s * self._ratio(planned.stage) + once_s, 0.0
        full_s *= excess
        least_s = planned.least_own_s * easy_pace
        likely = self._likely(ease)
        return (
            likely * least_s + (1 - likely) * full_s + once_s,
            max(0.0, full_s - least_s) * math.sqrt(ease * (1 - ease)),
        )

    def _paces(self, planned: PlannedStage) -> tuple[float, float]:
        """Seconds for each second of trials' own, with those that are made again, and without.

        How many are made again is learned from searches for searches, which go where the tester
        is near its limit; what passes around a trial from all that do the same to the device.
        """
        usual = _USUAL_TRIALS
        around = Tally(usual, 0.0, usual * planned.each_beyond_s)
        again = Tally(_USUAL_AGAIN)
        if planned.again_s:
            again.again = (
                _USUAL_AGAIN
                * planned.again_s
                / (planned.seconds - planned.again_s - planned.once_s)
            )
        name = planned.stage.name
        for other, tally in [*self._tallies.items(), (self.stage.name, self._running())]:
            weight = 1.0 if other == name else _ELSEWHERE
            if (other in self._emptying) == (name in self._emptying):
                around.add(tally, weight)
            if (other in self._searching) == (name in self._searching):
                again.add(tally, weight)
        times = 1 + again.again / again.trials
        if around.spent_s < around.own_s:  # a rehearsal: no trial takes the seconds it stands for
            pace = max(around.spent_s / around.own_s, 1e-6)
        else:
            each_s = planned.own_s / planned.trials
            beyond_s = (around.spent_s - around.own_s) / (around.trials + around.again)
            pace = 1 + beyond_s / each_s if each_s > 0 else 1.0
        return times * pace, pace

    @cached_property
    def _searching(self) -> frozenset[str]:
        """Benchmarks that look for a limit, and try again what the tester did not manage."""
        return frozenset(p.stage.name for p in self._planned_first.values() if p.again_s)

    @cached_property
    def _emptying(self) -> frozenset[str]:
        """Benchmarks whose trials empty the device's table, which takes seconds of its own."""
        return frozenset(
            p.stage.name
            for p in self._planned_first.values()
            if p.stage.mode == CONNECTIONS and p.stage.name != SELFTEST
        )

    def _running(self) -> Tally:
        """The trials of this stage that are over."""
        tally, passed_s = self._tally, self._clock() - self._began
        # what passes once is no trial's; in a rehearsal it does not pass at all
        around_s = max(passed_s - self._planned.once_s, min(passed_s, tally.own_s))
        return replace(tally, spent_s=around_s)

    def _once_left_s(self, pace: float) -> float:
        """What passes once before the first trial of this stage, as long as none is over."""
        once_s = self._planned.once_s * min(1.0, pace)
        return 0.0 if self._known_s else max(0.0, once_s - (self._clock() - self._began))

    def _ratio(self, stage: Stage) -> float:
        """How much longer stages of this kind took than planned: in this mode, or in any."""
        for key in _keys(stage):
            if key in self._ratios:
                meant, took = self._ratios[key]
                return took / meant
        return 1.0

    def _ease(self, planned: PlannedStage) -> tuple[float, float]:
        """How easily the device will carry the bound, and how much longer a search takes if not."""
        sums = self._sums.setdefault(planned, Sums())
        for shown in self._shown[sums.shown :]:  # each counts once for each stage to come
            sums.add(shown, planned)
        showing = self._showing(planned.stage)
        if showing is not None:
            sums = replace(sums)
            sums.add(showing, planned)
        return sums.total / sums.weight, sums.excess / sums.counted

    def _likely(self, ease: float) -> float:
        """The same, further from the middle: of two totals a run has one, and never their mean."""
        steep = _STEEP if self._shown or self._firsts else 1.0
        return float(ease**steep / (ease**steep + (1 - ease) ** steep))

    def _showing(self, other: Stage) -> Shown | None:
        """What the search that is going on shows of other stages."""
        if other == self.stage or not self._firsts:
            return None
        ease = sum(self._firsts) / len(self._firsts)
        return Shown(self.stage, ease, 1.0, self._bracket, self._planned.limit_fps)

    def _left_of_stage(self) -> tuple[float, float]:
        """Seconds of the stage that is going on, and how unsure they are."""
        planned = self._planned
        passed_s = self._clock() - self._began
        if not planned.trials:
            whole_s = planned.seconds * self._ratio(planned.stage)
            return max(whole_s - passed_s, 0.1 * whole_s), 0.0
        progress = self._progress
        if progress is None:
            pace, easy_pace = self._paces(planned)
            once = min(1.0, easy_pace)
            if planned.least is None or self._known_s:
                whole_s = planned.own_s * self._ratio(planned.stage)
                left_s = max(whole_s - self._known_s, 0.1 * whole_s) * pace
                return left_s + self._once_left_s(once), 0.0
            whole_s, open_s = self._of(planned)
            return whole_s - planned.once_s * once + self._once_left_s(once), open_s
        return self._left_of_repetitions(progress)

    def _left_of_repetitions(self, progress: Progress) -> tuple[float, float]:
        planned, count = self._planned, max(1, progress.repetitions)
        pace, easy_pace = self._paces(planned)
        each_s = planned.own_s / count
        over, running_s = self._repetitions[:-1], self._repetitions[-1]
        if planned.least is None:
            guess_s = this_s = _mean(each_s, over)
            ease, open_s = 0.0, 0.0
        else:
            ease = self._ease(planned)[0]
            own = _OWN * len(self._firsts)
            if own:
                ease = (ease + own * sum(self._firsts) / len(self._firsts)) / (1 + own)
            easy_s = planned.least_own_s / count * easy_pace / pace
            firsts = self._firsts if self._firsts else [False] * len(over)
            hard_s = _mean(each_s, [s for s, easy in zip(over, firsts, strict=False) if not easy])
            likely = self._likely(ease)
            guess_s = likely * easy_s + (1 - likely) * hard_s
            this_s = guess_s if self._first is None else easy_s if self._first else hard_s
            open_s = max(0.0, hard_s - easy_s) * math.sqrt(ease * (1 - ease))
        rest_s = max(this_s - running_s, 0.0)
        if progress.verdict is None:  # the trial that is about to begin takes its time in any case
            rest_s = max(rest_s, each_s / max(1, progress.steps))
        to_come = count - progress.repetition
        unsure = to_come + (self._first is None)
        left_s = (rest_s + to_come * guess_s) * pace + self._once_left_s(easy_pace)
        return left_s, open_s * unsure * pace

    def _end(self) -> None:
        """Learn from the stage."""
        planned, running = self._meant, self._running()
        if running.trials and planned.trials:
            self._tallies.setdefault(self.stage.name, Tally()).add(running)
        meant = planned.own_s if planned.trials else planned.seconds
        took = self._known_s if planned.trials else running.spent_s
        if planned.least is not None:
            self._shown.append(self._of_search(meant, took))
        elif took and meant:
            for key in _keys(self.stage):
                before = self._ratios.get(key, (0.0, 0.0))
                self._ratios[key] = before[0] + meant, before[1] + took

    def _of_search(self, meant_s: float, took_s: float) -> Shown:
        """What it showed, measured by what was known when it began."""
        sharp = self._planned if self._planned.least is not None else self._meant
        full_s, least_s = sharp.own_s, sharp.least_own_s
        ease = min(1.0, max(0.0, (full_s - took_s) / max(full_s - least_s, 1e-9)))
        hard_s = (took_s - ease * least_s) / (1 - ease) if ease < EASY else full_s
        excess = hard_s / meant_s if meant_s else 1.0
        return Shown(self.stage, ease, excess, self._bracket, sharp.limit_fps)


def _keys(stage: Stage) -> tuple[str, str]:
    """Under which its pace is known: in this mode, and in any."""
    return f"{stage.name}/{stage.mode}", f"{stage.name}/"


def _attempt(trial: Trial) -> int:
    """How often it has been tried, this time included."""
    ending = trial.key.rpartition("/")[2]
    return int(ending[1:]) if ending[:1] == "a" and ending[1:].isdigit() else 1


def _own_s(trial: Trial) -> float:
    connections = trial.connections
    sent_s = trial.total_duration_s + trial.residual_wait_s
    if connections is None or connections.reuse:
        return trial.pause_s + sent_s
    filled_s = trial.pause_s + connections.total_s
    return filled_s + connections.gap_s + sent_s if connections.purpose == "prepare" else filled_s


def _mean(planned_s: float, took_s: Sequence[float]) -> float:
    """Of repetitions that are over; the plan counts as half of one."""
    return (0.5 * planned_s + sum(took_s)) / (0.5 + len(took_s))
