"""What the programs of devices refuse, version by version, is refused before anything is changed."""

from __future__ import annotations

import pytest
from v6t.base.errors import UsageError
from v6t.drivers.duts.kinds.versions import parse_version
from v6t.drivers.duts.registry import make_driver
from v6t.plugins.dns64 import Dns64
from v6t.plugins.nat64 import Nat64, Nat64Params
from v6t.plugins.siit import Siit, SiitParams
from v6t.tests.expect import expect_error

OWN = {"eam": [{"ipv4": "198.18.0.0/24", "ipv6": "2001:2::/120"}], "prefix": "2001:db8:64::/96"}
VERSIONS = ("unknown", "0.9.2-8", "0.9.2-10", "0.9.4", "0.9.5", "0.9.6", "0.9.6-16-g8a028c7")


def is_refused(technology, version, options=None):
    driver = {"siit": "tayga", "nat64": "tayga-nftables"}[technology.name]
    device = make_driver(driver, {**(options or {}), "version": version})
    intent = technology.make_dut_intent()
    try:
        device.plan(intent, device.make_example_facts(intent))
    except UsageError:
        return True
    return False


def refusing(technology, options=None):
    return [version for version in VERSIONS if is_refused(technology, version, options)]


def behind_prefix(host):
    return Siit(SiitParams.model_validate({**OWN, "ipv4_hosts": {"first": host}}))


def mapped(ipv4, ipv6):
    eam = [*OWN["eam"], {"ipv4": ipv4, "ipv6": ipv6}]
    hosts = {"first": ipv4.partition("/")[0]}
    return Siit(SiitParams.model_validate({"eam": eam, "ipv4_hosts": hosts}))


def nat64(**params):
    return Nat64(Nat64Params(**params))


def test_tayga_takes_the_defaults():
    assert refusing(Siit()) == []
    assert refusing(nat64()) == []


def test_tayga_takes_shared_addresses_behind_a_prefix_of_its_own():
    assert refusing(behind_prefix("100.64.0.1")) == []


@pytest.mark.parametrize(
    ("ipv4", "ipv6", "first_accepting"),
    [
        ("198.19.0.0/24", "64:ff9b::/120", "0.9.6"),
        ("198.19.0.0/24", "64:ff9b:1::/120", "0.9.4"),
        ("198.19.0.0/24", "100::/120", "unknown"),
    ],
)
def test_tayga_refuses_mappings_up_to_a_version(ipv4, ipv6, first_accepting):
    assert refusing(mapped(ipv4, ipv6)) == list(VERSIONS[: VERSIONS.index(first_accepting)])


@pytest.mark.parametrize(
    ("prefix", "first_accepting"),
    [("64:ff9b:1::/48", "0.9.2-10"), ("64:ff9b::/64", "0.9.2-10"), ("2001:db8:64::/48", "unknown")],
)
def test_tayga_refuses_prefixes_up_to_a_version(prefix, first_accepting):
    technology = nat64(prefix=prefix, responder_ipv4="9.9.9.9")
    assert refusing(technology) == list(VERSIONS[: VERSIONS.index(first_accepting)])


@pytest.mark.parametrize(
    ("host", "versions"), [("9.9.9.9", ()), ("100.64.0.1", VERSIONS[3:]), ("192.168.7.7", VERSIONS)]
)
def test_tayga_refuses_private_hosts_behind_the_well_known_prefix(host, versions):
    technology = nat64(prefix="wkp", responder_ipv4=host)
    assert refusing(technology) == list(versions)


def test_tayga_takes_private_customers_with_a_mapping_beside_the_well_known_prefix():
    hosts = {"ipv4_hosts": {"first": "198.18.0.2"}, "ipv6_hosts": {"first": "9.9.9.9"}}
    technology = Siit(SiitParams.model_validate({**OWN, "prefix": "64:ff9b::/96", **hosts}))
    assert refusing(technology) == []


def test_tayga_refuses_a_reserved_dynamic_pool():
    assert refusing(nat64(), {"dynamic_pool": "240.0.0.0/24"}) == list(VERSIONS[:3])


def test_version_numbers_of_a_described_commit_end_before_the_hash():
    assert parse_version("0.9.6-16-g8a028c7") == (0, 9, 6, 16)


@pytest.mark.parametrize(
    ("driver", "name"),
    [("tundra", "tundra-nat64"), ("tayga", "tayga"), ("tayga-nftables", "tayga")],
)
def test_it_is_known_by_its_name_which_the_undo_asks_for(driver, name):
    assert make_driver(driver, {"program": f"/opt/built/{name}"})
    with expect_error("wrong-form", path=["program"]):
        make_driver(driver, {"program": f"/opt/built/{name}-6.0.2"})


@pytest.mark.parametrize(
    ("network", "code"),
    [
        ("10.0.0.0/31", "not-enough-addresses"),
        ("10.0.0.1/30", "option-invalid"),
        ("10.0.0.0/40", "option-invalid"),
    ],
)
def test_dynamic_pool_that_is_not_a_network_is_rejected(network, code):
    intent = Nat64().make_dut_intent()
    driver = make_driver("tayga-nftables", {"dynamic_pool": network})
    with expect_error(code, mentions="dut.options.dynamic_pool"):
        driver.plan(intent, driver.make_example_facts(intent))


def test_tayga_address_option_is_used():
    intent = Nat64().make_dut_intent()
    driver = make_driver("tayga-nftables", {"ipv4_addr": "10.9.9.9"})
    assert any(
        "ipv4-addr 10.9.9.9" in step.text
        for step in driver.plan(intent, driver.make_example_facts(intent)).steps
    )


def plan(driver, technology, **options):
    device = make_driver(driver, options)
    intent = technology.make_dut_intent()
    return device.plan(intent, device.make_example_facts(intent))


def refusal(*args, **options):
    with pytest.raises(UsageError) as caught:
        plan(*args, **options)
    return caught.value


def test_jool_refuses_a_udp_timeout_below_two_minutes():
    assert refusal("jool", Nat64(Nat64Params(udp_timeout_s=119))).params == {"udp_timeout_s": 120}
    assert refusal("jool", Nat64(), timeout_s=119).dut_params == {"timeout_s": 120}
    plan("jool", Nat64(Nat64Params(udp_timeout_s=120)))


@pytest.mark.parametrize("version", ["4.3.9", "5.2.0", "5.3.1"])
def test_recursor_of_another_configuration_is_refused(version):
    refusal("pdns-recursor", Dns64(), version=version)


@pytest.mark.parametrize("version", ["4.4.0", "4.8", "4.8.8", "5.1.7"])
def test_recursor_with_old_settings_is_planned(version):
    plan("pdns-recursor", Dns64(), version=version)
