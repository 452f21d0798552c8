"""Addresses of a device configuration: one check for all technologies, before anything is changed."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv6Address,
    IPv6Interface,
    ip_address,
    ip_interface,
    ip_network,
)

import pytest
from pydantic import ValidationError
from v6t.base.errors import UsageError
from v6t.core.config.plugins import load_plugin
from v6t.core.config.technology import make_technology, params_of
from v6t.intent.device import BackgroundVlan, Links
from v6t.plugins.address_plan import check_addresses

from .test_contract import NAMES, PARAMS

CASES = {**PARAMS, "dns64": ("dns64", {})}
SINGLE = (IPv4Address, IPv6Address)
ON_LINK = (IPv4Interface, IPv6Interface)


def technology(case, links=None, **changed):
    name, params = CASES.get(case, (case, {}))
    kind = load_plugin(name)
    given = params_of(kind, {**params, **{k: str(v) for k, v in changed.items()}})
    return make_technology(kind, given, links or Links())


def is_refused(case, links=None, **changed):
    try:
        technology(case, links, **changed)
    except UsageError:
        return True
    return False


def devices(intent):
    """The intent, and the intents of its parts."""
    yield intent.left, intent.right
    for part in intent.parts:
        yield part.intent.left, part.intent.right


def owners(intent):
    """Addresses of device and tester with the side and the user of each, the outer links only."""
    for side in ("left", "right"):
        given = getattr(intent, side)
        for interface in given.addresses:
            yield interface.ip, side, "device"
        for address in given.neighbors:
            yield address, side, "tester"


def address_parameters():
    for case in CASES:
        made = technology(case)
        for name, info in type(made.params).model_fields.items():
            value = getattr(made.params, name)
            if isinstance(value, SINGLE) and not isinstance(value, ON_LINK):
                yield case, name, info


SINGLES = [(case, name) for case, name, _ in address_parameters()]


@pytest.mark.parametrize("case", CASES)
def test_default_configuration_has_a_possible_address_plan(case):
    technology(case)


@pytest.mark.parametrize(("case", "name"), SINGLES, ids=[" ".join(s) for s in SINGLES])
def test_address_parameter_with_an_address_of_the_device_is_refused(case, name):
    made = technology(case)
    own = getattr(made.params, name)
    intent = made.dut_intent()
    for address, side, user in owners(intent):
        if address.version != own.version or user != "device" or address == own:
            continue
        if name in ("pool_first", "public_ipv4") and side == "right":
            continue  # many NATs translate to the address of their interface
        if name == "b4_address":
            continue  # a tunnel may end at any address of the device
        assert is_refused(case, **{name: address}) or unused(case, name, address), (side, address)


@pytest.mark.parametrize(("case", "name"), SINGLES, ids=[" ".join(s) for s in SINGLES])
def test_address_parameter_with_the_testers_address_on_another_link_is_refused(case, name):
    made = technology(case)
    own = getattr(made.params, name)
    for address, side, user in owners(made.dut_intent()):
        if address.version != own.version or user != "tester" or address == own:
            continue
        if is_refused(case, **{name: address}) or unused(case, name, address):
            continue
        # the tester itself may be a host behind its own link
        changed = technology(case, **{name: address}).dut_intent()
        here = getattr(changed, side)
        assert address in here.neighbors or ip_network(address) in here.routes
        assert address not in other_hosts(changed, side), (side, address)


def unused(case, name, address):
    """Whether the device configuration does not depend on a parameter: nothing of it can be wrong."""
    return technology(case, **{name: address}).dut_intent() == technology(case).dut_intent()


def other_hosts(intent, side):
    """Addresses of hosts and links on the opposite side."""
    there = intent.right if side == "left" else intent.left
    return [*(net.network_address for net in there.routes), *there.neighbors]


@pytest.mark.parametrize("case", CASES)
def test_interface_parameter_on_the_opposite_link_is_refused(case):
    made = technology(case)
    for name in type(made.params).model_fields:
        own = getattr(made.params, name)
        if not isinstance(own, ON_LINK):
            continue
        for address, _, _ in owners(made.dut_intent()):
            if address.version == own.version and address != own.ip:
                wrong = f"{address}/{own.network.prefixlen}"
                assert is_refused(case, **{name: wrong}) or unused(case, name, wrong), (name, wrong)


@pytest.mark.parametrize("case", CASES)
def test_address_parameter_with_a_zone_identifier_is_refused(case):
    made = technology(case)
    for name in type(made.params).model_fields:
        value = getattr(made.params, name)
        if isinstance(value, IPv6Address):
            given = f"{ip_interface(value).ip}%eth0"
            if isinstance(value, ON_LINK):
                given += "/64"
            assert is_refused(case, **{name: given}), name


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    "address", ["240.0.0.1", "127.0.0.1", "169.254.0.1", "fe80::1", "ff02::1", "::1"]
)
def test_address_parameter_that_no_device_forwards_is_refused(case, address):
    made = technology(case)
    for name in type(made.params).model_fields:
        value = getattr(made.params, name)
        if isinstance(value, SINGLE) and value.version == ip_address(address).version:
            length = f"/{value.network.prefixlen}" if isinstance(value, ON_LINK) else ""
            assert is_refused(case, **{name: address + length}), name


@pytest.mark.parametrize("case", [c for c in CASES if technology(c).stateful])
def test_range_parameter_that_passes_the_end_of_its_network_is_refused(case):
    made = technology(case)
    assert made.params.ranges
    many = {
        "enumerate_ips": 3,
        "initiator_count": 4,
        "responder_count": 4,
        "initiator_ports": "{min: 1024, max: 1151}",
        "responder_ports": "{min: 1, max: 1}",
    }
    for name, counter in made.params.ranges.items():
        version = 4 if "4" in name or isinstance(getattr(made.params, name), IPv4Address) else 6
        for last in ("255.255.255.255", "223.255.255.255") if version == 4 else (
            "2001:db8::ffff:ffff", "2001:db8::ffff:ffff:ffff:ffff", "feff:ffff:" + ":".join(["ffff"] * 6)
        ):  # fmt: skip
            given = {**many, counter: 4, name: ip_address(last) - 2}
            model = load_plugin(CASES[case][0]).params_model
            with pytest.raises((UsageError, ValidationError)):
                model(**{**CASES[case][1], **structured(given)})


def structured(given):
    ports = {"initiator_ports": {"min": 1024, "max": 1151}, "responder_ports": {"min": 1, "max": 1}}
    return {name: ports.get(name, value) for name, value in given.items()}


def test_range_parameters_are_all_listed():
    for case in CASES:
        params = technology(case).params
        counters = {n for n in type(params).model_fields if n.endswith("_count")}
        assert counters == set(getattr(params, "ranges", {}).values()), case


@pytest.mark.parametrize(
    ("plugin", "params", "parameter"),
    [
        ("ipv6-router", {"tester_left_ipv6": "2001:db8:9::1"}, "tester_left_ipv6"),
        ("mape-br", {"tester_left_ipv6": "2001:db8:6::1"}, "tester_left_ipv6"),
        ("mape-br", {"tester_left_ipv6": "2001:db8:6::"}, "tester_left_ipv6"),
        ("siit", {"tester_ipv4": "192.168.19.1"}, "tester_ipv4"),
        ("siit", {"tester_ipv4": "192.168.19.3"}, "tester_ipv4"),
        ("nat44", {"initiator_ipv4": "192.168.18.1"}, "initiator_ipv4"),
        ("nat44", {"initiator_ipv4": "192.168.19.2"}, "initiator_ipv4"),
        ("nat44", {"initiator_ipv4": "198.19.0.2"}, "initiator_ipv4"),
        ("nat44", {"pool_first": "198.18.0.2"}, "pool_first"),
        ("nat44", {"pool_first": "192.168.18.1"}, "pool_first"),
        ("nptv6", {"server": "2001:db8:1::9"}, "external"),
        ("nptv6", {"external": "2001:2::/48"}, "dut_left_ipv6"),
        ("nptv6", {"external": "fd01:203:405::/48"}, "external"),
        ("mape-br", {"server_ipv4": "203.0.113.1"}, "server_ipv4"),
        ("mape-br", {"dut_right_ipv4": "192.0.2.1/0"}, "rule_ipv4"),
        ("mapt-br", {"rule_ipv6": "2001:db8::/40"}, "rule_ipv6"),
        ("dslite-aftr", {"initiator_ipv4": "192.168.19.1"}, "initiator_ipv4"),
        ("dslite-aftr", {"internal_ipv4": "192.168.20.0"}, "internal_ipv4"),
        ("dslite-aftr", {"pool_first": "192.168.20.2"}, "pool_first"),
        ("nat46", {"responder_ipv6": "2001:2:0:f002::7", "responder_ipv4": "198.19.0.7"}, "responder_ipv6"),
        ("ipv4aas", {"variant": "map-e", "initiator_ipv4": "192.168.20.2"}, "initiator_ipv4"),
        ("ipv4aas", {"ce_middle_ipv6": "2001:db8:6::1/64"}, "ce_middle_ipv6"),
        ("ipv6-router", {"left_ipv6": "2001:2:0:f000::7"}, ""),
        ("ipv4-router", {"dut_left_ipv4": "192.168.0.1/16"}, ""),
        ("nat46", {"responder_ipv4": "192.168.18.1"}, ""),
        ("nat64", {"prefix": "2001:2:0:f000::/64", "tester_left_ipv6": "2001:2:0:f009::2"}, ""),
        ("siit", {"eam": "[{ipv4: 198.18.0.0/24, ipv6: '2001:2::/120'}, "
                         "{ipv4: 198.19.0.0/24, ipv6: '2001:2:0:f000::/120'}]"}, ""),
    ],
)  # fmt: skip
def test_impossible_address_plan_is_refused_with_its_parameter(plugin, params, parameter):
    with pytest.raises(UsageError) as refusal:
        technology(plugin, **params)
    assert refusal.value.hint
    if parameter:
        assert refusal.value.message.startswith(f"{parameter}: ")


def test_lwaftr_with_lwb4s_in_the_links_network_is_refused(tmp_path):
    table = tmp_path / "table"
    table.write_text("198.18.0.0 1 6 6 2001:db8:6::9\n")
    assert is_refused("lwaftr", binding_table=table)


@pytest.mark.parametrize(
    "row",
    [
        "240.0.0.1 1 6 6 2001:db8:b400:1::1",
        "198.18.0.0 1 6 6 fe80::1",
        "198.18.0.0 1 6 6 2001:db8:b400:1::1 ff02::1",
        "198.18.0.0 1 6 6 2001:db8:b400:1::1%eth0",
    ],
)
def test_binding_table_with_an_address_that_no_device_forwards_is_refused(tmp_path, row):
    table = tmp_path / "table"
    table.write_text(f"198.18.0.0 2 6 6 2001:db8:b400:2::1\n{row}\n")
    assert is_refused("lwaftr", binding_table=table)


@pytest.mark.parametrize(
    "pair",
    ["198.18.0.0/24 fe80::/120", "240.0.0.0/24 2001:2::/120", "198.18.0.0/24 2001:2::%e/120"],
)
def test_eam_file_with_addresses_that_no_device_forwards_is_refused(tmp_path, pair):
    table = tmp_path / "table"
    table.write_text(pair + "\n")
    assert is_refused("siit", eam="[]", eam_file=table)


@pytest.mark.parametrize(
    ("plugin", "params"),
    [
        ("mape-br", {"rule_ipv6": "ff00::/51"}),
        ("mape-br", {"rule_ipv4": "126.0.0.0/7", "rule_ipv6": "2001:d00::/34", "ea_len": "30"}),
        ("mapt-br", {"dmr": "fe80::/64"}),
        ("lwaftr", {"b4_prefix": "fe80::/40"}),
        ("lwaftr", {"ipv4_pool": "126.0.0.0/7"}),
        ("siit", {"prefix": "ff00::/96"}),
        ("siit", {"prefix": "2001:db8:64::/96", "ipv4_hosts": "{first: 223.255.255.255, last: 224.0.0.2}"}),
        ("nptv6", {"external": "fe80::/48"}),
        ("nat64", {"prefix": "fe80::/96"}),
        ("clat", {"clat_ipv6": "fe80::/120"}),
    ],
)  # fmt: skip
def test_prefix_or_range_with_addresses_that_no_device_forwards_is_refused(plugin, params):
    kind = load_plugin(plugin)
    with pytest.raises(UsageError):
        params_of(kind, {}, params)


@pytest.mark.parametrize(
    ("device", "tester"),
    [
        ("2001:db8:a::1/64", "2001:db8:b::2"),
        ("2001:db8:a::1/64", "2001:db8:a::1"),
        ("2001:2:0:f000::9/64", "2001:2:0:f000::8"),
        ("2001:2:0:f001::9/64", "2001:2:0:f001::8"),
    ],
)
def test_background_vlan_with_impossible_addresses_is_refused(device, tester):
    links = Links()
    wrong = replace(links.left, vlan=7, background=BackgroundVlan(8, device, tester))
    right = replace(
        links.right, vlan=7, background=BackgroundVlan.with_default_addresses("right", 8)
    )
    assert is_refused("ipv6-router", Links(wrong, right))


def test_background_vlan_with_its_default_addresses_is_accepted():
    links = Links()
    left = replace(links.left, vlan=7, background=BackgroundVlan.with_default_addresses("left", 8))
    right = replace(
        links.right, vlan=7, background=BackgroundVlan.with_default_addresses("right", 8)
    )
    technology("ipv6-router", Links(left, right))


def test_host_that_is_the_tester_itself_is_accepted():
    technology("nat44", responder_ipv4="192.168.19.2")


def test_public_address_that_is_the_devices_right_one_is_accepted():
    technology("nat44", pool_first="192.168.19.1")


def test_default_route_is_accepted():
    intent = technology("ipv6-router").dut_intent()
    routes = {**intent.left.routes, "::/0": "2001:2:0:f000::2"}
    check_addresses(replace(intent, left=replace(intent.left, routes=routes)))


def test_names_of_the_contract_are_covered():
    assert {name for name, _ in CASES.values()} == set(NAMES)


@pytest.mark.parametrize("plugin", ["mape-br", "lwaftr"])
class TestTunnelAddress:
    FAR = "2404:9200:225:100::64"

    def addresses(self, plugin, **params):
        return [str(a) for a in technology(plugin, **params).dut_intent().left.addresses]

    def test_default_is_the_link_address(self, plugin):
        assert self.addresses(plugin) == ["2001:db8:6::1/64"]

    def test_outside_the_link_is_a_host_address(self, plugin):
        given = {"br_address": self.FAR}
        assert self.addresses(plugin, **given) == ["2001:db8:6::1/64", f"{self.FAR}/128"]
        configuration = technology(plugin, **given).dut_intent().configuration
        assert str(configuration.br_address) == self.FAR

    def test_with_the_tester_in_its_network_is_the_link_address(self, plugin):
        given = {"br_address": "2001:db8:9::64", "tester_left_ipv6": "2001:db8:9::2"}
        assert self.addresses(plugin, **given) == ["2001:db8:9::64/64"]

    def test_beside_a_given_link_address_is_a_host_address(self, plugin):
        given = {"br_address": "2001:db8:6::64", "dut_left_ipv6": "2001:db8:6::1/64"}
        assert self.addresses(plugin, **given) == ["2001:db8:6::1/64", "2001:db8:6::64/128"]

    def test_of_the_tester_is_refused(self, plugin):
        assert is_refused(plugin, br_address="2001:db8:6::2", dut_left_ipv6="2001:db8:6::1/64")

    def test_within_a_customers_network_is_refused(self, plugin):
        inside = {"mape-br": "2001:db8:ce::9", "lwaftr": "2001:db8:b400::9"}[plugin]
        assert is_refused(plugin, br_address=inside)
