"""The script that takes everything back, run by a shell."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from dataclasses import replace
from unittest.mock import Mock

import pytest
from v6t.drivers.duts import undo_record
from v6t.drivers.duts.plan import Step
from v6t.drivers.duts.restoring import BLIND_DEADLINE_S, restore
from v6t.drivers.duts.store import Store
from v6t.drivers.duts.undo_record import (
    DOING,
    PROGRESS,
    QUICK_S,
    RECORD,
    SCRIPT,
    UNDOING,
    Record,
    doing,
    here_document,
    script,
    undo_deadline_s,
    undo_of,
)
from v6t.drivers.transport.here import HereTransport

from .field import until


@pytest.mark.parametrize(
    "undo",
    [
        "printf 'b\\na\\n' | while read n; do touch $n; done",
        "echo b >names; while read n; do touch $n a; done <names; rm names",
        "touch a b",
        "touch a\ntouch b",
    ],
    ids=["pipeline", "list", "command", "lines"],
)
def test_every_part_of_an_undo_command_has_its_effect(undo, tmp_path):
    entry = undo_of(1, Step("true", "an example", undo=undo), "")
    record = Record("me", "boot", "command", "x", "now", str(tmp_path), (entry,))
    (tmp_path / PROGRESS).write_text("1\n")
    done = subprocess.run(["sh"], input=script(record), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert {p.name for p in tmp_path.iterdir()} == {"a", "b", PROGRESS, "undone"}
    (tmp_path / "a").unlink()
    again = subprocess.run(
        ["sh"], input=script(replace(record, owner="you")), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert again.returncode == 0
    assert not (tmp_path / "a").exists()


def test_a_command_reads_its_own_input_or_none():
    assert here_document("cat", "") == "cat </dev/null"
    for command, text, said in (
        ("cat", "x\n", "x\n"),
        ("cat | cat", "", ""),
        ("cat; cat", "x", "x\n"),
    ):
        shell = here_document(command, text)
        done = subprocess.run(
            ["sh", "-c", shell], input="not this", capture_output=True, text=True, check=False
        )
        assert done.stdout == said, shell


class Timed(HereTransport):
    """Remembers how long each command might have taken."""

    def __init__(self):
        super().__init__("here")
        self.deadlines = {}

    def run(self, command, text="", deadline_s=None):
        self.deadlines[command] = deadline_s
        return super().run(command, text, deadline_s)


def restored(place, *, damaged=False):
    """A step is taken back in a directory; which deadline that had."""
    place.mkdir()
    slow = Step("true", "a commit", undo="touch ../undo-was-here", deadline_s=600)
    record = Record(
        *("me", "boot", "command", "x", "now", str(place), (undo_of(1, slow, ""),)),
        deadline_s=undo_deadline_s([slow]),
    )
    transport = Timed()
    store = Store(transport, str(place))
    store.write(record)
    (place / PROGRESS).write_text("1\n")
    if damaged:
        (place / RECORD).write_text("{")
    session = Mock(name="session", lost=False, transport=transport)
    session.boot.return_value, session.is_others.return_value = "boot", False
    session.differences.return_value = {}
    restore(session, store, forget=False, by_script=damaged)
    assert (place.parent / "undo-was-here").exists()
    return transport.deadlines[f"sh {place}/{SCRIPT}"]


def test_taking_back_may_take_as_long_as_its_steps(tmp_path):
    assert restored(tmp_path / "state") == QUICK_S + 600


def test_where_no_record_says_how_long_it_takes_it_may_take_long(tmp_path):
    assert restored(tmp_path / "state", damaged=True) == BLIND_DEADLINE_S


def test_only_steps_that_are_slow_make_taking_back_longer():
    quick, slow = Step("true", "x", undo="true"), Step("true", "x", undo="true", deadline_s=100)
    assert undo_deadline_s([quick] * 50) == QUICK_S
    assert undo_deadline_s([quick, slow, slow]) == QUICK_S + 200
    assert undo_deadline_s([replace(slow, undo="")]) == QUICK_S


# --------------------------------------- what v6t was stopped in goes on on the device

TAKEN_BACK = "[ ! -e late ] || mv late back"


class Device:
    """A directory with the record of one step, and processes of this machine."""

    def __init__(self, place):
        self.place = place
        self.begun = []
        entry = undo_of(1, Step("true", "an example", undo=TAKEN_BACK), "")
        self.record = Record("me", "boot", "command", "x", "now", str(place), (entry,))
        (place / SCRIPT).write_text(script(self.record))
        (place / PROGRESS).write_text("1\n")

    def begin(self, command):
        """The step, whose v6t is not there any more."""
        step = self.start("sh", "-c", f"cd {self.place}\n{doing(str(self.place), command)}")
        until(lambda: self.read(DOING) == str(step.pid), "the step")
        return step

    def start(self, *words):
        process = subprocess.Popen(words, start_new_session=True)
        self.begun.append(process)
        return process

    def undo(self):
        done = subprocess.run(
            ["sh", self.place / SCRIPT], capture_output=True, text=True, check=False, timeout=60
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def read(self, name):
        path = self.place / name
        return path.read_text().strip() if path.exists() else ""

    @property
    def files(self):
        return {p.name for p in self.place.iterdir()} - {SCRIPT, PROGRESS, "undone"}


@pytest.fixture
def device(tmp_path):
    made = Device(tmp_path)
    yield made
    for process in made.begun:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_step_that_comes_to_its_end_is_waited_for(device):
    """What it leaves is whole, and taken back like that of any other."""
    step = device.begin("sleep 1; touch late")
    device.undo()
    assert device.files == {"back"}
    assert step.wait() == 0


def test_a_step_that_hangs_is_ended_with_all_that_is_under_it(device, monkeypatch):
    monkeypatch.setattr(undo_record, "PATIENCE_S", 0)
    (device.place / SCRIPT).write_text(script(device.record))
    wait = "until [ -e go ]; do sleep 0.1; done; touch late"
    step = device.begin(f"touch a; (({wait}) & {wait}) & {wait}")
    device.undo()
    assert step.wait() == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):  # nobody of them is left, stopped or not
        until(lambda: os.killpg(step.pid, 0), "the end of all")
    assert device.files == {"a"}


def test_what_a_step_has_started_for_long_is_none_of_it_when_it_is_done(device):
    step = device.begin("sleep 60 & echo $! >pid")
    assert step.wait() == 0
    device.undo()
    assert device.files == {"pid"}
    os.kill(int(device.read("pid")), 0)


def test_a_number_that_is_anothers_now_is_left_alone(device):
    others = [
        device.start("sleep", "60"),
        device.start("sh", "-c", f"sleep 60; : {device.place}/{DOING}"),
        device.start("sh", "-c", f"sleep 60; {doing(str(device.place / 'part-b'), 'true')}"),
    ]
    for other in others:
        (device.place / DOING).write_text(f"{other.pid}\n")
        device.undo()
    assert [other.poll() for other in others] == [None] * 3


@pytest.mark.parametrize("text", ["", "\n", "x\n", "1 2\n", "-1\n"])
def test_no_number_is_no_process(text, device):
    (device.place / DOING).write_text(text)
    device.undo()
    assert device.files == set()


def test_an_undo_that_waits_for_a_step_gives_way_to_another(device):
    device.begin("until [ -e go ]; do sleep 0.1; done; touch late")
    first = device.start("sh", str(device.place / SCRIPT))
    until(lambda: device.read(UNDOING) == str(first.pid), "the first")
    second = device.start("sh", str(device.place / SCRIPT))
    assert first.wait(60) == -signal.SIGKILL
    (device.place / "go").touch()
    assert second.wait(60) == 0
    assert device.files == {"go", "back"}


def test_a_step_that_undoes_everything_itself_does_not_wait_for_ever(device, monkeypatch):
    monkeypatch.setattr(undo_record, "PATIENCE_S", 0)
    (device.place / SCRIPT).write_text(script(device.record))
    device.begin(f"touch late; until [ -e go ]; do sleep 0.1; done; rm go; sh {SCRIPT}")
    (device.place / "go").touch()
    until(lambda: device.files == {"back"}, "the end of undo.sh")
