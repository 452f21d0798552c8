"""What a correct MAP-E border relay emits (RFC 7597 sections 5 and 8.1); only UDP is carried.

Forward it decapsulates after the consistency check of section 8.1 (MAP-09); reverse it encapsulates
towards the MAP address that IPv4 destination and port tell (MAP-10). Other IPv6 is routed.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv6Address
from typing import TYPE_CHECKING

import numpy as np
from v6t.plugins.base import Links
from v6t.plugins.common.octets import u16, u32, u64
from v6t.plugins.common.reference_device import (
    COMMON_REASONS,
    EXHAUSTED,
    NOT_FORWARDED,
    Handled,
    Leaving,
    ReferenceDevice,
    dropped,
    route,
    route_all,
)
from v6t.plugins.map_rules import MapRule, RuleArray, find_destinations
from v6t.plugins.tunnel.ipip import carries_udp, decapsulate, encapsulate, is_udp, unmarkable

if TYPE_CHECKING:
    from v6t.packets.arrays import U8, U64, Reasons

NO_RULE, BAD_IID, BAD_SOURCE, BAD_PORT, NO_DESTINATION, NO_PORT, TOO_BIG, UNMARKED = range(
    len(COMMON_REASONS), len(COMMON_REASONS) + 8
)
_SHORTEST = 28
"""Octets of IPv4 and UDP headers."""


class MapERelay:
    """Both handlers of a BR, and what they look up."""

    def __init__(self, rules: Sequence[MapRule], br_address: IPv6Address, links: Links) -> None:
        """Precompute what every batch needs.

        Args:
            rules: all mapping rules.
            br_address: the tunnels' end.
            links: both cables.
        """
        self._br = np.frombuffer(br_address.packed, dtype=np.uint8)
        # longest prefixes last: later matches replace earlier ones
        by_length = sorted(rules, key=lambda r: r.ipv6_prefix.prefixlen)
        self._by_ipv6 = [RuleArray(r) for r in by_length]
        by_length = sorted(rules, key=lambda r: (r.ipv4_prefix.prefixlen, r.ipv4_prefix))
        self._by_ipv4 = [RuleArray(r) for r in by_length]
        self._mtu = links.left.mtu

    def device(self, links: Links) -> ReferenceDevice:
        """The whole device."""
        return ReferenceDevice(links, {6: self._from_ipv6}, {4: self._from_ipv4, 6: route_all(6)})

    def _from_ipv6(self, packets: U8) -> Handled:
        ours = (packets[:, 24:40] == self._br).all(axis=1)
        reason = np.full(len(packets), NOT_FORWARDED, dtype=np.uint8)
        if packets.shape[1] >= 40 + _SHORTEST:
            inner = packets[:, 40:]
            reason = self._source(packets[:, 8:24], u32(inner[:, 12:16]), u16(inner[:, 20:22]))
            reason[(reason == 0) & (inner[:, 8] <= 1)] = EXHAUSTED
            reason[(reason == 0) & unmarkable(packets)] = UNMARKED
            reason[~carries_udp(packets)] = NOT_FORWARDED
        good = ours & (reason == 0)
        leaving = (Leaving(good, decapsulate(packets[good]), 4),) if good.any() else ()
        if ours.all():
            return Handled(reason, leaving)
        native = route(packets, 6, np.where(ours, NOT_FORWARDED, 0).astype(np.uint8))
        return Handled(np.where(ours, reason, native.reason), leaving + native.leaving)

    def _source(self, ipv6: U8, ipv4: U64, port: U64) -> Reasons:
        """0 for packets whose outer and inner source agree, else the reason to drop."""
        high, low = u64(ipv6[:, :8]), u64(ipv6[:, 8:])
        reason = np.full(len(ipv6), NO_RULE, dtype=np.uint8)
        for rule in self._by_ipv6:
            inside = rule.contains_ipv6(high)
            if inside.any():
                violation = _check(rule, high, low, ipv4, port)
                reason = np.where(inside, violation, reason).astype(np.uint8)
        return reason

    def _from_ipv4(self, packets: U8) -> Handled:
        if packets.shape[1] < _SHORTEST:
            return dropped(len(packets), NOT_FORWARDED)
        destinations = find_destinations(
            self._by_ipv4, u32(packets[:, 16:20]), u16(packets[:, 22:24])
        )
        reason = np.where(destinations.owned, 0, NO_PORT).astype(np.uint8)
        reason[~destinations.known] = NO_DESTINATION
        reason[(reason == 0) & (packets[:, 8] <= 1)] = EXHAUSTED
        if packets.shape[1] + 40 > self._mtu:
            reason[reason == 0] = TOO_BIG
        reason[~is_udp(packets)] = NOT_FORWARDED
        good = reason == 0
        outgoing = encapsulate(packets[good], self._br, destinations.ipv6[good])
        return Handled(reason, (Leaving(good, outgoing, 6),) if good.any() else ())


def _check(rule: RuleArray, high: U64, low: U64, source: U64, port: U64) -> Reasons:
    """Return 0 for consistent packets, else the reason to drop."""
    right_high, right_low, owned = rule.map_address(source, port)
    _, _, consistent = rule.decode_address(high, low)
    verdict = np.zeros(len(high), dtype=np.uint8)
    verdict[~owned | (right_high != high) | (right_low != low)] = BAD_PORT
    verdict[(right_low ^ low) & rule.mask_without_psid != 0] = BAD_SOURCE
    verdict[~consistent] = BAD_IID
    return verdict
