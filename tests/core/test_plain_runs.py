"""Runs of ``v6t run --plugin T --dut D`` without further options, for every pair of technology and driver.

`make plain` runs them in half an hour. Pairs that this machine lacks the programs for are skipped.
"""

import json
import os
import shutil
import subprocess

import pytest
from v6t.base.errors import DutError, EnvironmentLacking
from v6t.core.config.compatibility import list_technologies
from v6t.core.config.resolve import resolve_setup
from v6t.core.runs.journal import Journal
from v6t.drivers.duts.devices import make_lab_device
from v6t.drivers.duts.registry import list_driver_names, load_driver_type
from v6t.tests.core.support import v6t
from v6t.tests.drivers import matrix
from v6t.tests.needs import asked_for, needs_lab

pytestmark = [
    *asked_for("lab", "plain", "V6T_PLAIN", timeout_s=600),
    *(pytest.mark.slow, pytest.mark.alone, needs_lab),
]
BRIEF = (
    *("--reps", "1", "--duration", "0.2", "--resolution", "2000"),
    *("--set-procedure", "connections.count=1000"),
    *("--no-report", "--set-procedure", "selftest=cached"),
    # cores may be few: a delay of the tester is not a finding about the command
    *("--set-procedure", "sending_time_tolerance=1.5", "--set-procedure", "invalid_retries=10"),
)
"""Settings that shorten an ordinary run."""
NO_LAB = {
    "network-cli": "the lab does not contain a device with a vendor command line",
    "openbsd-pf": "the lab is Linux",
    "command": "it does what the user's shell lines say",
}
MODULES = {"jool": "jool", "nat46": "nat46", "ip6-tunnel": "ip6_tunnel"}
"""Kernel modules by driver."""
PAIRS = [
    (technology, driver)
    for driver in list_driver_names()
    for technology in list_technologies(driver)
    if load_driver_type(driver).configures_device
]


@pytest.fixture
def programs(monkeypatch):
    """Add the programs that environment variables name to PATH, as for a plain command."""
    paths = filter(None, (matrix.find_program(device) for device in matrix.NAMED))
    directories = dict.fromkeys(os.path.dirname(path) for path in paths)
    monkeypatch.setenv("PATH", os.pathsep.join([*directories, os.environ["PATH"]]))


def is_loadable(module):
    """Check whether a kernel module is present or can be loaded."""
    if os.path.isdir(f"/sys/module/{module}"):
        return True
    modprobe = shutil.which("modprobe", path="/usr/sbin:/sbin")
    command = [modprobe, "-n", "-q", module]
    return bool(modprobe) and not subprocess.run(command, check=False).returncode


def describe_missing(setup):
    """Describe what a device lacks here; empty if nothing."""
    if setup.driver.name in NO_LAB:
        return NO_LAB[setup.driver.name]
    module = MODULES.get(setup.driver.name, "")
    if module and not is_loadable(module):
        return f"this machine's kernel has no module {module}"
    try:
        make_lab_device(setup.driver, setup.device_view, setup.intent).describe_parts()
    except (DutError, EnvironmentLacking) as exc:
        return exc.message
    return ""


def measure(words, path, benchmark="throughput"):
    """Execute a run; check that it measures a rate without mismatches and is undone."""
    mode = () if benchmark == "resolution" else ("--mode", "bidirectional")
    done = v6t("run", *words, "--measure", benchmark, *mode, *BRIEF, "--output", path)
    assert done.status == 0, done.err[-4000:] + done.out
    results = json.loads((path / "results.json").read_text())
    assert results["status"] == "complete"
    records = [r for r in results["results"] if r["benchmark"] == benchmark]
    assert records
    assert "is undone" in done.err
    if benchmark == "resolution":
        return
    assert all(record["median"] > 0 for record in records), records
    trials = Journal(path / "journal.jsonl").entries.values()
    directions = [direction for trial in trials for direction in trial.directions.values()]
    assert sum(direction.checked for direction in directions) > 0
    assert all(direction.checked == direction.matched for direction in directions)


@pytest.mark.parametrize(("technology", "driver"), PAIRS)
def test_plain_command_measures_every_pair(technology, driver, programs, tmp_path):
    setup = resolve_setup(plugin=technology, dut=driver)
    if missing := describe_missing(setup):
        pytest.skip(missing)
    words = ["--plugin", technology, "--dut", driver]
    measure(words, tmp_path / "run", "resolution" if technology == "dns64" else "throughput")


@pytest.mark.parametrize("variant", ["464xlat", "ds-lite", "lw4o6", "map-e", "map-t"])
def test_plain_command_measures_every_dual_variant(variant, programs, tmp_path):
    measure(["--plugin", "ipv4aas", "--variant", variant], tmp_path / "run")
