"""Traffic of a MAP-E border relay: CEs on the left, a server on the right.

One EA value per frame appears in up to five places: the end-user prefix, the IPv4 suffix and the
PSID of the interface identifier, the inner source address, and the PSID bits of the port. They are
bindings of one variable, so that a frame is always consistent (TRX-11).
"""

from __future__ import annotations

import random
from ipaddress import IPv4Address, IPv6Address

from v6t.plugins.base import Links
from v6t.plugins.map import MapRule
from v6t.plugins.mape_params import ALL_CES, Domain, MapEParams
from v6t.plugins.ports import (
    FIXED_DESTINATION,
    FIXED_SOURCE,
    KINDS,
    Policy,
    PortRange,
    bind_port,
    source_range,
)
from v6t.profiles.errors import UsageError
from v6t.profiles.model import (
    Binding,
    Direction,
    FramePair,
    Kind,
    Layer,
    Role,
    Traffic,
    TrafficClass,
    Variable,
)

LISTED_CES = 65535
"""So many CEs fit a TRex value list; more are a stretch of EA values in pseudorandom order."""

_EA, _HOST, _CE_PORT, _PEER_PORT = "ea", "host", "ce_port", "peer_port"


def mape_traffic(
    params: MapEParams, links: Links, direction: Direction, sizes: FramePair, seed: int
) -> Traffic:
    """All classes of one direction; forward may hold spoofed frames."""
    domains = params.all_domains
    shares = sum(d.share for d in domains)
    spoofs = _spoofs(params) if direction == "forward" else []
    scale = len(spoofs) * (100 - params.spoof_percent) if spoofs else 1
    classes = []
    for number, domain in enumerate(domains):
        name = "fg" if len(domains) == 1 else f"fg-{number}"
        made = (
            _forward(params, domain, links, sizes, name, seed)
            if direction == "forward"
            else _reverse(params, domain, links, sizes, name, seed)
        )
        classes.append(_weighted(made, scale * params.m * domain.share))
    if params.n > params.m:
        made = _background(params, links, direction, sizes)
        classes.append(_weighted(made, scale * (params.n - params.m) * shares))
    for kind in spoofs:
        made = _spoofed(params, links, sizes, kind, seed)
        classes.append(_weighted(made, params.n * shares * params.spoof_percent))
    return Traffic(direction, tuple(classes), seed)


def _weighted(made: TrafficClass, weight: int) -> TrafficClass:
    from dataclasses import replace

    return replace(made, weight=weight)


def ethernet(links: Links, direction: Direction) -> list[Layer]:
    """Ethernet header, and VLAN tag where the link has one, of frames the tester sends."""
    link = links.left if direction == "forward" else links.right
    layers = [Layer("Ether", {"src": link.tester_mac, "dst": link.dut_mac})]
    if link.vlan is not None:
        layers.append(Layer("Dot1Q", {"vlan": link.vlan}))
    return layers


def _forward(
    params: MapEParams, domain: Domain, links: Links, sizes: FramePair, name: str, seed: int
) -> TrafficClass:
    rule = domain.rule
    ipv4, psid = _first_ce(domain)
    variables, bindings = _ce(domain, "forward", seed, "IP.src", "UDP.sport", params.fw_sport)
    if rule.ea_len:
        bindings += _map_address_bindings(rule, "IPv6.src")
    peer, more = _peer_port(params.fw_dport, "UDP.dport")
    layers = (
        *ethernet(links, "forward"),
        Layer(
            "IPv6",
            {
                "src": str(rule.map_address(ipv4, psid)),
                "dst": str(params.br_address),
                "hlim": params.ttl,
            },
        ),
        _ipv4(params, str(ipv4), str(params.server_ipv4)),
        Layer(
            "UDP",
            {"sport": _fixed_ce_port(rule, psid, source=True), "dport": params.fw_dport.min},
        ),
    )
    return TrafficClass(
        name, Role.FOREGROUND, layers, sizes.ipv6, (*variables, *peer), (*bindings, *more)
    )


def _reverse(
    params: MapEParams, domain: Domain, links: Links, sizes: FramePair, name: str, seed: int
) -> TrafficClass:
    rule = domain.rule
    ipv4, psid = _first_ce(domain)
    variables, bindings = _ce(domain, "reverse", seed, "IP.dst", "UDP.dport", params.rv_dport)
    peer, more = _peer_port(params.rv_sport, "UDP.sport")
    layers = (
        *ethernet(links, "reverse"),
        _ipv4(params, str(params.server_ipv4), str(ipv4)),
        Layer(
            "UDP",
            {"sport": params.rv_sport.min, "dport": _fixed_ce_port(rule, psid, source=False)},
        ),
    )
    return TrafficClass(
        name, Role.FOREGROUND, layers, sizes.ipv4, (*variables, *peer), (*bindings, *more)
    )


