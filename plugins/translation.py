"""Translation of arrays: addresses by RFC 6052 and RFC 7757, headers of UDP datagrams by RFC 7915.

Addresses are rows of octets, ``(n, 4)`` and ``(n, 16)``. Only whole UDP datagrams with a checksum are
translated. Checksums are updated, not recomputed (RFC 1624), so a wrong one stays wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network

import numpy as np
from numpy.typing import NDArray
from v6t.packets import headers
from v6t.packets.address_layouts import IPV4 as ADDRESS
from v6t.packets.address_layouts import embedded_address_layout
from v6t.packets.arrays import U8, Mask
from v6t.packets.checksum import sum_columns, write_ipv4_checksum, write_update
from v6t.packets.headers import DONT_FRAGMENT, IP, IPV4, IPV6, UDP, to_numbers, to_octets, view
from v6t.plugins.address_mappings import Mappings, check_prefix

_WORD_BITS = np.uint64(64)
MIN_DF_OCTETS = 1261  # IPv4 packets from here on leave with Don't Fragment (RFC 7915, section 5.1)


class LongestMatch:
    """Prefixes of one IP version, ready to be looked up."""

    def __init__(self, prefixes: Sequence[IPv4Network | IPv6Network]) -> None:
        """Sort distinct prefixes by length; :meth:`find` returns positions in them."""
        by_length: dict[int, list[int]] = {}
        for number, prefix in enumerate(prefixes):
            by_length.setdefault(prefix.prefixlen, []).append(number)
        self._levels: list[tuple[U8, NDArray[np.bytes_], NDArray[np.int64]]] = []
        for length in sorted(by_length):
            numbers = by_length[length]
            packed = b"".join(prefixes[n].network_address.packed for n in numbers)
            octets = prefixes[numbers[0]].max_prefixlen // 8
            # fixed-length strings compare like big-endian numbers, of 128 bits too
            keys = np.frombuffer(packed, dtype=f"S{octets}")
            order = np.argsort(keys, kind="stable")
            mask = np.frombuffer(prefixes[numbers[0]].netmask.packed, dtype=np.uint8)
            self._levels.append((mask, keys[order], np.array(numbers, dtype=np.int64)[order]))

    def find(self, addresses: U8) -> NDArray[np.int64]:
        """Find the longest prefix that contains each address ``(n, 4 or 16)``: its position, -1 for none."""
        indices = np.full(len(addresses), -1, dtype=np.int64)
        for mask, keys, numbers in self._levels:
            wanted = np.ascontiguousarray(addresses & mask).view(keys.dtype)[:, 0]
            place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            hit = keys[place] == wanted
            np.copyto(indices, numbers[place], where=hit)
        return indices


class Rfc6052Array:
    """Addresses behind one RFC 6052 prefix."""

    def __init__(self, prefix: IPv6Network) -> None:
        self._places = embedded_address_layout(check_prefix(prefix)).octet_places(ADDRESS)
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


class MappingsArray:
    """A translator's address table, :class:`v6t.plugins.address_mappings.Mappings`, for arrays."""

    def __init__(self, mappings: Mappings) -> None:
        eams = mappings.eams
        self._prefix = Rfc6052Array(mappings.prefix.ipv6) if mappings.prefix else None
        self._has_eams = bool(eams)
        self._find_ipv4 = LongestMatch([e.ipv4 for e in eams]).find
        self._find_ipv6 = LongestMatch([e.ipv6 for e in eams]).find
        self._ipv4 = np.array([int(e.ipv4[0]) for e in eams], dtype=np.uint64)
        self._high = np.array([int(e.ipv6[0]) >> 64 for e in eams], dtype=np.uint64)
        self._low = np.array([int(e.ipv6[0]) & (1 << 64) - 1 for e in eams], dtype=np.uint64)
        self._suffix = np.array([int(e.ipv4.hostmask) for e in eams], dtype=np.uint64)
        # bits of the IPv6 address behind the IPv4 suffix (RFC 7757, section 3.3)
        behind = [96 + e.ipv4.prefixlen - e.ipv6.prefixlen for e in eams]
        self._behind = np.array(behind, dtype=np.uint64)

    def to_ipv6(self, ipv4: U8) -> tuple[U8, Mask]:
        if self._prefix is not None and not self._has_eams:
            return self._prefix.to_ipv6(ipv4)
        row = self._find_ipv4(ipv4)
        suffix, bits = to_numbers(ipv4) & self._suffix[row], self._behind[row]
        # shifts by 64 and more, also by numbers below 0 that wrap around, leave 0
        halves = np.empty((len(row), 2), dtype=">u8")
        shifted = suffix >> (_WORD_BITS - bits) | suffix << (bits - _WORD_BITS)
        halves[:, 0], halves[:, 1] = self._high[row] | shifted, self._low[row] | suffix << bits
        out, known = halves.view(np.uint8), row >= 0
        if self._prefix is None or known.all():
            return out, known
        return np.where(known[:, None], out, self._prefix.to_ipv6(ipv4)[0]), np.ones_like(known)

    def to_ipv4(self, ipv6: U8) -> tuple[U8, Mask]:
        if self._prefix is not None and not self._has_eams:
            return self._prefix.to_ipv4(ipv6)
        row = self._find_ipv6(ipv6)
        high, low, bits = to_numbers(ipv6[:, :8]), to_numbers(ipv6[:, 8:]), self._behind[row]
        suffix = low >> bits | high << (_WORD_BITS - bits) | high >> (bits - _WORD_BITS)
        out = to_octets(self._ipv4[row] | suffix & self._suffix[row], 4)
        known = row >= 0
        if self._prefix is None or known.all():
            return out, known
        embedded, inside = self._prefix.to_ipv4(ipv6)
        return np.where(known[:, None], out, embedded), known | inside


