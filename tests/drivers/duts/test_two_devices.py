"""Two devices behind a real sshd each, CE and PE of 464XLAT: configured, measured, restored, kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from v6t.drivers.duts.standing.ssh import LabSsh
from v6t.drivers.lab.privilege import available
from v6t.drivers.transport.namespace import NamespaceTransport
from v6t.tests.core import warm

from . import sshserver
from .test_devices import missing

POSSIBLE, WHY = available()
LACKING = missing("tayga-nftables", "over ssh")
pytestmark = [
    pytest.mark.lab,
    pytest.mark.slow,
    pytest.mark.skipif(not POSSIBLE, reason=WHY),
    pytest.mark.skipif(LACKING is not None, reason=f"needs {LACKING}"),
]

NAMES = {"clat": sshserver.unique("ce"), "plat": sshserver.unique("pe")}
TESTBED = f"""\
tester: {{kind: embedded}}
line_rate: 1M  # nobody looks for the tester's own limit on a machine with other tests
dut:
  driver: chain
  options:
    parts:
      clat: {{driver: tayga, options: {{ssh: {{lab: {NAMES["clat"]}}}}}}}
      plat: {{driver: tayga-nftables, options: {{ssh: {{lab: {NAMES["plat"]}}}}}}}
"""
RUN = (
    *("run", "--plugin", "ipv4aas", "--mode", "bidirectional", "--reps", "1", "--no-report"),
    *("--set-procedure", "connections.count=500", "--measure", "throughput", "--duration", "0.2"),
    *("--resolution", "500", "--set-procedure", "sending_time_tolerance=1.5"),
    *("--set-procedure", "invalid_retries=10"),  # other tests run beside it
)
RECORD = "/run/v6t/record.json"


@pytest.fixture
def testbed(tmp_path):
    path = tmp_path / "two.yaml"
    path.write_text(TESTBED)
    yield path
    for name in NAMES.values():
        LabSsh(name).stop()


def v6t(*words):
    words = (*warm.command(), *map(str, words))
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=200)


def inside(part):
    pid = LabSsh(NAMES[part]).running()
    assert pid, "a device elsewhere does not vanish with its tester"
    return NamespaceTransport(pid, part)


def test_both_are_configured_measured_and_restored(testbed, tmp_path):
    done = v6t(*RUN, "--testbed", testbed, "-o", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    for part, technology in (("clat", "clat"), ("plat", "nat64")):
        said = [line for line in done.stderr.splitlines() if NAMES[part] in line]
        assert any(f"configured as {technology}" in line for line in said), done.stderr
        assert any("is undone" in line for line in said), done.stderr
        assert not LabSsh(NAMES[part]).running()
    *_, record = json.loads((tmp_path / "run" / "results.json").read_text())["results"]
    assert (record["matched"], record["loss"]) == (1.0, {"forward": 0.0, "reverse": 0.0})


def test_a_second_operator_waits_and_kill_9_is_undone_on_both(testbed, tmp_path):
    command = [sys.executable, "-c", "from v6t.core.cli.main import main; main()", *RUN]
    command += ["--testbed", str(testbed), "-o", str(tmp_path / "run")]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        for line in process.stderr:
            if "how much the tester itself" in line:
                break
        second = v6t("dut", "apply", "--plugin", "ipv4aas", "--testbed", testbed)
        os.kill(process.pid, signal.SIGKILL)
    assert second.returncode == 4, second.stderr
    assert NAMES["clat"] in second.stderr
    for part in NAMES:
        assert inside(part).run(f"cat {RECORD}").status == 0
    done = v6t("dut", "restore", "--plugin", "ipv4aas", "--testbed", testbed)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("the translator itself: undone") == 2
    assert not any(LabSsh(name).running() for name in NAMES.values())
    again = v6t("dut", "restore", "--plugin", "ipv4aas", "--testbed", testbed)
    assert "nothing is left" in again.stdout
