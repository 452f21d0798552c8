"""A machine whose reset button is pressed, and one whose clock is stepped, while v6t is at work.

The device is a virtual machine that is driven over SSH; for the clock of the tester, v6t itself runs in
one. Without hardware acceleration each start takes about a minute.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path

import pytest
from v6t.core.runs import bench
from v6t.drivers.lab.privilege import available
from v6t.tests.core.support import COMMAND, v6t
from v6t.tests.drivers.duts.field import until
from v6t.tests.drivers.duts.test_guard import DUMMY, PLUGIN, step
from v6t.tests.jool.vm import MachineDut
from v6t.tests.machine.image import Image, lacking

from .guest import GUEST, ROOT, Guest, nics

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
        until(lambda: "here" in self.device.run("cat /run/reached").out, "the step that waits", 120)
        assert "v6tdummy" in self.device.done("ip -o link")
        self.device.reset()


def test_a_device_that_is_reset_in_the_middle_of_apply(device, tmp_path):
    """It is as after any start; v6t says what it does not know, and there is nothing to restore."""
    before = device.done(STATE)
    operator = Operator(device, tmp_path, [step("waits", deadline_s=60)])
    process = operator.start("apply")
    operator.reset_when_reached()
    said = process.communicate(timeout=600)[0]
    print(said)
    assert process.returncode == 4, said
    assert "the connection broke" in said
    assert "`v6t dut restore" in said or "the device is as it was before" in said
    device.enter()
    assert operator.v6t("restore") == (0, "there is nothing to restore\n")
    assert device.done(STATE) == before


def test_a_device_that_is_reset_in_the_middle_of_restore(device, tmp_path):
    """What the start has undone need not be undone again."""
    before = device.done(STATE)
    operator = Operator(device, tmp_path, [step("true", "sh /run/waits", deadline_s=60)])
    device.done("echo true >/run/true")
    status, said = operator.v6t("apply")
    assert status == 0, said
    process = operator.start("restore")
    operator.reset_when_reached()
    said = process.communicate(timeout=600)[0]
    print(said)
    assert process.returncode in (0, 4), said
    assert process.returncode == 0 or "`v6t dut restore" in said
    device.enter()
    assert operator.v6t("restore") == (0, "there is nothing to restore\n")
    assert device.done(STATE) == before


# ------------------------------------------------------- while it is measured

PATIENT = (
    *("--plugin", "ipv4-router", "--mode", "forward", "--frame-size", "128", "--reps", "2"),
    *("--duration", "0.5", "--resolution", "2000", "--no-report"),
    *("--set-procedure", "sending_time_tolerance=3", "--set-procedure", "invalid_retries=100"),
)
"""A machine without hardware acceleration is never in time."""
DAY_S = 86_400


def trials(path: Path) -> list[str]:
    try:
        return [
            line for line in (path / "journal.jsonl").read_text().splitlines() if THROUGH in line
        ]
    except FileNotFoundError:
        return []


THROUGH = '"key":"throughput'
"""Of a trial through the device."""


def test_a_device_whose_clock_is_stepped_and_that_is_reset_while_it_is_measured(
    image, tmp_path, monkeypatch
):
    """The step harms nothing; after the reset no trial counts, and the run goes on with another."""
    if not available()[0]:
        pytest.skip(f"no network namespaces here: {available()[1]}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    devices, seen = [], {}

    def lab_device(run, keep=None, say=None):
        devices.append(MachineDut(run.driver, run.intent, image, (*ROOT, "-m", "1024")))
        return devices[-1]

    monkeypatch.setattr(bench, "lab_device", lab_device)
    out = tmp_path / "out"

    def disturb():
        until(lambda: len(trials(out)) >= 2, "trials", 600)
        machine = devices[-1].machine
        way = machine.transport()
        way.open()
        way.run(f"date -s @$(($(date +%s) + {DAY_S}))")
        seen["stepped"] = len(trials(out))
        until(lambda: len(trials(out)) >= seen["stepped"] + 3, "trials after the step", 600)
        way.close()
        seen["reset"] = len(trials(out))
        machine.reset()

    thread = threading.Thread(target=disturb, daemon=True)
    thread.start()
    done = v6t("run", *PATIENT, "--dut", "linux-router", "-o", out)
    thread.join(10)
    print(done.status, done.err[-1500:], seen)
    assert done.status == 4, done.err
    assert "it may no longer be configured" in done.err
    assert len(trials(out)) <= seen["reset"] + 1
    assert json.loads((out / "results.json").read_text())["status"] == "running"
    done = v6t("resume", out, "--no-report")
    print(done.status, done.err[-600:])
    assert done.status == 0, done.err
    assert json.loads((out / "results.json").read_text())["status"] == "complete"


def test_a_tester_whose_clock_is_stepped(device):
    """The trial in which it happened is invalid and measured again; the run ends as any other."""
    words = " ".join([*COMMAND, "run", *PATIENT, "-o", "/run/out"])
    device.done(
        f"cd /run; (XDG_CACHE_HOME=/run/cache nohup {words} >/run/said 2>&1; echo $? >/run/status) "
        ">/dev/null 2>&1 &"
    )
    stamps = device.done(STEPS, 1500)
    said = device.done("tail -n 15 /run/said")
    print(stamps, said)
    assert device.done("cat /run/status").strip() == "0", said
    found = [json.loads(line.split(" ", 1)[1]) for line in journal(device)]
    faults = [fault for entry in found for fault in faults_of(entry)]
    assert any(f"stepped by +{HOUR_S}." in fault for fault in faults), faults
    assert any(f"stepped by -{HOUR_S}." in fault for fault in faults), faults


HOUR_S = 3600
STEPS = f"""
n=0; lines() {{ grep -c throughput /run/out/journal.jsonl 2>/dev/null || true; }}
while [ ! -e /run/status ] && [ $n -lt 40 ]; do
[ "$(lines)" -ge 2 ] 2>/dev/null || {{ sleep 1; continue; }}
date -s @$(($(date +%s) + {HOUR_S})) >/dev/null; sleep 1.3; date -s @$(($(date +%s) - {HOUR_S})) >/dev/null; n=$((n + 1)); sleep 1.1; echo $n
done; while [ ! -e /run/status ]; do sleep 1; done
"""
"""Steps and their opposites until the run ends, at most so many."""


def journal(device: Guest) -> list[str]:
    return device.done("cat /run/out/journal.jsonl").splitlines()


def faults_of(entry: object) -> list[str]:
    """Texts anywhere in an entry that speak of the clock."""
    if isinstance(entry, dict):
        return [f for value in entry.values() for f in faults_of(value)]
    if isinstance(entry, list):
        return [f for value in entry for f in faults_of(value)]
    return [entry] if isinstance(entry, str) and "the clock was stepped" in entry else []
