"""Mapping rules of MAP (RFC 7597, RFC 7599): addresses and ports of their CEs.

Notation of RFC 7597: rule prefixes IPv6 ``/n`` and IPv4 ``/r``, EA length ``o``, IPv4 suffix of
``p = 32 - r`` bits, PSID length ``k``, PSID offset ``a``, and ``m = 16 - a - k`` low port bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import TYPE_CHECKING

import numpy as np
from v6t.base.errors import UsageError
from v6t.packets.address_layouts import (
    IPV4,
    PSID,
    CeLayouts,
    IidFormat,
    ce_layouts,
    end_user_prefix_layout,
    map_address_layout,
)
from v6t.packets.bit_layout import BitLayout
from v6t.packets.headers import to_octets
from v6t.plugins.ports import PortSet, PortSharing
from v6t.plugins.prefixes import network4, network6

if TYPE_CHECKING:
    from v6t.packets.arrays import U8, U64, Mask

MAX_EA_LEN = 48
DEFAULT_PSID_OFFSET = 6


@dataclass(frozen=True)
class MapRule:
    """A mapping rule, checked when it is made (MAP-01 to MAP-04).

    Attributes:
        ipv6_prefix, ipv4_prefix: the rule prefixes.
        ea_len: ``o``, bits embedded in the end-user prefix.
        psid_offset: ``a``.
        psid_len: ``k``; set only where ``ea_len`` does not determine it (RFC 7597, example 5: PSID
            provisioned by DHCPv6), otherwise derived.
        iid_format: format of the interface identifier.
        psid: of the one CE of a shared address without EA bits (RFC 7597, section 5.2); None where
            EA bits hold it, or where it is not known.
    """

    ipv6_prefix: IPv6Network
    ipv4_prefix: IPv4Network
    ea_len: int
    psid_offset: int = DEFAULT_PSID_OFFSET
    psid_len: int = -1
    iid_format: IidFormat = "rfc7597"
    psid: int | None = None

    def __post_init__(self) -> None:
        n, r, o = self.ipv6_prefix.prefixlen, self.ipv4_prefix.prefixlen, self.ea_len
        if not 0 <= o <= MAX_EA_LEN:
            raise UsageError(f"ea_len {o} is outside 0..{MAX_EA_LEN}", code="out-of-range")
        if n + o > 64:
            raise UsageError(
                f"the end-user prefix would be /{n + o}: rule IPv6 prefix /{n} plus {o} EA bits",
                f"shorten the rule prefix to /{64 - o} or the EA bits to {max(0, 64 - n)}",
                code="out-of-range",
            )
        if not 0 <= self.psid_offset <= 16:
            raise UsageError(
                f"psid_offset {self.psid_offset} is outside 0..16", code="out-of-range"
            )
        derived = max(0, o - self.suffix_len)
        if self.psid_len == -1:
            object.__setattr__(self, "psid_len", derived)
        elif o and self.psid_len != derived:
            raise UsageError(
                f"psid_len {self.psid_len} contradicts {o} EA bits, of which {self.suffix_len} are "
                f"IPv4 suffix",
                f"leave psid_len out or set it to {derived}",
                code="conflict",
            )
        elif not o and self.psid_len and r != 32:
            raise UsageError(
                f"psid_len {self.psid_len} with no EA bits needs a rule for one IPv4 address, "
                f"not /{r}",
                "use an IPv4 prefix of /32 or set ea_len",
                code="conflict",
            )
        if not 0 <= self.psid_len <= 16:
            raise UsageError(
                f"{o} EA bits leave a PSID of {self.psid_len} bits, at most 16 fit a port",
                f"shorten ea_len to {self.suffix_len + 16} or lengthen the IPv4 prefix",
                code="out-of-range",
            )
        if self.psid_len and self.psid_offset + self.psid_len > 16:
            raise UsageError(
                f"psid_offset {self.psid_offset} plus PSID length {self.psid_len} is more than "
                f"the 16 bits of a port",
                f"set psid_offset to at most {16 - self.psid_len}",
                code="out-of-range",
            )
        if self.psid is not None and o:
            raise UsageError(
                f"psid {self.psid} is set for a rule with {o} EA bits, which hold the PSID",
                code="setting-without-effect",
            )
        if self.psid is not None:
            self.port_set(self.psid)

    @property
    def suffix_len(self) -> int:
        """``p``: bits of the IPv4 address the rule leaves open."""
        return 32 - self.ipv4_prefix.prefixlen

    @property
    def host_bits(self) -> int:
        """Bits of the IPv4 address that a CE with an IPv4 prefix leaves to its hosts."""
        return max(0, self.suffix_len - self.ea_len)

    @property
    def ce_prefix_len(self) -> int:
        """Length of a CE's IPv4 prefix; 32 where a CE has an address or shares one."""
        return 32 - self.host_bits

    @property
    def shared(self) -> bool:
        """Whether CEs share IPv4 addresses."""
        return self.psid_len > 0

    @property
    def prefix_ce(self) -> bool:
        """Whether each CE gets an IPv4 prefix instead of (a share of) one address."""
        return self.host_bits > 0

    @property
    def sharing_ratio(self) -> int:
        """CEs per IPv4 address."""
        return 1 << self.psid_len

    @property
    def ce_count(self) -> int:
        """CEs the rule has room for: ``2 ** o`` (MAP-14)."""
        return 1 << self.ea_len

    @cached_property
    def ports(self) -> PortSharing:
        """How the CEs of an IPv4 address share its ports."""
        return PortSharing(self.psid_offset, self.psid_len)

    @cached_property
    def ce_layouts(self) -> CeLayouts:
        """IPv4 address and PSID of a CE from its EA bits, and the way back."""
        return ce_layouts(self)

    @cached_property
    def address_layout(self) -> BitLayout:
        """IPv4 address and PSID in a MAP-E address."""
        return map_address_layout(self)

    @cached_property
    def host_address_layout(self) -> BitLayout:
        """IPv4 address and PSID in a MAP-T address, which holds a host's complete address."""
        return map_address_layout(self, whole_host=True)

    def port_set(self, psid: int) -> PortSet:
        """Return the ports of a PSID.

        Raises:
            UsageError: no such PSID.
        """
        if not 0 <= psid < self.sharing_ratio:
            raise UsageError(
                f"PSID {psid} does not fit the {self.psid_len} bits of this rule",
                code="out-of-range",
            )
        return PortSet(self.psid_offset, self.psid_len, psid)

    def find_psid(self, port: int) -> int | None:
        """Find the PSID that has a port, or None for a port that no CE of the rule has (MAP-05)."""
        psid = self.ports.find_psid(port)
        return psid if self.psid in (None, psid) else None

    def encode_ea(self, ipv4: IPv4Address, psid: int) -> int:
        """Compute the EA bits of a CE: IPv4 suffix, then PSID (MAP-02).

        Raises:
            UsageError: the address is outside the rule.
        """
        self._check_ipv4(ipv4)
        return self.ce_layouts.ea.encode(ipv4=int(ipv4), psid=psid)

    def decode_ea(self, ea: int) -> tuple[IPv4Address, int]:
        """Compute the IPv4 address (first of its prefix) and the PSID of the CE with EA bits."""
        if not 0 <= ea < self.ce_count:
            raise UsageError(
                f"EA value {ea:#x} does not fit {self.ea_len} bits", code="out-of-range"
            )
        psid = self.ce_layouts.psid.encode(ea=ea) if self.ea_len else self.psid or 0
        return IPv4Address(self.ce_layouts.ipv4.encode(ea=ea, host=0)), psid

    def end_user_prefix(self, ipv4: IPv4Address, psid: int) -> IPv6Network:
        """Compute the prefix delegated to the CE, of length ``n + o``."""
        value = end_user_prefix_layout(self).encode(ea=self.encode_ea(ipv4, psid))
        return IPv6Network((value, self.ipv6_prefix.prefixlen + self.ea_len))

    def map_address(self, ipv4: IPv4Address, psid: int, *, whole_host: bool = False) -> IPv6Address:
        """Compute the CE's MAP IPv6 address (MAP-07, MAP-08) with subnet ID 0.

        Args:
            ipv4: the CE's IPv4 address or one of its prefix.
            psid: 0 where addresses are not shared.
            whole_host: the interface identifier holds the complete address, also of a CE with an
                IPv4 prefix (MAP-T, erratum 5225 of RFC 7599).
        """
        self._check_ipv4(ipv4)
        layout = self.host_address_layout if whole_host else self.address_layout
        return IPv6Address(layout.encode(ipv4=int(ipv4), psid=psid))

    def decode_address(self, address: IPv6Address) -> tuple[IPv4Address, int] | None:
        """Read IPv4 address and PSID in a MAP address; None if it is inconsistent (MAP-09)."""
        values = self.host_address_layout.decode(int(address))
        ipv4, psid = IPv4Address(values[IPV4]), values[PSID]
        if ipv4 not in self.ipv4_prefix or self.psid not in (None, psid):
            return None
        return (ipv4, psid) if self.host_address_layout.encode(**values) == int(address) else None

    def _check_ipv4(self, ipv4: IPv4Address) -> None:
        if ipv4 not in self.ipv4_prefix:
            raise UsageError(
                f"{ipv4} is outside the rule's IPv4 prefix {self.ipv4_prefix}",
                code="outside-prefix",
            )


