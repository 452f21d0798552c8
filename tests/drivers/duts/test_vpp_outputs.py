"""Captured outputs of VPP 26.06 and Jool 4.1.9, and what their drivers reject."""

from contextlib import nullcontext
from dataclasses import replace

import pytest
from v6t.drivers.duts.facts import parse_version
from v6t.drivers.duts.kinds.jool import parse_statistics
from v6t.drivers.duts.kinds.vpp import outputs as vpp_outputs
from v6t.drivers.duts.registry import make_driver
from v6t.plugins.map_ce import LwB4, MapTCe
from v6t.plugins.nptv6 import Nptv6
from v6t.tests.expect import expect_error

from . import intents
from .support import make_plan, read_captured


def test_version_is_parsed():
    facts = make_driver("vpp", {"start": False}).parse_facts(
        {"system": "Linux 6.18", "version": read_captured("vpp-show-version.txt")}
    )
    assert facts.version == "26.06-release"
    assert parse_version(facts.version) == (26, 6)
    assert parse_version("0.9.6-16-g8a028c7") == (0, 9, 6, 16)  # a commit, before its hash


LOADED = {"plugins": read_captured("vpp-show-plugins.txt"), "ipip": ""}
NO_IPIP = {**LOADED, "ipip": "show: unknown input `ipip tunnel'"}
LISTED = "/usr/lib/vpp_plugins:\nmap_plugin.so\nnat_plugin.so\n"


@pytest.mark.parametrize(
    ("intent", "options", "sections", "lacking"),
    [
        (intents.make_paper_mape(), {"start": False}, LOADED, ""),
        (intents.ROUTER4, {"start": False}, LOADED, ""),
        (intents.nat44(), {"start": False}, LOADED, ""),
        (LwB4().make_dut_intent(), {"start": False}, LOADED, ""),
        (intents.nat44(), {"start": False, "nat44": "ei"}, LOADED, "nat44_ei"),
        (intents.nat64(), {"start": False}, LOADED, "nat64"),
        (LwB4().make_dut_intent(), {"start": False}, NO_IPIP, "ipip"),
        # sockets of a VPP that v6t starts
        (intents.make_paper_mape(), {}, {"plugins": LISTED}, ""),
        (intents.make_paper_mape(), {}, {"plugins": ""}, ""),
        (intents.make_paper_mape(), {}, {"plugins": LISTED.replace("\nmap", "\nnomap")}, "map"),
    ],
)
def test_missing_plugin_is_rejected_before_any_change(intent, options, sections, lacking):
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
def test_unsupported_intent_is_rejected_before_plugin_check(intent, version, code):
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


def test_domain_of_paper_is_parsed():
    (domain,) = vpp_outputs.parse_domains(read_captured("vpp-show-map-domain.txt"))
    assert domain == vpp_outputs.VppMapDomain(
        "v6t0", "192.0.2.0/24", "2001:db8:ce::/51", "2001:db8:6::1/128", 13, 0, 5
    )
    checks = make_plan("vpp", intents.make_paper_mape()).all_checks
    check = next(c for c in checks if "show map domain" in c.command)
    assert check.find_problem(read_captured("vpp-show-map-domain.txt")) is None
    other = read_captured("vpp-show-map-domain.txt").replace("psid-len 5", "psid-len 6")
    assert check.find_problem(other) is not None


def test_interface_and_error_counters_are_parsed():
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
    runtime = read_captured("vpp-show-runtime.txt")
    two = vpp_outputs.parse_runtime(f"Thread 0 vpp_main\n{runtime}Thread 1 vpp_wk_0\n{runtime}")
    assert two["thread1.node.ip4-map.calls"] == two["thread1.node.ip4-map.vectors"] == 30


def test_nat_sessions_are_parsed():
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
def test_nat64_bucket_count_follows_required_sessions(sessions, room, words):
    plan = make_plan(
        "vpp", intents.with_requirements(intents.nat64(), sessions=sessions), start=False
    )
    (enable,) = [s for s in plan.steps if "nat64 plugin enable" in s.command]
    assert f"{room} sessions" in enable.why
    assert enable.command.startswith(f"vppctl nat64 plugin enable{words}")


