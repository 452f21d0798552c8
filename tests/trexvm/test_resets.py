"""A device whose reset button is pressed while v6t is at work on it.

It is a virtual machine that is driven over SSH. Without hardware acceleration each start takes about a
minute.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from v6t.tests.core.support import COMMAND
from v6t.tests.drivers.duts.field import until
from v6t.tests.drivers.duts.test_guard import DUMMY, PLUGIN, step
from v6t.tests.machine.image import Image, lacking

from .guest import GUEST, Guest, nics

pytestmark = [
    pytest.mark.trexvm,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        os.environ.get("V6T_TREX_VM") != "1",
        reason="`make test-trex-vm` asks for it (V6T_TREX_VM=1)",
    ),
]
WAITS = "echo here >/run/reached; while [ ! -e /run/go ]; do sleep 0.1; done"
STATE = (
    "ip -o link | cut -d: -f2-3 | sort; ip route; ip -6 route | grep -v expires; sysctl net.ipv4.conf net.ipv6.conf | "
    "grep -v -e _nonce -e stable_secret -e base_reachable; ls /run/v6t 2>/dev/null; true"
)


@pytest.fixture(scope="module")
def image() -> Image:
    if lacking():
        pytest.skip(f"apt-get install {' '.join(lacking())}")
    return GUEST.image()


@pytest.fixture(scope="module")
def device(image):
    made = Guest(image, nics("virtio-net-pci", (0, 1)), cpus=1, mib=1024)
    try:
        made.start()
        yield made
    finally:
        made.stop()


class Operator:
    """Whoever configures the device from here."""

    def __init__(self, device: Guest, place: Path, steps: list[dict[str, object]]) -> None:
        self.device, self.bed = device, place / "bed.json"
        ssh = device.options.model_dump(mode="json", exclude_defaults=True) | {"config": ""}
        ssh["command_deadline_s"] = 60.0
        options = {"base": False, "steps": [DUMMY, *steps], "ssh": ssh}
        self.bed.write_text(json.dumps({"dut": {"driver": "command", "options": options}}))
        device.done(f"cat >/run/waits <<'.'\n{WAITS}\n.\nrm -f /run/reached /run/go")

    def start(self, what: str) -> subprocess.Popen[str]:
        words = [*COMMAND, "dut", what, "--testbed", str(self.bed), *PLUGIN]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def v6t(self, what: str) -> tuple[int, str]:
        process = self.start(what)
        said = process.communicate(timeout=600)[0]
        return process.returncode, said

    def reset_when_reached(self) -> None:
        until(lambda: "here" in self.device.run("cat /run/reached").out, "the step that waits", 300)
        assert "v6tdummy" in self.device.done("ip -o link")
        self.device.reset()


def test_a_device_that_is_reset_in_the_middle_of_apply(device, tmp_path):
    """It is as after any start; v6t says what it does not know, and there is nothing to restore."""
    before = device.done(STATE)
    operator = Operator(device, tmp_path, [step("waits", deadline_s=60)])
    process = operator.start("commit")
    operator.reset_when_reached()
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
    operator = Operator(device, tmp_path, [step("true", "sh /run/waits", deadline_s=60)])
    device.done("echo true >/run/true")
    status, said = operator.v6t("commit")
    assert status == 0, said
    process = operator.start("rollback")
    operator.reset_when_reached()
    said = process.communicate(timeout=600)[0]
    print(said)
    assert process.returncode in (0, 4), said
    assert process.returncode == 0 or "`v6t dut rollback" in said
    device.enter()
    assert operator.v6t("rollback")[0] == 0
    assert device.done(STATE) == before
