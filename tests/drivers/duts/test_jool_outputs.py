"""What Debian's Jool 4.1.9 said in the virtual machine, read by its driver."""

from __future__ import annotations

from dataclasses import replace

import pytest
from v6t.drivers.duts.bottleneck import judge_device
from v6t.drivers.duts.kinds.jool_instances import parse_statistics
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.duts.session.telemetry import Sample
from v6t.drivers.duts.telemetry_summary import summarize_samples
from v6t.plugins.map_ce import MapTCe
from v6t.tests.expect import expect_error

from . import intents
from .support import make_plan, read_captured


def check_of(command):
    plan = make_plan("jool", intents.nat64("64:ff9b::/96"))
    (check,) = [c for c in plan.all_checks if command in c.command]
    return check


def test_module_and_program_are_of_one_version():
    driver = make_driver("jool", {})
    assert driver.read_version(read_captured("jool-version.txt")) == "4.1.9"
    assert driver.read_version("4.1.255.5\n4.1.255.5\n") == "4.2.0-rc3"  # as it was published
    assert driver.read_version("4.1.255.9\n") == "4.1.255.9"
    with expect_error("version-mismatch", mentions="4.1.10"):
        driver.read_version("4.1.10.0\n4.1.9.0\n")


def test_its_sessions_and_the_reasons_of_drops():
    found = parse_statistics(read_captured("jool-nat64-stats.txt"))
    assert found["JSTAT_SESSIONS"] == 3
    assert found["JSTAT_POOL4_MISMATCH"] == 134
    reading = make_driver("jool", {}).get_session_reading(intents.nat64())
    assert reading.parse(read_captured("jool-nat64-stats.txt")) == {"sessions": 3}
    (flush,) = make_plan("jool", intents.nat64()).flush
    assert "3 sessions" in flush.check.find_problem(read_captured("jool-nat64-stats.txt"))


def test_a_number_of_sessions_that_is_not_told_is_none():
    """With --all even a zero is told: without an answer nothing says that the table is empty."""
    reading = make_driver("jool", {}).get_session_reading(intents.nat64())
    (flush,) = make_plan("jool", intents.nat64()).flush
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
def test_what_a_counter_says_depends_on_the_translator(name, siit, nat64):
    for intent, words in ((intents.SIIT, siit), (intents.nat64(), nat64)):
        (told,) = (
            make_driver("jool", {}).get_telemetry_readings(intent)["jool"].parse(f"{name},1\n")
        )
        assert told.startswith(words)
        assert told.endswith(f"({name})")


def watched(*grown):
    """Samples of a device with time left, whose counters are those captured and then some."""
    readings = make_driver("jool", {}).get_telemetry_readings(intents.nat64())
    samples = []
    for second, counters in enumerate(({}, *grown)):
        text = read_captured("jool-nat64-stats.txt")
        for name, value in counters.items():
            text += f"{name},{value}\n"
        figures = {name: dict(readings[name].parse(text)) for name in ("jool", "table")}
        figures["cpu"] = {"cpu0.idle": 50.0 * second, "cpu0.total": 100.0 * second}
        samples.append(Sample(figures, float(second), readings))
    return samples


ZERO = {
    "JSTAT_BIB6_NOT_FOUND": 0, "JSTAT46_DST": 0, "JSTAT_POOL6_MISMATCH": 0, "JSTAT_JOOLD_MISSING_ACK": 0,
    "JSTAT_DST_OUTPUT": 0,
}  # fmt: skip


def test_what_jool_drops_is_lost_here_and_what_it_hands_back_is_not():
    """Its own management and neighbour discovery are no loss of the traffic under test."""
    grown = {
        "JSTAT_DST_OUTPUT": 40, "JSTAT46_DST": 90, "JSTAT_POOL6_MISMATCH": 7, "JSTAT_JOOLD_MISSING_ACK": 5,
    }  # fmt: skip
    samples = watched(ZERO, {**ZERO, **grown})[1:]
    reason = "jool dropped: the kernel did not take it for sending (JSTAT_DST_OUTPUT)"
    assert summarize_samples(samples).drops == {reason: 40.0}
    assert summarize_samples(samples).table == {"used": 3.0}
    assert f"{reason}: 40 more" in judge_device(samples, lost=40).evidence
    quiet = watched(ZERO, {**ZERO, "JSTAT46_DST": 90})[1:]
    assert judge_device(quiet, "the tester", lost=0).limited_by == "tester"


def test_a_pool_without_ports_is_a_table_without_room():
    samples = watched(ZERO, {**ZERO, "JSTAT_BIB6_NOT_FOUND": 500})[1:]
    found = judge_device(samples, lost=600)
    assert found.limited_by == "table"
    assert "JSTAT_BIB6_NOT_FOUND" in found.says


def test_counters_that_are_zero_are_asked_for_too():
    """Of one that is listed from its first packet on nobody could say how much it has grown."""
    for intent in (intents.SIIT, intents.nat64()):
        told = make_driver("jool", {}).get_telemetry_readings(intent)
        assert " stats display --all --csv" in told["jool"].command
        assert ("table" in told) == (intent is not intents.SIIT)


def test_options_read_back():
    check = check_of("jool -i v6t global display")
    assert check.find_problem(read_captured("jool-nat64-global.txt")) is None
    other = read_captured("jool-nat64-global.txt").replace(
        "udp-timeout,1:00:00", "udp-timeout,0:05:00"
    )
    assert check.find_problem(other) is not None


def test_instance_of_somebody_else_is_refused():
    driver, intent = make_driver("jool", {}), intents.nat64()
    ours = read_captured("jool-nat64-instances.txt")
    facts = replace(driver.make_example_facts(intent), sections={"instances_jool": ours})
    driver.check_device(intent, facts)
    theirs = {"instances_jool": ours.replace(",v6t,", ",theirs,")}
    with expect_error("device-busy") as caught:
        driver.check_device(intent, replace(facts, sections=theirs))
    assert "jool instance remove" in caught.value.hint


@pytest.mark.parametrize("version", ["4.1.255.5", "4.2.0-rc3", "4.2.0"])
def test_map_t_is_planned_for_a_release_candidate_under_any_name(version):
    plan = make_plan("jool", intents.mapt("2001:db8:ce::/51", "64:ff9b::/96"), version=version)
    assert any("map-t-type BR" in step.command for step in plan.steps)


@pytest.mark.parametrize("version", ["4.0.9", "4.1.9", "4.1.15"])
def test_map_t_is_refused_for_all_others(version):
    with expect_error("unsupported-by-version") as relay:
        make_plan("jool", intents.mapt("2001:db8:ce::/51", "64:ff9b::/96"), version=version)
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


def test_a_checksum_that_comes_out_as_zero_ends_no_measurement():
    """It writes 0 towards IPv6, in one frame of 65,536; nothing else of its frames is excused."""
    profile = make_driver("jool", {}).get_header_profile(intents.SIIT)
    assert replace(profile, zero_checksum="never").equals_reference
    assert not profile.equals_reference