def rule_from_text(
    ipv6_prefix: str,
    ipv4_prefix: str,
    ea_len: int,
    psid_offset: int = DEFAULT_PSID_OFFSET,
    *,
    psid_len: int | None = None,
    iid_format: IidFormat = "rfc7597",
    psid: int | None = None,
) -> MapRule:
    """Make a rule from what a user writes.

    Args:
        psid: of the one CE of a shared address; a rule with EA bits has none.

    Raises:
        UsageError: a prefix is invalid or has host bits, or the rule is impossible.
    """
    if psid_len is not None and not 0 <= psid_len <= 16:
        raise UsageError(f"psid_len {psid_len} is outside 0..16", code="out-of-range")
    return MapRule(
        network6(ipv6_prefix, "rule IPv6 prefix", "rule_ipv6"),
        network4(ipv4_prefix, "rule IPv4 prefix", "rule_ipv4"),
        ea_len,
        psid_offset,
        -1 if psid_len is None else psid_len,
        iid_format,
        psid if psid_len and not ea_len else None,
    )


def find_served_ea(rule: MapRule, low: int, high: int, rules: Iterable[MapRule]) -> list[range]:
    """Find the EA values ``low..high`` of a rule's CEs that no narrower rule takes over (MAP-13).

    A BR looks up the longest IPv6 prefix forward and the longest IPv4 prefix in reverse. A CE
    whose addresses lie in a rule within its own would lose its frames in one direction.

    Returns:
        Ascending, disjoint, non-empty ranges.
    """
    free = [range(low, high + 1)] if low <= high else []
    for narrow in rules:
        for lost in _find_lost_ea(rule, narrow):
            cut = (
                part
                for r in free
                for part in (
                    range(r.start, min(r.stop, lost.start)),
                    range(max(r.start, lost.stop), r.stop),
                )
            )
            free = [part for part in cut if part]
    return free


