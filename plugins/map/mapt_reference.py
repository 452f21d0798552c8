"""What a correct MAP-T border relay emits.

Forward, an IPv6 packet for the DMR prefix is checked against the rules (MAP-09) and becomes IPv4;
reverse, IPv4 becomes IPv6 for the MAP address that destination and port tell (MAP-10, MAP-11).
Other IPv6 is routed. Only UDP is translated: the tester sends nothing else.
"""

from __future__ import annotations

from ipaddress import IPv6Network
from typing import TYPE_CHECKING

import numpy as np
from v6t.plugins.base import Links
from v6t.plugins.common.octets import octets4, u16, u32, u64
from v6t.plugins.common.reference_device import (
    COMMON_REASONS,
    EXHAUSTED,
    NOT_FORWARDED,
    Handled,
    Leaving,
    ReferenceDevice,
    route,
    route_all,
)
from v6t.plugins.map_rules import MapRule, RuleArray, find_destinations
from v6t.plugins.translation.address_arrays import Rfc6052Array
from v6t.plugins.translation.vectorised import four_to_six, plain_ipv4, plain_ipv6, six_to_four

if TYPE_CHECKING:
    from collections.abc import Sequence

    from v6t.packets.arrays import U8, Mask, Reasons


NO_RULE, BAD_IID, BAD_PORT, NO_DESTINATION, NO_PORT, TOO_BIG = range(
    len(COMMON_REASONS), len(COMMON_REASONS) + 6
)
_DF = 0x40


class MapTRelay:
    """Both handlers of a BR, and what they look up."""

    def __init__(
        self, rules: Sequence[MapRule], dmr: IPv6Network, links: Links, lowest_ipv6_mtu: int
    ) -> None:
        """Precompute what every batch needs.

        Args:
            rules: all mapping rules.
            dmr: the default mapping rule's prefix.
            links: both cables.
            lowest_ipv6_mtu: longest IPv6 packet made of IPv4 without DF [octets].
        """
        # longest prefixes last: later matches replace earlier ones
        by_length = sorted(rules, key=lambda r: r.ipv6_prefix.prefixlen)
        self._by_ipv6 = [RuleArray(r, whole_host=True) for r in by_length]
        by_length = sorted(rules, key=lambda r: (r.ipv4_prefix.prefixlen, r.ipv4_prefix))
        self._by_ipv4 = [RuleArray(r, whole_host=True) for r in by_length]
        self._dmr = Rfc6052Array(dmr)
        self._ipv6_mtu, self._ipv4_mtu = links.left.mtu, links.right.mtu
        self._lowest = lowest_ipv6_mtu

    def device(self, links: Links) -> ReferenceDevice:
        """The whole device."""
        return ReferenceDevice(links, {6: self._from_ipv6}, {4: self._from_ipv4, 6: route_all(6)})

    def source(self, ipv6: U8, port: U8) -> tuple[U8, Reasons]:
        """IPv4 address in a CE's IPv6 address, and 0 or the reason to drop.

        Args:
            ipv6: ``(n, 16)`` source addresses.
            port: ``(n, 2)`` source ports.
        """
        high, low, number = u64(ipv6[:, :8]), u64(ipv6[:, 8:]), u16(port)
        reason = np.full(len(ipv6), NO_RULE, dtype=np.uint8)
        address = np.zeros(len(ipv6), dtype=np.uint64)
        for rule in self._by_ipv6:
            inside = rule.contains_ipv6(high)
            if not inside.any():
                continue
            ipv4, psid, consistent = rule.decode_address(high, low)
            owner, owned = rule.find_psids(number)
            verdict = np.where(owned & (owner == psid), 0, BAD_PORT)
            verdict[~consistent] = BAD_IID
            reason = np.where(inside, verdict, reason).astype(np.uint8)
            np.copyto(address, ipv4, where=inside)
        return octets4(address), reason

    def destination(self, ipv4: U8, port: U8) -> tuple[U8, Reasons]:
        """MAP address of an IPv4 destination and port, and 0 or the reason to drop.

        Args:
            ipv4: ``(n, 4)`` destination addresses.
            port: ``(n, 2)`` destination ports.
        """
        destinations = find_destinations(self._by_ipv4, u32(ipv4), u16(port))
        reason = np.where(destinations.owned, 0, NO_PORT).astype(np.uint8)
        reason[~destinations.known] = NO_DESTINATION
        return destinations.ipv6, reason

    def _from_ipv6(self, packets: U8) -> Handled:
        server, inside = self._dmr.to_ipv4(packets[:, 24:40])
        if not inside.any():
            return route(packets, 6, np.zeros(len(packets), dtype=np.uint8))
        source, reason = self._sources(packets)
        reason[(reason == 0) & (packets[:, 7] <= 1)] = EXHAUSTED
        if packets.shape[1] - 20 > self._ipv4_mtu:
            reason[reason == 0] = TOO_BIG
        good = inside & (reason == 0)
        outgoing = six_to_four(packets[good], source[good], server[good])
        leaving = (Leaving(good, outgoing, 4),) if good.any() else ()
        if inside.all():
            return Handled(reason, leaving)
        native = route(packets, 6, np.where(inside, NOT_FORWARDED, 0).astype(np.uint8))
        return Handled(np.where(inside, reason, native.reason), leaving + native.leaving)

    def _sources(self, packets: U8) -> tuple[U8, Reasons]:
        plain = plain_ipv6(packets)
        if packets.shape[1] < 48:
            reason = np.full(len(packets), NOT_FORWARDED, dtype=np.uint8)
            return np.zeros((len(packets), 4), dtype=np.uint8), reason
        source, reason = self.source(packets[:, 8:24], packets[:, 40:42])
        reason[~plain] = NOT_FORWARDED
        return source, reason

    def _from_ipv4(self, packets: U8) -> Handled:
        plain = plain_ipv4(packets)
        if not plain.any():
            return Handled(np.full(len(packets), NOT_FORWARDED, dtype=np.uint8), ())
        destination, reason = self.destination(packets[:, 16:20], packets[:, 22:24])
        reason[~plain] = NOT_FORWARDED
        reason[(reason == 0) & (packets[:, 8] <= 1)] = EXHAUSTED
        reason[(reason == 0) & ~self._fits(packets)] = TOO_BIG
        good = reason == 0
        server, _ = self._dmr.to_ipv6(packets[good, 12:16])
        outgoing = four_to_six(packets[good], server, destination[good])
        return Handled(reason, (Leaving(good, outgoing, 6),) if good.any() else ())

    def _fits(self, packets: U8) -> Mask:
        octets = packets.shape[1] + 20
        df = packets[:, 6] & _DF != 0
        fits: Mask = np.where(df, octets <= self._ipv6_mtu, octets <= self._lowest)
        return fits
