"""Trials that a benchmark needs, counted by carrying it out on an ideal device."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from v6t.base.ethernet import max_frame_rate_fps
from v6t.benchmarks.base import Benchmark, Phase
from v6t.benchmarks.connections import prepared
from v6t.benchmarks.context import RunContext
from v6t.benchmarks.point import Point
from v6t.core.config.bound import BoundRun
from v6t.procedures.tester_rate import TesterCapacity
from v6t.profiles.mixes import Sizes
from v6t.trials.connections import Connections, PhaseOneResult
from v6t.trials.delays import Distribution
from v6t.trials.result import ClassCount, DirectionResult, TrialResult
from v6t.trials.tcp import TcpCounts
from v6t.trials.trial import Mode, Trial, list_directions

DELAY_NS = 1000
EMPTYING_S = 12e-6
"""Time to empty the table of each connection: nftables on Linux 6.18 with 100,000 of them [s]."""


@dataclass
class IdealDevice:
    """A device that loses nothing up to a rate, and a tester that never fails; no time passes.

    Attributes:
        bound: the run.
        carries_fps: frames per second and direction without loss; None: half of what a search offers.
        carries_cps: connections per second without loss.
        holds: connections that its table holds.
        trials, seconds: of all trials so far.
        times: repetitions for which one stands.
    """

    bound: RunContext
    carries_fps: float | None = math.inf
    carries_cps: float = math.inf
    holds: float = math.inf
    trials: int = 0
    seconds: float = 0.0
    times: int = 1
    results: dict[str, TrialResult] = field(default_factory=dict)
    _filled: int = 0

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
        phase_one = None if connections is None else self._open(connections)
        result = TrialResult(
            dict.fromkeys(list_directions(trial.mode), counted), connections=phase_one
        )
        self.results[trial.key] = result
        return result

    def repeat(self, repetitions: int) -> int:
        """Note for how many repetitions the next trials stand."""
        self.times = repetitions
        return 1

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
    """Make a point at which nothing is measured: the tester carries what the medium does."""
    media = max_frame_rate_fps(bound.settings.line_rate_bps, sizes.longest)
    media_fps = media if media_fps is None else media_fps
    capacity = TesterCapacity(mode, media_fps, (), ())
    device = IdealDevice(bound)
    point = Point(
        bound=bound,
        sizes=sizes,
        mode=mode,
        media_fps=media_fps,
        capacity=lambda: (capacity, "assumed"),
        measure=device.measure,
        loopback=device.measure if bound.measures_tester else None,
        watch=lambda progress: None,
        say=lambda text: None,
        find=device.results.__getitem__,
        describe=lambda capacity, source: {},
        emptying=lambda: "",
        vary=lambda name, change: point,
    )
    return point


@dataclass(frozen=True)
class Counted:
    """What a benchmark takes at a point, and the rates that others are measured at."""

    trials: int
    seconds: float
    rates: Sequence[float]


def count_trials(
    benchmark: Benchmark[Any, Any], point: Point, *, carries_all: bool = False
) -> Counted:
    """Carry a benchmark out on an ideal device.

    Args:
        benchmark: that is planned.
        point: where, with the rates that are known of the device; where none is known, it
            carries half of what can be offered, so that searches take all their steps.
        carries_all: the device carries every rate instead.
    """
    bound, connections = point.bound, point.procedure.connections
    device = IdealDevice(bound)
    if not carries_all:
        most = benchmark.most_connections(bound)
        device = IdealDevice(
            bound,
            point.known_fps or None,
            min(point.limit_fps, connections.upper_cps or math.inf, bound.tester.usual_cps) / 2,
            max(connections.count, 3 * most // 4),
        )
    at = _on(device, point)
    if benchmark.phase is Phase.STREAMS and bound.settings.connects:
        filled = prepared(at)
        if filled is None:
            return Counted(0, 0.0, ())
        at = filled
    rates = benchmark.run(at).rates
    return Counted(device.trials, device.seconds, rates)


def _on(device: IdealDevice, point: Point) -> Point:
    earlier = point.find
    results: Mapping[str, TrialResult] = device.results

    def find(key: str) -> TrialResult:
        return results[key] if key in results else earlier(key)

    at = replace(
        point,
        measure=device.measure,
        loopback=point.loopback and device.measure,
        watch=lambda progress: None,
        say=lambda text: None,
        find=find,
        vary=lambda name, change: at,
        repeat=device.repeat,
        planned=True,
        infer=lambda: lambda loads, target, most_fps: None,
    )
    return at
