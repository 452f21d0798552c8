"""Rejection of addresses that no device forwards, and of impossible address plans (RFC 1812, RFC 4291)."""

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
from v6t.core.config.plugins import load_technology_type
from v6t.core.config.run_setup import make_technology
from v6t.core.config.yaml_file import validate
from v6t.intent.device import BackgroundVlan, Links
from v6t.plugins.address_plan import check_addresses
from v6t.plugins.prefixes import refuse_unforwardable
from v6t.tests.expect import expect_error

from .support import BUILT_IN, VARIANTS

CASES = {name: (name, {}) for name in BUILT_IN}
CASES |= {"siit nat46": ("siit", {"orientation": "nat46"})}
CASES |= {f"ipv4aas {params['variant']}": ("ipv4aas", params) for params in VARIANTS[1:]}
SINGLE = (IPv4Address, IPv6Address)
ON_LINK = (IPv4Interface, IPv6Interface)


def make(case, links=None, **changed):
    """Make a technology from parameters as strings, as the command line does."""
    name, params = CASES.get(case, (case, {}))
    kind = load_technology_type(name)
    texts = {**params, **{name: str(value) for name, value in changed.items()}}
    return make_technology(kind, validate(kind.params_model, texts), links or Links())


def is_refused(case, links=None, **changed):
    try:
        make(case, links, **changed)
    except UsageError:
        return True
    return False


def is_unused(case, name, address):
    """Return whether the intent does not depend on a parameter, so that any value is accepted."""
    return make(case, **{name: address}).make_dut_intent() == make(case).make_dut_intent()


def list_owners(intent):
    """Yield the addresses on the outer links with their side and owner."""
    for side in ("left", "right"):
        link = getattr(intent, side)
        yield from ((interface.ip, side, "device") for interface in link.addresses)
        yield from ((address, side, "tester") for address in link.neighbors)


def list_address_parameters(case, kinds):
    """Return the defaults of the parameters that are addresses, by name."""
    params = make(case).params
    values = {name: getattr(params, name) for name in type(params).model_fields}
    return {name: value for name, value in values.items() if isinstance(value, kinds)}


SINGLES = [
    (case, name)
    for case in CASES
    for name, value in list_address_parameters(case, SINGLE).items()
    if not isinstance(value, ON_LINK)
]


@pytest.mark.parametrize(("case", "name"), SINGLES, ids=[" ".join(s) for s in SINGLES])
def test_address_parameter_with_a_used_address_is_refused(case, name):
    plugin = make(case)
    default = getattr(plugin.params, name)
    for address, side, owner in list_owners(plugin.make_dut_intent()):
        if address.version != default.version or address == default:
            continue
        if owner == "device" and (
            name == "b4_address"  # the tunnel may use any address of the device as its end
            # many NATs translate to their interface address
            or (name in ("pool_first", "public_ipv4") and side == "right")
        ):
            continue
        if is_refused(case, **{name: address}) or is_unused(case, name, address):
            continue
        assert owner == "tester", address
        # only the tester may be the host itself, and only on its own link
        changed = make(case, **{name: address}).make_dut_intent()
        near, far = (changed.left, changed.right)[:: 1 if side == "left" else -1]
        assert address in near.neighbors or ip_network(address) in near.routes
        assert address not in [*(net.network_address for net in far.routes), *far.neighbors]


@pytest.mark.parametrize("case", CASES)
def test_interface_parameter_on_the_opposite_link_is_refused(case):
    intent = make(case).make_dut_intent()
    for name, default in list_address_parameters(case, ON_LINK).items():
        for address, _, _ in list_owners(intent):
            if address.version == default.version and address != default.ip:
                wrong = f"{address}/{default.network.prefixlen}"
                assert is_refused(case, **{name: wrong}) or is_unused(case, name, wrong), name


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    "address", ["240.0.0.1", "127.0.0.1", "169.254.0.1", "fe80::1", "ff02::1", "::1", "with a zone"]
)
def test_address_parameter_that_no_device_forwards_is_refused(case, address):
    for name, value in list_address_parameters(case, SINGLE).items():
        wrong = f"{ip_interface(value).ip}%eth0" if address == "with a zone" else address
        version = 6 if ":" in wrong else 4
        length = f"/{value.network.prefixlen}" if isinstance(value, ON_LINK) else ""
        assert value.version != version or is_refused(case, **{name: wrong + length}), name


