"""Captured outputs of VPP 26.06 and Jool 4.1.9, and what their drivers reject."""

from contextlib import nullcontext
from dataclasses import replace

import pytest
from v6t.drivers.duts.facts import parse_version
from v6t.drivers.duts.kinds.vpp import outputs as vpp_outputs
from v6t.drivers.duts.registry import make_driver
from v6t.plugins.map_ce import LwB4, MapTCe
from v6t.plugins.nptv6 import Nptv6
from v6t.tests.expect import expect_error

from . import intents
from .support import make_plan, read_captured

NAT64 = intents.nat64()


def test_version_is_parsed():
    facts = make_driver("vpp", {"start": False}).parse_facts(
        {"system": "Linux 6.18", "version": read_captured("vpp-show-version.txt")}
    )
    assert facts.version == "26.06-release"
    assert parse_version(facts.version) == (26, 6)
    assert parse_version("0.9.6-16-g8a028c7") == (0, 9, 6, 16)  # a commit, before its hash


def check_device(name, intent, options, sections, **facts):
    """Check a device that has these sections in its survey."""
    driver = make_driver(name, options)
    example = driver.make_example_facts(intent)
    driver.check_device(intent, replace(example, sections=sections, **facts))


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
        (NAT64, {"start": False}, LOADED, "nat64"),
        (LwB4().make_dut_intent(), {"start": False}, NO_IPIP, "ipip"),
        # sockets of a VPP that v6t starts
        (intents.make_paper_mape(), {}, {"plugins": LISTED}, ""),
        (intents.make_paper_mape(), {}, {"plugins": ""}, ""),
        (intents.make_paper_mape(), {}, {"plugins": LISTED.replace("\nmap", "\nnomap")}, "map"),
    ],
)
def test_missing_plugin_is_rejected_before_any_change(intent, options, sections, lacking):
    if not lacking:
        check_device("vpp", intent, options, sections)
        return
    with expect_error("plugin-not-loaded", mentions=f"{lacking}_plugin.so") as caught:
        check_device("vpp", intent, options, sections)
    if options:
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
    with expect_error(code):
        check_device("vpp", intent, {"start": False}, LOADED, version=version)


@pytest.mark.parametrize(
    ("port", "mac", "code"),
    [
        ("host-left", "02:00:00:00:01:01", ""),
        ("host-left", "02:00:00:00:09:09", "wrong-interface"),
        ("host-up", "02:00:00:00:01:01", "unknown-interface"),
    ],
)
def test_interface_has_the_address_of_the_testbed(port, mac, code):
    left = intents.LINKS.left.model_copy(update={"dut_mac": mac})
    intent = replace(intents.ROUTER6, links=replace(intents.ROUTER6.links, left=left))
    options = {"start": False, "left": port, "right": "host-right"}
    sections = {**LOADED, "hardware": read_captured("vpp-show-hardware.txt")}
    with expect_error(code) if code else nullcontext():
        check_device("vpp", intent, options, sections)


def test_runtime_of_two_threads_is_parsed():
    runtime = read_captured("vpp-show-runtime.txt")
    two = vpp_outputs.parse_runtime(f"Thread 0 vpp_main\n{runtime}Thread 1 vpp_wk_0\n{runtime}")
    assert two["thread1.node.ip4-map.calls"] == two["thread1.node.ip4-map.vectors"] == 30


NAT44_EI = """\
NAT44 sessions:
-------- thread 0 vpp_main: 0 sessions --------
-------- thread 1 vpp_wk_0: 12 sessions --------
  198.18.0.2: 12 dynamic translations, 0 static translations
-------- thread 2 vpp_wk_1: 30 sessions --------
"""
EMPTY_NAT44_EI = "\n".join(NAT44_EI.splitlines()[:2])
EI = {"nat44": "ei"}
JOOL_STATISTICS = read_captured("jool-nat64-stats.txt")
JOOL_SILENCE = ("", "Error: There's no instance v6t", "JSTAT_RECEIVED6,5\n")


@pytest.mark.parametrize(
    ("driver", "intent", "options", "text", "problem"),
    [  # a problem that contains these words, or none
        ("vpp", intents.nat44(), {}, read_captured("vpp-show-nat44-summary.txt"), "7 sessions"),
        ("vpp", intents.nat44(), EI, NAT44_EI, "42 sessions"),
        ("vpp", intents.nat44(), EI, EMPTY_NAT44_EI, None),
        ("vpp", intents.nat44(), EI, "", ""),
        ("vpp", NAT64, {}, read_captured("vpp-show-nat64-bib-all.txt"), "3 bindings"),
        ("vpp", NAT64, {}, "NAT64 BIB entries:\n", None),
        ("vpp", NAT64, {}, "", ""),
        ("vpp", intents.dslite(), {}, "B4 2001:db8::1 1 sessions\n  in ...\n", "1 B4s"),
        ("vpp", intents.dslite(), {}, "", None),
        ("vpp", intents.dslite(), {}, "connect: No such file or directory", ""),
        ("jool", NAT64, {}, JOOL_STATISTICS, "3 sessions"),
        ("jool", NAT64, {}, "JSTAT_SESSIONS,0\n", None),
        # --all prints zeros, too, so missing output does not mean an empty table
        *(("jool", NAT64, {}, silence, "") for silence in JOOL_SILENCE),
    ],
)
def test_flush_is_confirmed_by_an_empty_table_only(driver, intent, options, text, problem):
    (flush,) = make_plan(driver, intent, **options).flush
    actual = flush.check.find_problem(text)
    assert (actual is None) == (problem is None)
    assert (problem or "") in (actual or "")


