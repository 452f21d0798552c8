"""Trials of a run with decorators around ``measure``, and the points that they belong to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

from v6t.base.errors import TesterError
from v6t.benchmarks.point import Point, TrafficChange
from v6t.benchmarks.tcp import make_tcp_measure
from v6t.core.config.warnings import find_short_trials, list_result_warnings
from v6t.core.runs import tester_capacity
from v6t.core.runs.bench import Bench, compile_streams
from v6t.core.runs.device import COUNTERS_KEY, DeviceCountRecorder, with_device_load
from v6t.core.runs.events import Listener, RemainingTimeEstimator
from v6t.core.runs.manifest import describe_machine
from v6t.core.runs.plan import CONNECTIONS, SELFTEST, RunPlan, Stage
from v6t.core.runs.preflight import make_mismatch_error, with_loopback_setup, with_phase_one
from v6t.core.runs.results import RunFiles
from v6t.core.runs.rundir import RunDir
from v6t.core.runs.tester_capacity import THIS_RUN_SOURCE, SelfTest, Streams, make_capacity_spec
from v6t.procedures.preflight import BENCHMARK as PREFLIGHT
from v6t.procedures.preflight import TranslationCheckFailure, find_mismatch
from v6t.procedures.tester_rate import TesterCapacity, find_plausible_rate
from v6t.procedures.trial_runner import Progress
from v6t.profiles.mixes import Sizes
from v6t.trials.result import Measure, TrialResult
from v6t.trials.trial import Mode, Trial

PROC_STAT = Path("/proc/stat")
# Index of the steal time among the fields that add up to all CPU time (proc_stat(5)).
STEAL_FIELD, CPU_TIME_FIELDS = 7, 8
STEAL_TIME_KEY = "stolen"  # in the tester's figures: a share of the time of all CPUs
# Smallest steal times of the median and of the worst trial that cause a warning.
MEDIAN_STEAL_LIMIT, MAX_STEAL_LIMIT = 0.01, 0.05


class TrialExecutor:
    """Measures the trials of a run, or returns their results from the journal."""

    def __init__(self, plan: RunPlan, directory: RunDir, files: RunFiles, events: Listener) -> None:
        self.plan, self.directory, self.journal = plan, directory, files.journal
        self.events = events
        self.counts = DeviceCountRecorder(files.results.get(COUNTERS_KEY, ()))
        self.setup = setup = plan.setup
        self.remaining = RemainingTimeEstimator(plan.stages)
        # of the tester, by frame sizes and mode [fps per direction]
        self.capacities: dict[str, dict[Mode, float]] = {}
        self.measured_count = 0  # trials that were not in the journal
        self.finding: dict[str, Any] = {}  # the wrong frame that ended the run; empty if none did
        # first trial of the self-test, preflight or phase 1 whose failure ended the run; may be empty
        self.failed_check = self._first_key = ""
        self._before: TrialResult | None = None
        self.figures: list[Mapping[str, Any]] = []  # the tester's own, of each trial

        self.bench = Bench(setup, record_dir=directory.path, checks_capabilities=True)
        self._loopback_bench = self.bench
        if not setup.driver.is_cable:
            self._loopback_bench = Bench(setup, loopback=True, checks_capabilities=True)
        self.measure_device = self._decorate(self.bench)
        self.measure_loopback = self._decorate(self._loopback_bench)  # without a device

    def _decorate(self, bench: Bench) -> Measure:
        watches = self.setup.settings.procedure.watch_device
        decorators: Sequence[Callable[[Measure], Measure]] = (
            partial(with_steal_time, in_lab=self.setup.tester.in_lab),
            partial(with_device_load, get_session=lambda: bench.session if watches else None),
            partial(self._with_trial_start, bench=bench),
            self.journal.with_replay,
            partial(self._with_evaluation, bench=bench),
        )
        measure: Measure = bench.measure
        for decorate in decorators:
            measure = decorate(measure)
        return measure

    def load(self, sizes: Sizes, change: TrafficChange | None = None) -> Streams:
        """Load and return the streams of a frame size, or a variant of its traffic."""
        streams = self.plan.stream_sets[sizes.label]
        if change is not None:
            streams = compile_streams(self.setup, sizes, change)
        self.bench.load(streams)
        self._loopback_bench.load(streams)
        return streams

    def begin_stage(self, stage: Stage) -> None:
        """Begin a stage of the run; if it has a planned time, this replaces the plan's."""
        self.remaining.begin(stage)
        self._before = None
        self._first_key = ""

    def mark_failed_check(self) -> None:
        """Mark the trials of the current stage: a resumed run measures them again."""
        self.failed_check = self._first_key

    def raise_mismatch(self, failure: TranslationCheckFailure) -> None:
        """Record a wrong frame and raise the error that ends the run.

        Raises:
            TranslationError: the device translates wrongly.
            TesterError: the tester cannot check frames.
        """
        error = make_mismatch_error(failure)
        if not failure.tester:
            frames = failure.frames or {}
            self.finding = {"direction": failure.direction, "why": failure.why, **frames}
        raise error

    def list_warnings(self) -> list[str]:
        """List the warnings about the run as a whole."""
        trials, modifier = self.journal.list_trials(), self.setup.modifier
        measured = [t.result for t in trials if t.request["benchmark"] != PREFLIGHT]
        actions = [result.modifier for result in measured if result.modifier]
        summary = modifier.summarize_actions(actions) if modifier else ""
        steal_times = [share for t in trials if (share := find_steal_time(t.result)) is not None]
        return [
            *list_result_warnings(self.setup, self.figures),
            *([summary] if summary else ()),
            *list_steal_time_warnings(steal_times),
        ]

    def close(self) -> None:
        try:
            self.bench.close()
        finally:
            self._loopback_bench.close()

    def _with_trial_start(self, measure: Measure, bench: Bench) -> Measure:
        """Wrap ``measure`` to announce each trial and to read the device's counters before it."""

        def announce_and_measure(trial: Trial) -> TrialResult:
            self.measured_count += 1
            self.events.on_trial_start(self.remaining.start_trial(trial, self._before))
            reads_device = self.setup.settings.procedure.read_device and bench is self.bench
            if reads_device and trial.benchmark != PREFLIGHT:
                bench.prepare()
                self.counts.begin(bench.session)
            self._before = measure(trial)
            return self._before

        return announce_and_measure

    def _with_evaluation(self, measure: Measure, bench: Bench) -> Measure:
        """Wrap ``measure`` to end the run at a wrong frame and to collect data for warnings."""

        def measure_and_evaluate(trial: Trial) -> TrialResult:
            self._first_key = self._first_key or trial.key
            result = measure(trial)
            self.figures.append(result.tester)
            # A simulated tester that is opened later continues after this trial.
            times = {**result.tester.get("phase 1", {}), **result.tester}
            bench.virtual_time_s = max(bench.virtual_time_s, float(times.get("virtual_time_s", 0)))
            failure = find_mismatch(result)
            if failure is not None and trial.benchmark != PREFLIGHT:
                self.raise_mismatch(failure)
            return result

        return measure_and_evaluate


