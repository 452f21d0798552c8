"""Resets of a device, a virtual machine, while v6t configures it over SSH."""

import pytest
from v6t.tests.drivers.duts.remote_site import wait_until
from v6t.tests.drivers.duts.test_guard import make_step
from v6t.tests.needs import mark_make_target

from .guest import Operator, make_nics, run_guest

pytestmark = mark_make_target("trexvm", "test-trex-vm", "V6T_TREX_VM", 1800)
STATE = (
    "ip -o link | cut -d: -f2-3 | sort; ip route; ip -6 route | grep -v expires; sysctl net.ipv4.conf net.ipv6.conf | "
    "grep -v -e _nonce -e stable_secret -e base_reachable; ls /run/v6t 2>/dev/null; true"
)


@pytest.fixture(scope="module")
def device():
    with run_guest(make_nics("virtio-net-pci", (0, 1)), cpus=1, mib=1024) as guest:
        yield guest


def make_operator(device, path, *steps):
    ssh = {**device.make_ssh_settings(), "command_deadline_s": 60.0}
    return Operator(device, path, list(steps), ssh=ssh)


def reset_at_waiting_step(device):
    wait_until(lambda: "here" in device.run("cat /run/reached").out, "the step that waits", 300)
    assert "v6tdummy" in device.run_checked("ip -o link")
    device.reset()


def test_device_reset_during_commit_is_reported(device, tmp_path):
    """v6t reports the broken connection, and a later rollback finds nothing to undo."""
    before = device.run_checked(STATE)
    operator = make_operator(device, tmp_path, make_step("waits", deadline_s=60))
    process = operator.start("commit")
    reset_at_waiting_step(device)
    output = process.communicate(timeout=600)[0]
    print(output)
    assert process.returncode == 4, output
    assert "the connection broke" in output
    assert "`v6t dut rollback" in output or "as it was before" in output
    device.log_in()
    assert operator.run("rollback")[0] == 0
    assert device.run_checked(STATE) == before


def test_device_reset_during_rollback_is_accepted(device, tmp_path):
    """A later rollback accepts that the boot has undone everything."""
    before = device.run_checked(STATE)
    operator = make_operator(device, tmp_path, make_step("true", "sh /run/waits", deadline_s=60))
    device.run_checked("echo true >/run/true")
    status, output = operator.run("commit")
    assert status == 0, output
    process = operator.start("rollback")
    reset_at_waiting_step(device)
    output = process.communicate(timeout=600)[0]
    print(output)
    assert process.returncode in (0, 4), output
    assert process.returncode == 0 or "`v6t dut rollback" in output
    device.log_in()
    assert operator.run("rollback")[0] == 0
    assert device.run_checked(STATE) == before
