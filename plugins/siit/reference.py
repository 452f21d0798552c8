"""What a correct stateless translator sends for test frames: whole UDP datagrams with a checksum.

IPv6 whose destination has no mapping is routed if there is a route.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Network
from typing import TYPE_CHECKING

import numpy as np
from v6t.packets.headers import IPV6, view
from v6t.packets.reference import EXHAUSTED, FORWARDED
from v6t.plugins.base import Links
from v6t.plugins.prefixes import LongestMatch
from v6t.plugins.reference_device import (
    Handled,
    Handler,
    Leaving,
    ReferenceDevice,
    choose_reasons,
    route,
)
from v6t.plugins.siit.params import TranslatorDrop
from v6t.plugins.translation.address_arrays import MappingsArray
from v6t.plugins.translation.eam import Mappings
from v6t.plugins.translation.vectorised import four_to_six, plain_ipv4, plain_ipv6, six_to_four

if TYPE_CHECKING:
    from v6t.packets.arrays import U8


def translator_device(
    mappings: Mappings,
    links: Links,
    *,
    ipv6_is_left: bool,
    lowest_ipv6_mtu: int,
    native: Mapping[str, Sequence[IPv6Network]],
) -> ReferenceDevice:
    """Return a translator between two links.

    Args:
        mappings: its address table.
        links: MAC addresses, VLANs, MTUs.
        ipv6_is_left: which link carries IPv6.
        lowest_ipv6_mtu: IPv4 packets without DF become IPv6 packets of at most this size.
        native: untranslated IPv6 networks behind the ``ipv6`` and behind the ``ipv4`` link.
    """
    six, four = (links.left, links.right) if ipv6_is_left else (links.right, links.left)
    both = _Translation(MappingsArray(mappings), six.mtu, four.mtu, lowest_ipv6_mtu)
    from_ipv6: dict[int, Handler] = {6: both.from_ipv6(LongestMatch(native["ipv4"]))}
    from_ipv4: dict[int, Handler] = {4: both.from_ipv4, 6: _native(LongestMatch(native["ipv6"]))}
    forward, reverse = (from_ipv6, from_ipv4) if ipv6_is_left else (from_ipv4, from_ipv6)
    return ReferenceDevice(links, forward, reverse)


@dataclass(frozen=True)
class _Translation:
    """Translation in both directions by one table."""

    table: MappingsArray
    ipv6_mtu: int
    ipv4_mtu: int
    lowest_ipv6_mtu: int

    def from_ipv4(self, packets: U8) -> Handled:
        """Translate IPv4 packets."""
        source, known = self.table.to_ipv6(packets[:, 12:16])
        destination, mapped = self.table.to_ipv6(packets[:, 16:20])
        octets, df = packets.shape[1] + 20, packets[:, 6] & 0x40 != 0
        reason = np.where(plain_ipv4(packets), FORWARDED, TranslatorDrop.UNTRANSLATABLE).astype(
            np.uint8
        )
        if octets > self.ipv6_mtu:
            reason[df & (reason == FORWARDED)] = TranslatorDrop.TOO_BIG
        if octets > min(self.lowest_ipv6_mtu, self.ipv6_mtu):
            reason[~df & (reason == FORWARDED)] = TranslatorDrop.FRAGMENTS
        reason[~(known & mapped)] = TranslatorDrop.NO_MAPPING
        reason[packets[:, 8] <= 1] = EXHAUSTED
        rows = reason == FORWARDED
        if not rows.any():
            return Handled(reason, ())
        outgoing = four_to_six(packets[rows], source[rows], destination[rows])
        return Handled(reason, (Leaving(rows, outgoing, 6),))

    def from_ipv6(self, native: LongestMatch) -> Handler:
        """Return what translates IPv6 packets whose destination has a mapping, and routes others."""

        def handler(packets: U8) -> Handled:
            source, known = self.table.to_ipv4(packets[:, 8:24])
            destination, mapped = self.table.to_ipv4(packets[:, 24:40])
            routed = (native.find(packets[:, 24:40]) >= 0) & ~mapped
            reason = np.where(plain_ipv6(packets), FORWARDED, TranslatorDrop.UNTRANSLATABLE).astype(
                np.uint8
            )
            if packets.shape[1] - 20 > self.ipv4_mtu:
                reason[reason == FORWARDED] = TranslatorDrop.TOO_BIG
            reason[~(known & mapped)] = TranslatorDrop.NO_MAPPING
            reason[packets[:, 7] <= 1] = EXHAUSTED
            rows = (reason == FORWARDED) & ~routed
            leaving: tuple[Leaving, ...] = ()
            if rows.any():
                outgoing = six_to_four(packets[rows], source[rows], destination[rows])
                leaving = (Leaving(rows, outgoing, 4),)
            if routed.any():
                natively = route(
                    packets, 6, np.where(routed, FORWARDED, TranslatorDrop.NO_MAPPING).astype("u1")
                )
                reason = np.where(routed, natively.reason, reason).astype(np.uint8)
                leaving += natively.leaving
            return Handled(reason, leaving)

        return handler


def _native(networks: LongestMatch) -> Handler:
    def handler(packets: U8) -> Handled:
        unknown = networks.find(view(packets, IPV6)["dst_octets"]) < 0
        reason = choose_reasons(len(packets), (TranslatorDrop.NO_MAPPING, unknown))
        return route(packets, 6, reason)

    return handler
