"""What a run would do: trials, time, streams, device. Nothing is opened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from v6t.benchmarks import registry
from v6t.benchmarks.base import Benchmark, Phase
from v6t.benchmarks.point import Point
from v6t.benchmarks.tcp import syn_medium
from v6t.core.config.bound import BoundRun
from v6t.core.config.presets import caveats
from v6t.core.config.settings import ResolvedRun
from v6t.core.runs.bench import streams_of
from v6t.core.runs.ideal import count_trials, plan_point
from v6t.core.runs.stateful import LOOPBACK
from v6t.core.runs.tester_capacity import capacity_spec, opening_spec
from v6t.procedures.tester_rate import CapacitySpec
from v6t.profiles.mixes import Sizes, sizes_to_json
from v6t.trials.trial import Capability, Mode

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
        least_s: seconds if the device carries the upper bound at once; None: the same.
    """

    stage: Stage
    seconds: float
    trials: int = 0
    least_s: float | None = None

    @property
    def shortest_s(self) -> float:
        """Seconds if the device carries the upper bound at once."""
        return self.seconds if self.least_s is None else self.least_s

    @property
    def expected_s(self) -> float:
        """Between the two: nobody knows what the device carries."""
        return (self.seconds + self.shortest_s) / 2


@dataclass(frozen=True)
class PlannedPoint:
    """One benchmark at one frame size and mode.

    ``trials`` and ``duration_s`` hold when no trial is invalid and the device does not carry the
    upper bound; the bound itself may turn out lower: the tester's own capacity is measured first.
    ``least_s`` is what it takes if the device carries every bound at once.
    ``counted_by`` is how the tester tells test frames from others, where it knows several ways.
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
    counted_by: str = ""


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
    return RunPlan(run, tuple(points), known[frames], bound.intent.to_json(), caveats(bound))


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
    """List what the run will do, and how long each stage takes; nothing is compiled."""
    return [stage for _, before in _planned(bound) for stage in before if stage.seconds]


def _planned(bound: BoundRun) -> Iterator[tuple[PlannedPoint, Sequence[PlannedStage]]]:
    """Every benchmark at every point, with the stages that it takes."""
    run = bound.settings
    for size in run.frame_sizes:
        sizes = bound.technology.sizes_of(size)
        first = size == run.frame_sizes[0]
        setup_s = bound.tester.setup_s if first else bound.tester.load_s
        for benchmark, point, stage, selftest in _plan_size(bound, sizes, first=first):
            taken = [
                PlannedStage(beginning(sizes.label, first=first), setup_s),
                replace(selftest, stage=Stage(SELFTEST, point.sizes.label, stage.stage.mode)),
                stage,
            ]
            yield (
                PlannedPoint(
                    benchmark=benchmark.name,
                    frame_sizes=sizes_to_json(point.sizes),
                    mode=stage.stage.mode,
                    media_fps=round(point.media_fps),
                    trials=stage.trials,
                    duration_s=sum(each.seconds for each in taken),
                    least_s=sum(each.shortest_s for each in taken),
                    counted_by=_counted_by(benchmark, point),
                ),
                taken,
            )
            setup_s = 0.0


def _counted_by(benchmark: Benchmark[Any, Any], point: Point) -> str:
    """How the tester will tell test frames from others, as far as that is known beforehand."""
    beside: tuple[Capability, ...] = ("connections",) if point.bound.settings.connects else ()
    needs = benchmark.needs(point.bound).union(beside)
    return point.bound.tester.counted_by(needs, point.mode, point.limit_fps)


def beginning(octets: str, *, first: bool) -> Stage:
    """Return the first stage of a frame size: setting all up, or loading other streams."""
    return Stage(SETUP if first else LOADING, octets, "")


def planned_stage(benchmark: Benchmark[Any, Any], point: Point) -> PlannedStage:
    """Plan a benchmark at a point, by what is known of it."""
    return _plan(benchmark, point)[0]


def _plan(benchmark: Benchmark[Any, Any], point: Point) -> tuple[PlannedStage, Sequence[float]]:
    """Return the stage, and the rates that the benchmark would find."""
    stage = Stage(benchmark.name, point.sizes.label, mode_of(benchmark.phase, point.mode))
    usual = count_trials(benchmark, point)
    if not benchmark.searches:
        return PlannedStage(stage, usual.seconds, usual.trials), usual.rates
    seconds = usual.seconds * (1 + point.bound.tester.usual_retries)
    least_s = min(seconds, count_trials(benchmark, point, carries_all=True).seconds)
    return PlannedStage(stage, seconds, usual.trials, least_s), usual.rates


def mode_of(phase: Phase, mode: str) -> str:
    """Return the mode, or a word in place of directions."""
    if phase.directed:
        return mode
    return QUERIES if phase == Phase.QUERIES else CONNECTIONS


def _plan_size(
    bound: BoundRun, sizes: Sizes, *, first: bool
) -> Iterator[tuple[Benchmark[Any, Any], Point, PlannedStage, PlannedStage]]:
    """Yield the stage of each benchmark at a frame size, and that of the self-test before it."""
    benchmarks = registry.wanted(bound)
    groups = [[b for b in benchmarks if b.phase.directed] for _ in bound.settings.modes]
    groups.append([b for b in benchmarks if b.phase.sized and not b.phase.directed])
    modes: list[Mode] = [*bound.settings.modes, "forward"]
    stages: dict[str, PlannedStage] = {}
    found: dict[str, Sequence[float]] = {}
    apart = [b for b in benchmarks if not b.phase.sized] if first else []
    syn_sizes, syn_media = syn_medium(bound) if apart else (sizes, 0)
    for benchmark in benchmarks:  # a stage takes as long in each mode
        at = plan_point(bound, syn_sizes, "forward", syn_media) if benchmark in apart else None
        at = at or plan_point(bound, sizes, modes[0])
        if benchmark.phase.sized or first:
            planned = _plan(benchmark, replace(at, found=found))
            stages[benchmark.name], found[benchmark.name] = planned
    for mode, group in zip(modes, groups, strict=True):
        point = plan_point(bound, sizes, mode)
        selftest = PlannedStage(Stage(SELFTEST, sizes.label, ""), 0.0)
        if bound.tester.loops_back:
            spec = capacity_spec(bound.settings, sizes, mode, round(point.media_fps))
            selftest = _selftest(selftest.stage, bound, spec)
            if group is groups[0] and len(groups) > 1:
                selftest = _with_connections(selftest, bound)
        for benchmark in group:
            planned_mode = mode_of(benchmark.phase, mode)
            stage = stages[benchmark.name]
            stage = replace(stage, stage=replace(stage.stage, mode=planned_mode))
            yield benchmark, point, stage, selftest
            selftest = PlannedStage(selftest.stage, 0.0)
    if apart:
        point = plan_point(bound, syn_sizes, "forward", syn_media)
        selftest = PlannedStage(Stage(SELFTEST, syn_sizes.label, ""), 0.0)
        if bound.tester.loops_back:
            spec = opening_spec(bound.settings, syn_sizes, syn_media)
            selftest = _selftest(selftest.stage, bound, spec)
        for benchmark in apart:
            yield benchmark, point, stages[benchmark.name], selftest
            selftest = PlannedStage(selftest.stage, 0.0)


def _with_connections(selftest: PlannedStage, bound: BoundRun) -> PlannedStage:
    """With those that frames need before the first of them is sent."""
    if not bound.settings.connects or bound.tester.simulates:
        return selftest
    return replace(selftest, seconds=selftest.seconds + LOOPBACK.total_s)


def _selftest(stage: Stage, bound: BoundRun, spec: CapacitySpec) -> PlannedStage:
    confirmations = ASSUMED_CONFIRMATIONS * (spec.confirmation_s > 0)
    trials = ASSUMED_CAPACITY_TRIALS + confirmations
    seconds = ASSUMED_CAPACITY_TRIALS * (spec.pause_s + spec.duration_s + spec.residual_wait_s)
    seconds += confirmations * spec.confirmation_s + trials * bound.tester.overhead_s
    return PlannedStage(stage, seconds, trials)
