"""MAP-E border relay (RFC 7597): the CEs' IPv4 packets arrive in IPv6, the server's leave in it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from v6t.plugins.base import DutIntent, Expected, Links, Technology
from v6t.plugins.common.relay_params import relay_sides
from v6t.plugins.common.sizes import translated_pair
from v6t.plugins.map.intent import rule_settings
from v6t.plugins.map.mape_params import DROP_REASONS, MapEParams
from v6t.plugins.map.mape_traffic import mape_traffic
from v6t.profiles.model import Direction, FramePair, Traffic

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from v6t.plugins.common.reference_device import ReferenceDevice


class MapEBorderRelay(Technology):
    """Decapsulates forward, encapsulates in reverse; stateless."""

    name = "mape-br"
    title = "MAP-E border relay: IPv4 of many CEs in IPv6, decapsulated and encapsulated"
    rfcs = ("RFC 7597",)
    params_model = MapEParams
    overhead = 40
    ip_versions = (6, 4)
    sides = ("CEs", "server")
    drop_reasons: ClassVar[tuple[str, ...]] = DROP_REASONS
    default_frame_sizes = (104,)
    rfc_frame_sizes = (104, 168, 296, 552, 808, 1064, 1320, 1518)

    def __init__(self, params: MapEParams | None = None, links: Links | None = None) -> None:
        super().__init__(params or MapEParams(), links)
        self.params: MapEParams

    def frame_pair(self, ipv6_frame_size: int) -> FramePair:
        """Both sizes, FCS and VLAN tags included; see the base class."""
        return translated_pair(
            ipv6_frame_size, self.overhead, self.links.left, self.links.right, "MAP-E"
        )

    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        """Foreground per domain, background and spoofed frames as the parameters say."""
        return mape_traffic(self.params, self.links, direction, sizes, seed)

    def expect(self, direction: Direction, frames: NDArray[np.uint8]) -> Expected:
        """The reference translation; see :mod:`v6t.plugins.map.mape_reference`."""
        return self._device.expect(direction, frames)

    def dut_intent(self) -> DutIntent:
        """Rules, the BR address, both links with static neighbours and routes to the CEs."""
        p = self.params
        left, right = relay_sides(p, self.links, f"{p.br_address}/64", p.customers)
        return DutIntent(
            technology=self.name,
            settings={
                "rules": rule_settings(p),
                "br_address": str(p.br_address),
                "mtu": self.links.left.mtu,
            },
            links=self.links,
            left=left,
            right=right,
        )

    @cached_property
    def _device(self) -> ReferenceDevice:
        from v6t.plugins.map.mape_reference import MapERelay

        rules = [d.rule for d in self.params.all_domains]
        return MapERelay(rules, self.params.br_address, self.links).device(self.links)