def with_steal_time(measure: Measure, *, in_lab: bool = True) -> Measure:
    """Wrap ``measure`` to add the CPU steal time of this machine to the tester's figures."""

    def measure_with_steal_time(trial: Trial) -> TrialResult:
        before = _read_cpu_ticks()
        result = measure(trial)
        spent = [now - then for then, now in zip(before, _read_cpu_ticks(), strict=False)]
        if len(spent) < CPU_TIME_FIELDS or sum(spent) <= 0:
            return result
        share = round(spent[STEAL_FIELD] / sum(spent), 4)
        return replace(result, tester={**result.tester, STEAL_TIME_KEY: share})

    return measure_with_steal_time if in_lab else measure


def find_steal_time(result: TrialResult) -> float | None:
    """Return the steal time of a trial as a share from 0 to 1; None if it is unknown."""
    share = result.tester.get(STEAL_TIME_KEY)
    return float(share) if isinstance(share, (int, float)) else None


def list_steal_time_warnings(shares: Sequence[float]) -> list[str]:
    """Return a warning if the median or the worst steal time is high, else an empty list."""
    if not shares or (median(shares) < MEDIAN_STEAL_LIMIT and max(shares) < MAX_STEAL_LIMIT):
        return []
    share = (
        f"{median(shares):.0%} of the CPU time in the median trial, {max(shares):.0%} in the worst"
    )
    return [f"the hypervisor withheld {share}: rates are lower, and delays include the pauses"]


def _read_cpu_ticks() -> Sequence[int]:
    """Return the times of all CPUs since this machine started, by kind of use, in ticks."""
    try:
        first = PROC_STAT.read_text(encoding="ascii").partition("\n")[0]
    except OSError:
        return ()
    return [int(ticks) for ticks in first.split()[1 : CPU_TIME_FIELDS + 1]]


