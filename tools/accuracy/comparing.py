"""Compare a tester's results with the true behaviour of the known device; no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from v6t.drivers.delays import make_distribution
from v6t.tools.accuracy.checks import Check
from v6t.tools.accuracy.record import POINTS, Capacity, Counted, Paced, Timed
from v6t.trials.delays import Distribution

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.tools.accuracy.known_device import Truth
    from v6t.trials.result import DirectionResult
    from v6t.trials.trial import Trial


def counted(check: Check, trial: Trial, result: DirectionResult, truth: Truth) -> Counted:
    """Compare counted losses, duplicates or reordered frames with the truth."""
    done = {"loss": truth.lost, "duplicates": truth.doubled, "reordering": truth.reordered}
    sent = result.count_frames("sent")
    read = {
        "loss": sent - result.count_frames("received"),
        "duplicates": result.count_frames("surplus"),
        "reordering": result.count_frames("out_of_order"),
    }
    known = check.known
    return Counted(
        kind=check.kind,
        every=known.lose_every or known.duplicate_every or known.reorder_every,
        rate=trial.rate_fps,
        frames=sent,
        true=done[check.kind],
        read=read[check.kind],
    )


def timed(check: Check, trial: Trial, result: DirectionResult, truth: Truth) -> Timed:
    """Compare measured delays of the tagged frames with the truth.

    Raises:
        ValueError: the tester timed nothing.
    """
    read = Distribution.merge((result.delays or {}).values())
    differences = Distribution.merge((result.ipdv or {}).values())
    if not read.frames:
        raise ValueError("the tester timed no frame")
    stayed = truth.stayed_ns
    request = trial.delays
    tags = request.tags if request is not None else 0
    if tags:
        places = np.array(trial.tag_positions, dtype=np.int64)
        stayed = stayed[np.isin(truth.sent, places)]
    pairs = differences.frames
    return Timed(
        what=check.words,
        rate=trial.rate_fps,
        tagged=bool(tags),
        true_frames=len(stayed),
        read_frames=read.frames,
        true=_quantiles(make_distribution(stayed)),
        read=_quantiles(read),
        ipdv_true=_quantiles(distribution_of_pairs(truth)) if pairs else None,
        ipdv_read=_quantiles(differences) if pairs else None,
    )


def distribution_of_pairs(truth: Truth) -> Distribution:
    """Compute the exact true differences of consecutive delays."""
    order = np.argsort(truth.sent, kind="stable")
    numbers, stayed = truth.sent[order], truth.stayed_ns[order]
    pairs = np.diff(stayed)[np.diff(numbers) == 1]
    return Distribution.from_values(pairs.tolist())


def paced(check: Check, done: Sequence[tuple[Trial, DirectionResult, Truth]]) -> Paced:
    """Return the rate, the sending time and the evenness of the frames of several trials."""
    ppm: list[float] = []
    sending: list[float] = []
    late: list[NDArray[np.float64]] = []
    error_us = 0.0
    for trial, result, truth in done:
        at = truth.arrived_ns
        span_s = float(at[-1] - at[0]) / 1e9
        true_fps = (len(at) - 1) / span_s
        ppm.append(round((true_fps / trial.rate_fps - 1) * 1e6, 1))
        slot_s = 1 / trial.rate_fps
        sending.append(round((result.sending_time_s - span_s - slot_s) * 1e6, 1))
        error_us = max(error_us, (result.sending_time_error_s or 0.0) * 1e6)
        due = np.arange(len(at)) * (slot_s * 1e9)
        off = at - at[0] - due
        late.append(off - off.min())
    return Paced(
        rate=check.rate_fps,
        frames=check.frames,
        rate_ppm=ppm,
        sending_us=sending,
        said_error_us=round(error_us, 1),
        late_us=_of_array(np.concatenate(late)),
    )


def capacity(check: Check, found_fps: float, duration_s: float, resolution_fps: float) -> Capacity:
    """Compare with a token bucket: n evenly spaced frames need n - depth - buffer tokens in time T."""
    known = check.known
    spare = known.depth_frames - 1 + known.buffer_frames
    return Capacity(
        capacity=known.capacity_fps,
        depth=known.depth_frames,
        buffer=known.buffer_frames,
        duration_s=duration_s,
        expected=round(known.capacity_fps + spare / duration_s, 1),
        found=round(found_fps, 1),
        resolution=round(resolution_fps, 1),
    )


def _quantiles(distribution: Distribution) -> Mapping[str, float]:
    figures = {
        name: distribution.minimum_ns
        if not percent
        else distribution.percentile_ns(percent, include_lost=False)
        for name, percent in POINTS.items()
    }
    figures["max"] = distribution.maximum_ns
    return {name: round(value / 1000, 2) for name, value in figures.items()}


def _of_array(late_ns: NDArray[np.float64]) -> Mapping[str, float]:
    return _quantiles(make_distribution(np.rint(late_ns).astype(np.int64)))
