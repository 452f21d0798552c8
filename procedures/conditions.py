"""What all procedures share: the conditions of a point, trials that are repeated when invalid."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

from v6t.trials.conditions import Conditions
from v6t.trials.result import Measure, TrialResult
from v6t.trials.trial import Trial
from v6t.trials.verdict import Attempt, Verdict

FPS, CPS = "fps per direction", "connections/s"
"""Units of rates."""
SHARED_CORES = "tester and device share this machine's cores: the numbers describe both"
"""What stands beside every number of a lab on one machine."""


@dataclass(frozen=True)
class PointSpec(ABC):
    """What a procedure is told for one point: first of all its conditions."""

    conditions: Conditions

    @property
    @abstractmethod
    def benchmark(self) -> str:
        """Begins the keys of its trials; mostly a constant of the class."""

    @property
    def point(self) -> str:
        """Start of the keys of all its trials."""
        return self.conditions.make_key_prefix(self.benchmark)


@dataclass(frozen=True)
class Outcome:
    """A trial and its repetitions for the tester's sake.

    Attributes:
        attempts: all of them; only the last can be valid.
        result: what the last one counted.
    """

    attempts: tuple[Attempt, ...]
    result: TrialResult

    @property
    def verdict(self) -> Verdict:
        """Judgement of the last attempt."""
        return self.attempts[-1].verdict

    @property
    def trial(self) -> Trial:
        """The last attempt's trial."""
        return self.attempts[-1].trial


@dataclass(frozen=True)
class Progress:
    """What is about to happen or has just happened, for whoever watches.

    Attributes:
        point: see :meth:`Conditions.point`.
        repetition: from 1; repetitions: how many there will be.
        step: from 1; steps: expected in this repetition.
        low_fps, high_fps: bracket before the trial; equal where nothing is searched.
        rate_fps: rate under test.
        verdict: None before the trial.
        unit: of the rates.
        searched: the trial passes or fails; else loss is what is looked for, or put up with.
    """

    point: str
    repetition: int
    repetitions: int
    step: int
    steps: int
    low_fps: float
    high_fps: float
    rate_fps: float
    verdict: Verdict | None = None
    unit: str = FPS
    searched: bool = False


Watch = Callable[[Progress], None]


class Attempts:
    """The trials of one repetition: each is announced, measured, told and kept.

    Attributes:
        all: every attempt so far.
    """

    def __init__(
        self,
        conditions: Conditions,
        point: str,
        measure: Measure,
        watch: Watch | None,
        repetition: int,
        repetitions: int,
        *,
        unit: str = FPS,
        searched: bool = False,
    ) -> None:
        """Begin.

        Args:
            conditions: of the point.
            point: start of the keys; see :meth:`Conditions.point`.
            measure: runs a trial.
            watch: told before and after each.
            repetition: from 1.
            repetitions: how many there will be.
            unit: see :class:`Progress`.
            searched: see there.
        """
        self._conditions = conditions
        self._key = f"{point}/r{repetition:02d}"
        self._measure = measure
        self._watch = watch
        self._next = Progress(
            point, repetition, repetitions, 0, 0, 0.0, 0.0, 0.0, unit=unit, searched=searched
        )
        self.all: list[Attempt] = []

    def run(
        self,
        trial: Trial,
        step: str = "",
        *,
        steps: int = 1,
        bracket: tuple[float, float] | None = None,
        assess: Callable[[Trial, TrialResult], Verdict] | None = None,
    ) -> Outcome:
        """Run one trial, again while the tester falters.

        Args:
            trial: what to offer; its key is given here.
            step: the rest of the key; empty where a repetition is one trial.
            steps: expected in this repetition.
            bracket: in which is searched.
            assess: judges a result; None: by frames, as the conditions say.
        """
        number = self._next.step + 1
        low, high = bracket or (trial.rate_fps, trial.rate_fps)
        self._next = replace(
            self._next, step=number, steps=max(steps, number),
            low_fps=low, high_fps=high, rate_fps=trial.rate_fps,
        )  # fmt: skip
        if self._watch:
            self._watch(self._next)
        attempts: list[Attempt] = []
        for again in range(1, self._conditions.invalid_retries + 2):
            key = "/".join(part for part in (self._key, step, f"a{again}") if part)
            keyed_trial = replace(trial, key=key)
            result = self._measure(keyed_trial)
            attempts.append(
                Attempt(keyed_trial, (assess or self._conditions.assess)(keyed_trial, result))
            )
            if attempts[-1].verdict.valid:
                break
        self.all += attempts
        if self._watch:
            self._watch(replace(self._next, verdict=attempts[-1].verdict))
        return Outcome(tuple(attempts), result)