def _background(
    params: MapEParams, links: Links, direction: Direction, sizes: FramePair
) -> TrafficClass:
    """Native IPv6 between the testers' own addresses, as large as the IPv6 foreground frame."""
    ends = (str(params.tester_left_ipv6), str(params.tester_right_ipv6))
    src, dst = ends if direction == "forward" else ends[::-1]
    sport, dport = params.bg_sport.variable("bg_sport"), params.bg_dport.variable("bg_dport")
    layers = (
        *ethernet(links, direction),
        Layer("IPv6", {"src": src, "dst": dst, "hlim": params.ttl}),
        Layer("UDP", {"sport": params.bg_sport.min, "dport": params.bg_dport.min}),
    )
    variables = tuple(v for v in (sport, dport) if v)
    bindings = (*bind_port(sport, "UDP.sport"), *bind_port(dport, "UDP.dport"))
    size = sizes.ipv6 + _tag(links, direction) - _tag(links, "forward")
    return TrafficClass("bg", Role.BACKGROUND, layers, size, variables, bindings)


def _tag(links: Links, direction: Direction) -> int:
    link = links.left if direction == "forward" else links.right
    return 0 if link.vlan is None else 4


def _ipv4(params: MapEParams, src: str, dst: str) -> Layer:
    return Layer(
        "IP", {"src": src, "dst": dst, "ttl": params.ttl, "id": 0, "flags": 2 if params.df else 0}
    )


def _first_ce(domain: Domain) -> tuple[IPv4Address, int]:
    """The CE that the template frame shows; variables overwrite it."""
    if not domain.rule.ea_len:
        return domain.rule.ipv4_prefix.network_address, domain.psid
    return domain.rule.ce_of(domain.ea_bounds[0])


def _ce(
    domain: Domain, direction: Direction, seed: int, address: str, port: str, policy: Policy
) -> tuple[list[Variable], list[Binding]]:
    """The CE's identity: EA value, host within its prefix, port within its set."""
    rule = domain.rule
    variables: list[Variable] = []
    bindings: list[Binding] = []
    r, es, k = rule.ipv4_prefix.prefixlen, rule.embedded_suffix_len, rule.psid_len
    if rule.ea_len:
        variables.append(_ea_variable(domain, direction, seed))
        if es:
            bindings.append(Binding(_EA, address, r, r + es - 1, 0, es - 1))
        if k:
            bindings.append(
                Binding(_EA, port, rule.psid_offset, rule.psid_offset + k - 1, es, es + k - 1)
            )
    open_bits = rule.suffix_len - es if rule.prefix_ce else 0
    if open_bits:
        variables.append(Variable(_HOST, open_bits))
        bindings.append(Binding(_HOST, address, 32 - open_bits, 31))
    own, more = _ce_port(rule, policy, port)
    return variables + own, bindings + more


def _ce_port(rule: MapRule, policy: Policy, field: str) -> tuple[list[Variable], list[Binding]]:
    """Bits of a port around the PSID: ``A`` and ``j`` together are one number.

    ``A`` from 1 and all ``j`` are the numbers from ``2**m`` on. Without an offset number 0 is
    left out, so that the CE with PSID 0 never uses port 0 (MAP-15).
    """
    a, k, m = rule.psid_offset, rule.psid_len, rule.low_bits
    if policy == "fixed":
        return [], []
    if not k:
        wide = source_range()
        variable = Variable(_CE_PORT, 16, KINDS[policy], low=wide.min, high=wide.max)
        return [variable], bind_port(variable, field)
    if a + m == 0:
        return [], []
    low = 1 << m if a else 1
    top = (1 << a + m) - 1
    if low > top:
        return [], []
    variable = Variable(_CE_PORT, a + m, KINDS[policy], low=low, high=top)
    bindings = []
    if a:
        bindings.append(Binding(_CE_PORT, field, 0, a - 1, 0, a - 1))
    if m:
        bindings.append(Binding(_CE_PORT, field, a + k, 15, a, a + m - 1))
    return [variable], bindings


def _fixed_ce_port(rule: MapRule, psid: int, *, source: bool) -> int:
    """A constant port of the template's CE; PSID bits are still overwritten per frame."""
    if not rule.psid_len:
        return FIXED_SOURCE if source else FIXED_DESTINATION
    first, last = rule.port_set(psid).ranges[0]
    return max(first, min(1, last))


