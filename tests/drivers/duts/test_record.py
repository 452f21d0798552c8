"""The undo record, and its script run by shells of devices."""

import contextlib
import gzip
import os
import signal
import subprocess
from dataclasses import replace
from unittest.mock import Mock

import pytest
from v6t.analysis.rundata import RunData
from v6t.base.errors import DutError
from v6t.core.cli import run_console
from v6t.core.runs import bottleneck
from v6t.core.runs.events import Listener
from v6t.drivers.duts.plan import Step
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.duts.session import undo_store
from v6t.drivers.duts.session.plan_steps import compute_undo_limit_s, make_undo_entry
from v6t.drivers.duts.session.session import Session
from v6t.drivers.duts.session.shell import build_tracked_command, format_here_document
from v6t.drivers.duts.session.transaction import DAMAGED_RECORD_UNDO_LIMIT_S
from v6t.drivers.duts.session.undo_store import PROGRESS, SCRIPT, UndoStore, build_undo_script
from v6t.drivers.transport.process import LocalTransport
from v6t.tests.expect import expect_error

from .intents import ROUTER4
from .remote_site import wait_until
from .support import make_file_step, make_record, run_shell, run_undo_script


@pytest.mark.parametrize("undo", [
    "printf 'b\\na\\n' | while read n; do touch $n; done",
    "echo b >names; while read n; do touch $n a; done <names; rm names",
    "touch a b",
    "touch a\ntouch b",
], ids=["pipeline", "list", "command", "lines"])  # fmt: skip
def test_undo_script_runs_whole_command_once(undo, tmp_path):
    record = make_record(tmp_path, make_undo_entry(1, Step("true", "an example", undo=undo), ""))
    run_undo_script(record, 1)
    assert {p.name for p in tmp_path.iterdir()} == {"a", "b", PROGRESS, "undone"}
    (tmp_path / "a").unlink()
    run_shell(build_undo_script(replace(record, owner="you")))
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(("command", "text", "output"), [
    ("cat", "x\n", "x\n"), ("cat", "", ""), ("cat | cat", "", ""), ("cat\ncat", "", ""),
    ("cat; cat", "x", "x\n"),
])  # fmt: skip
def test_command_input_is_its_text_or_empty(command, text, output):
    assert run_shell(format_here_document(command, text), "not this", check=False).stdout == output


@pytest.mark.parametrize(("damaged", "limit_s"), [
    (False, undo_store.UNDO_LIMIT_S + 600), (True, DAMAGED_RECORD_UNDO_LIMIT_S)])  # fmt: skip
def test_undo_deadline_follows_record(open_device, tmp_path, damaged, limit_s):
    session = open_device(make_file_step(tmp_path, "one", deadline_s=600))
    session.commit()
    if damaged:
        (tmp_path / "state" / undo_store.RECORD).write_text("{")
    session.transport.run = run = Mock(side_effect=session.transport.run)
    session.rollback(by_script=damaged)
    assert not (tmp_path / "one").exists()
    deadlines = {call.args[0]: call.kwargs.get("deadline_s") for call in run.call_args_list}
    assert deadlines[f"sh {tmp_path}/state/{SCRIPT}"] == limit_s


def test_only_slow_steps_extend_undo_limit():
    quick, slow = Step("true", "x", undo="true"), Step("true", "x", undo="true", deadline_s=100)
    assert compute_undo_limit_s([quick] * 50) == undo_store.UNDO_LIMIT_S
    assert compute_undo_limit_s([quick, slow, slow]) == undo_store.UNDO_LIMIT_S + 200
    assert compute_undo_limit_s([replace(slow, undo="")]) == undo_store.UNDO_LIMIT_S


UNDO_COMMAND = "[ ! -e late ] || mv late back"


