"""What a correct MAP-T border relay emits.

Forward, an IPv6 packet for the DMR prefix is checked against the rules (MAP-09) and becomes IPv4;
reverse, IPv4 becomes IPv6 for the MAP address that destination and port tell (MAP-10, MAP-11).
Other IPv6 is routed. Only UDP is translated: the tester sends nothing else.
"""

from __future__ import annotations

from ipaddress import IPv6Network
from typing import TYPE_CHECKING

import numpy as np
from v6t.packets.headers import DONT_FRAGMENT, IPV4, IPV6, UDP, to_octets, view
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
from v6t.plugins.map.mapt_params import MapTDrop
from v6t.plugins.map_rules import MapRule, RuleArray, find_destinations
from v6t.plugins.translation import Rfc6052Array, four_to_six, plain_ipv4, plain_ipv6, six_to_four

if TYPE_CHECKING:
    from collections.abc import Sequence

    from v6t.packets.arrays import U8, U64, Mask, Reasons


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

    def map_source(self, high: U64, low: U64, port: U64) -> tuple[U8, Reasons]:
        """Return the IPv4 address of CEs, and 0 or the reason to drop their packets.

        Args:
            high, low: ``(n,)``, halves of the IPv6 source addresses.
            port: ``(n,)``, source ports.
        """
        reason = np.full(len(high), MapTDrop.NO_RULE, dtype=np.uint8)
        address = np.zeros(len(high), dtype=np.uint64)
        for rule in self._by_ipv6:
            inside = rule.contains_ipv6(high)
            if not inside.any():
                continue
            claimed, psid, consistent = rule.decode_address(high, low)
            owner, owned = rule.find_psids(port)
            verdict = choose_reasons(
                len(high),
                (MapTDrop.BAD_IID, ~consistent),
                (MapTDrop.BAD_PORT, ~owned | (owner != psid)),
            )
            np.copyto(reason, verdict, where=inside)
            np.copyto(address, claimed, where=inside)
        return to_octets(address, 4), reason

    def map_destination(self, ipv4: U64, port: U64) -> tuple[U8, Reasons]:
        """Return the MAP addresses of IPv4 destinations and ports, and 0 or the drop reason."""
        found = find_destinations(self._by_ipv4, ipv4, port)
        reason = choose_reasons(
            len(ipv4), (MapTDrop.NO_DESTINATION, ~found.known), (MapTDrop.NO_PORT, ~found.owned)
        )
        return found.ipv6, reason

    def _from_ipv6(self, packets: U8) -> Handled:
        header = view(packets, IPV6)
        server, inside = self._dmr.to_ipv4(header["dst_octets"])
        source = np.zeros((len(packets), 4), dtype=np.uint8)
        reason = np.full(len(packets), NOT_FORWARDED, dtype=np.uint8)
        if inside.any() and packets.shape[1] >= 48:
            high, low, port = (
                numbers.astype(np.uint64)
                for numbers in (
                    header["src_high"],
                    header["src_low"],
                    view(packets, UDP, 40)["sport"],
                )
            )
            source, wrong_source = self.map_source(high, low, port)
            reason = choose_reasons(
                len(packets),
                (NOT_FORWARDED, ~plain_ipv6(packets)),
                (wrong_source, wrong_source != 0),
                (EXHAUSTED, header["hlim"] <= 1),
                (MapTDrop.TOO_BIG, packets.shape[1] - 20 > self._ipv4_mtu),
            )

        def build(rows: Mask) -> U8:
            return six_to_four(packets[rows], source[rows], server[rows])

        return answer_or_route(packets, inside, reason, build)

    def _from_ipv4(self, packets: U8) -> Handled:
        plain = plain_ipv4(packets)
        if not plain.any():
            return dropped(len(packets), NOT_FORWARDED)
        header, udp = view(packets, IPV4), view(packets, UDP, 20)
        ipv4, port = header["dst"].astype(np.uint64), udp["dport"].astype(np.uint64)
        destination, unknown = self.map_destination(ipv4, port)
        df = header["flags_frag"] & DONT_FRAGMENT != 0
        reason = choose_reasons(
            len(packets),
            (NOT_FORWARDED, ~plain),
            (unknown, unknown != 0),
            (EXHAUSTED, header["ttl"] <= 1),
            (MapTDrop.TOO_BIG, packets.shape[1] + 20 > np.where(df, self._ipv6_mtu, self._lowest)),
        )

        def build(rows: Mask) -> U8:
            server, _ = self._dmr.to_ipv6(packets[rows, 12:16])
            return four_to_six(packets[rows], server, destination[rows])

        return answer(reason, build, 6)
