"""A MAP-T CE without its NAPT as a whole device."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import TYPE_CHECKING

from v6t.plugins.common.reassembly import Reassembly
from v6t.plugins.map.whole import Behind, port6_of
from v6t.plugins.translation import rfc7915
from v6t.plugins.translation.eam import Rfc6052
from v6t.plugins.translation.whole import OneHost, TranslatingDevice
from v6t.plugins.tunnel.whole import port_of

if TYPE_CHECKING:
    from v6t.plugins.base import Technology
    from v6t.plugins.customer_edge.params import MapTCeParams
    from v6t.plugins.whole import Leaves, SideName


class WholeMapTCe(TranslatingDevice):
    """The customer's address by the rule, everybody else behind the DMR.

    Of a shared address, packets are reassembled for their ports, and those with a port of another
    CE are silently dropped (RFC 7599, sections 8.1 and 8.2).
    """

    def __init__(self, technology: Technology) -> None:
        super().__init__(technology)
        params: MapTCeParams = technology.params  # type: ignore[assignment]
        host, way = params.customer.ipv4.network_address, params.way
        self._ports = params.customer.ports if params.rule.shared else None
        self._fragments = Reassembly()
        self._ipv6 = way.ipv6(host)
        addresses = OneHost(host, self._ipv6, Behind(Rfc6052(way.dmr)))
        self._translator = rfc7915.Translator(
            addresses, way.lowest_ipv6_mtu, self.mtu["left"], self.mtu["right"]
        )

    def packet(self, side: SideName, version: int, packet: bytes) -> Leaves | None:
        if self._ports is None or (
            version == 6 and not self.translated(IPv6Address(packet[24:40]))
        ):
            return super().packet(side, version, packet)
        reassemble = self._fragments.ipv6 if version == 6 else self._fragments.ipv4
        whole = reassemble(packet)
        if whole is None:
            return []
        port = port6_of(whole, sender=False) if version == 6 else port_of(whole, sender=True)
        return super().packet(side, version, whole) if port in self._ports else []

    def translator(self, packet: bytes) -> rfc7915.Translator:
        """Always the same one."""
        del packet
        return self._translator

    def translated(self, destination: IPv6Address) -> bool:
        """The customer's."""
        return destination == self._ipv6