class Device:
    """Directory with the undo record of one step, and its processes on this machine."""

    def __init__(self, place, shell):
        self.place, self.shell, self.begun = place, shell, []
        self.write_script()
        (place / PROGRESS).write_text("1\n")

    def write_script(self):
        entry = make_undo_entry(1, Step("true", "an example", undo=UNDO_COMMAND), "")
        (self.place / SCRIPT).write_text(build_undo_script(make_record(self.place, entry)))

    def begin(self, command):
        """Start a tracked step and wait until its process ID is written."""
        tracked = build_tracked_command(str(self.place), command)
        step = self.start("sh", "-c", f"cd {self.place}\n{tracked}")
        wait_until(lambda: self.read("doing").startswith(f"{step.pid}:"), "the step")
        return step

    def start(self, *words):
        self.begun.append(subprocess.Popen(words, start_new_session=True))
        return self.begun[-1]

    def undo(self):
        result = run_shell(f"exec {' '.join(self.shell)} {self.place / SCRIPT}")
        assert (result.stdout, result.stderr) == ("", "")

    def read(self, name):
        path = self.place / name
        return path.read_text().strip() if path.exists() else ""

    @property
    def files(self):
        return {p.name for p in self.place.iterdir()} - {SCRIPT, PROGRESS, "undone"}


@pytest.fixture
def device(sh, tmp_path):
    device = Device(tmp_path, sh)
    yield device
    for process in device.begun:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_undo_waits_for_running_step(device):
    step = device.begin("sleep 1; touch late")
    device.undo()
    assert device.files == {"back"}
    assert step.wait() == 0


@pytest.fixture
def without_patience(device, monkeypatch):
    """Write an undo script that does not wait for a running step."""
    monkeypatch.setattr(undo_store, "STEP_PATIENCE_S", 0)
    device.write_script()


@pytest.mark.usefixtures("without_patience")
def test_undo_kills_hanging_step_with_children(device):
    wait = "until [ -e go ]; do sleep 0.1; done; touch late"
    step = device.begin(f"touch a; (({wait}) & {wait}) & {wait}")
    device.undo()
    assert step.wait() == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):  # no process of the group remains
        wait_until(lambda: os.killpg(step.pid, 0), "the end of all")
    assert device.files == {"a"}


def test_background_process_of_finished_step_survives_undo(device):
    assert device.begin("sleep 60 & echo $! >pid").wait() == 0
    device.undo()
    assert device.files == {"pid"}
    os.kill(int(device.read("pid")), 0)


def test_undo_does_not_kill_process_with_reused_pid(device):
    part = build_tracked_command(str(device.place / "part-b"), "true")
    others = [device.start("sleep", "60"), device.start("sh", "-c", f"sleep 60; {part}")]
    for other in others:
        (device.place / "doing").write_text(f"{other.pid}:1\n")
        device.undo()
    assert [other.poll() for other in others] == [None] * 2


@pytest.mark.parametrize("text", ["", "\n", "x\n", "1 2\n", "-1\n"])
def test_invalid_process_id_is_ignored(text, device):
    (device.place / "doing").write_text(text)
    device.undo()
    assert device.files == set()


def test_waiting_undo_is_replaced_by_newer_one(device):
    device.begin("until [ -e go ]; do sleep 0.1; done; touch late")
    first = device.start(*device.shell, str(device.place / SCRIPT))
    wait_until(lambda: device.read("undoing").startswith(f"{first.pid}:"), "the first")
    second = device.start(*device.shell, str(device.place / SCRIPT))
    assert first.wait(60) == -signal.SIGKILL
    (device.place / "go").touch()
    assert second.wait(60) == 0
    assert device.files == {"go", "back"}


@pytest.mark.usefixtures("without_patience")
def test_undo_started_by_a_step_does_not_deadlock(device):
    device.begin(f"touch late; until [ -e go ]; do sleep 0.1; done; rm go; sh {SCRIPT}")
    (device.place / "go").touch()
    wait_until(lambda: device.files == {"back"}, "the end of undo.sh")


def test_device_log_is_saved_for_each_part_of_run(tmp_path):
    driver = make_driver("nftables", {"state_dir": str(tmp_path), "log_connections": True})
    session = Session(driver, LocalTransport("here"), ROUTER4, tmp_path)
    for text in ("one\n", "two\n"):  # the second is that of the resumed run
        (tmp_path / "connections.log").write_text(text)
        session._save_artefacts()
    files = [tmp_path / "connections.log.gz", tmp_path / "connections.log-2.gz"]
    assert [gzip.decompress(file.read_bytes()) for file in files] == [b"one\n", b"two\n"]


