"""Settings and versions that a driver does not support are rejected before any change."""

from __future__ import annotations

import shutil
from dataclasses import replace
from ipaddress import IPv4Network

import pytest
from v6t.base.errors import UsageError
from v6t.drivers.duts.kinds.ip6_tunnel import format_drop_rules
from v6t.drivers.duts.registry import make_driver
from v6t.plugins.dns64 import Dns64
from v6t.plugins.dslite import DsLiteAftr
from v6t.plugins.map_ce import LwB4, MapECe
from v6t.plugins.nat64 import Nat64, Nat64Params
from v6t.plugins.siit import Siit, SiitParams
from v6t.tests.expect import expect_error
from v6t.tests.needs import needs_lab

from . import parameter_values
from .cases import B4
from .support import make_plan, run_shell

OWN = {"eam": [{"ipv4": "198.18.0.0/24", "ipv6": "2001:2::/120"}], "prefix": "2001:db8:64::/96"}
VERSIONS = ("unknown", "0.9.2-8", "0.9.2-10", "0.9.4", "0.9.5", "0.9.6", "0.9.6-16-g8a028c7")


def is_refused(driver, intent, **options):
    try:
        make_plan(driver, intent, **options)
    except UsageError:
        return True
    return False


def make_siit(**params):
    return Siit(SiitParams.model_validate({**OWN, **params}))


def make_mapped_siit(ipv6):
    eam = [*OWN["eam"], {"ipv4": "198.19.0.0/24", "ipv6": ipv6}]
    return make_siit(eam=eam, prefix=None, ipv4_hosts={"first": "198.19.0.0"})


def make_nat64(**params):
    return Nat64(Nat64Params(**params))


@pytest.mark.parametrize(
    ("technology", "options", "versions"),
    [
        (Siit(), {}, ()),
        (make_nat64(), {}, ()),
        (make_siit(ipv4_hosts={"first": "100.64.0.1"}), {}, ()),  # behind its own prefix
        (make_mapped_siit("64:ff9b::/120"), {}, VERSIONS[:5]),
        (make_mapped_siit("64:ff9b:1::/120"), {}, VERSIONS[:3]),
        (make_mapped_siit("100::/120"), {}, ()),
        (make_nat64(prefix="64:ff9b:1::/48", responder_ipv4="9.9.9.9"), {}, VERSIONS[:2]),
        (make_nat64(prefix="64:ff9b::/64", responder_ipv4="9.9.9.9"), {}, VERSIONS[:2]),
        (make_nat64(prefix="2001:db8:64::/48", responder_ipv4="9.9.9.9"), {}, ()),
        (make_nat64(prefix="wkp", responder_ipv4="9.9.9.9"), {}, ()),
        (make_nat64(prefix="wkp", responder_ipv4="100.64.0.1"), {}, VERSIONS[3:]),
        (make_nat64(prefix="wkp", responder_ipv4="192.168.7.7"), {}, VERSIONS),
        (make_siit(prefix="64:ff9b::/96", ipv4_hosts={"first": "198.18.0.2"}, ipv6_hosts={"first": "9.9.9.9"}), {}, ()),
        (make_nat64(), {"dynamic_pool": "240.0.0.0/24"}, VERSIONS[:3]),  # a reserved pool
    ],
)  # fmt: skip
def test_tayga_of_some_versions_refuses_addresses(technology, options, versions):
    driver = {"siit": "tayga", "nat64": "tayga-nftables"}[technology.name]
    intent = technology.make_dut_intent()
    refused = tuple(v for v in VERSIONS if is_refused(driver, intent, version=v, **options))
    assert refused == versions


