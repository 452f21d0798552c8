"""What a correct stateless translator emits.

Plain UDP is translated as an array. Everything else goes through :mod:`v6t.plugins.translation.rfc7915`, a
packet at a time. IPv6 that no mapping concerns is routed if there is a route.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from ipaddress import IPv6Network
from typing import TYPE_CHECKING

import numpy as np
from v6t.packets.headers import DONT_FRAGMENT, IPV4, IPV6, view
from v6t.packets.reference import EXHAUSTED
from v6t.plugins.base import Links
from v6t.plugins.common.prefixes import LongestMatch
from v6t.plugins.common.reference_device import (
    Handled,
    Handler,
    Leaving,
    ReferenceDevice,
    choose_reasons,
    route,
)
from v6t.plugins.siit.params import TranslatorDrop
from v6t.plugins.translation import rfc7915
from v6t.plugins.translation.address_arrays import MappingsArray
from v6t.plugins.translation.eam import Mappings
from v6t.plugins.translation.vectorised import four_to_six, plain_ipv4, plain_ipv6, six_to_four

if TYPE_CHECKING:
    from v6t.packets.arrays import U8, Mask, Reasons

_REFUSED = {
    rfc7915.EXHAUSTED: EXHAUSTED,
    rfc7915.NO_MAPPING: TranslatorDrop.NO_MAPPING,
    rfc7915.TOO_BIG: TranslatorDrop.TOO_BIG,
    rfc7915.UNTRANSLATABLE: TranslatorDrop.UNTRANSLATABLE,
}


def translator_device(
    mappings: Mappings,
    links: Links,
    *,
    ipv6_is_left: bool,
    lowest_ipv6_mtu: int,
    native: Mapping[str, Sequence[IPv6Network]],
) -> ReferenceDevice:
    """A translator between two links.

    Args:
        mappings: its address table.
        links: MAC addresses, VLANs, MTUs.
        ipv6_is_left: which link carries IPv6.
        lowest_ipv6_mtu: see :class:`v6t.plugins.translation.rfc7915.Translator`.
        native: untranslated IPv6 networks behind the ``ipv6`` and behind the ``ipv4`` link.
    """
    six, four = (links.left, links.right) if ipv6_is_left else (links.right, links.left)
    scalar = rfc7915.Translator(mappings, lowest_ipv6_mtu, six.mtu, four.mtu)
    both = _Translation(MappingsArray(mappings), scalar)
    from_ipv6: dict[int, Handler] = {6: both.from_ipv6(LongestMatch(native["ipv4"]))}
    from_ipv4: dict[int, Handler] = {4: both.from_ipv4, 6: _native(LongestMatch(native["ipv6"]))}
    forward, reverse = (from_ipv6, from_ipv4) if ipv6_is_left else (from_ipv4, from_ipv6)
    return ReferenceDevice(links, forward, reverse)


class _Translation:
    """Both ways through one table."""

    def __init__(self, table: MappingsArray, scalar: rfc7915.Translator) -> None:
        self._table = table
        self._scalar = scalar

    def from_ipv4(self, packets: U8) -> Handled:
        """Every IPv4 packet is to be translated."""
        header = view(packets, IPV4)
        df = header["flags_frag"] & DONT_FRAGMENT != 0
        limit = np.where(df, self._scalar.ipv6_mtu, self._scalar.lowest_ipv6_mtu)
        plain = plain_ipv4(packets) & (header["ttl"] > 1) & (packets.shape[1] + 20 <= limit)
        reason = np.zeros(len(packets), dtype=np.uint8)
        rows = packets if plain.all() else packets[plain]
        header = view(rows, IPV4)
        source, known = self._table.to_ipv6(header["src_octets"])
        destination, also = self._table.to_ipv6(header["dst_octets"])
        return self._both(
            packets, plain, reason, four_to_six(rows, source, destination), known & also, 6
        )

    def from_ipv6(self, native: LongestMatch) -> Handler:
        """IPv6 packets: translated where the destination has a mapping, else routed."""

        def handler(packets: U8) -> Handled:
            header = view(packets, IPV6)
            routed = native.find(header["dst_octets"]) >= 0
            _, mapped = self._table.to_ipv4(header["dst_octets"])
            routed &= ~mapped
            plain = plain_ipv6(packets) & ~routed & (header["hlim"] > 1)
            plain &= packets.shape[1] - 20 <= self._scalar.ipv4_mtu
            reason = np.zeros(len(packets), dtype=np.uint8)
            rows = packets if plain.all() else packets[plain]
            header = view(rows, IPV6)
            source, known = self._table.to_ipv4(header["src_octets"])
            destination, also = self._table.to_ipv4(header["dst_octets"])
            outgoing = six_to_four(rows, source, destination)
            handled = self._both(packets, plain, reason, outgoing, known & also, 4, routed)
            if not routed.any():
                return handled
            reasons = np.where(routed, handled.reason, np.uint8(TranslatorDrop.NO_MAPPING))
            natively = route(packets, 6, reasons)
            reason = np.where(routed, natively.reason, handled.reason).astype(np.uint8)
            return Handled(reason, handled.leaving + natively.leaving)

        return handler

    def _both(
        self,
        packets: U8,
        plain: Mask,
        reason: Reasons,
        outgoing: U8,
        mapped: Mask,
        version: int,
        routed: Mask | None = None,
    ) -> Handled:
        """The fast rows, and the others one by one."""
        fast = plain.copy()
        fast[plain] = mapped
        reason[plain & ~fast] = TranslatorDrop.NO_MAPPING
        leaving = []
        if fast.any():
            leaving.append(Leaving(fast, outgoing if mapped.all() else outgoing[mapped], version))
        slow = ~plain if routed is None else ~plain & ~routed
        by_length: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
        for row in np.flatnonzero(slow):
            try:
                if version == 6:
                    out = self._scalar.four_to_six(packets[row].tobytes())
                else:
                    out = [self._scalar.six_to_four(packets[row].tobytes())]
            except rfc7915.Refused as exc:
                reason[row] = _REFUSED[exc.reason]
                continue
            if len(out) > 1:
                reason[row] = TranslatorDrop.FRAGMENTS
                continue
            by_length[len(out[0])].append((int(row), out[0]))
        for length, pairs in by_length.items():
            rows = np.zeros(len(packets), dtype=bool)
            rows[[row for row, _ in pairs]] = True
            octets = b"".join(packet for _, packet in pairs)
            leaving.append(
                Leaving(rows, np.frombuffer(octets, np.uint8).reshape(-1, length), version)
            )
        return Handled(reason, tuple(leaving))


def _native(networks: LongestMatch) -> Handler:
    def handler(packets: U8) -> Handled:
        unknown = networks.find(view(packets, IPV6)["dst_octets"]) < 0
        reason = choose_reasons(len(packets), (TranslatorDrop.NO_MAPPING, unknown))
        return route(packets, 6, reason)

    return handler
