"""Runner of trials: announces each trial and repeats it while it is invalid."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, TypeVar

from v6t.procedures.repetition import AdaptiveLimits
from v6t.trials.conditions import Conditions
from v6t.trials.result import Measure, TrialResult
from v6t.trials.trial import Trial
from v6t.trials.verdict import Attempt, Verdict

FPS, CPS = "fps per direction", "connections/s"  # units of rates
# for results of a lab on one machine
SHARED_CORES_WARNING = "tester and device share this machine's cores: the numbers describe both"


@dataclass(frozen=True)
class PointSpec(ABC):
    """Specification of a procedure at a point."""

    unit: ClassVar[str] = FPS  # unit of the rates
    is_search: ClassVar[bool] = False  # see :class:`Progress`
    conditions: Conditions  # conditions of every trial

    @property
    @abstractmethod
    def benchmark(self) -> str:
        """Name of the benchmark, the first part of the trial keys."""

    @property
    def key_prefix(self) -> str:
        """Common start of the keys of all trials."""
        return self.conditions.make_key_prefix(self.benchmark)


@dataclass(frozen=True)
class TrialOutcome:
    """A trial and its repetitions after faults of the tester."""

    attempts: tuple[Attempt, ...]  # all but the last are invalid
    result: TrialResult  # result of the last attempt

    @property
    def verdict(self) -> Verdict:
        """Verdict on the last attempt."""
        return self.attempts[-1].verdict

    @property
    def trial(self) -> Trial:
        """Trial of the last attempt."""
        return self.attempts[-1].trial


@dataclass(frozen=True)
class Progress:
    """Progress of a procedure before or after a trial."""

    point: str  # common start of the keys of the point's trials
    repetition: int  # from 1
    repetitions: int
    step: int  # from 1; 0 before the first
    steps: int  # expected number of steps in this repetition
    low_fps: float  # lower bound of the search
    high_fps: float  # upper bound; both are the rate without a search
    rate_fps: float  # rate of the trial
    verdict: Verdict | None = None  # None before the trial
    unit: str = FPS  # unit of the rates
    is_search: bool = False  # a search uses the verdict; otherwise the trial measures loss


Watch = Callable[[Progress], None]


class TrialRunner:
    """Runner of the trials of one repetition."""

    def __init__(
        self, spec: PointSpec, measure: Measure, watch: Watch | None, number: int, repetitions: int
    ) -> None:
        """Prepare the first trial."""
        self.number = number  # number of the repetition, from 1
        self._conditions = spec.conditions
        self._key = f"{spec.key_prefix}/r{number:02d}"
        self._measure = measure
        self._watch = watch
        self._next = Progress(
            spec.key_prefix, number, repetitions, step=0, steps=0, low_fps=0.0, high_fps=0.0,
            rate_fps=0.0, unit=spec.unit, is_search=spec.is_search,
        )  # fmt: skip
        self.all: list[Attempt] = []  # all attempts so far

    @property
    def step(self) -> int:
        """Number of the last step, from 1; 0 before the first."""
        return self._next.step

    def run(
        self,
        trial: Trial,
        step: str = "",
        *,
        steps: int = 1,
        bracket: tuple[float, float] | None = None,
        assess: Callable[[Trial, TrialResult], Verdict] | None = None,
    ) -> TrialOutcome:
        """Run one trial, and repeat it while it is invalid.

        Args:
            step: last part of the key; empty if a repetition is one trial.
            bracket: bounds of the search [fps].
            assess: judges the result; None: by the conditions.
        """
        number = self._next.step + 1
        low, high = bracket or (trial.rate_fps, trial.rate_fps)
        self._next = replace(
            self._next, step=number, steps=max(steps, number),
            low_fps=low, high_fps=high, rate_fps=trial.rate_fps,
        )  # fmt: skip
        if self._watch:
            self._watch(self._next)
        assess = assess or self._conditions.assess
        attempts: list[Attempt] = []
        for attempt in range(1, self._conditions.invalid_retries + 2):
            key = "/".join(part for part in (self._key, step, f"a{attempt}") if part)
            keyed_trial = replace(trial, key=key)
            result = self._measure(keyed_trial)
            attempts.append(Attempt(keyed_trial, assess(keyed_trial, result)))
            if attempts[-1].verdict.valid:
                break
        self.all += attempts
        if self._watch:
            self._watch(replace(self._next, verdict=attempts[-1].verdict))
        return TrialOutcome(tuple(attempts), result)


P = TypeVar("P", bound=PointSpec)
T = TypeVar("T")


@dataclass(frozen=True)
class RepeatedResult(Generic[P, T]):
    """The repetitions of a procedure at one point, and all attempts behind them."""

    spec: P
    repetitions: tuple[T, ...] = ()
    attempts: tuple[Attempt, ...] = ()  # all trials of all repetitions


def repeat(
    spec: P,
    repetitions: int,
    measure: Measure,
    watch: Watch | None,
    run_once: Callable[[TrialRunner], T],
    *,
    adaptive: AdaptiveLimits | None = None,
    is_enough: Callable[[Sequence[T]], bool] | None = None,
) -> RepeatedResult[P, T]:
    """Run a procedure several times and collect its repetitions and trials.

    Args:
        adaptive: bounds of adaptive repetition, in place of ``repetitions``.
        is_enough: checks whether the repetitions so far suffice; None: run all of them.
    """
    most = adaptive.most if adaptive else repetitions
    done: list[T] = []
    attempts: list[Attempt] = []
    while len(done) < most and not (is_enough is not None and is_enough(done)):
        trials = TrialRunner(spec, measure, watch, len(done) + 1, most)
        done.append(run_once(trials))
        attempts += trials.all
    return RepeatedResult(spec, tuple(done), tuple(attempts))
