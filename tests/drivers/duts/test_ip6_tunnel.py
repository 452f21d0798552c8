"""The kernel's tunnel as the customer's side: plans and rules; tests/tunnelvm has it run."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from ipaddress import IPv4Network

import pytest
from v6t.drivers.duts.kinds.ip6_tunnel import TUNNEL, parse_drops
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.lab.privilege import available
from v6t.plugins.dslite import DsLiteAftr
from v6t.plugins.ipv4aas import Ipv4aas, Ipv4aasParams
from v6t.plugins.map_ce import LwB4, MapECe, MapTCe
from v6t.tests.expect import expect_error

from .cases import B4
from .support import make_plan

POSSIBLE, WHY = available()
EDGE = MapECe().dut_intent().configuration


def made(plan):
    return next(s for s in plan.steps if s.set.startswith("ip -6 tunnel add"))


@pytest.mark.parametrize(
    ("intent", "ends"),
    [
        (MapECe().dut_intent(), "remote 2001:db8:6::1 local 2001:db8:ce:17a9:0:c000:2bd:9"),
        (LwB4().dut_intent(), "remote 2001:db8:6::1 local 2001:db8:b4:1:0:c612:1:9"),
        (B4, "remote 2001:db8:6::1 local 2001:db8:6::9"),
    ],
    ids=["mape-ce", "lwb4", "b4"],
)
def test_the_ends_of_the_tunnel_are_the_technologys(intent, ends):
    step = made(make_plan("ip6-tunnel", intent))
    assert step.set == (
        f"ip -6 tunnel add {TUNNEL} mode ipip6 {ends} encaplimit none hoplimit 64 "
        "tclass inherit dscp inherit"
    )
    shown = f"{TUNNEL}: ip/ipv6 {ends} encaplimit none hoplimit 64 tclass inherit flowlabel 0x00000"
    assert step.check.checker(f"{shown} (flowinfo 0x00000000) dscp inherit") is None
    assert step.check.checker(shown)
    assert step.check.checker(f"{shown.replace('none', '4')} dscp inherit")


def test_a_b4_has_its_address_already():
    of_b4 = [s.set for s in make_plan("ip6-tunnel", B4).steps if "addr add 2001:db8:6::9/" in s.set]
    assert [c.partition("|| ")[2] for c in of_b4] == [
        "ip -6 addr add 2001:db8:6::9/64 dev right nodad"
    ]
    ce = MapECe().dut_intent()
    local = ce.configuration.tunnel_local
    assert any(f"addr add {local}/128 dev left" in s.set for s in make_plan("ip6-tunnel", ce).steps)


@pytest.mark.parametrize(("intent", "inside"), [(MapECe().dut_intent(), "right"), (B4, "left")])
def test_only_what_comes_from_the_customer_goes_into_it(intent, inside):
    commands = [s.set for s in make_plan("ip6-tunnel", intent).steps]
    assert f"ip rule add priority 8676 iif {inside} lookup 8676" in commands
    assert "ip route add default dev v6t-tunnel table 8676 proto 86" in commands
    assert not any("default" in c and "table" not in c for c in commands)


def test_what_the_kernel_writes_is_declared():
    intent = LwB4().dut_intent()
    own = make_driver("ip6-tunnel", {"hop_limit": 200}).profile(intent)
    assert (own.tunnel_hop_limit, own.outer_dscp, own.outer_ecn, own.inner_dscp) == (
        200, "copied", "reset", "copied",
    )  # fmt: skip
    own = make_driver("ip6-tunnel", {"dscp": "pipe"}).profile(intent)
    assert (own.outer_dscp, own.inner_dscp) == ("zero", "kept")


def test_rules_keep_what_the_port_set_holds():
    """By counting: the rules' arithmetic is that of RFC 7597 section 5.1."""
    sport = [r for r in parse_drops(EDGE, "right") if "th sport" in r]
    mask, psid = (int(word) for word in sport[0].split("& ")[1].split()[0:3:2])
    floor = int(sport[1].rpartition("< ")[2].split()[0])
    held = {port for port in range(65536) if port & mask == psid and port >= floor}
    ports = MapECe().params.customer.ports
    assert held == {port for port in range(65536) if port in ports}
    assert held


