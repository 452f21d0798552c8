"""IPv4 in IPv6 (RFC 2473) for arrays of packets: a new outer header, the inner TTL once less.

The outer traffic class is the inner TOS: DSCP by the uniform model of RFC 2983, ECN in the normal
mode of RFC 6040. What else a right device may write there is told by
:mod:`v6t.packets.header_policy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from v6t.packets.header_policy import combine_ecn
from v6t.packets.headers import (
    IPV4,
    IPV6,
    PROTOCOL_IPIP,
    PROTOCOL_TCP,
    PROTOCOL_UDP,
    decrement_hops,
    read_traffic_class,
    view,
    write_tos,
    write_traffic_class,
)
from v6t.plugins.common.discards import sound

if TYPE_CHECKING:
    from v6t.packets.arrays import U8, Mask

OUTER_HOP_LIMIT = 64
PORTED = (PROTOCOL_UDP, PROTOCOL_TCP)
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
    outer = view(out, IPV6)
    outer["ver_tc_fl"] = 0
    write_traffic_class(outer, view(packets, IPV4)["tos"])
    outer["plen"], outer["nh"], outer["hlim"] = length, PROTOCOL_IPIP, OUTER_HOP_LIMIT
    outer["src_octets"], outer["dst_octets"] = source, destination
    out[:, 40:] = packets
    decrement_hops(out, 4, at=40)
    return out


def decapsulate(packets: U8, *, uniform: bool = False) -> U8:
    """What is in the IPv6 packets, ``(n, length - 40)``, inner TTL one less.

    Args:
        packets: ``(n, length)``, none :func:`unmarkable`.
        uniform: the DSCP is the outer one (RFC 2983 section 3); else the inner one stays.
    """
    inner = packets[:, 40:].copy()
    decrement_hops(inner, 4)
    outer, tos = read_traffic_class(view(packets, IPV6)), view(inner, IPV4)["tos"]
    dscp = (outer if uniform else tos) & np.uint8(_DSCP)
    write_tos(inner, combine_ecn(tos & _ECN, outer & _ECN) | dscp)
    return inner


def unmarkable(packets: U8) -> Mask:
    """Rows whose outer header says CE, but whose inner one is Not-ECT."""
    outer, inner = read_traffic_class(view(packets, IPV6)), view(packets, IPV4, 40)["tos"]
    mask: Mask = (outer & _ECN == _CE) & (inner & _ECN == 0)
    return mask


def carries_udp(packets: U8) -> Mask:
    """Rows that are a whole UDP packet in IPv4 in IPv6, nothing behind it, and may be forwarded."""
    return _carries(packets, (PROTOCOL_UDP,))


def carries_ports(packets: U8) -> Mask:
    """The same of UDP and TCP."""
    return _carries(packets, PORTED)


def _carries(packets: U8, protocols: Sequence[int]) -> Mask:
    count, length = packets.shape
    if length < 68:
        return np.zeros(count, dtype=bool)
    outer = view(packets, IPV6)
    good: Mask = (outer["nh"] == PROTOCOL_IPIP) & (outer["plen"] == length - 40)
    return good & _whole(packets[:, 40:], protocols) & sound(packets[:, 40:], 4)


def is_udp(packets: U8) -> Mask:
    """Rows that are a whole UDP packet in IPv4 without options, nothing behind it."""
    return _whole(packets, (PROTOCOL_UDP,))


def has_ports(packets: U8) -> Mask:
    """The same of UDP and TCP."""
    return _whole(packets, PORTED)


def _whole(packets: U8, protocols: Sequence[int]) -> Mask:
    count, length = packets.shape
    if length < 28:
        return np.zeros(count, dtype=bool)
    header = view(packets, IPV4)
    good: Mask = (header["ver_ihl"] == 0x45) & (header["flags_frag"] & 0x3FFF == 0)
    if len(protocols) == 1:
        good &= header["proto"] == protocols[0]
    else:
        good &= np.isin(header["proto"], protocols)
    if length < 40:  # TCP's header is longer than UDP's
        good &= header["proto"] != PROTOCOL_TCP
    good &= header["len"] == length
    return good
