"""Complete runs on a device over SSH, which is restored at the end and after interrupts and SIGKILL."""

import json
import os
import random
import signal
import subprocess
import time

import jsonschema
import pytest
from v6t.benchmarks.registry import make_results_schema
from v6t.core.cli import run_console
from v6t.core.runs import bottleneck
from v6t.drivers.duts.lab.ssh import LabSshServer
from v6t.drivers.duts.session import telemetry
from v6t.drivers.transport.process import NamespaceTransport
from v6t.tests.core.support import start_v6t

from . import sshserver
from .support import SHORT_RUN, in_lab, needs_device, run_v6t, start_run, write_testbed

pytestmark = [*in_lab, pytest.mark.slow, needs_device("tayga", over_ssh=True)]

NAME = sshserver.make_unique_name("runs")
KILLS, SEED = (int(os.environ.get(f"V6T_{name}", "1")) for name in ("KILLS", "SEED"))
RANDOM = random.Random(SEED)
QUICK = ("--plugin", "siit", "--mode", "forward", "--frame-size", "84", *SHORT_RUN)


@pytest.fixture(scope="module")
def testbed(tmp_path_factory):
    path = tmp_path_factory.mktemp("bed") / "lab-tayga-ssh.yaml"
    yield write_testbed(path, "tayga", ssh={"lab": NAME})
    LabSshServer(NAME).stop()


@pytest.fixture(scope="module")
def full_run(testbed, tmp_path_factory):
    """Provide the directory and output of a completed run."""
    path = tmp_path_factory.mktemp("completed") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_console, "WATCH_DURATION_S", 3.0)
        patch.setattr(bottleneck, "MIN_TRIAL_S", 3.0)
        patch.setattr(bottleneck, "IDLE_SAMPLING_S", 0.5)
        patch.setattr(telemetry, "WATCH_INTERVAL_S", 0.1)
        return path, run_v6t("run", *QUICK, "--bottleneck", "--testbed", testbed, "-o", path)


def assert_restored(path):
    """Check that neither the lab device of a run nor its undo record exists."""
    assert not (path / "dut-undo.json").exists()
    assert not LabSshServer(NAME).find_pid()


def test_run_configures_verifies_measures_and_restores(full_run):
    path, result = full_run
    order = ("configured as siit", "read-backs agree", "octets, forward", "rolled back")
    offsets = [result.err.index(words) for words in order]
    assert offsets == sorted(offsets)
    results = json.loads((path / "results.json").read_text())
    (record,) = results["results"]
    assert record["benchmark"] == "throughput"
    (watched,) = results["bottleneck"]
    assert watched["rate_fps"] == record["median"]
    assert watched["samples"] >= 5
    assert set(watched["idle_percent"]) >= {"cpu0"}
    assert watched["says"] in result.out
    jsonschema.validate(results, make_results_schema())
    device = json.loads((path / "manifest.json").read_text())["tester"]["device"]
    assert device["kind"] == "tayga"
    assert any("tayga -c" in line for line in device["commands"])
    assert_restored(path)


def test_interrupted_run_restores_device_and_prints_resume_command(testbed, tmp_path):
    path = tmp_path / "run"
    with start_run("run", *QUICK, "--testbed", testbed, "-o", path) as process:
        process.send_signal(signal.SIGINT)
        stderr = process.stderr.read()
    assert process.returncode == 130
    assert "rolled back" in stderr
    assert f"v6t resume {path}" in stderr
    assert_restored(path)


def test_killed_run_is_rolled_back_from_its_directory(testbed, tmp_path):
    path = tmp_path / "run"
    with start_run("run", *QUICK, "--testbed", testbed, "-o", path) as process:
        process.kill()
    assert "undone" in run_v6t("dut", "rollback", path).out
    assert_restored(path)


def read_outcome(path):
    results = json.loads((path / "results.json").read_text())
    return results["status"], [(r["median"], r["trials"]) for r in results["results"]]


@pytest.mark.parametrize("share", [RANDOM.random() for _ in range(KILLS)])
def test_run_killed_at_random_trial_resumes_to_equal_results(testbed, full_run, tmp_path, share):
    complete, path = full_run[0], tmp_path / "run"
    trials = (complete / "journal.jsonl").read_bytes().count(b"\n")
    last = 1 + int(share * (trials - 1))
    journal, record = path / "journal.jsonl", path / "dut-undo.json"
    words = ("run", *QUICK, "--testbed", testbed, "-o", path)
    process = start_v6t(*words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not journal.exists() or journal.read_bytes().count(b"\n") < last:
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    begun = journal.read_bytes()
    pid = LabSshServer(NAME).find_pid()
    assert pid, "the device does not survive the run"
    inside = NamespaceTransport(pid, "inside")
    assert "v6t-nat64" in inside.run("ip -o link show").out
    assert inside.run("cat /run/v6t/record.json").out == record.read_text()
    assert record.stat().st_mode & 0o777 == 0o600
    lines = run_v6t("resume", path, "--no-report").err.splitlines()
    first = next(n for n, line in enumerate(lines) if "rolling back the changes" in line)
    assert "rolled back" in lines[first + 1]
    assert "configured as siit" in lines[first + 2]
    assert journal.read_bytes().startswith(begun)
    assert read_outcome(path) == read_outcome(complete)
    assert_restored(path)
