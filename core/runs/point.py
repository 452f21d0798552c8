"""One frame size and mode of a run in progress: what its benchmarks need there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar

from v6t.base.errors import TesterError
from v6t.base.ethernet import max_frame_rate_fps
from v6t.benchmarks.point import Point, TrafficChange
from v6t.benchmarks.tcp import find_syn_limit, make_tcp_measure
from v6t.core.config.settings import is_demonstration
from v6t.core.config.warnings import list_result_warnings
from v6t.core.runs.manifest import describe_machine
from v6t.core.runs.plan import CONNECTIONS, SELFTEST, Stage
from v6t.core.runs.preflight import with_loopback_setup, with_phase_one
from v6t.core.runs.tester_capacity import (
    MIN_OPENING_TRIAL_S,
    THIS_RUN_SOURCE,
    SelfTest,
    Streams,
    make_capacity_spec,
)
from v6t.core.runs.trials import Trials
from v6t.procedures.tester_rate import TesterCapacity, find_plausible_rate
from v6t.procedures.trial_runner import Progress
from v6t.profiles.mixes import Sizes
from v6t.trials.result import Measure, TrialResult
from v6t.trials.trial import Mode


class MeasuredPoint:
    """Runner of a measurement point in a run (:class:`v6t.benchmarks.point.PointRunner`)."""

    is_planning: ClassVar[bool] = False

    def __init__(self, trials: Trials, sizes: Sizes, test: SelfTest) -> None:
        """Prepare a point; nothing is measured yet."""
        self.trials = trials
        self.sizes = sizes
        self.test = replace(test, say=lambda text: self.say(f"{sizes.label} octets, {text}"))

    @cached_property
    def capacity(self) -> tuple[TesterCapacity, str]:
        """Capacity of the tester without a device, and its source.

        Raises:
            TesterError: no rate passes.
        """
        trials, spec = self.trials, self.test.spec
        connects = self.test.opens_connections
        stage = trials.remaining.stage
        rates = trials.capacities.setdefault(spec.variant + self.sizes.label, {})
        trials.begin(Stage(SELFTEST, self.sizes.label, CONNECTIONS if connects else spec.mode))
        if self.trials.bound.tester.can_loop_back:
            self.test.say(f"{spec.mode}: self-test of the tester")
        min_fps = 0.0 if connects else find_plausible_rate(spec.mode, rates)
        capacity, source = self.test.find_capacity(trials.directory, min_fps)
        if not connects:
            rates[spec.mode] = capacity.rate_fps
        if source != THIS_RUN_SOURCE:
            self.test.say(f"{spec.mode}: the tester's own capacity: {source}")
        if not capacity.rate_fps:
            raise TesterError(
                "the tester loses frames even without a device: "
                + (capacity.faults[0] if capacity.faults else "no rate passed"),
                "close other programs on this machine; `v6t selftest` repeats this check",
                code="tester-fault",
            )
        if stage is not None:
            trials.begin(stage)
        return capacity, source

    @property
    def results(self) -> Mapping[str, TrialResult]:
        """Results of all trials of the run by trial key."""
        return self.trials.journal.entries

    @cached_property
    def loopback(self) -> Measure | None:
        """Function that measures the tester without a device; None if this is not possible."""
        if not self.trials.bound.can_measure_tester:
            return None
        if self.test.opens_connections:
            return with_loopback_setup(self.trials.bound, self.trials.loopback)
        return self.test.measure

    def on_progress(self, progress: Progress) -> None:
        """Pass the progress of a step to the listeners."""
        self.trials.remaining.record_progress(progress)
        if progress.verdict is None:
            self.trials.events.on_step_start(progress)
        else:
            self.trials.events.on_step_end(progress)

    def say(self, text: str) -> None:
        """Pass a message to the listeners."""
        self.trials.events.on_message(text)

    def describe(self) -> dict[str, Any]:
        """Return the measurement conditions common to all results of this point."""
        run, (capacity, source) = self.trials.bound.settings, self.capacity
        return {
            "preset": run.preset,
            "demonstration": is_demonstration(run),
            "caveats": list(list_result_warnings(self.trials.bound, self.trials.figures)),
            "plugin": run.plugin,
            "params": self.trials.bound.technology.params.model_dump(mode="json"),
            "tester": run.tester.kind,
            "device": run.dut.driver,
            "line_rate_bps": run.line_rate_bps,
            "seed": run.seed,
            "selftest_margin": run.procedure.selftest_margin,
            "selftest_trials": list(capacity.keys),
            "ceiling": source,
            **({"modifier": run.modifier} if run.modifier else {}),
            "machine": {k: describe_machine()[k] for k in ("processor", "cores", "kernel")},
        }

    def vary(self, name: str, change: TrafficChange) -> Point:
        """Load a traffic variant and return its point, whose trial keys begin with ``name``."""
        streams = self.trials.load(self.sizes, change)
        return make_point(self.trials, self.sizes, self.test.spec.mode, streams, variant=name)

    def count_repetitions(self, repetitions: int) -> int:
        """Return ``repetitions``, because a run measures all of them."""
        return repetitions


def make_point(
    trials: Trials,
    sizes: Sizes,
    mode: Mode,
    streams: Streams,
    *,
    opens_connections: bool = False,
    variant: str = "",
) -> Point:
    """Return a point of the run; ``opens_connections`` if its benchmarks open connections."""
    bound = trials.bound
    media = max_frame_rate_fps(bound.settings.line_rate_bps, sizes.longest)
    spec = make_capacity_spec(
        bound.settings, sizes, mode, media, opens_connections=opens_connections
    )
    measure = (with_phase_one if opens_connections else partial(with_loopback_setup, bound))(
        trials.loopback
    )
    test = SelfTest(bound, replace(spec, variant=variant), streams, measure, opens_connections)
    return _make_point(trials, sizes, media, test)


def make_tcp_point(trials: Trials, streams: Streams) -> Point:
    """Return the point for TCP connections, which use the four-tuples of the streams."""
    sizes, media = find_syn_limit(trials.bound)
    spec = make_capacity_spec(
        trials.bound.settings, sizes, "forward", media,
        opens_connections=True, min_duration_s=MIN_OPENING_TRIAL_S,
    )  # fmt: skip
    measure = make_tcp_measure(trials.bound, trials.loopback)
    return _make_point(trials, sizes, media, SelfTest(trials.bound, spec, streams, measure, True))


def remeasure_tester(point: Point, number: int) -> Point | None:
    """Repeat the self-test of a point; return a new point if the capacity is higher, else None.

    Args:
        point: the point; trials of the new point get other keys.
        number: number of the repetition, counted from 1.
    """
    runner = point.runner
    if not isinstance(runner, MeasuredPoint):
        return None
    trials, sizes, spec = runner.trials, runner.sizes, runner.test.spec
    trials.begin(Stage(SELFTEST, sizes.label, spec.mode))
    capacity = runner.test.repeat(runner.capacity[0], number)
    if capacity is None:
        return None
    trials.capacities.setdefault(spec.variant + sizes.label, {})[spec.mode] = capacity.rate_fps
    better = MeasuredPoint(trials, sizes, runner.test)
    better.capacity = capacity, THIS_RUN_SOURCE
    conditions = {**point.trial_conditions, "variant": f"{spec.variant}again{number}-"}
    return replace(point, runner=better, trial_conditions=conditions)


def _make_point(trials: Trials, sizes: Sizes, media_fps: float, test: SelfTest) -> Point:
    """Return a point of the run whose tester capacity is measured by ``test``."""
    find = trials.journal.entries.__getitem__
    runner = MeasuredPoint(trials, sizes, test)
    return Point(trials.bound, sizes, test.spec.mode, media_fps, runner, trials.device, find)
