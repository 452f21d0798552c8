"""IPv6 in IPv4 (RFC 4213) for arrays of packets: a new outer header, the inner hop limit once less.

The outer TOS is the inner traffic class, as RFC 5969 section 10 asks of 6rd. What else a right
device may write there is told by :mod:`v6t.packets.header_policy`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from v6t.packets import inet
from v6t.packets.header_policy import combined_ecn
from v6t.plugins.common.discards import sound
from v6t.plugins.common.octets import u16

if TYPE_CHECKING:
    from v6t.packets.arrays import U8, Mask

OUTER_TTL = 64
IPV6 = 41
_OUTER, _INNER = 20, 40
_ECN, _CE = 0x03, 3


def carries_ipv6(packets: U8) -> Mask:
    """Select rows that contain one complete IPv6 packet and may be forwarded.

    The outer IPv4 header has no options, and the packet is not a fragment.
    """
    count, length = packets.shape
    if length < _OUTER + _INNER:
        return np.zeros(count, dtype=bool)
    good: Mask = (packets[:, 0] == 0x45) & (packets[:, 9] == IPV6)
    good &= (packets[:, 6] & 0x3F == 0) & (packets[:, 7] == 0)
    good &= (u16(packets[:, 2:4]) == length) & (packets[:, _OUTER] >> 4 == 6)
    good &= u16(packets[:, _OUTER + 4 : _OUTER + 6]) == length - _OUTER - _INNER
    return good & sound(packets[:, _OUTER:], 6)


def encapsulate(packets: U8, source: U8, destination: U8) -> U8:
    """IPv4 packets around IPv6 ones, ``(n, length + 20)``; identification 0, no DF.

    Args:
        packets: ``(n, length)``, hop limit above 1.
        source: ``(n, 4)`` or ``(4,)`` outer address.
        destination: likewise.
    """
    count, length = packets.shape
    total = _OUTER + length
    out = np.empty((count, total), dtype=np.uint8)
    out[:, :12] = (0x45, 0, total >> 8, total & 255, 0, 0, 0, 0, OUTER_TTL, IPV6, 0, 0)
    out[:, 1] = _traffic_class(packets)
    out[:, 12:16] = source
    out[:, 16:20] = destination
    inet.finish_ipv4(out, 0)
    out[:, _OUTER:] = packets
    out[:, _OUTER + 7] -= 1
    return out


def decapsulate(packets: U8) -> U8:
    """What is in the IPv4 packets, ``(n, length - 20)``, hop limit one less.

    Args:
        packets: ``(n, length)``, none :func:`unmarkable`.
    """
    inner = packets[:, _OUTER:].copy()
    inner[:, 7] -= 1
    own = _traffic_class(inner)
    traffic_class = (own & ~np.uint8(_ECN)) | combined_ecn(own & _ECN, packets[:, 1] & _ECN)
    inner[:, 0] = 0x60 | traffic_class >> 4
    inner[:, 1] = (traffic_class << 4 & 0xF0) | (inner[:, 1] & 0x0F)
    return inner


def unmarkable(packets: U8) -> Mask:
    """Rows whose outer header says CE, but whose inner one is Not-ECT (RFC 6040 section 4.2)."""
    mask: Mask = packets[:, 1] & _ECN == _CE
    mask &= _traffic_class(packets[:, _OUTER:]) & _ECN == 0
    return mask


def _traffic_class(packets: U8) -> U8:
    octets: U8 = (packets[:, 0] << 4 | packets[:, 1] >> 4).astype(np.uint8)
    return octets
