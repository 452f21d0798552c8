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
from collections.abc import Iterator
from dataclasses import dataclass

from v6t.base.errors import TesterError

_COMPRESSED = 0x1C849304
_PLAIN = 0x1C849303
_COOKIE_MASK = ~0xF0
"""The word size stands in four bits of the cookie and does not matter in V2."""


@dataclass(frozen=True)
class Histogram:
    """Counts per bucket.

    Attributes:
        buckets: ``(low, high, count)`` of every non-empty bucket, ascending: values from ``low``
            up to and including ``high`` in the histogram's unit (TRex: microseconds).
    """

    buckets: tuple[tuple[int, int, int], ...]

    @property
    def total(self) -> int:
        """Number of values."""
        return sum(count for _, _, count in self.buckets)

    def below(self, limit: int) -> int:
        """Values certainly not above ``limit``."""
        return sum(count for _, high, count in self.buckets if high <= limit)

    def merged(self, other: Histogram) -> Histogram:
        """Both together."""
        counts: dict[tuple[int, int], int] = {}
        for low, high, count in (*self.buckets, *other.buckets):
            counts[low, high] = counts.get((low, high), 0) + count
        return Histogram(tuple((low, high, n) for (low, high), n in sorted(counts.items())))

    def without_highest(self, number: int) -> Histogram:
        """All but so many of the largest values."""
        buckets = []
        for low, high, count in reversed(self.buckets):
            gone = min(number, count)
            number -= gone
            if count > gone:
                buckets.append((low, high, count - gone))
        return Histogram(tuple(reversed(buckets)))

    def nearest_rank(self, percent: float) -> int:
        """Percentile by nearest rank: the upper edge of the bucket that holds it.

        Raises:
            ValueError: the histogram is empty.
        """
        total = self.total
        if not total:
            raise ValueError("an empty histogram has no percentile")
        rank = max(1, -(-round(percent * total * 1e6) // 100_000_000))
        seen = 0
        for _, high, count in self.buckets:
            seen += count
            if seen >= rank:
                return high
        return self.buckets[-1][1]


def decode(text: str) -> Histogram:
    """Read a histogram.

    Raises:
        TesterError: the text is no such histogram.
    """
    try:
        return _decode(base64.b64decode(text))
    except (binascii.Error, struct.error, zlib.error, IndexError, ValueError) as exc:
        raise TesterError("TRex sent a delay histogram that cannot be read") from exc


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
    for number in _zigzag(body[40 : 40 + octets]):
        if number < 0:
            index -= number
            continue
        if number:
            buckets.append((*_edges(index, half_bits, unit_bits), number))
        index += 1
    return Histogram(tuple(buckets))


def _edges(index: int, half_bits: int, unit_bits: int) -> tuple[int, int]:
    """Lowest and highest value of a bucket."""
    bucket = (index >> half_bits) - 1
    sub = (index & ((1 << half_bits) - 1)) + (1 << half_bits)
    if bucket < 0:
        sub -= 1 << half_bits
        bucket = 0
    low = sub << (bucket + unit_bits)
    return low, low + (1 << (bucket + unit_bits)) - 1


def _zigzag(data: bytes) -> Iterator[int]:
    """Numbers of a LEB128 stream of at most nine octets each."""
    at = 0
    while at < len(data):
        value = shift = 0
        while True:
            octet = data[at]
            at += 1
            if shift == 56:  # the ninth octet holds eight bits
                value |= octet << shift
                break
            value |= (octet & 0x7F) << shift
            shift += 7
            if octet < 0x80:
                break
        yield (value >> 1) ^ -(value & 1)
