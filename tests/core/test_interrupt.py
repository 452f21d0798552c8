"""Signals: a stopped run keeps its trials, removes the lab and can be resumed."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from v6t.core.cli.stopping import HANDLED_SIGNALS, handle_signals
from v6t.core.config import resolve as resolve_module
from v6t.drivers.lab import privilege
from v6t.tests.core import warm
from v6t.tests.core.support import COMMAND, RUN_FILES, SIM, read_comparable, read_trial_keys, v6t
from v6t.tests.drivers import faketrex

pytestmark = pytest.mark.slow

SHAPE = ["--reps", "2", "--mode", "forward"]
SLOW = ["--set-tester", "trial_delay_s=0.05", "--set-tester", "capacity_noise=0.05"]
GENTLE_RUN = """\
plugin: mape-br
modes: [forward]
procedure:
  repetitions: 2
  trial_duration_s: 0.1
  residual_wait_s: 0.1
  pause_s: 0
  resolution_fps: 2000
  sending_time_tolerance: 10
"""
GENTLE_BED = "line_rate: 20M"
"""A run on real interfaces that a busy machine can carry, too."""

PATIENCE_S = 60
PRODUCT_FOLDERS = (
    *("base", "benchmarks", "intent", "packets", "trials", "core", "drivers", "procedures"),
    *("plugins", "profiles", "analysis"),
)


def started(out, *arguments):
    """Start a run in its own process group, as a terminal would."""
    words = [*arguments, "-o", str(out)]
    return warm.Process(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def trials(out):
    """Return the keys of the trials in a journal, which may not exist yet."""
    return read_trial_keys(out) if (out / "journal.jsonl").exists() else []


def wait_for_trials(process, out, count):
    end = time.monotonic() + PATIENCE_S
    while len(trials(out)) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "the run does not get on"
        time.sleep(0.02)


def workers(parent):
    """Return the network namespaces of a run's processes by PID, without zombies."""
    found = {}
    for pid in faketrex.list_descendants(parent):
        if not faketrex.has_ended(pid):
            with contextlib.suppress(OSError):  # it has ended in the meantime
                found[pid] = os.readlink(f"/proc/{pid}/ns/net")
    return found


def wait_for_the_end(pids):
    """Wait until the processes end, which may outlive their parent for a moment."""
    end = time.monotonic() + PATIENCE_S
    while left := [pid for pid in pids if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < end, f"left behind: {left}"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Provide the same run without any interruption."""
    out = tmp_path_factory.mktemp("whole") / "out"
    assert v6t(*SIM, *SHAPE, "--set-tester", "capacity_noise=0.05", "-o", out).status == 0
    return out


def test_interrupted_simulation_can_be_resumed(tmp_path, whole):
    out = tmp_path / "out"
    words = [*SIM, *SHAPE, *SLOW, "-o", str(out)]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        before = trials(out)
        process = warm.Process(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_for_trials(process, out, len(before) + 2)
        process.send_signal(number)
        printed, said = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, printed) == (130, "")
        assert f"v6t resume {out}" in said
        assert said.splitlines()[-1] == "v6t: interrupted"
        assert "Traceback" not in said
        assert trials(out)[: len(before)] == before
        assert json.loads((out / "results.json").read_text())["status"] == "running"
        assert sorted(p.name for p in out.iterdir()) == RUN_FILES
        words = ["resume", str(out)]
    done = v6t("resume", out, "--json")
    assert (done.status, json.loads(done.out)["status"]) == (0, "complete")
    assert read_comparable(out) == read_comparable(whole)
    assert trials(out) == trials(whole)


def test_second_signal_ends_run_without_data_loss(tmp_path):
    """Even while the first one is being obeyed nothing that was measured is lost."""
    out = tmp_path / "out"
    process = started(out, *SIM, *SHAPE, *SLOW)
    wait_for_trials(process, out, 3)
    before = trials(out)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode in (130, -signal.SIGINT)
    assert "internal error" not in said
    assert trials(out)[: len(before)] == before
    assert v6t("resume", out).status == 0


def test_closed_terminal_loses_no_trials(tmp_path, whole):
    """Every line that is written to it from then on fails."""
    out = tmp_path / "out"
    process, terminal = pty.fork()
    if not process:
        os.execv(COMMAND[0], [*COMMAND, *SIM, *SHAPE, *SLOW, "-o", str(out)])  # noqa: S606
    end = time.monotonic() + PATIENCE_S
    while len(trials(out)) < 3:
        assert time.monotonic() < end, "the run does not get on"
        time.sleep(0.02)
    os.close(terminal)
    _, status = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    before = trials(out)
    assert v6t("resume", out).status == 0
    assert read_comparable(out) == read_comparable(whole)
    assert trials(out)[: len(before)] == before


def test_closed_standard_error_does_not_stop_run(tmp_path, whole):
    """The run continues when standard error is a pipe without a reader."""
    out = tmp_path / "out"
    words = [*SIM, *SHAPE, "--set-tester", "capacity_noise=0.05", "--no-report", "-o", str(out)]
    process = subprocess.Popen(
        [*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stderr.readline()
    process.stderr.close()
    process.stderr = None
    printed, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert f"Results: {out}" in printed
    assert read_comparable(out) == read_comparable(whole)


def test_interrupted_before_anything_began(tmp_path, monkeypatch):
    """Ctrl-C while a command is still reading its files leaves nothing and says little."""

    def interrupted(*_args, **_rest):
        raise KeyboardInterrupt

    monkeypatch.setattr(resolve_module, "resolve_setup", interrupted)
    done = v6t(*SIM, "-o", tmp_path / "out")
    assert done.status == 130
    assert done.err.strip() == "v6t: interrupted"
    assert not (tmp_path / "out").exists()


def test_signal_stops_run_without_stop_message():
    def means():
        raise OSError("the run's directory is gone")

    with pytest.raises(KeyboardInterrupt), handle_signals(means):
        os.kill(os.getpid(), signal.SIGINT)


def test_second_signal_ends_process_without_stop_message(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""\
import os, signal
from v6t.core.cli.stopping import handle_signals

class Words:
    first = "stopping"

    @property
    def second(self):
        raise OSError("the run's directory is gone")

with handle_signals(Words):
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except OSError:
            print("it goes on", flush=True)
""")
    done = subprocess.run(
        [sys.executable, str(program)], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGTERM, "", "stopping\n")


