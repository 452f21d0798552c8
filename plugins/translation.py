"""Translation of arrays: addresses by RFC 6052 and RFC 7757, headers of UDP datagrams by RFC 7915.

Addresses are rows of octets, ``(n, 4)`` and ``(n, 16)``. Only whole UDP datagrams with a checksum are
translated. TTL and hop limit decrease by one. Checksums are updated, not recomputed (RFC 1624), so a wrong
one stays wrong.
"""

from __future__ import annotations

from ipaddress import IPv6Network
from typing import TYPE_CHECKING

import numpy as np
from v6t.packets import address_layouts
from v6t.packets.bit_layout import BitCopy
from v6t.packets.checksum import sum_columns, write_ipv4_checksum, write_update
from v6t.packets.headers import (
    DONT_FRAGMENT,
    IPV4,
    IPV6,
    PROTOCOL_UDP,
    UDP,
    read_traffic_class,
    to_numbers,
    to_octets,
    view,
    write_traffic_class,
)
from v6t.plugins.address_mappings import Eam, Mappings, check_prefix
from v6t.plugins.prefixes import LongestMatch

if TYPE_CHECKING:
    from v6t.packets.arrays import U8, Mask

DF_FROM = 1261
"""Octets from which on IPv4 packets leave with Don't Fragment set (RFC 7915, section 5.1)."""


class Rfc6052Array:
    """Addresses behind one RFC 6052 prefix."""

    def __init__(self, prefix: IPv6Network) -> None:
        layout = address_layouts.embedded_address_layout(check_prefix(prefix))
        self._places = layout.octet_places(address_layouts.IPV4)
        self._octets = prefix.prefixlen // 8
        self._prefix = np.frombuffer(prefix.network_address.packed, dtype=np.uint8)

    def to_ipv6(self, ipv4: U8) -> tuple[U8, Mask]:
        """Return IPv6 addresses, and that all rows have one."""
        out = np.empty((len(ipv4), 16), dtype=np.uint8)
        out[:] = self._prefix
        out[:, self._places] = ipv4
        return out, np.ones(len(ipv4), dtype=bool)

    def to_ipv4(self, ipv6: U8) -> tuple[U8, Mask]:
        """Return IPv4 addresses, and which rows have one; octets behind the embedded address are ignored."""
        inside: Mask = (ipv6[:, : self._octets] == self._prefix[: self._octets]).all(axis=1)
        return ipv6[:, self._places], inside


class EamArray:
    """Explicit address mappings, longest prefix first in each direction (RFC 7757).

    Each row of the table has its own layout, which copies the IPv4 suffix.
    """

    def __init__(self, eams: tuple[Eam, ...]) -> None:
        """Arrange at least one mapping in columns."""
        self._by_ipv4 = LongestMatch([e.ipv4 for e in eams])
        self._by_ipv6 = LongestMatch([e.ipv6 for e in eams])
        layouts = [e.layout for e in eams]
        ones = (1 << 64) - 1
        self._high = np.array([layout.constant >> 64 for layout in layouts], dtype=np.uint64)
        self._low = np.array([layout.constant & ones for layout in layouts], dtype=np.uint64)
        self._ipv4 = np.array([int(e.ipv4.network_address) for e in eams], dtype=np.uint64)
        self._mask = np.array([int(e.ipv4.hostmask) for e in eams], dtype=np.uint64)
        # NumPy computes 0 for shifts by 64 bits and more, which includes shifts below 0, as these
        # become huge unsigned numbers. A mapping without a suffix copies nothing.
        no_suffix = (BitCopy(address_layouts.IPV4, 128, 0),)
        copies = [layout.copies or no_suffix for layout in layouts]
        shifts = [128 - c.destination - c.length for each in copies for c in each]
        shift = np.array(shifts, dtype=np.int64)
        self._up = shift.astype(np.uint64)
        self._over = (64 - shift).astype(np.uint64)
        self._beyond = (shift - 64).astype(np.uint64)

    def to_ipv6(self, ipv4: U8) -> tuple[U8, Mask]:
        """Return IPv6 addresses, and which rows have one."""
        row = self._by_ipv4.find(ipv4)
        known = row >= 0
        row = np.where(known, row, 0)
        suffix = to_numbers(ipv4) & self._mask[row]
        low = self._low[row] | suffix << self._up[row]
        high = self._high[row] | suffix >> self._over[row] | suffix << self._beyond[row]
        return np.concatenate([to_octets(high, 8), to_octets(low, 8)], axis=1), known

    def to_ipv4(self, ipv6: U8) -> tuple[U8, Mask]:
        """Return IPv4 addresses, and which rows have one; what follows the suffix is ignored."""
        row = self._by_ipv6.find(ipv6)
        known = row >= 0
        row = np.where(known, row, 0)
        high, low = to_numbers(ipv6[:, :8]), to_numbers(ipv6[:, 8:])
        suffix = low >> self._up[row] | high << self._over[row] | high >> self._beyond[row]
        return to_octets(self._ipv4[row] | suffix & self._mask[row], 4), known


class MappingsArray:
    """A translator's address table, :class:`v6t.plugins.address_mappings.Mappings`, for arrays."""

    def __init__(self, mappings: Mappings) -> None:
        self._eams = EamArray(mappings.eams) if mappings.eams else None
        self._prefix = Rfc6052Array(mappings.prefix.ipv6) if mappings.prefix else None

    def to_ipv6(self, ipv4: U8) -> tuple[U8, Mask]:
        """Return IPv6 addresses, and which rows have one."""
        return self._map(ipv4, "to_ipv6")

    def to_ipv4(self, ipv6: U8) -> tuple[U8, Mask]:
        """Return IPv4 addresses, and which rows have one."""
        return self._map(ipv6, "to_ipv4")

    def _map(self, addresses: U8, method: str) -> tuple[U8, Mask]:
        if self._eams is None:
            return getattr(self._prefix, method)(addresses)  # type: ignore[no-any-return]
        out, known = getattr(self._eams, method)(addresses)
        if self._prefix is None or known.all():
            return out, known
        embedded, inside = getattr(self._prefix, method)(addresses)
        return np.where(known[:, None], out, embedded), known | inside


def plain_ipv4(packets: U8) -> Mask:
    """Select rows that are one whole UDP datagram with a checksum in IPv4 without options."""
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
    """Select rows that are one whole UDP datagram with a checksum in IPv6 without extension headers."""
    count, length = packets.shape
    if length < 48:
        return np.zeros(count, dtype=bool)
    header, udp = view(packets, IPV6), view(packets, UDP, 40)
    plain: Mask = (header["ver_tc"] >> 4 == 6) & (header["nh"] == PROTOCOL_UDP)
    plain &= (header["plen"] == length - 40) & (udp["len"] == length - 40)
    plain &= udp["chksum"] != 0
    return plain


def four_to_six(packets: U8, source: U8, destination: U8) -> U8:
    """Translate IPv4 to IPv6 packets with the TOS as traffic class and flow label 0.

    Args:
        packets: ``(n, length)``, all :func:`plain_ipv4`, TTL above 1.
        source: ``(n, 16)`` addresses.
        destination: ``(n, 16)`` addresses.

    Returns:
        ``(n, length + 20)``.
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
    """Translate IPv6 to IPv4 packets with identification 0, which a real translator may choose.

    Args:
        packets: ``(n, length)``, all :func:`plain_ipv6`, hop limit above 1.
        source: ``(n, 4)`` addresses.
        destination: ``(n, 4)`` addresses.

    Returns:
        ``(n, length - 20)``.
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
