"""A rollback undoes all changes, or reports the remaining ones with undo commands and keeps the undo record."""

import os
import shutil
from contextlib import closing, nullcontext
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from v6t.base.errors import DutError, UsageError
from v6t.core.runs import dut
from v6t.drivers.duts.plan import Check, Plan, Step, expect_text
from v6t.drivers.duts.session.connection import Heartbeat, Lock
from v6t.drivers.duts.session.undo_store import DamagedRecordError
from v6t.drivers.transport.contract import Output
from v6t.drivers.transport.process import LocalTransport
from v6t.tests.expect import expect_error

from .remote_site import wait_until
from .support import ChangedTransport, make_file_step, run_shell


def list_changes(place):
    return [name for name in ("one", "two", "three") if (place / name).exists()]


@pytest.fixture
def session(open_device, tmp_path):
    """Provide a committed session with a record directory and a transport that can be changed."""
    session = open_device(transport=ChangedTransport(), record_dir=tmp_path / "run")
    session.commit()
    return session


def prefix_timer_start(session, prefix):
    """Run a shell line before the command that starts the rollback timer."""
    session.transport.replacements["\nstart_timer"] = lambda line, text, _: LocalTransport("x").run(
        f"{prefix}; {line}", text
    )


def test_rollback_in_another_network_namespace_is_refused(session, open_device, tmp_path):
    session.close()
    undo_command = f"sh {tmp_path}/state/undo.sh"
    with expect_error("device-not-restored", mentions="machine's own", hint=undo_command) as error:
        open_device(ssh={"netns": "other"}).rollback()
    assert "'other'" in error.value.message
    assert list_changes(tmp_path) == ["one", "two"]
    assert (tmp_path / "state/record.json").exists()


@pytest.mark.parametrize("answer", [Output(2, "", "cannot fork"), Output(0, "\n", "")])
def test_unreadable_boot_identifier_is_not_a_reboot(answer, session, tmp_path):
    session.transport.replacements["random/boot_id"] = lambda *_: answer
    with expect_error("unexpected-answer"):
        session.rollback()
    with expect_error("unexpected-answer"):
        session.read_boot_id()
    assert list_changes(tmp_path) == ["one", "two"]
    session.transport.replacements.clear()
    session.rollback()
    assert list_changes(tmp_path) == []


def test_device_without_boot_identifier_has_not_rebooted(open_device, tmp_path):
    answers = iter([Output(0, "first\n", "")])
    session = open_device(transport=ChangedTransport())
    session.transport.replacements["random/boot_id"] = lambda *_: next(answers, Output(0, "", ""))
    with expect_error("not-rebooted"):
        session._reboot_device(Step("true", "reboot", deadline_s=0.1, reboots=True))
    assert list_changes(tmp_path) == []


def test_rollback_continues_if_timer_cannot_start(session, tmp_path, caplog):
    """The earlier timer keeps running until the rollback."""
    pid = (tmp_path / "state/guard/pid").read_text()
    prefix_timer_start(session, "ulimit -f 0")
    with expect_error("rollback-timer-failed") as error:
        session.schedule_rollback(60)
    assert error.value.hint == ""
    assert (tmp_path / "state/guard/pid").read_text() == pid
    session.rollback()
    assert "cannot start the rollback timer" in caplog.text
    assert list_changes(tmp_path) == []
    assert sorted(p.name for p in (tmp_path / "state").iterdir()) == ["beat", "lock"]


@pytest.mark.parametrize("prefix", ["ulimit -f 0", "setsid() { false; }"])
def test_device_without_working_timer_is_not_changed(prefix, open_device, tmp_path):
    session = open_device(transport=ChangedTransport())
    prefix_timer_start(session, prefix)
    with expect_error("rollback-timer-failed") as error:
        session.commit()
    assert error.value.hint.startswith("nothing was changed; dut.options.undo_after_s: 0")
    assert list_changes(tmp_path) == []
    assert not (tmp_path / "state/record.json").exists()


@pytest.mark.parametrize("copy", [
    KeyboardInterrupt, [Output(0, "H4sIA", "")], [Output(0, "", "no such file")]])  # fmt: skip
