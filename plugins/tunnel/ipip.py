"""IPv4 in IPv6 (RFC 2473) for arrays of packets: a new outer header, the inner TTL once less.

The outer traffic class is the inner TOS: DSCP by the uniform model of RFC 2983, ECN in the normal
mode of RFC 6040. What else a right device may write there is told by
:mod:`v6t.packets.header_policy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from v6t.packets.header_policy import combined_ecn
from v6t.packets.inet import PROTOCOL_TCP
from v6t.plugins.common.discards import sound
from v6t.plugins.common.octets import UDP, decrement_ttl, set_tos, u16

if TYPE_CHECKING:
    from v6t.packets.arrays import U8, Mask

OUTER_HOP_LIMIT = 64
IPIP = 4
PORTED = (UDP, PROTOCOL_TCP)
"""Transports with ports."""
UNMARKABLE = "congestion mark on a packet that is not ECN-capable"
"""Why RFC 6040 section 4.2 has such packets dropped: nothing could carry the mark on."""
_ECN, _DSCP = 0x03, 0xFC
_CE = 3


def encapsulate(packets: U8, source: U8, destination: U8) -> U8:
    """IPv6 packets around IPv4 ones.

    Args:
        packets: ``(n, length)``, TTL above 1.
        source: ``(n, 16)`` or ``(16,)`` outer address.
        destination: likewise.

    Returns:
        ``(n, length + 40)``; the traffic class is the TOS, the flow label 0.
    """
    count, length = packets.shape
    out = np.empty((count, 40 + length), dtype=np.uint8)
    out[:, :8] = (0x60, 0, 0, 0, length >> 8, length & 255, IPIP, OUTER_HOP_LIMIT)
    out[:, 0] |= packets[:, 1] >> 4
    out[:, 1] = packets[:, 1] << 4
    out[:, 8:24] = source
    out[:, 24:40] = destination
    out[:, 40:] = packets
    decrement_ttl(out[:, 40:])
    return out


def decapsulate(packets: U8, *, uniform: bool = False) -> U8:
    """What is in the IPv6 packets, ``(n, length - 40)``, inner TTL one less.

    Args:
        packets: ``(n, length)``, none :func:`unmarkable`.
        uniform: the DSCP is the outer one (RFC 2983 section 3); else the inner one stays.
    """
    inner = packets[:, 40:].copy()
    decrement_ttl(inner)
    outer = _traffic_class(packets)
    own = inner[:, 1]
    set_tos(inner, combined_ecn(own & _ECN, outer & _ECN) | (outer if uniform else own) & _DSCP)
    return inner


def unmarkable(packets: U8) -> Mask:
    """Rows whose outer header says CE, but whose inner one is Not-ECT."""
    mask: Mask = (_traffic_class(packets) & _ECN == _CE) & (packets[:, 41] & _ECN == 0)
    return mask


def _traffic_class(packets: U8) -> U8:
    octets: U8 = (packets[:, 0] << 4 | packets[:, 1] >> 4).astype(np.uint8)
    return octets


def carries_udp(packets: U8) -> Mask:
    """Rows that are a whole UDP packet in IPv4 in IPv6, nothing behind it, and may be forwarded."""
    return _carries(packets, (UDP,))


def carries_ports(packets: U8) -> Mask:
    """The same of UDP and TCP."""
    return _carries(packets, PORTED)


def _carries(packets: U8, protocols: Sequence[int]) -> Mask:
    count, length = packets.shape
    if length < 68:
        return np.zeros(count, dtype=bool)
    good: Mask = (packets[:, 6] == IPIP) & (u16(packets[:, 4:6]) == length - 40)
    return good & _whole(packets[:, 40:], protocols) & sound(packets[:, 40:], 4)


def is_udp(packets: U8) -> Mask:
    """Rows that are a whole UDP packet in IPv4 without options, nothing behind it."""
    return _whole(packets, (UDP,))


def has_ports(packets: U8) -> Mask:
    """The same of UDP and TCP."""
    return _whole(packets, PORTED)


def _whole(packets: U8, protocols: Sequence[int]) -> Mask:
    count, length = packets.shape
    if length < 28:
        return np.zeros(count, dtype=bool)
    good: Mask = (packets[:, 0] == 0x45) & np.isin(packets[:, 9], protocols)
    good &= (packets[:, 6] & 0x3F == 0) & (packets[:, 7] == 0)
    if length < 40:  # TCP's header is longer than UDP's
        good &= packets[:, 9] != PROTOCOL_TCP
    mask: Mask = good & (u16(packets[:, 2:4]) == length)
    return mask