def is_plain(packets: U8, version: int) -> Mask:
    """Select rows that are one whole UDP datagram with a checksum, without options or extension headers."""
    length, at = packets.shape[1], IP[version].itemsize
    if length < at + UDP.itemsize:
        return np.zeros(len(packets), dtype=bool)
    header, udp = view(packets, IP[version]), view(packets, UDP, at)
    plain: Mask = (udp["len"] == length - at) & (udp["chksum"] != 0)
    if version == 6:
        plain &= (header["ver_tc"] >> 4 == 6) & (header["plen"] == length - 40)
        plain &= header["nh"] == headers.PROTOCOL_UDP
        return plain
    plain &= (header["ver_ihl"] == 0x45) & (header["proto"] == headers.PROTOCOL_UDP)
    plain &= header["flags_frag"] & (0xFFFF ^ DONT_FRAGMENT) == 0
    plain &= header["len"] == length
    return plain


def select_rows(rows: Mask, *columns: U8) -> Sequence[U8]:
    """Return rows of columns; the columns themselves, not copies, if all rows are selected."""
    return columns if rows.all() else [column[rows] for column in columns]


def four_to_six(packets: U8, source: U8, destination: U8) -> U8:
    """Translate :func:`is_plain` IPv4 packets to IPv6 with flow label 0; addresses are ``(n, 16)``."""
    count, length = packets.shape
    out = np.empty((count, length + 20), dtype=np.uint8)
    if not count:
        return out  # of a length that need not hold a header
    old, new = view(packets, IPV4), view(out, IPV6)
    new["ver_tc_fl"] = 0
    headers.write_traffic_class(new, old["tos"])
    new["plen"], new["nh"], new["hlim"] = length - 20, headers.PROTOCOL_UDP, old["ttl"] - 1
    new["src_octets"], new["dst_octets"] = source, destination
    out[:, 40:] = packets[:, 20:]
    write_update(out, 46, sum_columns(packets, 12, 20), sum_columns(out, 8, 40), udp=True)
    return out


def six_to_four(packets: U8, source: U8, destination: U8) -> U8:
    """Translate :func:`is_plain` IPv6 packets to IPv4 with identification 0; addresses are ``(n, 4)``."""
    count, length = packets.shape[0], packets.shape[1] - 20
    out = np.empty((count, length), dtype=np.uint8)
    if not count:
        return out  # of a length that need not hold a header
    old, new = view(packets, IPV6), view(out, IPV4)
    new["ver_ihl"], new["tos"], new["len"], new["id"] = (
        0x45,
        headers.read_traffic_class(old),
        length,
        0,
    )
    new["flags_frag"] = DONT_FRAGMENT if length >= MIN_DF_OCTETS else 0
    new["ttl"], new["proto"] = old["hlim"] - 1, headers.PROTOCOL_UDP
    new["src_octets"], new["dst_octets"] = source, destination
    out[:, 20:] = packets[:, 40:]
    write_ipv4_checksum(out, 0, 20)
    write_update(out, 26, sum_columns(packets, 8, 40), sum_columns(out, 12, 20), udp=True)
    return out
