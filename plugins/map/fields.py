"""Variables of a MAP CE and the header bits they go to.

One EA value per frame appears in up to five places: the end-user prefix, the IPv4 suffix and the
PSID of the interface identifier, the IPv4 address, and the PSID bits of the port. They are bindings
of one variable, so that a frame is always consistent (TRX-11).
"""

from __future__ import annotations

import random
from functools import lru_cache
from ipaddress import IPv4Address
from typing import Protocol

from v6t.packets.direction import Direction
from v6t.plugins.common.ports import (
    FIXED_DESTINATION,
    FIXED_SOURCE,
    KINDS,
    Policy,
    PortRange,
    bind_port,
    source_range,
)
from v6t.plugins.map.overlap import pick
from v6t.plugins.map.params import ALL_CES, LISTED_CES, Domain, MapParams
from v6t.plugins.map.rules import MapRule, PortSet
from v6t.profiles.model import Binding, Kind, Variable

EA, HOST = "ea", "host"
_CE_PORT, _PEER_PORT = "ce_port", "peer_port"

Varying = tuple[list[Variable], list[Binding]]


def first_ce(domain: Domain) -> tuple[IPv4Address, int]:
    """The CE that the template frame shows; variables overwrite it."""
    return domain.rule.ce_of(domain.ea_bounds[0])


def ce_fields(
    rule: MapRule, ea: Variable | None, address: str | None, port: str, policy: Policy
) -> Varying:
    """A CE's EA value, host within its prefix, and port within its set.

    Args:
        rule: the rule.
        ea: the variable of the EA bits, None for a rule without.
        address: field of the IPv4 address, None where there is no IPv4 header.
        port: field of the CE's port.
        policy: how its ports follow each other.
    """
    variables: list[Variable] = []
    bindings: list[Binding] = []
    r, es, k = rule.ipv4_prefix.prefixlen, rule.embedded_suffix_len, rule.psid_len
    if ea is not None:
        variables.append(ea)
        if es and address:
            bindings.append(Binding(EA, address, r, r + es - 1, 0, es - 1))
        if k:
            bindings.append(
                Binding(EA, port, rule.psid_offset, rule.psid_offset + k - 1, es, es + k - 1)
            )
    open_bits = host_bits(rule)
    if open_bits:
        variables.append(Variable(HOST, open_bits))
        if address:
            bindings.append(Binding(HOST, address, 32 - open_bits, 31))
    own, more = ce_port(rule, policy, port, psid=rule.psid or 0)
    return variables + own, bindings + more


def host_bits(rule: MapRule) -> int:
    """Bits of the IPv4 address that a CE with a prefix leaves to its hosts."""
    return rule.suffix_len - rule.embedded_suffix_len if rule.prefix_ce else 0


class Sharing(Protocol):
    """How customers share the ports of an address: a rule, or the port set of one of them."""

    @property
    def psid_offset(self) -> int:
        """``a``."""

    @property
    def psid_len(self) -> int:
        """``k``."""

    @property
    def low_bits(self) -> int:
        """``m``."""


def ce_port(rule: Sharing, policy: Policy, field: str, *, psid: int = 0) -> Varying:
    """Bits of a port around the PSID: ``A`` and ``j`` together are one number.

    ``A`` from 1 and all ``j`` are the numbers from ``2**m`` on. Without an offset number 0 is
    left out, so that the CE with PSID 0 never uses port 0 (MAP-15).

    Args:
        rule: lengths of the port's parts.
        policy: how ports follow each other.
        field: of the port.
        psid: of the only CE; 0 also where several CEs send.
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
    low = 1 << m if a else int(psid == 0)
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


def fixed_ce_port(ports: PortSet, *, source: bool) -> int:
    """A constant port of the template's CE; PSID bits are still overwritten per frame."""
    if not ports.psid_len:
        return FIXED_SOURCE if source else FIXED_DESTINATION
    first, last = ports.ranges[0]
    return max(first, min(1, last))


def peer_port(policy: PortRange, field: str) -> Varying:
    """The port of the host beyond the relay."""
    variable = policy.variable(_PEER_PORT)
    return ([variable] if variable else []), bind_port(variable, field)


def ea_variable(
    params: MapParams, domain: Domain, direction: Direction, seed: int
) -> Variable | None:
    """EA values of the simulated CEs (MAP-14); both directions know the same CEs."""
    if not domain.rule.ea_len:
        return None
    width = domain.rule.ea_len
    low, high = domain.ea_bounds
    if _port_zero_ce(domain.rule):
        low = max(low, 1)
    if domain.ces == ALL_CES:
        return Variable(EA, width, Kind.UNIFORM, low=low, high=high)
    served = params.served_ea(domain, low)
    room = sum(map(len, served))
    wanted = min(domain.ces, room)
    if wanted <= LISTED_CES:
        rule = domain.rule_ipv6
        chosen = _some(tuple(served), wanted, f"{seed}/ces/{rule}", f"{seed}/{direction}/{rule}")
        return Variable(EA, width, Kind.LIST, values=chosen)
    return Variable(EA, width, Kind.PERMUTATION, low=low, high=low + wanted - 1)


@lru_cache(maxsize=32)  # every frame size has the same
def _some(served: tuple[range, ...], wanted: int, which: str, order: str) -> tuple[int, ...]:
    """So many of the values served, drawn from the first seed, in the order of the second."""
    places = random.Random(which).sample(range(sum(map(len, served))), wanted)  # noqa: S311
    chosen = [pick(served, place) for place in places]
    random.Random(order).shuffle(chosen)  # noqa: S311
    return tuple(chosen)


def _port_zero_ce(rule: MapRule) -> bool:
    """Whether EA value 0 belongs to a CE that owns port 0 and nothing else."""
    return rule.psid_len == 16 and rule.psid_offset == 0 and rule.suffix_len == 0


def map_address_fields(
    rule: MapRule, field: str, *, whole_host: bool = False, add: int = 0
) -> list[Binding]:
    """EA bits in the end-user prefix; IPv4 suffix and PSID in the interface identifier.

    Args:
        rule: the rule.
        field: of the IPv6 address.
        whole_host: the identifier holds the host's complete address (MAP-T).
        add: to the EA value where it is written as IPv4 suffix.
    """
    n, r, o = rule.ipv6_prefix.prefixlen, rule.ipv4_prefix.prefixlen, rule.ea_len
    es, k = rule.embedded_suffix_len, rule.psid_len
    ipv4_at, psid_end = (80, 128) if rule.iid_format == "rfc7597" else (72, 120)
    bindings = []
    if o:
        bindings.append(Binding(EA, field, n, n + o - 1))
        if es:
            bindings.append(Binding(EA, field, ipv4_at + r, ipv4_at + r + es - 1, 0, es - 1, add))
        if k:
            bindings.append(Binding(EA, field, psid_end - k, psid_end - 1, es, es + k - 1))
    if whole_host and host_bits(rule):
        bindings.append(Binding(HOST, field, ipv4_at + 32 - host_bits(rule), ipv4_at + 31))
    return bindings
