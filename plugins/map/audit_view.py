"""What an audit must know of MAP border relays: customers, who owns a port, further rules."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Any

from v6t.plugins.audit_views import (
    NESTED_RULE,
    PREFIX_CUSTOMERS,
    PSID_OFFSETS,
    Customer,
    SharedAddressRelay,
    TunnelEnd,
)

if TYPE_CHECKING:
    from v6t.plugins.map.mape_params import MapEParams
    from v6t.plugins.map.mapt_params import MapTParams
    from v6t.plugins.map.params import MapParams
    from v6t.plugins.map_rules import MapRule

_NESTED_BITS, _PREFIX_BITS = 4, 2
"""IPv4 suffix bits of the nested rule, and of a CE's prefix."""


def owner(rules: Sequence[MapRule], ipv4: IPv4Address, port: int) -> IPv6Address | None:
    """Return the CE that has an address and port, by the rule with the longest IPv4 prefix."""
    matches = [rule for rule in rules if ipv4 in rule.ipv4_prefix]
    longest = max((rule.ipv4_prefix.prefixlen for rule in matches), default=0)
    for rule in matches:
        psid = rule.find_psid(port)
        if rule.ipv4_prefix.prefixlen == longest and psid is not None:
            return rule.map_address(ipv4, psid)
    return None


def mape_view(params: MapEParams) -> SharedAddressRelay:
    """Return the view of a MAP-E relay."""
    rules = tuple(domain.rule for domain in params.all_domains)
    return SharedAddressRelay(
        "MAP-E",
        params.br_address,
        frozenset({params.br_address}),
        params.server_ipv4,
        *_customers(params),
        partial(owner, rules),
        rules,
    )


def mapt_view(params: MapTParams, server: IPv6Address) -> SharedAddressRelay:
    """Return the view of a MAP-T relay; ``server`` is the IPv4 server behind the DMR."""
    rules = tuple(domain.rule for domain in params.all_domains)
    return SharedAddressRelay(
        "MAP-T",
        server,
        frozenset(),
        params.server_ipv4,
        *_customers(params),
        partial(owner, rules),
        rules,
        params.dmr_prefix,
        params.lowest_ipv6_mtu,
    )


def customer_tunnel(relay: SharedAddressRelay) -> TunnelEnd:
    """Return the tunnel of a relay's first customer."""
    customer = relay.customer
    place = customer.ipv4, customer.port
    return TunnelEnd(
        side="left",
        local=relay.relay,
        remote=customer.ipv6,
        inner=place,
        outer=place,
        host=(relay.server, 5),
        shared=customer.ports.psid_len > 0,
    )


def relay_variants(params: MapParams) -> dict[str, dict[str, Any]]:
    """Return the further rules that fit the relay's first one."""
    rule = params.rule
    variants: dict[str, dict[str, Any]] = {}
    if params.domains or not rule.suffix_len:
        return variants
    room = 64 - rule.ipv6_prefix.prefixlen - rule.suffix_len
    for offset, name in enumerate(PSID_OFFSETS if room > 0 else ()):
        length = max(1, min(rule.psid_len or 1, 16 - offset, 5, room))
        variants[name] = {"psid_offset": offset, "ea_len": rule.suffix_len + length, "ces": 2}
    if rule.shared and rule.suffix_len > _NESTED_BITS and rule.ipv6_prefix.prefixlen:
        variants[NESTED_RULE] = {"ces": 2, "domains": [_nested_rule(rule)]}
    if _PREFIX_BITS < rule.suffix_len <= 64 + _PREFIX_BITS - rule.ipv6_prefix.prefixlen:
        variants[PREFIX_CUSTOMERS] = {"ea_len": rule.suffix_len - _PREFIX_BITS, "ces": 2}
    return variants


def _nested_rule(rule: MapRule) -> dict[str, Any]:
    """Return a rule for the last addresses of another, with another PSID offset and the next IPv6 prefix."""
    pool = list(rule.ipv4_prefix.subnets(new_prefix=32 - _NESTED_BITS))[-1]
    width = 1 << 128 - rule.ipv6_prefix.prefixlen
    adjacent = rule.ipv6_prefix.network_address + width
    return {
        "rule_ipv6": f"{adjacent}/{rule.ipv6_prefix.prefixlen}",
        "rule_ipv4": str(pool),
        "ea_len": _NESTED_BITS + rule.psid_len,
        "psid_offset": 4 if rule.psid_offset != 4 else 6,
        "ces": 2,
    }


def _customers(params: MapParams) -> tuple[Customer, Customer | None, Customer | None]:
    """Return a customer, one that shares its address, and one with another address.

    The first is neither the first nor the last of its rule, if possible, so that the ports next to its own
    belong to other customers. No other domain serves their addresses.
    """
    rule = params.rule

    def customer(ea: int) -> Customer:
        ipv4, psid = rule.decode_ea(ea) if rule.ea_len else (base, params.psid)
        return Customer(rule.map_address(ipv4, psid), ipv4, rule.port_set(psid))

    base, ratio = rule.ipv4_prefix.network_address, rule.sharing_ratio if rule.ea_len else 1
    served = params.find_served_ea(params, 0)
    preferred = min(1, rule.ce_count // ratio - 1) * ratio + min(1, ratio - 1)
    candidates = [preferred, *(ea for some in served for ea in (*some[1:3], *some[:1]))]
    chosen = next((ea for ea in candidates if any(ea in some for some in served)), preferred)

    def first_served(*values: int) -> Customer | None:
        return next((customer(ea) for ea in values if any(ea in some for some in served)), None)

    number, psid = divmod(chosen, ratio)
    shared = [number * ratio + p for p in (psid + 1, psid - 1) if 0 <= p < ratio]
    return customer(chosen), first_served(*shared), first_served(chosen + ratio, chosen - ratio)