def make_entry(number=1, command="true", before="echo 5", old="5", gone=""):
    return undo_store.UndoEntry(number, "x", command, before=before, old=old, gone=gone)


@pytest.mark.parametrize(("old", "now", "different"), [
    ("5", "5", False),
    ("5", "6", True),
    ("", "", False),
    ("", "something", True),
    ("5", "", True),
    ("a\nb", "b\na\nc", False),
    ("a\nb", "a", True),
    ("net.x = 1\nnet.gone = 2", "net.x = 1", False),
    ("net.x = 1\nnet.y = 2", "net.x = 1\nnet.y = 3", True),
])  # fmt: skip
def test_restored_state_is_recognized(old, now, different):
    assert make_entry(old=old).differs_from(now) is different


def test_vanished_object_is_not_undone(tmp_path):
    log = tmp_path / "log"
    vanished = make_entry(2, "exit 3", gone="true")
    record = make_record(tmp_path, make_entry(1, f"echo one >>{log}", gone="false"), vanished)
    run_undo_script(record, 1, 2)
    assert log.read_text() == "one\n"
    assert (tmp_path / "undone").read_text().split() == ["2", "1", "all"]
    assert run_shell(vanished.state_command).stdout == "5\n"


@pytest.mark.parametrize("old", [
    "it's", "$(touch /nowhere/x)", "`id`", "a\nb", "-n", 'x"y', "", "{words}; {old}"])  # fmt: skip
def test_device_output_is_quoted_in_undo_script(old, tmp_path):
    out = tmp_path / "out"
    step = Step("true", "x", undo=f"printf %s {{old}} >{out}; : {{words}}", read="false")
    record = make_record(tmp_path, make_undo_entry(1, step, old))
    run_undo_script(replace(record, owner="o'wner\n`id`"), 1)
    assert out.read_text() == old


@pytest.mark.parametrize(("state", "runs"), [
    ("old", 1), ("another", 2)], ids=["restored meanwhile", "still different"])  # fmt: skip
def test_undo_is_repeated_only_while_step_differs(state, runs, tmp_path):
    delete = "echo >>runs; [ ! -e deleted ] && touch deleted"  # fails the second time
    record = make_record(tmp_path, make_entry(1, delete, "cat state", "old"), make_entry(2))
    (tmp_path / "state").write_text("another")
    store = UndoStore(LocalTransport("here"), str(tmp_path))
    run_undo_script(record, 1, 2)
    store.mark_for_undo([1])
    assert store.read_state().undone_steps == {2}
    (tmp_path / "state").write_text(state)
    run_undo_script(record, 1, 2)
    assert (tmp_path / "runs").read_text() == "\n" * runs
    assert store.read_state().undone_steps == {1, 2}


def test_status_counts_begun_steps_with_undo(tmp_path):
    record = make_record(tmp_path, make_entry(1), make_entry(2, ""), make_entry(3))
    transport = LocalTransport("here")
    UndoStore(transport, str(tmp_path)).write(record)
    run_undo_script(record, 1, 2)
    driver = make_driver("command", {"state_dir": str(tmp_path)})
    configured = Session(driver, transport, ROUTER4).read_status()["configured"]
    assert (configured["steps"], configured["to_undo"], configured["undone"]) == (3, 1, 1)


@pytest.mark.parametrize("content", [b"\xff", b"", b"{}", b"[1]"])
def test_damaged_copy_of_record_is_named(content, tmp_path):
    (tmp_path / "dut-undo.json").write_bytes(content)
    store = UndoStore(LocalTransport("dut"), "/nowhere", tmp_path, "v6t dut rollback run")
    with expect_error("undo-record-failed", mentions="dut-undo.json", hint="--forget"):
        store.read_local()


def test_bottleneck_search_that_leaves_a_record_is_an_error(tmp_path, monkeypatch):
    error = DutError("cannot be read", code="device-not-restored")
    monkeypatch.setattr(bottleneck, "watch_device", Mock(side_effect=error))
    (tmp_path / "pe").mkdir()
    for name in ("config.json", "pe/dut-undo.json"):
        (tmp_path / name).touch()
    with expect_error("device-not-restored"):
        run_console._add_bottleneck(tmp_path, Listener(), Mock(), RunData("run", {}, [], {}, {}))
