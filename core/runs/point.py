"""One frame size and mode of a run in progress: what its benchmarks need there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

from v6t.base.errors import TesterError
from v6t.base.ethernet import max_frame_rate_fps
from v6t.benchmarks.point import Point, TrafficChange
from v6t.benchmarks.tcp import find_syn_limit, make_tcp_measure
from v6t.core.config.settings import is_demonstration
from v6t.core.config.warnings import list_result_warnings
from v6t.core.runs.manifest import describe_machine
from v6t.core.runs.plan import CONNECTIONS, SELFTEST, Stage, Streams
from v6t.core.runs.preflight import measure_phase_one, with_loopback_setup
from v6t.core.runs.tester_capacity import (
    THIS_RUN,
    find_capacity,
    make_capacity_spec,
    make_opening_spec,
    make_phase_one_spec,
    remeasure_capacity,
)
from v6t.core.runs.trials import Trials
from v6t.procedures.tester_rate import CapacitySpec, TesterCapacity, find_plausible_rate
from v6t.procedures.trial_runner import Progress
from v6t.profiles.mixes import Sizes
from v6t.trials.result import Measure, TrialResult
from v6t.trials.trial import Mode


class MeasuredPoint:
    """Measured point of a run (:class:`v6t.benchmarks.point.PointRunner`)."""

    planned: ClassVar[bool] = False

    def __init__(
        self,
        trials: Trials,
        sizes: Sizes,
        streams: Streams,
        spec: CapacitySpec,
        capacity_measure: Measure | None = None,
    ) -> None:
        """Prepare a point; nothing is measured yet."""
        self._trials = trials
        self._bound = trials.bound
        self._sizes = sizes
        self._streams = streams
        self._spec = spec
        self._capacity_measure = capacity_measure

    @cached_property
    def capacity(self) -> tuple[TesterCapacity, str]:
        """Capacity of the tester itself and its source.

        Raises:
            TesterError: no rate passes.
        """
        trials, spec, octets = self._trials, self._spec, self._sizes.label
        connections = self._capacity_measure is not None
        what = f"{octets} octets, {spec.mode}"
        stage = trials.remaining.stage
        rates = trials.capacities.setdefault(spec.variant + octets, {})
        trials.begin(Stage(SELFTEST, octets, CONNECTIONS if connections else spec.mode))
        if self._bound.tester.can_loop_back:
            self.say(f"{what}: how much the tester itself can do")
        capacity, source = find_capacity(
            self._bound,
            self._streams,
            spec,
            self._capacity_measure or self._loopback,
            trials.directory,
            min_fps=0.0 if connections else find_plausible_rate(spec.mode, rates),
            say=self._say_with_size,
            of_phase_one=connections,
        )
        if not connections:
            rates[spec.mode] = capacity.rate_fps
        if source != THIS_RUN:
            self.say(f"{what}: the tester's own capacity: {source}")
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

    def remeasure(self, point: Point, number: int) -> Point | None:
        """Repeat the self-test; return the new point, or None if the capacity is not higher.

        Args:
            point: whose trials get other keys then.
            number: of the repetition, from 1.
        """
        octets, spec = self._sizes.label, self._spec
        self._trials.begin(Stage(SELFTEST, octets, spec.mode))
        capacity = remeasure_capacity(
            self._bound, self._streams, spec, self._loopback, self.capacity[0], number,
            self._say_with_size,
        )  # fmt: skip
        if capacity is None:
            return None
        self._trials.capacities.setdefault(spec.variant + octets, {})[spec.mode] = capacity.rate_fps
        better = MeasuredPoint(self._trials, self._sizes, self._streams, spec)
        better.capacity = capacity, THIS_RUN
        trial_conditions = {**point.trial_conditions, "variant": f"{spec.variant}again{number}-"}
        return replace(point, runner=better, trial_conditions=trial_conditions)

    @property
    def results(self) -> Mapping[str, TrialResult]:
        """Results of all trials of the run, by their keys."""
        return self._trials.journal.entries

    @property
    def loopback(self) -> Measure | None:
        """Function that measures the tester without a device, or None if its ports cannot be joined."""
        return self._loopback if self._bound.measures_tester else None

    @cached_property
    def _loopback(self) -> Measure:
        return with_loopback_setup(self._bound, self._trials.loopback)

    def watch(self, progress: Progress) -> None:
        """Pass the progress of a step on to the listeners."""
        self._trials.remaining.record_progress(progress)
        if progress.verdict is None:
            self._trials.events.on_step_start(progress)
        else:
            self._trials.events.on_step_end(progress)

    def say(self, text: str) -> None:
        """Pass a message on to the listeners."""
        self._trials.events.on_message(text)

    def _say_with_size(self, text: str) -> None:
        self.say(f"{self._sizes.label} octets, {text}")

    def describe(self) -> dict[str, Any]:
        """Return the measurement conditions common to all results of this point."""
        run, (capacity, source) = self._bound.settings, self.capacity
        return {
            "preset": run.preset,
            "demonstration": is_demonstration(run),
            "caveats": list_result_warnings(self._bound),
            "plugin": run.plugin,
            "params": self._bound.technology.params.model_dump(mode="json"),
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
        streams = self._trials.load(self._sizes, change)
        return make_point(self._trials, self._sizes, self._spec.mode, streams, variant=name)

    def repeat(self, repetitions: int) -> int:
        """Return the number of repetitions to measure, which is all of them."""
        return repetitions


def make_point(
    trials: Trials,
    sizes: Sizes,
    mode: Mode,
    streams: Streams,
    *,
    of_phase_one: bool = False,
    variant: str = "",
) -> Point:
    """Return the point at which benchmarks are measured."""
    run = trials.bound.settings
    media = max_frame_rate_fps(run.line_rate_bps, sizes.longest)
    spec = replace(make_capacity_spec(run, sizes, mode, media), variant=variant)
    measure = None
    if of_phase_one:
        spec, measure = make_phase_one_spec(run, spec), measure_phase_one(trials.loopback)
    return _make_point(
        trials, sizes, media, MeasuredPoint(trials, sizes, streams, spec, measure), mode
    )


def make_tcp_point(trials: Trials, sizes: Sizes, streams: Streams) -> Point:
    """Return the point for TCP connections, which use the four-tuples of the streams."""
    syn_sizes, media = find_syn_limit(trials.bound)
    spec = make_opening_spec(trials.bound.settings, syn_sizes, media)
    measure = make_tcp_measure(trials.bound, trials.loopback)
    return _make_point(
        trials, syn_sizes, media, MeasuredPoint(trials, syn_sizes, streams, spec, measure)
    )


def _make_point(
    trials: Trials, sizes: Sizes, media_fps: float, runner: MeasuredPoint, mode: Mode = "forward"
) -> Point:
    find = trials.journal.entries.__getitem__
    return Point(trials.bound, sizes, mode, media_fps, runner, trials.device, find)
