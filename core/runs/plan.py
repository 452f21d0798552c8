"""What a run would do: trials, time, streams, device. Nothing is opened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from v6t.core.benchmarks import registry
from v6t.core.benchmarks.base import Benchmark, Phase
from v6t.core.benchmarks.phase_one import with_phase_one
from v6t.core.benchmarks.point import Cost, Point
from v6t.core.config.bound import BoundRun
from v6t.core.config.presets import caveats
from v6t.core.config.settings import ResolvedRun
from v6t.core.runs.bench import streams_of
from v6t.core.runs.tester_capacity import capacity_spec
from v6t.procedures.tester_rate import CapacitySpec, trials_until
from v6t.profiles.mixes import Sizes, listed_sizes
from v6t.profiles.wire import max_frame_rate_fps

SELFTEST, SETUP, LOADING = "self-test", "set-up", "loading"
CONNECTIONS, QUERIES = "connections", "queries"
"""Stages of a run beside its benchmarks, and the mode of what has no direction."""
_FRAMES = {
    "plugin", "params", "links_left", "links_right", "initiator", "frame_sizes", "modifier", "seed",
}  # fmt: skip
"""Settings that say what frames are sent."""
ASSUMED_CAPACITY_TRIALS, ASSUMED_CONFIRMATIONS = 12, 2
"""Short trials until the tester's own capacity is found, and trials under the results' rules."""


@dataclass(frozen=True)
class Stage:
    """What a run does one after the other.

    Attributes:
        name: of the benchmark, ``self-test`` or ``set-up``.
        octets: the frame sizes.
        mode: directions; ``connections``: none.
    """

    name: str
    octets: str
    mode: str

    def __str__(self) -> str:
        """In words."""
        return ", ".join(part for part in (f"{self.octets} octets", self.mode, self.name) if part)


@dataclass(frozen=True)
class PlannedStage:
    """A stage and how long it takes if all goes as planned.

    Attributes:
        stage: of the run.
        seconds: that it takes, at most where it is a search.
        trials: in that time.
        least: trials and seconds if the device carries the upper bound at once.
        limit_fps: what the medium carries, or medium and tester.
    """

    stage: Stage
    seconds: float
    trials: int = 0
    least: tuple[int, float] | None = None
    limit_fps: float = 0.0

    @property
    def least_s(self) -> float:
        """Seconds if the device carries the upper bound at once."""
        return self.seconds if self.least is None else self.least[1]


@dataclass(frozen=True)
class PlannedPoint:
    """One benchmark at one frame size and mode.

    ``trials`` and ``duration_s`` hold when no trial is invalid and the device does not carry the
    upper bound; the bound itself may turn out lower: the tester's own capacity is measured first.
    ``least_s`` is what it takes if the device carries every bound at once.
    The time holds what the tester needs for each trial, and the first benchmark at a size or in a
    mode bears what goes before: setting up, and the tester's own capacity.
    """

    benchmark: str
    frame_sizes: dict[str, Any]
    mode: str
    media_fps: int
    trials: int
    duration_s: float
    least_s: float


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

    @property
    def least_s(self) -> float:
        """Seconds of all points if the device carries every upper bound at once."""
        return sum(p.least_s for p in self.points)

    def to_json(self) -> dict[str, Any]:
        """JSON-like values."""
        return {
            "run": self.run.model_dump(mode="json"),
            "points": [asdict(p) for p in self.points],
            "trials": self.trials,
            "duration_s": self.duration_s,
            "least_s": self.least_s,
            "streams": list(self.streams),
            "device_must_be": self.intent,
            "caveats": self.caveats,
        }


def plan(bound: BoundRun, compiled: dict[str, tuple[str, ...]] | None = None) -> RunPlan:
    """Plan a run, without touching anything.

    Args:
        bound: the run.
        compiled: streams of runs that were planned before, by what they depend on; this one's are
            added.
    """
    run, known = bound.settings, {} if compiled is None else compiled
    frames = run.model_dump_json(include=_FRAMES)
    if frames not in known:
        known[frames] = tuple(_streams(bound))
    points = [point for point, _ in _planned(bound)]
    return RunPlan(run, tuple(points), known[frames], asdict(bound.intent), caveats(bound))


def _streams(bound: BoundRun) -> Iterator[str]:
    run, plugin = bound.settings, bound.technology
    for size in run.frame_sizes:
        sizes = plugin.sizes_of(size)
        for direction, stream_set in streams_of(bound, sizes).items():
            total = sum(s.weight for s in stream_set.streams)
            for s in stream_set.streams:
                yield (
                    f"{sizes.label} {direction}: {s.name} ({s.role.value}), "
                    f"{s.weight / total:.1%} of the frames"
                )


def stages(bound: BoundRun) -> list[PlannedStage]:
    """What the run will do, and how long each takes; nothing is compiled."""
    return [stage for _, before in _planned(bound) for stage in before if stage.seconds]


def _planned(bound: BoundRun) -> Iterator[tuple[PlannedPoint, Sequence[PlannedStage]]]:
    """Every benchmark at every point, with the stages that it takes."""
    run = bound.settings
    for size in run.frame_sizes:
        sizes = bound.technology.sizes_of(size)
        media = max_frame_rate_fps(run.line_rate_bps, sizes.longest)
        first = size == run.frame_sizes[0]
        setup_s = bound.tester.setup_s if first else bound.tester.load_s
        for benchmark, point, cost, selftest_s in _costs(bound, sizes, media):
            mode = mode_of(benchmark.phase, point.mode)
            taken = [
                PlannedStage(beginning(sizes.label, first=first), setup_s),
                PlannedStage(
                    Stage(SELFTEST, sizes.label, mode), selftest_s, ASSUMED_CAPACITY_TRIALS
                ),
                planned_stage(benchmark, point, cost),
            ]
            yield (
                PlannedPoint(
                    benchmark=benchmark.name,
                    frame_sizes=listed_sizes(sizes),
                    mode=mode,
                    media_fps=media,
                    trials=cost.trials,
                    duration_s=sum(stage.seconds for stage in taken),
                    least_s=sum(stage.least_s for stage in taken),
                ),
                taken,
            )
            setup_s = 0.0


def beginning(octets: str, *, first: bool) -> Stage:
    """What goes before everything else at a frame size: setting all up, or only other streams."""
    return Stage(SETUP if first else LOADING, octets, "")


def planned_stage(benchmark: Benchmark[Any, Any], point: Point, cost: Cost) -> PlannedStage:
    """What a benchmark takes at a point, by what is known of it."""
    stage = Stage(benchmark.name, point.sizes.label, mode_of(benchmark.phase, point.mode))
    return PlannedStage(stage, cost.seconds, cost.trials, cost.least, point.limit_fps)


def whole_cost(benchmark: Benchmark[Any, Any], point: Point) -> Cost:
    """Of a benchmark at a point, with its connections and what the tester needs for each trial."""
    cost = benchmark.cost(point)
    if benchmark.phase.directed and point.bound.settings.connects:
        cost = with_phase_one(point, cost)
    return cost.with_each(point.bound.tester.overhead_s)


def mode_of(phase: Phase, mode: str) -> str:
    """What stands in place of the directions of what has none."""
    if phase.directed:
        return mode
    return QUERIES if phase == Phase.QUERIES else CONNECTIONS


def selftests(bound: BoundRun, capacity_fps: float) -> Iterator[PlannedStage]:
    """What self-tests take that find a capacity: sizes and modes change it little."""
    run = bound.settings
    for size in run.frame_sizes:
        sizes = bound.technology.sizes_of(size)
        media = max_frame_rate_fps(run.line_rate_bps, sizes.longest)
        for mode in run.modes:
            spec = capacity_spec(run, sizes, mode, media)
            trials = trials_until(spec, capacity_fps)
            yield PlannedStage(
                Stage(SELFTEST, sizes.label, mode),
                _selftest_s(spec, bound.tester.overhead_s, trials, 1),
                trials + (spec.confirmation_s > 0),
            )


def _costs(
    bound: BoundRun, sizes: Sizes, media_fps: int
) -> Iterator[tuple[Benchmark[Any, Any], Point, Cost, float]]:
    """What each benchmark takes, and the seconds the tester's own capacity takes before it."""
    benchmarks = registry.wanted(bound)
    each_s = bound.tester.overhead_s
    for mode in bound.settings.modes:
        point = Point(bound, sizes, mode, media_fps)
        selftest_s = 0.0
        if bound.tester.loops_back:
            spec = capacity_spec(bound.settings, sizes, mode, media_fps)
            selftest_s = _selftest_s(spec, each_s)
        for benchmark in benchmarks:
            if benchmark.phase.directed:
                yield benchmark, point, whole_cost(benchmark, point), selftest_s
                selftest_s = 0.0
    point = Point(bound, sizes, "forward", media_fps)
    selftest_s = 0.0
    if bound.tester.loops_back and not bound.settings.connects:
        selftest_s = _selftest_s(capacity_spec(bound.settings, sizes, "forward", media_fps), each_s)
    for benchmark in benchmarks:
        if not benchmark.phase.directed:
            yield benchmark, point, whole_cost(benchmark, point), selftest_s
            selftest_s = 0.0


def _selftest_s(
    spec: CapacitySpec,
    each_s: float,
    trials: int = ASSUMED_CAPACITY_TRIALS,
    confirmations: int = ASSUMED_CONFIRMATIONS,
) -> float:
    short_s = spec.pause_s + spec.duration_s + spec.residual_wait_s + each_s
    confirmed_s = spec.confirmation_s + each_s if spec.confirmation_s else 0.0
    return trials * short_s + confirmations * confirmed_s
