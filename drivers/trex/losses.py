"""When frames were lost, and how long none came: from a recording of all of them (RST-02, REC-01).

Each burst's frames leave at a constant pace, so a lost frame's number says when it was sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
from v6t.drivers.trex import marking
from v6t.drivers.trex.samples import FIRST_SEQUENCE, Mark, tick_rate_hz
from v6t.packets import trailer
from v6t.packets.arrays import sort_unique
from v6t.profiles.model import Role

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.drivers.trex.counting import Sent
    from v6t.drivers.trex.samples import Frames
    from v6t.drivers.trex.stamping import Burst
    from v6t.trials.result import DirectionResult

FEW = 20
"""Frames of each of TRex's numbers that tell which stream it means."""
TELLING = 1000
"""First frames, and last ones, that tell the frequency of the sender's clock."""


class Arrived:
    """Frames of one direction as they came.

    Attributes:
        seen: by TRex's number of the stream, or that of a mark, which of its frames.
        few: some frames of each number, with the times of their arrival.
        frames: all that carry a trailer.
    """

    def __init__(self, most: int, far: int) -> None:
        """Nothing came yet.

        Args:
            most: frames of the longest burst.
            far: see :func:`~v6t.drivers.trex.marking.read`; 0: none is marked.
        """
        self._most, self._far = most, far
        self.seen: dict[int, NDArray[np.bool_]] = {}
        self.few: Frames = []
        self.frames = 0
        self._ends: dict[int, tuple[tuple[int, int], tuple[int, int]]] = {}
        self._times: list[NDArray[np.float64]] = []
        self._telling: list[Mark] = []

    def take(self, times_s: NDArray[np.float64], frames: NDArray[np.uint8]) -> None:
        """Look at frames.

        Args:
            times_s: ``(n,)`` when they came.
            frames: ``(n, length)``.
        """
        marks = trailer.read(frames)
        stream = np.where(marks.magic_ok, marks.stream_id.astype(np.int64), -1)
        self.frames += int(np.count_nonzero(marks.magic_ok))
        own = np.flatnonzero((stream >= 0) & (stream < marking.FIRST))
        self._telling += [
            Mark(float(times_s[r]), 0, 0, int(marks.time_ns[r]))
            for r in (own if len(own) < 2 * TELLING else (*own[:TELLING], *own[-TELLING:]))
        ]
        number = (marks.seq - np.uint32(FIRST_SEQUENCE)).astype(np.int64)
        if self._far:
            marked, _, own = marking.read(frames, self._far)
            number = np.where(marked, own, number)
        for one in sort_unique(stream[stream >= 0]).tolist():
            rows = np.flatnonzero((stream == one) & (number < self._most))
            if not len(rows):
                continue
            if one not in self.seen:
                self.seen[one] = np.zeros(self._most, dtype=bool)
                self.few += [(float(times_s[r]), frames[r].tobytes()) for r in rows[:FEW]]
            self.seen[one][number[rows]] = True
            if one < marking.FIRST:
                first, last = (
                    (int(number[r]), int(marks.time_ns[r]))
                    for r in (rows[number[rows].argmin()], rows[number[rows].argmax()])
                )
                before = self._ends.get(one, (first, last))
                self._ends[one] = min(first, before[0]), max(last, before[1])
        self._times.append(times_s)

    @property
    def longest_gap_s(self) -> float | None:
        """Between two frames that came one after the other [s]; None: fewer than two came."""
        times_s = np.sort(np.concatenate(self._times)) if self._times else np.zeros(0)
        return float(np.diff(times_s).max()) if len(times_s) > 1 else None

    @property
    def ticks_hz(self) -> float | None:
        """Frequency of the sender's clock; None: too few frames came.

        Its first and last frames tell it: those between may have stood in the queue of a device
        that is overloaded.
        """
        telling = sorted(self._telling, key=lambda mark: mark.arrived_s)
        ends = telling if len(telling) < 2 * TELLING else telling[:TELLING] + telling[-TELLING:]
        return tick_rate_hz(ends)

    def began_s(self, number: int, pps: float, ticks_hz: float) -> float:
        """When the first frame of a stamped number left, at a pace of ``pps`` [s]."""
        (first, began), _ = self._ends[number]
        return began / ticks_hz - first / pps

    def spans(
        self, by_number: Mapping[int, Burst], ticks_hz: float
    ) -> dict[Burst, tuple[float, float]]:
        """When the first frame of each stamped burst left, and when its last one's slot ended [s].

        By the sender's clock; frames before the first and after the last that came left at the
        pace that was asked for.
        """
        spans = {}
        for number, burst in by_number.items():
            if number in self._ends:
                _, (last, ended) = self._ends[number]
                began_s = self.began_s(number, burst.pps, ticks_hz)
                spans[burst] = began_s, ended / ticks_hz + (burst.frames - last) / burst.pps
        return spans


