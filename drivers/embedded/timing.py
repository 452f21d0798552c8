"""The times of one direction as frames arrive: one-way delays, their differences, losses over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from v6t.drivers.delays import compute_ipdv, make_distribution
from v6t.packets.arrays import F64, I64, Mask
from v6t.profiles.compiler.schedule import find_positions, list_classes_with_index
from v6t.trials.delays import Distribution
from v6t.trials.result import Timeline, choose_slot_s
from v6t.trials.trial import FlowStarts, Trial

MAX_WAITING = 1 << 20  # Delays that are collected before they are put into buckets


def select_started(
    starts: FlowStarts, rate_fps: float, places: NDArray[np.integer], index: NDArray[np.integer]
) -> Mask:
    """Return a mask of the frames whose flow has begun, from their places in load and class."""
    return places / rate_fps >= (index % starts.flows) * starts.interval_s


@dataclass(frozen=True)
class Pace:
    """Schedule of a trial: the times at which frames are due."""

    segments: tuple[tuple[int, float], ...]  # Frames and rate [fps] of one or two segments
    second_s: float = 0.0  # Time after the start at which the second segment begins [s]
    starts: FlowStarts | None = None  # Starts of successive flows; None if all start together

    @classmethod
    def from_trial(cls, trial: Trial) -> Pace:
        segments = [(trial.first_segment_frames, trial.rate_fps)]
        if trial.second_segment is not None:
            rest = trial.frames - trial.first_segment_frames
            segments.append((rest, trial.second_segment.rate_fps))
        return cls(tuple(segments), trial.duration_s, trial.flow_starts)

    @property
    def frames(self) -> int:
        return sum(count for count, _ in self.segments)

    def count_due(self, elapsed_s: float) -> int:
        """Return the number of frames that are due a time after the start."""
        count, rate = self.segments[0]
        done = min(count, int(elapsed_s * rate) + 1)
        if len(self.segments) > 1 and elapsed_s >= self.second_s:
            more, rate = self.segments[1]
            done = count + min(more, int((elapsed_s - self.second_s) * rate) + 1)
        return done

    def compute_due_s(self, numbers: Any) -> Any:
        """Return the due time of a frame, or of each frame in an array, after the start [s]."""
        count, rate = self.segments[0]
        due = numbers / rate
        if len(self.segments) > 1:
            later = self.second_s + (numbers - count) / self.segments[1][1]
            due = np.where(numbers >= count, later, due)[()]
        return due


@dataclass(frozen=True)
class TimedTrial:
    """A trial with the weights of a direction's streams, from which due times follow."""

    trial: Trial
    weights: tuple[int, ...]

    def compute_due_s(self, number: int, seq: NDArray[np.integer]) -> F64:
        """Return the times at which frames of a class are due [s], by sequence number."""
        places = find_positions(self.weights, number, seq.astype(np.int64))
        due: F64 = Pace.from_trial(self.trial).compute_due_s(places)
        return due

    def list_due_s(self, frames: Mapping[int, NDArray[np.integer]]) -> F64:
        """Return the due times of frames [s], given as sequence numbers by class."""
        due = [self.compute_due_s(number, seq) for number, seq in frames.items() if len(seq)]
        return np.concatenate([np.zeros(0), *due])

    def find_unsent(self, number: int, count: int) -> Mask | None:
        """Return a mask of a class's frames that are skipped before their flow begins, or None."""
        if (starts := self.trial.flow_starts) is None or not count:
            return None
        index = np.arange(count, dtype=np.int64)
        places = find_positions(self.weights, number, index)
        return ~select_started(starts, self.trial.rate_fps, places, index)

    def make_class_delays(
        self, required: Sequence[int], unsent: Sequence[Mask | None]
    ) -> list[ClassDelays | None]:
        """Return an empty collector for each class, or None if the trial measures no delays."""
        if (delays := self.trial.delays) is None:
            return [None] * len(required)
        if not delays.tags:
            classes = zip(required, unsent, strict=True)
            return [ClassDelays(n, None, delays.ipdv, gone) for n, gone in classes]
        tags = [list_classes_with_index(self.weights, p, 1) for p in self.trial.tag_positions]
        which, index = np.concatenate(tags, axis=1)
        return [ClassDelays(n, index[which == c], False) for c, n in enumerate(required)]


