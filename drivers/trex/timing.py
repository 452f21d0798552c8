"""Delays, delay differences and times of lost frames, computed from captured frames."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from v6t.drivers.delays import compute_ipdv
from v6t.drivers.trex.bursts import Burst, OfferedLoad
from v6t.drivers.trex.capture import (
    CaptureReader,
    StampColumns,
    count_stride_bits,
    identify_streams,
)
from v6t.drivers.trex.client.stats import TrialStats
from v6t.drivers.trex.counting import NO_DELAYS, DirectionCounts, count_group, find_group
from v6t.drivers.trex.streams import FIRST_SEQUENCE, MARK_IDS
from v6t.packets.arrays import count_unique
from v6t.profiles.model import Role
from v6t.trials.delays import Distribution
from v6t.trials.result import DirectionResult

IPDV_FRAMES = 30_000  # Captured frames per direction for IPDV
CLOCK_FIT_FRAMES = 1000  # Number of first and of last frames that give the clock's frequency
_FIT_ROUNDS = 3  # Iterations of the fit


def estimate_tick_rate(stamps: StampColumns) -> float | None:
    """Estimate the frequency of TRex's time stamp counter from departures and arrivals [Hz].

    Only the first and last frames count: those between may have stood in the queue of an overloaded
    device. Of these the fastest frames of the first and of the last third tell it, as queues only
    add delay.

    Returns:
        The frequency; None: the frames are too few or too close.
    """
    arrived_s, ticks = stamps.arrived_s, stamps.departed_ticks
    if len(ticks) > 2 * CLOCK_FIT_FRAMES:
        by_arrival = np.argsort(arrived_s, kind="stable")
        ends = np.r_[by_arrival[:CLOCK_FIT_FRAMES], by_arrival[-CLOCK_FIT_FRAMES:]]
        arrived_s, ticks = arrived_s[ends], ticks[ends]
    if len(ticks) < 6:
        return None
    order = np.argsort(ticks, kind="stable")
    arrived_s, left = arrived_s[order] - arrived_s[order[0]], ticks[order] - ticks[order[0]]
    if arrived_s[-1] < 0.05:
        return None
    hertz = float(left[-1] / arrived_s[-1])
    third = len(left) // 3
    for _ in range(_FIT_ROUNDS):  # by a wrong frequency others seem to be the fastest
        delays_s = arrived_s - left / hertz
        early, late = int(delays_s[:third].argmin()), int(delays_s[-third:].argmin()) - third
        hertz = float((left[late] - left[early]) / (arrived_s[late] - arrived_s[early]))
    return hertz


def make_ipdv(reader: CaptureReader, load: OfferedLoad, ticks_hz: float) -> dict[str, Distribution]:
    """Compute IPDV, the differences of neighbors' delays, by class.

    Of long streams TRex captured runs of 256 neighbors only: then there are fewer pairs than the
    class has frames, and the procedure calls the result sampled. A pair of which one frame was
    captured and the other should have been is lost.
    """
    named = identify_streams(reader.samples, [load])
    run_bits = (1 << count_stride_bits(load.frames, IPDV_FRAMES)) - 1
    distributions = {}
    for number, stream in enumerate(load.streams.streams):
        if stream.role is Role.NEGATIVE:
            continue
        count = next(b.frames for b in load.bursts if b.index == number)
        stamps = reader.select_columns(n for n, s in named.items() if s is stream and n < MARK_IDS)
        delays = np.empty(0, np.int64)
        if len(stamps.sequence):
            left = stamps.departed_ticks - stamps.departed_ticks.min()
            arrived_s = stamps.arrived_s - stamps.arrived_s.min()
            delays = np.rint((arrived_s - left / ticks_hz) * 1e9).astype(np.int64)
        sequence = (np.arange(count, dtype=np.int64) + FIRST_SEQUENCE) & 0xFFFFFFFF
        passes_filter = sequence >> 8 & run_bits == 0
        pairs = compute_ipdv(stamps.sequence, delays, count)
        expected = int(np.count_nonzero(passes_filter[1:] & passes_filter[:-1]))
        distributions[stream.name] = Distribution(
            pairs.values_ns, pairs.counts, max(0, expected - pairs.frames)
        )
    return distributions


def measure_delays(
    reader: CaptureReader, named: Mapping[int, str], min_delays_us: Mapping[str, float]
) -> dict[str, Distribution]:
    """Measure delays in whole microseconds from a recording, by class.

    In software mode each of several data path cores keeps counters of the stamped frames it receives,
    and TRex adds these up without their histograms (``CTimeHistogram::operator+=``, v3.08). The
    frames themselves reach its receiver, which records them by the same time stamp counter that
    stamped them. The smallest delay is TRex's own, taken where the frame was received, so that the
    way to the receiver makes no delay longer than it makes the fastest frame's.
    """
    hertz = estimate_tick_rate(reader.stamps)
    distributions: dict[str, list[Distribution]] = {}
    for number, name in named.items():
        stamps = reader.select_columns([number])
        if hertz is None or name not in min_delays_us or not len(stamps.sequence):
            continue
        sent_s = (stamps.departed_ticks - stamps.departed_ticks[0]) / hertz
        late_us = (stamps.arrived_s - stamps.arrived_s[0] - sent_s) * 1e6
        delays_us = np.rint(late_us - late_us.min() + min_delays_us[name]).astype(np.int64)
        values, counts = count_unique(1000 * delays_us)
        distribution = Distribution(tuple(values.tolist()), tuple(counts.tolist()))
        distributions.setdefault(name, []).append(distribution)
    return {name: Distribution.merge(parts) for name, parts in distributions.items()}


def add_sampled_delays(
    counted: DirectionCounts, load: OfferedLoad, stats: TrialStats, reader: CaptureReader
) -> DirectionCounts:
    """Add the delays of recorded stamped frames that one of several cores sent within the load."""
    least, received = dict[str, float](), dict[str, int]()
    for burst in load.stamped_bursts:
        name, smallest = load.find_stream(burst).name, find_group(stats, burst).min_delay_us
        if smallest is not None:
            least[name] = min(smallest, least.get(name, math.inf))
        received[name] = received.get(name, 0) + count_group(stats, load, burst).received
    named = {n: s.name for n, s in identify_streams(reader.samples, [load]).items()}
    delays = measure_delays(reader, named, least)
    untimed = {n: max(0, k - delays.get(n, NO_DELAYS).frames) for n, k in received.items()}
    return replace(counted, delays=delays, tags=delays, untimed=untimed)


def find_losses(
    reader: CaptureReader, load: OfferedLoad, by_number: Mapping[int, Burst]
) -> dict[str, float | None]:
    """Find the times of lost frames from a recording of all frames that arrived.

    Each burst's frames leave at a constant pace, so the number of a lost frame gives its time.

    Returns:
        Fields of a DirectionResult: times after the direction's first frame [s].
    """
    numbers = {burst: number for number, burst in by_number.items()}
    times: list[float] = []
    for burst in load.bursts:
        if load.find_stream(burst).role is Role.NEGATIVE or not burst.frames:
            continue
        is_missing = np.ones(burst.frames, dtype=bool)
        if burst in numbers:
            sequence = reader.select_columns([numbers[burst]]).sequence
            is_missing[sequence[(sequence >= 0) & (sequence < burst.frames)]] = False
        missing = np.flatnonzero(is_missing)
        if len(missing):
            times += [burst.isg / 1e6 + int(missing[end]) / burst.pps for end in (0, -1)]
    start = min(b.isg for b in load.bursts) / 1e6
    return {
        "first_lost_s": min(times) - start if times else None,
        "last_lost_s": max(times) - start if times else None,
        "longest_gap_s": reader.longest_gap_s,
    }


def find_recording_fault(
    reader: CaptureReader, counted: DirectionResult, direction: str
) -> list[str]:
    """Return a fault if a recording lacks frames that arrived."""
    arrived = sum(c.received + c.surplus + c.late for c in counted.classes.values())
    if reader.frames >= arrived:
        return []
    return [f"{direction}: TRex recorded {reader.frames} of {arrived} frames that arrived"]


def _compute_start_s(reader: CaptureReader, number: int, burst: Burst, ticks_hz: float) -> float:
    """Return the time at which a burst began, computed from its first captured frame [s]."""
    stamps = reader.select_columns([number])
    first = int(stamps.sequence.argmin())
    return float(stamps.departed_ticks[first] / ticks_hz - stamps.sequence[first] / burst.pps)


def match_bursts_by_time(
    reader: CaptureReader, by_number: Mapping[int, Burst], load: OfferedLoad, ticks_hz: float
) -> dict[int, Burst]:
    """Return the burst of each stream number, chosen by start time from the bursts of its class."""
    began_s = {n: _compute_start_s(reader, n, b, ticks_hz) for n, b in by_number.items()}
    start_s = min(began_s.values(), default=0.0)
    start_us = min(b.isg for b in load.bursts)
    matches = {}
    for number, burst in by_number.items():
        at_us = start_us + 1e6 * (began_s[number] - start_s)
        twins = [b for b in load.bursts if load.find_stream(b).name == load.find_stream(burst).name]
        matches[number] = twins[int(np.argmin([abs(b.isg - at_us) for b in twins]))]
    return matches


def measure_rate_change_error_s(
    reader: CaptureReader, by_number: Mapping[int, Burst], load: OfferedLoad, ticks_hz: float
) -> float | None:
    """Measure the error of the time at which the second rate began [s], or None if unknown."""
    classes: dict[str, list[tuple[Burst, float]]] = {}
    for number, burst in sorted(by_number.items(), key=lambda one: one[1].isg):
        if number < MARK_IDS and number in reader.samples:
            began_s = _compute_start_s(reader, number, burst, ticks_hz)
            classes.setdefault(load.find_stream(burst).name, []).append((burst, began_s))
    errors = [
        second_s - first_s - (second.isg - first.isg) / 1e6
        for (first, first_s), (second, second_s) in (c for c in classes.values() if len(c) == 2)
    ]
    return max(errors, key=abs, default=None)
