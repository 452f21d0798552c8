"""What a correct router emits: the packet with a TTL or hop limit less, if there is a route."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import TYPE_CHECKING

from v6t.packets.headers import IP, view
from v6t.plugins.base import Links
from v6t.plugins.prefixes import LongestMatch
from v6t.plugins.reference_device import Handled, Handler, ReferenceDevice, choose_reasons, route
from v6t.plugins.router.params import RouterDrop

if TYPE_CHECKING:
    from v6t.packets.arrays import U8


def router(
    links: Links,
    ipv4: Mapping[str, Sequence[IPv4Network]],
    ipv6: Mapping[str, Sequence[IPv6Network]],
) -> ReferenceDevice:
    """A router that knows the networks behind its left and right link.

    Args:
        links: MAC addresses and VLANs.
        ipv4: networks by side (``left``, ``right``); none: the version is not routed.
        ipv6: the same.
    """

    def handlers(side: str) -> dict[int, Handler]:
        known: dict[int, Handler] = {}
        if ipv4[side]:
            known[4] = _towards(LongestMatch(ipv4[side]), 4)
        if ipv6[side]:
            known[6] = _towards(LongestMatch(ipv6[side]), 6)
        return known

    return ReferenceDevice(links, handlers("right"), handlers("left"))


def _towards(networks: LongestMatch, version: int) -> Handler:
    def handler(packets: U8) -> Handled:
        unknown = networks.find(view(packets, IP[version])["dst_octets"]) < 0
        return route(packets, version, choose_reasons(len(packets), (RouterDrop.NO_ROUTE, unknown)))

    return handler
