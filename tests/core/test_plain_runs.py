"""``v6t run --plugin T --dut D`` with nothing else, carried out: every driver as everything it can be.

`make plain` asks for it: a good half hour. What this machine has not is skipped, in the driver's own words.
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
from v6t.drivers.lab.privilege import check_availability
from v6t.tests.core.support import v6t
from v6t.tests.drivers import matrix

POSSIBLE, WHY = check_availability()
ASKED = os.environ.get("V6T_PLAIN") == "1"
pytestmark = [
    pytest.mark.lab,
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not ASKED, reason="`make plain` asks for it (V6T_PLAIN=1)"),
    pytest.mark.skipif(not POSSIBLE, reason=WHY),
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
"""Of the kernel's, that are looked for, or loaded, only where the device stands."""
PAIRS = [
    (technology, driver)
    for driver in list_driver_names()
    for technology in list_technologies(driver)
    if load_driver_type(driver).configures_device
]
VARIANTS = ("464xlat", "ds-lite", "lw4o6", "map-e", "map-t")


@pytest.fixture
def programs(monkeypatch):
    """Add the programs that environment variables name to PATH, as for a plain command."""
    named = (matrix.find_program(device) for device in matrix.NAMED)
    places = dict.fromkeys(os.path.dirname(program) for program in named if program)
    monkeypatch.setenv("PATH", os.pathsep.join([*places, os.environ["PATH"]]))


def loadable(module):
    """Check whether a kernel module is present or can be loaded."""
    if os.path.isdir(f"/sys/module/{module}"):
        return True
    modprobe = shutil.which("modprobe", path="/usr/sbin:/sbin")
    return (
        bool(modprobe)
        and not subprocess.run([modprobe, "-n", "-q", module], check=False).returncode
    )


def lacking(setup):
    """Describe in the driver's words what a device lacks here; empty if nothing."""
    if setup.driver.name in NO_LAB:
        return NO_LAB[setup.driver.name]
    module = MODULES.get(setup.driver.name, "")
    if module and not loadable(module):
        return f"this machine's kernel has no module {module}"
    try:
        make_lab_device(setup.driver, setup.device_view, setup.intent).describe_parts()
    except (DutError, EnvironmentLacking) as exc:
        return exc.message
    return ""


def carried_out(words, path, benchmark="throughput"):
    """Execute a run; check that it finds a rate, mismatches no frame and leaves nothing behind."""
    mode = () if benchmark == "resolution" else ("--mode", "bidirectional")
    done = v6t("run", *words, "--measure", benchmark, *mode, *BRIEF, "--output", path)
    assert done.status == 0, done.err[-4000:] + done.out
    results = json.loads((path / "results.json").read_text())
    assert results["status"] == "complete"
    found = [r for r in results["results"] if r["benchmark"] == benchmark]
    assert found
    assert "is undone" in done.err
    if benchmark == "resolution":
        return
    assert all(point["median"] > 0 for point in found), found
    trials = Journal(path / "journal.jsonl").entries.values()
    counted = [c for t in trials for c in t.directions.values()]
    assert sum(c.checked for c in counted) > 0
    assert all(c.checked == c.matched for c in counted)


@pytest.mark.parametrize(("technology", "driver"), PAIRS)
def test_plain_command_measures_every_pair(technology, driver, programs, tmp_path):
    setup = resolve_setup(plugin=technology, dut=driver)
    if why := lacking(setup):
        pytest.skip(why)
    words = ["--plugin", technology, "--dut", driver]
    carried_out(words, tmp_path / "run", "resolution" if technology == "dns64" else "throughput")


@pytest.mark.parametrize("variant", VARIANTS)
def test_plain_command_measures_every_dual_variant(variant, programs, tmp_path):
    carried_out(["--plugin", "ipv4aas", "--variant", variant], tmp_path / "run")
