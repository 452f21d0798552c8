"""Arrays of delays as the distributions a trial's result carries."""

from collections.abc import Sequence

import numpy as np
from v6t.packets.arrays import I64
from v6t.trials.delays import Distribution

BUCKET_BITS = 10  # buckets are at most one part in ``2**BUCKET_BITS`` wide


def make_distribution(delays_ns: I64, *, lost: int = 0) -> Distribution:
    """Make a distribution of one-way delays, negative ones counted as 0."""
    clamped = int(np.count_nonzero(delays_ns < 0))
    return _count_values(np.maximum(delays_ns, 0), lost, clamped)


def compute_ipdv(seq: I64, delays_ns: I64, frames: int) -> Distribution:
    """Compute the IPDV of one class, ``D(i) - D(i-1)`` (RFC 8219, 7.3.2), from its frames in any order.

    Args:
        seq: ``(n,)`` sequence numbers within the class, from 0; of duplicates the first counts.
        delays_ns: ``(n,)`` one-way delays [ns].
        frames: frames of the class that were sent; its ``frames - 1`` pairs are either measured
            or, where a member is lost, counted as ``lost``.
    """
    ordered, first = np.unique(seq, return_index=True)
    pairs = np.diff(delays_ns[first])[np.diff(ordered) == 1]
    return _count_values(pairs, max(0, frames - 1 - len(pairs)), 0)


def round_to_buckets(values_ns: I64) -> I64:
    """Return the middle of the bucket of each value; exact below ``2**(BUCKET_BITS + 1)``.

    The error is at most one part in ``2**(BUCKET_BITS + 1)`` of the value. Buckets of negative values
    (differences of delays) mirror those of positive ones.
    """
    size = np.abs(values_ns)
    # frexp is exact for whole numbers below 2**53, which are 104 days of nanoseconds
    shift = np.maximum(np.frexp(size.astype(np.float64))[1] - BUCKET_BITS - 1, 0).astype(np.int64)
    one = np.int64(1)
    middle = ((size >> shift) << shift) + ((one << shift) >> one)
    middles: I64 = np.where(values_ns < 0, -middle, middle)
    return middles


def _count_values(values: I64, lost: int, clamped: int) -> Distribution:
    """Return the distribution of values, rounded to buckets, with numbers of lost and clamped ones."""
    buckets, counts = np.unique(round_to_buckets(values), return_counts=True)
    return Distribution(tuple(buckets.tolist()), tuple(counts.tolist()), lost, clamped)


def summarize_us(parts: Sequence[I64]) -> dict[str, float] | None:
    """Compute percentiles [µs] of delays [ns] in several arrays, or None without any."""
    if not (count := sum(map(len, parts))):
        return None
    delays = np.sort(np.concatenate(parts))
    ranks = {"min": 1, "p50": -(-count // 2), "p99_9": -(-count * 999 // 1000), "max": count}
    return {name: float(delays[rank - 1]) / 1000 for name, rank in ranks.items()}
