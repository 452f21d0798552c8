"""Where a benchmark is measured: one frame size in one mode, planned or with testers at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from v6t.analysis.record import Record
from v6t.procedures.repetition import Adaptive
from v6t.procedures.tester_rate import TesterCapacity
from v6t.procedures.throughput import BENCHMARK as THROUGHPUT
from v6t.procedures.trial_runner import Watch
from v6t.profiles.mixes import Sizes
from v6t.profiles.model import Traffic
from v6t.trials.conditions import Conditions
from v6t.trials.order_statistics import percentile
from v6t.trials.result import Measure, TrialResult
from v6t.trials.trial import Mode

if TYPE_CHECKING:
    from v6t.benchmarks.context import RunContext
    from v6t.benchmarks.settings import ProcedureSettings

Row = dict[str, Any]
Vary = Callable[[Traffic], Traffic]


@dataclass(frozen=True)
class Cost:
    """Trials and seconds, pauses and waits included, told before a run starts (GEN-30).

    Attributes:
        trials, seconds: if the device does not carry the highest rate, nor is so slow that a search
            goes on below its resolution, and no trial is invalid.
        least: both, if it carries that at once; None: the same.
    """

    trials: int
    seconds: float
    least: tuple[int, float] | None = None

    def __add__(self, other: Cost) -> Cost:
        """Both, one after the other."""
        least = None
        if self.least is not None or other.least is not None:
            (a, a_s), (b, b_s) = self.at_least, other.at_least
            least = a + b, a_s + b_s
        return Cost(self.trials + other.trials, self.seconds + other.seconds, least)

    def __mul__(self, times: int) -> Cost:
        """As often."""
        least = self.least and (times * self.least[0], times * self.least[1])
        return Cost(times * self.trials, times * self.seconds, least)

    @property
    def at_least(self) -> tuple[int, float]:
        """Trials and seconds if the device carries the highest rate at once."""
        return self.least or (self.trials, self.seconds)

    def or_only(self, least: Cost) -> Cost:
        """Return the same, or just that much if the device carries the highest rate at once."""
        return replace(self, least=(least.trials, least.seconds))

    def with_each(self, seconds: float) -> Cost:
        """Every trial takes so much longer."""
        least = self.least and (self.least[0], self.least[1] + seconds * self.least[0])
        return Cost(self.trials, self.seconds + seconds * self.trials, least)


def cost_of(at: Conditions, trials: int, duration_s: float) -> Cost:
    """So many trials of one length, with the rest before and the wait after each."""
    return Cost(trials, trials * (at.pause_s + duration_s + at.residual_wait_s))


@dataclass(frozen=True)
class Point:
    """A point as it is planned.

    Attributes:
        bound: the whole run.
        sizes, mode: the point.
        media_fps: what the medium carries, per direction.
        within: conditions of every trial here that are not the run's own.
    """

    bound: RunContext
    sizes: Sizes
    mode: Mode
    media_fps: float
    within: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    @property
    def procedure(self) -> ProcedureSettings:
        """How the run's trials are run and repeated."""
        return self.bound.settings.procedure

    @property
    def limit_fps(self) -> float:
        """What medium and tester carry at most; of the tester nothing is known beforehand."""
        return self.media_fps

    @property
    def limit_reason(self) -> str:
        """``media`` or ``tester``, whichever is the limit."""
        return "media"

    @property
    def likely_cps(self) -> float:
        """The highest rate at which connections are likely to be offered; of plans only."""
        return min(self.limit_fps, self.bound.tester.usual_cps)

    @property
    def known_fps(self) -> float:
        """The throughput, where that has been measured here; 0.0: not known."""
        return 0.0

    @property
    def adaptive(self) -> Adaptive | None:
        """How long to repeat, where the run asks for adaptive repetition."""
        a = self.procedure.adaptive
        return None if a is None else Adaptive(a.fewest, a.most, a.width, a.confidence)

    def conditions(self, **changes: Any) -> Conditions:
        """Return what holds for every trial of the point, and what one benchmark changes of it."""
        p = self.procedure
        conditions = Conditions(
            ipv6_frame_size=self.sizes.ipv6,
            ipv4_frame_size=self.sizes.ipv4,
            mix=self.sizes.mix,
            mode=self.mode,
            residual_wait_s=p.residual_wait_s,
            pause_s=p.pause_s,
            loss_tolerance=p.loss_tolerance,
            sending_time_tolerance=p.sending_time_tolerance,
            invalid_retries=p.invalid_retries,
        )
        return replace(conditions, **{**self.within, **changes})


@dataclass(frozen=True)
class MeasurementPoint(Point):
    """A point with everything that is needed to measure there.

    Attributes:
        capacity: what the tester itself can do, and where that is from; measured when first asked.
        measure: the device between the tester's ports.
        loopback: the tester without a device; None: its ports cannot be joined by themselves.
        watch: told of every trial.
        say: told what begins.
        find: the counted result of a trial by its key.
        describe: what is said with every number, from the tester's capacity and its source.
        emptying: how the device's table of connections is emptied, in words or commands (ST-10).
        vary: the same point with a variant of the traffic, loaded; its trials have keys of their
            own, which begin with the name.
        found: rates that benchmarks before this one found at this point, by their names.
        better: a point where the tester turns out to carry more than its self-test found, asked so
            often, from 1; None: it does not.
        also: said with every number, too.
    """

    capacity: Callable[[], tuple[TesterCapacity, str]]
    measure: Measure
    loopback: Measure | None
    watch: Watch
    say: Callable[[str], None]
    find: Callable[[str], TrialResult]
    describe: Callable[[TesterCapacity, str], dict[str, Any]]
    emptying: Callable[[], str]
    vary: Callable[[str, Vary], MeasurementPoint]
    better: Callable[[MeasurementPoint, int], MeasurementPoint | None] = lambda at, number: None
    found: Mapping[str, Sequence[float]] = field(default_factory=dict)
    also: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tester_capacity(self) -> TesterCapacity:
        """What the tester itself can do."""
        return self.capacity()[0]

    @property
    def limit_fps(self) -> float:
        """What medium and tester carry."""
        return min(self.media_fps, self.tester_capacity.rate_fps)

    @property
    def likely_cps(self) -> float:
        """Known by now."""
        return self.limit_fps

    @property
    def limit_reason(self) -> str:
        """Which of the two is the limit."""
        return "media" if self.media_fps <= self.tester_capacity.rate_fps else "tester"

    @property
    def known_fps(self) -> float:
        """The median throughput measured here."""
        rates = self.found.get(THROUGHPUT, ())
        return median(rates) if rates else 0.0

    @property
    def said(self) -> dict[str, Any]:
        """What stands with every number of this point: its conditions."""
        return {**self.describe(*self.capacity()), **self.also}

    def throughput(self) -> tuple[float, str]:
        """Return the throughput measured here, and which figure of it; 0.0 if no rate passed."""
        rates = self.found.get(THROUGHPUT, ())
        if not rates:
            return 0.0, "none"
        if self.procedure.rate_from == "p1":
            return percentile(rates, 1), "P1 of the throughput"
        return median(rates), "median throughput"


@dataclass(frozen=True)
class Measured:
    """One benchmark at one point.

    Attributes:
        record: its entry in ``results.json``.
        rows: one row per repetition, or per trial.
        rates: of its repetitions, for benchmarks that are measured at them.
        beside: rows of further tables by the names of their files.
    """

    record: Record
    rows: list[Row] = field(default_factory=list)
    rates: Sequence[float] = ()
    beside: Mapping[str, Sequence[Row]] = field(default_factory=dict)