def _find_lost_ea(rule: MapRule, narrow: MapRule) -> Iterator[range]:
    """Find the EA values of a rule that a narrower rule takes over."""
    pairs: tuple[tuple[IPv6Network | IPv4Network, IPv6Network | IPv4Network], ...] = (
        (rule.ipv6_prefix, narrow.ipv6_prefix),
        (rule.ipv4_prefix, narrow.ipv4_prefix),
    )
    for outer, inner in pairs:
        more = inner.prefixlen - outer.prefixlen
        if more <= 0 or inner.network_address not in outer:
            continue
        beyond = int(inner.network_address) << rule.ea_len >> outer.max_prefixlen - outer.prefixlen
        first = beyond & (rule.ce_count - 1)
        yield range(first, first + (1 << max(0, rule.ea_len - more)))


class RuleArray:
    """Addresses and ports of many CEs of a rule at once.

    Attributes:
        rule: the rule.
        ce_mask: netmask of a CE's IPv4 prefix.
    """

    def __init__(self, rule: MapRule, *, whole_host: bool = False) -> None:
        """Choose the layout of addresses.

        Args:
            rule: the rule.
            whole_host: see :func:`v6t.packets.address_layouts.map_address_layout`.
        """
        self.rule = rule
        self._layout = rule.host_address_layout if whole_host else rule.address_layout
        self.ce_mask = np.uint64(~((1 << rule.host_bits) - 1) & (1 << 32) - 1)
        self._net6 = np.uint64(int(rule.ipv6_prefix.network_address) >> 64)
        self._mask6 = np.uint64(int(rule.ipv6_prefix.netmask) >> 64)
        self._net4 = np.uint64(int(rule.ipv4_prefix.network_address))
        self._mask4 = np.uint64(int(rule.ipv4_prefix.netmask))

    def contains_ipv6(self, high: U64) -> Mask:
        """Select the IPv6 addresses within the rule by their high halves."""
        inside: Mask = (high & self._mask6) == self._net6
        return inside

    def contains_ipv4(self, ipv4: U64) -> Mask:
        """Select the IPv4 addresses within the rule."""
        inside: Mask = (ipv4 & self._mask4) == self._net4
        return inside

    def map_address(self, ipv4: U64, port: U64) -> tuple[U64, U64, Mask]:
        """Compute both halves of MAP addresses, and whether a CE has the port."""
        psid, owned = self.find_psids(port)
        high, low = self._layout.encode_words(ipv4=ipv4, psid=psid)
        return high, low, owned

    def find_psids(self, port: U64) -> tuple[U64, Mask]:
        """Find the PSID of each port, and whether a CE has the port."""
        psid, owned = self.rule.ports.find_psids(port)
        return psid, owned if self.rule.psid is None else owned & (psid == self.rule.psid)

    def decode_address(self, high: U64, low: U64) -> tuple[U64, U64, Mask]:
        """Read IPv4 addresses and PSIDs in MAP addresses, and whether these are consistent."""
        values = self._layout.decode_words((high, low))
        right_high, right_low = self._layout.encode_words(**values)
        consistent = self.contains_ipv4(values[IPV4]) & (right_high == high) & (right_low == low)
        if self.rule.psid is not None:
            consistent &= values[PSID] == self.rule.psid
        return values[IPV4], values[PSID], consistent