def _peer_port(policy: PortRange, field: str) -> tuple[list[Variable], list[Binding]]:
    variable = policy.variable(_PEER_PORT)
    return ([variable] if variable else []), bind_port(variable, field)


def _ea_variable(domain: Domain, direction: Direction, seed: int) -> Variable:
    """EA values of the simulated CEs (MAP-14); both directions know the same CEs."""
    width = domain.rule.ea_len
    low, high = domain.ea_bounds
    if _port_zero_ce(domain.rule):
        low = max(low, 1)
    room = high - low + 1
    if domain.ces == ALL_CES:
        return Variable(_EA, width, Kind.UNIFORM, low=low, high=high)
    wanted = min(domain.ces, room)
    if wanted <= LISTED_CES:
        chosen = random.Random(f"{seed}/ces/{domain.rule_ipv6}").sample(  # noqa: S311
            range(low, high + 1), wanted
        )
        random.Random(f"{seed}/{direction}/{domain.rule_ipv6}").shuffle(chosen)  # noqa: S311
        return Variable(_EA, width, Kind.LIST, values=tuple(chosen))
    return Variable(_EA, width, Kind.PERMUTATION, low=low, high=low + wanted - 1)


def _port_zero_ce(rule: MapRule) -> bool:
    """Whether EA value 0 belongs to a CE that owns port 0 and nothing else."""
    return rule.psid_len == 16 and rule.psid_offset == 0 and rule.suffix_len == 0


def _map_address_bindings(rule: MapRule, field: str, add: int = 0) -> list[Binding]:
    """EA bits in the end-user prefix; IPv4 suffix and PSID in the interface identifier."""
    n, r, o = rule.ipv6_prefix.prefixlen, rule.ipv4_prefix.prefixlen, rule.ea_len
    es, k = rule.embedded_suffix_len, rule.psid_len
    ipv4_at, psid_end = (80, 128) if rule.iid_format == "rfc7597" else (72, 120)
    bindings = [Binding(_EA, field, n, n + o - 1)]
    if es:
        bindings.append(Binding(_EA, field, ipv4_at + r, ipv4_at + r + es - 1, 0, es - 1, add))
    if k:
        bindings.append(Binding(_EA, field, psid_end - k, psid_end - 1, es, es + k - 1))
    return bindings


def _spoofs(params: MapEParams) -> list[str]:
    """Kinds of spoofed frames the first rule allows."""
    if not params.spoof_percent:
        return []
    kinds = ["prefix"]
    if params.rule.ea_len and params.rule.embedded_suffix_len:
        kinds.append("address")
    if params.rule.ea_len and params.rule.psid_len:
        kinds.append("port")
    return kinds


def _spoofed(
    params: MapEParams, links: Links, sizes: FramePair, kind: str, seed: int
) -> TrafficClass:
    """Frames like the foreground's with one thing wrong that a BR must notice (MAP-09)."""
    from dataclasses import replace

    rule = params.rule
    good = _forward(params, params, links, sizes, f"spoof-{kind}", seed)
    bindings = list(good.bindings)
    layers = list(good.layers)
    if kind == "port":
        # one more than the EA value always has other PSID bits
        bindings = [replace(b, add=1) if _is_psid(b, "UDP.sport") else b for b in bindings]
    elif kind == "address":
        own = [b for b in bindings if not (b.variable == _EA and b.field == "IPv6.src")]
        bindings = own + _map_address_bindings(rule, "IPv6.src", add=1 << rule.psid_len)
    else:
        at = next(i for i, layer in enumerate(layers) if layer.name == "IPv6")
        source = _outside(params, IPv6Address(str(layers[at].fields["src"])))
        layers[at] = Layer("IPv6", {**layers[at].fields, "src": str(source)})
    return replace(good, role=Role.NEGATIVE, bindings=tuple(bindings), layers=tuple(layers))


def _is_psid(binding: Binding, field: str) -> bool:
    return binding.variable == _EA and binding.field == field


def _outside(params: MapEParams, address: IPv6Address) -> IPv6Address:
    """The address with one prefix bit flipped so that no rule holds it."""
    for bit in range(params.rule.ipv6_prefix.prefixlen - 1, -1, -1):
        flipped = IPv6Address(int(address) ^ 1 << 127 - bit)
        if not any(flipped in d.rule.ipv6_prefix for d in params.all_domains):
            return flipped
    raise UsageError(
        "no address lies outside all rules, so none can be spoofed", "set spoof_percent to 0"
    )
