"""One-way delays of one direction as they come in: tags, all frames, differences, gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from v6t.drivers.delays import compute_ipdv, make_distribution
from v6t.profiles.compiler.schedule import find_positions, list_classes_with_index
from v6t.trials.delays import Distribution
from v6t.trials.timeline import Timeline, choose_slot_s
from v6t.trials.trial import FlowStarts, Trial

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

PART = 1 << 20
"""Delays kept as they are before they are put into buckets."""


@dataclass(frozen=True)
class Wanted:
    """What a trial asks the receiver to time.

    Attributes:
        trial: the trial.
        weights: shares of the streams of the direction, in their order.
    """

    trial: Trial
    weights: tuple[int, ...]


def begun(
    starts: FlowStarts, rate_fps: float, places: NDArray[np.integer], index: NDArray[np.integer]
) -> NDArray[np.bool_]:
    """Select turns that come when their flow has begun: they are sent.

    Args:
        starts: when flows begin.
        rate_fps: of the direction.
        places: in the mixed order of the classes.
        index: numbers within the classes.
    """
    sent: NDArray[np.bool_] = places / rate_fps >= (index % starts.flows) * starts.interval_s
    return sent


def unsent(wanted: Wanted, number: int, count: int) -> NDArray[np.bool_] | None:
    """Select turns of a class before their flow has begun; None: all are sent.

    Args:
        wanted: the trial and how its classes are mixed.
        number: of the class.
        count: its turns.
    """
    starts = wanted.trial.flow_starts
    if starts is None or not count:
        return None
    index = np.arange(count, dtype=np.int64)
    places = find_positions(wanted.weights, number, index)
    return ~begun(starts, wanted.trial.rate_fps, places, index)


class ClassTimes:
    """Delays of one class.

    Args:
        required: turns of the class.
        tagged: sequence numbers that are timed; None: all.
        keep: keep them in order, for differences of consecutive frames.
        skipped: turns that are not sent; None: all are.
    """

    def __init__(
        self,
        required: int,
        tagged: NDArray[np.int64] | None,
        keep: bool,
        skipped: NDArray[np.bool_] | None = None,
    ) -> None:
        self._skipped = skipped
        self.sent = required - (0 if skipped is None else int(np.count_nonzero(skipped)))
        self.expected = self.sent if tagged is None else len(tagged)
        self._tagged: NDArray[np.bool_] | None = None
        if tagged is not None:
            self._tagged = np.zeros(required, dtype=bool)
            self._tagged[tagged] = True
        self._keep = keep
        self._new: list[NDArray[np.int64]] = []
        self._waiting = 0
        self._parts: list[Distribution] = []
        self._seq: list[NDArray[np.int64]] = []
        self._delays: list[NDArray[np.int64]] = []

    def add(self, seq: NDArray[np.int64], delays_ns: NDArray[np.int64]) -> None:
        """Frames that arrived in time, each for the first time."""
        if self._keep:
            self._seq.append(seq)
            self._delays.append(delays_ns)
        chosen = delays_ns if self._tagged is None else delays_ns[self._tagged[seq]]
        if len(chosen):
            self._new.append(chosen)
            self._waiting += len(chosen)
            if self._waiting >= PART:
                self._fold()

    def delays(self) -> Distribution:
        """All delays; what was expected and is missing is lost."""
        self._fold()
        whole = Distribution.merge(self._parts)
        lost = max(0, self.expected - whole.frames)
        return Distribution(whole.values_ns, whole.counts, lost, whole.clamped)

    def ipdv(self) -> Distribution:
        """Differences of the delays of consecutive frames."""
        if not self._seq:
            return Distribution((), (), max(0, self.sent - 1))
        seq = np.concatenate(self._seq)
        if self._skipped is not None:  # consecutive are frames with none sent in between
            seq = seq - np.cumsum(self._skipped)[seq]
        return compute_ipdv(seq, np.concatenate(self._delays), self.sent)

    def _fold(self) -> None:
        if self._new:
            part = make_distribution(np.concatenate(self._new))
            self._parts = [Distribution.merge([*self._parts, part])]
            self._new, self._waiting = [], 0


def class_times(
    wanted: Wanted, required: Sequence[int], skipped: Sequence[NDArray[np.bool_] | None]
) -> list[ClassTimes]:
    """One for each class, empty; none if the trial asks for no delays.

    Args:
        wanted: the trial and how its classes are mixed.
        required: turns of each class.
        skipped: those that are not sent, see :func:`unsent`.
    """
    asked = wanted.trial.delays
    if asked is None:
        return []
    if not asked.tags:
        return [
            ClassTimes(n, None, asked.ipdv, gone) for n, gone in zip(required, skipped, strict=True)
        ]
    places = np.array(wanted.trial.tag_positions, dtype=np.int64)
    which, index = _class_of(places, wanted.weights)
    return [ClassTimes(n, index[which == c], False) for c, n in enumerate(required)]


def _class_of(
    places: NDArray[np.int64], weights: Sequence[int]
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    found = [list_classes_with_index(weights, int(p), 1) for p in places.tolist()]
    return np.concatenate([f[0] for f in found]), np.concatenate([f[1] for f in found])


class Gap:
    """Longest time between two frames received one after the other."""

    def __init__(self) -> None:
        self._last: int | None = None
        self._longest = 0

    def add(self, times_ns: NDArray[np.int64]) -> None:
        """Arrival times of one batch, in order."""
        if self._last is not None:
            self._longest = max(self._longest, int(times_ns[0]) - self._last)
        if len(times_ns) > 1:
            self._longest = max(self._longest, int(np.diff(times_ns).max()))
        self._last = int(times_ns[-1])

    @property
    def longest_s(self) -> float | None:
        """In seconds; None before anything arrived."""
        return None if self._last is None else self._longest / 1e9


class Arrivals:
    """Frames that came and frames that did not, over the time of a trial.

    Args:
        wanted: the trial and how its classes are mixed.
    """

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._slot_s = choose_slot_s(wanted.trial.total_duration_s)
        self._slot_ns = round(self._slot_s * 1e9)
        # a clock that is set meanwhile must not make a million slots
        self._last = int(
            (wanted.trial.total_duration_s + wanted.trial.residual_wait_s) / self._slot_s
        )
        self._began_ns: int | None = None
        self._counts = np.zeros(self._last + 1, dtype=np.int64)

    def add(self, times_ns: NDArray[np.int64], number: int, seq: int, sent_ns: int) -> None:
        """Arrival times of one batch.

        Args:
            times_ns: when its frames came.
            number, seq, sent_ns: class of one of them, its number within it, and when it was sent.
        """
        if self._began_ns is None:
            place = int(find_positions(self._wanted.weights, number, np.array([seq]))[0])
            self._began_ns = sent_ns - round(_due_s(self._wanted.trial, place) * 1e9)
        first, last = self._slot(int(times_ns[0])), self._slot(int(times_ns[-1]))
        if first == last:  # nearly always: a batch is short
            self._counts[first] += len(times_ns)
            return
        slots = np.clip((times_ns - self._began_ns) // self._slot_ns, 0, self._last)
        self._counts += np.bincount(slots, minlength=len(self._counts))

    def _slot(self, time_ns: int) -> int:
        since_ns = time_ns - (self._began_ns or 0)
        return min(self._last, max(0, since_ns // self._slot_ns))

    def course(self, missing: Mapping[int, NDArray[np.int64]]) -> Timeline | None:
        """Return the timeline; None if flows began one after the other: not every turn was sent.

        Args:
            missing: sequence numbers of lost frames by class.
        """
        trial = self._wanted.trial
        if trial.flow_starts is not None:
            return None
        due = [
            due_s(trial, find_positions(self._wanted.weights, number, seq))
            for number, seq in missing.items()
        ]
        # a frame due at the very beginning of a slot is in it, whatever its time is rounded to
        slots = np.concatenate([np.zeros(0), *due]) / self._slot_s + 1e-6
        lost = np.bincount(slots.astype(np.int64))
        received = np.trim_zeros(self._counts, "b").tolist()
        return Timeline(self._slot_s, tuple(received), tuple(lost.tolist()))


def lost_between(
    wanted: Wanted, missing: Mapping[int, NDArray[np.int64]]
) -> tuple[float | None, float | None]:
    """When the first and the last lost frame were due, after the direction's first frame [s].

    Args:
        wanted: the trial and how its classes are mixed.
        missing: sequence numbers of lost frames by class.
    """
    places = [
        int(place)
        for number, seq in missing.items()
        if len(seq)
        for place in find_positions(wanted.weights, number, np.array([seq.min(), seq.max()]))
    ]
    if not places:
        return None, None
    return _due_s(wanted.trial, min(places)), _due_s(wanted.trial, max(places))


def due_s(trial: Trial, places: NDArray[np.int64]) -> NDArray[np.float64]:
    """When frames are due, after the direction's first one [s]."""
    due: NDArray[np.float64] = places / trial.rate_fps
    if trial.second_segment is not None:
        later = places >= trial.first_segment_frames
        second = (
            trial.duration_s + (places - trial.first_segment_frames) / trial.second_segment.rate_fps
        )
        due = np.where(later, second, due)
    return due


def _due_s(trial: Trial, place: int) -> float:
    return float(due_s(trial, np.array([place], dtype=np.int64))[0])
