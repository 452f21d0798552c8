"""A MAP-T CE that has an IPv4 address to itself, as a whole device."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import TYPE_CHECKING

from v6t.plugins.map.whole import Behind
from v6t.plugins.translation import rfc7915
from v6t.plugins.translation.eam import Rfc6052
from v6t.plugins.translation.whole import OneHost, TranslatingDevice

if TYPE_CHECKING:
    from v6t.plugins.base import Technology
    from v6t.plugins.customer_edge.params import MapTCeParams


class WholeMapTCe(TranslatingDevice):
    """The customer's address by the rule, everybody else behind the DMR."""

    def __init__(self, technology: Technology) -> None:
        """Look up who is the customer."""
        super().__init__(technology)
        params: MapTCeParams = technology.params  # type: ignore[assignment]
        host, way = params.customer.ipv4.network_address, params.way
        self._ipv6 = way.ipv6(host)
        addresses = OneHost(host, self._ipv6, Behind(Rfc6052(way.dmr)))
        self._translator = rfc7915.Translator(
            addresses, way.lowest_ipv6_mtu, self.mtu["left"], self.mtu["right"]
        )

    def translator(self, packet: bytes) -> rfc7915.Translator:
        """Always the same one."""
        del packet
        return self._translator

    def translated(self, destination: IPv6Address) -> bool:
        """The customer's."""
        return destination == self._ipv6
