"""Parameters outside of the device configuration change no frame; others set timeouts and routes.

tests/intent/test_fields_used.py checks that drivers use or reject all other parameters.
"""

import re
from dataclasses import replace
from datetime import timedelta
from ipaddress import ip_address, ip_network
from itertools import chain

import pytest
from v6t.base.errors import UsageError
from v6t.core.config.plugins import list_names, load_technology_type
from v6t.drivers.duts.kinds.addresses import find_translated_networks
from v6t.drivers.duts.registry import make_driver

from . import intents, parameter_values
from .support import make_plan

TRANSLATING_BASES = [base for base in parameter_values.BASES if base.plugin != "dns64"]


@pytest.mark.parametrize("plugin", list_names())
def test_every_parameter_has_another_valid_value(plugin):
    names = set(load_technology_type(plugin).params_model.model_fields)
    names -= parameter_values.SKIPPED | parameter_values.FIXED.get(plugin, set())
    bases = [base for base in parameter_values.BASES if base.plugin == plugin]
    constant = [n for n in names if not any(parameter_values.list_accepted(b, n) for b in bases)]
    assert constant == []


@pytest.mark.parametrize("base", TRANSLATING_BASES, ids=lambda base: base.name)
def test_parameter_outside_the_configuration_changes_no_frame(base):
    technology = base.make_technology()
    configured = technology.make_dut_intent()
    frames_of_base = parameter_values.make_frames(base, {})
    emitted = parameter_values.compute_output(technology, frames_of_base)
    changed = []
    fields = load_technology_type(base.plugin).params_model.model_fields
    for name in fields.keys() - parameter_values.SKIPPED:
        for values, other in parameter_values.list_accepted(base, name):
            if repr(other.make_dut_intent()) != repr(configured):
                continue
            frames = parameter_values.make_frames(base, values, [128], [True])
            expected = emitted + parameter_values.compute_output(technology, frames)
            if parameter_values.compute_output(other, frames_of_base + frames) != expected:
                changed.append(values)
    assert changed == []


RFC = {"rfc_timers": True}
NAT44, NAT64 = "nftables", "tayga-nftables"


@pytest.mark.parametrize(("driver", "intent", "udp_timeout_s", "options", "seconds"), [
    (NAT44, intents.make_nat44(), 0, {}, 3600),
    (NAT44, intents.make_nat44(), 0, {"timeout_s": 900}, 900),
    (NAT44, intents.make_nat44(), 0, {"timeout_s": 900, "rfc_timers": False}, 900),
    (NAT44, intents.make_nat44(), 0, RFC, 330),
    (NAT44, intents.make_nat44(), 4, {}, 4),
    (NAT44, intents.make_nat44(), 4, RFC, 4),
    ("iptables", intents.make_nat44(), 400, RFC, 400),
    (NAT64, intents.make_nat64(), 0, RFC, 330),
    (NAT64, intents.make_nat64(), 0, {"timeout_s": 900, "rfc_timers": False}, 900),
    (NAT64, intents.make_nat64(), 4, RFC, 4),
    (NAT64, intents.make_nat64(), 4, {}, 4),
    ("nftables66", intents.make_intent("nat66"), 0, RFC, 330),
    ("jool", intents.make_nat64(), 0, {}, 3600),
    ("jool", intents.make_nat64(), 150, {}, 150),
    ("vpp", intents.make_nat44(), 0, {"timeout_s": 900}, 900),
    ("vpp", intents.make_nat44(), 4, {}, 4),
])  # fmt: skip
def test_timeout_equals_configured_value(driver, intent, udp_timeout_s, options, seconds):
    if udp_timeout_s:
        intent = intents.with_values(intent, udp_timeout_s=udp_timeout_s)
    assert make_driver(driver, options).get_timeout_s(intent) == seconds
    commands = "\n".join(s.command + s.text for s in make_plan(driver, intent, **options).steps)
    udp = re.findall(r"(?:udp_timeout=|udp_timeout_stream=|timeout udp )(\d+)", commands)
    if driver == "jool":
        assert f'"udp-timeout": "{timedelta(seconds=seconds)}"' in commands
    else:
        assert set(udp) == {str(seconds)}


@pytest.mark.parametrize(("driver", "intent", "options", "seconds"), [
    (NAT44, intents.make_nat44(), {"timeout_s": 0}, 30),
    ("vpp", intents.make_nat44(), {}, 3600),
    ("vpp", intents.make_nat64(), {}, 300),
    ("vpp", intents.make_dslite(), {}, None),
])  # fmt: skip
def test_unset_timeout_is_implementation_default(driver, intent, options, seconds):
    assert make_driver(driver, options).get_timeout_s(intent) == seconds


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
    return parameter_values.Base("siit").make_technology(**params)


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
