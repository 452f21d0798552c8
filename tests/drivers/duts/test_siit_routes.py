"""Routes and addresses of translators, by which every host is reachable without loops or collisions."""

import re
from dataclasses import replace
from ipaddress import ip_address, ip_network
from itertools import chain

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


def make_translator(**params):
    return Siit(SiitParams.model_validate(params))


def find_interfaces(routes, address):
    """Return the interfaces of the longest prefix that contains an address."""
    matching = [n for n in routes if n.version == address.version and address in n]
    return routes[max(matching, key=lambda n: n.prefixlen)] if matching else set()


def list_hosts(technology):
    """Yield side, address and translated address of every host that is mapped in both directions."""
    params, mappings = technology.params, technology.params.mappings
    ipv6_side, ipv4_side = technology._order_by_link("left", "right")
    for side, hosts in ((ipv6_side, params.ipv6_hosts), (ipv4_side, params.ipv4_hosts)):
        for ipv4 in map(ip_address, range(int(hosts.first), int(hosts.last_host) + 1)):
            ipv6 = mappings.to_ipv6(ipv4)
            if ipv6 and mappings.to_ipv4(ipv6) == ipv4:
                yield (side, ipv6, ipv4) if side == ipv6_side else (side, ipv4, ipv6)


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
    routes = {}
    for net, interface in _ROUTE.findall(lines):
        assert routes.setdefault(ip_network(net), {interface}) == {interface}
    for side, address, translated in list_hosts(technology):
        assert find_interfaces(routes, address) == {side}
        assert find_interfaces(routes, translated) == translator


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
