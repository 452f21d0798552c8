"""Stopped commands and lost connections: v6t or the device's rollback timer undoes the configuration.

The tests cut the only route to the device at critical moments and read its state at its console.
"""

import json
import signal
import subprocess
from pathlib import Path

import pytest
from v6t.drivers.duts.lab.ssh import LabSshServer
from v6t.drivers.transport.process import NamespaceTransport
from v6t.tests.core.support import start_v6t
from v6t.tests.needs import needs_lab

from . import sshserver, support
from .remote_site import wait_until
from .support import DUMMY, over_ssh, run_shell

pytestmark = over_ssh

# Silence after which the device rolls back [s].
LIMIT_S = 3
WAIT_SCRIPT = "echo here >/run/reached; while [ ! -e /run/go ]; do sleep 0.1; done\n"
PLUGIN = ("--plugin", "ipv4-router")


def make_step(script, undo="", **more):
    return {"command": f"sh /run/{script}", "why": f"/run/{script}", "undo": undo, **more}


@pytest.fixture(scope="module", autouse=True)
def _install_scripts(site):
    # like a test route that covers the operator's network
    site.device.shell("cat >/run/cuts", "ip route add blackhole 10.9.9.0/24\n")
    site.device.shell("cat >/run/waits", WAIT_SCRIPT)


@pytest.fixture
def device(site):
    """Provide the site; roll the device back at the end and check that it is restored."""
    site.before = site.read_state()
    site.device.shell("rm -f /run/reached /run/go")
    yield site
    site.restore_route()
    site.device.shell("touch /run/go")
    if site.device.has_record:
        site.v6t("dut", "rollback", "--testbed", write_testbed(site), *PLUGIN)
    assert site.read_state() == site.before


def write_testbed(site, *steps, limit=LIMIT_S, **more):
    ssh = {"connect_deadline_s": 2.0, "command_deadline_s": 15.0}
    options = {"base": False, "steps": [DUMMY, *steps], "undo_after_s": limit, **more}
    return site.write_testbed("command", ssh=ssh, **options)


def start_commit(site, *steps, limit=LIMIT_S):
    """Start a commit and wait until a step waits; return the testbed file and the process."""
    path = write_testbed(site, *steps, limit=limit)
    process = site.start("dut", "commit", "--testbed", path, *PLUGIN)
    wait_for_mark(site)
    assert site.device.has_interface("v6tdummy")
    return path, process


def wait_for_mark(site):
    wait_until(site.device.get_path("/run/reached").exists, "the step that waits")


def list_ssh_clients(site):
    """Return the command lines with ``ssh`` of the operator's processes."""
    return run_shell(f"pgrep --ns {site.operator.pid} --nslist net -af ssh", check=False).stdout


def test_configuration_that_cuts_session_is_undone_by_timer(device):
    """v6t waits for the device's timer, logs in again and checks the device."""
    step = make_step("cuts", "ip route del blackhole 10.9.9.0/24", deadline_s=2)
    path = write_testbed(device, step)
    assert f"{LIMIT_S} s" in device.v6t("dut", "commit", "--testbed", path, *PLUGIN, status=4)
    assert device.read_state() == device.before


def test_route_lost_during_commit_is_restored(device):
    """The route stays cut; the console shows that the device is restored."""
    path, process = start_commit(device, make_step("waits", deadline_s=5))
    device.cut_route()
    wait_until(lambda: device.device.has_undone, "the timer")
    files = ("guard", "progress", "record.json", "undo.sh", "undone")
    assert [line for line in device.read_state() if line not in files] == device.before
    output = "".join(process.communicate(timeout=90))
    assert process.returncode == 4
    assert "after 3 s" in output
    assert f"`v6t dut rollback --testbed {path}`" in output
    device.restore_route()
    assert "after 3 s of silence" in device.v6t("dut", "status", "--testbed", path, *PLUGIN)


