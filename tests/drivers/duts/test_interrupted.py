"""Ctrl-C after each command on a device, and causes of errors in messages."""

import shutil
from contextlib import closing, suppress
from itertools import count
from types import SimpleNamespace
from unittest.mock import Mock, call

import pytest
from v6t.base.errors import DutError, hides_interrupt
from v6t.core.log import copy_records
from v6t.core.runs import dut
from v6t.drivers.duts.chain.session import run_all_actions
from v6t.drivers.transport.process import LocalTransport
from v6t.tests.expect import expect_error

from .support import ChangedTransport, make_file_session


def interrupt_after(number):
    """Return a transport that raises KeyboardInterrupt after the command with this number."""
    transport, numbers = ChangedTransport(), count(1)

    def run(*command):
        result = LocalTransport("a machine").run(*command)
        if next(numbers) == number:
            raise KeyboardInterrupt
        return result

    transport.replacements[""] = run
    return transport


def list_files(place):
    """List v6t's files on the device, without its empty directory."""
    return sorted(p.name for p in place.rglob("*") if p.name != "state")


def is_interrupted(action):
    with suppress(KeyboardInterrupt):
        action()
        return False
    return True


@pytest.fixture
def is_commit_interrupted(monkeypatch):
    """Return a function that runs ``v6t dut commit`` and returns whether it was interrupted."""

    def run(device):
        monkeypatch.setattr(dut, "_make_session", lambda *_, **__: device)
        return is_interrupted(lambda: dut.commit(SimpleNamespace(rollback_command="this")))

    return run


def test_interrupted_commit_is_rolled_back(tmp_path, is_commit_interrupted):
    """Includes interrupts of read-backs and of writing the undo record."""
    for after in count(1):
        place = tmp_path / str(after)
        place.mkdir()
        if not is_commit_interrupted(make_file_session(place, transport=interrupt_after(after))):
            break
        assert list_files(place) == [], f"after {after} commands"
    assert after > 10
    assert {"one", "two", "record.json"} <= set(list_files(place))


def test_commit_interrupted_during_message_is_rolled_back(tmp_path, is_commit_interrupted):
    messages = []

    def show(text):
        messages.append(text)
        if "configured as" in text:
            raise KeyboardInterrupt

    with copy_records(lambda text: None, show):
        assert is_commit_interrupted(make_file_session(tmp_path))
    assert "configured as" in messages[0]
    assert list_files(tmp_path) == []


def test_commit_interrupted_while_writing_record_leaves_none(tmp_path, is_commit_interrupted):
    def write_part(command, text, deadline_s):
        LocalTransport("a machine").run(command.replace("sync &&", "exit 1;"), text, deadline_s)
        raise KeyboardInterrupt

    transport = ChangedTransport()
    transport.replacements["write_file record.json"] = write_part
    assert is_commit_interrupted(make_file_session(tmp_path, transport=transport))
    assert list_files(tmp_path) == []


def test_commit_interrupted_too_late_reports_configured_device(tmp_path, is_commit_interrupted):
    messages = []
    transport = LocalTransport("a machine")
    transport.close = Mock(side_effect=KeyboardInterrupt)
    with copy_records(lambda text: None, messages.append):
        assert is_commit_interrupted(make_file_session(tmp_path, transport=transport))
    assert {"one", "two"} <= set(list_files(tmp_path))
    assert "`this`" in messages[-1]


def test_interrupted_rollback_is_completed(tmp_path):
    place, configured = tmp_path / "device", tmp_path / "configured"
    place.mkdir()
    with closing(make_file_session(place)) as first:
        first.open()
        first.commit()
        first.confirm()
    shutil.copytree(place, configured, symlinks=True)
    for after in count(1):
        shutil.rmtree(place)
        shutil.copytree(configured, place, symlinks=True)
        with closing(make_file_session(place, transport=interrupt_after(after))) as second:
            second.open()
            interrupted = is_interrupted(second.rollback)
        assert list_files(place) == [], f"after {after} commands"
        if not interrupted:
            break
    assert after > 5


def test_interrupted_rollback_of_chain_restores_every_part():
    parts = Mock()
    parts.stops.side_effect = KeyboardInterrupt
    parts.restores.return_value = []
    with pytest.raises(KeyboardInterrupt):
        run_all_actions([parts.stops, parts.restores])
    assert parts.mock_calls == [call.stops(), call.restores()]
    for names in (["stops", "fails", "restores"], ["fails", "stops", "fails"]):
        parts.reset_mock()
        parts.fails.side_effect = DutError("one is left", code="command-failed")
        assert not hides_interrupt(parts.fails.side_effect)
        with expect_error("command-failed") as info:
            run_all_actions([getattr(parts, name) for name in names])
        assert hides_interrupt(info.value)
        assert [name for name, _, _ in parts.mock_calls] == names


def test_failed_undo_shows_the_error_of_the_device(open_device):
    session = open_device({"command": "true", "why": "a file", "undo": "rm /nowhere/file"})
    session.commit()
    with expect_error("device-not-restored", mentions="No such file") as error:
        session.rollback()
    assert "--forget" in error.value.hint
    assert session.rollback(forget=True) == ["a file: not undone"]


@pytest.mark.parametrize(("action", "words"), [
    (dut.rollback, "`this`"), (dut.confirm, "`v6t dut status`"), (dut.flush, "`v6t dut status`")])  # fmt: skip
def test_command_interrupted_before_login_names_next_command(action, words, tmp_path, monkeypatch):
    device = make_file_session(tmp_path)
    device.open = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr(dut, "_make_session", lambda *_, **__: device)
    monkeypatch.setattr(dut, "_list_lab_devices", lambda _: [])
    setup = SimpleNamespace(rollback_command="this", driver=device.driver, intent=device.intent)
    messages = []
    with copy_records(lambda text: None, messages.append):
        assert is_interrupted(lambda: action(setup))
    assert words in messages[-1]
