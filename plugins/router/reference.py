"""What a correct router emits: the packet with a TTL or hop limit less, if there is a route."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import TYPE_CHECKING

import numpy as np
from v6t.plugins.base import Links
from v6t.plugins.common.prefixes import LongestMatch
from v6t.plugins.common.reference_device import (
    COMMON_REASONS,
    Handled,
    Handler,
    ReferenceDevice,
    route,
)

if TYPE_CHECKING:
    from v6t.packets.arrays import U8

NO_ROUTE = len(COMMON_REASONS)


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
    first, last = (16, 20) if version == 4 else (24, 40)

    def handler(packets: U8) -> Handled:
        unknown = networks.find(packets[:, first:last]) < 0
        return route(packets, version, np.where(unknown, NO_ROUTE, 0).astype(np.uint8))

    return handler
