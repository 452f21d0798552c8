"""Soak: hours of one rate below the throughput, and when in them frames were lost.

No RFC defines it. The hours are stretches that follow each other, a trial each: what was measured
stays in the journal when a run is interrupted, and a resumed run goes on with the next stretch.
Between two stretches lies only the wait for late frames. A stretch in which the tester faltered is
not repeated: it is a gap, and no loss of the device.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from v6t.procedures.trial_runner import PointSpec, TrialRunner, Watch
from v6t.trials.result import Measure, TrafficInterval
from v6t.trials.trial import list_directions
from v6t.trials.verdict import Attempt

BENCHMARK = "soak"


@dataclass(frozen=True)
class SoakSpec(PointSpec):
    """One point.

    Attributes:
        rate_fps: offered per direction.
        rate_source: where the rate is from, in words.
        stretches: trials that follow each other.
        stretch_s: length of each [s].
    """

    rate_fps: float
    rate_source: str
    stretches: int
    stretch_s: float

    @property
    def benchmark(self) -> str:
        """Its name."""
        return BENCHMARK


@dataclass(frozen=True)
class Stretch:
    """One trial; ``intervals`` by direction, empty where the tester faltered."""

    number: int
    key: str
    started: str
    intervals: dict[str, tuple[TrafficInterval, ...]]


@dataclass(frozen=True)
class SoakResult:
    """All stretches."""

    spec: SoakSpec
    stretches: tuple[Stretch, ...]
    attempts: tuple[Attempt, ...]

    def intervals(self, way: str) -> list[TrafficInterval]:
        """Everything that was measured of a direction, in order."""
        return [i for s in self.stretches for i in s.intervals.get(way, ())]


def measure_soak(spec: SoakSpec, measure: Measure, watch: Watch | None = None) -> SoakResult:
    """One stretch after the other."""
    done: list[Stretch] = []
    attempts: list[Attempt] = []
    rested = replace(spec.conditions, invalid_retries=0)
    for number in range(1, spec.stretches + 1):
        at = rested if number == 1 else replace(rested, pause_s=0.0)
        trials = TrialRunner(at, spec.key_prefix, measure, watch, number, spec.stretches)
        outcome = trials.run(at.make_trial(BENCHMARK, spec.rate_fps, spec.stretch_s))
        attempts += outcome.attempts
        directions = {}
        if outcome.verdict.valid:
            begins_s = (number - 1) * spec.stretch_s
            directions = {
                way: tuple(
                    outcome.result.directions[way].split_into_intervals(begins_s, spec.stretch_s)
                )
                for way in list_directions(at.mode)
            }
        done.append(Stretch(number, outcome.trial.key, outcome.result.started, directions))
    return SoakResult(spec, tuple(done), tuple(attempts))