class ClassDelays:
    """Collects the delays of one class's frames.

    Args:
        required: number of scheduled frames of the class.
        tagged: sequence numbers of the frames that are timed; None for every frame.
        ordered: keep the delays in order, to compute IPDV.
        unsent: mask of scheduled frames that are skipped; None if no frame is skipped.
    """

    def __init__(
        self, required: int, tagged: I64 | None, ordered: bool, unsent: Mask | None = None
    ) -> None:
        self._unsent = unsent
        self.sent = required - (0 if unsent is None else int(np.count_nonzero(unsent)))
        self.expected = self.sent if tagged is None else len(tagged)
        self._tagged: Mask | None = None
        if tagged is not None:
            self._tagged = np.zeros(required, dtype=bool)
            self._tagged[tagged] = True
        self._ordered = ordered
        self._waiting: list[I64] = []
        self._waiting_count = 0
        self._folded = Distribution.merge([])
        self._seq: list[I64] = []
        self._delays: list[I64] = []

    def add(self, seq: I64, delays_ns: I64) -> None:
        """Add frames that arrived in time, each for the first time."""
        if self._ordered:
            self._seq.append(seq)
            self._delays.append(delays_ns)
        self._waiting.append(delays_ns if self._tagged is None else delays_ns[self._tagged[seq]])
        self._waiting_count += len(self._waiting[-1])
        if self._waiting_count >= MAX_WAITING:
            self._fold_waiting()

    def make_distribution(self) -> Distribution:
        """Return the distribution of the delays; expected frames without a delay are lost."""
        self._fold_waiting()
        whole = self._folded
        lost = max(0, self.expected - whole.frames)
        return Distribution(whole.values_ns, whole.counts, lost, whole.clamped)

    def make_ipdv(self) -> Distribution:
        """Return the distribution of the delay differences of consecutive frames."""
        if not self._seq:
            return Distribution((), (), max(0, self.sent - 1))
        seq = np.concatenate(self._seq)
        if self._unsent is not None:  # consecutive are frames with none sent in between
            seq = seq - np.cumsum(self._unsent)[seq]
        return compute_ipdv(seq, np.concatenate(self._delays), self.sent)

    def _fold_waiting(self) -> None:
        """Put collected delays into buckets."""
        if self._waiting:
            part = make_distribution(np.concatenate(self._waiting))
            self._folded = Distribution.merge([self._folded, part])
            self._waiting, self._waiting_count = [], 0


class Arrivals:
    """Counts of frames that arrived in each time slot of a trial."""

    def __init__(self, timed: TimedTrial) -> None:
        trial = timed.trial
        self._timed = timed
        self._slot_s = choose_slot_s(trial.total_duration_s)
        # a clock that is set meanwhile must not make a million slots
        self._last = int((trial.total_duration_s + trial.residual_wait_s) / self._slot_s)
        self._began_ns: int | None = None
        self._counts = np.zeros(self._last + 1, dtype=np.int64)

    def add_batch(self, arrivals_ns: I64, class_number: int, seq: int, sent_ns: int) -> None:
        """Count the frames of a batch; ``seq`` and ``sent_ns`` are those of one frame in it."""
        if self._began_ns is None:
            due = float(self._timed.compute_due_s(class_number, np.array([seq]))[0])
            self._began_ns = sent_ns - round(due * 1e9)
        slot_ns = round(self._slot_s * 1e9)
        ends = (int(arrivals_ns[0]) - self._began_ns, int(arrivals_ns[-1]) - self._began_ns)
        first, last = (min(self._last, max(0, since // slot_ns)) for since in ends)
        if first == last:  # nearly always: a batch is short
            self._counts[first] += len(arrivals_ns)
            return
        slots = np.clip((arrivals_ns - self._began_ns) // slot_ns, 0, self._last)
        self._counts += np.bincount(slots, minlength=len(self._counts))

    def make_timeline(self, lost_s: F64) -> Timeline | None:
        """Return the timeline with losses at due times [s]; None if flows began successively."""
        if self._timed.trial.flow_starts is not None:
            return None
        # a frame due at the very beginning of a slot is in it, whatever its time is rounded to
        lost = np.bincount((lost_s / self._slot_s + 1e-6).astype(np.int64))
        received = np.trim_zeros(self._counts, "b").tolist()
        return Timeline(self._slot_s, tuple(received), tuple(lost.tolist()))
