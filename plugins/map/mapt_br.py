"""MAP-T border relay (RFC 7599): the CEs' packets arrive as IPv6 and leave as IPv4."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from v6t.plugins.base import Links
from v6t.plugins.common.mixture import ethernet, ipv6
from v6t.plugins.common.relay import Relay
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
from v6t.plugins.sizes import IPV6_SIZES, check_whole
from v6t.plugins.translation import rfc6052
from v6t.profiles.intent_settings import MapRelay
from v6t.profiles.model import Direction, FramePair, Layer, Role, Traffic, TrafficClass

if TYPE_CHECKING:
    from v6t.plugins.common.reference_device import ReferenceDevice


class MapTBorderRelay(Relay):
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
    sides = ("CEs", "server")
    drop_reasons: ClassVar[tuple[str, ...]] = DROP_REASONS
    default_frame_sizes = IPV6_SIZES[:1]
    rfc_frame_sizes = IPV6_SIZES
    params: MapTParams

    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        """Foreground per domain, background and spoofed frames as the parameters say."""
        p = self.params
        if direction == "reverse":
            check_whole(p.df, sizes.ipv6, self.links.left, p.lowest_ipv6_mtu)
        return relay_traffic(p, self.links, direction, sizes, seed, _forward, whole_host=True)

    def settings(self) -> MapRelay:
        """Rules and the DMR."""
        p = self.params
        return MapRelay(
            rules=rule_settings(p),
            dmr=p.dmr_prefix,
            lowest_ipv6_mtu=p.lowest_ipv6_mtu,
            mtu=self.links.left.mtu,
        )

    def left_addresses(self) -> list[str]:
        """The BR's."""
        return [str(self.params.dut_left_ipv6)]

    def reference_device(self) -> ReferenceDevice:
        """See the base class."""
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
