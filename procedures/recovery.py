"""System recovery (RFC 8219 section 7.6, RFC 2544 section 26.5)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from v6t.procedures.trial_runner import PointSpec, RepeatedResult, TrialRunner, Watch, repeat
from v6t.trials.result import Measure
from v6t.trials.trial import Segment, list_directions

BENCHMARK = "system-recovery"
OVERLOAD_FACTOR = 1.1  # rate of the overload over the throughput
RECOVERY_FACTOR = 0.5  # rate after the overload over the rate of the overload


@dataclass(frozen=True)
class RecoverySpec(PointSpec):
    """Specification of an overload at a point."""

    benchmark = BENCHMARK
    throughput_fps: float  # measured at this point, per direction
    limit_fps: float  # highest rate that medium and tester carry
    overload_s: float  # length of the overload [s]; at least 60 in the RFC
    afterwards_s: float  # length of the period at the lower rate [s]
    repetitions: int

    @property
    def overload_fps(self) -> float:
        """Rate of the overload: 110 % of the throughput, at most the limit."""
        return min(OVERLOAD_FACTOR * self.throughput_fps, self.limit_fps)

    @property
    def afterwards_fps(self) -> float:
        """Rate after the overload: half of the overload's rate."""
        return RECOVERY_FACTOR * self.overload_fps

    @property
    def is_limited(self) -> bool:
        """Whether the limit is below 110 % of the throughput."""
        return OVERLOAD_FACTOR * self.throughput_fps > self.limit_fps

    @property
    def resolution_s(self) -> float:
        """Time between two frames at the lower rate [s]."""
        return 1 / self.afterwards_fps


@dataclass(frozen=True)
class RecoveryRepetition:
    """Recovery times of one trial by direction; empty if every attempt was invalid."""

    recovery_s: Mapping[str, float]  # infinite if frames were lost to the end
    overloaded: Mapping[str, bool]  # whether frames were lost before the change of rate


RecoveryResult = RepeatedResult[RecoverySpec, RecoveryRepetition]


def measure_recovery(
    spec: RecoverySpec, measure: Measure, watch: Watch | None = None
) -> RecoveryResult:
    """Repeat the overload and measure the recovery times."""
    afterwards = Segment(spec.afterwards_fps, spec.afterwards_s)
    trial = spec.conditions.make_trial(
        BENCHMARK, spec.overload_fps, spec.overload_s, second_segment=afterwards
    )

    def run_overload(trials: TrialRunner) -> RecoveryRepetition:
        """Overload the device once and find the recovery times."""
        outcome = trials.run(trial, bracket=(spec.afterwards_fps, spec.overload_fps))
        recovery_s, overloaded = dict[str, float](), dict[str, bool]()
        for direction in list_directions(spec.conditions.mode) if outcome.verdict.valid else ():
            counted = outcome.result.directions[direction]
            first_s, last_s = counted.first_lost_s, counted.last_lost_s
            recovery_s[direction] = _find_recovery_time(spec, last_s)
            overloaded[direction] = first_s is not None and first_s < spec.overload_s
        return RecoveryRepetition(recovery_s, overloaded)

    return repeat(spec, spec.repetitions, measure, watch, run_overload)


def _find_recovery_time(spec: RecoverySpec, last_lost_s: float | None) -> float:
    """Return the time from the end of the overload to the last lost frame [s]."""
    if last_lost_s is None:
        return 0.0
    end_s = spec.overload_s + spec.afterwards_s
    if last_lost_s >= end_s - 1.5 * spec.resolution_s:
        return math.inf
    return max(0.0, last_lost_s - spec.overload_s)
