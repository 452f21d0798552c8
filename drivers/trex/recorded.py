"""Delays of stamped frames from a recording of them, where TRex keeps no histogram: several cores.

In software mode each data path core keeps counters of the stamped frames it receives, and TRex adds
these up without their histograms (``CTimeHistogram::operator+=``, v3.08). The frames themselves reach
its receiver, which records them by the same time stamp counter that stamped them. Its frequency is
not told: it is found from the fastest frames. The smallest delay is TRex's own, taken where the
frame was received, so that the way to the receiver makes no delay longer than it makes the
fastest frame's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from v6t.drivers.trex.counting import Counted, Sent, group_counts
from v6t.drivers.trex.histogram import Histogram
from v6t.drivers.trex.marking import FIRST
from v6t.drivers.trex.recording import Recordings, longest_frame
from v6t.drivers.trex.samples import Mark, tick_rate_hz
from v6t.packets import trailer
from v6t.packets.arrays import count_unique, sort_unique

if TYPE_CHECKING:
    from v6t.drivers.trex.samples import Frames
    from v6t.packets.arrays import F64, I64, U8
    from v6t.packets.direction import Direction
    from v6t.profiles.streams import Stream

    Meaning = Callable[[Frames], Mapping[int, Stream]]

FEW = 20
"""Frames of each of TRex's numbers that tell which stream it means."""
TELLING = 3000
"""Frames that tell the counter's frequency."""


@dataclass(frozen=True)
class _Times:
    arrived_s: F64
    left_ticks: I64


class Recorded:
    """Stamped frames of one direction.

    Attributes:
        few: some of each of TRex's numbers, with the times of their arrival.
    """

    def __init__(self) -> None:
        self.few: Frames = []
        self._parts: dict[int, list[_Times]] = {}

    def take(self, times_s: F64, frames: U8) -> None:
        """Look at frames.

        Args:
            times_s: ``(n,)`` when they came.
            frames: ``(n, length)``.
        """
        if frames.shape[1] < trailer.LENGTH:
            return
        marks = trailer.read(frames)
        number = np.where(marks.magic_ok, marks.stream_id.astype(np.int64), FIRST)
        for one in sort_unique(number[number < FIRST]).tolist():
            rows = np.flatnonzero(number == one)
            if one not in self._parts:
                self.few += [(float(times_s[r]), frames[r].tobytes()) for r in rows[:FEW]]
            part = _Times(times_s[rows], marks.time_ns[rows].astype(np.int64))
            self._parts.setdefault(one, []).append(part)

    def histograms(
        self, named: Mapping[int, str], least_us: Callable[[str], float | None]
    ) -> dict[str, Histogram]:
        """Delays by class; of a class whose smallest is not known, none.

        Args:
            named: the class that each of TRex's numbers means.
            least_us: smallest delay of a class by TRex's own counter [us].
        """
        times = {
            n: _Times(
                np.concatenate([p.arrived_s for p in parts]),
                np.concatenate([p.left_ticks for p in parts]),
            )
            for n, parts in self._parts.items()
            if n in named
        }
        hertz = _frequency(list(times.values()))
        if hertz is None:
            return {}
        histograms: dict[str, Histogram] = {}
        for number, name in named.items():
            least = least_us(name)
            if number not in times or least is None:
                continue
            one = times[number]
            sent_s = (one.left_ticks - one.left_ticks[0]) / hertz
            late_us = (one.arrived_s - one.arrived_s[0] - sent_s) * 1e6
            delays = np.rint(late_us - late_us.min() + least).astype(np.int64)
            values, counts = count_unique(delays)
            histogram = Histogram(
                tuple((v, v, n) for v, n in zip(values.tolist(), counts.tolist(), strict=True))
            )
            histograms[name] = (
                histograms[name].merged(histogram) if name in histograms else histogram
            )
        return histograms


def _frequency(times: list[_Times]) -> float | None:
    """Of the time stamp counter, from the class with most frames."""
    most = max(times, key=lambda one: len(one.arrived_s), default=None)
    if most is None:
        return None
    step = max(1, len(most.arrived_s) // TELLING)
    pairs = zip(most.arrived_s[::step].tolist(), most.left_ticks[::step].tolist(), strict=True)
    return tick_rate_hz([Mark(arrived, 0, 0, left) for arrived, left in pairs])


class Beside:
    """The stamped frames that one core sends beside the load of all, as recorded in a trial."""

    def __init__(self, recordings: Recordings) -> None:
        self._recordings = recordings
        self._of: dict[Direction, Recorded] = {}

    def recording(self, sent: Sequence[Sent]) -> dict[str, Any]:
        """What the worker needs to record them."""
        self._of.clear()
        return {
            str(one.rx_port): self._recordings.request(
                one.streams.direction,
                sum(b.frames for b in one.stamped_bursts),
                longest_frame(one.streams),
            )
            for one in sent
        }

    def read(self, sent: Sequence[Sent]) -> None:
        """Read what was recorded."""
        for one in sent:
            recorded = self._of[one.streams.direction] = Recorded()
            for times_s, frames in self._recordings.read(one.streams.direction):
                recorded.take(times_s, frames)

    def timed(
        self, counted: Counted, one: Sent, raw: Mapping[str, Any], meaning: Meaning
    ) -> Counted:
        """A direction's counts with the delays that its recording tells.

        Args:
            counted: by ports.
            one: what was sent.
            raw: the worker's answer.
            meaning: which stream each of TRex's numbers means, from some of its frames.
        """
        recorded = self._of[one.streams.direction]
        least, received = dict[str, float](), dict[str, int]()
        for burst in one.stamped_bursts:
            name = one.streams.streams[burst.index].name
            group = raw["groups"].get("latency", {}).get(str(burst.pg_id), {})
            smallest = group.get("latency", {}).get("total_min")
            if smallest is not None:
                least[name] = min(float(smallest), least.get(name, math.inf))
            received[name] = received.get(name, 0) + group_counts(raw, one, burst).received
        named = {n: stream.name for n, stream in meaning(recorded.few).items()}
        histograms = recorded.histograms(named, least.get)
        return replace(
            counted,
            histograms=histograms,
            tags=histograms,
            untimed={name: max(0, n - _total(histograms, name)) for name, n in received.items()},
        )


def share(one: Sent, rate_fps: float) -> float:
    """Of the frames that are sent while some are stamped, those that are.

    Args:
        one: what was asked of a direction.
        rate_fps: of the direction.
    """
    return sum(b.pps for b in one.stamped_bursts) / rate_fps


def _total(histograms: Mapping[str, Histogram], name: str) -> int:
    return histograms[name].total if name in histograms else 0
