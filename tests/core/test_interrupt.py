"""Signals: a stopped run keeps its trials, removes the lab and can be resumed."""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
from v6t.core.cli.stopping import HANDLED_SIGNALS, handle_signals
from v6t.core.config import resolve as resolve_module
from v6t.tests.core.support import (
    COMMAND,
    RUN_FILES,
    SIM,
    WAIT_LIMIT_S,
    read_comparable,
    read_trial_keys,
    start_v6t,
    v6t,
    wait_until,
)
from v6t.tests.drivers import faketrex
from v6t.tests.needs import needs_lab

pytestmark = pytest.mark.slow

SHAPE = ["--reps", "2", "--mode", "forward", "--set-tester", "capacity_noise=0.05"]
SLOW = ["--set-tester", "trial_delay_s=0.05"]


def start_run(out, *words):
    """Start a command in its own process group, as a terminal would."""
    return start_v6t(*words, "-o", out, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def list_trial_keys(out):
    """Return the keys of the trials in a journal, which may not exist yet."""
    return read_trial_keys(out) if (out / "journal.jsonl").exists() else []


def wait_for_trials(out, count, process=None):
    journal = out / "journal.jsonl"
    wait_until(lambda: journal.exists() and journal.read_bytes().count(b"\n") >= count, process)


def find_lab(parent):
    """Return the PIDs of a run's processes if one of them is in another network namespace."""
    namespaces = {}
    for pid in faketrex.list_descendants(parent):
        if not faketrex.has_ended(pid):
            with contextlib.suppress(OSError):  # it has ended in the meantime
                namespaces[pid] = os.readlink(f"/proc/{pid}/ns/net")
    own_namespace = os.readlink("/proc/self/ns/net")
    return list(namespaces) if set(namespaces.values()) - {own_namespace} else []


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """Provide the same run without any interruption."""
    out = tmp_path_factory.mktemp("uninterrupted") / "out"
    assert v6t(*SIM, *SHAPE, "-o", out).status == 0
    return out


def test_suspended_and_interrupted_simulation_can_be_resumed(tmp_path, uninterrupted):
    out = tmp_path / "out"
    words = [*SIM, *SHAPE, *SLOW, "-o", out]
    for number in (signal.SIGINT, signal.SIGTERM):
        before = list_trial_keys(out)
        process = start_v6t(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_for_trials(out, len(before) + 1, process)
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        suspended = list_trial_keys(out)
        process.send_signal(signal.SIGCONT)
        wait_for_trials(out, len(suspended) + 1, process)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=WAIT_LIMIT_S)
        assert (process.returncode, stdout) == (130, "")
        assert f"v6t resume {out}" in stderr and stderr.splitlines()[-1] == "v6t: interrupted"
        assert "Traceback" not in stderr
        assert suspended[: len(before)] == before
        assert list_trial_keys(out)[: len(suspended)] == suspended
        assert json.loads((out / "results.json").read_text())["status"] == "running"
        assert sorted(p.name for p in out.iterdir()) == RUN_FILES
        words = ["resume", out]
    done = v6t("resume", out, "--json")
    assert (done.status, json.loads(done.out)["status"]) == (0, "complete")
    assert read_comparable(out) == read_comparable(uninterrupted)
    assert list_trial_keys(out) == list_trial_keys(uninterrupted)


def test_second_signal_ends_run_without_data_loss(tmp_path):
    out = tmp_path / "out"
    process = start_run(out, *SIM, *SHAPE, *SLOW)
    wait_for_trials(out, 3, process)
    before = list_trial_keys(out)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    stderr = process.communicate(timeout=WAIT_LIMIT_S)[1]
    assert process.returncode in (130, -signal.SIGINT)
    assert "internal error" not in stderr
    assert list_trial_keys(out)[: len(before)] == before
    assert v6t("resume", out).status == 0


def test_closed_terminal_loses_no_trials(tmp_path, uninterrupted):
    """The run receives SIGHUP, and every later write to the terminal fails."""
    out = tmp_path / "out"
    pid, terminal = pty.fork()
    if not pid:
        os.execv(COMMAND[0], [*COMMAND, *SIM, *SHAPE, *SLOW, "-o", str(out)])  # noqa: S606
    wait_for_trials(out, 3)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    before = list_trial_keys(out)
    assert v6t("resume", out).status == 0
    assert read_comparable(out) == read_comparable(uninterrupted)
    assert list_trial_keys(out)[: len(before)] == before


def test_closed_standard_error_does_not_stop_run(tmp_path, uninterrupted):
    out = tmp_path / "out"
    process = subprocess.Popen(
        [*COMMAND, *SIM, *SHAPE, "--no-report", "-o", str(out)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    process.stderr.readline()
    process.stderr.close()
    process.stderr = None
    stdout, _ = process.communicate(timeout=WAIT_LIMIT_S)
    assert process.returncode == 0
    assert f"Results: {out}" in stdout
    assert read_comparable(out) == read_comparable(uninterrupted)


def test_interrupt_before_the_run_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(resolve_module, "resolve_setup", Mock(side_effect=KeyboardInterrupt))
    done = v6t(*SIM, "-o", tmp_path / "out")
    assert (done.status, done.err.strip()) == (130, "v6t: interrupted")
    assert not (tmp_path / "out").exists()


def test_signal_stops_run_without_stop_message():
    def make_message():
        raise OSError("the run's directory does not exist")

    with pytest.raises(KeyboardInterrupt), handle_signals(make_message):
        os.kill(os.getpid(), signal.SIGINT)


def test_second_signal_ends_process_without_stop_message():
    code = """\
import os, signal
from v6t.core.cli.stopping import handle_signals

class Messages:
    first = "stopping"
    second = property(lambda self: open("/nowhere").read())

with handle_signals(Messages):
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == -signal.SIGTERM
    assert (done.stdout, done.stderr) == ("", "stopping\n")


def test_worker_handles_one_interrupt_only():
    """Later signals from the terminal or the parent do not disturb the handling of the first."""
    before = [signal.getsignal(number) for number in HANDLED_SIGNALS]
    restored = []

    def raise_signals():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            for number in HANDLED_SIGNALS:
                os.kill(os.getpid(), number)
            restored.append(True)

    with pytest.raises(KeyboardInterrupt), handle_signals(None):
        raise_signals()
    assert restored
    assert [signal.getsignal(number) for number in HANDLED_SIGNALS] == before


@pytest.mark.lab
@needs_lab
@pytest.mark.parametrize(("number", "to_group"), [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_interrupted_lab_is_removed(number, to_group, tmp_path):
    """A terminal sends Ctrl-C to every process of the run; ``kill`` only to the first."""
    out = tmp_path / "out"
    # real interfaces, at a rate that a busy machine can send
    (tmp_path / "bed.yaml").write_text("line_rate: 20M\n")
    (tmp_path / "run.yaml").write_text(
        "plugin: mape-br\nmodes: [forward]\nprocedure: {repetitions: 4, trial_duration_s: 0.1, "
        "residual_wait_s: 0.1, pause_s: 0, resolution_fps: 2000, sending_time_tolerance: 10}\n"
    )
    files = [tmp_path / "run.yaml", "--testbed", tmp_path / "bed.yaml"]
    process = start_run(out, "run", *files)
    wait_for_trials(out, 3, process)
    # no lab exists between self-test and measurement
    pids = wait_until(lambda: find_lab(process.pid), process)
    if to_group:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    stderr = process.communicate(timeout=WAIT_LIMIT_S)[1]
    assert process.returncode == 130
    assert f"v6t resume {out}" in stderr and "Traceback" not in stderr
    # processes of the lab may outlive their parent for a moment
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    before = list_trial_keys(out)
    assert len(before) >= 3

    done = v6t("resume", out, "--json")
    assert done.status == 0, done.err
    content = json.loads(done.out)
    assert content["status"] == "complete"
    assert [r["direction"] for r in content["results"]] == ["forward"]
    assert list_trial_keys(out)[: len(before)] == before
    assert len(set(list_trial_keys(out))) == len(list_trial_keys(out))


def test_durations_use_monotonic_clock():
    """The time of day is used for timestamps only, of files and of frames (see drivers/clock.py)."""
    top = Path(__file__).parents[2]
    folders = (
        *("base", "benchmarks", "intent", "packets", "trials", "core", "drivers", "procedures"),
        *("plugins", "profiles", "analysis"),
    )
    call = re.compile(r"time\.time\(\)|time\.time_ns\(|datetime\.now|utcnow")
    paths = [path for folder in folders for path in (top / folder).rglob("*.py")]
    modules = {str(p.relative_to(top).with_suffix("")) for p in paths if call.search(p.read_text())}
    assert modules == {
        *(f"core/runs/{name}" for name in ("events", "rundir", "manifest", "bottleneck", "device")),
        "drivers/clock",
        # compared with the timestamp of a trial's first frame, which needs a clock without steps
        *(f"drivers/duts/session/{name}" for name in ("telemetry", "transaction")),
        *(f"drivers/embedded/{name}" for name in ("tester", "sender", "dns", "tcp", "tcp_ends")),
        *("drivers/trex/tester", "drivers/trex/astf", "drivers/embedded/port"),
    }
