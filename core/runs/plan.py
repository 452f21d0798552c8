"""What a run would do: trials, time, streams, device. Nothing is opened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from v6t.core.benchmarks import registry
from v6t.core.benchmarks.base import Benchmark
from v6t.core.benchmarks.phase_one import with_phase_one
from v6t.core.benchmarks.point import Cost, Point
from v6t.core.config.bound import BoundRun
from v6t.core.config.presets import caveats
from v6t.core.config.settings import ResolvedRun
from v6t.core.runs.bench import compile_point
from v6t.core.runs.tester_capacity import capacity_spec
from v6t.profiles.model import FramePair
from v6t.profiles.wire import max_frame_rate_fps

ASSUMED_CAPACITY_TRIALS = 10


@dataclass(frozen=True)
class PlannedPoint:
    """One benchmark at one frame size and mode.

    ``trials`` and ``duration_s`` hold when no trial is invalid and the device does not carry the
    upper bound; the bound itself may turn out lower: the tester's own capacity is measured first.
    """

    benchmark: str
    frame_sizes: dict[str, int]
    mode: str
    media_fps: int
    trials: int
    duration_s: float


@dataclass(frozen=True)
class RunPlan:
    """The whole run."""

    run: ResolvedRun
    points: tuple[PlannedPoint, ...]
    streams: tuple[str, ...]
    intent: dict[str, Any]
    caveats: list[str]

    @property
    def trials(self) -> int:
        """Trials of all points."""
        return sum(p.trials for p in self.points)

    @property
    def duration_s(self) -> float:
        """Seconds of all points."""
        return sum(p.duration_s for p in self.points)

    def to_json(self) -> dict[str, Any]:
        """JSON-like values."""
        return {
            "run": self.run.model_dump(mode="json"),
            "points": [asdict(p) for p in self.points],
            "trials": self.trials,
            "duration_s": self.duration_s,
            "streams": list(self.streams),
            "device_must_be": self.intent,
            "caveats": self.caveats,
        }


def plan(bound: BoundRun) -> RunPlan:
    """Plan a run, without touching anything."""
    run, plugin = bound.settings, bound.technology
    points: list[PlannedPoint] = []
    streams: list[str] = []
    for size in run.frame_sizes:
        sizes = plugin.frame_pair(size)
        media = max_frame_rate_fps(run.line_rate_bps, sizes.longest)
        for direction, stream_set in compile_point(plugin, sizes, run.seed).items():
            total = sum(s.weight for s in stream_set.streams)
            streams += [
                f"{sizes.label} {direction}: {s.name} ({s.role.value}), "
                f"{s.weight / total:.1%} of the frames"
                for s in stream_set.streams
            ]
        for benchmark, point, cost in _costs(bound, sizes, media):
            points.append(
                PlannedPoint(
                    benchmark=benchmark.name,
                    frame_sizes={"ipv6": sizes.ipv6, "ipv4": sizes.ipv4},
                    mode=point.mode if benchmark.phase.directed else "connections",
                    media_fps=media,
                    trials=cost.trials,
                    duration_s=cost.seconds,
                )
            )
    return RunPlan(run, tuple(points), tuple(streams), asdict(plugin.dut_intent()), caveats(bound))


def _costs(
    bound: BoundRun, sizes: FramePair, media_fps: int
) -> Iterator[tuple[Benchmark[Any, Any], Point, Cost]]:
    """What each benchmark takes; the first one of a mode bears the tester's own capacity."""
    benchmarks = registry.wanted(bound)
    for mode in bound.settings.modes:
        point = Point(bound, sizes, mode, media_fps)
        spec = capacity_spec(bound.settings, sizes, mode, media_fps)
        own_s = ASSUMED_CAPACITY_TRIALS * (spec.duration_s + spec.residual_wait_s)
        own_s += spec.confirmation_s
        for benchmark in benchmarks:
            if benchmark.phase.directed:
                cost = benchmark.cost(point)
                if bound.settings.connects:
                    cost = with_phase_one(point, cost)
                yield benchmark, point, cost + Cost(0, own_s)
                own_s = 0.0
    point = Point(bound, sizes, "forward", media_fps)
    for benchmark in benchmarks:
        if not benchmark.phase.directed:
            yield benchmark, point, benchmark.cost(point)
