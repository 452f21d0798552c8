"""A device whose reset button is pressed while v6t is at work on it.

It is a virtual machine that is driven over SSH. Without hardware acceleration each start takes about a
minute.
"""

import pytest
from v6t.tests.drivers.duts.field import wait_until
from v6t.tests.drivers.duts.test_guard import make_step
from v6t.tests.needs import asked_for

from .guest import Operator, nics, running_guest

pytestmark = asked_for("trexvm", "test-trex-vm", "V6T_TREX_VM", 1800)
STATE = (
    "ip -o link | cut -d: -f2-3 | sort; ip route; ip -6 route | grep -v expires; sysctl net.ipv4.conf net.ipv6.conf | "
    "grep -v -e _nonce -e stable_secret -e base_reachable; ls /run/v6t 2>/dev/null; true"
)


@pytest.fixture(scope="module")
def device():
    with running_guest(nics("virtio-net-pci", (0, 1)), cpus=1, mib=1024) as guest:
        yield guest


def operate(device, place, *steps):
    ssh = {**device.login(), "command_deadline_s": 60.0}
    return Operator(device, place, list(steps), ssh=ssh)


def reset_when_reached(device):
    wait_until(lambda: "here" in device.run("cat /run/reached").out, "the step that waits", 300)
    assert "v6tdummy" in device.done("ip -o link")
    device.reset()


def test_a_device_that_is_reset_in_the_middle_of_apply(device, tmp_path):
    """It is as after any start; v6t says what it does not know, and there is nothing to restore."""
    before = device.done(STATE)
    operator = operate(device, tmp_path, make_step("waits", deadline_s=60))
    process = operator.start("commit")
    reset_when_reached(device)
    said = process.communicate(timeout=600)[0]
    print(said)
    assert process.returncode == 4, said
    assert "the connection broke" in said
    assert "`v6t dut rollback" in said or "as it was before" in said
    device.enter()
    assert operator.v6t("rollback")[0] == 0
    assert device.done(STATE) == before


def test_a_device_that_is_reset_in_the_middle_of_restore(device, tmp_path):
    """What the start has undone need not be undone again."""
    before = device.done(STATE)
    operator = operate(device, tmp_path, make_step("true", "sh /run/waits", deadline_s=60))
    device.done("echo true >/run/true")
    status, said = operator.v6t("commit")
    assert status == 0, said
    process = operator.start("rollback")
    reset_when_reached(device)
    said = process.communicate(timeout=600)[0]
    print(said)
    assert process.returncode in (0, 4), said
    assert process.returncode == 0 or "`v6t dut rollback" in said
    device.enter()
    assert operator.v6t("rollback")[0] == 0
    assert device.done(STATE) == before
