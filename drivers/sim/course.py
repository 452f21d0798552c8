"""A simulated trial over its time."""

from __future__ import annotations

from itertools import pairwise

from v6t.trials.timeline import Timeline, choose_slot_s
from v6t.trials.trial import Trial


def course(
    trial: Trial, required: int, lost: int, first_s: float, last_s: float
) -> Timeline | None:
    """Losses spread evenly between two times; every other frame is there when it is sent.

    Args:
        trial: that was simulated; None comes of one whose flows begin one after the other.
        required, lost: frames of the direction.
        first_s, last_s: when the first and the last lost frame were due [s].
    """
    if trial.flow_starts is not None:
        return None
    width = choose_slot_s(trial.total_duration_s)
    slots = max(1, -(-round(trial.total_duration_s * 1000) // round(width * 1000)))
    share = required / trial.frames
    due = [round(share * _due(trial, n * width)) for n in range(slots)] + [required]
    span = max(last_s - first_s, 1e-9)
    gone = [
        round(lost * min(1.0, max(0.0, (n * width - first_s) / span))) for n in range(slots)
    ] + [lost]
    lost_in = [after - before for before, after in pairwise(gone)]
    came = [
        max(0, after - before - missing)
        for (before, after), missing in zip(pairwise(due), lost_in, strict=True)
    ]
    return Timeline(width, tuple(came), tuple(lost_in))


def _due(trial: Trial, at_s: float) -> float:
    """Frames due by then."""
    done = min(trial.first_segment_frames, trial.rate_fps * at_s)
    if trial.second_segment is not None and at_s > trial.duration_s:
        done += trial.second_segment.rate_fps * (at_s - trial.duration_s)
    return done
