"""Captured outputs of VPP 26.06 and Jool 4.1.9, and what their drivers reject."""

from dataclasses import replace

import pytest
from v6t.drivers.duts.facts import parse_version
from v6t.drivers.duts.kinds.vpp import outputs as vpp_outputs
from v6t.drivers.duts.registry import make_driver

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


def test_vppctl_is_next_to_program():
    given = {"program": "/opt/vpp/bin/vpp"}
    assert make_driver("vpp", given).cli("show version").startswith("/opt/vpp/bin/vppctl -s ")
    elsewhere = {"ssh": {"host": "dut"}}
    assert make_driver("vpp", elsewhere).cli("show version") == "vppctl show version"
    assert not make_driver("vpp", elsewhere).options.starts_vpp
    assert make_driver("vpp", {"ssh": {"lab": "x"}}).options.starts_vpp


def test_nat44_ei_table_is_the_sum_of_its_threads():
    dumped = (
        "[0 @ 0]: 0 packets /nat44-ei/total-sessions\n"
        "[0 @ 1]: 12 packets /nat44-ei/total-sessions\n"
        "[0 @ 2]: 30 packets /nat44-ei/total-sessions\n"
    )
    reading = make_driver("vpp", EI).get_telemetry_readings(intents.nat44())["table"]
    assert reading.parse(dumped) == {"used": 30, "limit": 64512}


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


def test_zero_counters_are_requested():
    """Without zeros, the first increase of a counter would be missed."""
    driver = make_driver("jool", {})
    for intent in (intents.SIIT, NAT64):
        readings = driver.get_telemetry_readings(intent)
        assert " stats display --all --csv" in readings["jool"].command
        assert ("table" in readings) == (intent is NAT64)
    assert " --all " in driver.get_session_reading(NAT64).command


def test_a_reboot_in_place_of_a_new_instance():
    (flush,) = make_plan("jool", NAT64, flush="reboot", reboot_deadline_s=77).flush
    assert flush.reboots
    assert flush.deadline_s == 77


def test_zero_checksum_is_accepted():
    """Jool writes 0 towards IPv6 in one of 65,536 frames; other errors are not accepted."""
    profile = make_driver("jool", {}).get_header_profile(intents.SIIT)
    assert replace(profile, zero_checksum="never").equals_reference
    assert not profile.equals_reference