class MeasuredPoint:
    """Runner of a measurement point in a run (:class:`v6t.benchmarks.point.PointRunner`)."""

    is_planning: ClassVar[bool] = False

    def __init__(self, executor: TrialExecutor, sizes: Sizes, test: SelfTest) -> None:
        self.executor = executor
        self.sizes = sizes
        label = f"{sizes.label} octets"
        self.test = replace(test, on_message=lambda text: self.on_message(f"{label}, {text}"))

    @cached_property
    def capacity(self) -> tuple[TesterCapacity, str]:
        """Capacity of the tester without a device, and its source.

        Raises:
            TesterError: no rate passes.
        """
        executor, spec = self.executor, self.test.spec
        connects = self.test.opens_connections
        stage = executor.remaining.stage
        rates = executor.capacities.setdefault(spec.variant + self.sizes.label, {})
        mode = CONNECTIONS if connects else spec.mode
        executor.begin_stage(Stage(SELFTEST, self.sizes.label, mode))
        if executor.setup.tester.can_loop_back:
            self.test.on_message(f"{spec.mode}: self-test of the tester")
        min_fps = 0.0 if connects else find_plausible_rate(spec.mode, rates)
        capacity, source = self.test.find_capacity(executor.directory, min_fps)
        if not connects:
            rates[spec.mode] = capacity.rate_fps
        if source != THIS_RUN_SOURCE:
            self.test.on_message(f"{spec.mode}: the tester's own capacity: {source}")
        if not capacity.rate_fps:
            executor.mark_failed_check()
            fault = capacity.faults[0] if capacity.faults else "no rate passed"
            problem = f"the tester loses frames even without a device: {fault}"
            hint = "close other programs on this machine; `v6t selftest` repeats this check"
            raise TesterError(problem, hint, code="tester-fault")
        if stage is not None:
            executor.begin_stage(stage)
        return capacity, source

    @property
    def results(self) -> Mapping[str, TrialResult]:
        return self.executor.journal.entries

    @cached_property
    def loopback(self) -> Measure | None:
        if not self.executor.setup.can_measure_tester:
            return None
        if self.test.opens_connections:
            return with_loopback_setup(self.executor.measure_loopback, self.executor.setup)
        return self.test.measure

    def on_progress(self, progress: Progress) -> None:
        self.executor.remaining.record_progress(progress)
        if progress.verdict is None:
            self.executor.events.on_step_start(progress)
        else:
            self.executor.events.on_step_end(progress)

    def on_message(self, text: str) -> None:
        self.executor.events.on_message(text)

    def describe(self) -> dict[str, Any]:
        """Return the measurement conditions common to all results of this point."""
        setup, (capacity, source), machine = self.executor.setup, self.capacity, describe_machine()
        run = setup.settings
        return {
            "preset": run.preset,
            "demonstration": bool(find_short_trials(setup)),
            "caveats": list(list_result_warnings(setup, self.executor.figures)),
            "plugin": run.plugin,
            "params": setup.technology.params.model_dump(mode="json"),
            "tester": run.tester.kind,
            "device": run.dut.driver,
            "line_rate_bps": run.line_rate_bps,
            "seed": run.seed,
            "selftest_margin": run.procedure.selftest_margin,
            "selftest_trials": list(capacity.keys),
            "ceiling": source,
            **({"modifier": run.modifier} if run.modifier else {}),
            "machine": {name: machine[name] for name in ("processor", "cores", "kernel")},
        }

    def vary(self, name: str, change: TrafficChange) -> Point:
        streams = self.executor.load(self.sizes, change)
        return make_point(self.executor, self.sizes, self.test.spec.mode, streams, variant=name)

    def count_repetitions(self, repetitions: int) -> int:
        return repetitions


def make_point(
    executor: TrialExecutor,
    sizes: Sizes,
    mode: Mode,
    streams: Streams,
    *,
    opens_connections: bool = False,
    variant: str = "",
) -> Point:
    """Return a point of the run; ``opens_connections`` is true if its benchmarks do."""
    setup, measure = executor.setup, executor.measure_loopback
    spec = make_capacity_spec(setup.settings, sizes, mode, opens_connections=opens_connections)
    measure = with_phase_one(measure) if opens_connections else with_loopback_setup(measure, setup)
    spec, keys = replace(spec, variant=variant), executor.journal.entries.keys()
    test = SelfTest(setup, spec, streams, measure, opens_connections, recorded_keys=keys)
    return _make_point(executor, sizes, test)


def make_tcp_point(executor: TrialExecutor, streams: Streams) -> Point:
    """Return the point for TCP connections, which use the four-tuples of the streams."""
    sizes, spec = tester_capacity.make_tcp_capacity_spec(executor.setup)
    measure = make_tcp_measure(executor.setup, executor.measure_loopback)
    test = SelfTest(executor.setup, spec, streams, measure, True)
    return _make_point(executor, sizes, test)


def remeasure_tester(point: Point, number: int) -> Point | None:
    """Repeat the self-test of a point; return a new point if the capacity is higher, else None.

    Trials of the new point get other keys; ``number`` counts repetitions from 1.
    """
    runner = point.runner
    if not isinstance(runner, MeasuredPoint):
        return None
    executor, sizes, spec = runner.executor, runner.sizes, runner.test.spec
    executor.begin_stage(Stage(SELFTEST, sizes.label, spec.mode))
    capacity = runner.test.repeat(runner.capacity[0], number)
    if capacity is None:
        return None
    executor.capacities.setdefault(spec.variant + sizes.label, {})[spec.mode] = capacity.rate_fps
    better = MeasuredPoint(executor, sizes, runner.test)
    better.capacity = capacity, THIS_RUN_SOURCE
    conditions = {**point.trial_conditions, "variant": f"{spec.variant}again{number}-"}
    return replace(point, runner=better, trial_conditions=conditions)


def _make_point(executor: TrialExecutor, sizes: Sizes, test: SelfTest) -> Point:
    runner, spec = MeasuredPoint(executor, sizes, test), test.spec
    measure, find = executor.measure_device, executor.journal.entries.__getitem__
    return Point(executor.setup, sizes, spec.mode, spec.media_fps, runner, measure, find)
