"""What VPP 26.06 printed in the lab, and what its functions are told, refuse and count."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest
from v6t.drivers.duts.kinds.versions import parse_version
from v6t.drivers.duts.kinds.vpp import outputs as vpp_outputs
from v6t.drivers.duts.registry import make_driver
from v6t.plugins.map_ce import LwB4, MapECe
from v6t.plugins.nptv6 import Nptv6
from v6t.tests.expect import expect_error

from . import intents
from .support import make_plan, read_captured
from .test_checks import read


def check_of(intent, command, **options):
    (found,) = [c for c in make_plan("vpp", intent, **options).all_checks if command in c.command][
        :1
    ]
    return found


def test_its_version():
    facts = make_driver("vpp", {"start": False}).parse_facts(
        {"system": "Linux 6.18", "version": read_captured("vpp-show-version.txt")}
    )
    assert facts.version == "26.06-release"
    assert parse_version(facts.version) == (26, 6)


LOADED = {"plugins": read_captured("vpp-show-plugins.txt"), "ipip": ""}
NO_IPIP = {**LOADED, "ipip": "show: unknown input `ipip tunnel'"}
LISTED = "/usr/lib/vpp_plugins:\nmap_plugin.so\nnat_plugin.so\n"


@pytest.mark.parametrize(
    ("intent", "options", "sections", "lacking"),
    [
        (intents.paper_mape(), {"start": False}, LOADED, ""),
        (intents.lwaftr(), {"start": False}, LOADED, ""),
        (intents.ROUTER4, {"start": False}, LOADED, ""),
        (intents.nat44(), {"start": False}, LOADED, ""),
        (MapECe().make_dut_intent(), {"start": False}, LOADED, ""),
        (LwB4().make_dut_intent(), {"start": False}, LOADED, ""),
        (intents.nat44(), {"start": False, "nat44": "ei"}, LOADED, "nat44_ei"),
        (intents.nat64(), {"start": False}, LOADED, "nat64"),
        (MapECe().make_dut_intent(), {"start": False}, NO_IPIP, "ipip"),
        (LwB4().make_dut_intent(), {"start": False}, NO_IPIP, "ipip"),
        # those in the directory of a VPP that is to be started
        (intents.paper_mape(), {}, {"plugins": LISTED}, ""),
        (intents.paper_mape(), {}, {"plugins": ""}, ""),
        (intents.paper_mape(), {}, {"plugins": LISTED.replace("\nmap", "\nnomap")}, "map"),
    ],
)
def test_plugin_that_is_not_loaded_is_missed_before_any_change(intent, options, sections, lacking):
    driver = make_driver("vpp", options)
    facts = replace(driver.make_example_facts(intent), sections=sections)
    if not lacking:
        driver.check_device(intent, facts)
        return
    with expect_error("plugin-not-loaded", mentions=f"{lacking}_plugin.so") as caught:
        driver.check_device(intent, facts)
    if not driver.options.starts_vpp:
        assert f"plugin {lacking}_plugin.so {{ enable }}" in caught.value.hint


@pytest.mark.parametrize(
    ("intent", "version", "code"),
    [
        (Nptv6().make_dut_intent(), "23.06", "unsupported-by-version"),
        (Nptv6().make_dut_intent(), "26.06", "plugin-not-loaded"),
        (intents.nat44(), "21.06", "unsupported-by-version"),
        (intents.dslite(), "26.06", "unsupported-by-device"),
    ],
)
def test_plugin_is_not_asked_for_where_vpp_cannot_be_the_device(intent, version, code):
    driver = make_driver("vpp", {"start": False})
    facts = driver.make_example_facts(intent)
    with expect_error(code):
        driver.check_device(intent, replace(facts, version=version, sections=LOADED))


@pytest.mark.parametrize(
    ("port", "mac", "code"),
    [
        ("host-left", "02:00:00:00:01:01", ""),
        ("host-left", "02:00:00:00:09:09", "wrong-interface"),
        ("host-up", "02:00:00:00:01:01", "unknown-interface"),
    ],
)
def test_interface_has_the_address_of_the_testbed(port, mac, code):
    intent = intents.ROUTER6
    left = intent.links.left.model_copy(update={"dut_mac": mac})
    links = replace(intent.links, left=left)
    intent = replace(intent, links=links)
    driver = make_driver("vpp", {"start": False, "left": port, "right": "host-right"})
    sections = {**LOADED, "hardware": read_captured("vpp-show-hardware.txt")}
    with expect_error(code) if code else nullcontext():
        driver.check_device(intent, replace(driver.make_example_facts(intent), sections=sections))


def test_the_papers_domain():
    (domain,) = vpp_outputs.parse_domains(read_captured("vpp-show-map-domain.txt"))
    assert domain == vpp_outputs.MapDomain(
        "v6t0", "192.0.2.0/24", "2001:db8:ce::/51", "2001:db8:6::1/128", 13, 0, 5
    )
    check = check_of(intents.paper_mape(), "show map domain")
    assert check.find_problem(read_captured("vpp-show-map-domain.txt")) is None
    assert (
        check.find_problem(
            read_captured("vpp-show-map-domain.txt").replace("psid-len 5", "psid-len 6")
        )
        is not None
    )


def test_thirty_packets_and_a_spoofed_one():
    found = vpp_outputs.parse_interface_counters(read_captured("vpp-show-interface.txt"))
    assert found["host-right.rx_packets"] == 30
    assert found["host-left.tx_packets"] == 31
    assert found["host-left.drops"] == 1
    assert vpp_outputs.parse_errors(read_captured("vpp-show-errors.txt")) == {
        "ip6-map: decap security check failed": 1.0, "reasons": 4.0,
    }  # fmt: skip
    load = vpp_outputs.parse_runtime(read_captured("vpp-show-runtime.txt"))
    assert load["thread0.node.ip4-map.calls"] == load["thread0.node.ip4-map.vectors"] == 30
    assert load["node.ip4-map.vectors_per_call"] == 1
    assert load["thread0.vector_rate_drop"] == pytest.approx(0.29164)
    assert "thread0.node.deleted-449.calls" not in load


def test_a_static_neighbour():
    check = check_of(intents.paper_mape(), "show ip neighbors host-left")
    neighbors = read_captured("vpp-show-ip-neighbors.txt")
    assert check.find_problem(read(check, neighbors)) is None
    dynamic = neighbors.replace("   S    ", "   D    ")
    assert check.find_problem(read(check, dynamic)) is not None


def test_its_sessions():
    assert vpp_outputs.parse_nat44_sessions(read_captured("vpp-show-nat44-summary.txt")) == {
        "sessions": 7
    }
    (flush,) = make_plan("vpp", intents.nat44()).flush
    assert "7 sessions" in flush.check.find_problem(read_captured("vpp-show-nat44-summary.txt"))
    (flush,) = make_plan("vpp", intents.nat64("64:ff9b::/96")).flush
    assert "3 bindings" in flush.check.find_problem(read_captured("vpp-show-nat64-bib-all.txt"))
    assert flush.check.find_problem("NAT64 BIB entries:\n") is None
    assert flush.check.find_problem("") is not None


@pytest.mark.parametrize(
    ("sessions", "room", "words"),
    [(0, 10_240, ""), (10_240, 10_240, ""), (10_241, 20_480, " bib-buckets 2048"),
     (4_000_000, 5_242_880, " bib-buckets 524288 bib-memory 1073741824")],
)  # fmt: skip
def test_nat64_has_room_for_the_sessions_asked(sessions, room, words):
    plan = make_plan("vpp", intents.requiring(intents.nat64(), sessions=sessions), start=False)
    (enable,) = [s for s in plan.steps if "nat64 plugin enable" in s.command]
    assert f"{room} sessions" in enable.why
    assert enable.command.startswith(f"vppctl nat64 plugin enable{words}")


def test_ds_lite_is_refused_where_it_would_lose_sessions_or_frames():
    intent = intents.dslite()
    with expect_error("unsupported-by-device"):
        make_plan("vpp", intent, start=False)
    two = intents.with_values(intent, first_b4="2001:db8:b4::1:0", b4_count=2)
    with expect_error("unsupported-by-device", mentions="1000") as info:
        make_plan("vpp", intents.requiring(two, sessions=2500))
    assert info.value.params == {"initiator_count": 3}
    assert make_plan("vpp", intents.requiring(two, sessions=2000))
    with expect_error("unsupported-by-device", mentions="198.19.0.1"):
        make_plan("vpp", intents.with_values(intent, pool4=["198.19.0.1"]))


def test_silence_is_no_empty_table():
    (flush,) = make_plan("vpp", intents.dslite()).flush
    check = flush.check
    assert check.find_problem("") is None
    assert check.find_problem("connect: No such file or directory")
    assert "1 B4s" in check.find_problem("B4 2001:db8::1 1 sessions\n  in ...\n")


@pytest.mark.parametrize(
    ("intent", "seconds"),
    [(intents.nat44(), 3600), (intents.nat64(), 300), (intents.dslite(), None)],
)
def test_how_long_idle_sessions_live(intent, seconds):
    assert make_driver("vpp", {}).get_timeout_s(intent) == seconds


def test_the_client_is_the_programs_neighbour():
    given = {"program": "/opt/vpp/bin/vpp"}
    assert make_driver("vpp", given).cli("show version").startswith("/opt/vpp/bin/vppctl -s ")
    elsewhere = {"ssh": {"host": "dut"}}
    assert make_driver("vpp", elsewhere).cli("show version") == "vppctl show version"
    assert not make_driver("vpp", elsewhere).options.starts_vpp
    assert make_driver("vpp", {"ssh": {"lab": "x"}}).options.starts_vpp


def nat44(**values):
    return intents.with_values(intents.nat44(), **values)


def test_what_clears_the_table_is_seen_to_have_cleared_it():
    (flush,) = make_plan("vpp", nat44(), nat44="ei").flush
    assert "del ; " in flush.command
    said = "NAT44 sessions:\n-------- thread 0 vpp_main: {} sessions --------\n"
    assert "3 sessions" in flush.check.find_problem(said.format(3))
    assert flush.check.find_problem(said.format(0)) is None
    assert flush.check.find_problem("")


def test_endpoint_independent_nat_has_room_for_all_clients():
    commands = [
        s.command for s in make_plan("vpp", nat44(inside4=["198.18.0.0/16"]), nat44="ei").steps
    ]
    assert any("plugin enable sessions 64512 users 65536" in c for c in commands)
    commands = [s.command for s in make_plan("vpp", nat44(session_limit=50), nat44="ei").steps]
    assert any("plugin enable sessions 50 users 1024" in c for c in commands)


@pytest.mark.parametrize(
    ("plugin", "settings"),
    [("ei", {"udp_timeout_s": 30}), ("ei", {"port_block": 16}), ("ed", {"port_block": 16})],
)
def test_what_a_plugin_cannot_be_is_refused(plugin, settings):
    with expect_error("unsupported-by-device", mentions=next(iter(settings))):
        make_plan("vpp", nat44(**settings), nat44=plugin)


def test_its_counts():
    two = (
        "NAT44 sessions:\n-------- thread 0 vpp_main: 0 sessions --------\n"
        "-------- thread 1 vpp_wk_0: 12 sessions --------\n"
        "  198.18.0.2: 12 dynamic translations, 0 static translations\n"
        "-------- thread 2 vpp_wk_1: 30 sessions --------\n"
    )
    assert vpp_outputs.parse_nat44_ei_sessions(two) == {"sessions": 42}
    dumped = (
        "[0 @ 0]: 0 packets /nat44-ei/total-sessions\n"
        "[0 @ 1]: 12 packets /nat44-ei/total-sessions\n"
        "[0 @ 2]: 30 packets /nat44-ei/total-sessions\n"
    )
    reading = make_driver("vpp", {"nat44": "ei"}).get_telemetry_readings(nat44())["table"]
    assert reading.parse(dumped) == {"used": 30, "limit": 64512}


def test_only_one_of_them_counts_endpoints():
    kinds = {
        n: make_driver("vpp", {"nat44": n}).has_endpoint_sessions(nat44()) for n in ("ed", "ei")
    }
    assert kinds == {"ed": False, "ei": True}
    assert not make_driver("vpp", {"nat44": "ei"}).has_endpoint_sessions(intents.nat64())
