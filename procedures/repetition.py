"""Number of repetitions: fixed, or until the confidence interval of the median is narrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from v6t.trials.order_statistics import compute_median_interval

MIN_ADAPTIVE_REPETITIONS = 6
"""Below six values no distribution-free interval reaches 95 %."""


@dataclass(frozen=True)
class Adaptive:
    """Limits of adaptive repetition.

    Attributes:
        fewest: repetitions at least, never below :data:`MIN_ADAPTIVE_REPETITIONS`.
        most: repetitions at most.
        width: relative width of the median's confidence interval that is good enough.
        confidence: its coverage.
    """

    fewest: int = MIN_ADAPTIVE_REPETITIONS
    most: int = 50
    width: float = 0.01
    confidence: float = 0.95

    def __post_init__(self) -> None:
        """Check the limits.

        Raises:
            ValueError: fewer than six repetitions, bounds the wrong way, shares out of range.
        """
        if self.fewest < MIN_ADAPTIVE_REPETITIONS:
            raise ValueError(
                f"adaptive repetition needs at least {MIN_ADAPTIVE_REPETITIONS} repetitions"
            )
        if self.most < self.fewest:
            raise ValueError("the most repetitions cannot be below the fewest")
        if not 0 < self.width < 1 or not 0.5 <= self.confidence < 1:
            raise ValueError("width and confidence of adaptive repetition are shares below 1")

    def can_stop(self, values: Sequence[float]) -> bool:
        """Check whether the median of the values is known well enough."""
        if len(values) < self.fewest:
            return False
        if len(values) >= self.most:
            return True
        interval = compute_median_interval(values, self.confidence)
        width = interval.relative_width if interval else None
        return width is not None and width <= self.width
