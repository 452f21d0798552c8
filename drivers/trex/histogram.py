"""Delay histograms as TRex sends them: HdrHistogram's V2 encoding, compressed, in base64.

Layout after the reference implementation's documentation (hdrhistogram.github.io): an outer cookie
and a zlib stream; inside a 40-octet header and the counts as ZigZag LEB128 numbers, negative ones
being runs of empty buckets.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from v6t.base.errors import TesterError

_COMPRESSED, _PLAIN = 0x1C849304, 0x1C849303
_COOKIE_MASK = ~0xF0
"""Without the word size, which does not matter in V2."""


@dataclass(frozen=True)
class Histogram:
    """Counts per bucket.

    Attributes:
        buckets: ``(low, high, count)`` of every non-empty bucket, ascending: values from ``low``
            up to and including ``high`` in the histogram's unit (TRex: microseconds).
    """

    buckets: tuple[tuple[int, int, int], ...] = ()

    @property
    def total(self) -> int:
        return sum(count for _, _, count in self.buckets)

    def count_below(self, limit: int) -> int:
        """Count the values that are certainly not above ``limit``."""
        return sum(count for _, high, count in self.buckets if high <= limit)

    def without_highest(self, number: int) -> Histogram:
        buckets = []
        for low, high, count in reversed(self.buckets):
            removed = min(number, count)
            number -= removed
            if count > removed:
                buckets.append((low, high, count - removed))
        return Histogram(tuple(reversed(buckets)))

    def nearest_rank(self, percent: float) -> int:
        """Return a percentile by nearest rank: the upper edge of the bucket that holds it."""
        if not self.total:
            raise ValueError("an empty histogram has no percentile")
        rank = max(1, -(-round(percent * self.total * 1e6) // 100_000_000))
        totals = accumulate(count for _, _, count in self.buckets)
        return next(
            high for (_, high, _), total in zip(self.buckets, totals, strict=True) if total >= rank
        )


def merge_histograms(histograms: Iterable[Histogram]) -> Histogram:
    """Return the histogram of the values of all."""
    counts: Counter[tuple[int, int]] = Counter()
    for histogram in histograms:
        for low, high, count in histogram.buckets:
            counts[low, high] += count
    return Histogram(tuple((low, high, n) for (low, high), n in sorted(counts.items())))


def decode_histogram(text: str) -> Histogram:
    """Decode a histogram, or raise TesterError."""
    try:
        return _decode(base64.b64decode(text))
    except (binascii.Error, struct.error, zlib.error, IndexError, ValueError) as exc:
        raise TesterError(
            "TRex sent a delay histogram that cannot be read", code="tester-fault"
        ) from exc


def _decode(data: bytes) -> Histogram:
    cookie, length = struct.unpack_from(">ii", data)
    if cookie & _COOKIE_MASK != _COMPRESSED & _COOKIE_MASK:
        raise ValueError("not a compressed histogram")
    body = zlib.decompress(data[8 : 8 + length])
    cookie, octets, _, digits, lowest, _highest, _ratio = struct.unpack_from(">iiiiqqd", body)
    if cookie & _COOKIE_MASK != _PLAIN & _COOKIE_MASK or not 0 <= digits <= 5:
        raise ValueError("not a histogram")
    half_bits = (2 * 10**digits - 1).bit_length() - 1
    unit_bits = max(0, lowest.bit_length() - 1)
    buckets = []
    index = 0
    for number in _decode_zigzag(body[40 : 40 + octets]):
        if number < 0:
            index -= number
            continue
        if number:
            bucket = max(0, (index >> half_bits) - 1)
            shift = bucket + unit_bits
            low = (index - (bucket << half_bits)) << shift
            buckets.append((low, low + (1 << shift) - 1, number))
        index += 1
    return Histogram(tuple(buckets))


def _decode_zigzag(data: bytes) -> Iterator[int]:
    value = shift = 0
    for octet in data:
        is_ninth = shift == 56  # which holds eight bits
        value |= (octet if is_ninth else octet & 0x7F) << shift
        shift += 7
        if is_ninth or octet < 0x80:
            yield (value >> 1) ^ -(value & 1)
            value = shift = 0
    if shift:
        raise ValueError("cut off")
