"""Order statistics: nearest-rank percentiles, the median and its confidence interval.

The confidence interval of the median is distribution-free: the probability that the median lies
between the k-th smallest and the k-th largest of n values depends on n and k only. For six values,
``[min, max]`` covers the median with 96.9 %; for twenty values, ranks 6 to 15 cover it with 95.9 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


def nearest_rank(percent: float, count: int) -> int:
    """Return the rank, from 1, of a percentile: ``ceil(p/100 * n)`` (RFC 2330, section 11.3).

    Raises:
        ValueError: the percentage is outside 0..100.
    """
    if not 0 <= percent <= 100:
        raise ValueError(f"percentile {percent:g}: must be from 0 to 100")
    # integer arithmetic: 0.99 * 200 is 198.00000000000003 in floating point
    return max(1, -(-round(percent * 1_000_000) * count // 100_000_000))


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the nearest-rank percentile (RFC 2330, section 11.3).

    For up to 99 values the 1st percentile is the minimum and the 99th the maximum. Infinite
    values (lost frames) rank last.

    Raises:
        ValueError: values are missing, or the percentage is outside 0..100.
    """
    if not values:
        raise ValueError("a percentile needs at least one value")
    return sorted(values)[nearest_rank(percent, len(values)) - 1]


def median(values: Sequence[float]) -> float:
    """Return the middle value, or the mean of the two middle values of an even number.

    Raises:
        ValueError: values are missing.
    """
    if not values:
        raise ValueError("a median needs at least one value")
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


@dataclass(frozen=True)
class MedianInterval:
    """Confidence interval of a median.

    Attributes:
        low, high: the ends, two of the values.
        coverage: probability that the interval contains the median.
        ranks: ranks of the two values in ascending order, from 1.
    """

    low: float
    high: float
    coverage: float
    ranks: tuple[int, int]

    @property
    def relative_width(self) -> float | None:
        """Width as a share of the interval's center; None if that is 0 or infinite."""
        center = (self.low + self.high) / 2
        return (self.high - self.low) / center if center and math.isfinite(center) else None


def median_interval(values: Sequence[float], confidence: float = 0.95) -> MedianInterval | None:
    """Return the narrowest symmetric interval of order statistics with at least this coverage.

    Args:
        values: results of the repetitions.
        confidence: coverage required.

    Returns:
        The interval, or None if there are too few values (fewer than 6 for 95 %).
    """
    count = len(values)
    tail = 0  # combinations in which fewer than `rank` values lie below the median
    interval: MedianInterval | None = None
    ordered = sorted(values)
    for rank in range(1, count // 2 + 1):
        tail += math.comb(count, rank - 1)
        coverage = 1 - 2 * tail / 2**count
        if coverage < confidence:
            break
        interval = MedianInterval(
            ordered[rank - 1], ordered[count - rank], coverage, (rank, count - rank + 1)
        )
    return interval
