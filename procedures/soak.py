"""Soak: hours of one rate below the throughput, and when in them frames were lost.

No RFC defines it. The hours are stretches that follow each other, a trial each: what was measured
stays in the journal when a run is interrupted, and a resumed run goes on with the next stretch.
Between two stretches lies only the wait for late frames. A stretch in which the tester faltered is
not repeated: it is a gap, and no loss of the device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from v6t.procedures.conditions import Attempts, PointSpec, Watch
from v6t.trials.result import DirectionResult, Measure
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
class Interval:
    """Some of the traffic of one direction.

    Attributes:
        begins_s: in seconds of traffic since the first frame of the soak.
        length_s: of the interval [s].
        frames: due in it.
        lost: of them.
    """

    begins_s: float
    length_s: float
    frames: int
    lost: int


@dataclass(frozen=True)
class Stretch:
    """One trial; ``intervals`` by direction, empty where the tester faltered."""

    number: int
    key: str
    started: str
    intervals: dict[str, tuple[Interval, ...]]


@dataclass(frozen=True)
class SoakResult:
    """All stretches."""

    spec: SoakSpec
    stretches: tuple[Stretch, ...]
    attempts: tuple[Attempt, ...]

    def intervals(self, way: str) -> list[Interval]:
        """Everything that was measured of a direction, in order."""
        return [i for s in self.stretches for i in s.intervals.get(way, ())]


def measure_soak(spec: SoakSpec, measure: Measure, watch: Watch | None = None) -> SoakResult:
    """One stretch after the other."""
    done: list[Stretch] = []
    attempts: list[Attempt] = []
    rested = replace(spec.conditions, invalid_retries=0)
    for number in range(1, spec.stretches + 1):
        at = rested if number == 1 else replace(rested, pause_s=0.0)
        trials = Attempts(at, spec.point, measure, watch, number, spec.stretches)
        outcome = trials.run(at.make_trial(BENCHMARK, spec.rate_fps, spec.stretch_s))
        attempts += outcome.attempts
        directions = {}
        if outcome.verdict.valid:
            begins_s = (number - 1) * spec.stretch_s
            directions = {
                way: tuple(intervals(outcome.result.directions[way], begins_s, spec.stretch_s))
                for way in list_directions(at.mode)
            }
        done.append(Stretch(number, outcome.trial.key, outcome.result.started, directions))
    return SoakResult(spec, tuple(done), tuple(attempts))


def intervals(counted: DirectionResult, begins_s: float, stretch_s: float) -> Sequence[Interval]:
    """As finely as the tester says when frames were lost; the whole stretch where it does not.

    Args:
        counted: in one direction of a stretch.
        begins_s: seconds of traffic before it.
        stretch_s: its length [s].
    """
    frames = counted.count_frames("required")
    lost = frames - counted.count_frames("received")
    course = counted.timeline
    if course is None or sum(course.lost) != lost:
        return [Interval(begins_s, stretch_s, frames, lost)]
    parts = []
    for number in range(math.ceil(stretch_s / course.slot_s - 1e-9)):
        begin, end = (min(stretch_s, n * course.slot_s) for n in (number, number + 1))
        due = round(frames * end / stretch_s) - round(frames * begin / stretch_s)
        # slots at the end without loss may be left out
        gone = course.lost[number] if number < len(course.lost) else 0
        parts.append(Interval(begins_s + begin, end - begin, due, gone))
    return parts