@pytest.mark.parametrize(
    ("sessions", "room", "words"),
    [(0, 10_240, ""), (10_240, 10_240, ""), (10_241, 20_480, " bib-buckets 2048"),
     (4_000_000, 5_242_880, " bib-buckets 524288 bib-memory 1073741824")],
)  # fmt: skip
def test_nat64_bucket_count_follows_required_sessions(sessions, room, words):
    plan = make_plan("vpp", intents.with_requirements(NAT64, sessions=sessions), start=False)
    (enable,) = [s for s in plan.steps if "nat64 plugin enable" in s.command]
    assert f"{room} sessions" in enable.why
    assert enable.command.startswith(f"vppctl nat64 plugin enable{words}")


@pytest.mark.parametrize(
    ("intent", "seconds"),
    [(intents.nat44(), 3600), (NAT64, 300), (intents.dslite(), None)],
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


def test_nat44_ei_table_and_flush():
    dumped = (
        "[0 @ 0]: 0 packets /nat44-ei/total-sessions\n"
        "[0 @ 1]: 12 packets /nat44-ei/total-sessions\n"
        "[0 @ 2]: 30 packets /nat44-ei/total-sessions\n"
    )
    reading = make_driver("vpp", EI).get_telemetry_readings(make_nat44())["table"]
    assert reading.parse(dumped) == {"used": 30, "limit": 64512}
    (flush,) = make_plan("vpp", make_nat44(), nat44="ei").flush
    assert "del ; " in flush.command


@pytest.mark.parametrize(
    ("plugin", "intent", "expected"),
    [("ed", intents.nat44(), False), ("ei", intents.nat44(), True), ("ei", NAT64, False)],
)
def test_only_nat44_ei_counts_endpoints(plugin, intent, expected):
    driver = make_driver("vpp", {"nat44": plugin})
    assert driver.has_endpoint_independent_mapping(intent) is expected


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
    for intent, words in ((intents.SIIT, siit), (NAT64, nat64)):
        readings = make_driver("jool", {}).get_telemetry_readings(intent)
        (figure,) = readings["jool"].parse(f"{name},1\n")
        assert figure.startswith(words)
        assert figure.endswith(f"({name})")


def test_foreign_instance_is_rejected():
    ours = read_captured("jool-nat64-instances.txt")
    check_device("jool", NAT64, {}, {"instances_jool": ours})
    theirs = {"instances_jool": ours.replace(",v6t,", ",theirs,")}
    with expect_error("device-busy") as caught:
        check_device("jool", NAT64, {}, theirs)
    assert "jool instance remove" in caught.value.hint


MAPT = intents.mapt("2001:db8:ce::/51", "64:ff9b::/96")


@pytest.mark.parametrize("version", ["4.1.255.5", "4.2.0-rc3", "4.2.0"])
def test_map_t_is_planned_for_a_release_candidate_under_any_name(version):
    plan = make_plan("jool", MAPT, version=version)
    assert any("map-t-type BR" in step.command for step in plan.steps)


@pytest.mark.parametrize("version", ["4.0.9", "4.1.15"])
def test_map_t_on_released_versions_is_rejected(version):
    for intent, hint in (
        (MAPT, "mapt-br on VPP"),
        (MapTCe().make_dut_intent(), "mapt-ce on nat46"),
    ):
        with expect_error("unsupported-by-version") as error:
            make_plan("jool", intent, version=version)
        assert error.value.hint.endswith(f"or measure {hint}")


def test_a_reboot_in_place_of_a_new_instance():
    (flush,) = make_plan("jool", NAT64, flush="reboot", reboot_deadline_s=77).flush
    assert flush.reboots
    assert flush.deadline_s == 77


def test_zero_checksum_is_accepted():
    """Jool writes 0 towards IPv6 in one of 65,536 frames; other errors are not accepted."""
    profile = make_driver("jool", {}).get_header_profile(intents.SIIT)
    assert replace(profile, zero_checksum="never").equals_reference
    assert not profile.equals_reference