def test_a_whole_address_has_no_rules_for_ports():
    whole = EDGE.model_copy(update={"psid_len": 0, "ipv4": IPv4Network("192.0.2.0/28")})
    rules = parse_drops(whole, "right")
    assert len(rules) == 2
    assert all("addr != 192.0.2.0/28 counter drop" in rule for rule in rules)


@pytest.mark.lab
@pytest.mark.skipif(not POSSIBLE, reason=WHY)
@pytest.mark.skipif(not shutil.which("nft", path="/usr/sbin:/sbin"), reason="needs nftables")
@pytest.mark.parametrize("psid_offset", [0, 6])
def test_nft_lists_the_rules_as_they_were_given(psid_offset):
    plan = make_plan(
        "ip6-tunnel", LwB4(LwB4.params_model(psid_offset=psid_offset)).dut_intent(), checks=True
    )
    text = next(s.text for s in plan.steps if "v6t.nft" in s.set and s.text)
    loaded = next(s for s in plan.steps if s.set.startswith("nft -c"))
    script = f"nft -f - && {loaded.check.command}"
    done = subprocess.run(
        ["unshare", "-n", "sh", "-c", script],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    assert loaded.check.checker(done.stdout) is None
    assert loaded.check.checker(done.stdout.replace("!=", "==", 1))


def test_a_kernel_without_it_is_refused():
    driver = make_driver("ip6-tunnel", {})
    intent = MapECe().dut_intent()
    facts = replace(driver.example(intent), sections={"ip6_tunnel": "none\n"})
    with expect_error("missing-kernel-module", mentions="ip6_tunnel"):
        driver.plan(intent, facts)


def test_what_is_no_tunnel_is_refused():
    with expect_error("unsupported-technology"):
        make_plan("ip6-tunnel", MapTCe().dut_intent())
    with expect_error("unsupported-by-device"):
        make_plan("ip6-tunnel", B4, checks=True)


def test_it_is_an_aftrs_end_of_one_b4s_tunnel():
    intent = Ipv4aas(Ipv4aasParams(variant="ds-lite")).dut_intent()
    driver = make_driver("chain", {"parts": {"softwire": {"driver": "ip6-tunnel"}}})
    commands = [s.set for s in driver.plan(intent, driver.example(intent)).steps]
    (tunnel,) = [c for c in commands if c.startswith("ip -6 tunnel add")]
    assert "remote 2001:db8:6::9 local 2001:db8:6::1 " in tunnel
    assert "ip rule add priority 8676 iif right lookup 8676" in commands
    assert any("198.19.0.2/32 via 192.168.20.2 dev right" in s.text for s in
               driver.plan(intent, driver.example(intent)).steps)  # fmt: skip
    whole = DsLiteAftr().dut_intent()
    driver = make_driver("chain", {"parts": {"softwire": {"driver": "ip6-tunnel"}}})
    with expect_error("unsupported-by-device", mentions="16"):
        driver.plan(whole, driver.example(whole))


@pytest.mark.parametrize("part", ["ce", "b4"])
def test_vpps_tunnel_has_routes_with_the_lengths_that_it_reads(part):
    variant = "lw4o6" if part == "ce" else "ds-lite"
    intent = Ipv4aas(Ipv4aasParams(variant=variant)).dut_intent()
    driver = make_driver("chain", {"parts": {part: {"driver": "vpp"}}})
    commands = [s.set for s in driver.plan(intent, driver.example(intent)).steps]
    assert sum(" create ipip tunnel " in c for c in commands) == 1
    routes = [
        c.partition(" ip route add ")[2].split()[0] for c in commands if " ip route add " in c
    ]
    assert len(routes) > 2
    assert all("/" in net for net in routes)


@pytest.mark.parametrize(("variant", "part"), [("ds-lite", "b4"), ("lw4o6", "ce"), ("map-e", "ce")])
def test_it_is_the_ces_part_of_a_chain(variant, part):
    intent = Ipv4aas(Ipv4aasParams(variant=variant)).dut_intent()
    driver = make_driver("chain", {"parts": {part: {"driver": "ip6-tunnel"}}})
    commands = [s.set for s in driver.plan(intent, driver.example(intent)).steps]
    assert sum(c.startswith("ip -6 tunnel add") for c in commands) == 1
    assert "ip rule add priority 8676 iif left lookup 8676" in commands
