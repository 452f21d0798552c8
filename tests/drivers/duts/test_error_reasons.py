"""Errors of a device show its reason and a useful hint."""

from pathlib import Path

import pytest
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.duts.session.session import Session
from v6t.drivers.transport.process import LocalTransport
from v6t.tests.expect import expect_error

from .intents import ROUTER4


def open_session(tmp_path, **step):
    """Open a session of the command driver whose device is this machine."""
    options = {"base": False, "state_dir": str(tmp_path / "state"), "steps": [step] if step else []}
    session = Session(make_driver("command", options), LocalTransport("a machine"), ROUTER4)
    session.open()
    return session


STUBBORN = {"command": "true", "why": "a file", "undo": "rm /nowhere/file"}
UNPARSABLE = {"command": "true", "why": "a file", "undo": "true", "before": "echo a'b"}


def test_failed_undo_shows_the_error_of_the_device(tmp_path):
    session = open_session(tmp_path, **STUBBORN)
    session.commit()
    with expect_error("device-not-restored", mentions="No such file") as error:
        session.rollback()
    assert "--forget" in error.value.hint
    assert session.rollback(forget=True) == ["a file: not undone"]
    session.close()


def test_command_that_the_shell_cannot_parse_is_not_a_lost_connection(tmp_path):
    session = open_session(tmp_path, **UNPARSABLE)
    with expect_error("command-failed", mentions="echo a'b") as error:
        session.commit()
    session.close()
    assert error.value.hint == "correct this command; nothing was changed"
    assert not Path(tmp_path / "state" / "record.json").exists()


@pytest.mark.parametrize(
    ("reason", "code"),
    [("Permission denied", "missing-permission"), ("Read-only file system", "file-unwritable")],
)
def test_reason_why_a_directory_cannot_be_locked_is_shown(tmp_path, monkeypatch, reason, code):
    script = f"echo 'mkdir: cannot create directory: {reason}' >&2; exit 1"
    monkeypatch.setattr("v6t.drivers.duts.session.connection.build_lock_script", lambda *_: script)
    with expect_error(code, mentions=reason):
        open_session(tmp_path)