@pytest.mark.parametrize(
    ("driver", "option", "valid", "wrong", "code"),
    [
        # a daemon is found by the name of its program
        ("tundra", "program", "/opt/tundra-nat64", "/opt/tundra-nat64-6.0.2", "wrong-form"),
        ("tayga", "program", "/opt/tayga", "/opt/tayga-6.0.2", "wrong-form"),
        ("tayga-nftables", "program", "/opt/tayga", "/opt/tayga-6.0.2", "wrong-form"),
        ("tayga-nftables", "dynamic_pool", "10.0.0.0/30", "10.0.0.1/30", "not-a-prefix"),
    ],
)
def test_wrong_option_is_rejected(driver, option, valid, wrong, code):
    make_driver(driver, {option: valid})
    with expect_error(code, path=[option]):
        make_driver(driver, {option: wrong})


def test_recursor_versions_with_unknown_settings_are_rejected():
    versions = ("4.3.9", "4.4.0", "4.8", "4.8.8", "5.1.7", "5.2.0", "5.3.1")
    intent = Dns64().make_dut_intent()
    refused = [v for v in versions if is_refused("pdns-recursor", intent, version=v)]
    assert refused == ["4.3.9", "5.2.0", "5.3.1"]


TWO_RELAYS = """\
198.51.100.1 1 6 0 2001:db8:b4:1::1 2001:db8:6::1
198.51.100.1 2 6 0 2001:db8:b4:2::1 2001:db8:6::7
"""


def make_default_plan(driver, plugin, options=None, **params):
    intent = parameter_values.Base(plugin).technology(**params).make_dut_intent()
    return make_plan(driver, intent, **(options or {}))


def format_plan_text(*args, **params):
    steps = make_default_plan(*args, **params).steps
    return "\n".join(f"{step.command}\n{step.text}" for step in steps)


CHAINED_TAYGA = {"parts": {"ce": {"driver": "tayga"}}}
LONE = {**parameter_values.NO_EA_BITS, "psid": 0x34, "iid_format": "draft"}


@pytest.mark.parametrize(
    ("driver", "plugin", "options", "params", "line"),
    [
        # a rule without EA bits is one softwire
        ("vpp", "mape-br", {}, LONE, "ip4-pfx 192.0.2.18/32 ip6-pfx ::/0 ip6-src 2001:db8:6::1 ea-bits-len 0 psid-offset 6"),
        ("vpp", "mape-br", {}, LONE, "\nv6t0 52 2001:db8:12:3400:c0:2:1200:3400\n"),
        ("nat46", "mapt-ce", {}, {"iid_format": "draft"}, "local.style MAP0"),
        ("nat46", "mapt-ce", {}, {}, "local.style MAP "),
        ("chain", "ipv4aas", CHAINED_TAYGA, {"variant": "map-t", "iid_format": "draft"},
         "map 192.0.2.35 2001:db8:ce:11b:c0:2:2300:300\n"),
        ("tayga-nftables", "nat64", {"ipv4_addr": "10.9.9.9"}, {}, "ipv4-addr 10.9.9.9"),
        ("tayga", "siit", {"version": "0.9.6"}, {"lowest_ipv6_mtu": 1500}, "offlink-mtu 1500\n"),
        ("tayga", "siit", {"version": "0.9.6-16"}, {"lowest_ipv6_mtu": 1500}, "offlink-mtu 1500\n"),
    ],
)  # fmt: skip
def test_plan_has_the_line_of_the_parameters(driver, plugin, options, params, line):
    assert line in format_plan_text(driver, plugin, options, **params)


def test_tayga_before_0_9_6_refuses_another_lowest_mtu():
    with pytest.raises(UsageError):
        make_default_plan("tayga", "siit", {"version": "0.9.2-8"}, lowest_ipv6_mtu=1500)
    assert "offlink-mtu" not in format_plan_text("tayga", "siit", {"version": "0.9.2-8"})


def test_vpp_second_lwaftr_address_of_one_ipv4_address_is_refused(tmp_path):
    table = tmp_path / "table"
    table.write_text(TWO_RELAYS)
    with expect_error("unsupported-by-device") as info:
        make_default_plan("vpp", "lwaftr", binding_table=str(table))
    assert "2001:db8:6::7" in info.value.message
    assert "snabb-lwaftr" in info.value.hint
    assert "2001:db8:6::7" in format_plan_text("snabb-lwaftr", "lwaftr", binding_table=str(table))


