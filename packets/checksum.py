"""The Internet checksum (RFC 1071) of octets, and of arrays of frames.

The module imports nothing and runs on Python 3.8: the interpreter of TRex's client receives it as
text. NumPy's types are therefore named by strings.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from v6t.packets.arrays import U8, U32, Mask

_MAX_ADDED_COLUMNS = 20  # up to this number of words, adding columns is faster than reducing rows


def sum_words(octets: bytes) -> int:
    """Return the one's complement sum of 16-bit words; an odd last octet is padded with zero."""
    # 2**16 is 1 modulo 0xFFFF, so the number itself and the sum of its words are congruent;
    # only a number of zeros has the sum 0
    number = int.from_bytes(octets + b"\0" * (len(octets) % 2), "big")
    return number % 0xFFFF or (0xFFFF if number else 0)


def compute_checksum(octets: bytes) -> int:
    """Return the checksum of octets; it is 0 if they contain their own valid checksum."""
    return sum_words(octets) ^ 0xFFFF


def build_pseudo_header(addresses: bytes, length: int, protocol: int) -> bytes:
    """Return the pseudo header that transport checksums cover (RFC 8200, section 8.1), for IPv4 too.

    ``length`` is that of the transport header and its data.
    """
    return addresses + length.to_bytes(4, "big") + protocol.to_bytes(4, "big")


@overload
def fold(total: int) -> int: ...
@overload
def fold(total: U32) -> U32: ...
def fold(total: Any) -> Any:
    """Fold sums below 2^32 to 16 bits; only 0 becomes 0."""
    total = (total & 0xFFFF) + (total >> 16)
    return (total & 0xFFFF) + (total >> 16)


@overload
def update_checksum(checksum: int, before: int, after: int) -> int: ...
@overload
def update_checksum(checksum: U32, before: U32 | int, after: U32 | U8 | int) -> U32: ...
def update_checksum(checksum: Any, before: Any, after: Any) -> Any:
    """Return a checksum after a change of what it covers, given folded sums (RFC 1624, equation 3)."""
    return fold((checksum ^ 0xFFFF) + ((before ^ 0xFFFF) + after)) ^ 0xFFFF


def swap_octets(sums: U32) -> U32:
    """Return the folded sums that the same octets have at an odd offset (RFC 1071)."""
    return sums.astype("u2").byteswap().astype("u4")


def sum_columns(frames: U8, first: int, end: int) -> U32:
    """Return the folded sum ``(n,)`` of octets ``first..end-1``; an odd number is padded with zero."""
    length = end - first
    sums = fold(_sum_native(frames[:, first : end - (length & 1)]))
    if sys.byteorder == "little":
        sums = swap_octets(sums)
    if length & 1:
        sums += frames[:, end - 1].astype("u4") << 8
        sums = fold(sums)
    return sums


def has_valid_sum(headers: U8) -> Mask:
    """Mark rows of ``(n, even length)`` octets that contain their own valid checksum."""
    sums = _sum_native(headers)
    valid: Mask = (sums % 0xFFFF == 0) & (sums > 0)
    return valid


def _sum_native(octets: U8) -> U32:
    """Sum words in the byte order of this machine."""
    words = octets.view("u2")
    if not 0 < words.shape[1] <= _MAX_ADDED_COLUMNS:
        totals: U32 = words.sum(axis=1, dtype="u4")
        return totals
    sums = words[:, 0].astype("u4")
    for column in range(1, words.shape[1]):
        sums += words[:, column]
    return sums


def write_sum(frames: U8, offset: int, sums: U32, *, udp: bool = False) -> None:
    """Write checksums at an offset in ``(n, length)`` frames, given ``(n,)`` sums of what they cover.

    For UDP, 0xFFFF is written instead of 0, which means "not computed" (RFC 768).
    """
    value = fold(sums) ^ 0xFFFF
    if udp:
        value[value == 0] = 0xFFFF
    frames[:, offset : offset + 2].view(">u2")[:, 0] = value


def write_update(
    frames: U8, offset: int, before: U32 | int, after: U32, *, udp: bool = False
) -> None:
    """Update the checksums that :func:`write_sum` wrote; see :func:`update_checksum`."""
    field = frames[:, offset : offset + 2].view(">u2")[:, 0]
    value = update_checksum(field.astype("u4"), before, after)
    if udp:
        value[value == 0] = 0xFFFF
    field[:] = value


def write_ipv4_checksum(frames: U8, offset: int = 0, length: int = 0) -> None:
    """Write valid checksums of the IPv4 headers at an offset; length 0 is read from the first row."""
    frames[:, offset + 10 : offset + 12] = 0
    end = offset + (length or 4 * int(frames[0, offset] & 15))
    write_sum(frames, offset + 10, sum_columns(frames, offset, end))