def test_device_is_restored_if_log_copy_fails(copy, session, tmp_path, monkeypatch):
    paths = property(lambda self: {"connections.log": "/nonexistent"})
    monkeypatch.setattr(type(session.driver.options), "artefact_paths", paths)
    session.transport.replacements["gzip -c"] = Mock(side_effect=copy)
    with pytest.raises(KeyboardInterrupt) if copy is KeyboardInterrupt else nullcontext():
        session.rollback()
    assert list_changes(tmp_path) == []
    assert list(tmp_path.glob("run/*")) == []


@pytest.mark.parametrize("is_new", [False, True])
def test_lost_state_directory_is_an_error_until_changes_are_undone(
    is_new, session, open_device, tmp_path
):
    if is_new:
        session.close()
        session = open_device(record_dir=tmp_path / "run")
    shutil.rmtree(tmp_path / "state")
    with expect_error("device-not-restored", mentions="two: nothing before") as error:
        session.rollback()
    local, _, command = error.value.hint.removeprefix("copy ").partition(" to ")
    shutil.copy(local, tmp_path / "state/undo.sh")
    undo_commands, _, alternative = command.partition("run there: ")[2].partition("; ")
    assert "--forget" in alternative
    run_shell(undo_commands)
    assert list_changes(tmp_path) == []
    assert session.rollback() == ["there is nothing to roll back"]
    assert list(tmp_path.glob("run/*")) == []


def test_failed_login_at_rollback_shows_undo_commands(session):
    session.confirm()
    for error in (UsageError("no key file", code="file-not-found"), OSError(28, "no space")):
        session.transport.open = Mock(side_effect=error)
        session.close()
        code = getattr(error, "code", "unreachable")
        with expect_error(code, kind=DutError, hint="undo.sh") as info:
            session.rollback()
        assert "changes of v6t may still be on the device" in info.value.message


@pytest.mark.parametrize(("command", "text", "words"), [
    ("undo", "echo it's gone", "'one'"), ("before", "echo a'b", "echo a'b")])  # fmt: skip
def test_command_with_syntax_error_prevents_commit(command, text, words, open_device, tmp_path):
    """Each command is parsed separately, because quotes of two commands would match."""
    steps = [make_file_step(tmp_path, name, **{command: text}) for name in ("one", "two")]
    with expect_error("command-failed", mentions=words) as error:
        open_device(*steps).commit()
    assert error.value.hint == "correct this command; nothing was changed"
    assert list_changes(tmp_path) == []
    assert not (tmp_path / "state/record.json").exists()


def test_commit_is_rejected_while_chain_part_is_configured(open_device, tmp_path):
    for name, state in (("one", "state"), ("two", "state/part-two")):
        with closing(open_device(make_file_step(tmp_path, name), part=name, state=state)) as part:
            part.commit()
            part.confirm()
    with expect_error("device-not-restored", mentions="two"):
        open_device(make_file_step(tmp_path, "three")).commit()
    assert list_changes(tmp_path) == ["one", "two"]


def test_scheduled_rollback_does_not_undo_slow_commit(open_device, tmp_path):
    slow = {"command": "sleep 4.5", "why": "slow", "undo": ""}
    session = open_device(make_file_step(tmp_path, "one"), slow, make_file_step(tmp_path, "two"))
    session.commit(revert_in=2)
    assert list_changes(tmp_path) == ["one", "two"]
    session.schedule_rollback(2)
    wait_until(lambda: list_changes(tmp_path) == [], "the timer")


def test_steps_flushes_and_states_may_be_longer_than_an_argument(open_device, tmp_path):
    padding, session = f": {'x' * (1 << 17)}\n", open_device()
    step, flush = (
        Step(f"{padding}cat >{tmp_path}/{name}", name, name, undo=f"rm {tmp_path}/{name}",
             read=f"seq 40000; ls {tmp_path}/{name} || true", gone_test="false")
        for name in ("one", "two")
    )  # fmt: skip
    session.driver.plan = lambda *_: Plan("command", "", (step,), (flush,))
    session.commit()
    session.flush()
    assert [(tmp_path / name).read_text() for name in ("one", "two")] == ["one\n", "two\n"]
    assert len(session.read_record().undo[0].old) > 1 << 17
    assert session.rollback() == ["one: undone"]


