"""Soak test: loss during hours at one rate below the throughput."""

from dataclasses import dataclass, replace

from v6t.procedures.trial_runner import PointSpec, RepeatedResult, TrialRunner, Watch, repeat
from v6t.trials.result import Measure, TrafficInterval
from v6t.trials.trial import list_directions

BENCHMARK = "soak"


@dataclass(frozen=True)
class SoakSpec(PointSpec):
    """Specification of a soak test at a point."""

    rate_fps: float  # offered per direction
    rate_source: str  # origin of the rate
    stretches: int  # number of successive trials
    stretch_s: float  # length of each trial [s]

    benchmark = BENCHMARK


@dataclass(frozen=True)
class Stretch:
    """One trial of a soak test."""

    number: int  # from 1
    key: str  # key of the trial
    started: str  # UTC time
    intervals: dict[str, tuple[TrafficInterval, ...]]  # by direction; empty if invalid


SoakResult = RepeatedResult[SoakSpec, Stretch]


def measure_soak(spec: SoakSpec, measure: Measure, watch: Watch | None = None) -> SoakResult:
    """Send one stretch after the other."""
    rested = replace(spec, conditions=replace(spec.conditions, invalid_retries=0))
    at = rested.conditions

    def send_stretch(trials: TrialRunner) -> Stretch:
        """Send one stretch; only the first has a pause before it."""
        pause_s = at.pause_s if trials.number == 1 else 0.0
        trial = at.make_trial(BENCHMARK, spec.rate_fps, spec.stretch_s, pause_s=pause_s)
        outcome = trials.run(trial)
        begins_s = (trials.number - 1) * spec.stretch_s
        intervals = {}
        for direction in list_directions(at.mode) if outcome.verdict.valid else ():
            counted = outcome.result.directions[direction]
            intervals[direction] = tuple(counted.split_into_intervals(begins_s, spec.stretch_s))
        return Stretch(trials.number, outcome.trial.key, outcome.result.started, intervals)

    return replace(repeat(rested, spec.stretches, measure, watch, send_stretch), spec=spec)