def test_error_output_is_not_an_empty_table():
    (flush,) = make_plan("vpp", intents.dslite()).flush
    check = flush.check
    assert check.find_problem("") is None
    assert check.find_problem("connect: No such file or directory")
    assert "1 B4s" in check.find_problem("B4 2001:db8::1 1 sessions\n  in ...\n")


@pytest.mark.parametrize(
    ("intent", "seconds"),
    [(intents.nat44(), 3600), (intents.nat64(), 300), (intents.dslite(), None)],
)
def test_idle_session_timeout_is_known(intent, seconds):
    assert make_driver("vpp", {}).get_timeout_s(intent) == seconds


def test_vppctl_is_next_to_program():
    given = {"program": "/opt/vpp/bin/vpp"}
    assert make_driver("vpp", given).cli("show version").startswith("/opt/vpp/bin/vppctl -s ")
    elsewhere = {"ssh": {"host": "dut"}}
    assert make_driver("vpp", elsewhere).cli("show version") == "vppctl show version"
    assert not make_driver("vpp", elsewhere).options.starts_vpp
    assert make_driver("vpp", {"ssh": {"lab": "x"}}).options.starts_vpp


def make_nat44(**values):
    return intents.with_values(intents.nat44(), **values)


def test_endpoint_independent_nat_has_room_for_all_clients():
    for values, room in (
        ({"inside4": ["198.18.0.0/16"]}, "sessions 64512 users 65536"),
        ({"session_limit": 50}, "sessions 50 users 1024"),
    ):
        steps = make_plan("vpp", make_nat44(**values), nat44="ei").steps
        assert any(f"plugin enable {room}" in step.command for step in steps)


@pytest.mark.parametrize(
    ("plugin", "settings"),
    [("ei", {"udp_timeout_s": 30}), ("ei", {"port_block": 16}), ("ed", {"port_block": 16})],
)
def test_unsupported_nat44_settings_are_rejected(plugin, settings):
    with expect_error("unsupported-by-device", mentions=next(iter(settings))):
        make_plan("vpp", make_nat44(**settings), nat44=plugin)


def test_nat44_ei_sessions_are_parsed():
    two = (
        "NAT44 sessions:\n-------- thread 0 vpp_main: 0 sessions --------\n"
        "-------- thread 1 vpp_wk_0: 12 sessions --------\n"
        "  198.18.0.2: 12 dynamic translations, 0 static translations\n"
        "-------- thread 2 vpp_wk_1: 30 sessions --------\n"
    )
    assert vpp_outputs.parse_nat44_ei_sessions(two) == {"sessions": 42}
    (flush,) = make_plan("vpp", make_nat44(), nat44="ei").flush
    assert "del ; " in flush.command
    assert "42 sessions" in flush.check.find_problem(two)
    assert flush.check.find_problem("\n".join(two.splitlines()[:2])) is None
    assert flush.check.find_problem("")
    dumped = (
        "[0 @ 0]: 0 packets /nat44-ei/total-sessions\n"
        "[0 @ 1]: 12 packets /nat44-ei/total-sessions\n"
        "[0 @ 2]: 30 packets /nat44-ei/total-sessions\n"
    )
    reading = make_driver("vpp", {"nat44": "ei"}).get_telemetry_readings(make_nat44())["table"]
    assert reading.parse(dumped) == {"used": 30, "limit": 64512}


def test_only_nat44_ei_counts_endpoints():
    kinds = {
        n: make_driver("vpp", {"nat44": n}).has_endpoint_independent_mapping(make_nat44())
        for n in ("ed", "ei")
    }
    assert kinds == {"ed": False, "ei": True}
    assert not make_driver("vpp", {"nat44": "ei"}).has_endpoint_independent_mapping(intents.nat64())


def test_module_and_program_are_of_one_version():
    driver = make_driver("jool", {})
    assert driver.extract_version(read_captured("jool-version.txt")) == "4.1.9"
    assert driver.extract_version("4.1.255.5\n4.1.255.5\n") == "4.2.0-rc3"  # as published
    assert driver.extract_version("4.1.255.9\n") == "4.1.255.9"
    with expect_error("version-mismatch", mentions="4.1.10"):
        driver.extract_version("4.1.10.0\n4.1.9.0\n")