@pytest.mark.parametrize(("late_frames", "is_emptied"), [(0, True), (2, True), (9, False)])
def test_flush_is_repeated_while_late_frames_open_connections(
    open_device, tmp_path, monkeypatch, late_frames, is_emptied
):
    monkeypatch.setattr("v6t.drivers.duts.session.session.FLUSH_PAUSE_S", 0)
    monkeypatch.setattr("v6t.drivers.duts.session.session.FLUSH_TRIES", 10)
    monkeypatch.setattr("v6t.drivers.duts.session.session.READS_PER_FLUSH", 2)
    flushes, table, session = tmp_path / "flushes", tmp_path / "table", open_device()
    command = f"echo >>{flushes}; [ $(wc -l <{flushes}) -gt {late_frames} ] || echo late >{table}"
    check = Check(f"cat {table} 2>/dev/null; true", expect_text(""))
    session.driver.plan = lambda *_: Plan(
        "command", "", (), (Step(f"rm -f {table}; {command}", "no connection", proof=check),)
    )
    session.commit()
    with nullcontext() if is_emptied else expect_error("check-failed"):
        session.flush()
    assert flushes.read_text().count("\n") == (late_frames + 1 if is_emptied else 5)


def test_forget_does_not_read_states(session):
    session.read_states = Mock(side_effect=DutError("no answer", code="unexpected-answer"))
    with expect_error("unexpected-answer"):
        session.rollback()
    assert session.rollback(forget=True) == ["two: undone", "one: undone"]
    assert session.read_record() is None


def test_failed_verification_is_rolled_back(open_device, tmp_path, monkeypatch):
    check = {"command": f"echo >>{tmp_path}/reads; wc -l <{tmp_path}/reads", "equals": "1"}
    session = open_device(make_file_step(tmp_path, "one", check=check))
    session.close()
    monkeypatch.setattr(dut, "_make_session", lambda *_, **__: session)
    with expect_error("check-failed") as error:
        dut.commit(SimpleNamespace(rollback_command="x"))
    assert error.value.hint == "the device is as it was before"
    assert list_changes(tmp_path) == []


@pytest.fixture
def failing_session(open_device, tmp_path):
    """Provide a committed session; the undo of its second step has no effect while a file exists."""
    undo = f"[ -e {tmp_path}/undo-fails ] || rm {tmp_path}/two"
    steps = [make_file_step(tmp_path, "one"), make_file_step(tmp_path, "two", undo=undo)]
    session = open_device(*steps, record_dir=tmp_path / "run")
    session.commit()
    (tmp_path / "undo-fails").touch()
    return session


def test_rollback_with_difference_keeps_record(failing_session, tmp_path):
    """The next commit must not save the remaining difference as the original state."""
    for work in (failing_session.rollback, failing_session.rollback, failing_session.commit):
        with expect_error("device-not-restored", hint="v6t dut rollback") as info:
            work()
        assert "--forget" in info.value.hint
        assert (tmp_path / "run/dut-undo.json").exists()
        assert failing_session.read_record() is not None
    (tmp_path / "undo-fails").unlink()
    failing_session.commit()
    assert "two: undone" in failing_session.rollback()
    assert list_changes(tmp_path) == []
    assert failing_session.read_record() is None
    assert failing_session.rollback()[0].startswith("there is nothing")


def test_forget_accepts_differing_state(failing_session, tmp_path):
    lines = failing_session.rollback(forget=True)
    assert "one: undone" in lines
    assert any(f"nothing before, '{tmp_path}/two' now" in line for line in lines)
    assert failing_session.read_record() is None
    assert sorted(os.listdir(tmp_path / "state")) == ["beat", "lock"]


def test_progress_of_earlier_run_is_ignored(open_device, tmp_path):
    session = open_device()
    numbers = "".join(f"{n}\n" for n in range(1, 14))
    (tmp_path / "state/undone").write_text(f"{numbers}all\n")
    (tmp_path / "state/progress").write_text(numbers)
    session.commit()
    assert (tmp_path / "state/progress").read_text().split() == ["1", "2"]
    session.rollback()
    assert list_changes(tmp_path) == []


@pytest.mark.parametrize("damage", [
    "truncate -s 100 record.json", "truncate -s 0 record.json", "rm record.json",
    "sed -i s,v6t-undo/1,v6t-undo/9, record.json",
])  # fmt: skip
def test_damaged_record_error_offers_undo_script(damage, session, tmp_path):
    run_shell(damage, cwd=tmp_path / "state")
    for work in (session.rollback, session.commit, session.read_status):
        undo_command = f"sh {tmp_path}/state/undo.sh"
        with expect_error("undo-record-failed", kind=DamagedRecordError, hint=undo_command) as info:
            work()
        assert f"`v6t dut rollback {tmp_path}/run --by-script` runs it" in info.value.hint
    assert list_changes(tmp_path) == ["one", "two"]
    assert "undo.sh" in session.rollback(by_script=True)[0]
    assert list_changes(tmp_path) == []
    assert session.rollback()[0].startswith("there is nothing")


