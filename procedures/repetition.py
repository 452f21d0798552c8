"""How often to repeat: a fixed number, or until the median is known well enough (TP-09).

The confidence interval of the median is the distribution-free one of order statistics: between
the k-th smallest and the k-th largest of n values lies the median with a probability that depends
on n and k alone. Six values give ``[min, max]`` 96.9 %; of twenty, ranks 6 to 15 give 95.9 %.
Looking after every repetition and stopping at the first narrow interval makes the true coverage
somewhat smaller than the stated one; a result says that it was adaptive.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

FEWEST = 6
"""Below six values no distribution-free interval reaches 95 %."""


@dataclass(frozen=True)
class MedianInterval:
    """Where the median is.

    Attributes:
        low, high: the interval, two of the values.
        coverage: probability that it holds the median.
        ranks: places of the two values in ascending order, from 1.
    """

    low: float
    high: float
    coverage: float
    ranks: tuple[int, int]

    @property
    def relative_width(self) -> float | None:
        """Width as a share of the middle of the interval; None where that is 0 or infinite."""
        middle = (self.low + self.high) / 2
        return (self.high - self.low) / middle if middle and math.isfinite(middle) else None


def median_interval(values: Sequence[float], confidence: float = 0.95) -> MedianInterval | None:
    """Narrowest symmetric interval of order statistics with at least this coverage.

    Args:
        values: the repetitions' results.
        confidence: coverage asked for.

    Returns:
        None if there are too few values for any interval (fewer than 6 for 95 %).
    """
    count = len(values)
    below = 0  # ways in which fewer than `rank` of the values lie below the median
    interval: MedianInterval | None = None
    ordered = sorted(values)
    for rank in range(1, count // 2 + 1):
        below += math.comb(count, rank - 1)
        coverage = 1 - 2 * below / 2**count
        if coverage < confidence:
            break
        interval = MedianInterval(
            ordered[rank - 1], ordered[count - rank], coverage, (rank, count - rank + 1)
        )
    return interval


@dataclass(frozen=True)
class Adaptive:
    """When to stop repeating.

    Attributes:
        fewest: repetitions at least, never below :data:`FEWEST`.
        most: repetitions at most.
        width: relative width of the median's confidence interval that is good enough.
        confidence: its coverage.
    """

    fewest: int = FEWEST
    most: int = 50
    width: float = 0.01
    confidence: float = 0.95

    def __post_init__(self) -> None:
        """Refuse what cannot work.

        Raises:
            ValueError: fewer than six repetitions, bounds the wrong way, shares out of range.
        """
        if self.fewest < FEWEST:
            raise ValueError(f"adaptive repetition needs at least {FEWEST} repetitions")
        if self.most < self.fewest:
            raise ValueError("the most repetitions cannot be below the fewest")
        if not 0 < self.width < 1 or not 0.5 <= self.confidence < 1:
            raise ValueError("width and confidence of adaptive repetition are shares below 1")

    def enough(self, values: Sequence[float]) -> bool:
        """Whether these repetitions suffice."""
        if len(values) < self.fewest:
            return False
        if len(values) >= self.most:
            return True
        interval = median_interval(values, self.confidence)
        width = interval.relative_width if interval else None
        return width is not None and width <= self.width


def enough(values: Sequence[float], repetitions: int, adaptive: Adaptive | None) -> bool:
    """Whether no further repetition is needed."""
    return adaptive.enough(values) if adaptive else len(values) >= repetitions
