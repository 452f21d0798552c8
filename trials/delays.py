"""Many measured times in little room: distinct values and how often each occurred.

A tester hands over delays (and differences of delays) in this form, whether it timed fifty
thousand tagged frames or every frame of a minute at line rate. Values are whole nanoseconds. They
may be exact or put into buckets by :func:`bucket_ns`; ranks are taken over frames either way, so
memory grows with the spread of the values and not with the number of frames (PDV-03).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

BUCKET_BITS = 10
"""Buckets are at most one part in ``2**BUCKET_BITS`` wide."""


def bucket_ns(value_ns: int, bits: int = BUCKET_BITS) -> int:
    """Middle of the bucket a value falls into; exact below ``2**(bits + 1)``.

    The error is at most one part in ``2**(bits + 1)`` of the value. Negative values (differences
    of delays) mirror positive ones.
    """
    size = abs(value_ns)
    shift = max(0, size.bit_length() - bits - 1)
    middle = (size >> shift << shift) + (1 << shift >> 1)
    return middle if value_ns >= 0 else -middle


@dataclass(frozen=True)
class Distribution:
    """Measured times of many frames.

    Attributes:
        values_ns: distinct values, ascending, whole nanoseconds.
        counts: how many frames had each, positive, as long as ``values_ns``.
        lost: frames that should have a value and have none. In delays: frames that were sent and
            did not return in time; they rank as infinitely late (LAT-05, PDV-02). In differences
            of delays: pairs with a lost member; they are left out of the ranks (IPDV-02).
        clamped: negative delays that were counted as 0: the clocks disagree (PDV-02).
    """

    values_ns: tuple[int, ...]
    counts: tuple[int, ...]
    lost: int = 0
    clamped: int = 0

    @classmethod
    def of(
        cls,
        values_ns: Iterable[int] | Mapping[int, int],
        *,
        lost: int = 0,
        clamped: int = 0,
    ) -> Distribution:
        """From values, or from a mapping of values to counts; kept as exact as they are given."""
        counts = Counter(values_ns)
        ordered = tuple(sorted(v for v, n in counts.items() if n))
        return cls(ordered, tuple(counts[v] for v in ordered), lost, clamped)

    @property
    def frames(self) -> int:
        """Frames with a value."""
        return sum(self.counts)

    @property
    def minimum_ns(self) -> float:
        """Smallest value; infinity if there is none."""
        return self.values_ns[0] if self.values_ns else math.inf

    @property
    def maximum_ns(self) -> float:
        """Largest value that was measured; infinity if there is none. Lost frames aside."""
        return self.values_ns[-1] if self.values_ns else math.inf

    def percentile_ns(self, percent: float, *, with_lost: bool = True) -> float:
        """Nearest-rank percentile ``x[ceil(p/100 * n) - 1]`` (RFC 2330 section 11.3; GEN-18).

        Args:
            percent: 0 to 100.
            with_lost: lost frames take part and rank last.

        Returns:
            The value [ns]; infinity where the rank falls on a lost frame or there are no frames.
        """
        if not 0 <= percent <= 100:
            raise ValueError("a percentage is from 0 to 100")
        total = self.frames + (self.lost if with_lost else 0)
        # whole numbers decide the rank: 0.999 * 50000 need not be 49950 in floating point
        return self.ranked_ns(max(1, -(-round(percent * 1_000_000) * total // 100_000_000)))

    def median_ns(self, *, with_lost: bool = True) -> float:
        """Middle value, the mean of the two middle ones of an even number (GEN-18)."""
        total = self.frames + (self.lost if with_lost else 0)
        if total % 2:
            return self.ranked_ns((total + 1) // 2)
        low, high = self.ranked_ns(total // 2), self.ranked_ns(total // 2 + 1)
        return math.inf if math.isinf(high) else (low + high) / 2

    def ranked_ns(self, rank: int) -> float:
        """The value of a rank, from 1; infinity beyond the measured ones."""
        if rank < 1:
            return math.inf
        for value, count in zip(self.values_ns, self.counts, strict=True):
            rank -= count
            if rank <= 0:
                return value
        return math.inf

    def merged(self, *others: Distribution) -> Distribution:
        """All together."""
        counts: Counter[int] = Counter()
        for part in (self, *others):
            for value, frames in zip(part.values_ns, part.counts, strict=True):
                counts[value] += frames
        ordered = tuple(sorted(counts))
        return Distribution(
            ordered,
            tuple(map(counts.__getitem__, ordered)),
            self.lost + sum(other.lost for other in others),
            self.clamped + sum(other.clamped for other in others),
        )

    def to_json(self) -> dict[str, Any]:
        """JSON-like values, the inverse of :meth:`from_json`."""
        return {
            "ns": list(self.values_ns),
            "n": list(self.counts),
            "lost": self.lost,
            "clamped": self.clamped,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Distribution:
        """Read back what :meth:`to_json` wrote."""
        return cls(tuple(data["ns"]), tuple(data["n"]), data["lost"], data["clamped"])


def differences(delays_ns: Iterable[int | None]) -> Distribution:
    """IPDV: ``D(i) - D(i-1)`` over consecutive frames in sending order (RFC 8219 7.3.2; IPDV-01).

    Args:
        delays_ns: delay of each frame in the order of sending; None for a lost frame. Pairs with
            a lost member are skipped and counted as ``lost`` (IPDV-02).
    """
    counts: Counter[int] = Counter()
    skipped = 0
    before: int | None = None
    first = True
    for delay in delays_ns:
        if not first:
            if delay is None or before is None:
                skipped += 1
            else:
                counts[bucket_ns(delay - before)] += 1
        before, first = delay, False
    return Distribution.of(counts, lost=skipped)
