"""The run as benchmarks see it, and its points: one frame size in one mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from statistics import median
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from v6t.analysis.record import CsvRow, FindResult, Record
from v6t.benchmarks.settings import ProcedureSettings
from v6t.intent.device import Links
from v6t.packets.direction import Direction
from v6t.procedures.repetition import AdaptiveLimits
from v6t.procedures.tester_rate import TesterCapacity
from v6t.procedures.throughput import BENCHMARK as THROUGHPUT
from v6t.procedures.trial_runner import PointSpec, Progress, Watch
from v6t.profiles.mixes import Sizes
from v6t.profiles.model import Exchange, FramePair, Traffic
from v6t.trials.conditions import Conditions
from v6t.trials.connections import Tcp
from v6t.trials.order_statistics import percentile
from v6t.trials.result import Measure, TrialResult
from v6t.trials.trial import Capability, Mode

P = TypeVar("P", bound=PointSpec)


class TechnologyClass(Protocol):
    """Properties of a technology that do not depend on its parameters."""

    @property
    def stateful(self) -> bool: ...
    @property
    def exchange(self) -> Exchange: ...
    @property
    def varying_params(self) -> Mapping[str, Any]: ...


class MeasuredTechnology(Protocol):
    """Technology with its parameters and links."""

    name: ClassVar[str]
    overhead: ClassVar[int]  # octets by which IPv6 frames are longer than IPv4 frames

    @property
    def params(self) -> Any: ...
    @property
    def ip_versions(self) -> tuple[Literal[4, 6], Literal[4, 6]]: ...
    @property
    def combinations(self) -> int: ...
    def make_sizes(self, frame_size: int | str) -> Sizes: ...
    @property
    def links(self) -> Links: ...
    def make_frame_pair(self, ipv6_frame_size: int) -> FramePair: ...
    def build_sized_traffic(self, direction: Direction, sizes: Sizes) -> Traffic: ...


class DeviceDriver(Protocol):
    """The driver of the device under test."""

    is_cable: ClassVar[bool]  # the ports are connected by a cable, without a device

    @property
    def hooks(self) -> Mapping[str, Any]: ...


class MeasuringTester(Protocol):
    """Tester, as benchmarks see it; implemented by :class:`v6t.drivers.tester_kind.TesterKind`."""

    simulates: ClassVar[bool]  # the device is simulated too, and no frame is sent
    sending_error_s: ClassVar[float]  # typical error of the measured sending time
    overhead_s: ClassVar[float]  # time of a trial in addition to pause, stream and wait
    usual_retries: ClassVar[float]  # typical share of trials that are repeated
    usual_cps: ClassVar[float]  # typical connections per second
    stamps: ClassVar[str]  # description of the time stamps, for reports
    delay_error: ClassVar[str]  # measured error of the delays, for reports

    def describe_counting(
        self, needs: frozenset[Capability], mode: Mode, most_fps: float
    ) -> str: ...
    def check_tcp_connections(
        self, technology: object, max_connections: int, tcp: Tcp, alpha: float | None
    ) -> Iterator[str]: ...


class RunSettings(Protocol):
    """Settings of a run."""

    @property
    def benchmarks(self) -> Sequence[str]: ...
    @property
    def modes(self) -> Sequence[Mode]: ...
    @property
    def frame_sizes(self) -> Sequence[int | str]: ...
    @property
    def line_rate_bps(self) -> float: ...
    @property
    def connects(self) -> bool:
        """Whether trials use tracked connections."""

    @property
    def procedure(self) -> ProcedureSettings: ...


class RunContext(Protocol):
    """A run with its technology, device and tester."""

    @property
    def settings(self) -> RunSettings: ...
    @property
    def technology(self) -> MeasuredTechnology: ...
    @property
    def driver(self) -> DeviceDriver: ...
    @property
    def tester(self) -> MeasuringTester: ...
    @property
    def has_driver(self) -> bool: ...
    @property
    def can_measure_tester(self) -> bool: ...
    @property
    def search_share(self) -> float:
        """Highest rate of a search over the tester's capacity."""

    @property
    def flush_description(self) -> str: ...
    def describe_live_change(self) -> str: ...


class NotMeasured(Exception):
    """Reason why a point has no result, as an exception."""


