"""Translation by RFC 7915 (headers of UDP datagrams), RFC 6052 and RFC 7757 (addresses).

:class:`Mappings` is the table for single addresses, :class:`MappingsArray` for rows of octets. Only whole
UDP datagrams are translated; their checksum is updated (RFC 1624), so a wrong one stays wrong.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from v6t.base.errors import UsageError
from v6t.base.files import read_text
from v6t.packets import headers
from v6t.packets.address_layouts import IPV4 as ADDRESS
from v6t.packets.address_layouts import make_eam_layout, make_embedded_address_layout
from v6t.packets.arrays import U8, U64, Mask
from v6t.packets.bit_layout import BitLayout
from v6t.packets.checksum import sum_columns, write_ipv4_checksum, write_update
from v6t.packets.headers import DONT_FRAGMENT, IP, IPV4, IPV6, UDP, to_numbers, to_octets, view
from v6t.plugins.prefixes import parse_ipv4_network, parse_ipv6_network

_WORD_BITS = np.uint64(64)  # number of bits in each half of an IPv6 address
MIN_DF_OCTETS = 1261  # IPv4 packets of this size and longer leave with DF (RFC 7915, section 5.1)

PREFIX_LENGTHS = (32, 40, 48, 56, 64, 96)  # of RFC 6052
WELL_KNOWN = IPv6Network("64:ff9b::/96")  # the well-known prefix of RFC 6052


def check_rfc6052_prefix(prefix: IPv6Network) -> IPv6Network:
    """Check that a prefix can embed IPv4 addresses (RFC 6052), and return it, or raise UsageError."""
    if prefix.prefixlen not in PREFIX_LENGTHS:
        problem = f"an IPv4 address cannot be embedded behind a prefix of /{prefix.prefixlen}"
        hint = "RFC 6052 has /" + ", /".join(map(str, PREFIX_LENGTHS))
        raise UsageError(problem, hint, code="not-a-prefix")
    if prefix.network_address.packed[8]:
        problem = f"bits 64 to 71 of {prefix} are not zero (RFC 6052 section 2.2)"
        raise UsageError(problem, code="outside-prefix")
    return prefix


def parse_rfc6052_prefix(text: str, name: str) -> IPv6Network:
    """Parse the RFC 6052 prefix of a parameter; ``wkp`` stands for the well-known prefix."""
    named = str(WELL_KNOWN) if text in {"wkp", "well-known"} else text
    return check_rfc6052_prefix(parse_ipv6_network(named, name))


def parse_prefix96(text: str, name: str) -> IPv6Network:
    """Parse a prefix that must be a /96, so that an IPv4 address fits behind it."""
    prefix = parse_ipv6_network(text, name)
    if prefix.prefixlen != 96:
        problem = f"{name} {prefix} must be a /96, whose last bits hold an IPv4 address"
        raise UsageError(problem, "use a /96", path=(name,), code="not-a-prefix")
    return check_rfc6052_prefix(prefix)


def may_embed(prefix: IPv6Network, ipv4: IPv4Address) -> bool:
    """Return whether a prefix may embed an address; the well-known prefix embeds only global ones."""
    return prefix != WELL_KNOWN or ipv4.is_global


def embed_ipv4(prefix: IPv6Network, ipv4: IPv4Address) -> IPv6Address:
    """Compute the IPv6 address that represents ``ipv4`` behind ``prefix``."""
    return Rfc6052Mapping(prefix).to_ipv6(ipv4)


def embed_network(prefix: IPv6Network, ipv4: IPv4Network) -> IPv6Network:
    """Compute the IPv6 network that represents an IPv4 network behind ``prefix``."""
    first, mask = embed_ipv4(prefix, ipv4.network_address), embed_ipv4(prefix, ipv4.netmask)
    ones = int(mask) ^ int(prefix.network_address)
    length = 129 - (ones & -ones).bit_length() if ones else prefix.prefixlen
    return IPv6Network((first, length))


def extract_ipv4(prefix: IPv6Network, ipv6: IPv6Address) -> IPv4Address:
    """Return the IPv4 address embedded in ``ipv6``; bits after it are ignored."""
    mapping = Rfc6052Mapping(prefix)
    if ipv6 not in prefix:
        raise UsageError(f"{ipv6} is not within {prefix}", code="outside-prefix")
    return mapping.to_ipv4(ipv6)


@dataclass(frozen=True)
class Mapping:
    """An explicit address mapping (RFC 7757): IPv6 prefix, IPv4 suffix, and zeros."""

    ipv4: IPv4Network
    ipv6: IPv6Network

    def __post_init__(self) -> None:
        suffix_len = 32 - self.ipv4.prefixlen
        if 128 - self.ipv6.prefixlen < suffix_len:
            problem = f"the {suffix_len} host bits of {self.ipv4} do not fit behind {self.ipv6}"
            hint = f"use an IPv6 prefix of at most /{128 - suffix_len}"
            raise UsageError(problem, hint, code="outside-prefix")

    @cached_property
    def layout(self) -> BitLayout:
        return make_eam_layout(self.ipv4, self.ipv6)

    def to_ipv6(self, ipv4: IPv4Address) -> IPv6Address:
        return IPv6Address(self.layout.encode(ipv4=int(ipv4)))

    def to_ipv4(self, ipv6: IPv6Address) -> IPv4Address:
        return IPv4Address(int(self.ipv4.network_address) | self.layout.decode(int(ipv6))[ADDRESS])


class Rfc6052Mapping(Mapping):
    """A prefix of RFC 6052, which maps all IPv4 addresses."""

    def __init__(self, ipv6: IPv6Network) -> None:
        super().__init__(IPv4Network("0.0.0.0/0"), check_rfc6052_prefix(ipv6))

    @cached_property
    def layout(self) -> BitLayout:
        return make_embedded_address_layout(self.ipv6)


@dataclass(frozen=True)
class Mappings:
    """A translator's address table: the longest prefix decides, ``prefix`` maps the rest (RFC 7757)."""

    eams: tuple[Mapping, ...] = ()
    prefix: Rfc6052Mapping | None = None

    def __post_init__(self) -> None:
        prefixes = Counter(str(net) for e in self.eams for net in (e.ipv4, e.ipv6))
        for prefix, count in prefixes.most_common(1):
            if count > 1:
                problem = f"two explicit address mappings have the same prefix {prefix}"
                hint = "leave one out; a longer prefix within another is allowed"
                raise UsageError(problem, hint, code="duplicate")
        if not self.eams and self.prefix is None:
            problem = "translation needs a prefix or explicit address mappings"
            hint = "give eam entries, or a prefix such as 64:ff9b::/96"
            raise UsageError(problem, hint, code="nothing-to-translate")

    def find_by_ipv4(self, ipv4: IPv4Address) -> Mapping | None:
        hits = (e for e in self.eams if ipv4 in e.ipv4)
        return max(hits, key=lambda e: e.ipv4.prefixlen, default=self.prefix)

    def find_by_ipv6(self, ipv6: IPv6Address) -> Mapping | None:
        hits = (e for e in self.eams if ipv6 in e.ipv6)
        prefix = self.prefix if self.prefix and ipv6 in self.prefix.ipv6 else None
        return max(hits, key=lambda e: e.ipv6.prefixlen, default=prefix)

    def to_ipv6(self, ipv4: IPv4Address) -> IPv6Address | None:
        mapping = self.find_by_ipv4(ipv4)
        return None if mapping is None else mapping.to_ipv6(ipv4)

    def to_ipv4(self, ipv6: IPv6Address) -> IPv4Address | None:
        mapping = self.find_by_ipv6(ipv6)
        return None if mapping is None else mapping.to_ipv4(ipv6)

    def find_common_mapping(self, first: IPv4Address, last: IPv4Address) -> Mapping | None:
        """Return the mapping of all addresses from ``first`` to ``last``, or None if they have several."""
        mapping = self.find_by_ipv4(first)
        if mapping is None or last not in mapping.ipv4:
            return None
        low, high = mapping.to_ipv6(first), mapping.to_ipv6(last)
        for other in self.eams:
            longer4 = other.ipv4.prefixlen > mapping.ipv4.prefixlen
            longer6 = mapping is self.prefix or other.ipv6.prefixlen > mapping.ipv6.prefixlen
            if longer4 and other.ipv4[0] <= last and first <= other.ipv4[-1]:
                return None
            if longer6 and other.ipv6[0] <= high and low <= other.ipv6[-1]:
                return None
        return mapping


