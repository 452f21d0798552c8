"""Delay distributions in little memory: distinct values and how often each occurred.

Values are whole nanoseconds, either exact or rounded to one part in a thousand. Ranks are taken over
frames, so memory grows with the spread of the values and not with the number of frames.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from v6t.trials.order_statistics import find_nearest_rank


@dataclass(frozen=True)
class Distribution:
    """Measured times of many frames."""

    values_ns: tuple[int, ...]  #: distinct values, ascending [ns]
    counts: tuple[int, ...]  #: number of frames with each value
    lost: int = 0
    """frames without a value. Delays: frames that did not return in time; they rank as infinitely late.
    Differences of delays: pairs with a lost member; they have no rank."""
    clamped: int = 0  #: negative delays counted as 0, because clocks disagree

    @classmethod
    def from_values(
        cls, values_ns: Iterable[int] | Mapping[int, int], *, lost: int = 0, clamped: int = 0
    ) -> Distribution:
        """Count values; a mapping has the count of each value."""
        counts = Counter(values_ns)
        ordered = tuple(sorted(v for v, n in counts.items() if n))
        return cls(ordered, tuple(counts[v] for v in ordered), lost, clamped)

    @classmethod
    def merge(cls, parts: Iterable[Distribution]) -> Distribution:
        """Return the distribution of all frames of several distributions."""
        counts: Counter[int] = Counter()
        lost = clamped = 0
        for part in parts:
            counts.update(dict(zip(part.values_ns, part.counts, strict=True)))
            lost, clamped = lost + part.lost, clamped + part.clamped
        return cls.from_values(counts, lost=lost, clamped=clamped)

    @property
    def frames(self) -> int:
        """Frames with a value."""
        return sum(self.counts)

    @property
    def minimum_ns(self) -> float:
        """Smallest value; infinity without values."""
        return self.values_ns[0] if self.values_ns else math.inf

    @property
    def maximum_ns(self) -> float:
        """Largest measured value, without lost frames; infinity without values."""
        return self.values_ns[-1] if self.values_ns else math.inf

    def percentile_ns(self, percent: float, *, include_lost: bool = True) -> float:
        """Return the nearest-rank percentile (RFC 2330, section 11.3).

        Args:
            percent: 0 to 100.

        Returns:
            The value [ns]; infinity if the rank is that of a lost frame or no frame has a value.
        """
        total = self.frames + (self.lost if include_lost else 0)
        return self.get_value_at_rank_ns(find_nearest_rank(percent, total))

    def median_ns(self, *, include_lost: bool = True) -> float:
        """Return the middle value, or the mean of the two middle values of an even number."""
        total = self.frames + (self.lost if include_lost else 0)
        middle = total // 2
        if total % 2:
            return self.get_value_at_rank_ns(middle + 1)
        return (self.get_value_at_rank_ns(middle) + self.get_value_at_rank_ns(middle + 1)) / 2

    def get_value_at_rank_ns(self, rank: int) -> float:
        """Return the value of a rank, from 1; infinity beyond the measured values."""
        if rank >= 1:
            for value, count in zip(self.values_ns, self.counts, strict=True):
                rank -= count
                if rank <= 0:
                    return value
        return math.inf
