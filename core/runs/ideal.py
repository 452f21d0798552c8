"""A benchmark's trials and time, counted by carrying it out on an ideal device."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from v6t.base.ethernet import max_frame_rate_fps
from v6t.benchmarks.base import Benchmark, Phase
from v6t.benchmarks.connections import prepare_connections
from v6t.benchmarks.context import RunContext
from v6t.benchmarks.point import Point, Vary
from v6t.core.config.bound import BoundRun
from v6t.procedures.tester_rate import TesterCapacity
from v6t.procedures.trial_runner import Progress
from v6t.profiles.mixes import Sizes
from v6t.trials.connections import Connections, PhaseOneResult
from v6t.trials.delays import Distribution
from v6t.trials.load_estimate import EstimateLoad
from v6t.trials.result import ClassCount, DirectionResult, Measure, TrialResult
from v6t.trials.tcp import TcpCounts
from v6t.trials.trial import Mode, Trial, list_directions

DELAY_NS = 1000
EMPTYING_S = 12e-6
"""Time to empty the table of each connection: nftables on Linux 6.18 with 100,000 of them [s]."""


@dataclass
class IdealDevice:
    """A device without loss up to a rate, and a tester without faults; no time passes.

    It is the runner of a planned point (:class:`v6t.benchmarks.point.PointRunner`).

    Attributes:
        bound: the run.
        capacity: of the tester, with its source.
        carries_fps: rate without loss per direction; None: half of what a search offers.
        carries_cps: connections per second without loss.
        holds: connections that its table holds.
        trials, seconds: of all trials so far.
        results: by the keys of trials, those of the run so far included.
        times: repetitions for which one stands.
    """

    planned: ClassVar[bool] = True
    bound: RunContext
    capacity: tuple[TesterCapacity, str]
    carries_fps: float | None = math.inf
    carries_cps: float = math.inf
    holds: float = math.inf
    trials: int = 0
    seconds: float = 0.0
    results: dict[str, TrialResult] = field(default_factory=dict)
    times: int = 1
    _filled: int = 0
    _point: Point | None = None

    @property
    def describe_flush(self) -> str:
        return ""

    @property
    def loopback(self) -> Measure | None:
        return self.measure if self.bound.measures_tester else None

    def at(self, point: Point) -> Point:
        """Return a point that is measured with this device."""
        self._point = replace(point, runner=self, measure=self.measure, find=self.find)
        return self._point

    def find(self, key: str) -> TrialResult:
        """Return the result of a trial."""
        return self.results[key]

    def vary(self, name: str, change: Vary) -> Point:
        """Return the same point: a variant of the traffic takes as long."""
        if self._point is None:
            raise ValueError("the device has no point yet")
        return self._point

    def repeat(self, repetitions: int) -> int:
        """Note for how many repetitions the next trials stand."""
        self.times = repetitions
        return 1

    def watch(self, progress: Progress) -> None:
        """Ignore the progress."""

    def say(self, text: str) -> None:
        """Ignore a message."""

    def describe(self) -> dict[str, Any]:
        """Return no conditions: nothing is measured."""
        return {}

    def make_load_estimate(self) -> EstimateLoad:
        """Return an inference that never ends the search early."""
        return lambda loads, target, most_fps: None

    def measure(self, trial: Trial) -> TrialResult:
        """Return the result of a trial, and count its time."""
        self.trials += self.times
        self._spend(self.bound.tester.overhead_s + trial.pause_s)
        connections = trial.connections
        if connections is not None:
            self._count_filling(connections)
        if connections is None or connections.purpose == "prepare":
            self._spend(trial.total_duration_s + trial.residual_wait_s)
        counted = self._count_frames(trial)
        result = TrialResult(
            dict.fromkeys(list_directions(trial.mode), counted),
            connections=None if connections is None else self._open(connections),
        )
        self.results[trial.key] = result
        return result

    def _spend(self, seconds: float, times: int | None = None) -> None:
        self.seconds += seconds * (self.times if times is None else times)

    def _count_filling(self, connections: Connections) -> None:
        if connections.reuse and self._filled == connections.count:
            return
        self._filled = connections.count
        filling_s = connections.total_s
        if connections.purpose == "prepare":
            filling_s += connections.gap_s
        if not self.bound.tester.simulates:
            filling_s += EMPTYING_S * connections.count
        self._spend(filling_s, 1 if connections.reuse else self.times)

    def _count_frames(self, trial: Trial) -> DirectionResult:
        required = trial.frames
        carries_fps = self.carries_fps
        if carries_fps is None:
            carries_fps = (trial.search_limit_fps or trial.rate_fps) / 2
        received = math.floor(required * min(1.0, carries_fps / trial.rate_fps))
        if trial.connections is not None and trial.connections.purpose != "prepare":
            received = required
        lost_s = (0.0, trial.duration_s) if received < required else (None, None)
        delays = pairs = None
        if trial.delays is not None:
            timed = trial.delays.tags or received
            lost = 0 if trial.delays.tags else required - received
            delays = {"frames": Distribution((DELAY_NS,), (timed,), lost)}
            pairs = {"frames": Distribution((0,), (max(1, timed - 1),))}
        return DirectionResult(
            {"frames": ClassCount("foreground", required, required, received)},
            trial.total_duration_s,
            delays=delays,
            ipdv=pairs,
            first_lost_s=lost_s[0],
            last_lost_s=lost_s[1],
        )

    def _open(self, connections: Connections) -> PhaseOneResult:
        count = connections.count
        if connections.purpose == "establish" and (
            connections.rate_cps > self.carries_cps or count > self.holds
        ):
            learned = count // 2
        else:
            learned = count
        tcp = None
        if connections.tcp is not None:
            lost = count - learned
            tcp = TcpCounts(count, learned, timed_out=lost, requested=learned, answered=learned)
        return PhaseOneResult(
            count,
            count,
            learned,
            validation_sent=learned,
            validated=None if connections.alpha is None else learned,
            validation_time_s=0.0,
            flush_s=1.0,
            idle_flush_s=0.0,
            tcp=tcp,
        )


def plan_point(bound: BoundRun, sizes: Sizes, mode: Mode, media_fps: float | None = None) -> Point:
    """Make a planned point: the tester carries what the medium does."""
    if media_fps is None:
        media_fps = max_frame_rate_fps(bound.settings.line_rate_bps, sizes.longest)
    device = IdealDevice(bound, (TesterCapacity(mode, media_fps, (), ()), "assumed"))
    return device.at(Point(bound, sizes, mode, media_fps, device, device.measure, device.find))


def count_trials(
    benchmark: Benchmark[Any, Any], point: Point, *, carries_all: bool = False
) -> tuple[int, float, Sequence[float]]:
    """Carry a benchmark out on an ideal device.

    Returns:
        The number of trials, their time [s], and the rates that other benchmarks depend on.
    """
    bound, connections = point.bound, point.procedure.connections
    results: Mapping[str, TrialResult] = point.runner.results
    device = IdealDevice(bound, point.runner.capacity, results=dict(results))
    if not carries_all:
        device.carries_fps = point.known_fps or None
        most_cps = min(point.limit_fps, connections.upper_cps or math.inf, bound.tester.usual_cps)
        device.carries_cps = most_cps / 2
        device.holds = max(connections.count, 3 * benchmark.find_max_connections(bound) // 4)
    at: Point | None = device.at(point)
    if benchmark.phase is Phase.STREAMS and bound.settings.connects:
        at = prepare_connections(device.at(point))
    if at is None:
        return 0, 0.0, ()
    rates = benchmark.run(at).rates
    return device.trials, device.seconds, rates
