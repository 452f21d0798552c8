"""MAP-T border relay (RFC 7599): the CEs' packets arrive as IPv6 and leave as IPv4."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from v6t.plugins.base import DutIntent, Expected, Links, Technology
from v6t.plugins.common.mixture import ethernet, ipv6
from v6t.plugins.common.relay_params import relay_sides
from v6t.plugins.common.sizes import check_whole, translated_pair
from v6t.plugins.map.fields import (
    ce_fields,
    ea_variable,
    first_ce,
    fixed_ce_port,
    map_address_fields,
    peer_port,
)
from v6t.plugins.map.intent import rule_settings
from v6t.plugins.map.mapt_params import DROP_REASONS, MapTParams
from v6t.plugins.map.params import Domain
from v6t.plugins.map.relay_traffic import relay_traffic
from v6t.plugins.translation import rfc6052
from v6t.profiles.model import Direction, FramePair, Layer, Role, Traffic, TrafficClass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from v6t.plugins.common.reference_device import ReferenceDevice


class MapTBorderRelay(Technology):
    """Translates IPv6 of the CEs forward, IPv4 of the server in reverse; stateless."""

    name = "mapt-br"
    title = "MAP-T border relay: IPv4 of many CEs translated to IPv6 and back"
    rfcs = (
        "RFC 7599",
        "RFC 7597 sections 5 and 6",
        "RFC 7915 sections 4 and 5",
        "RFC 6052 section 2",
    )
    params_model = MapTParams
    overhead = 20
    ip_versions = (6, 4)
    sides = ("CEs", "server")
    drop_reasons: ClassVar[tuple[str, ...]] = DROP_REASONS
    default_frame_sizes = (84,)
    rfc_frame_sizes = (84, 128, 256, 512, 768, 1024, 1280, 1518)
    params: MapTParams

    def __init__(self, params: MapTParams | None = None, links: Links | None = None) -> None:
        super().__init__(params or MapTParams(), links)

    def frame_pair(self, ipv6_frame_size: int) -> FramePair:
        """Twenty octets apart; see the base class."""
        left, right = self.links.left, self.links.right
        return translated_pair(ipv6_frame_size, self.overhead, left, right, "MAP-T")

    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        """Foreground per domain, background and spoofed frames as the parameters say."""
        p = self.params
        if direction == "reverse":
            check_whole(p.df, sizes.ipv6, self.links.left, p.lowest_ipv6_mtu)
        return relay_traffic(p, self.links, direction, sizes, seed, _forward, whole_host=True)

    def expect(self, direction: Direction, frames: NDArray[np.uint8]) -> Expected:
        """The reference translation; see :mod:`v6t.plugins.map.mapt_reference`."""
        return self._device.expect(direction, frames)

    def dut_intent(self) -> DutIntent:
        """Rules, the DMR, both links with static neighbours and routes to the CEs."""
        p = self.params
        left, right = relay_sides(p, self.links, str(p.dut_left_ipv6), p.customers)
        return DutIntent(
            technology=self.name,
            settings={
                "rules": rule_settings(p),
                "dmr": str(p.dmr_prefix),
                "lowest_ipv6_mtu": p.lowest_ipv6_mtu,
                "mtu": self.links.left.mtu,
            },
            links=self.links,
            left=left,
            right=right,
        )

    @cached_property
    def _device(self) -> ReferenceDevice:
        from v6t.plugins.map.mapt_reference import MapTRelay

        p = self.params
        rules = [d.rule for d in p.all_domains]
        return MapTRelay(rules, p.dmr_prefix, self.links, p.lowest_ipv6_mtu).device(self.links)


def _forward(
    params: MapTParams, domain: Domain, links: Links, sizes: FramePair, name: str, seed: int
) -> TrafficClass:
    """What a CE sends: no IPv4 header, so its host's address is in the identifier only."""
    rule = domain.rule
    address, psid = first_ce(domain)
    ea = ea_variable(params, domain, "forward", seed)
    variables, bindings = ce_fields(rule, ea, None, "UDP.sport", params.fw_sport)
    bindings += map_address_fields(rule, "IPv6.src", whole_host=True)
    peer, more = peer_port(params.fw_dport, "UDP.dport")
    ports = {"sport": fixed_ce_port(rule.port_set(psid), source=True), "dport": params.fw_dport.min}
    layers = (
        *ethernet(links, "forward"),
        ipv6(
            params,
            rule.map_address(address, psid),
            rfc6052.embed(params.dmr_prefix, params.server_ipv4),
        ),
        Layer("UDP", ports),
    )
    return TrafficClass(
        name, Role.FOREGROUND, layers, sizes.ipv6, (*variables, *peer), (*bindings, *more)
    )