@pytest.mark.parametrize("hangs", [False, True])
def test_resumed_v6t_leaves_device_to_new_owner(hangs, device):
    device.device.shell("cat >/run/late", "touch /run/too-late\n")
    steps = [make_step("waits", deadline_s=60), make_step("late", "rm -f /run/too-late")]
    _, process = start_commit(device, *steps)
    process.send_signal(signal.SIGSTOP)
    if not hangs:
        device.device.shell("touch /run/go")
    wait_until(lambda: device.device.has_undone, "the timer")
    assert "stays so" in device.v6t("dut", "commit", "--testbed", write_testbed(device), *PLUGIN)
    wait_until(lambda: "timer.sh" not in device.device.shell("ps -eo args"), "the timers end")
    state = device.read_state()
    assert "guard" not in state
    device.device.shell("touch /run/go")
    process.send_signal(signal.SIGCONT)
    output = "".join(process.communicate(timeout=90))
    assert process.returncode == 4, output
    reason = "sh /run/waits' failed" if hangs else "this v6t has lost the lock on the device"
    assert reason in output
    assert not device.device.get_path("/run/too-late").exists()
    assert device.device.has_interface("v6tdummy")
    assert device.read_state() == state
    wait_until(lambda: list_ssh_clients(device) == "", "no ssh is left")


def test_first_signal_prints_rollback_and_effect_of_second(device):
    _, process = start_commit(device, make_step("waits"), limit=0)
    process.send_signal(signal.SIGTERM)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (130, "")
    lines = stderr.splitlines()
    assert lines[0].startswith("stopping: restoring 10.8.8.2")
    assert "Ctrl-C" in lines[0]
    assert lines[-1] == "v6t: interrupted"
    assert device.read_state() == device.before


def test_second_signal_prints_cleanup_commands(device):
    path, process = start_commit(device, make_step("waits", "sh /run/waits"), limit=0)
    device.device.shell("rm /run/reached")
    process.send_signal(signal.SIGINT)
    wait_for_mark(device)
    assert list_ssh_clients(device)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    wait_until(lambda: list_ssh_clients(device) == "", "no ssh is left")
    command = f"v6t dut rollback --testbed {path}"
    assert stderr.splitlines()[-1] == f"10.8.8.2 may still be configured: {command}"
    assert device.device.has_interface("v6tdummy")  # the fixture runs this command


def test_stopped_audit_restores_device(device, tmp_path):
    flags = ("--testbed", write_testbed(device, limit=0), "-o", tmp_path / "audit", "--wait", "60")
    words = ("--plugin", "siit", "--suite", "translation", "--interfaces", "lo,to-device")
    process = device.start("audit", *flags, *words)  # nothing answers on the operator's links
    wait_until(lambda: device.device.has_interface("v6tdummy"), "the device's configuration")
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (130, ""), stderr
    assert "restoring 10.8.8.2" in stderr
    assert device.read_state() == device.before


LAB = sshserver.make_unique_name("guard-run")
LONG_RUN = (
    *("--plugin", "ipv4-router", "--mode", "forward", "--frame-size", "128", "--reps", "30"),
    *("--duration", "0.5", "--resolution", "100", "--no-report"),
    *("--set-procedure", "selftest=cached"),
)


@needs_lab
def test_run_ends_after_connection_lost_during_measurement(tmp_path):
    """The results stay incomplete, so that the run can be resumed."""
    ssh = {"lab": LAB, "connect_deadline_s": 2.0, "command_deadline_s": 5.0}
    bed = support.write_testbed(tmp_path / "bed.yaml", "linux-router", ssh=ssh, undo_after_s=3)
    out, lab = tmp_path / "out", LabSshServer(LAB)
    process = start_v6t("run", *LONG_RUN, "--testbed", bed, "-o", out, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: count_trials(out) or process.poll() is not None, "a trial", 120)
        assert process.poll() is None, process.communicate()
        inside = NamespaceTransport(lab.find_pid())
        assert "192.168.18.1" in inside.run("ip addr show dev left").out
        inside.run("ip link set lo down")  # the network of this lab's SSH
        wait_until(Path(f"/proc/{lab.find_pid()}/root/run/v6t/guard/fired").exists, "the timer")
        assert "192.168.18.1" not in inside.run("ip addr show dev left").out
        count = count_trials(out)
        wait_until(lambda: process.poll() is not None, "the run's end", 120)
        stderr = process.communicate()[1]
        assert process.returncode == 4, stderr
        assert count_trials(out) <= count + 1
        assert json.loads((out / "results.json").read_text())["status"] == "running"
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
        lab.stop()


def count_trials(out: Path) -> int:
    """Count the trials through the device, without those of the self-test."""
    journal = out / "journal.jsonl"
    return journal.read_bytes().count(b'"key":"throughput') if journal.exists() else 0
