"""Order statistics: nearest-rank percentiles, and the confidence interval of the median.

The interval is distribution-free: the probability that the median lies between the k-th smallest and
the k-th largest of n values depends on n and k only. For six values, ``[min, max]`` covers the median
with 96.9 %; for twenty values, ranks 6 to 15 cover it with 95.9 %.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass


def find_nearest_rank(percent: float, count: int) -> int:
    """Return the rank, from 1, of a percentile: ``ceil(p/100 * n)`` (RFC 2330, section 11.3).

    Raises:
        ValueError: the percentage is outside 0..100.
    """
    if not 0 <= percent <= 100:
        raise ValueError(f"percentile {percent:g}: must be from 0 to 100")
    # integer arithmetic: 0.99 * 200 is 198.00000000000003 in floating point
    return max(1, -(-round(percent * 1_000_000) * count // 100_000_000))


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the nearest-rank percentile; infinite values (lost frames) rank last.

    Raises:
        ValueError: values are missing, or the percentage is outside 0..100.
    """
    if not values:
        raise ValueError("a percentile needs at least one value")
    return sorted(values)[find_nearest_rank(percent, len(values)) - 1]


@dataclass(frozen=True)
class OrderStatisticInterval:
    """Confidence interval of a median."""

    low: float  # lower end, one of the values
    high: float  # upper end, one of the values
    coverage: float  # probability that the interval contains the median
    ranks: tuple[int, int]  # ranks of the two values in ascending order, from 1

    @property
    def relative_width(self) -> float | None:
        """Width as a share of the interval's center; None if that is 0 or infinite."""
        center = (self.low + self.high) / 2
        return (self.high - self.low) / center if center and math.isfinite(center) else None


def compute_median_interval(
    values: Sequence[float], confidence: float = 0.95
) -> OrderStatisticInterval | None:
    """Return the narrowest symmetric interval of order statistics with at least this coverage.

    Returns:
        The interval, or None if there are too few values (fewer than 6 for 95 %).
    """
    count, ordered = len(values), sorted(values)
    tail = 0  # combinations in which fewer than `rank` values lie below the median
    interval: OrderStatisticInterval | None = None
    for rank in range(1, count // 2 + 1):
        tail += math.comb(count, rank - 1)
        coverage = 1 - 2 * tail / 2**count
        if coverage < confidence:
            break
        ends = ordered[rank - 1], ordered[count - rank]
        interval = OrderStatisticInterval(*ends, coverage, (rank, count - rank + 1))
    return interval
