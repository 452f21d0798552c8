"""MAP rules (RFC 7597, RFC 7599) for whole arrays: masks and shifts on 64-bit words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from v6t.packets.headers import to_octets
from v6t.plugins.map.rules import MapRule

if TYPE_CHECKING:
    from v6t.packets.arrays import U8, U64, Mask


class RuleArray:
    """A rule that knows the MAP address of many CEs at once.

    Attributes:
        mask6: selects the bits of an address's high half that ``net6`` is compared with.
        net6: high half of the rule IPv6 prefix.
        mask4: the same for IPv4.
        net4: the rule IPv4 prefix.
    """

    def __init__(self, rule: MapRule, *, whole_host: bool = False) -> None:
        """Precompute masks and shifts.

        Args:
            rule: the rule.
            whole_host: the interface identifier of a CE with an IPv4 prefix holds the complete
                address of the host (MAP-T, erratum 5225 of RFC 7599), not the prefix (MAP-E).
        """
        n, o = rule.ipv6_prefix.prefixlen, rule.ea_len
        self.mask6 = np.uint64(((1 << n) - 1) << 64 - n)
        self.net6 = np.uint64(int(rule.ipv6_prefix.network_address) >> 64)
        self.mask4 = np.uint64(int(rule.ipv4_prefix.netmask))
        self.net4 = np.uint64(int(rule.ipv4_prefix.network_address))
        self._suffix = np.uint64((1 << rule.suffix_len) - 1)
        prefix_bits = rule.suffix_len - o if rule.prefix_ce else 0
        self._prefix_bits = np.uint64(prefix_bits)
        self._cleared_bits = np.uint64(0 if whole_host else prefix_bits)
        self._ea_shift = np.uint64(64 - n - o)
        self._k = np.uint64(rule.psid_len)
        self._psid = np.uint64((1 << rule.psid_len) - 1)
        self._m = np.uint64(rule.low_bits if rule.psid_len else 0)
        self._floor = np.uint64(
            1 << 16 - rule.psid_offset if rule.psid_len and rule.psid_offset else 0
        )
        draft = rule.iid_format == "draft"
        self._ipv4_at, self._psid_at = np.uint64(24 if draft else 16), np.uint64(8 if draft else 0)
        self._embeds = bool(o)
        self._only = None if rule.psid is None else np.uint64(rule.psid)
        self.prefix = rule.ipv4_prefix
        self.psid_field = self._psid << self._psid_at
        """Bits of the low half that hold the PSID."""

    def map_address(self, ipv4: U64, port: U64) -> tuple[U64, U64, Mask]:
        """High and low half of the MAP address, and whether the port belongs to any CE."""
        psid, owned = self.psid_of(port)
        prefix = (ipv4 >> self._cleared_bits) << self._cleared_bits
        high = np.full(len(ipv4), self.net6, dtype=np.uint64)
        if self._embeds:
            suffix = (ipv4 & self._suffix) >> self._prefix_bits
            high |= (suffix << self._k | psid) << self._ea_shift
        return high, prefix << self._ipv4_at | psid << self._psid_at, owned

    def psid_of(self, port: U64) -> tuple[U64, Mask]:
        """PSID of each port, and whether it belongs to any CE."""
        psid = (port >> self._m) & self._psid
        owned = port >= self._floor
        return psid, owned if self._only is None else owned & (psid == self._only)

    def claimed(self, high: U64, low: U64) -> tuple[U64, U64, Mask]:
        """IPv4 address and PSID in an interface identifier, and whether all else agrees."""
        ipv4 = (low >> self._ipv4_at) & np.uint64(0xFFFFFFFF)
        psid = (low >> self._psid_at) & np.uint64(0xFFFF)
        right_high, right_low, _ = self.map_address(ipv4, psid << self._m)
        in_rule = (ipv4 & self.mask4) == self.net4
        if self._only is not None:
            in_rule &= psid == self._only
        return ipv4, psid, in_rule & (right_high == high) & (right_low == low)


@dataclass(frozen=True)
class MapAddresses:
    """Where packets for IPv4 destinations and ports go.

    Attributes:
        ipv6: ``(n, 16)`` MAP addresses.
        known: ``(n,)``, a rule holds the destination.
        owned: ``(n,)``, the port belongs to a CE of that rule.
    """

    ipv6: U8
    known: Mask
    owned: Mask


def map_addresses(rules: Sequence[RuleArray], ipv4: U64, port: U64) -> MapAddresses:
    """Look destinations up.

    Args:
        rules: by length of their IPv4 prefixes, then by these: a longer prefix decides, and several
            rules of one prefix have different PSIDs.
        ipv4: destination addresses.
        port: destination ports.
    """
    high, low = np.zeros((2, len(ipv4)), dtype=np.uint64)
    known, owned = np.zeros((2, len(ipv4)), dtype=bool)
    shorter = None
    for rule in rules:
        inside = (ipv4 & rule.mask4) == rule.net4
        if not inside.any():
            continue
        if rule.prefix != shorter:
            owned &= ~inside
        shorter = rule.prefix
        *address, own = rule.map_address(ipv4, port)
        own &= inside
        for whole, part in zip((high, low), address, strict=True):
            np.copyto(whole, part, where=own)
        owned |= own
        known |= inside
    return MapAddresses(
        np.concatenate([to_octets(high, 8), to_octets(low, 8)], axis=1), known, owned
    )
