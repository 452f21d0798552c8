"""The point of a run at which a benchmark is measured: one frame size in one mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from v6t.analysis.record import CsvRow, FindResult, Record
from v6t.procedures.repetition import Adaptive
from v6t.procedures.tester_rate import TesterCapacity
from v6t.procedures.throughput import BENCHMARK as THROUGHPUT
from v6t.procedures.trial_runner import PointSpec, Progress, Watch
from v6t.profiles.mixes import Sizes
from v6t.profiles.model import Traffic
from v6t.trials.conditions import Conditions
from v6t.trials.order_statistics import percentile
from v6t.trials.result import Measure, TrialResult
from v6t.trials.trial import Mode

if TYPE_CHECKING:
    from v6t.benchmarks.context import RunContext
    from v6t.benchmarks.settings import ProcedureSettings

P = TypeVar("P", bound=PointSpec)


class NotMeasured(Exception):
    """Reason why a point has no result."""


TrafficChange = Callable[[Traffic], Traffic]


class PointRunner(Protocol):
    """Runs what a point needs: the run with its testers and journal, or a plan with an ideal device."""

    planned: ClassVar[bool]
    """Whether trials are only counted."""

    @property
    def capacity(self) -> tuple[TesterCapacity, str]: ...
    @property
    def results(self) -> Mapping[str, TrialResult]: ...
    @property
    def loopback(self) -> Measure | None:
        """The tester without a device; None: its ports cannot be joined."""

    def watch(self, progress: Progress) -> None: ...
    def say(self, text: str) -> None: ...
    def describe(self) -> dict[str, Any]: ...
    def vary(self, name: str, change: TrafficChange) -> Point:
        """Return this point with a variant of the traffic; keys of its trials begin with the name."""

    def repeat(self, repetitions: int) -> int: ...


@dataclass(frozen=True)
class Point:
    """A frame size in a mode, with the tester and all settings.

    Attributes:
        context: the whole run.
        sizes, mode: the point.
        media_fps: what the medium carries, per direction.
        runner: the run or the plan.
        measure: the device between the tester's ports.
        find: the counted result of a trial by its key.
        measured_rates: rates that earlier benchmarks found at this point, by their names.
        extra_conditions: further conditions of every number.
        trial_conditions: conditions of every trial here that are not the run's own.
    """

    context: RunContext
    sizes: Sizes
    mode: Mode
    media_fps: float
    runner: PointRunner
    measure: Measure
    find: FindResult
    measured_rates: Mapping[str, Sequence[float]] = field(default_factory=dict)
    extra_conditions: Mapping[str, Any] = field(default_factory=dict)
    trial_conditions: Mapping[str, Any] = field(default_factory=dict)

    @property
    def watch(self) -> Watch:
        """Receiver of the progress before and after each trial."""
        return self.runner.watch

    def repeat(self, repetitions: int) -> int:
        """Return the number of repetitions; in a plan one stands for all."""
        return self.runner.repeat(repetitions)

    @property
    def procedure(self) -> ProcedureSettings:
        """Settings of the run's trials."""
        return self.context.settings.procedure

    @property
    def tester_capacity(self) -> TesterCapacity:
        """Capacity of the tester without a device."""
        return self.runner.capacity[0]

    @property
    def limit_fps(self) -> float:
        """Rate that medium and tester carry."""
        return min(self.media_fps, self.tester_capacity.rate_fps)

    @property
    def search_limit_fps(self) -> float:
        """Highest rate that a search offers."""
        return min(self.media_fps, self.context.search_share * self.tester_capacity.rate_fps)

    @property
    def limit_reason(self) -> str:
        """``media`` or ``tester``, whichever is the limit."""
        return "media" if self.media_fps <= self.tester_capacity.rate_fps else "tester"

    @property
    def median_throughput_fps(self) -> float:
        """Median of the throughput measured at this point; 0.0 without one."""
        rates = self.measured_rates.get(THROUGHPUT, ())
        return median(rates) if rates else 0.0

    @property
    def adaptive(self) -> Adaptive | None:
        """Limits of adaptive repetition, if it is configured."""
        a = self.procedure.adaptive
        return None if a is None or self.runner.planned else Adaptive(**a.model_dump())

    @property
    def max_repetitions(self) -> int:
        """Largest number of repetitions of an adaptive benchmark."""
        a = self.procedure.adaptive
        return self.procedure.repetitions if a is None else a.most

    @property
    def run_conditions(self) -> dict[str, Any]:
        """Conditions of every number of this point."""
        return {**self.runner.describe(), **self.extra_conditions}

    def make_conditions(self, **changes: Any) -> Conditions:
        """Make the conditions of every trial, with the changes of one benchmark."""
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
        return replace(conditions, **{**self.trial_conditions, **changes})

    def specify(self, kind: type[P], own: object, **values: Any) -> P:
        """Make the specification of a procedure.

        Fields that are not given are the settings of their name: the benchmark's ``own``, else the run's.
        """
        values.setdefault("conditions", self.make_conditions())
        for name in {known.name for known in fields(kind)} - values.keys():
            settings = (getattr(of, name, None) for of in (own, self.procedure))
            setting = next((value for value in settings if value is not None), None)
            if setting is not None:
                values[name] = setting
        if "repetitions" in values:
            values["repetitions"] = self.repeat(values["repetitions"])
        return kind(**values)

    def find_throughput(self) -> tuple[float, str]:
        """Return the throughput of this point and the name of the figure; 0.0 without one."""
        rates = self.measured_rates.get(THROUGHPUT, ())
        if not rates:
            return 0.0, "none"
        if self.procedure.rate_from == "p1":
            return percentile(rates, 1), "P1 of the throughput"
        return median(rates), "median throughput"

    def require_throughput(self, reason: str) -> tuple[float, str]:
        """Return the throughput of this point and the name of the figure.

        Raises:
            NotMeasured: no rate passed; with this reason.
        """
        rate_fps, source = self.find_throughput()
        if not rate_fps:
            raise NotMeasured(reason)
        return rate_fps, source


@dataclass(frozen=True)
class Measurement:
    """Record and rows of one benchmark at one point.

    Attributes:
        rates: of its repetitions, for benchmarks that are measured at them.
        beside: rows of further tables by the names of their files.
    """

    record: Record
    rows: list[CsvRow] = field(default_factory=list)
    rates: Sequence[float] = ()
    beside: Mapping[str, Sequence[CsvRow]] = field(default_factory=dict)