TrafficChange = Callable[[Traffic], Traffic]


class PointRunner(Protocol):
    """Services of a run, or of a plan with an ideal device, for a point."""

    is_planning: ClassVar[bool]  # a plan counts trials instead of running them

    @property
    def capacity(self) -> tuple[TesterCapacity, str]: ...
    @property
    def results(self) -> Mapping[str, TrialResult]: ...
    @property
    def loopback(self) -> Measure | None:
        """Measures with the tester's ports joined; None: they cannot be joined."""

    def on_progress(self, progress: Progress) -> None: ...
    def on_message(self, text: str) -> None: ...
    def describe(self) -> dict[str, Any]: ...
    def vary(self, name: str, change: TrafficChange) -> Point:
        """Return this point with a variant of the traffic; keys of its trials begin with the name."""

    def count_repetitions(self, repetitions: int) -> int: ...


@dataclass(frozen=True)
class Point:
    """Frame size and mode to measure, with the run's settings and the means to run trials."""

    context: RunContext  # the whole run
    sizes: Sizes
    mode: Mode
    media_fps: float  # rate of the medium, per direction
    runner: PointRunner  # the run or the plan
    measure: Measure  # measures a trial with the device between the tester's ports
    find: FindResult  # returns the counted result of a trial by its key
    measured_rates: Mapping[str, Sequence[float]] = field(default_factory=dict)  # by benchmark
    extra_conditions: Mapping[str, Any] = field(default_factory=dict)  # for every record
    trial_conditions: Mapping[str, Any] = field(default_factory=dict)  # for every trial

    @property
    def watch(self) -> Watch:
        """Receiver of the progress before and after each trial."""
        return self.runner.on_progress

    def count_repetitions(self, repetitions: int) -> int:
        """Return the number of repetitions to run; a plan counts the trials of only one."""
        return self.runner.count_repetitions(repetitions)

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
        """Highest rate that medium and tester carry."""
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
    def adaptive(self) -> AdaptiveLimits | None:
        """Limits of adaptive repetition, if it is configured."""
        a = self.procedure.adaptive
        return None if a is None or self.runner.is_planning else AdaptiveLimits(**a.model_dump())

    @property
    def max_repetitions(self) -> int:
        """Largest number of repetitions of an adaptive benchmark."""
        a = self.procedure.adaptive
        return self.procedure.repetitions if a is None else a.most

    @property
    def run_conditions(self) -> dict[str, Any]:
        """Conditions of all results of this point, for records."""
        return {**self.runner.describe(), **self.extra_conditions}

    def make_conditions(self, **changes: Any) -> Conditions:
        """Make the conditions of the trials, with the changes of one benchmark."""
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

    def specify(self, kind: type[P], settings: object, **values: Any) -> P:
        """Make the specification of a procedure.

        Fields without a value get the benchmark's setting of that name, or else the run's.
        """
        values.setdefault("conditions", self.make_conditions())
        for name in {f.name for f in fields(kind)} - values.keys():
            known = (getattr(source, name, None) for source in (settings, self.procedure))
            setting = next((value for value in known if value is not None), None)
            if setting is not None:
                values[name] = setting
        if "repetitions" in values:
            values["repetitions"] = self.count_repetitions(values["repetitions"])
        return kind(**values)

    def find_throughput(self) -> tuple[float, str]:
        """Return the throughput of this point and its origin; 0.0 without one."""
        rates = self.measured_rates.get(THROUGHPUT, ())
        if not rates:
            return 0.0, "none"
        if self.procedure.rate_from == "p1":
            return percentile(rates, 1), "P1 of the throughput"
        return median(rates), "median throughput"

    def require_throughput(self, reason: str) -> tuple[float, str]:
        """Return the throughput of this point and its origin, or raise NotMeasured."""
        rate_fps, source = self.find_throughput()
        if not rate_fps:
            raise NotMeasured(reason)
        return rate_fps, source


@dataclass(frozen=True)
class Measurement:
    """Record and CSV rows of one benchmark at one point."""

    record: Record
    rows: list[CsvRow] = field(default_factory=list)
    rates: Sequence[float] = ()  # measured rates of the repetitions, for later benchmarks
    extra_rows: Mapping[str, Sequence[CsvRow]] = field(default_factory=dict)  # by CSV file
