"""Reset (RFC 8219 section 7.7, RFC 6201)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from v6t.procedures.trial_runner import PointSpec, RepeatedResult, TrialRunner, Watch, repeat
from v6t.trials.result import Measure
from v6t.trials.trial import RESET_HOOKS, DeviceEvent, list_directions

BENCHMARK = "reset"


@dataclass(frozen=True)
class ResetSpec(PointSpec):
    """Specification of resets at a point."""

    benchmark = BENCHMARK
    hook: str  # one of :data:`RESET_HOOKS`
    rate_fps: float  # offered per direction, at most the throughput
    duration_s: float  # length of the stream [s]; must hold the reset
    at_s: float  # time of the reset in the stream [s]
    repetitions: int

    def __post_init__(self) -> None:
        """Check the hook, and that the reset lies within the stream."""
        if self.hook not in RESET_HOOKS:
            raise ValueError(f"unknown reset '{self.hook}', not one of " + ", ".join(RESET_HOOKS))
        if not 0 < self.at_s < self.duration_s:
            problem = f"a reset at {self.at_s:g} s is not within a stream of {self.duration_s:g} s"
            raise ValueError(problem)

    @property
    def key_prefix(self) -> str:
        """Common start of the keys of all trials, with the hook."""
        return f"{self.conditions.make_key_prefix(BENCHMARK)}/{self.hook}"


@dataclass(frozen=True)
class Outage:
    """Outage of one direction during a reset."""

    by_loss_s: float  # lost frames over the offered rate [s]; infinite: until the end
    by_silence_s: float | None  # longest time without a frame [s]; None: unknown


ResetResult = RepeatedResult[ResetSpec, Mapping[str, Outage]]


def measure_reset(spec: ResetSpec, measure: Measure, watch: Watch | None = None) -> ResetResult:
    """Measure the outages of each reset; ``measure`` runs the hook while the tester sends.

    A repetition is empty if every attempt was invalid.
    """
    trial = spec.conditions.make_trial(
        BENCHMARK, spec.rate_fps, spec.duration_s, device_event=DeviceEvent(spec.hook, spec.at_s)
    )

    def reset_device(trials: TrialRunner) -> Mapping[str, Outage]:
        """Reset the device once and compute the outages by both methods."""
        outcome = trials.run(trial)
        outages = {}
        for direction in list_directions(spec.conditions.mode) if outcome.verdict.valid else ():
            counted = outcome.result.directions[direction]
            lost = counted.count_frames("required") - counted.count_frames("received")
            last_s = counted.last_lost_s
            recovered = last_s is None or last_s < spec.duration_s - 1.5 / spec.rate_fps
            by_loss_s = lost / spec.rate_fps if recovered else math.inf
            outages[direction] = Outage(by_loss_s, counted.longest_gap_s)
        return outages

    return repeat(spec, spec.repetitions, measure, watch, reset_device)
