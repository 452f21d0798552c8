"""Delay histograms as TRex sends them: HdrHistogram's V2 encoding, compressed, in base64.

The layout is that of the reference implementation's documentation (hdrhistogram.github.io): an outer cookie
and a zlib stream; inside a 40-octet header and the counts as ZigZag LEB128 numbers, negative ones being runs
of empty buckets.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from collections.abc import Iterator

from v6t.base.errors import TesterError
from v6t.drivers.trex.client.stats import GroupStats
from v6t.trials.delays import Distribution

_COMPRESSED, _PLAIN = 0x1C849304, 0x1C849303
_COOKIE_MASK = ~0xF0  # Without the word size, which does not matter in V2
NO_DELAYS = Distribution((), ())


def read_delays(group: GroupStats) -> Distribution:
    """Return the delays of a group's received frames."""
    if not group.histogram or not any(group.received.values()):
        return NO_DELAYS
    return decode_histogram(group.histogram)


def decode_histogram(text: str) -> Distribution:
    """Decode a histogram of microseconds, whose buckets count as their middles.

    Raises:
        TesterError: it cannot be read.
    """
    try:
        return _decode(base64.b64decode(text))
    except (binascii.Error, struct.error, zlib.error, IndexError, ValueError) as exc:
        raise TesterError(
            "TRex sent a delay histogram that cannot be read", code="tester-fault"
        ) from exc


def _decode(data: bytes) -> Distribution:
    cookie, length = struct.unpack_from(">ii", data)
    if cookie & _COOKIE_MASK != _COMPRESSED & _COOKIE_MASK:
        raise ValueError("not a compressed histogram")
    body = zlib.decompress(data[8 : 8 + length])
    cookie, octets, _, digits, lowest, _highest, _ratio = struct.unpack_from(">iiiiqqd", body)
    if cookie & _COOKIE_MASK != _PLAIN & _COOKIE_MASK or not 0 <= digits <= 5:
        raise ValueError("not a histogram")
    half_bits = (2 * 10**digits - 1).bit_length() - 1
    unit_bits = max(0, lowest.bit_length() - 1)
    counts = {}
    index = 0
    for number in _decode_zigzag(body[40 : 40 + octets]):
        if number < 0:
            index -= number
            continue
        if number:
            bucket = max(0, (index >> half_bits) - 1)
            shift = bucket + unit_bits
            low = (index - (bucket << half_bits)) << shift
            counts[1000 * low + 500 * ((1 << shift) - 1)] = number
        index += 1
    return Distribution.from_values(counts)


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
