"""IPv4/IPv6 header translation of UDP (RFC 7915 sections 4 and 5) for arrays of packets.

Only whole UDP datagrams with a checksum are translated. TTL and hop limit decrease by one. Checksums are
updated, not recomputed (RFC 1624), so a wrong one stays wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from v6t.packets import inet
from v6t.plugins.common.octets import UDP, u16

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.packets.arrays import U8, Mask

DF_FROM = 1261
"""IPv4 packets of so many octets and more leave with Don't Fragment set (RFC 7915 section 5.1)."""
_DF = 0x40


def plain_ipv4(packets: U8) -> Mask:
    """Rows that are UDP in IPv4 without options, whole, with a checksum, nothing behind it."""
    count, length = packets.shape
    if length < 28:
        return np.zeros(count, dtype=bool)
    plain: Mask = (packets[:, 0] == 0x45) & (packets[:, 9] == UDP)
    plain &= (packets[:, 6] & 0xBF == 0) & (packets[:, 7] == 0)
    plain &= u16(packets[:, 2:4]) == length
    plain &= u16(packets[:, 24:26]) == length - 20
    return plain & packets[:, 26:28].any(axis=1)


def plain_ipv6(packets: U8) -> Mask:
    """Rows that are UDP in IPv6 without extension headers, nothing behind it."""
    count, length = packets.shape
    if length < 48:
        return np.zeros(count, dtype=bool)
    plain: Mask = (packets[:, 0] >> 4 == 6) & (packets[:, 6] == UDP)
    plain &= u16(packets[:, 4:6]) == length - 40
    plain &= u16(packets[:, 44:46]) == length - 40
    return plain & packets[:, 46:48].any(axis=1)


def four_to_six(packets: U8, source: U8, destination: U8) -> U8:
    """IPv6 packets of plain IPv4 ones.

    Args:
        packets: ``(n, length)``, all :func:`plain_ipv4`, TTL above 1.
        source: ``(n, 16)`` addresses.
        destination: ``(n, 16)`` addresses.

    Returns:
        ``(n, length + 20)``; traffic class is the TOS, the flow label 0.
    """
    count, length = packets.shape
    out = np.empty((count, length + 20), dtype=np.uint8)
    if not count:
        return out  # of a length that need not hold a header
    out[:, 0] = 0x60 | packets[:, 1] >> 4
    out[:, 1] = packets[:, 1] << 4
    out[:, 2:4] = 0
    out[:, 4:6] = (length - 20 >> 8, length - 20 & 255)
    out[:, 6] = UDP
    out[:, 7] = packets[:, 8] - 1
    out[:, 8:24] = source
    out[:, 24:40] = destination
    out[:, 40:] = packets[:, 20:]
    _update(out[:, 46:48], _sum(packets, 12, 20), _sum(out, 8, 40))
    return out


def six_to_four(packets: U8, source: U8, destination: U8) -> U8:
    """IPv4 packets of plain IPv6 ones.

    Args:
        packets: ``(n, length)``, all :func:`plain_ipv6`, hop limit above 1.
        source: ``(n, 4)`` addresses.
        destination: ``(n, 4)`` addresses.

    Returns:
        ``(n, length - 20)``; identification 0, which a real translator fills in as it likes.
    """
    count, length = packets.shape[0], packets.shape[1] - 20
    out = np.empty((count, length), dtype=np.uint8)
    if not count:
        return out  # of a length that need not hold a header
    out[:, 0] = 0x45
    out[:, 1] = packets[:, 0] << 4 | packets[:, 1] >> 4
    out[:, 2:8] = (length >> 8, length & 255, 0, 0, _DF if length >= DF_FROM else 0, 0)
    out[:, 8] = packets[:, 7] - 1
    out[:, 9] = UDP
    out[:, 12:16] = source
    out[:, 16:20] = destination
    out[:, 20:] = packets[:, 40:]
    inet.finish_ipv4(out, 0)
    _update(out[:, 26:28], _sum(packets, 8, 40), _sum(out, 12, 20))
    return out


def _sum(packets: U8, first: int, end: int) -> NDArray[np.uint32]:
    return inet.fold(inet.ones_complement_sum(packets, first, end))


def _update(field: U8, before: NDArray[np.uint32], after: NDArray[np.uint32]) -> None:
    """A UDP checksum after a change of what it covers (RFC 1624 equation 3), in place."""
    complement = (~u16(field) & np.uint64(0xFFFF)).astype(np.uint32)
    total = inet.fold(complement + (~before & np.uint32(0xFFFF)) + after)
    value = ~total & np.uint32(0xFFFF)
    value[value == 0] = 0xFFFF
    field[:, 0] = value >> 8
    field[:, 1] = value & 0xFF
