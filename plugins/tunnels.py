"""Tunnels for arrays of packets: IPv4 in IPv6 (RFC 2473) and IPv6 in IPv4 (RFC 4213).

The outer traffic class is the inner one: DSCP by the uniform model of RFC 2983 (RFC 5969, section 10), ECN in
the normal mode of RFC 6040. The inner TTL or hop limit is decremented. :mod:`v6t.packets.header_policy`
describes what else a correct device may write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.header_policy import combine_ecn
from v6t.packets.headers import (
    IP,
    IPV4,
    IPV6,
    PROTOCOL_IPIP,
    PROTOCOL_IPV6,
    PROTOCOL_TCP,
    PROTOCOL_UDP,
    decrement_hops,
    read_traffic_class,
    view,
    write_tos,
    write_traffic_class,
)
from v6t.plugins.reference_device import is_forwardable

if TYPE_CHECKING:
    from v6t.packets.arrays import U8, Mask

OUTER_HOPS = 64
PORTED = (PROTOCOL_UDP, PROTOCOL_TCP)
"""Transports with ports."""
UNMARKABLE = "congestion mark on a packet that is not ECN-capable"
"""Text of the drop reason for packets that RFC 6040, section 4.2 drops: nothing can carry the mark."""
_ECN, _DSCP, _CE = 0x03, 0xFC, 3


def encapsulate(packets: U8, source: U8, destination: U8) -> U8:
    """Put IPv4 packets into IPv6 with flow label 0.

    Args:
        packets: ``(n, length)``, TTL above 1.
        source: ``(n, 16)`` or ``(16,)`` outer address.
        destination: outer address, as ``source``.

    Returns:
        ``(n, length + 40)``.
    """
    out, outer = _allocate(packets, 6)
    outer["ver_tc_fl"] = 0
    write_traffic_class(outer, view(packets, IPV4)["tos"])
    outer["plen"], outer["nh"], outer["hlim"] = packets.shape[1], PROTOCOL_IPIP, OUTER_HOPS
    outer["src_octets"], outer["dst_octets"] = source, destination
    decrement_hops(out, 4, at=40)
    return out


def encapsulate_ipv6(packets: U8, source: U8, destination: U8) -> U8:
    """Put IPv6 packets into IPv4 with identification 0 and without DF.

    Args:
        packets: ``(n, length)``, hop limit above 1.
        source: ``(n, 4)`` or ``(4,)`` outer address.
        destination: outer address, as ``source``.

    Returns:
        ``(n, length + 20)``.
    """
    out, outer = _allocate(packets, 4)
    outer["ver_ihl"], outer["tos"] = 0x45, read_traffic_class(view(packets, IPV6))
    outer["len"], outer["id"], outer["flags_frag"] = out.shape[1], 0, 0
    outer["ttl"], outer["proto"] = OUTER_HOPS, PROTOCOL_IPV6
    outer["src_octets"], outer["dst_octets"] = source, destination
    write_ipv4_checksum(out, 0, 20)
    decrement_hops(out, 6, at=20)
    return out


def _allocate(packets: U8, version: int) -> tuple[U8, np.ndarray]:
    """Copy packets behind empty outer headers; return them with a view of these headers."""
    count, length = packets.shape
    size = IP[version].itemsize
    out = np.empty((count, size + length), dtype=np.uint8)
    out[:, size:] = packets
    return out, view(out, IP[version])


def decapsulate(packets: U8, *, uniform: bool = False) -> U8:
    """Take IPv4 packets out of IPv6.

    Args:
        packets: ``(n, length)``, none :func:`unmarkable`.
        uniform: the DSCP is the outer one (RFC 2983, section 3), not the inner one.

    Returns:
        ``(n, length - 40)``.
    """
    inner = packets[:, 40:].copy()
    decrement_hops(inner, 4)
    outer, tos = read_traffic_class(view(packets, IPV6)), view(inner, IPV4)["tos"]
    dscp = (outer if uniform else tos) & np.uint8(_DSCP)
    write_tos(inner, combine_ecn(tos & _ECN, outer & _ECN) | dscp)
    return inner


def decapsulate_ipv6(packets: U8) -> U8:
    """Take IPv6 packets out of IPv4.

    Args:
        packets: ``(n, length)``, none :func:`unmarkable`.

    Returns:
        ``(n, length - 20)``.
    """
    inner = packets[:, 20:].copy()
    decrement_hops(inner, 6)
    header, outer_ecn = view(inner, IPV6), view(packets, IPV4)["tos"] & _ECN
    old = read_traffic_class(header)
    write_traffic_class(header, (old & np.uint8(_DSCP)) | combine_ecn(old & _ECN, outer_ecn))
    return inner


def unmarkable(packets: U8, outer_version: int = 6) -> Mask:
    """Select rows whose outer header has CE, but whose inner one is Not-ECT (RFC 6040, section 4.2)."""
    if outer_version == 6:
        outer, inner = read_traffic_class(view(packets, IPV6)), view(packets, IPV4, 40)["tos"]
    else:
        outer, inner = view(packets, IPV4)["tos"], read_traffic_class(view(packets, IPV6, 20))
    mask: Mask = (outer & _ECN == _CE) & (inner & _ECN == 0)
    return mask


def carries_ports(packets: U8, protocols: Sequence[int] = PORTED) -> Mask:
    """Select rows that are IPv4 in IPv6, where :func:`has_ports` holds for the forwardable inner packet."""
    count, length = packets.shape
    if length < 68:
        return np.zeros(count, dtype=bool)
    outer = view(packets, IPV6)
    good: Mask = (outer["nh"] == PROTOCOL_IPIP) & (outer["plen"] == length - 40)
    return good & has_ports(packets[:, 40:], protocols) & is_forwardable(packets[:, 40:], 4)


def carries_udp(packets: U8) -> Mask:
    """Select rows that contain one complete, forwardable UDP packet in IPv4 in IPv6."""
    return carries_ports(packets, (PROTOCOL_UDP,))


def carries_ipv6(packets: U8) -> Mask:
    """Select rows that contain one complete IPv6 packet in IPv4 and may be forwarded.

    The outer IPv4 header has no options, and the packet is not a fragment.
    """
    count, length = packets.shape
    if length < 60:
        return np.zeros(count, dtype=bool)
    outer, inner = view(packets, IPV4), view(packets, IPV6, 20)
    good: Mask = (outer["ver_ihl"] == 0x45) & (outer["proto"] == PROTOCOL_IPV6)
    good &= (outer["flags_frag"] & 0x3FFF == 0) & (outer["len"] == length)
    good &= (inner["ver_tc"] >> 4 == 6) & (inner["plen"] == length - 60)
    return good & is_forwardable(packets[:, 20:], 6)


def has_ports(packets: U8, protocols: Sequence[int] = PORTED) -> Mask:
    """Select rows that are one complete IPv4 packet without options, of a transport with ports."""
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


def is_udp(packets: U8) -> Mask:
    """Select rows that are one complete UDP packet in IPv4 without options."""
    return has_ports(packets, (PROTOCOL_UDP,))