EDGE = MapECe().make_dut_intent().configuration


def test_ip6_tunnel_header_profile_follows_options():
    intent = LwB4().make_dut_intent()
    profile = make_driver("ip6-tunnel", {"hop_limit": 200}).get_header_profile(intent)
    assert (profile.tunnel_hop_limit, profile.outer_ecn) == (200, "reset")
    assert (profile.outer_dscp, profile.inner_dscp) == ("copied", "copied")
    profile = make_driver("ip6-tunnel", {"dscp": "pipe"}).get_header_profile(intent)
    assert (profile.outer_dscp, profile.inner_dscp) == ("zero", "kept")


def test_drop_rules_accept_exactly_the_port_set():
    """Count the ports (RFC 7597, section 5.1)."""
    sport = [r for r in format_drop_rules(EDGE, "right") if "th sport" in r]
    mask, psid = (int(word) for word in sport[0].split("& ")[1].split()[0:3:2])
    floor = int(sport[1].rpartition("< ")[2].split()[0])
    accepted = [port for port in range(65536) if port & mask == psid and port >= floor]
    ports = MapECe().params.customer.ports
    assert accepted == [port for port in range(65536) if port in ports]
    assert accepted


def test_whole_address_needs_no_port_rules():
    whole = EDGE.model_copy(update={"psid_len": 0, "ipv4": IPv4Network("192.0.2.0/28")})
    rules = format_drop_rules(whole, "right")
    assert len(rules) == 2
    assert all("addr != 192.0.2.0/28 counter drop" in rule for rule in rules)


@pytest.mark.lab
@needs_lab
@pytest.mark.skipif(not shutil.which("nft", path="/usr/sbin:/sbin"), reason="needs nftables")
@pytest.mark.parametrize(("psid_offset", "psid_len"), [(0, 6), (6, 6), (0, 16)])
def test_nft_lists_the_rules_as_they_were_given(psid_offset, psid_len):
    port_set = {"psid_offset": psid_offset, "psid_len": psid_len}
    plan = make_default_plan("ip6-tunnel", "lwb4", {"checks": True}, **port_set)
    text = next(s.text for s in plan.steps if "v6t.nft" in s.command and s.text)
    loaded = next(s for s in plan.steps if s.command.startswith("nft -c"))
    script = f"nft -f - && {loaded.check.command}"
    result = run_shell(script, text, sh=("unshare", "-n", "sh"))
    assert loaded.check.find_problem(result.stdout) is None
    assert loaded.check.find_problem(result.stdout.replace("!=", "==", 1))


def test_missing_ip6_tunnel_module_is_rejected():
    driver = make_driver("ip6-tunnel", {})
    intent = MapECe().make_dut_intent()
    facts = replace(driver.make_example_facts(intent), sections={"ip6_tunnel": "none\n"})
    with expect_error("missing-kernel-module", mentions="ip6_tunnel"):
        driver.plan(intent, facts)


def test_ip6_tunnel_rejects_checks_of_a_b4():
    with expect_error("unsupported-by-device"):
        make_plan("ip6-tunnel", B4, checks=True)


def test_ip6_tunnel_is_aftr_side_for_one_b4():
    parts = {"softwire": {"driver": "ip6-tunnel"}}
    steps = make_default_plan("chain", "ipv4aas", {"parts": parts}, variant="ds-lite").steps
    commands = [s.command for s in steps]
    (tunnel,) = [c for c in commands if c.startswith("ip -6 tunnel add")]
    assert "remote 2001:db8:6::9 local 2001:db8:6::1 " in tunnel
    assert "ip rule add priority 8676 iif right lookup 8676" in commands
    assert any("198.19.0.2/32 via 192.168.20.2 dev right" in s.text for s in steps)
    with expect_error("unsupported-by-device", mentions="16"):
        make_plan("chain", DsLiteAftr().make_dut_intent(), parts=parts)