def parse_mappings(pairs: Iterable[Sequence[str]], prefix: str | None) -> Mappings:
    """Parse an address table from pairs of an IPv4 and an IPv6 prefix."""
    names = "EAM IPv4 prefix", "EAM IPv6 prefix"
    eams = tuple(
        Mapping(parse_ipv4_network(a, names[0]), parse_ipv6_network(b, names[1])) for a, b in pairs
    )
    return Mappings(eams, Rfc6052Mapping(parse_ipv6_network(prefix, "prefix")) if prefix else None)


def read_eam_file(path: Path) -> list[tuple[str, str]]:
    """Read pairs of IPv4 and IPv6 prefixes from a file, one pair per line; ``#`` starts a comment."""
    pairs = []
    lines = read_text(path, subject=f"the EAM file {path}").splitlines()
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].replace(",", " ").replace("=", " ").split()
        words.sort(key=lambda word: ":" in word)
        if [":" in word for word in words] == [False, True]:
            pairs.append((words[0], words[1]))
        elif words:
            problem = f"{path}:{number}: an IPv4 and an IPv6 prefix are expected"
            hint = "write for example 198.18.0.0/24 2001:2::/120"
            raise UsageError(problem, hint, code="invalid-table-row")
    return pairs


class LongestMatch:
    """Longest-prefix lookup of address arrays in prefixes of one IP version."""

    def __init__(self, prefixes: Sequence[IPv4Network | IPv6Network]) -> None:
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
        """Return the index of the longest prefix that contains each address ``(n, 4 or 16)``, -1 for none."""
        indices = np.full(len(addresses), -1, dtype=np.int64)
        for mask, keys, numbers in self._levels:
            wanted = np.ascontiguousarray(addresses & mask).view(keys.dtype)[:, 0]
            place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            np.copyto(indices, numbers[place], where=keys[place] == wanted)
        return indices


