"""IPv4 in IPv6 (RFC 2473) for arrays of packets: a fresh outer header, the inner TTL once less."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from v6t.plugins.common.octets import UDP, decrement_ttl, u16

if TYPE_CHECKING:
    from v6t.plugins.common.octets import U8, Mask

OUTER_HOP_LIMIT = 64
IPIP = 4


def encapsulate(packets: U8, source: U8, destination: U8) -> U8:
    """IPv6 packets around IPv4 ones.

    Args:
        packets: ``(n, length)``, TTL above 1.
        source: ``(n, 16)`` or ``(16,)`` outer address.
        destination: likewise.

    Returns:
        ``(n, length + 40)``; traffic class and flow label 0.
    """
    count, length = packets.shape
    out = np.empty((count, 40 + length), dtype=np.uint8)
    out[:, :8] = (0x60, 0, 0, 0, length >> 8, length & 255, IPIP, OUTER_HOP_LIMIT)
    out[:, 8:24] = source
    out[:, 24:40] = destination
    out[:, 40:] = packets
    decrement_ttl(out[:, 40:])
    return out


def decapsulate(packets: U8) -> U8:
    """What is in the IPv6 packets, ``(n, length - 40)``, inner TTL one less."""
    inner = packets[:, 40:].copy()
    decrement_ttl(inner)
    return inner


def carries_udp(packets: U8) -> Mask:
    """Rows that are a whole UDP packet in IPv4 in IPv6, nothing behind it."""
    count, length = packets.shape
    if length < 68:
        return np.zeros(count, dtype=bool)
    good: Mask = (packets[:, 6] == IPIP) & (u16(packets[:, 4:6]) == length - 40)
    return good & is_udp(packets[:, 40:])


def is_udp(packets: U8) -> Mask:
    """Rows that are a whole UDP packet in IPv4 without options, nothing behind it."""
    count, length = packets.shape
    if length < 28:
        return np.zeros(count, dtype=bool)
    good: Mask = (packets[:, 0] == 0x45) & (packets[:, 9] == UDP)
    good &= (packets[:, 6] & 0x3F == 0) & (packets[:, 7] == 0)
    found: Mask = good & (u16(packets[:, 2:4]) == length)
    return found
