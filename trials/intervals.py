"""Frames and loss of a trial by time interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from v6t.trials.result import DirectionResult


@dataclass(frozen=True)
class TrafficInterval:
    """Traffic of one direction in a time interval.

    Attributes:
        begins_s: start of the interval, in seconds of traffic [s].
        length_s: length of the interval [s].
        frames: frames due in the interval.
        lost: lost frames.
    """

    begins_s: float
    length_s: float
    frames: int
    lost: int


def split_into_intervals(
    counted: DirectionResult, begins_s: float, length_s: float
) -> Sequence[TrafficInterval]:
    """Split a trial into the slots of its timeline, or return it as one interval.

    Args:
        counted: result of one direction.
        begins_s: seconds of traffic before the trial.
        length_s: length of the trial [s].
    """
    frames = counted.count_frames("required")
    lost = frames - counted.count_frames("received")
    timeline = counted.timeline
    if timeline is None or sum(timeline.lost) != lost:
        return [TrafficInterval(begins_s, length_s, frames, lost)]
    intervals = []
    for number in range(math.ceil(length_s / timeline.slot_s - 1e-9)):
        begin, end = (min(length_s, n * timeline.slot_s) for n in (number, number + 1))
        due = round(frames * end / length_s) - round(frames * begin / length_s)
        # slots without loss at the end may be missing
        slot_lost = timeline.lost[number] if number < len(timeline.lost) else 0
        intervals.append(TrafficInterval(begins_s + begin, end - begin, due, slot_lost))
    return intervals
