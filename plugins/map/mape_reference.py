"""What a correct MAP-E border relay emits (RFC 7597 sections 5 and 8.1); only UDP is carried.

Forward it decapsulates after the consistency check of section 8.1 (MAP-09); reverse it encapsulates
towards the MAP address that IPv4 destination and port tell (MAP-10). Other IPv6 is routed.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv6Address
from typing import TYPE_CHECKING

import numpy as np
from v6t.packets.headers import IPV4, IPV6, UDP, view
from v6t.packets.reference import EXHAUSTED, NOT_FORWARDED
from v6t.plugins.base import Links
from v6t.plugins.common.reference_device import (
    Handled,
    ReferenceDevice,
    answer,
    answer_or_route,
    choose_reasons,
    dropped,
    route_all,
)
from v6t.plugins.map.mape_params import MapEDrop
from v6t.plugins.map_rules import MapRule, RuleArray, find_destinations
from v6t.plugins.tunnel.ipip import carries_udp, decapsulate, encapsulate, is_udp, unmarkable

if TYPE_CHECKING:
    from v6t.packets.arrays import U8, U64, Mask, Reasons

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
        outer = view(packets, IPV6)
        ours = (outer["dst_octets"] == self._br).all(axis=1)
        reason = np.full(len(packets), NOT_FORWARDED, dtype=np.uint8)
        if packets.shape[1] >= 40 + _SHORTEST:
            inner, udp = view(packets, IPV4, 40), view(packets, UDP, 60)
            wrong_source = self._check_source(
                *(a.astype(np.uint64) for a in (outer["src_high"], outer["src_low"])),
                *(a.astype(np.uint64) for a in (inner["src"], udp["sport"])),
            )
            reason = choose_reasons(
                len(packets),
                (NOT_FORWARDED, ~carries_udp(packets)),
                (wrong_source, wrong_source != 0),
                (EXHAUSTED, inner["ttl"] <= 1),
                (MapEDrop.UNMARKED, unmarkable(packets)),
            )
        return answer_or_route(packets, ours, reason, lambda rows: decapsulate(packets[rows]))

    def _check_source(self, high: U64, low: U64, ipv4: U64, port: U64) -> Reasons:
        """Return 0 for packets whose outer and inner source agree, else the drop reason."""
        reason = np.full(len(high), MapEDrop.NO_RULE, dtype=np.uint8)
        for rule in self._by_ipv6:
            inside = rule.contains_ipv6(high)
            if inside.any():
                np.copyto(reason, _check_rule(rule, high, low, ipv4, port), where=inside)
        return reason

    def _from_ipv4(self, packets: U8) -> Handled:
        if packets.shape[1] < _SHORTEST:
            return dropped(len(packets), NOT_FORWARDED)
        header, udp = view(packets, IPV4), view(packets, UDP, 20)
        ipv4, port = header["dst"].astype(np.uint64), udp["dport"].astype(np.uint64)
        destinations = find_destinations(self._by_ipv4, ipv4, port)
        reason = choose_reasons(
            len(packets),
            (NOT_FORWARDED, ~is_udp(packets)),
            (MapEDrop.NO_DESTINATION, ~destinations.known),
            (MapEDrop.NO_PORT, ~destinations.owned),
            (EXHAUSTED, header["ttl"] <= 1),
            (MapEDrop.TOO_BIG, packets.shape[1] + 40 > self._mtu),
        )

        def build(rows: Mask) -> U8:
            return encapsulate(packets[rows], self._br, destinations.ipv6[rows])

        return answer(reason, build, 6)


def _check_rule(rule: RuleArray, high: U64, low: U64, source: U64, port: U64) -> Reasons:
    """Return 0 for packets that are consistent with a rule, else the drop reason."""
    right_high, right_low, owned = rule.map_address(source, port)
    _, _, consistent = rule.decode_address(high, low)
    return choose_reasons(
        len(high),
        (MapEDrop.BAD_IID, ~consistent),
        (MapEDrop.BAD_SOURCE, (right_low ^ low) & rule.mask_without_psid != 0),
        (MapEDrop.BAD_PORT, ~owned | (right_high != high) | (right_low != low)),
    )
