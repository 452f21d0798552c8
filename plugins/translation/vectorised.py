"""IPv4/IPv6 header translation of UDP (RFC 7915 sections 4 and 5) for arrays of packets.

Only whole UDP datagrams with a checksum are translated. TTL and hop limit decrease by one. Checksums are
updated, not recomputed (RFC 1624), so a wrong one stays wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from v6t.packets.checksum import sum_columns, write_ipv4_checksum, write_update
from v6t.packets.headers import (
    DONT_FRAGMENT,
    IPV4,
    IPV6,
    PROTOCOL_UDP,
    UDP,
    read_traffic_class,
    view,
    write_traffic_class,
)

if TYPE_CHECKING:
    from v6t.packets.arrays import U8, Mask

DF_FROM = 1261
"""Octets from which on IPv4 packets leave with Don't Fragment set (RFC 7915, section 5.1)."""


def plain_ipv4(packets: U8) -> Mask:
    """Rows that are UDP in IPv4 without options, whole, with a checksum, nothing behind it."""
    count, length = packets.shape
    if length < 28:
        return np.zeros(count, dtype=bool)
    header, udp = view(packets, IPV4), view(packets, UDP, 20)
    plain: Mask = (header["ver_ihl"] == 0x45) & (header["proto"] == PROTOCOL_UDP)
    plain &= header["flags_frag"] & (0xFFFF ^ DONT_FRAGMENT) == 0
    plain &= (header["len"] == length) & (udp["len"] == length - 20)
    plain &= udp["chksum"] != 0
    return plain


def plain_ipv6(packets: U8) -> Mask:
    """Rows that are UDP in IPv6 without extension headers, nothing behind it."""
    count, length = packets.shape
    if length < 48:
        return np.zeros(count, dtype=bool)
    header, udp = view(packets, IPV6), view(packets, UDP, 40)
    plain: Mask = (header["ver_tc"] >> 4 == 6) & (header["nh"] == PROTOCOL_UDP)
    plain &= (header["plen"] == length - 40) & (udp["len"] == length - 40)
    plain &= udp["chksum"] != 0
    return plain


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
    old, new = view(packets, IPV4), view(out, IPV6)
    new["ver_tc_fl"] = 0
    write_traffic_class(new, old["tos"])
    new["plen"], new["nh"], new["hlim"] = length - 20, PROTOCOL_UDP, old["ttl"] - 1
    new["src_octets"], new["dst_octets"] = source, destination
    out[:, 40:] = packets[:, 20:]
    write_update(out, 46, sum_columns(packets, 12, 20), sum_columns(out, 8, 40), udp=True)
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
    old, new = view(packets, IPV6), view(out, IPV4)
    new["ver_ihl"], new["tos"], new["len"], new["id"] = 0x45, read_traffic_class(old), length, 0
    new["flags_frag"] = DONT_FRAGMENT if length >= DF_FROM else 0
    new["ttl"], new["proto"] = old["hlim"] - 1, PROTOCOL_UDP
    new["src_octets"], new["dst_octets"] = source, destination
    out[:, 20:] = packets[:, 40:]
    write_ipv4_checksum(out, 0, 20)
    write_update(out, 26, sum_columns(packets, 8, 40), sum_columns(out, 12, 20), udp=True)
    return out
