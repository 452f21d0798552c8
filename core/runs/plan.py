"""The plan of a run: points and stages with their trials and time, and streams. Nothing is opened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from v6t.benchmarks import registry
from v6t.benchmarks.base import Benchmark, Phase
from v6t.benchmarks.point import Point
from v6t.benchmarks.tcp import find_syn_limit
from v6t.core.config.bound import BoundRun
from v6t.core.config.settings import ResolvedRun
from v6t.core.config.warnings import list_result_warnings
from v6t.core.runs.bench import streams_of
from v6t.core.runs.ideal import count_trials, plan_point
from v6t.core.runs.preflight import LOOPBACK_CONNECTIONS
from v6t.core.runs.tester_capacity import capacity_spec, opening_spec
from v6t.packets.direction import Direction
from v6t.procedures.tester_rate import CapacitySpec
from v6t.profiles.mixes import Sizes, sizes_to_json
from v6t.profiles.streams import StreamSet
from v6t.trials.trial import Capability

SELFTEST, SETUP, LOADING = "self-test", "set-up", "loading"
"""Names of stages that are not benchmarks."""
CONNECTIONS, QUERIES = "connections", "queries"
"""Modes of stages without a direction."""
ASSUMED_CAPACITY_TRIALS, ASSUMED_CONFIRMATIONS = 12, 2
"""Short trials until the tester's own capacity is found, and trials under the results' rules."""
_FRAMES = {
    "plugin", "params", "links_left", "links_right", "initiator", "frame_sizes", "modifier", "seed",
}  # fmt: skip
"""Settings that the streams depend on."""

Streams = Mapping[Direction, StreamSet]


@dataclass(frozen=True)
class Stage:
    """A stage of a run.

    Attributes:
        name: of the benchmark, ``self-test``, ``set-up`` or ``loading``.
        octets: the frame sizes.
        mode: directions, ``connections`` or ``queries``; empty for set-up and loading.
    """

    name: str
    octets: str
    mode: str


@dataclass(frozen=True)
class PlannedStage:
    """A stage with its planned time.

    Attributes:
        stage: of the run.
        seconds: its time, of a search the longest.
        trials: in that time.
        least_s: its time if the device carries the upper bound at once; None: the same.
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
        """Mean of both times: the device is unknown."""
        return (self.seconds + self.shortest_s) / 2


