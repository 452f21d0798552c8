"""How often to repeat: a fixed number, or until the median is known well enough (TP-09).

The confidence interval of the median is the distribution-free one of order statistics: between
the k-th smallest and the k-th largest of n values lies the median with a probability that depends
on n and k alone. Six values give ``[min, max]`` 96.9 %; of twenty, ranks 6 to 15 give 95.9 %.
Looking after every repetition and stopping at the first narrow interval makes the true coverage
somewhat smaller than the stated one; a result says that it was adaptive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from v6t.trials.order_statistics import median_interval

FEWEST = 6
"""Below six values no distribution-free interval reaches 95 %."""


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
