"""Settings of MAP rules, softwires and translators that a driver uses or refuses."""

from __future__ import annotations

from ipaddress import IPv6Address

import pytest
from v6t.base.errors import UsageError
from v6t.core.config.plugins import load_plugin
from v6t.drivers.duts.kinds.vpp import outputs as vpp_outputs
from v6t.drivers.duts.registry import make_driver
from v6t.tests.expect import expect_error

NO_EA_BITS = {
    "rule_ipv4": "192.0.2.18/32",
    "rule_ipv6": "2001:db8:12:3400::/56",
    "ea_len": 0,
    "psid_len": 8,
}
ONE_CE = {**NO_EA_BITS, "ce_ipv4": "192.0.2.18", "ce_psid": 0x34}
TWO_RELAYS = """\
198.51.100.1 1 6 0 2001:db8:b4:1::1 2001:db8:6::1
198.51.100.1 2 6 0 2001:db8:b4:2::1 2001:db8:6::7
"""
OWN_PREFIX = {"prefix": "2001:db8:64::/96"}


def intent(plugin: str, **given: object):
    kind = load_plugin(plugin)
    return kind(kind.params_model(**given)).make_dut_intent()


def plan(driver: str, plugin: str, options=None, **given: object):
    made = make_driver(driver, options or {})
    wanted = intent(plugin, **given)
    return made.plan(wanted, made.make_example_facts(wanted))


def text(*args: object, **given: object) -> str:
    return "\n".join(f"{step.command}\n{step.text}" for step in plan(*args, **given).steps)


def test_vpp_rule_without_ea_bits_is_one_softwire():
    commands = text("vpp", "mape-br", **NO_EA_BITS, psid=0x34, iid_format="draft")
    assert (
        "ip4-pfx 192.0.2.18/32 ip6-pfx ::/0 ip6-src 2001:db8:6::1 ea-bits-len 0 psid-offset 6"
        in commands
    )
    assert "\nv6t0 52 2001:db8:12:3400:c0:2:1200:3400\n" in commands


def test_nat46_draft_rule_has_its_own_style():
    assert "local.style MAP0" in text("nat46", "mapt-ce", iid_format="draft")
    assert "local.style MAP " in text("nat46", "mapt-ce")


def test_tayga_maps_the_ce_address_of_the_draft_format():
    whole = intent("ipv4aas", variant="map-t", iid_format="draft")
    driver = make_driver("chain", {"parts": {"ce": {"driver": "tayga"}}})
    steps = driver.plan(whole, driver.make_example_facts(whole)).steps
    assert any("map 192.0.2.35 2001:db8:ce:11b:c0:2:2300:300\n" in step.text for step in steps)


@pytest.mark.parametrize("version", ["0.9.6", "0.9.6-16"])
def test_tayga_with_offlink_mtu_gets_the_lowest_mtu(version):
    assert "offlink-mtu 1500\n" in text("tayga", "siit", {"version": version}, lowest_ipv6_mtu=1500)


def test_tayga_before_0_9_6_refuses_another_lowest_mtu():
    with pytest.raises(UsageError):
        plan("tayga", "siit", {"version": "0.9.2-8"}, lowest_ipv6_mtu=1500)
    assert "offlink-mtu" not in text("tayga", "siit", {"version": "0.9.2-8"})


def test_vpp_second_lwaftr_address_of_one_ipv4_address_is_refused(tmp_path):
    table = tmp_path / "table"
    table.write_text(TWO_RELAYS)
    with expect_error("unsupported-by-device") as info:
        plan("vpp", "lwaftr", binding_table=str(table))
    assert "2001:db8:6::7" in info.value.message
    assert "snabb-lwaftr" in info.value.hint
    assert "2001:db8:6::7" in text("snabb-lwaftr", "lwaftr", binding_table=str(table))


DOMAINS = """\
[0] tag {v6t0} ip4-pfx 198.18.0.0/32 ip6-pfx ::/0 ip6-src 2001:db8:6::1/128 ea-bits-len 0 psid-offset 6 psid-len 1 mtu 0
 rule psid: 0 ip6-dst 2001:db8:b400::c612:0:0
 rule psid: 1 ip6-dst 2001:db8:b400:1:0:c612:0:1
[1] tag {v6t1} ip4-pfx 198.18.0.1/32 ip6-pfx ::/0 ip6-src 2001:db8:6::1/128 ea-bits-len 0 psid-offset 6 psid-len 1 mtu 0
 rule psid: 0 ip6-dst 2001:db8:b400:2:0:c612:1:0
 rule psid: 1 ip6-dst 2001:db8:b400:3:0:c612:1:1
"""


def test_vpp_domain_rules_are_read_by_tag_and_psid():
    rules = vpp_outputs.parse_domain_rules(DOMAINS)
    assert rules["v6t1", 0] == IPv6Address("2001:db8:b400:2:0:c612:1:0")
    assert len(rules) == 4


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("psid: 0 ip6-dst 2001:db8:b400:2:0:c612:1:0", "psid: 0 ip6-dst 2001:db8:b400:2:0:c612:1:9"),
        (" rule psid: 1 ip6-dst 2001:db8:b400:1:0:c612:0:1\n", ""),
        ("198.18.0.1/32 ip6-pfx ::/0 ip6-src 2001:db8:6::1", "198.18.0.1/32 ip6-pfx ::/0 ip6-src 2001:db8:6::7"),
        ("198.18.0.0/32 ip6-pfx ::/0 ip6-src 2001:db8:6::1/128 ea-bits-len 0 psid-offset 6",
         "198.18.0.0/32 ip6-pfx ::/0 ip6-src 2001:db8:6::1/128 ea-bits-len 0 psid-offset 4"),
    ],
)  # fmt: skip
def test_vpp_read_back_compares_every_domain_and_rule(old, new):
    steps = plan("vpp", "lwaftr", softwires=4, psid_len=1).steps
    checks = [s.check for s in steps if s.check and "show map domain" in s.check.command]
    said = [check.find_problem(DOMAINS.replace(old, new, 1)) for check in checks]
    assert any(said) is (old != new)
