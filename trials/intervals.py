"""Loss of a trial by time interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from v6t.trials.result import DirectionResult


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
