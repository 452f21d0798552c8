"""Plans of all drivers: recorded plans, properties of all plans, and options."""

import difflib
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from v6t.drivers.duts.facts import Interface
from v6t.drivers.duts.kinds.linux.base import LinuxDriver
from v6t.drivers.duts.management_path import ManagementPath
from v6t.drivers.duts.plan import IfExists
from v6t.drivers.duts.registry import list_driver_names, load_driver_type, make_driver
from v6t.drivers.duts.session.plan_steps import format_plan, make_undo_entry
from v6t.drivers.duts.session.undo_store import UndoRecord, build_undo_script
from v6t.tests.expect import expect_error

from . import intents
from .cases import CASE_BY_NAME, CASES, plan_case, without_base_steps
from .support import make_plan, make_record, run_shell

GOLDEN = Path(__file__).parent / "golden"
DANGEROUS = (
    "flush ruleset", "iptables -F", "addr flush", "killall", "pkill", "rm -rf", "pfctl -F all",
    "nat -F", "conntrack -F", "dhclient", "systemctl",
)  # fmt: skip
FORBIDDEN_TEXT = re.compile(r"/(?:home|root|work|srv|tmp)/|[Pp]assword")
INTERACTIVE = re.compile(r"\b(?:vi|less|more|top|watch|tail -f)\b")
# Commands that load kernel modules, which are not unloaded in a lab.
MODULE = re.compile(r"\b(?:modprobe|insmod) ")
CHANGES = re.compile(r"\b(?:add|del|delete|replace|flush|clear|kill|rm|mv|modprobe|reboot|shutdown|tee)\b|"
                     r"sysctl (?:-\w )*-w|>>?\s*(?!/dev/null|&)[\w/]")  # fmt: skip
# Steps without an undo, because they change an object that another step adds and removes.
OWN_OBJECT = re.compile(
    r"v6t|\$STATE|pfctl -q -e|promisc|dynamic\.map|nat64 |tun646|dslite|configure confirm|\ncommit\n"
)
# Checks that accept empty output: no changeable offload, no session, no file.
ACCEPTS_EMPTY_OUTPUT = ("ethtool -k", "dslite sessions", "dns/empty")
NAMES = [name for name in list_driver_names() if load_driver_type(name).configures_device]
# Name, driver and plan of each case.
PLANS = [(name, *plan_case(name)[::2]) for name in CASE_BY_NAME]
# Parts of a chain are tested as separate cases.
DEVICE_PLANS = [row for row in PLANS if row[1].name != "chain"]

# Cases recorded as a difference from another case.
VARIANTS = {
    "jool-nat64-4.1.15": "jool-nat64-4.1.9", "linux-router-tuned": "linux-router-ipv4",
    "nftables-nat44-gateway": "nftables-nat44", "snabb-lwaftr-pci": "snabb-lwaftr",
    "tayga-siit-workers": "tayga-siit", "vpp-mapt-24.02": "vpp-mapt-26.06",
    "vpp-nat44-24.02": "vpp-nat44-26.06",
}  # fmt: skip


def format_own_steps(name):
    """Format a plan without base steps and without the steps' reasons."""
    driver, _, plan = plan_case(name)
    short = without_base_steps(driver, CASE_BY_NAME[name].intent, plan)
    steps = tuple(replace(step, why="") for step in short.steps)
    text = format_plan(driver, replace(plan, steps=steps)) + "\n"
    if left_out := len(plan.steps) - len(steps):
        text = f"# after {left_out} steps of every Linux device\n{text}"
    return re.sub(r"^(# \d+\.) $", r"\1", text, flags=re.MULTILINE)


