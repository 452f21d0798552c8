"""Traffic around a MAP border relay: CEs on the left, a server on the right.

MAP-E and MAP-T differ in the forward frame only; what comes from the server is plain IPv4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address

from v6t.base.errors import UsageError
from v6t.packets.direction import Direction
from v6t.plugins.base import Links
from v6t.plugins.common.mixture import background_of, ethernet, ipv4, mixed
from v6t.plugins.map.fields import (
    EA,
    ce_fields,
    ea_variable,
    first_ce,
    fixed_ce_port,
    map_address_fields,
    peer_port,
)
from v6t.plugins.map.params import Domain, MapParams
from v6t.profiles.model import Binding, FramePair, Layer, Role, Traffic, TrafficClass

Headers = Callable[[IPv6Address, IPv4Address], tuple[Layer, ...]]
"""A CE's headers between Ethernet and UDP, from its MAP address and its IPv4 address."""


def relay_traffic(
    params: MapParams,
    links: Links,
    direction: Direction,
    sizes: FramePair,
    seed: int,
    headers: Headers,
    *,
    whole_host: bool = False,
) -> Traffic:
    """All classes of one direction; forward may hold spoofed frames.

    Args:
        params: domains and everything else.
        links: both cables.
        direction: which way.
        sizes: of the frames.
        seed: of the pseudorandom numbers.
        headers: of what a CE sends.
        whole_host: see :func:`v6t.plugins.map.fields.map_address_fields`; there is no IPv4 header
            (MAP-T).
    """

    def sent(domain: Domain, name: str) -> TrafficClass:
        if direction == "forward":
            return _forward(params, domain, links, sizes, name, seed, headers, whole_host)
        return _reverse(params, domain, links, sizes, name, seed)

    domains = params.all_domains
    foreground = []
    for number, domain in enumerate(domains):
        name = "fg" if len(domains) == 1 else f"fg-{number}"
        foreground.append((sent(domain, name), domain.share))
    ends = (params.tester_left_ipv6, params.tester_right_ipv6)
    behind = background_of(params, links, direction, sizes, ends, links.left)
    spoofed = []
    if direction == "forward":
        for kind in _spoofs(params):
            spoofed.append(_spoofed(params, sent(params, f"spoof-{kind}"), kind, whole_host))
    return mixed(params, direction, foreground, behind, spoofed, params.negative_percent, seed)


def _forward(
    params: MapParams,
    domain: Domain,
    links: Links,
    sizes: FramePair,
    name: str,
    seed: int,
    headers: Headers,
    whole_host: bool,
) -> TrafficClass:
    rule = domain.rule
    address, psid = first_ce(domain)
    ea = ea_variable(params, domain, "forward", seed)
    inner = None if whole_host else "IP.src"
    variables, bindings = ce_fields(rule, ea, inner, "UDP.sport", params.fw_sport)
    bindings += map_address_fields(rule, "IPv6.src", whole_host=whole_host)
    peer, more = peer_port(params.fw_dport, "UDP.dport")
    ports = {"sport": fixed_ce_port(rule.port_set(psid), source=True), "dport": params.fw_dport.min}
    layers = (
        *ethernet(links, "forward"),
        *headers(rule.map_address(address, psid), address),
        Layer("UDP", ports),
    )
    return TrafficClass(
        name, Role.FOREGROUND, layers, sizes.ipv6, (*variables, *peer), (*bindings, *more)
    )


def _reverse(
    params: MapParams, domain: Domain, links: Links, sizes: FramePair, name: str, seed: int
) -> TrafficClass:
    rule = domain.rule
    address, psid = first_ce(domain)
    ea = ea_variable(params, domain, "reverse", seed)
    variables, bindings = ce_fields(rule, ea, "IP.dst", "UDP.dport", params.rv_dport)
    peer, more = peer_port(params.rv_sport, "UDP.sport")
    ports = {
        "sport": params.rv_sport.min,
        "dport": fixed_ce_port(rule.port_set(psid), source=False),
    }
    layers = (
        *ethernet(links, "reverse"),
        ipv4(params, params.server_ipv4, address),
        Layer("UDP", ports),
    )
    return TrafficClass(
        name, Role.FOREGROUND, layers, sizes.ipv4, (*variables, *peer), (*bindings, *more)
    )


def _spoofs(params: MapParams) -> list[str]:
    """Kinds of spoofed frames the first rule allows."""
    if not params.negative_percent:
        return []
    kinds = ["prefix"]
    if params.rule.ea_len and params.rule.embedded_suffix_len:
        kinds.append("address")
    if params.rule.ea_len and params.rule.psid_len:
        kinds.append("port")
    return kinds


def _spoofed(params: MapParams, good: TrafficClass, kind: str, whole_host: bool) -> TrafficClass:
    """Frames like the foreground's with one thing wrong that a BR must notice (MAP-09)."""
    rule = params.rule
    bindings = list(good.bindings)
    layers = list(good.layers)
    if kind == "port":
        # one more than the EA value always has other PSID bits
        bindings = [replace(b, add=1) if _is_psid(b, "UDP.sport") else b for b in bindings]
    elif kind == "address":
        own = [b for b in bindings if b.field != "IPv6.src"]
        bindings = own + map_address_fields(
            rule, "IPv6.src", whole_host=whole_host, add=1 << rule.psid_len
        )
    else:
        at = next(i for i, layer in enumerate(layers) if layer.name == "IPv6")
        source = _outside(params, IPv6Address(str(layers[at].fields["src"])))
        layers[at] = Layer("IPv6", {**layers[at].fields, "src": str(source)})
    return replace(good, role=Role.NEGATIVE, bindings=tuple(bindings), layers=tuple(layers))


def _is_psid(binding: Binding, field: str) -> bool:
    return binding.variable == EA and binding.field == field


def _outside(params: MapParams, address: IPv6Address) -> IPv6Address:
    """The address with one prefix bit flipped so that no rule holds it."""
    for bit in range(params.rule.ipv6_prefix.prefixlen - 1, -1, -1):
        flipped = IPv6Address(int(address) ^ 1 << 127 - bit)
        if not any(flipped in d.rule.ipv6_prefix for d in params.all_domains):
            return flipped
    raise UsageError(
        "no address lies outside all rules, so none can be spoofed",
        "set negative_percent to 0",
        code="not-enough-addresses",
    )
