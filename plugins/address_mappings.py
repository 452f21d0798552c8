"""Which IPv6 address stands for an IPv4 address: RFC 6052 prefixes and explicit mappings (RFC 7757)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path

from v6t.base.errors import UsageError
from v6t.base.files import explain_read_error, read_text
from v6t.packets.address_layouts import IPV4, eam_layout, embedded_address_layout
from v6t.packets.bit_layout import BitLayout
from v6t.plugins.prefixes import network4, network6

PREFIX_LENGTHS = (32, 40, 48, 56, 64, 96)
WELL_KNOWN = IPv6Network("64:ff9b::/96")


def check_prefix(prefix: IPv6Network) -> IPv6Network:
    """Return a prefix behind which an IPv4 address can be embedded (RFC 6052), or raise UsageError."""
    if prefix.prefixlen not in PREFIX_LENGTHS:
        problem = f"an IPv4 address cannot be embedded behind a prefix of /{prefix.prefixlen}"
        hint = "RFC 6052 has /" + ", /".join(map(str, PREFIX_LENGTHS))
        raise UsageError(problem, hint, code="not-a-prefix")
    if prefix.network_address.packed[8]:
        problem = f"bits 64 to 71 of {prefix} are not zero (RFC 6052 section 2.2)"
        raise UsageError(problem, code="outside-prefix")
    return prefix


def read_prefix(text: str, name: str) -> IPv6Network:
    """Read the RFC 6052 prefix of a parameter; ``wkp`` and ``well-known`` are the well-known one."""
    named = str(WELL_KNOWN) if text in {"wkp", "well-known"} else text
    return check_prefix(network6(named, name))


def may_represent(prefix: IPv6Network, ipv4: IPv4Address) -> bool:
    """Return whether RFC 6052, section 3.1, allows it: the well-known prefix stands for global addresses."""
    return prefix != WELL_KNOWN or ipv4.is_global


def embed(prefix: IPv6Network, ipv4: IPv4Address) -> IPv6Address:
    """Compute the IPv6 address that represents ``ipv4`` behind ``prefix``."""
    return Rfc6052(prefix).to_ipv6(ipv4)


def embed_network(prefix: IPv6Network, ipv4: IPv4Network) -> IPv6Network:
    """Compute the IPv6 network of all addresses that start like those of an IPv4 network."""
    first, mask = embed(prefix, ipv4.network_address), embed(prefix, ipv4.netmask)
    ones = int(mask) ^ int(prefix.network_address)
    length = 129 - (ones & -ones).bit_length() if ones else prefix.prefixlen
    return IPv6Network((first, length))


def extract(prefix: IPv6Network, ipv6: IPv6Address) -> IPv4Address:
    """Read the IPv4 address in ``ipv6``; bits after it are ignored."""
    mapping = Rfc6052(prefix)
    if ipv6 not in prefix:
        raise UsageError(f"{ipv6} is not within {prefix}", code="outside-prefix")
    return mapping.to_ipv4(ipv6)


@dataclass(frozen=True)
class Mapping:
    """An explicit mapping: the IPv4 suffix follows the IPv6 prefix, zeros follow the suffix (RFC 7757)."""

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
        return eam_layout(self.ipv4, self.ipv6)

    def to_ipv6(self, ipv4: IPv4Address) -> IPv6Address:
        """Compute the IPv6 address of an address within the IPv4 prefix."""
        return IPv6Address(self.layout.encode(ipv4=int(ipv4)))

    def to_ipv4(self, ipv6: IPv6Address) -> IPv4Address:
        """Compute the IPv4 address of an address within the IPv6 prefix; later bits are ignored."""
        suffix = self.layout.decode(int(ipv6))[IPV4]
        return IPv4Address(int(self.ipv4.network_address) | suffix)


class Rfc6052(Mapping):
    """A prefix of RFC 6052, which maps all IPv4 addresses."""

    def __init__(self, ipv6: IPv6Network) -> None:
        super().__init__(IPv4Network("0.0.0.0/0"), check_prefix(ipv6))

    @cached_property
    def layout(self) -> BitLayout:
        return embedded_address_layout(self.ipv6)


@dataclass(frozen=True)
class Mappings:
    """A translator's address table: the longest prefix decides, ``prefix`` maps the rest (RFC 7757)."""

    eams: tuple[Mapping, ...] = ()
    prefix: Rfc6052 | None = None

    def __post_init__(self) -> None:
        prefixes = Counter(str(net) for e in self.eams for net in (e.ipv4, e.ipv6))
        for prefix, count in prefixes.most_common(1):
            if count > 1:
                problem = f"two explicit address mappings have the same prefix {prefix}"
                hint = "leave one out; a longer prefix within another is fine"
                raise UsageError(problem, hint, code="duplicate")
        if not self.eams and self.prefix is None:
            problem = "translation needs a prefix or explicit address mappings"
            hint = "give eam entries, or a prefix such as 64:ff9b::/96"
            raise UsageError(problem, hint, code="nothing-to-translate")

    def find_ipv4(self, ipv4: IPv4Address) -> Mapping | None:
        hits = (e for e in self.eams if ipv4 in e.ipv4)
        return max(hits, key=lambda e: e.ipv4.prefixlen, default=self.prefix)

    def find_ipv6(self, ipv6: IPv6Address) -> Mapping | None:
        hits = (e for e in self.eams if ipv6 in e.ipv6)
        prefix = self.prefix if self.prefix and ipv6 in self.prefix.ipv6 else None
        return max(hits, key=lambda e: e.ipv6.prefixlen, default=prefix)

    def to_ipv6(self, ipv4: IPv4Address) -> IPv6Address | None:
        mapping = self.find_ipv4(ipv4)
        return None if mapping is None else mapping.to_ipv6(ipv4)

    def to_ipv4(self, ipv6: IPv6Address) -> IPv4Address | None:
        mapping = self.find_ipv6(ipv6)
        return None if mapping is None else mapping.to_ipv4(ipv6)

    def uniform(self, first: IPv4Address, last: IPv4Address) -> Mapping | None:
        """Find the only mapping of ``first..last`` both ways, or return None if there are several."""
        mapping = self.find_ipv4(first)
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


def mappings_from_text(pairs: Iterable[Sequence[str]], prefix: str | None) -> Mappings:
    """Read a table from pairs of an IPv4 and an IPv6 prefix."""
    eams = tuple(
        Mapping(network4(four, "EAM IPv4 prefix"), network6(six, "EAM IPv6 prefix"))
        for four, six in pairs
    )
    return Mappings(eams, Rfc6052(network6(prefix, "prefix")) if prefix else None)


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """Read IPv4 and IPv6 prefixes from a file, one pair a line, in either order, or raise UsageError.

    Blanks, a comma or ``=`` separate both; ``#`` begins a comment.
    """
    try:
        text = read_text(path)
    except OSError as exc:
        raise explain_read_error(f"the EAM file {path}", exc) from exc
    pairs = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].replace(",", " ").replace("=", " ").split()
        words.sort(key=lambda word: ":" in word)
        if [":" in word for word in words] == [False, True]:
            pairs.append((words[0], words[1]))
        elif words:
            problem = f"{path}:{number}: an IPv4 and an IPv6 prefix are expected"
            hint = "write for example 198.18.0.0/24 2001:2::/120"
            raise UsageError(problem, hint, code="invalid-table-row")
    return pairs