def test_jool_sessions_are_parsed_and_missing_count_is_unknown():
    """--all prints zeros, too, so missing output does not mean an empty table."""
    text = read_captured("jool-nat64-stats.txt")
    assert parse_statistics(text)["JSTAT_POOL4_MISMATCH"] == 134
    reading = make_driver("jool", {}).get_session_reading(intents.nat64())
    (flush,) = make_plan("jool", intents.nat64()).flush
    assert reading.parse(text) == {"sessions": 3}
    assert "3 sessions" in flush.check.find_problem(text)
    assert reading.command == flush.check.command
    assert " --all " in reading.command
    for silence in ("", "Error: There's no instance v6t", "JSTAT_RECEIVED6,5\n"):
        assert reading.parse(silence) == {}
        assert flush.check.find_problem(silence)
    assert reading.parse("JSTAT_SESSIONS,0\n") == {"sessions": 0}
    assert flush.check.find_problem("JSTAT_SESSIONS,0\n") is None


@pytest.mark.parametrize(
    ("name", "siit", "nat64"),
    [
        ("JSTAT_UNKNOWN_ICMP6_TYPE", "dropped", "not translated"),
        ("JSTAT_UNKNOWN_L4_PROTO", "not translated", "not translated"),
        ("JSTAT64_6791_ENOENT", "dropped: no IPv4 address for the source", "dropped: no IPv4 address for"),
        ("JSTAT_UNTRANSLATABLE_DST6", "dropped: an IPv6 address", "dropped: an IPv6 address"),
        ("JSTAT_A_LATER_ONE", "dropped (", "dropped ("),
    ],
)  # fmt: skip
def test_meaning_of_counter_depends_on_translator(name, siit, nat64):
    for intent, words in ((intents.SIIT, siit), (intents.nat64(), nat64)):
        readings = make_driver("jool", {}).get_telemetry_readings(intent)
        (told,) = readings["jool"].parse(f"{name},1\n")
        assert told.startswith(words)
        assert told.endswith(f"({name})")


def test_zero_counters_are_requested():
    """Without zeros, the first increase of a counter would be missed."""
    for intent in (intents.SIIT, intents.nat64()):
        told = make_driver("jool", {}).get_telemetry_readings(intent)
        assert " stats display --all --csv" in told["jool"].command
        assert ("table" in told) == (intent is not intents.SIIT)


def test_foreign_instance_is_rejected():
    driver, intent = make_driver("jool", {}), intents.nat64()
    ours = read_captured("jool-nat64-instances.txt")
    facts = replace(driver.make_example_facts(intent), sections={"instances_jool": ours})
    driver.check_device(intent, facts)
    theirs = {"instances_jool": ours.replace(",v6t,", ",theirs,")}
    with expect_error("device-busy") as caught:
        driver.check_device(intent, replace(facts, sections=theirs))
    assert "jool instance remove" in caught.value.hint


MAPT = intents.mapt("2001:db8:ce::/51", "64:ff9b::/96")


@pytest.mark.parametrize("version", ["4.1.255.5", "4.2.0-rc3", "4.2.0"])
def test_map_t_is_planned_for_a_release_candidate_under_any_name(version):
    plan = make_plan("jool", MAPT, version=version)
    assert any("map-t-type BR" in step.command for step in plan.steps)


@pytest.mark.parametrize("version", ["4.0.9", "4.1.15"])
def test_map_t_on_released_versions_is_rejected(version):
    with expect_error("unsupported-by-version") as relay:
        make_plan("jool", MAPT, version=version)
    assert relay.value.hint.endswith("or measure mapt-br on VPP")
    with expect_error("unsupported-by-version") as edge:
        make_plan("jool", MapTCe().make_dut_intent(), version=version)
    assert edge.value.hint.endswith("or measure mapt-ce on nat46")


def test_a_reboot_in_place_of_a_new_instance():
    (flush,) = make_plan("jool", intents.nat64(), flush="reboot", reboot_deadline_s=77).flush
    assert flush.reboots
    assert flush.deadline_s == 77
    (flush,) = make_plan("jool", intents.nat64()).flush
    assert not flush.reboots
    assert flush.command.startswith("jool instance remove v6t && jool file handle")


def test_zero_checksum_is_accepted():
    """Jool writes 0 towards IPv6 in one of 65,536 frames; other errors are not accepted."""
    profile = make_driver("jool", {}).get_header_profile(intents.SIIT)
    assert replace(profile, zero_checksum="never").equals_reference
    assert not profile.equals_reference