def in_time(
    arrived: Arrived, by_number: Mapping[int, Burst], sent: Sent, ticks_hz: float
) -> dict[int, Burst]:
    """Which of two bursts of a class each number means, where their frames are the same.

    Args:
        arrived: what came.
        by_number: a burst of the right class.
        sent: two bursts of each class, one after the other.
        ticks_hz: frequency of the sender's clock.
    """
    streams = sent.streams.streams
    began_s = {n: arrived.began_s(n, b.pps, ticks_hz) for n, b in by_number.items()}
    start_s = min(began_s.values(), default=0.0)
    start_us = min(b.isg for b in sent.bursts)
    meant = {}
    for number, burst in by_number.items():
        at_us = start_us + 1e6 * (began_s[number] - start_s)
        name = streams[burst.index].name
        twins = (b for b in sent.bursts if streams[b.index].name == name)
        _, meant[number] = min(((abs(b.isg - at_us), b) for b in twins), key=itemgetter(0))
    return meant


@dataclass(frozen=True)
class Spans:
    """When bursts began and ended, by the sender's clock [s], of one direction.

    Attributes:
        of: stamped bursts of which frames came.
        sent: the direction.
    """

    of: Mapping[Burst, tuple[float, float]]
    sent: Sent

    @property
    def late_s(self) -> float | None:
        """How much later than asked the second rate began after the first [s]; None: not known."""
        return max((self._late_s(b) for b in self._classes if len(b) == 2), key=abs, default=None)

    @property
    def _classes(self) -> list[list[tuple[Burst, tuple[float, float]]]]:
        by_name: dict[str, list[tuple[Burst, tuple[float, float]]]] = {}
        for burst, span in sorted(self.of.items(), key=lambda one: one[0].isg):
            name = self.sent.streams.streams[burst.index].name
            by_name.setdefault(name, []).append((burst, span))
        return list(by_name.values())

    @staticmethod
    def _late_s(bursts: Sequence[tuple[Burst, tuple[float, float]]]) -> float:
        if len(bursts) < 2:
            return 0.0
        (first, (began, _)), (second, (then, _)) = bursts
        return then - began - (second.isg - first.isg) / 1e6


@dataclass(frozen=True)
class Losses:
    """What was lost in one direction.

    Attributes:
        first_s, last_s: when the first and the last lost frame were sent, after the direction's
            first [s]; None: none was lost.
        longest_gap_s: longest time between two frames that came one after the other [s].
    """

    first_s: float | None
    last_s: float | None
    longest_gap_s: float | None


def unrecorded(arrived: Arrived, counted: DirectionResult, direction: str) -> list[str]:
    """The fault of a recording that lacks frames which came: each would be one that was lost.

    Args:
        arrived: what was recorded.
        counted: what TRex's counters say of the direction.
        direction: its name.
    """
    came = sum(c.received + c.surplus + c.late for c in counted.classes.values())
    if arrived.frames >= came:
        return []
    return [f"{direction}: TRex recorded {arrived.frames} of {came} frames that came"]


def losses(arrived: Arrived, sent: Sent, by_number: Mapping[int, Burst]) -> Losses:
    """What is missing.

    Args:
        arrived: what came.
        sent: what was sent.
        by_number: which burst each number means.
    """
    seen = {burst: arrived.seen[number] for number, burst in by_number.items()}
    times: list[float] = []
    for burst in sent.bursts:
        if sent.streams.streams[burst.index].role is Role.NEGATIVE or not burst.frames:
            continue
        missing = np.array([0, burst.frames - 1])
        if burst in seen:
            missing = np.flatnonzero(~seen[burst][: burst.frames])
        if len(missing):
            times += [burst.isg / 1e6 + int(missing[end]) / burst.pps for end in (0, -1)]
    start = min(b.isg for b in sent.bursts) / 1e6
    if not times:
        return Losses(None, None, arrived.longest_gap_s)
    return Losses(min(times) - start, max(times) - start, arrived.longest_gap_s)