@dataclass(frozen=True)
class MapSources:
    """CEs that IPv6 sources and ports claim.

    Attributes:
        known: ``(n,)``, a rule contains the source.
        consistent: ``(n,)``, the parts of the address agree.
        owned: ``(n,)``, the port belongs to the CE.
        ipv4: ``(n,)``, IPv4 address in the source.
        mask: ``(n,)``, netmask of the CE's IPv4 prefix.
    """

    known: Mask
    consistent: Mask
    owned: Mask
    ipv4: U64
    mask: U64

    def have_address(self, ipv4: U64) -> Mask:
        """Select the CEs that have an IPv4 address."""
        same: Mask = (self.ipv4 ^ ipv4) & self.mask == 0
        return same


@dataclass(frozen=True)
class MapDestinations:
    """MAP addresses of IPv4 destinations and ports.

    Attributes:
        ipv6: ``(n, 16)`` MAP addresses.
        known: ``(n,)``, a rule contains the destination.
        owned: ``(n,)``, the port belongs to a CE of that rule.
    """

    ipv6: U8
    known: Mask
    owned: Mask


class RuleTable:
    """The rules of a border relay, looked up by the longest prefix."""

    def __init__(self, rules: Iterable[MapRule], *, whole_host: bool = False) -> None:
        """Sort the rules.

        Args:
            rules: with different IPv6 prefixes; those of one IPv4 prefix have different PSIDs.
            whole_host: see :func:`v6t.packets.address_layouts.map_address_layout`.
        """
        arrays = [RuleArray(rule, whole_host=whole_host) for rule in rules]
        # later matches replace those of shorter prefixes
        self._by_ipv6 = sorted(arrays, key=lambda a: a.rule.ipv6_prefix.prefixlen)
        self._by_ipv4 = sorted(
            arrays, key=lambda a: (a.rule.ipv4_prefix.prefixlen, a.rule.ipv4_prefix)
        )

    def find_sources(self, high: U64, low: U64, port: U64) -> MapSources:
        """Find the CEs of IPv6 source addresses, given as halves, and ports."""
        high, low, port = (column.astype(np.uint64) for column in (high, low, port))
        known, consistent, owned = np.zeros((3, len(high)), dtype=bool)
        ipv4, mask = np.zeros((2, len(high)), dtype=np.uint64)
        for array in self._by_ipv6:
            inside = array.contains_ipv6(high)
            if not inside.any():
                continue
            claimed, psid, agrees = array.decode_address(high, low)
            owner, in_port_set = array.find_psids(port)
            known |= inside
            np.copyto(consistent, agrees, where=inside)
            np.copyto(owned, in_port_set & (owner == psid), where=inside)
            np.copyto(ipv4, claimed, where=inside)
            np.copyto(mask, array.ce_mask, where=inside)
        return MapSources(known, consistent, owned, ipv4, mask)

    def find_destinations(self, ipv4: U64, port: U64) -> MapDestinations:
        """Find the MAP addresses of IPv4 destinations and ports."""
        ipv4, port = ipv4.astype(np.uint64), port.astype(np.uint64)
        high, low = np.zeros((2, len(ipv4)), dtype=np.uint64)
        known, owned = np.zeros((2, len(ipv4)), dtype=bool)
        shorter = None
        for array in self._by_ipv4:
            inside = array.contains_ipv4(ipv4)
            if not inside.any():
                continue
            if array.rule.ipv4_prefix != shorter:
                owned &= ~inside
            shorter = array.rule.ipv4_prefix
            *halves, in_port_set = array.map_address(ipv4, port)
            in_port_set &= inside
            for column, half in zip((high, low), halves, strict=True):
                np.copyto(column, half, where=in_port_set)
            owned |= in_port_set
            known |= inside
        return MapDestinations(join_halves(high, low), known, owned)


def join_halves(high: U64, low: U64) -> U8:
    """Join halves of IPv6 addresses to ``(n, 16)`` octets."""
    return np.concatenate([to_octets(high, 8), to_octets(low, 8)], axis=1)
