"""Traffic around a MAP border relay: CEs on the left, a server on the right.

MAP-E and MAP-T differ in the forward frame only; what comes from the server is plain IPv4. The EA
bits of a frame's CE appear in up to five places: the end-user prefix, the IPv4 suffix and the PSID
of the interface identifier, the IPv4 address, and the PSID bits of the port. They are bindings of
one variable, so that a frame is always consistent (TRX-11).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address

from v6t.base.errors import UsageError
from v6t.packets.address_layouts import EA, HOST
from v6t.packets.bit_layout import BitLayout
from v6t.packets.direction import Direction
from v6t.plugins.base import Links
from v6t.plugins.common.mixture import background_of, ethernet, ipv4, mixed
from v6t.plugins.common.ports import (
    Policy,
    Varying,
    choose_ce_port,
    vary_ce_port,
    vary_peer_port,
)
from v6t.plugins.map.params import ALL_CES, LISTED_CES, Domain, MapParams
from v6t.plugins.map_rules import MapRule
from v6t.profiles.model import (
    Binding,
    FramePair,
    Kind,
    Layer,
    Role,
    Traffic,
    TrafficClass,
    Variable,
    bind_layout,
)

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
        whole_host: see :func:`v6t.packets.address_layouts.map_address_layout`; frames have no IPv4
            header (MAP-T).
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
            spoofed.append(_spoofed(params, sent(params, f"spoof-{kind}"), kind))
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
    address, psid = rule.decode_ea(domain.ea_bounds[0])
    ea = _ea_variable(params, domain, "forward", seed)
    inner = None if whole_host else "IP.src"
    variables, bindings = _vary_ce(rule, ea, inner, "UDP.sport", params.fw_sport)
    bindings += bind_layout(_ea_address_layout(rule, whole_host), "IPv6.src")
    peer, more = vary_peer_port(params.fw_dport, "UDP.dport")
    ports = {
        "sport": choose_ce_port(rule.port_set(psid), source=True),
        "dport": params.fw_dport.min,
    }
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
    address, psid = rule.decode_ea(domain.ea_bounds[0])
    ea = _ea_variable(params, domain, "reverse", seed)
    variables, bindings = _vary_ce(rule, ea, "IP.dst", "UDP.dport", params.rv_dport)
    peer, more = vary_peer_port(params.rv_sport, "UDP.sport")
    ports = {
        "sport": params.rv_sport.min,
        "dport": choose_ce_port(rule.port_set(psid), source=False),
    }
    layers = (
        *ethernet(links, "reverse"),
        ipv4(params, params.server_ipv4, address),
        Layer("UDP", ports),
    )
    return TrafficClass(
        name, Role.FOREGROUND, layers, sizes.ipv4, (*variables, *peer), (*bindings, *more)
    )


def _vary_ce(
    rule: MapRule, ea: Variable | None, address: str | None, port: str, policy: Policy
) -> Varying:
    """Vary a CE's EA bits, the host within its prefix, and the port within its set.

    Args:
        rule: the rule.
        ea: the variable of the EA bits, None for a rule without.
        address: field of the IPv4 address, None for frames without an IPv4 header.
        port: field of the CE's port.
        policy: how its ports follow each other.
    """
    layouts = rule.ce_layouts
    variables = [ea] if ea else []
    if rule.host_bits:
        variables.append(Variable(HOST, rule.host_bits))
    bindings = bind_layout(layouts.ipv4, address) if address else []
    indices, more = vary_ce_port(
        rule.ports, policy, port, psid=rule.psid or 0, psid_layout=layouts.psid
    )
    return variables + indices, bindings + more


@lru_cache(maxsize=64)
def _ea_address_layout(rule: MapRule, whole_host: bool) -> BitLayout:
    """Return how a MAP address holds EA bits, and the host's if ``whole_host`` is set."""
    address = rule.host_address_layout if whole_host else rule.address_layout
    return address.compose(ipv4=rule.ce_layouts.ipv4, psid=rule.ce_layouts.psid)


def _ea_variable(
    params: MapParams, domain: Domain, direction: Direction, seed: int
) -> Variable | None:
    """Return the EA bits of the simulated CEs (MAP-14); both directions have the same CEs."""
    if not domain.rule.ea_len:
        return None
    width = domain.rule.ea_len
    low, high = domain.ea_bounds
    if _has_port_zero_ce(domain.rule):
        low = max(low, 1)
    if domain.ces == ALL_CES:
        return Variable(EA, width, Kind.UNIFORM, low=low, high=high)
    served = params.find_served_ea(domain, low)
    count = min(domain.ces, sum(map(len, served)))
    if count <= LISTED_CES:
        rule = domain.rule_ipv6
        values = _draw_ea(tuple(served), count, f"{seed}/ces/{rule}", f"{seed}/{direction}/{rule}")
        return Variable(EA, width, Kind.LIST, values=values)
    return Variable(EA, width, Kind.PERMUTATION, low=low, high=low + count - 1)


@lru_cache(maxsize=32)  # every frame size has the same
def _draw_ea(
    served: tuple[range, ...], count: int, sample_seed: str, order_seed: str
) -> tuple[int, ...]:
    """Draw EA values by the first seed and shuffle them by the second."""
    places = random.Random(sample_seed).sample(range(sum(map(len, served))), count)  # noqa: S311
    values = [value_at(served, place) for place in places]
    random.Random(order_seed).shuffle(values)  # noqa: S311
    return tuple(values)


def value_at(ranges: Iterable[range], place: int) -> int:
    """Return the value at a place (from 0) of all ranges together."""
    for values in ranges:
        if place < len(values):
            return values[place]
        place -= len(values)
    raise IndexError(place)


def _has_port_zero_ce(rule: MapRule) -> bool:
    """Whether EA value 0 belongs to a CE that has port 0 and no other."""
    return rule.psid_len == 16 and rule.psid_offset == 0 and rule.suffix_len == 0


def _spoofs(params: MapParams) -> list[str]:
    """Kinds of spoofed frames the first rule allows."""
    if not params.negative_percent:
        return []
    kinds = ["prefix"]
    if params.rule.ea_len and params.rule.suffix_len:
        kinds.append("address")
    if params.rule.ea_len and params.rule.psid_len:
        kinds.append("port")
    return kinds


def _spoofed(params: MapParams, good: TrafficClass, kind: str) -> TrafficClass:
    """Frames like the foreground's with one thing wrong that a BR must notice (MAP-09)."""
    bindings = list(good.bindings)
    layers = list(good.layers)
    if kind == "port":
        # one more than the EA value always has other PSID bits
        bindings = [replace(b, add=1) if _copies_ea(b, "UDP.sport") else b for b in bindings]
    elif kind == "address":
        # the IPv4 suffix is the first EA bits; the next EA value but PSID has another one
        add = 1 << params.rule.psid_len
        bindings = [replace(b, add=add) if _is_suffix(b, "IPv6.src") else b for b in bindings]
    else:
        at = next(i for i, layer in enumerate(layers) if layer.name == "IPv6")
        source = _outside(params, IPv6Address(str(layers[at].fields["src"])))
        layers[at] = Layer("IPv6", {**layers[at].fields, "src": str(source)})
    return replace(good, role=Role.NEGATIVE, bindings=tuple(bindings), layers=tuple(layers))


def _copies_ea(binding: Binding, field: str) -> bool:
    return binding.variable == EA and binding.field == field


def _is_suffix(binding: Binding, field: str) -> bool:
    """Whether a binding copies the IPv4 suffix to an interface identifier."""
    return _copies_ea(binding, field) and binding.first >= 64 and not binding.var_first


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
