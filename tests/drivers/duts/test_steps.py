"""Steps of plans: recorded states, common steps, and commands that stop processes."""

import os
import shlex
import subprocess
from dataclasses import replace

import pytest
from v6t.drivers.duts import steps
from v6t.drivers.duts.os.linux import expect_settings, make_forwarding_step
from v6t.drivers.duts.plan import IfExists, Step, expect_text
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.duts.session import plan_steps
from v6t.drivers.duts.session.plan_steps import StepComparison, StepState, format_comparison

from . import intents
from .remote_site import wait_until
from .support import make_plan, mark_lab_test, needs_nft, run_shell


def run(line, text=""):
    return run_shell(line, text, check=False).stdout


def test_foreign_state_is_read_before_a_change_without_undo():
    assert Step("set", "x", read="look", existing=IfExists.REFUSE).record_command == "look"


SETTINGS = expect_settings({"net.a": 1, "net.b": 2, "net.c": 3})


@pytest.mark.parametrize(("expected", "output", "difference"), [
    (expect_text(7), "7\n", None), (expect_text(7), "8\n", ("'8'", "7")), (expect_text(7), "", ("nothing", "7")),
    (SETTINGS, "net.a = 1\nnet.b = 0\n", ("net.b 0, net.c absent", "net.b 2, net.c 3")),
])  # fmt: skip
def test_difference_shows_found_and_expected_value(expected, output, difference):
    assert expected.describe_difference(output) == difference


@mark_lab_test()
def test_forwarding_undo_restores_dependent_setting():
    step = make_forwarding_step(["lo"])
    off = "net.ipv4.conf.all.forwarding=0 net.ipv4.conf.all.accept_redirects=0"
    change = f"sysctl -q -w {off}; old=$({step.read}); {step.command}"
    restore = f'printf "%s\\n" "$old" | {step.undo}; [ "$({step.read})" = "$old" ]'
    run_shell(f"{change}\n{restore}", sh=("unshare", "-n", "sh"))


def test_connection_tracking_module_is_loaded_and_unloaded(tmp_path):
    """Settings of an absent module cannot be recorded, and vanish with the module."""
    intent = intents.with_requirements(intents.make_nat44(), sessions=1000)
    plan = make_plan("nftables", intent, ssh={"host": "dut.example.net"})
    commands = [step.command for step in plan.steps]
    (number,) = [n for n, c in enumerate(commands) if "modprobe nf_conntrack" in c]
    assert "nft -c -f" in "".join(commands[number:])
    (size,) = [step for step in plan.steps if "hashsize" in step.command]
    module = "/sys/module/nf_conntrack"
    assert not run_shell(size.read.replace(module, str(tmp_path))).stdout
    undo = plan_steps.make_undo_entry(1, size, "").command.replace(module, f"{tmp_path}/no")
    assert not run_shell(undo).stderr

    (tmp_path / "nf_conntrack/holders/nf_nat").mkdir(parents=True)
    (tmp_path / "nf_nat/holders/nft_chain_nat").mkdir(parents=True)
    undo = plan.steps[number].undo.replace("/sys/module", str(tmp_path))
    unloaded = run(f"modprobe() {{ echo $2; }}; {undo}").split()
    assert unloaded == ["nft_chain_nat", "nf_nat", "nf_conntrack"]


def test_comparison_lists_differing_or_all_steps():
    rows = [
        StepComparison(1, "mtu", StepState.PRESENT),
        StepComparison(2, "queue", StepState.PENDING, "'8'", "7"),
        StepComparison(3, "reload", StepState.UNKNOWN),
    ]
    different = ["2. queue: to change", "    found '8'", "    wanted 7"]
    assert format_comparison(rows, with_equal=False) == different
    lines = ["1. mtu: present", *different, "3. reload: has no read-back"]
    assert format_comparison(rows, with_equal=True) == lines


def test_config_file_read_back_compares_content(tmp_path):
    step = steps.make_config_file_step(f"{tmp_path}/f", "a\nb\n", "x")
    assert run(step.read) == ""
    run(step.command, step.text)
    assert step.check.find_problem(run(step.check.command)) is None
    (tmp_path / "f").write_text("")
    assert run(step.read)
    assert step.check.find_problem(run(step.check.command)) is not None
    run(step.undo)
    assert run(step.read) == ""


