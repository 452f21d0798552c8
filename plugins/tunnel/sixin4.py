"""IPv6 in IPv4 (RFC 4213) for arrays of packets: a new outer header, the inner hop limit once less.

The outer TOS is the inner traffic class, as RFC 5969 section 10 asks of 6rd. What else a right
device may write there is told by :mod:`v6t.packets.header_policy`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.header_policy import combine_ecn
from v6t.packets.headers import (
    IPV4,
    IPV6,
    PROTOCOL_IPV6,
    decrement_hops,
    read_traffic_class,
    view,
    write_traffic_class,
)
from v6t.plugins.common.discards import sound

if TYPE_CHECKING:
    from v6t.packets.arrays import U8, Mask

OUTER_TTL = 64
_OUTER, _INNER = 20, 40
_ECN, _CE = 0x03, 3


def carries_ipv6(packets: U8) -> Mask:
    """Select rows that contain one complete IPv6 packet and may be forwarded.

    The outer IPv4 header has no options, and the packet is not a fragment.
    """
    count, length = packets.shape
    if length < _OUTER + _INNER:
        return np.zeros(count, dtype=bool)
    outer, inner = view(packets, IPV4), view(packets, IPV6, _OUTER)
    good: Mask = (outer["ver_ihl"] == 0x45) & (outer["proto"] == PROTOCOL_IPV6)
    good &= (outer["flags_frag"] & 0x3FFF == 0) & (outer["len"] == length)
    good &= (inner["ver_tc"] >> 4 == 6) & (inner["plen"] == length - _OUTER - _INNER)
    return good & sound(packets[:, _OUTER:], 6)


def encapsulate(packets: U8, source: U8, destination: U8) -> U8:
    """IPv4 packets around IPv6 ones, ``(n, length + 20)``; identification 0, no DF.

    Args:
        packets: ``(n, length)``, hop limit above 1.
        source: ``(n, 4)`` or ``(4,)`` outer address.
        destination: likewise.
    """
    count, length = packets.shape
    out = np.empty((count, _OUTER + length), dtype=np.uint8)
    outer = view(out, IPV4)
    outer["ver_ihl"], outer["tos"] = 0x45, read_traffic_class(view(packets, IPV6))
    outer["len"], outer["id"], outer["flags_frag"] = _OUTER + length, 0, 0
    outer["ttl"], outer["proto"] = OUTER_TTL, PROTOCOL_IPV6
    outer["src_octets"], outer["dst_octets"] = source, destination
    write_ipv4_checksum(out, 0, _OUTER)
    out[:, _OUTER:] = packets
    decrement_hops(out, 6, at=_OUTER)
    return out


def decapsulate(packets: U8) -> U8:
    """What is in the IPv4 packets, ``(n, length - 20)``, hop limit one less.

    Args:
        packets: ``(n, length)``, none :func:`unmarkable`.
    """
    out = packets[:, _OUTER:].copy()
    decrement_hops(out, 6)
    inner, outer_ecn = view(out, IPV6), view(packets, IPV4)["tos"] & _ECN
    old = read_traffic_class(inner)
    write_traffic_class(inner, (old & ~np.uint8(_ECN)) | combine_ecn(old & _ECN, outer_ecn))
    return out


def unmarkable(packets: U8) -> Mask:
    """Rows whose outer header says CE, but whose inner one is Not-ECT (RFC 6040 section 4.2)."""
    inner = read_traffic_class(view(packets, IPV6, _OUTER))
    mask: Mask = (view(packets, IPV4)["tos"] & _ECN == _CE) & (inner & _ECN == 0)
    return mask