@pytest.mark.parametrize("name", CASE_BY_NAME)
def test_plan_equals_recorded_plan(name):
    """Compare commands and checks; ``V6T_GOLDEN=write pytest`` records the plans again."""
    text = format_own_steps(name)
    if name in VARIANTS:
        plans = (format_own_steps(n).splitlines(keepends=True) for n in (VARIANTS[name], name))
        changed = [*difflib.unified_diff(*plans, n=0)][2:]
        text = "".join(line for line in changed if not re.match(r"@@|[-+]# \d+\.\n", line))
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("V6T_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


def test_every_driver_and_every_recorded_plan_has_a_case():
    assert {c.driver for c in CASES} == set(NAMES)
    assert {p.stem for p in GOLDEN.glob("*.txt")} == set(CASE_BY_NAME)


def test_commands_touch_own_objects_and_have_deadlines():
    for name, _, plan in PLANS:
        for step in (*plan.steps, *plan.flush):
            for text in (step.command, step.undo, step.text, step.record_command):
                assert not any(word in text for word in DANGEROUS), (name, text)
                assert not FORBIDDEN_TEXT.search(text), (name, text)
            assert 0 < step.deadline_s <= 3600, (name, step.command)
            assert not INTERACTIVE.search(step.command), (name, step.command)


def test_every_plan_has_reasons_checks_and_undos():
    for name, _, plan in PLANS:
        for step in plan.steps:
            assert step.why, (name, step.command)
            assert not step.why.endswith("."), (name, step.command)
            places = set(re.findall(r"(?<!\$)\{([a-z]\w*)\}", step.undo + step.undo_text))
            assert {p for p in places if not p.startswith("v6t")} <= {"old", "words"}, name
        assert any(step.undo for step in plan.steps), name
        assert any(step.check for step in plan.steps), name
    for name, _, plan in DEVICE_PLANS:
        for step in plan.steps:
            where, is_module = (name, step.command), MODULE.search(step.command)
            if not step.undo:
                assert is_module or OWN_OBJECT.search(step.command + step.text), where
            if "{old}" in step.undo + step.undo_text or "{words}" in step.undo:
                assert step.record_command, where
                assert step.existing is IfExists.RESTORE, where
            if step.existing in (IfExists.KEEP, IfExists.REFUSE):
                assert step.read, where
                assert is_module or step.undo, where
            if step.existing is IfExists.NONE:
                assert not step.record_command, where


def test_every_command_is_valid_shell_syntax():
    lines = set()
    for _, _, plan in PLANS:
        for step in (*plan.steps, *plan.flush):
            lines |= {step.command, step.undo.replace("{words}", "a b").replace("{old}", "'a'")}
            lines |= {step.record_command, step.check.command if step.check else ""}
    functions = "\n".join(f"f{n}() {{\n{line}\n}}" for n, line in enumerate(filter(None, lines)))
    run_shell("sh -n", functions)


def test_undo_script_does_nothing_before_the_first_step(tmp_path):
    steps = {step.undo + step.undo_text: step for _, _, plan in PLANS for step in plan.steps}
    entries = (make_undo_entry(n, s, "it's\nold") for n, s in enumerate(steps.values(), 1))
    record = make_record(tmp_path, *entries)
    assert UndoRecord.parse_json(record.to_json()) == record
    assert run_shell("cat >script; sh script", build_undo_script(record), cwd=tmp_path).stdout == ""


def test_read_commands_change_nothing():
    for name, driver, plan in DEVICE_PLANS:
        intent = CASE_BY_NAME[name].intent
        session_reading = driver.get_session_reading(intent)
        readings = [*driver.get_telemetry_readings(intent).values(), session_reading]
        commands = [
            *(check.command for check in plan.all_checks),
            *(word for step in plan.steps for word in (step.record_command, step.gone_test)),
            *(step.check.command for step in plan.flush if step.check),
            *driver.get_survey_commands().values(),
            *(reading.command for reading in readings if reading),
        ]
        for line in commands:
            bare = re.sub(r"'[^']*'|2>&1|2>/dev/null|>/dev/null", "", line)
            assert not CHANGES.search(bare), (name, line)


def test_empty_output_satisfies_no_check():
    for name, _, plan in PLANS:
        checks = [*plan.all_checks, *(step.check for step in plan.flush if step.check)]
        satisfied = [check.command for check in checks if check.find_problem("") is None]
        wrong = [c for c in satisfied if not any(words in c for words in ACCEPTS_EMPTY_OUTPUT)]
        assert wrong == [], name


def test_survey_reads_version_boot_user_and_forward_chain():
    for name, driver, _ in DEVICE_PLANS:
        shell = {"boot", "user"} if driver.session_type is None else set()
        assert {"version", *shell} <= set(driver.get_survey_commands()), name
    commands = plan_case("nftables66-nat66")[0].get_survey_commands()
    assert commands["forward"] == "nft list chain ip6 filter FORWARD"


def test_flush_is_checked_and_stateful_devices_have_one():
    for name, driver, plan in DEVICE_PLANS:
        assert all(step.check or step.reboots for step in plan.flush), name
        technology = CASE_BY_NAME[name].intent.technology
        if technology in ("nat44", "nat64", "nat66"):
            assert plan.flush, name
            assert getattr(driver.options, "timeout_s", 0) > 0, name
            if (driver.name, technology) != ("vpp", "nat64"):  # requires listing all
                assert driver.get_session_reading(CASE_BY_NAME[name].intent) is not None, name


def test_telemetry_accepts_empty_and_invalid_output():
    for name, driver, _ in PLANS:
        intent = CASE_BY_NAME[name].intent
        readings = [*driver.get_telemetry_readings(intent).values()]
        readings += filter(None, [driver.get_session_reading(intent)])
        for reading in readings:
            assert reading.command, name
            empty = ({}, {"dropped": 0.0, "squeezed": 0.0}, {"sessions": 0.0})
            assert dict(reading.parse("")) in empty, (name, reading.command)
            assert isinstance(dict(reading.parse("no: such = thing\n1 2\n")), dict)


def test_plan_without_root_or_for_management_interface_is_rejected():
    """The options of a VPP that is already running, and of some others, name no kernel interfaces."""
    for name, driver, _ in PLANS:
        intent, facts = CASE_BY_NAME[name].intent, plan_case(name)[1]
        if isinstance(driver, LinuxDriver):
            with expect_error("not-root"):
                driver.plan(intent, replace(facts, is_root=False))
        is_running_vpp = driver.name == "vpp" and not driver.options.starts_vpp
        if is_running_vpp or name == "snabb-lwaftr-pci" or driver.name in ("network-cli", "chain"):
            continue
        for side in ("left", "right"):
            port, mac = getattr(driver.options, side), getattr(intent.links, side).dut_mac
            interfaces = {port: Interface(mac), **facts.interfaces}
            changes = {"interfaces": interfaces, "management_interfaces": frozenset({port})}
            with expect_error("interface-protected"):
                driver.plan(intent, replace(facts, **changes))


# All drivers inherit these options.
@pytest.mark.parametrize(("option", "values"), [
    ("left", ("a;reboot", "", "-batch", "../eth0", "a b", "a\nb", "$(x)")),
    ("state_dir", ("/tmp/$(reboot)", "/a/../b", "run/v6t", "/a b", "/a;b")),
    ("version", ("9\nreboot", "9; rm", "$(id)", "-x y")),
])  # fmt: skip
def test_shell_syntax_in_options_is_rejected(option, values):
    for value in values:
        with expect_error("wrong-form", path=[option]):
            make_driver("nftables", {option: value})
    for name in NAMES:
        with expect_error("wrong-form", path=[option]):
            make_driver(name, {option: values[0]})


def test_disk_space_check_counts_existing_cache(tmp_path):
    """The device may already be configured, for example at a later flush."""
    options = {"state_dir": str(tmp_path / "state"), "cache_mib": "200"}
    driver = make_driver("knot-resolver", options)
    intent = intents.make_intent("dns64")

    def plan(free_kib):
        df = f"df() {{ echo Filesystem; echo d 1 1 {free_kib} 1% /run; }}"
        room = run_shell(f"{df}; {driver.get_survey_commands()['room']}").stdout
        make_plan("knot-resolver", intent, {"sections": {"room": room}}, **options)

    plan(200 << 10)
    with expect_error("resource-missing", mentions="199"):
        plan((200 << 10) - 4)
    (tmp_path / "state" / "dns").mkdir(parents=True)
    (tmp_path / "state" / "dns" / "data.mdb").write_bytes(bytes(1 << 20))
    plan(199 << 10)
    with expect_error("resource-missing"):
        plan(190 << 10)


def test_neighbor_table_is_enlarged():
    many = {f"198.18.{n >> 8}.{n & 255}": "02:00:00:00:01:02" for n in range(2, 3000)}
    intent = replace(intents.ROUTER4, left=replace(intents.ROUTER4.left, neighbors=many))
    (room,) = [s for s in make_plan("linux-router", intent).steps if "gc_thresh3" in s.command]
    assert int(room.command.split("ipv4.neigh.default.gc_thresh3=")[1].split()[0]) >= 2998


@pytest.mark.parametrize("name", ["linux-router", "nftables", "vpp", "openbsd-pf"])
def test_resolved_neighbours_mode_configures_no_neighbours(name):
    (case, *_) = [c for c in CASES if c.driver == name and "neighbours" not in c.options]

    def commands(neighbours):
        plan = make_plan(name, case.intent, **case.options, neighbours=neighbours)
        return [step.command + step.text for step in plan.steps]

    static, resolved = commands("static"), commands("resolved")
    entries = [c for c in static if c not in resolved]
    assert [c for c in static if c in resolved] == resolved
    hosts = {str(a) for side in (case.intent.left, case.intent.right) for a in side.neighbors}
    assert entries and all(any(host in c for host in hosts) for c in entries)


# Drivers that require no program.
EXEMPT = ("chain", "command", "ip6-tunnel", "linux-router", "nat46", "network-cli", "openbsd-pf")
SURVEY = {"system": "Linux 6.1", "links": "[]", "user": "0"}
SOURCE = re.compile(
    r"(?:apt-get install [a-z0-9 -]+|see https://[A-Za-z0-9./-]+(?:; Debian has it from 13 on)?)"
    r"(; dut\.options\.program sets its path.*)?"
)


def test_missing_program_error_names_its_source():
    """The error also names the option with the program's path if the driver has one."""
    for name in set(NAMES) - {*EXEMPT, "jool"}:
        driver = make_driver(name, {})
        programs = tuple(driver.programs)[: 1 if name == "vpp" else None]  # without its client
        rows = [(driver, program) for program in programs]
        if default := getattr(driver.options, "program", None):
            rows.append((make_driver(name, {"program": f"/nowhere/{default}"}), ""))
        for configured, missing in rows:
            present = {"ip", "sysctl", *programs} - {missing}
            with expect_error("missing-program") as info:
                configured.parse_facts({**SURVEY, "programs": "\n".join(present)})
            assert bool(SOURCE.fullmatch(info.value.hint)[1]) is (missing in ("", default)), name


def list_steps(name, ssh):
    case = CASE_BY_NAME[name]
    changes = {"management_path": ManagementPath()}
    return make_plan(case.driver, case.intent, changes, **case.options, ssh=ssh).steps


in_and_outside_lab = pytest.mark.parametrize(("ssh", "stays"), [
    (None, True), ({"lab": "one"}, True), ({"host": "device"}, False)])  # fmt: skip


@pytest.mark.parametrize("name", ["jool-siit", "nat46-siit", "nat46-clat", "ip6-tunnel-b4"])
@in_and_outside_lab
def test_kernel_module_is_unloaded_outside_lab_only(name, ssh, stays):
    (step,) = [step for step in list_steps(name, ssh) if MODULE.search(step.command)]
    assert ("it stays" in step.why) is stays
    undo = make_undo_entry(1, step, "").command
    assert (undo == "") is stays
    if not stays:
        assert re.search("modprobe -r|rmmod", undo)
    assert make_undo_entry(1, step, "/sys/module/there").command == ""


@in_and_outside_lab
def test_huge_pages_are_restored_outside_lab_only(ssh, stays):
    steps = [step for step in list_steps("snabb-lwaftr", ssh) if "hugepages" in step.record_command]
    undone = [make_undo_entry(1, step, "vm.nr_hugepages = 7\n").text for step in steps]
    assert undone == ["vm.nr_hugepages = 7\n"] * (not stays)