@pytest.mark.parametrize("case", [c for c in CASES if make(c).stateful])
def test_range_parameter_that_passes_the_end_of_its_network_is_refused(case):
    params = make(case).params
    name, configured = CASES[case]
    ports = {"initiator_ports": {"min": 1024, "max": 1151}, "responder_ports": {"min": 1, "max": 1}}
    many = {"enumerate_ips": 3, "initiator_count": 4, "responder_count": 4, **ports}
    counters = {n for n in type(params).model_fields if n.endswith("_count")}
    assert counters == set(params.range_counters.values())
    for first, counter in params.range_counters.items():
        is_ipv4 = "4" in first or isinstance(getattr(params, first), IPv4Address)
        ends = ["255.255.255.255", "223.255.255.255"] if is_ipv4 else [
            "2001:db8::ffff:ffff", "2001:db8::ffff:ffff:ffff:ffff",
            "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        ]  # fmt: skip
        for end in ends:
            beyond = {**configured, **many, counter: 4, first: ip_address(end) - 2}
            with pytest.raises((UsageError, ValidationError)):
                load_technology_type(name).params_model(**beyond)


@pytest.mark.parametrize(("plugin", "name", "text"), [
    ("lwaftr", "binding_table", "198.18.0.0 1 6 6 2001:db8:6::9"),  # a B4 in the network of the link
    ("lwaftr", "binding_table", "240.0.0.1 1 6 6 2001:db8:b400:1::1"),
    ("lwaftr", "binding_table", "198.18.0.0 1 6 6 fe80::1"),
    ("lwaftr", "binding_table", "198.18.0.0 1 6 6 2001:db8:b400:1::1 ff02::1"),
    ("lwaftr", "binding_table", "198.18.0.0 1 6 6 2001:db8:b400:1::1%eth0"),
    ("siit", "eam_file", "198.18.0.0/24 fe80::/120"),
    ("siit", "eam_file", "240.0.0.0/24 2001:2::/120"),
    ("siit", "eam_file", "198.18.0.0/24 2001:2::%e/120"),
])  # fmt: skip
def test_table_with_an_address_that_no_device_forwards_is_refused(tmp_path, plugin, name, text):
    table, valid = tmp_path / "table", "198.18.0.0 2 6 6 2001:db8:b400:2::1\n"
    table.write_text(f"{valid if plugin == 'lwaftr' else ''}{text}\n")
    without_eam = {} if plugin == "lwaftr" else {"eam": "[]"}
    assert is_refused(plugin, **{name: table}, **without_eam)


BACKGROUND = Links(*(
    getattr(Links(), side).model_copy(
        update={"vlan": 7, "background": BackgroundVlan.with_default_addresses(side, 8)})
    for side in ("left", "right")
))  # fmt: skip


@pytest.mark.parametrize(("plugin", "links", "params"), [
    ("ipv6-router", BACKGROUND, {}),
    ("nat44", None, {"responder_ipv4": "192.168.19.2"}),  # the tester is the host
    ("nat44", None, {"pool_first": "192.168.19.1"}),  # the device's right address is public
])  # fmt: skip
def test_possible_address_plan_is_accepted(plugin, links, params):
    make(plugin, links, **params)


def test_default_route_is_accepted():
    intent = make("ipv6-router").make_dut_intent()
    routes = {**intent.left.routes, "::/0": "2001:2:0:f000::2"}
    check_addresses(replace(intent, left=replace(intent.left, routes=routes)))


@pytest.mark.parametrize("plugin", ["mape-br", "lwaftr"])
@pytest.mark.parametrize(("params", "addresses"), [
    ({}, ["2001:db8:6::1/64"]),
    ({"br_address": "2404:9200:225:100::64"}, ["2001:db8:6::1/64", "2404:9200:225:100::64/128"]),
    ({"br_address": "2001:db8:9::64", "tester_left_ipv6": "2001:db8:9::2"}, ["2001:db8:9::64/64"]),
    ({"br_address": "2001:db8:6::64", "dut_left_ipv6": "2001:db8:6::1/64"},
     ["2001:db8:6::1/64", "2001:db8:6::64/128"]),
], ids=["default", "outside the link", "network of the tester", "given link address"])  # fmt: skip
def test_tunnel_address_is_the_links_or_a_host_address(plugin, params, addresses):
    intent = make(plugin, **params).make_dut_intent()
    assert [str(a) for a in intent.left.addresses] == addresses
    assert str(intent.configuration.br_address) == params.get("br_address", "2001:db8:6::1")


@pytest.mark.parametrize("value", [
    *map(ip_address, ("224.0.0.5", "255.255.255.255", "127.0.0.1", "0.0.0.0", "240.0.0.1")),  # noqa: S104
    *map(ip_address, ("::", "::1", "ff02::1", "fe80::1")),
    *(ip_interface("239.1.1.1/24"), ip_network("239.1.1.0/24"), ip_network("240.0.0.0/5")),
])  # fmt: skip
def test_value_that_no_device_forwards_is_refused(value):
    with expect_error("not-forwarded"):
        refuse_unforwardable(value)


@pytest.mark.parametrize("value", [
    *map(ip_address, ("198.18.0.2", "100.64.0.1", "2001:db8::1")),
    *map(ip_network, ("192.0.2.0/24", "64.0.0.0/2", "0.0.0.0/0", "64:ff9b::/96", "::/3")),
    *("255.255.255.255", None, 7, ["127.0.0.1"]),
])  # fmt: skip
def test_value_that_devices_forward_is_accepted(value):
    refuse_unforwardable(value)
