"""Number of repetitions: fixed, or until the confidence interval of the median is narrow."""

from collections.abc import Sequence
from dataclasses import dataclass

from v6t.trials.order_statistics import compute_median_interval

MIN_ADAPTIVE_REPETITIONS = 6  # fewer values give no distribution-free interval of 95 %


@dataclass(frozen=True)
class AdaptiveLimits:
    """Limits of adaptive repetition."""

    fewest: int = MIN_ADAPTIVE_REPETITIONS  # smallest number of repetitions
    most: int = 50  # largest number of repetitions
    width: float = 0.01  # sufficient relative width of the median's confidence interval
    confidence: float = 0.95  # level of that interval

    def __post_init__(self) -> None:
        """Check the limits."""
        if self.fewest < MIN_ADAPTIVE_REPETITIONS:
            problem = f"adaptive repetition needs at least {MIN_ADAPTIVE_REPETITIONS} repetitions"
            raise ValueError(problem)
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
