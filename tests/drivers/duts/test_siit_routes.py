"""Routes and addresses of translators, by which every host is reachable without loops or collisions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_address, ip_network
from itertools import chain
from typing import Any

import pytest
from v6t.base.errors import UsageError
from v6t.drivers.duts.kinds.addresses import find_translated_networks
from v6t.plugins.siit import Siit, SiitParams
from v6t.tests.core.support import v6t

from .support import make_plan

_ROUTE = re.compile(r"^(?:ip (?:-[46] )?)?route add (\S+) (?:via \S+ )?dev (\S+)", re.MULTILINE)
HALVES = {
    "eam": ({"ipv4": "198.51.1.0/25", "ipv6": "2001:db8:1::/121"},
            {"ipv4": "198.51.1.128/25", "ipv6": "2001:db8:2::/121"}),
    "prefix": "2001:db8:64::/96", "ipv4_hosts": {"first": "9.9.9.9"},
    "ipv6_hosts": {"first": "198.51.1.2", "last": "198.51.1.200"},
}  # fmt: skip
GAP = {**HALVES, "eam": ({"ipv4": "198.51.1.0/25", "ipv6": "2001:db8:1::/121"},),
       "ipv6_hosts": {"first": "198.51.1.120", "last": "198.51.1.135"}}  # fmt: skip
SHARED = {
    "eam": ({"ipv4": "198.18.0.0/24", "ipv6": "2001:2::/120"},),
    "ipv6_hosts": {"first": "198.18.0.0", "last": "198.18.0.128"},
    "ipv4_hosts": {"first": "198.18.0.129", "last": "198.18.0.200"},
}
NESTED = {
    "eam": ({"ipv4": "198.18.0.0/24", "ipv6": "2001:2::/120"},
            {"ipv4": "198.19.0.0/28", "ipv6": "2001:2::f0/124"}),
    "ipv6_hosts": {"first": "198.18.0.2", "last": "198.18.0.200"},
    "ipv4_hosts": {"first": "198.19.0.0", "last": "198.19.0.15"},
}  # fmt: skip
PREFIXED = {**NESTED, "prefix": "2001:db8:6400::/40"}


def make_translator(**params: Any) -> Siit:
    return Siit(SiitParams.model_validate(params))


def find_interfaces(routes: dict[Any, set[str]], address: Any) -> set[str]:
    """Return the interfaces of the longest prefix that contains an address."""
    matching = [n for n in routes if n.version == address.version and address in n]
    return routes[max(matching, key=lambda n: n.prefixlen)] if matching else set()


def list_hosts(hosts: Any, technology: Siit) -> list[tuple[Any, Any]]:
    """Return the IPv4 and IPv6 address of every host that is mapped in both directions."""
    mappings = technology.params.mappings
    numbers = range(int(hosts.first), int(hosts.last_host) + 1)
    pairs = [(ipv4, mappings.to_ipv6(ipv4)) for ipv4 in map(ip_address, numbers)]
    return [(ipv4, ipv6) for ipv4, ipv6 in pairs if ipv6 and mappings.to_ipv4(ipv6) == ipv4]


def list_host_interfaces(technology: Siit, routes: dict[Any, set[str]]) -> Iterator[Any]:
    """Yield each host's side, and the interfaces of the routes to its two addresses."""
    ipv6_side, ipv4_side = technology._order_by_link("left", "right")
    for ipv4, ipv6 in list_hosts(technology.params.ipv6_hosts, technology):
        yield ipv6_side, find_interfaces(routes, ipv6), find_interfaces(routes, ipv4)
    for ipv4, ipv6 in list_hosts(technology.params.ipv4_hosts, technology):
        yield ipv4_side, find_interfaces(routes, ipv4), find_interfaces(routes, ipv6)


def test_siit_routes_use_prefix_for_unmapped_hosts_only():
    routes = set(map(str, make_translator(**GAP).make_dut_intent().left.routes))
    assert "2001:db8:64::c633:180/125" in routes
    assert "2001:db8:64::/96" not in routes
    assert "2001:db8:1::78/125" in routes


@pytest.mark.parametrize(("driver", "translator"), [  # Jool translates before routing
    ("tayga", {"v6t-nat64"}), ("nat46", {"v6t-nat46"}), ("jool", set())])  # fmt: skip
@pytest.mark.parametrize("params", [HALVES, GAP, SHARED, NESTED, PREFIXED])
@pytest.mark.parametrize("orientation", ["nat64", "nat46"])
def test_siit_plan_routes_every_host_to_its_side(driver, translator, params, orientation):
    technology = make_translator(**params, orientation=orientation)
    try:
        plan = make_plan(driver, technology.make_dut_intent())
    except UsageError:
        pytest.skip("the device cannot have these mappings")
    lines = "\n".join(f"{step.command}\n{step.text}" for step in plan.steps)
    routes: dict[Any, set[str]] = {}
    for net, interface in _ROUTE.findall(lines):
        assert routes.setdefault(ip_network(net), {interface}) == {interface}
    for side, interfaces, mapped_interfaces in list_host_interfaces(technology, routes):
        assert (interfaces, mapped_interfaces) == ({side}, translator)


@pytest.mark.parametrize(("params", "route", "expected"), [
    (GAP, "2001:db8:1::/64", {"198.51.1.0/25", "2001:db8:64::/96"}),
    (SHARED, "2001:2::/64", {"2001:2::/120"}),  # hosts on both sides
])  # fmt: skip
def test_translated_networks_exclude_wider_route(params, route, expected):
    intent = make_translator(**params).make_dut_intent()
    left = replace(intent.left, routes={route: "2001:db8::2"})
    assert set(map(str, chain(*find_translated_networks(replace(intent, left=left))))) == expected


def test_test_address_between_chain_parts_is_rejected():
    words = ("--plugin", "dslite-aftr", "--set", "responder_ipv4=192.168.20.2")
    assert v6t("dut", "plan", "--driver", "chain", *words).status == 2