@pytest.mark.parametrize(("command", "runs"), [("sleep 60", True), ("no-such-program", False)])
def test_daemon_read_back_is_empty_unless_running(command, runs, tmp_path):
    pid = f"{tmp_path}/pid"
    probe = f"[ ! -s {pid} ] || echo ready"
    step = steps.make_daemon_step(
        steps.make_background_command(pid, command), pid, "sleep", "x", probe=probe
    )
    step = replace(step, expected=expect_text("sleep\nready"))
    assert run(step.read) == ""
    run(step.command)
    assert (step.check.find_problem(run(step.check.command)) is None) is runs
    run(f"({step.undo})")
    assert run(step.read) == ""


def test_ended_daemon_shows_end_of_log(tmp_path):
    (tmp_path / "pid").write_text("999999999\n")
    (tmp_path / "log").write_text("begins\nno space left\n")
    step = steps.make_daemon_step("x", f"{tmp_path}/pid", "named", "x", log=f"{tmp_path}/log")
    assert "no space left" in run(step.check.command)


@mark_lab_test(needs_nft)
def test_live_change_of_nat66_is_added_changed_and_removed_by_nft():
    driver, intent = make_driver("nftables66", {}), intents.make_intent("nat66")
    facts = driver.make_example_facts(intent)
    change = driver.find_live_change(intent, facts)
    plan = driver.plan(intent, facts)
    (load,) = [s for s in plan.steps if s.command.startswith("nft -c")]
    text = next(s.text for s in plan.steps if "v6t.nft" in s.command and s.text)
    actions = ("add", "change", "remove")
    script = ["nft -f -", load.read]
    script += [f"{change.get_command(action)}; {change.show_command}" for action in actions]
    script += [load.read]
    output = run(f"unshare -n sh -c {shlex.quote('; echo @@; '.join(script))}", text)
    _, loaded, *listings, after = output.split("@@\n")
    for action, listing in zip(actions, listings, strict=True):
        assert change.find_problem(action, listing) is None
    assert load.check.find_problem(loaded) is None
    assert load.check.find_problem(after) is None


def stop(pid_file, name, before=""):
    """Start the command that stops a process; the caller must reap that process."""
    return subprocess.Popen(
        ["sh", "-c", before + steps.make_process_stop_command(str(pid_file), name)]
    )


@pytest.fixture
def file(tmp_path):
    return tmp_path / "pid"


@pytest.mark.parametrize(("name", "status"), [
    ("sleep", -15), ("vpp_main", None)], ids=["expected name", "other name"])  # fmt: skip
def test_stop_ends_only_process_with_expected_name(file, name, status):
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        file.write_text(f"{sleeper.pid}\n")
        stopping = stop(file, name)
        if status is not None:
            assert sleeper.wait(20) == status
        assert stopping.wait(20) == 0
        assert sleeper.poll() == status
        sleeper.kill()
    assert not file.exists()


@pytest.mark.parametrize("text", [None, "", "999999999\n"])
def test_stop_without_process_does_nothing(text, file):
    if text is not None:
        file.write_text(text)
    assert stop(file, "sleep").wait(20) == 0
    assert not file.exists()


@pytest.mark.parametrize("leader_has_ended", [False, True])
def test_stop_ends_whole_process_group(leader_has_ended, file):
    """A group whose leader has another name keeps running."""
    file.write_text("")
    run_shell(steps.make_background_command(str(file), 'sh -c "sleep 61 & sleep 62; true"'))
    wait_until(lambda: file.read_text().strip(), "the process ID")
    leader = int(file.read_text())
    wait_until(lambda: len(list_group(leader)) == 3, "the processes of the group")
    if leader_has_ended:
        os.kill(leader, 9)
    run_shell(steps.make_group_stop_command(str(file), "nobody"))
    assert "sleep 61" in list_group(leader)
    file.write_text(f"{leader}\n")
    run_shell(steps.make_group_stop_command(str(file), "sleep"))
    assert list_group(leader) == []


def list_group(leader):
    """List the commands of a process group, without zombies."""
    rows = [line.split(maxsplit=2) for line in run("ps -eo pgid=,stat=,args=").splitlines()]
    return [row[2] for row in rows if row[0] == str(leader) and row[1][0] != "Z"]


def test_stop_of_unresponsive_process_fails(file):
    with subprocess.Popen(["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]) as process:
        file.write_text(f"{process.pid}\n")
        status = stop(file, "sh", "sleep() { :; }; ").wait(60)
        process.kill()
    assert status != 0
    assert file.read_text() == f"{process.pid}\n", "the next attempt needs the process ID"


def test_background_command_needs_writable_pid_file(tmp_path):
    """On a full disk, the file is created but stays empty."""
    ran = tmp_path / "ran"
    for pid_file, runs in (("/dev/full", False), (tmp_path / "pid", True)):
        run_shell(steps.make_background_command(str(pid_file), f"touch {ran}") + " wait")
        assert ran.exists() is runs
