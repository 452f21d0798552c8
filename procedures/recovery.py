"""System recovery (RFC 8219 section 7.6, RFC 2544 section 26.5)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from v6t.procedures.trial_runner import PointSpec, RepeatedResult, TrialRunner, Watch, repeat
from v6t.trials.result import Measure, TrialResult
from v6t.trials.trial import Segment, list_directions

BENCHMARK = "system-recovery"
OVERLOAD_FACTOR = 1.1
RECOVERY_FACTOR = 0.5


@dataclass(frozen=True)
class RecoverySpec(PointSpec):
    """Specification of an overload at a point.

    Attributes:
        throughput_fps: measured throughput per direction.
        limit_fps: what medium and tester carry at most.
        overload_s: length of the overload [s], at least 60 in the RFC.
        afterwards_s: how long the lower rate is watched [s].
    """

    benchmark = BENCHMARK
    throughput_fps: float
    limit_fps: float
    overload_s: float
    afterwards_s: float
    repetitions: int

    @property
    def overload_fps(self) -> float:
        """Rate of the overload: 110 % of the throughput, at most the limit."""
        return min(OVERLOAD_FACTOR * self.throughput_fps, self.limit_fps)

    @property
    def afterwards_fps(self) -> float:
        """Rate after the overload: half of it."""
        return RECOVERY_FACTOR * self.overload_fps

    @property
    def limited(self) -> bool:
        """Whether 110 % exceed the limit."""
        return OVERLOAD_FACTOR * self.throughput_fps > self.limit_fps

    @property
    def resolution_s(self) -> float:
        """Time between two frames of the lower rate [s]."""
        return 1 / self.afterwards_fps


@dataclass(frozen=True)
class RecoveryRepetition:
    """Recovery times of one trial by direction; empty if every attempt was invalid.

    Attributes:
        recovery_s: infinite if frames were lost to the end.
        overloaded: something was lost before the change of rate: without that there was nothing to
            recover from.
    """

    recovery_s: Mapping[str, float]
    overloaded: Mapping[str, bool]


RecoveryResult = RepeatedResult[RecoverySpec, RecoveryRepetition]


def measure_recovery(
    spec: RecoverySpec, measure: Measure, watch: Watch | None = None
) -> RecoveryResult:
    """Repeat the overload and measure the recovery times."""
    afterwards = Segment(spec.afterwards_fps, spec.afterwards_s)
    trial = spec.conditions.make_trial(
        BENCHMARK, spec.overload_fps, spec.overload_s, second_segment=afterwards
    )

    def recover(trials: TrialRunner) -> RecoveryRepetition:
        outcome = trials.run(trial, bracket=(spec.afterwards_fps, spec.overload_fps))
        ways = list_directions(spec.conditions.mode) if outcome.verdict.valid else ()
        return RecoveryRepetition(
            {direction: _find_recovery_time(spec, outcome.result, direction) for direction in ways},
            {direction: _has_overload_loss(spec, outcome.result, direction) for direction in ways},
        )

    return repeat(spec, spec.repetitions, measure, watch, recover)


def _find_recovery_time(spec: RecoverySpec, result: TrialResult, direction: str) -> float:
    last = result.directions[direction].last_lost_s
    if last is None:
        return 0.0
    end = spec.overload_s + spec.afterwards_s
    if last >= end - 1.5 * spec.resolution_s:
        return math.inf
    return max(0.0, last - spec.overload_s)


def _has_overload_loss(spec: RecoverySpec, result: TrialResult, direction: str) -> bool:
    first = result.directions[direction].first_lost_s
    return first is not None and first < spec.overload_s
