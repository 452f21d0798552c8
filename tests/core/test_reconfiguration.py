"""Reconfiguration: objects are added, changed and removed under traffic."""

import shutil
from dataclasses import replace

import pytest
from v6t.core.config.resolve import resolve, resolve_setup
from v6t.core.config.run_setup import make_setup
from v6t.core.runs.dut import format_plan
from v6t.core.runs.events import Listener
from v6t.core.runs.runner import resume
from v6t.drivers.duts.kinds.addresses import find_spare_network
from v6t.drivers.duts.plan import ACTIONS, DeviceChange
from v6t.intent.families import Nat44Config
from v6t.tests.core.support import measure_run, read_csv, write_report
from v6t.tests.expect import expect_error
from v6t.tests.needs import needs_lab

DEVICES = [("ipv4-router", "linux-router"), ("ipv6-router", "linux-router"), ("nat44", "nftables"),
           ("nat44", "iptables"), ("nat44", "vpp"), ("mape-br", "vpp"),
           ("lwaftr", "vpp")]  # fmt: skip


def resolve_run(plugin="siit", dut=None, tester="sim", options=None, **reconfiguration):
    return resolve(
        plugin=plugin, tester=tester, dut=dut, benchmarks=("reconfiguration",),
        tester_options=options or {}, modes=("bidirectional",),
        procedure={"reconfiguration": {"rate_fps": 5000, **reconfiguration}},
    )  # fmt: skip


@pytest.mark.parametrize(("plugin", "dut"), DEVICES)
def test_plan_contains_live_change_and_its_removal(plugin, dut):
    """What is added is in the undo record from the beginning, and is none of the run's own."""
    setup = make_setup(resolve_run(plugin, dut, "embedded"))
    driver, plan = setup.driver, setup.example_plan
    assert isinstance(plan.live_change, DeviceChange)
    assert plan.steps[-1].undo == plan.live_change.remove_command
    text = format_plan(driver, plan)
    for action in ACTIONS:
        assert plan.live_change.get_command(action) in text
    bare = resolve_setup(plugin=plugin, dut=dut).example_plan
    assert bare.live_change is None
    if plugin != "nat44":  # room for the run's connections
        assert replace(plan, live_change=None, steps=plan.steps[:-1]) == bare


@pytest.mark.parametrize(("plugin", "dut", "code"), [
    ("siit", "tayga", "unsupported-operation"), ("ipv4aas", "chain", "unsupported-operation"),
    ("siit", "reference", "missing-driver"),
])  # fmt: skip
def test_devices_without_live_change_are_rejected(plugin, dut, code):
    with expect_error(code):
        resolve_run(plugin, dut, "embedded")


def test_spare_networks_do_not_overlap_test_networks():
    intent = resolve_setup(plugin="mape-br").technology.make_dut_intent()
    documentation = ("203.0.113.0/24", "198.51.100.0/24", "192.0.2.0/24")
    assert str(find_spare_network(intent, 4)) in documentation
    pool = Nat44Config(inside4=["203.0.113.0/24", "192.0.2.0/25"], pool4=["198.51.100.7"])
    assert str(find_spare_network(replace(intent, configuration=pool), 4)) == "100.64.113.0/24"
    left = replace(intent.left, addresses=["2001:db8:fffe::1/64"])
    assert str(find_spare_network(replace(intent, left=left), 6)) == "2001:db8:fffd::/48"
    full = Nat44Config(inside4=[*documentation, "100.64.0.0/10", "192.88.99.0/24"], pool4=[])
    with expect_error("address-conflict"):
        find_spare_network(replace(intent, configuration=full), 4)


def test_change_checks_its_output():
    words = {"added_words": "via one", "changed_words": "via two"}
    change = DeviceChange("a route", "a", "c", "r", "l", **words)
    assert change.find_problem("add", "x  via   one y") is None
    assert change.find_problem("change", "x via two") is None
    assert "'via one'" in change.find_problem("add", "")
    assert "'via two'" in change.find_problem("change", "x via one")
    assert "still there" in change.find_problem("remove", "x via one")
    assert change.find_problem("remove", " \n") is None


def test_a_change_lies_within_the_stream():
    with expect_error("trial-too-short", path=["procedure"]):
        resolve_run(at_s=3, duration_s=2)


def measure(path, run):
    (record,) = measure_run(run, path).records
    assert record.changes.keys() == {"nothing", "add", "change", "remove"}
    return record.to_json()["changes"]


def test_the_blocked_time_of_a_simulated_device(tmp_path):
    """It forwards nothing for 40 ms when something is changed, and everything otherwise."""
    out = tmp_path / "out"
    changes = measure(out, resolve_run(options={"reconfigure_s": "0.04"}, repetitions=3))
    for change, directions in changes.items():
        blocked_s = 0.0 if change == "nothing" else 0.04
        for result in directions.values():
            assert result["values"] == pytest.approx([blocked_s] * 3)
            assert result["lost"] == [round(5000 * blocked_s)] * 3
    assert len(read_csv(out / "reconfiguration.csv")) == 3 * 4 * 2
    assert "Reconfiguration under traffic" in write_report(out)
    assert resume(out, Listener()).status == "complete"


@pytest.mark.lab
@needs_lab
@pytest.mark.parametrize(("plugin", "dut", "program"), [
    ("ipv4-router", "linux-router", "ip"), ("nat44", "nftables", "nft"),
    ("nat44", "iptables", "iptables"),
])  # fmt: skip
def test_devices_of_the_kernel_are_changed_under_traffic(plugin, dut, program, tmp_path):
    """Each change is read back by the driver; the device is restored, else the run fails."""
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")
    procedure = {
        "reconfiguration": {"rate_fps": 500, "duration_s": 1.0, "at_s": 0.4, "repetitions": 1},
        "selftest": "cached", "sending_time_tolerance": 5, "pause_s": 0, "invalid_retries": 8,
        "connections": {"count": 50, "rate_cps": 200},
    }  # fmt: skip
    run = resolve(plugin=plugin, tester="embedded", dut=dut, benchmarks=("reconfiguration",),
                  modes=("forward",), procedure=procedure)  # fmt: skip
    changes = measure(tmp_path / "out", run)
    assert all(directions["forward"]["frames"] == [500] for directions in changes.values())
    lines = (tmp_path / "out" / "journal.jsonl").read_text().splitlines()
    assert sum('"hook":"reconfiguration-' in line for line in lines) >= 3
