"""Trials whose losses came all at once: a hiccup of the device, not a rate it cannot carry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from v6t.analysis.rundata import RunTrial
from v6t.trials.result import DirectionResult
from v6t.trials.timeline import Timeline

SHORT = 0.1
"""A hiccup takes at most this share of a trial's slots ..."""
MOST = 0.8
"""... has at least this share of its losses ..."""
DEEP = 0.05
"""... and loses at least this share of what was due in its worst slot."""
FEWEST_SLOTS = 10
"""With fewer slots nothing can be said to be short."""


@dataclass(frozen=True)
class Hiccup:
    """Losses in one stretch of one direction of a trial.

    Attributes:
        trial: it.
        way: direction.
        at_s: when the stretch began, after the first frame [s].
        length_s: of the stretch [s].
        lost: frames lost in it.
        elsewhere: frames lost in the rest of the trial.
    """

    trial: RunTrial
    way: str
    at_s: float
    length_s: float
    lost: int
    elsewhere: int

    def __str__(self) -> str:
        rest = f"{self.elsewhere:,}" if self.elsewhere else "none"
        return (
            f"{self.trial.key}, {self.way}: {self.lost:,} frames were lost within "
            f"{self.length_s:.3g} s, {self.at_s:.3g} s after the first frame, and {rest} in the "
            "rest of the trial"
        )


def hiccups(trials: Iterable[RunTrial]) -> list[Hiccup]:
    """Those of valid trials, the deepest first; none where the device was reset or overloaded on purpose."""
    spans = []
    for trial in trials:
        if trial.asked.get("event") or trial.asked.get("then"):
            continue
        for way, counted in trial.result.directions.items():
            if counted.timeline is not None:
                one = _hiccup(trial, way, counted, counted.timeline)
                if one is not None:
                    spans.append(one)
    return sorted(spans, key=lambda h: -h.lost)


def due_by_slot(trial: RunTrial, counted: DirectionResult, course: Timeline) -> list[float]:
    """Frames due in each slot of a trial while it sends."""
    rate = float(trial.asked["rate_fps"])
    first, whole = float(trial.asked["duration_s"]), trial.sending_s
    then = (trial.asked.get("then") or {"rate_fps": rate})["rate_fps"]
    slots = max(1, round(whole / course.slot_s))
    due = [rate if slot * course.slot_s < first - 1e-9 else then for slot in range(slots)]
    share = counted.count_frames("required") / (sum(due) or 1)
    return [n * share for n in due]


def _hiccup(trial: RunTrial, way: str, counted: DirectionResult, course: Timeline) -> Hiccup | None:
    lost = sum(course.lost)
    due = due_by_slot(trial, counted, course)
    if not lost or len(due) < FEWEST_SLOTS:
        return None
    first, last = _stretch(course.lost, MOST * lost)
    inside = sum(course.lost[first : last + 1])
    deepest = max(n / d for n, d in zip(course.lost, due, strict=False) if d)
    if last - first + 1 > max(1, SHORT * len(due)) or deepest < DEEP:
        return None
    return Hiccup(
        trial, way, first * course.slot_s, (last - first + 1) * course.slot_s, inside, lost - inside
    )


def _stretch(lost: Sequence[int], wanted: float) -> tuple[int, int]:
    best = (0, len(lost) - 1)
    first, within = 0, 0
    for last, count in enumerate(lost):
        within += count
        while within - lost[first] >= wanted and first < last:
            within -= lost[first]
            first += 1
        if within >= wanted and last - first < best[1] - best[0]:
            best = (first, last)
    return best