def test_worker_handles_one_interrupt_only():
    """From the terminal and from who started it: what it does about the first is not disturbed."""
    before = [signal.getsignal(number) for number in HANDLED_SIGNALS]
    done = []

    def work():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            for number in HANDLED_SIGNALS:
                os.kill(os.getpid(), number)
            done.append("put back")

    with pytest.raises(KeyboardInterrupt), handle_signals(None):
        work()
    assert done == ["put back"]
    assert [signal.getsignal(number) for number in HANDLED_SIGNALS] == before


@pytest.mark.lab
@pytest.mark.parametrize(("number", "everyone"), [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_an_interrupted_lab_is_removed(number, everyone, tmp_path):
    """A terminal sends Ctrl-C to every process of the run; ``kill`` only to the first."""
    can, how = privilege.check_availability()
    if not can:
        pytest.skip(f"no network namespaces here: {how}")
    out = tmp_path / "out"
    (tmp_path / "run.yaml").write_text(GENTLE_RUN)
    (tmp_path / "bed.yaml").write_text(GENTLE_BED)
    files = [str(tmp_path / "run.yaml"), "--testbed", str(tmp_path / "bed.yaml")]
    process = started(out, "run", *files)
    wait_for_trials(process, out, 3)
    running = workers(process.pid)
    assert set(running.values()) - {os.readlink("/proc/self/ns/net")}, "there is no lab"
    if everyone:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    said = process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode == 130
    assert f"v6t resume {out}" in said
    assert "Traceback" not in said
    wait_for_the_end(running)
    before = trials(out)
    assert len(before) >= 3

    again = subprocess.run(
        [*warm.command(), "resume", str(out), "--json"], capture_output=True, text=True, check=False
    )
    assert again.returncode == 0, again.stderr
    content = json.loads(again.stdout)
    assert content["status"] == "complete"
    assert [r["direction"] for r in content["results"]] == ["forward"]
    assert trials(out)[: len(before)] == before
    assert len(set(trials(out))) == len(trials(out))


def test_suspended_run_continues(tmp_path, whole):
    """A closed lid, or Ctrl-Z: the run goes on where it was, with the same results."""
    out = tmp_path / "out"
    process = started(out, *SIM, *SHAPE, *SLOW)
    wait_for_trials(process, out, 2)
    process.send_signal(signal.SIGSTOP)
    time.sleep(0.3)
    known = trials(out)
    process.send_signal(signal.SIGCONT)
    assert trials(out)[: len(known)] == known
    said = process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode == 0, said
    assert read_comparable(out) == read_comparable(whole)
    assert trials(out) == trials(whole)


def test_durations_use_monotonic_clock():
    """Time of day is for stamps that people read, and for those in frames (see drivers/clock.py)."""
    root = Path(__file__).parents[2]
    stamps = {
        "core/runs": {"events", "rundir", "manifest", "bottleneck"},
        "drivers": {"clock"},
        # next to the stamp of a trial's first frame, in a trial during which no clock was stepped
        "drivers/duts/session": {"telemetry", "transaction"},
        "drivers/embedded": {"tester", "sender", "dns", "tcp", "tcp_ends"},
        "drivers/trex": {"tester", "astf"},
    }
    words = ("time.time()", "time.time_ns(", "datetime.now", "utcnow")
    found = {}
    for room in map(root.joinpath, PRODUCT_FOLDERS):
        for path in room.rglob("*.py"):
            if any(word in path.read_text() for word in words):
                found.setdefault(path.parent.relative_to(root).as_posix(), set()).add(path.stem)
    assert found == stamps
