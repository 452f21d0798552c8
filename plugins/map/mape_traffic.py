"""Traffic of a MAP-E border relay: IPv4 of the CEs in IPv6, plain IPv4 of the server."""

from __future__ import annotations

from v6t.plugins.base import Links
from v6t.plugins.common.mixture import ethernet, ipv4, ipv6
from v6t.plugins.map.fields import (
    ce_fields,
    ea_variable,
    first_ce,
    fixed_ce_port,
    map_address_fields,
    peer_port,
)
from v6t.plugins.map.mape_params import MapEParams
from v6t.plugins.map.params import Domain
from v6t.plugins.map.relay_traffic import relay_traffic
from v6t.profiles.model import Direction, FramePair, Layer, Role, Traffic, TrafficClass


def mape_traffic(
    params: MapEParams, links: Links, direction: Direction, sizes: FramePair, seed: int
) -> Traffic:
    """All classes of one direction; forward may hold spoofed frames."""
    return relay_traffic(params, links, direction, sizes, seed, _forward)


def _forward(
    params: MapEParams, domain: Domain, links: Links, sizes: FramePair, name: str, seed: int
) -> TrafficClass:
    rule = domain.rule
    address, psid = first_ce(domain)
    ea = ea_variable(params, domain, "forward", seed)
    variables, bindings = ce_fields(rule, ea, "IP.src", "UDP.sport", params.fw_sport)
    bindings += map_address_fields(rule, "IPv6.src")
    peer, more = peer_port(params.fw_dport, "UDP.dport")
    ports = {"sport": fixed_ce_port(rule.port_set(psid), source=True), "dport": params.fw_dport.min}
    layers = (
        *ethernet(links, "forward"),
        ipv6(params, rule.map_address(address, psid), params.br_address),
        ipv4(params, address, params.server_ipv4),
        Layer("UDP", ports),
    )
    return TrafficClass(
        name, Role.FOREGROUND, layers, sizes.ipv6, (*variables, *peer), (*bindings, *more)
    )
