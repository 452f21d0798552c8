"""The script that takes everything back, run by a shell."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from unittest.mock import Mock

import pytest
from v6t.drivers.duts.plan import Step
from v6t.drivers.duts.restoring import BLIND_DEADLINE_S, restore
from v6t.drivers.duts.store import Store
from v6t.drivers.duts.undo_record import (
    PROGRESS,
    QUICK_S,
    RECORD,
    SCRIPT,
    Record,
    here_document,
    script,
    undo_deadline_s,
    undo_of,
)
from v6t.drivers.transport.here import HereTransport


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