@dataclass(frozen=True)
class PlannedPoint:
    """One benchmark at one frame size and mode, without invalid trials.

    The first benchmark at a size or in a mode bears the time of the set-up and of the self-test.

    Attributes:
        benchmark, frame_sizes, mode, media_fps: the point.
        trials, duration_s: if the device does not carry the upper bound.
        least_s: time if the device carries every upper bound at once.
        counted_by: how the tester recognises test frames, if it knows several ways.
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
    """The plan of a run; made once.

    Attributes:
        bound: the run.
        points: every benchmark at every point.
        stages: in the order of the points.
        stream_sets: by the label of the frame sizes.
    """

    bound: BoundRun
    points: tuple[PlannedPoint, ...]
    stages: tuple[PlannedStage, ...]
    stream_sets: Mapping[str, Streams]

    @property
    def run(self) -> ResolvedRun:
        """Settings of the run."""
        return self.bound.settings

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

    @cached_property
    def streams(self) -> tuple[str, ...]:
        """One line for each stream, with its share of the frames."""
        return tuple(_describe_streams(self.stream_sets))

    @cached_property
    def caveats(self) -> list[str]:
        """Warnings about the whole run."""
        return list_result_warnings(self.bound)

    @property
    def intent(self) -> dict[str, Any]:
        """Required state of the device."""
        return self.bound.intent.to_json()

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
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


def plan(bound: BoundRun, compiled: dict[str, Mapping[str, Streams]] | None = None) -> RunPlan:
    """Plan a run."""
    run, known = bound.settings, {} if compiled is None else compiled
    frames = run.model_dump_json(include=_FRAMES)
    if frames not in known:
        sizes = map(bound.technology.sizes_of, run.frame_sizes)
        known[frames] = {each.label: streams_of(bound, each) for each in sizes}
    points, stages = plan_stages(bound)
    return RunPlan(bound, points, stages, known[frames])


def _describe_streams(stream_sets: Mapping[str, Streams]) -> Iterator[str]:
    for label, streams in stream_sets.items():
        for direction, stream_set in streams.items():
            total = sum(s.weight for s in stream_set.streams)
            for s in stream_set.streams:
                share = f"{s.weight / total:.1%} of the frames"
                yield f"{label} {direction}: {s.name} ({s.role.value}), {share}"


def plan_stages(bound: BoundRun) -> tuple[tuple[PlannedPoint, ...], tuple[PlannedStage, ...]]:
    """Plan every benchmark at every point, and list the stages; nothing is compiled."""
    run = bound.settings
    points, stages = [], []
    for size in run.frame_sizes:
        sizes = bound.technology.sizes_of(size)
        first = size == run.frame_sizes[0]
        setup_s = bound.tester.setup_s if first else bound.tester.load_s
        for benchmark, point, stage, selftest in _plan_size(bound, sizes, first=first):
            taken = [PlannedStage(first_stage(sizes.label, first=first), setup_s), selftest, stage]
            setup_s = 0.0
            stages += [each for each in taken if each.seconds]
            points.append(
                PlannedPoint(
                    benchmark=benchmark.name,
                    frame_sizes=sizes_to_json(point.sizes),
                    mode=stage.stage.mode,
                    media_fps=round(point.media_fps),
                    trials=stage.trials,
                    duration_s=sum(each.seconds for each in taken),
                    least_s=sum(each.shortest_s for each in taken),
                    counted_by=_counted_by(benchmark, point),
                )
            )
    return tuple(points), tuple(stages)


def _counted_by(benchmark: Benchmark[Any, Any], point: Point) -> str:
    more: tuple[Capability, ...] = ("connections",) if point.bound.settings.connects else ()
    needs = benchmark.list_capabilities(point.bound).union(more)
    return point.bound.tester.counted_by(needs, point.mode, point.limit_fps)


def first_stage(octets: str, *, first: bool) -> Stage:
    """Return the first stage of a frame size: the set-up of the run, or loading other streams."""
    return Stage(SETUP if first else LOADING, octets, "")


def plan_stage(benchmark: Benchmark[Any, Any], point: Point) -> PlannedStage:
    """Plan a benchmark at a point with what is known of the device."""
    return _plan_benchmark(benchmark, point)[0]


def _plan_benchmark(
    benchmark: Benchmark[Any, Any], point: Point
) -> tuple[PlannedStage, Sequence[float]]:
    """Return the stage, and the rates that the benchmark would find."""
    stage = Stage(benchmark.name, point.sizes.label, mode_of(benchmark.phase, point.mode))
    trials, seconds, rates = count_trials(benchmark, point)
    if not benchmark.searches:
        return PlannedStage(stage, seconds, trials), rates
    seconds *= 1 + point.bound.tester.usual_retries
    _, least_s, _ = count_trials(benchmark, point, carries_all=True)
    return PlannedStage(stage, seconds, trials, min(seconds, least_s)), rates


def mode_of(phase: Phase, mode: str) -> str:
    """Return the mode, or a word in place of directions."""
    if phase.directed:
        return mode
    return QUERIES if phase == Phase.QUERIES else CONNECTIONS


def _plan_size(
    bound: BoundRun, sizes: Sizes, *, first: bool
) -> Iterator[tuple[Benchmark[Any, Any], Point, PlannedStage, PlannedStage]]:
    """Yield the stage of each benchmark at a frame size, and that of the self-test before it."""
    run, benchmarks = bound.settings, registry.select_benchmarks(bound)
    tcp = [b for b in benchmarks if not b.phase.sized] if first else []
    directed = [b for b in benchmarks if b.phase.directed]
    once = [b for b in benchmarks if b.phase.sized and not b.phase.directed]
    syn_point = (
        plan_point(bound, find_syn_limit(bound)[0], "forward", find_syn_limit(bound)[1])
        if tcp
        else None
    )
    stages: dict[str, PlannedStage] = {}
    rates: dict[str, Sequence[float]] = {}
    for benchmark in benchmarks:  # a stage takes as long in each mode
        if benchmark.phase.sized or first:
            point = plan_point(bound, sizes, run.modes[0])
            if syn_point is not None and not benchmark.phase.sized:
                point = syn_point
            stages[benchmark.name], rates[benchmark.name] = _plan_benchmark(
                benchmark, replace(point, found_rates=rates)
            )
    groups: list[tuple[Point, CapacitySpec, list[Benchmark[Any, Any]]]] = []
    for mode, group in (*((mode, directed) for mode in run.modes), ("forward", once)):
        point = plan_point(bound, sizes, mode)
        groups.append((point, capacity_spec(run, sizes, mode, round(point.media_fps)), group))
    if syn_point is not None:
        spec = opening_spec(run, syn_point.sizes, syn_point.media_fps)
        groups.append((syn_point, spec, tcp))
    for number, (point, spec, group) in enumerate(groups):
        selftest_s, selftest_trials = _count_selftest(bound, spec)
        if number == 0 and run.connects and bound.tester.loops_back and not bound.tester.simulates:
            selftest_s += LOOPBACK_CONNECTIONS.total_s
        for benchmark in group:
            stage = stages[benchmark.name]
            mode_name = mode_of(benchmark.phase, point.mode)
            yield (
                benchmark,
                point,
                replace(stage, stage=replace(stage.stage, mode=mode_name)),
                PlannedStage(
                    Stage(SELFTEST, point.sizes.label, mode_name), selftest_s, selftest_trials
                ),
            )
            selftest_s, selftest_trials = 0.0, 0


def _count_selftest(bound: BoundRun, spec: CapacitySpec) -> tuple[float, int]:
    """Return the seconds and the trials of a self-test."""
    if not bound.tester.loops_back:
        return 0.0, 0
    confirmations = ASSUMED_CONFIRMATIONS * (spec.confirmation_s > 0)
    trials = ASSUMED_CAPACITY_TRIALS + confirmations
    seconds = ASSUMED_CAPACITY_TRIALS * (spec.pause_s + spec.duration_s + spec.residual_wait_s)
    seconds += confirmations * spec.confirmation_s + trials * bound.tester.overhead_s
    return seconds, trials
