"""What every driver promises, whatever it drives: nothing is left, nothing foreign is touched."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from v6t.drivers.duts.facts import Interface
from v6t.drivers.duts.management_path import ManagementPath
from v6t.drivers.duts.plan import Existing
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.duts.session.plan_steps import make_undo_entry
from v6t.drivers.duts.session.undo_store import UndoEntry, UndoRecord, build_undo_script
from v6t.tests.expect import expect_error

from .cases import CASES
from .support import run_shell

MODULE = re.compile(r"\b(?:modprobe|insmod) ")
"""In a lab a module stays."""
SINGLE = [c for c in CASES if c.driver != "chain"]
"""The parts of a chain are cases of their own."""
each_case = pytest.mark.parametrize("case", SINGLE, ids=lambda c: c.name)

CHANGES = re.compile(
    r"\b(?:add|del|delete|replace|flush|clear|kill|rm|mv|modprobe|reboot|shutdown|tee)\b|"
    r"sysctl (?:-\w )*-w|>>?\s*(?!/dev/null|&)[\w/]"
)
OWN = re.compile(
    r"v6t|\$STATE|pfctl -q -e|promisc|dynamic\.map|nat64 |tun646|dslite|configure confirm|\ncommit\n"
)
"""A step without undo changes what another step of the plan made, and takes away."""


def planned(case):
    driver = make_driver(case.driver, case.options)
    facts = driver.make_example_facts(case.intent)
    return driver, facts, driver.plan(case.intent, facts)


@each_case
def test_looking_changes_nothing(case):
    driver, _, plan = planned(case)
    looks = [c.command for c in plan.all_checks]
    looks += [s.before for s in plan.steps] + [s.gone_test for s in plan.steps]
    looks += [s.check.command for s in plan.flush if s.check]
    looks += list(driver.get_survey_commands().values())
    looks += [r.command for r in driver.get_telemetry_readings(case.intent).values()]
    sessions = driver.get_session_reading(case.intent)
    looks += [sessions.command] if sessions else []
    for line in looks:
        bare = re.sub(r"'[^']*'|2>&1|2>/dev/null|>/dev/null", "", line)
        assert not CHANGES.search(bare), line


@each_case
def test_what_is_done_is_undone(case):
    _, _, plan = planned(case)
    for step in plan.steps:
        stays = MODULE.search(step.command)
        if not step.undo:
            assert stays or OWN.search(step.command + step.text), step.command
        if "{old}" in step.undo + step.undo_text or "{words}" in step.undo:
            assert step.before, step.command
            assert step.existing is Existing.RESTORE, step.command
        if step.existing in (Existing.KEEP, Existing.REFUSE):
            assert step.read, step.command
            assert stays or step.undo, step.command
        if step.existing is Existing.NONE:
            assert not step.before


@pytest.mark.parametrize("name", ["jool-siit", "nat46-siit", "nat46-clat", "ip6-tunnel-b4"])
@pytest.mark.parametrize(
    ("ssh", "stays"), [(None, True), ({"lab": "one"}, True), ({"host": "device"}, False)]
)
def test_a_module_that_was_loaded_stays_in_a_lab_and_nowhere_else(name, ssh, stays):
    """Labs share the kernel. What stays is not looked for when the device is put back."""
    (case,) = [c for c in CASES if c.name == name]
    driver = make_driver(case.driver, {**case.options, "ssh": ssh})
    plan = driver.plan(
        case.intent,
        replace(driver.make_example_facts(case.intent), management_path=ManagementPath()),
    )
    (step,) = [step for step in plan.steps if MODULE.search(step.command)]
    assert ("it stays" in step.why) is stays
    made = make_undo_entry(1, step, "")
    assert (made.command == "") is stays
    if not stays:
        assert re.search("modprobe -r|rmmod", made.command)
    assert make_undo_entry(1, step, "/sys/module/there").command == ""


@pytest.mark.parametrize(
    ("ssh", "counted"), [(None, False), ({"lab": "one"}, False), ({"host": "device"}, True)]
)
def test_huge_pages_are_put_back_but_in_a_lab_where_others_may_be_at_work_with_them(ssh, counted):
    (case,) = [c for c in CASES if c.name == "snabb-lwaftr"]
    driver = make_driver("snabb-lwaftr", {"ssh": ssh})
    plan = driver.plan(
        case.intent,
        replace(driver.make_example_facts(case.intent), management_path=ManagementPath()),
    )
    undone = [
        make_undo_entry(1, s, "vm.nr_hugepages = 7\n")
        for s in plan.steps
        if "hugepages" in s.before
    ]
    assert [u.text for u in undone] == ["vm.nr_hugepages = 7\n"] * counted


@each_case
def test_the_survey_names_version_boot_and_user(case):
    driver, _, _ = planned(case)
    shell = {"boot", "user"} if driver.session_type is None else set()
    assert {"version", *shell} <= set(driver.get_survey_commands())


def by_name(case):
    """Its options name interfaces of the kernel: not VPP's own, no PCI addresses, no command line's."""
    of_vpp = case.driver == "vpp" and not make_driver("vpp", case.options).options.starts_vpp
    return not of_vpp and case.name != "snabb-lwaftr-pci" and case.driver != "network-cli"


@pytest.mark.parametrize("case", [c for c in SINGLE if by_name(c)], ids=lambda c: c.name)
@pytest.mark.parametrize("side", ["left", "right"])
def test_the_interface_that_carries_the_connection_is_refused(case, side):
    driver, facts, _ = planned(case)
    name = getattr(driver.options, side)
    ports = {name: Interface(getattr(case.intent.links, side).dut_mac), **facts.interfaces}
    managed = replace(facts, interfaces=ports, management_interfaces=frozenset({name}))
    with expect_error("interface-protected"):
        driver.plan(case.intent, managed)


@pytest.mark.parametrize("address", ["0000:03:00.1", "03:00.1"])
def test_neither_is_its_pci_device_given_to_snabb(address):
    driver = make_driver("snabb-lwaftr", {"left": "03:00.0", "right": address})
    intent = next(c for c in CASES if c.name == "snabb-lwaftr").intent
    facts = replace(
        driver.make_example_facts(intent),
        management_interfaces=frozenset({"eno1"}),
        sections={"pci": "eno1 0000:03:00.1\neno2 0000:03:00.0\nlo \n"},
    )
    with expect_error("interface-protected"):
        driver.plan(intent, facts)
    driver.plan(intent, replace(facts, management_interfaces=frozenset({"lo"})))


@pytest.mark.parametrize(
    ("up", "addresses", "says"),
    [
        (True, "", "eno2, which is up: "),
        (
            False,
            " 192.0.2.1/24 2001:db8::1/64",
            r"eno2, which has 192.0.2.1/24 and 2001:db8::1/64: ",
        ),
        (True, " 192.0.2.1/24", "eno2, which has 192.0.2.1/24: "),
        (False, "", ""),
    ],
)
def test_nor_one_whose_settings_the_kernel_would_forget(up, addresses, says):
    driver = make_driver("snabb-lwaftr", {"left": "03:00.0", "right": "03:00.1"})
    intent = next(c for c in CASES if c.name == "snabb-lwaftr").intent
    facts = replace(
        driver.make_example_facts(intent),
        interfaces={"eno2": Interface("02:00:00:00:00:01", is_up=up)},
        sections={"pci": f"eno2 0000:03:00.0{addresses}\neno3 0000:04:00.0 192.0.2.9/24\n"},
    )
    if not says:
        driver.plan(intent, facts)
        return
    with expect_error("interface-protected") as wrong:
        driver.plan(intent, facts)
    assert "ip addr flush dev eno2; ip link set dev eno2 down" in wrong.value.hint


@each_case
def test_no_secret_and_no_path_of_this_machine_is_sent(case):
    _, _, plan = planned(case)
    for step in (*plan.steps, *plan.flush):
        for text in (step.command, step.text, step.undo, step.before):
            assert not re.search(r"/(?:home|root|work|srv|tmp)/|[Pp]assword", text), text


@each_case
def test_every_command_ends_by_itself(case):
    _, _, plan = planned(case)
    for step in (*plan.steps, *plan.flush):
        assert 0 < step.deadline_s <= 3600
        assert not re.search(r"\b(?:vi|less|more|top|watch|tail -f)\b", step.command), step.command


@each_case
def test_what_is_flushed_is_seen_to_be_empty(case):
    _, _, plan = planned(case)
    assert all(step.check or step.reboots for step in plan.flush)


@each_case
def test_stateful_devices_are_flushed_counted_and_told_a_timeout(case):
    driver, _, plan = planned(case)
    if case.intent.technology not in ("nat44", "nat64", "nat66"):
        return
    assert plan.flush
    assert getattr(driver.options, "timeout_s", 0) > 0
    if (case.driver, case.intent.technology) != ("vpp", "nat64"):  # only by listing all
        assert driver.get_session_reading(case.intent) is not None


# ---------------------------------------------------------- the undo record


def entry(**changes):
    given = {"number": 1, "why": "x", "command": "true", "before": "echo 5", "old": "5"}
    return UndoEntry(**{**given, **changes})


@pytest.mark.parametrize(
    ("old", "now", "different"),
    [
        ("5", "5", False),
        ("5", "6", True),
        ("", "", False),
        ("", "something", True),
        ("5", "", True),
        ("a\nb", "b\na\nc", False),
        ("a\nb", "a", True),
        ("net.x = 1\nnet.gone = 2", "net.x = 1", False),
        ("net.x = 1\nnet.y = 2", "net.x = 1\nnet.y = 3", True),
    ],
)
def test_what_counts_as_put_back(old, now, different):
    assert entry(old=old).is_changed(now) is different


def test_what_vanished_needs_no_undo(tmp_path):

    seen = tmp_path / "seen"
    entries = (
        entry(number=1, command=f"echo one >>{seen}", gone="false"),
        entry(number=2, command="exit 3", gone="true"),
    )
    record = UndoRecord("me", "b", "d", "t", "now", str(tmp_path), entries)
    (tmp_path / "progress").write_text("1\n2\n")
    done = run_shell(build_undo_script(record), check=False)
    assert (done.returncode, done.stdout) == (0, ""), done
    assert seen.read_text() == "one\n"
    assert (tmp_path / "undone").read_text().split() == ["2", "1", "all"]
    look = run_shell(entries[1].state_command, check=False)
    assert look.stdout == "5\n"


@pytest.mark.parametrize("old", ["it's", "$(touch /nowhere/x)", "`id`", "a\nb", "-n", 'x"y', ""])
def test_what_a_device_said_is_only_ever_a_word(old, tmp_path):

    from v6t.drivers.duts.plan import Step

    out = tmp_path / "out"
    step = Step("true", "x", undo=f"printf %s {{old}} >{out}", read="false")
    record = UndoRecord(
        "o'wner\n`id`", "b", "d", "t", "n", str(tmp_path), (make_undo_entry(1, step, old),)
    )
    (tmp_path / "progress").write_text("1\n")
    done = run_shell(build_undo_script(record), check=False)
    assert done.returncode == 0, done
    assert out.read_text() == old
