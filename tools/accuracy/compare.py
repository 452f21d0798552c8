"""Compare a tester's results with what really happened at the known device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from v6t.drivers.delays import make_distribution
from v6t.tools.accuracy.checks import Check
from v6t.tools.accuracy.record import POINTS, CapacityRow, CountRow, DelayRow, PaceRow
from v6t.trials.delays import Distribution

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.tools.accuracy.known_device import Truth
    from v6t.trials.result import DirectionResult
    from v6t.trials.trial import Trial


def compare_counts(check: Check, trial: Trial, result: DirectionResult, truth: Truth) -> CountRow:
    """Compare counted losses, duplicates or reordered frames with the actual ones."""
    sent, swapped = result.count_frames("sent"), [c.out_of_order for c in result.classes.values()]
    actual, measured = {
        "loss": (truth.lost, sent - result.count_frames("received")),
        "duplicates": (truth.duplicated, result.count_frames("surplus")),
        "reordering": (truth.reordered, None if None in swapped else sum(filter(None, swapped))),
    }[check.kind]
    given = check.impairments
    return CountRow(
        kind=check.kind,
        every=given.lose_every or given.duplicate_every or given.reorder_every,
        rate_fps=trial.rate_fps,
        frames=sent,
        actual=actual,
        measured=measured,
    )


def compare_delays(check: Check, trial: Trial, result: DirectionResult, truth: Truth) -> DelayRow:
    """Compare the measured delays of all frames, or of the tagged ones, with the actual delays.

    Raises:
        ValueError: the tester did not time any frame.
    """
    measured = Distribution.merge((result.delays or {}).values())
    ipdv = Distribution.merge((result.ipdv or {}).values())
    if not measured.frames:
        raise ValueError("the tester did not time any frame")
    delays_ns = truth.delays_ns
    tagged = bool(trial.delays and trial.delays.tags)
    if tagged:
        positions = np.array(trial.tag_positions, dtype=np.int64)
        delays_ns = delays_ns[np.isin(truth.numbers, positions)]
    return DelayRow(
        behaviour=check.description,
        rate_fps=trial.rate_fps,
        tagged=tagged,
        actual_frames=len(delays_ns),
        measured_frames=measured.frames,
        actual=_compute_points(make_distribution(delays_ns)),
        measured=_compute_points(measured),
        ipdv_actual=_compute_points(_compute_actual_ipdv(truth)) if ipdv.frames else None,
        ipdv_measured=_compute_points(ipdv) if ipdv.frames else None,
    )


def _compute_actual_ipdv(truth: Truth) -> Distribution:
    """Compute the differences of the delays of consecutive frames."""
    order = np.argsort(truth.numbers, kind="stable")
    numbers, delays_ns = truth.numbers[order], truth.delays_ns[order]
    return Distribution.from_values(np.diff(delays_ns)[np.diff(numbers) == 1].tolist())


def compare_pace(check: Check, trials: Sequence[tuple[Trial, DirectionResult, Truth]]) -> PaceRow:
    """Compare rate, sending time and spacing of the frames of several trials with their arrivals."""
    rate_error_ppm: list[float] = []
    sending_time_error_us: list[float] = []
    late_ns: list[NDArray[np.float64]] = []
    reported_error_us = 0.0
    for trial, result, truth in trials:
        arrivals_ns = truth.arrivals_ns
        span_s = float(arrivals_ns[-1] - arrivals_ns[0]) / 1e9
        slot_s = 1 / trial.rate_fps
        rate_fps = (len(arrivals_ns) - 1) / span_s
        rate_error_ppm.append(round((rate_fps / trial.rate_fps - 1) * 1e6, 1))
        sending_time_error_us.append(round((result.sending_time_s - span_s - slot_s) * 1e6, 1))
        reported_error_us = max(reported_error_us, (result.sending_time_error_s or 0.0) * 1e6)
        due_ns = np.arange(len(arrivals_ns)) * (slot_s * 1e9)
        offset_ns = arrivals_ns - arrivals_ns[0] - due_ns
        late_ns.append(offset_ns - offset_ns.min())
    late = make_distribution(np.rint(np.concatenate(late_ns)).astype(np.int64))
    return PaceRow(
        rate_fps=check.rate_fps,
        frames=check.frames,
        rate_error_ppm=rate_error_ppm,
        sending_time_error_us=sending_time_error_us,
        reported_error_us=round(reported_error_us, 1),
        late_us=_compute_points(late),
    )


def compare_capacity(
    check: Check, measured_fps: float, duration_s: float, resolution_fps: float
) -> CapacityRow:
    """Compare a throughput with that of the token bucket.

    In time T, n evenly spaced frames need n - depth - buffer tokens.
    """
    bucket = check.impairments
    spare = bucket.depth_frames - 1 + bucket.buffer_frames
    return CapacityRow(
        capacity_fps=bucket.capacity_fps,
        depth=bucket.depth_frames,
        buffer=bucket.buffer_frames,
        duration_s=duration_s,
        expected_fps=round(bucket.capacity_fps + spare / duration_s, 1),
        measured_fps=round(measured_fps, 1),
        resolution_fps=round(resolution_fps, 1),
    )


def _compute_points(distribution: Distribution) -> Mapping[str, float]:
    """Return the values at ``POINTS`` and the maximum [us]."""
    values = {
        name: distribution.percentile_ns(percent, include_lost=False)
        if percent
        else distribution.minimum_ns
        for name, percent in POINTS.items()
    }
    values["max"] = distribution.maximum_ns
    return {name: round(value / 1000, 2) for name, value in values.items()}
