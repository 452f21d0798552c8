"""Whole runs on a device behind a real sshd: restored at the end, and after a kill -9."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import jsonschema
import pytest
from v6t.benchmarks.registry import make_results_schema
from v6t.drivers.duts.lab.ssh import LabSshServer
from v6t.drivers.transport.here import NamespaceTransport
from v6t.tests.core import warm

from . import sshserver
from .support import in_lab
from .test_devices import missing

LACKING = missing("tayga", "over ssh")
pytestmark = [
    *in_lab,
    pytest.mark.slow,
    pytest.mark.skipif(LACKING is not None, reason=f"needs {LACKING}"),
]

NAME = sshserver.unique("runs")
TESTBED = f"""\
tester: {{kind: embedded}}
line_rate: 1M  # nobody looks for the tester's own limit on a machine with other tests
dut:
  driver: tayga
  options:
    ssh: {{lab: {NAME}}}
"""
QUICK = (
    *("--plugin", "siit", "--mode", "forward", "--frame-size", "84", "--reps", "1"),
    *("--duration", "0.2", "--resolution", "500", "--no-report"),
    # other tests run beside it
    *("--set-procedure", "sending_time_tolerance=1.5", "--set-procedure", "invalid_retries=10"),
)


@pytest.fixture
def testbed(tmp_path):
    path = tmp_path / "lab-tayga-ssh.yaml"
    path.write_text(TESTBED)
    yield path
    LabSshServer(NAME).stop()


def command(*words):
    return [sys.executable, "-c", "from v6t.core.cli.main import main; main()", *map(str, words)]


def v6t(*words):
    words = (*warm.command(), *map(str, words))
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=200)


@contextmanager
def measuring(testbed, path):
    """Start a run; yield its process once the device is configured."""
    with subprocess.Popen(
        command("run", *QUICK, "--testbed", testbed, "-o", path),
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        next(line for line in process.stderr if "how much the tester itself" in line)
        yield process


def test_a_run_configures_verifies_measures_and_restores(testbed, tmp_path):
    done = v6t("run", *QUICK, "--bottleneck", "--testbed", testbed, "-o", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    order = ("configured as siit", "read-backs agree", "octets, forward", "is undone")
    places = [done.stderr.index(words) for words in order]
    assert places == sorted(places)
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    (record,) = results["results"]
    assert record["benchmark"] == "throughput"
    (watched,) = results["bottleneck"]
    assert watched["rate_fps"] == record["median"]
    assert watched["samples"] >= 5
    assert set(watched["idle_percent"]) >= {"cpu0"}
    assert watched["says"] in done.stdout
    jsonschema.validate(results, make_results_schema())
    device = json.loads((tmp_path / "run" / "manifest.json").read_text())["tester"]["device"]
    assert device["kind"] == "tayga"
    assert any("tayga -c" in line for line in device["commands"])
    assert not (tmp_path / "run" / "dut-undo.json").exists()
    assert not LabSshServer(NAME).find_pid()


def test_an_interrupted_run_restores_and_says_how_to_go_on(testbed, tmp_path):
    path = tmp_path / "run"
    with measuring(testbed, path) as process:
        process.send_signal(signal.SIGINT)
        told = process.stderr.read()
    assert process.returncode == 130
    assert "is undone" in told
    assert f"v6t resume {path}" in told
    assert not (path / "dut-undo.json").exists()
    assert not LabSshServer(NAME).find_pid()


def killed(testbed, path):
    """A run that got kill -9 while it measured; its device still stands, configured."""
    with measuring(testbed, path) as process:
        process.kill()
    assert process.returncode == -signal.SIGKILL
    pid = LabSshServer(NAME).find_pid()
    assert pid, "a device elsewhere does not vanish with its tester"
    inside = NamespaceTransport(pid, "inside")
    assert "v6t-nat64" in inside.run("ip -o link show").out
    assert inside.run("cat /run/v6t/record.json").out == (path / "dut-undo.json").read_text()
    assert (path / "dut-undo.json").stat().st_mode & 0o777 == 0o600
    return inside


def test_after_kill_9_the_next_run_begins_with_restoring(testbed, tmp_path):
    killed(testbed, tmp_path / "first")
    done = v6t("run", *QUICK, "--testbed", testbed, "-o", tmp_path / "second")
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    first = next(n for n, line in enumerate(lines) if "rolling back what" in line)
    assert "is undone" in lines[first + 1]
    assert "configured as siit" in lines[first + 2]
    assert (tmp_path / "second" / "results.json").exists()
    assert not LabSshServer(NAME).find_pid()


def read_outcome(path):
    """Return status, median and trials of each result, without what differs from run to run."""
    results = json.loads((path / "results.json").read_text())
    return results["status"], [(r["median"], r["trials"]) for r in results["results"]]


def test_run_killed_at_drawn_trials_resumes_to_equal_results(testbed, tmp_path):
    """V6T_KILLS kills (default: 1), at trials drawn with V6T_SEED."""
    kills, seed = (int(os.environ.get(f"V6T_{name}", "1")) for name in ("KILLS", "SEED"))
    dice = random.Random(seed)
    whole, flags = tmp_path / "whole", (*QUICK, "--testbed", testbed, "-o")
    done = v6t("run", *flags, whole)
    assert done.returncode == 0, done.stderr
    trials = (whole / "journal.jsonl").read_bytes().count(b"\n")
    drawn = []
    for number in range(kills):
        path, wanted = tmp_path / f"{number}", dice.randrange(1, trials)
        journal = path / "journal.jsonl"
        process = subprocess.Popen(
            command("run", *flags, path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while not journal.exists() or journal.read_bytes().count(b"\n") < wanted:
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
        process.wait()
        begun = journal.read_bytes()
        drawn.append(begun.count(b"\n"))
        assert LabSshServer(NAME).find_pid()
        done = v6t("resume", path, "--no-report")
        assert done.returncode == 0, done.stderr
        assert "is undone" in done.stderr
        assert journal.read_bytes().startswith(begun)
        assert read_outcome(path) == read_outcome(whole)
        assert not (path / "dut-undo.json").exists()
        assert not LabSshServer(NAME).find_pid()
    print(f"seed {seed}: {kills} kills after trials {drawn} of {trials}, equal results")