def test_local_undo_script_is_named_if_device_lost_it(session, tmp_path):
    run_shell("rm record.json undo.sh", cwd=tmp_path / "state")
    with expect_error("undo-record-failed", kind=DamagedRecordError, hint="dut-undo.sh"):
        session.rollback()


def test_interrupted_record_removal_leaves_device_unconfigured(session, tmp_path):
    """v6t removes the record first and the completion mark last."""
    run_shell("sh undo.sh && rm record.json", cwd=tmp_path / "state")
    assert session.rollback()[0].startswith("there is nothing")
    session.commit()
    session.rollback()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize(("command", "code"), [
    ("mkdir -m 700 v6t; chown nobody v6t", "device-busy"),
    ("mkdir -m 777 v6t", "device-busy"),
    ("mkdir -m 770 v6t", "device-busy"),
    ("mkdir -m 700 v6t; chown nobody .", "device-busy"),
    ("chmod 777 .", "device-busy"),
    ("ln -s /run v6t", "device-busy"),
    ("touch v6t", "file-unwritable"),
])  # fmt: skip
def test_foreign_state_directory_is_rejected(command, code, open_device, tmp_path):
    """Its owner could otherwise make v6t run a script as root."""
    run_shell(f"mkdir -m 755 elsewhere; cd elsewhere; {command}", cwd=tmp_path)
    with expect_error(code, mentions=f"{tmp_path}/elsewhere"):
        open_device(state="elsewhere/v6t")


def test_denied_permission_is_shown(open_device, monkeypatch):
    script = "echo 'mkdir: cannot create directory: Permission denied' >&2; exit 1"
    monkeypatch.setattr("v6t.drivers.duts.session.connection.build_lock_script", lambda *_: script)
    with expect_error("missing-permission", mentions="Permission denied"):
        open_device()


@pytest.mark.parametrize("command", ["mkdir -m 755 v6t", "chmod 1777 .", "true"])
def test_state_directory_is_private(command, open_device, tmp_path):
    run_shell(f"mkdir -m 755 elsewhere; cd elsewhere; {command}", cwd=tmp_path)
    open_device(state="elsewhere/v6t").commit()
    place = tmp_path / "elsewhere/v6t"
    files = ("", "record.json", "undo.sh", "progress")
    modes = [f"{(place / name).stat().st_mode & 0o7777:o}" for name in files]
    assert modes == ["700", "600", "600", "600"]


def test_lock_of_silent_owner_expires(tmp_path, monkeypatch):
    monkeypatch.setattr("v6t.drivers.duts.session.connection.LOCK_SILENCE_S", 2)
    place, second = str(tmp_path / "state"), LocalTransport("second")
    silent = Lock(LocalTransport("first"), place, "alice@one process 1")
    silent.stop()
    with expect_error("device-busy"):
        Lock(second, place, "bob@two process 2")
    lock = tmp_path / "state/lock"
    wait_until(lambda: not lock.is_symlink(), "the lock frees itself")
    other = Lock(second, place, "bob@two process 2")
    silent.release()  # does not release the new owner's lock
    assert "bob@two" in str(lock.readlink())
    other.release()
    wait_until(lambda: os.listdir(lock.parent) == [], "nothing is left")


def test_unanswered_beats_count_as_silence():
    silent = LocalTransport("silent").hold("cat >/dev/null")
    beats = Heartbeat(silent, 0.05)
    wait_until(lambda: beats.silence_s > 0.5, "silence")
    assert not beats.await_answer(0.2)
    beats.stop()
    silent.release()


def test_await_answer_does_not_wait_for_next_beat():
    """Earlier output does not count as an answer."""
    echo = LocalTransport("echo").hold("cat")
    echo.send = send = Mock(side_effect=echo.send)
    beats = Heartbeat(echo, 3600.0)
    for number in (1, 2, 3):
        assert beats.await_answer(60.0)
        assert send.call_count == number
    echo.release()
    assert not beats.await_answer(60.0)
    beats.stop()
