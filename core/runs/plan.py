"""The plan of a run: points and stages, with trials and time counted on an ideal device."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, cast

from v6t.benchmarks import registry
from v6t.benchmarks.base import Benchmark, Phase
from v6t.benchmarks.connections import prepare_connections
from v6t.benchmarks.point import Point, TrafficChange
from v6t.core.config.checks import check_libraries
from v6t.core.config.run_setup import RunSetup
from v6t.core.config.warnings import list_result_warnings
from v6t.core.runs.bench import compile_streams
from v6t.core.runs.preflight import LOOPBACK_CONNECTIONS
from v6t.core.runs.rundir import compute_digest, format_json
from v6t.core.runs.tester_capacity import Streams, make_capacity_spec, make_tcp_capacity_spec
from v6t.procedures.tester_rate import SelfTestSpec, TesterCapacity
from v6t.procedures.trial_runner import Progress
from v6t.profiles.mixes import Sizes, sizes_to_json
from v6t.trials.connections import Connections, PhaseOneResult, TcpCounts
from v6t.trials.delays import Distribution
from v6t.trials.result import ClassCount, DirectionResult, Measure, TrialResult
from v6t.trials.trial import Capability, Trial, list_directions

IDEAL_DELAY_NS = 1000  # delay of each frame in an ideal device
# Time [s] to remove one of 100,000 connections from a table of nftables, with Linux 6.18.
FLUSH_S_PER_CONNECTION = 12e-6


@dataclass
class IdealDevice:
    """Simulated device that loses no frame up to a given rate; its trials take no real time.

    It is the runner of a planned point (:class:`v6t.benchmarks.point.PointRunner`).
    """

    is_planning: ClassVar[bool] = True  # trials are counted, not measured
    setup: RunSetup
    capacity: tuple[TesterCapacity, str]  # of the tester, with its source
    max_fps: float | None = math.inf  # without loss; None for half of the limit of each search
    max_cps: float = math.inf  # connections per second without loss
    table_size: float = math.inf  # maximum number of connections
    trials: int = 0  # number of trials so far
    seconds: float = 0.0  # planned time of these trials
    results: dict[str, TrialResult] = field(default_factory=dict)  # by trial key
    trial_weight: int = 1  # number of planned trials for each simulated one
    _table_entries: int = 0
    _point: Point | None = None

    @property
    def loopback(self) -> Measure | None:
        return self.measure if self.setup.can_measure_tester else None

    def bind_point(self, point: Point) -> Point:
        """Return a copy of the point whose trials run on this device."""
        find = self.results.__getitem__
        self._point = replace(point, runner=self, measure=self.measure, find=find)
        return self._point

    def vary(self, name: str, change: TrafficChange) -> Point:
        """Return the same point, and add the planned time to load a variant and of its self-test."""
        if self._point is None:
            raise ValueError("the device has no point yet")
        spec = make_capacity_spec(self.setup.settings, self._point.sizes, self._point.mode)
        self.seconds += self.setup.tester.load_s + _estimate_selftest(self.setup, spec)[0]
        return self._point

    def count_repetitions(self, repetitions: int) -> int:
        """Return one repetition, whose trials count for all ``repetitions``."""
        self.trial_weight = repetitions
        return 1

    def on_progress(self, progress: Progress) -> None: ...
    def on_message(self, text: str) -> None: ...
    def describe(self) -> dict[str, Any]:
        return {}

    def measure(self, trial: Trial) -> TrialResult:
        """Simulate a trial, add its planned time and return its result."""
        connections, trial_s = trial.connections, self.setup.tester.overhead_s + trial.pause_s
        if connections is None or connections.purpose == "prepare":
            trial_s += trial.total_duration_s + trial.residual_wait_s
        if connections is not None:
            self.seconds += self._compute_filling_time(connections)
        self.trials += self.trial_weight
        self.seconds += self.trial_weight * trial_s
        directions = dict.fromkeys(list_directions(trial.mode), self._forward_frames(trial))
        phase_one = None if connections is None else self._open_connections(connections)
        result = TrialResult(directions, connections=phase_one)
        self.results[trial.key] = result
        return result

    def _compute_filling_time(self, connections: Connections) -> float:
        """Return the planned time to fill the connection table [s]; 0 if it has these connections."""
        if connections.reuse and self._table_entries == connections.count:
            return 0.0
        self._table_entries = connections.count
        filling_s = connections.total_s
        if connections.purpose == "prepare":
            filling_s += connections.gap_s
        if not self.setup.tester.simulates:
            filling_s += FLUSH_S_PER_CONNECTION * connections.count
        return filling_s * (1 if connections.reuse else self.trial_weight)

    def _forward_frames(self, trial: Trial) -> DirectionResult:
        required = trial.frames
        half_fps = (trial.search_limit_fps or trial.rate_fps) / 2
        max_fps = half_fps if self.max_fps is None else self.max_fps
        received = math.floor(required * min(1.0, max_fps / trial.rate_fps))
        if trial.connections is not None and trial.connections.purpose != "prepare":
            received = required
        lost_s = (0.0, trial.duration_s) if received < required else (None, None)
        delays = pairs = None
        if trial.delays is not None:
            timed = trial.delays.tags or received
            lost = 0 if trial.delays.tags else required - received
            delays = {"frames": Distribution((IDEAL_DELAY_NS,), (timed,), lost)}
            pairs = {"frames": Distribution((0,), (max(1, timed - 1),))}
        return DirectionResult(
            {"frames": ClassCount("foreground", required, required, received)},
            trial.total_duration_s,
            delays=delays,
            ipdv=pairs,
            first_lost_s=lost_s[0],
            last_lost_s=lost_s[1],
        )

    def _open_connections(self, connections: Connections) -> PhaseOneResult:
        """Simulate phase 1, which opens connections, and return its result."""
        count = connections.count
        fails = connections.rate_cps > self.max_cps or count > self.table_size
        learned = count // 2 if fails and connections.purpose == "establish" else count
        tcp = TcpCounts(
            count, learned, timed_out=count - learned, requested=learned, answered=learned
        )
        validated = None if connections.alpha is None else learned
        return PhaseOneResult(
            count, count, learned, validation_sent=learned, validated=validated,
            validation_time_s=0.0, flush_s=1.0, idle_flush_s=0.0,
            tcp=tcp if connections.tcp else None,
        )  # fmt: skip


def _plan_point(setup: RunSetup, sizes: Sizes, spec: SelfTestSpec) -> Point:
    """Return a point for planning whose tester reaches the maximum frame rate of the link."""
    mode, media_fps = spec.mode, spec.media_fps
    device = IdealDevice(setup, (TesterCapacity(mode, media_fps, (), ()), "assumed"))
    return Point(setup, sizes, mode, media_fps, device, device.measure, device.results.__getitem__)


def estimate_trials(
    benchmark: Benchmark[Any, Any], point: Point, *, carries_all: bool = False
) -> tuple[int, float, Sequence[float]]:
    """Estimate the trials of a benchmark by running it on an ideal device.

    Returns their number, their duration [s], and the rates that other benchmarks depend on. The
    device loses frames above half of each search limit, unless ``carries_all`` is true.
    """
    # the context of a point in the core is always a run
    setup, connections = cast(RunSetup, point.context), point.procedure.connections
    device = IdealDevice(setup, point.runner.capacity, results=dict(point.runner.results))
    if not carries_all:
        device.max_fps = point.median_throughput_fps or None
        max_cps = min(point.limit_fps, connections.upper_cps or math.inf, setup.tester.usual_cps)
        device.max_cps = max_cps / 2
        device.table_size = max(connections.count, 3 * benchmark.find_max_connections(setup) // 4)
    prepared: Point | None = device.bind_point(point)
    if benchmark.phase is Phase.STREAMS and setup.settings.connects:
        prepared = prepare_connections(device.bind_point(point))
    if prepared is None:
        return 0, 0.0, ()
    rates = benchmark.measure(prepared).rates
    return device.trials, device.seconds, rates


SELFTEST, SETUP, LOADING = "self-test", "set-up", "loading"  # stages that are not benchmarks
CONNECTIONS, QUERIES = "connections", "queries"  # modes of stages without a direction
# Short trials until the tester's own capacity is found, and trials under the results' rules.
ASSUMED_CAPACITY_TRIALS, ASSUMED_CONFIRMATIONS = 12, 2
_STREAM_SETTINGS = {  # they determine the compiled streams
    "plugin", "params", "links", "initiator", "frame_sizes", "modifier", "seed",
}  # fmt: skip


@dataclass(frozen=True)
class Stage:
    """Part of a run: a benchmark, self-test or set-up at one frame size and mode, and its plan.

    Stages of the same name, frame size and mode are equal, even if they are planned differently.
    """

    name: str
    size_label: str  # label of the frame size
    mode: str  # traffic mode, ``connections`` or ``queries``; empty for a set-up
    seconds: float = field(default=0.0, compare=False)  # maximum duration; 0: not planned
    # minimum duration, if the device carries the upper bound of each search
    least_s: float = field(default=0.0, compare=False)
    trials: int = field(default=0, compare=False)  # planned number

    @property
    def expected_s(self) -> float:
        """Mean of the minimum and the maximum duration [s]."""
        return (self.seconds + self.least_s) / 2


@dataclass(frozen=True)
class PlannedPoint:
    """Planned benchmark at one frame size and mode, if no trial is invalid and repeated.

    The first benchmark at a size or in a mode bears the time of the set-up and of the self-test.
    """

    benchmark: str
    frame_sizes: dict[str, Any]
    mode: str
    media_fps: int  # maximum frame rate of the link, per direction
    trials: int  # maximum number
    duration_s: float  # maximum
    least_s: float  # minimum duration, if the device carries the upper bound of each search
    counted_by: str = ""  # how the tester recognizes test frames, if it has several ways


@dataclass(frozen=True)
class RunPlan:
    """Plan of a run: its points and stages, and the compiled streams."""

    setup: RunSetup
    points: tuple[PlannedPoint, ...]
    stages: tuple[Stage, ...]
    stream_sets: Mapping[str, Streams]  # compiled streams by label of the frame size

    @property
    def trial_count(self) -> int:
        """Planned number of trials at all points."""
        return sum(p.trials for p in self.points)

    @property
    def duration_s(self) -> float:
        """Maximum duration of the run [s]."""
        return sum(p.duration_s for p in self.points)

    @property
    def least_s(self) -> float:
        """Minimum duration of the run [s]."""
        return sum(p.least_s for p in self.points)

    @cached_property
    def stream_descriptions(self) -> tuple[str, ...]:
        """Description of each stream in one line, with its share of the frames."""
        return tuple(
            f"{label} {direction}: {s.name} ({s.role.value}), {s.weight / total:.1%} of the frames"
            for label, streams in self.stream_sets.items()
            for direction, stream_set in streams.items()
            for total in [sum(s.weight for s in stream_set.streams)]
            for s in stream_set.streams
        )

    @property
    def digest(self) -> str:
        """SHA-256 of the points, their trials and the streams, without estimated times."""
        times = {"duration_s", "least_s"}
        points = [{k: v for k, v in asdict(p).items() if k not in times} for p in self.points]
        return compute_digest(format_json([points, self.stream_descriptions]).encode())

    @cached_property
    def warnings(self) -> list[str]:
        return list(list_result_warnings(self.setup))

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.setup.settings.to_json(),
            "points": [asdict(p) for p in self.points],
            "trials": self.trial_count,
            "duration_s": self.duration_s,
            "least_s": self.least_s,
            "streams": list(self.stream_descriptions),
            "device_must_be": self.setup.intent.to_json(),
            "caveats": self.warnings,
        }


def plan(setup: RunSetup, stream_cache: dict[str, Mapping[str, Streams]] | None = None) -> RunPlan:
    """Return the plan of a run; ``stream_cache`` keeps compiled streams for further plans.

    Raises:
        EnvironmentLacking: a library that chooses the trials is missing.
    """
    check_libraries(setup)
    run, cached = setup.settings, {} if stream_cache is None else stream_cache
    frames = run.model_dump_json(include=_STREAM_SETTINGS)
    all_sizes = [*map(setup.technology.make_sizes, run.frame_sizes)]
    if frames not in cached:
        cached[frames] = {sizes.label: compile_streams(setup, sizes) for sizes in all_sizes}
    points: list[PlannedPoint] = []
    stages: list[Stage] = []
    for number, sizes in enumerate(all_sizes):
        for point, each in _plan_size(setup, sizes, is_first_size=number == 0):
            points.append(point)
            stages += [stage for stage in each if stage.seconds]
    return RunPlan(setup, tuple(points), tuple(stages), cached[frames])


def plan_first_stage(setup: RunSetup, size_label: str, *, is_first_size: bool) -> Stage:
    """Return the first stage of a frame size: set-up of the run, or loading of other streams."""
    tester = setup.tester
    name, seconds = (SETUP, tester.setup_s) if is_first_size else (LOADING, tester.load_s)
    return Stage(name, size_label, "", seconds, seconds)


def plan_stage(benchmark: Benchmark[Any, Any], point: Point) -> tuple[Stage, Sequence[float]]:
    """Return the planned stage of a benchmark and the rates that an ideal device would have."""
    trials, seconds, rates = estimate_trials(benchmark, point)
    least_s = seconds
    if benchmark.is_search:
        seconds *= 1 + point.context.tester.usual_retries
        _, least_s, _ = estimate_trials(benchmark, point, carries_all=True)
    mode = _name_stage_mode(benchmark.phase, point.mode)
    stage = Stage(benchmark.name, point.sizes.label, mode, seconds, min(seconds, least_s), trials)
    return stage, rates


def _name_stage_mode(phase: Phase, mode: str) -> str:
    """Return ``mode``, or ``connections`` or ``queries`` for phases without a direction."""
    if phase.directed:
        return mode
    return QUERIES if phase == Phase.QUERIES else CONNECTIONS


def _plan_size(
    setup: RunSetup, sizes: Sizes, *, is_first_size: bool
) -> Iterator[tuple[PlannedPoint, list[Stage]]]:
    """Yield each benchmark at a frame size with its stages, including set-up and self-test."""
    run = setup.settings
    benchmarks = [b for b in registry.select_benchmarks(setup) if is_first_size or b.phase.sized]
    directed = [b for b in benchmarks if b.phase.directed]
    undirected = [b for b in benchmarks if b.phase.sized and not b.phase.directed]
    tcp = [b for b in benchmarks if not b.phase.sized]
    groups: list[tuple[Point, SelfTestSpec, list[Benchmark[Any, Any]]]] = []
    for mode, group in (*((mode, directed) for mode in run.modes), ("forward", undirected)):
        spec = make_capacity_spec(run, sizes, mode)
        groups.append((_plan_point(setup, sizes, spec), spec, group))
    if tcp:
        syn_sizes, spec = make_tcp_capacity_spec(setup)
        groups.append((_plan_point(setup, syn_sizes, spec), spec, tcp))
    stages: dict[str, Stage] = {}
    rates: dict[str, Sequence[float]] = {}
    for benchmark in benchmarks:  # a stage takes as long in each mode
        point = next(point for point, _, group in groups if benchmark in group)
        planned = plan_stage(benchmark, replace(point, measured_rates=rates))
        stages[benchmark.name], rates[benchmark.name] = planned
    stages_before = [plan_first_stage(setup, sizes.label, is_first_size=is_first_size)]
    connects: set[Capability] = {"connections"} if run.connects else set()
    learns = run.connects and setup.tester.can_loop_back and not setup.tester.simulates
    for number, (point, spec, group) in enumerate(groups):
        selftest_s, selftest_trials = _estimate_selftest(setup, spec)
        selftest_s += LOOPBACK_CONNECTIONS.total_s if learns and number == 0 else 0.0
        for place, benchmark in enumerate(group):
            mode_name = _name_stage_mode(benchmark.phase, point.mode)
            if place == 0 and benchmark.phase != Phase.VARIANTS:  # which has separate self-tests
                times = selftest_s, selftest_s, selftest_trials
                stages_before.append(Stage(SELFTEST, point.sizes.label, mode_name, *times))
            needs = benchmark.list_capabilities(setup) | connects
            stage = replace(stages[benchmark.name], mode=mode_name)
            taken = [*stages_before, stage]
            yield (
                PlannedPoint(
                    benchmark.name,
                    sizes_to_json(point.sizes),
                    mode_name,
                    round(point.media_fps),
                    stage.trials,
                    sum(each.seconds for each in taken),
                    sum(each.least_s for each in taken),
                    setup.tester.describe_counting(needs, point.mode, point.limit_fps),
                ),
                taken,
            )
            stages_before = []


def _estimate_selftest(setup: RunSetup, spec: SelfTestSpec) -> tuple[float, int]:
    if not setup.tester.can_loop_back:
        return 0.0, 0
    confirmations = ASSUMED_CONFIRMATIONS * (spec.confirmation_s > 0)
    trials = ASSUMED_CAPACITY_TRIALS + confirmations
    seconds = ASSUMED_CAPACITY_TRIALS * (spec.pause_s + spec.duration_s + spec.residual_wait_s)
    seconds += confirmations * spec.confirmation_s + trials * setup.tester.overhead_s
    return seconds, trials
