"""Captured test frames: which stream they are of, when they left, whether they are right."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from v6t.drivers.compare import Comparison, compare_samples
from v6t.profiles import trailer
from v6t.profiles.model import Role
from v6t.profiles.streams import Stream, StreamSet

if TYPE_CHECKING:
    from v6t.drivers.tester import Judge

    Frames = list[tuple[float, bytes]]

FIRST_SEQUENCE = (1 << 32) - 2
"""TRex's sequence numbers start so (``m_seq_num`` in bp_sim.h) "to catch wrap around early"."""
_TRAILER = struct.Struct("<BBHIQ")


@dataclass(frozen=True)
class Mark:
    """Trailer of a captured frame.

    Attributes:
        arrived_s: server's clock [s].
        hardware_id: TRex's number of the stream, its own choice.
        seq: number of the frame within the stream.
        left_ticks: time stamp counter when it left.
    """

    arrived_s: float
    hardware_id: int
    seq: int
    left_ticks: int


def marks(frames: Frames) -> list[Mark]:
    """Trailers of captured frames; what carries none is left out."""
    found = []
    for arrived, frame in frames:
        if len(frame) < trailer.LENGTH:
            continue
        magic, _, number, seq, ticks = _TRAILER.unpack(frame[-trailer.LENGTH :])
        if magic == trailer.MAGIC:
            found.append(Mark(arrived, number, (seq - FIRST_SEQUENCE) % (1 << 32), ticks))
    return found


def tick_rate_hz(found: Sequence[Mark]) -> float | None:
    """Frequency of the time stamp counter, from departures and arrivals of one trial.

    The fastest frames of the first and of the last third say it best: queues only add delay.
    None if the frames are too few or too close.
    """
    if len(found) < 6:
        return None
    ordered = sorted(found, key=lambda m: m.left_ticks)
    first, last = ordered[0], ordered[-1]
    if last.arrived_s - first.arrived_s < 0.05:
        return None
    rough = (last.left_ticks - first.left_ticks) / (last.arrived_s - first.arrived_s)
    third = len(ordered) // 3

    def delay(m: Mark) -> float:
        return m.arrived_s - (m.left_ticks - first.left_ticks) / rough

    early = min(ordered[:third], key=delay)
    late = min(ordered[-third:], key=delay)
    return (late.left_ticks - early.left_ticks) / (late.arrived_s - early.arrived_s)


def sending_time_s(found: Sequence[Mark], frames: int, ticks_hz: float) -> float | None:
    """Time in which ``frames`` frames of one stream left, from the departures of some of them.

    None if what was captured spans less than half of the stream.
    """
    if len(found) < 2:
        return None
    first, last = min(found, key=lambda m: m.seq), max(found, key=lambda m: m.seq)
    if last.seq - first.seq < frames // 2:
        return None
    spacing = (last.left_ticks - first.left_ticks) / ticks_hz / (last.seq - first.seq)
    return spacing * frames


def compare(frames: Frames, streams: StreamSet, judge: Judge | None) -> Comparison:
    """Captured frames of one direction against the reference translation.

    TRex numbers streams as it likes: the frames of one number are compared with each stream, and
    belong to the one they fit best.
    """
    groups: dict[int, list[bytes]] = {}
    for _, frame in frames:
        if len(frame) >= trailer.LENGTH and frame[-trailer.LENGTH] == trailer.MAGIC:
            number = int.from_bytes(frame[-14:-12], "little")
            groups.setdefault(number, []).append(frame)
    known = [s for s in streams.streams if s.role is not Role.NEGATIVE]
    checked = matched = 0
    mismatch = None
    for group in groups.values():
        best = _best([_against(s, group, streams, judge) for s in known])
        checked += best.checked
        matched += best.matched
        mismatch = mismatch or best.mismatch
    return Comparison(checked, matched, mismatch)


def _best(found: list[Comparison]) -> Comparison:
    return max(found, key=lambda c: c.matched)


def _against(
    stream: Stream, group: list[bytes], streams: StreamSet, judge: Judge | None
) -> Comparison:
    by_length: dict[int, list[bytes]] = {}
    for frame in group:
        by_length.setdefault(len(frame), []).append(frame)
    samples = [
        np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), length)
        for length, rows in by_length.items()
    ]
    return compare_samples(
        stream, samples, None, streams.direction, judge, first_sequence=FIRST_SEQUENCE
    )