def select_within(addresses: U64, prefix: IPv4Network | IPv6Network, shift: int = 0) -> Mask:
    """Select the addresses within a prefix; ``shift`` is the number of their missing low bits."""
    mask, network = (int(a) >> shift for a in (prefix.netmask, prefix.network_address))
    inside: Mask = addresses & np.uint64(mask) == np.uint64(network)
    return inside


class Rfc6052Array:
    """Address mapping by one RFC 6052 prefix, for address arrays."""

    def __init__(self, prefix: IPv6Network) -> None:
        layout = make_embedded_address_layout(check_rfc6052_prefix(prefix))
        self._places = layout.locate_octets(ADDRESS)
        self._octets = prefix.prefixlen // 8
        self._prefix = np.frombuffer(prefix.network_address.packed, dtype=np.uint8)

    def to_ipv6(self, ipv4: U8) -> tuple[U8, Mask]:
        """Return the IPv6 addresses, and a mask that selects all of them."""
        out = np.empty((len(ipv4), 16), dtype=np.uint8)
        out[:] = self._prefix
        out[:, self._places] = ipv4
        return out, np.ones(len(ipv4), dtype=bool)

    def to_ipv4(self, ipv6: U8) -> tuple[U8, Mask]:
        """Return the embedded IPv4 addresses, and a mask of the rows that are within the prefix."""
        inside: Mask = (ipv6[:, : self._octets] == self._prefix[: self._octets]).all(axis=1)
        return ipv6[:, self._places], inside


class MappingsArray:
    """A translator's address table, :class:`Mappings`, for address arrays."""

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


def select_plain_udp(packets: U8, version: int) -> Mask:
    """Select unfragmented UDP packets with a checksum, without options or extension headers."""
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
    """Return the selected rows of each array, not copied if all are selected."""
    return columns if rows.all() else [column[rows] for column in columns]


def build_ipv6(packets: U8, source: U8, destination: U8) -> U8:
    """Translate IPv4 packets with plain UDP to IPv6, with these addresses ``(n, 16)``."""
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


def build_ipv4(packets: U8, source: U8, destination: U8) -> U8:
    """Translate IPv6 packets with plain UDP to IPv4, with these addresses ``(n, 4)``."""
    count, length = packets.shape[0], packets.shape[1] - 20
    out = np.empty((count, length), dtype=np.uint8)
    if not count:
        return out  # of a length that need not hold a header
    old, new = view(packets, IPV6), view(out, IPV4)
    new["ver_ihl"], new["len"], new["id"] = 0x45, length, 0
    new["tos"] = headers.read_traffic_class(old)
    new["flags_frag"] = DONT_FRAGMENT if length >= MIN_DF_OCTETS else 0
    new["ttl"], new["proto"] = old["hlim"] - 1, headers.PROTOCOL_UDP
    new["src_octets"], new["dst_octets"] = source, destination
    out[:, 20:] = packets[:, 40:]
    write_ipv4_checksum(out, 0, 20)
    write_update(out, 26, sum_columns(packets, 8, 40), sum_columns(out, 12, 20), udp=True)
    return out
