"""The kernel's tunnel as the customer's side: plans and rules; tests/tunnelvm has it run."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from ipaddress import IPv4Network

import pytest
from v6t.drivers.duts.kinds.ip6_tunnel import format_drop_rules
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.lab.privilege import available
from v6t.plugins.dslite import DsLiteAftr
from v6t.plugins.ipv4aas import Ipv4aas, Ipv4aasParams
from v6t.plugins.map_ce import LwB4, MapECe, MapTCe
from v6t.tests.expect import expect_error

from .cases import B4
from .support import make_plan

POSSIBLE, WHY = available()
EDGE = MapECe().make_dut_intent().configuration


def test_what_the_kernel_writes_is_declared():
    intent = LwB4().make_dut_intent()
    own = make_driver("ip6-tunnel", {"hop_limit": 200}).get_header_profile(intent)
    assert (own.tunnel_hop_limit, own.outer_dscp, own.outer_ecn, own.inner_dscp) == (
        200, "copied", "reset", "copied",
    )  # fmt: skip
    own = make_driver("ip6-tunnel", {"dscp": "pipe"}).get_header_profile(intent)
    assert (own.outer_dscp, own.inner_dscp) == ("zero", "kept")


def test_rules_keep_what_the_port_set_holds():
    """By counting: the rules' arithmetic is that of RFC 7597 section 5.1."""
    sport = [r for r in format_drop_rules(EDGE, "right") if "th sport" in r]
    mask, psid = (int(word) for word in sport[0].split("& ")[1].split()[0:3:2])
    floor = int(sport[1].rpartition("< ")[2].split()[0])
    held = {port for port in range(65536) if port & mask == psid and port >= floor}
    ports = MapECe().params.customer.ports
    assert held == {port for port in range(65536) if port in ports}
    assert held


def test_a_whole_address_has_no_rules_for_ports():
    whole = EDGE.model_copy(update={"psid_len": 0, "ipv4": IPv4Network("192.0.2.0/28")})
    rules = format_drop_rules(whole, "right")
    assert len(rules) == 2
    assert all("addr != 192.0.2.0/28 counter drop" in rule for rule in rules)


@pytest.mark.lab
@pytest.mark.skipif(not POSSIBLE, reason=WHY)
@pytest.mark.skipif(not shutil.which("nft", path="/usr/sbin:/sbin"), reason="needs nftables")
@pytest.mark.parametrize("psid_offset", [0, 6])
def test_nft_lists_the_rules_as_they_were_given(psid_offset):
    plan = make_plan(
        "ip6-tunnel",
        LwB4(LwB4.params_model(psid_offset=psid_offset)).make_dut_intent(),
        checks=True,
    )
    text = next(s.text for s in plan.steps if "v6t.nft" in s.command and s.text)
    loaded = next(s for s in plan.steps if s.command.startswith("nft -c"))
    script = f"nft -f - && {loaded.check.command}"
    done = subprocess.run(
        ["unshare", "-n", "sh", "-c", script],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    assert loaded.check.find_problem(done.stdout) is None
    assert loaded.check.find_problem(done.stdout.replace("!=", "==", 1))


def test_a_kernel_without_it_is_refused():
    driver = make_driver("ip6-tunnel", {})
    intent = MapECe().make_dut_intent()
    facts = replace(driver.make_example_facts(intent), sections={"ip6_tunnel": "none\n"})
    with expect_error("missing-kernel-module", mentions="ip6_tunnel"):
        driver.plan(intent, facts)


def test_what_is_no_tunnel_is_refused():
    with expect_error("unsupported-technology"):
        make_plan("ip6-tunnel", MapTCe().make_dut_intent())
    with expect_error("unsupported-by-device"):
        make_plan("ip6-tunnel", B4, checks=True)


def test_it_is_an_aftrs_end_of_one_b4s_tunnel():
    intent = Ipv4aas(Ipv4aasParams(variant="ds-lite")).make_dut_intent()
    driver = make_driver("chain", {"parts": {"softwire": {"driver": "ip6-tunnel"}}})
    commands = [s.command for s in driver.plan(intent, driver.make_example_facts(intent)).steps]
    (tunnel,) = [c for c in commands if c.startswith("ip -6 tunnel add")]
    assert "remote 2001:db8:6::9 local 2001:db8:6::1 " in tunnel
    assert "ip rule add priority 8676 iif right lookup 8676" in commands
    assert any("198.19.0.2/32 via 192.168.20.2 dev right" in s.text for s in
               driver.plan(intent, driver.make_example_facts(intent)).steps)  # fmt: skip
    whole = DsLiteAftr().make_dut_intent()
    driver = make_driver("chain", {"parts": {"softwire": {"driver": "ip6-tunnel"}}})
    with expect_error("unsupported-by-device", mentions="16"):
        driver.plan(whole, driver.make_example_facts(whole))
