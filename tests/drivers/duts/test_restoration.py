"""A rollback undoes everything, or says what is left and how to undo it."""

import shutil
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from v6t.base.errors import DutError, UsageError
from v6t.core.runs import dut
from v6t.drivers.duts.plan import Plan, Step
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.duts.session.session import Session
from v6t.drivers.transport.contract import Output
from v6t.drivers.transport.process import LocalTransport
from v6t.tests.expect import expect_error

from .field import wait_until
from .intents import ROUTER4
from .support import run_shell


class ChangedTransport(LocalTransport):
    """Transport to this machine that replaces the commands with a given text in them."""

    def __init__(self):
        super().__init__("a machine")
        self.replacements = {}

    def run(self, command, text="", deadline_s=None):
        for part, replacement in self.replacements.items():
            if part in command:
                return replacement(command, text, deadline_s)
        return super().run(command, text, deadline_s)


def make_step(place, name, **changes):
    """Make a step that creates a file."""
    return {
        "command": f"touch {place}/{name}",
        "why": name,
        "undo": f"rm {place}/{name}",
        "before": f"ls {place}/{name} 2>/dev/null || true",
        **changes,
    }


@pytest.fixture
def device(tmp_path):
    """Return a factory of open sessions with a directory as device."""
    sessions = []

    def make(*steps, transport=None, ssh=None, record_dir=None, part="", state="state"):
        options = {
            "base": False,
            "steps": steps or [make_step(tmp_path, name) for name in ("one", "two")],
            "state_dir": f"{tmp_path}/{state}",
            "ssh": {"host": "dut.example.net", **(ssh or {})},
        }
        driver = make_driver("command", options)
        transport = transport or LocalTransport("a machine")
        session = Session(driver, transport, ROUTER4, record_dir, part=part)
        sessions.append(session)
        session.open()
        return session

    yield make
    for session in sessions:
        session.close()


def list_changes(place):
    """List the files that the steps have made."""
    return sorted(p.name for p in place.iterdir() if p.name in ("one", "two", "three"))


def test_rollback_in_another_network_namespace_is_refused(device, tmp_path):
    session = device()
    session.commit()
    session.close()
    with expect_error("device-not-restored", mentions="machine's own") as error:
        device(ssh={"netns": "other"}).rollback()
    assert "'other'" in error.value.message
    assert f"sh {tmp_path}/state/undo.sh" in error.value.hint
    assert list_changes(tmp_path) == ["one", "two"]
    assert (tmp_path / "state/record.json").exists()


@pytest.mark.parametrize("answer", [Output(2, "", "cannot fork"), Output(0, "\n", "")])
def test_unreadable_boot_identifier_is_not_a_reboot(answer, device, tmp_path):
    transport = ChangedTransport()
    session = device(transport=transport)
    session.commit()
    transport.replacements["random/boot_id"] = lambda *_: answer
    with expect_error("unexpected-answer"):
        session.rollback()
    with expect_error("unexpected-answer"):
        session.read_boot_id()
    assert list_changes(tmp_path) == ["one", "two"]
    transport.replacements.clear()
    session.rollback()
    assert list_changes(tmp_path) == []


def test_device_without_boot_identifier_has_not_rebooted(device, tmp_path):
    answers = iter([Output(0, "first\n", "")])
    transport = ChangedTransport()
    transport.replacements["random/boot_id"] = lambda *_: next(answers, Output(0, "", ""))
    session = device(transport=transport)
    with expect_error("not-rebooted"):
        session._reboot_device(Step("true", "reboot", deadline_s=0.1, reboots=True))
    assert list_changes(tmp_path) == []


def test_rollback_goes_on_if_its_timer_cannot_be_written(device, tmp_path, caplog):
    """The earlier timer keeps running until then."""
    transport = ChangedTransport()
    session = device(transport=transport)
    session.commit()
    pid = (tmp_path / "state/guard/pid").read_text()
    transport.replacements["\nstart_timer"] = lambda command, text, _: LocalTransport("x").run(
        f"ulimit -f 0; {command}", text
    )
    with expect_error("rollback-timer-failed") as error:
        session.schedule_rollback(60)
    assert error.value.hint == ""
    assert (tmp_path / "state/guard/pid").read_text() == pid
    session.rollback()
    assert "cannot start the rollback timer" in caplog.text
    assert sorted(p.name for p in (tmp_path / "state").iterdir()) == ["beat", "lock"]
    with expect_error("rollback-timer-failed") as error:
        session.commit()
    assert error.value.hint.startswith("nothing was changed")
    assert list_changes(tmp_path) == []


def interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "copy", [interrupt, lambda *_: Output(0, "H4sIA", ""), lambda *_: Output(0, "", "no such file")]
)
def test_device_is_restored_although_its_log_cannot_be_copied(copy, device, tmp_path, monkeypatch):
    paths = property(lambda self: {"connections.log": "/nonexistent"})
    transport = ChangedTransport()
    session = device(transport=transport, record_dir=tmp_path / "run")
    monkeypatch.setattr(type(session.driver.options), "artefact_paths", paths)
    session.commit()
    transport.replacements["gzip -c"] = copy
    if copy is interrupt:
        with pytest.raises(KeyboardInterrupt):
            session.rollback()
    else:
        session.rollback()
    assert list_changes(tmp_path) == []
    assert list(tmp_path.glob("run/*")) == []


@pytest.mark.parametrize("is_same_session", [True, False])
def test_lost_state_directory_is_an_error_while_changes_are_left(is_same_session, device, tmp_path):
    session = device(record_dir=tmp_path / "run")
    session.commit()
    if not is_same_session:
        session.close()
        session = device(record_dir=tmp_path / "run")
    shutil.rmtree(tmp_path / "state")
    with expect_error("device-not-restored", mentions="two: nothing before") as error:
        session.rollback()
    local, _, command = error.value.hint.removeprefix("copy ").partition(" to ")
    shutil.copy(local, tmp_path / "state/undo.sh")
    by_hand, _, otherwise = command.partition("run there: ")[2].partition("; ")
    assert "--forget" in otherwise
    run_shell(by_hand)
    assert list_changes(tmp_path) == []
    assert session.rollback() == ["there is nothing to roll back"]
    assert list(tmp_path.glob("run/*")) == []


def test_device_without_free_connection_is_an_error_with_the_undo_commands(device):
    transport = ChangedTransport()
    session = device(transport=transport)
    session.commit()
    session.confirm()
    for error in (UsageError("no key file", code="file-not-found"), OSError(28, "no space")):
        transport.open = Mock(side_effect=error)
        session.close()
        with expect_error(getattr(error, "code", "unreachable"), kind=DutError) as info:
            session.rollback()
        assert "changes of v6t may still be on the device" in info.value.message
        assert "undo.sh" in info.value.hint


def test_undo_command_that_the_shell_cannot_parse_prevents_the_commit(device, tmp_path):
    """Each command is parsed alone: the quotes of two commands would match."""
    steps = [
        make_step(tmp_path, name, undo=f"rm {tmp_path}/{name}; echo it's gone")
        for name in ("one", "two")
    ]
    with expect_error("command-failed", mentions="'one'") as error:
        device(*steps).commit()
    assert "nothing was changed" in error.value.hint
    assert list_changes(tmp_path) == []
    assert not (tmp_path / "state/record.json").exists()


def test_configured_parts_of_a_chain_are_left_alone(device, tmp_path):
    for name, state in (("one", "state"), ("two", "state/part-two")):
        part = device(make_step(tmp_path, name), part=name, state=state)
        part.commit()
        part.confirm()
        part.close()
    with expect_error("device-not-restored", mentions="two"):
        device(make_step(tmp_path, "three")).commit()
    assert list_changes(tmp_path) == ["one", "two"]


def test_short_limit_of_scheduled_rollback_does_not_undo_a_slow_commit(device, tmp_path):
    slow = {"command": "sleep 4.5", "why": "slow", "undo": ""}
    session = device(make_step(tmp_path, "one"), slow, make_step(tmp_path, "two"))
    session.commit(revert_in=2)
    assert list_changes(tmp_path) == ["one", "two"]
    session.schedule_rollback(2)
    wait_until(lambda: list_changes(tmp_path) == [], "the timer")


def test_state_longer_than_an_argument_is_compared(device, tmp_path):
    session = device()
    session.driver.plan = lambda *_: Plan("command", "", (
        Step(f"touch {tmp_path}/one", "one", read=f"seq 40000; ls {tmp_path}/one || true",
             undo=f"rm -f {tmp_path}/one", gone_test="false"),
    ))  # fmt: skip
    session.commit()
    assert len(session.read_record().undo[0].old) > 1 << 17
    assert session.rollback() == ["one: undone"]


def test_step_and_flush_longer_than_an_argument_read_their_input(device, tmp_path):
    padding, session = f": {'x' * (1 << 17)}\n", device()
    steps = [
        Step(f"{padding}cat >{tmp_path}/{name}", name, name, undo=f"rm {tmp_path}/{name}")
        for name in ("one", "two")
    ]
    session.driver.plan = lambda *_: Plan("command", "", (steps[0],), (steps[1],))
    session.commit()
    session.flush()
    assert [(tmp_path / name).read_text() for name in ("one", "two")] == ["one\n", "two\n"]


def test_forget_does_not_need_the_states(device, tmp_path):
    session = device(make_step(tmp_path, "one"))
    session.commit()
    session.read_states = Mock(side_effect=DutError("no answer", code="unexpected-answer"))
    with expect_error("unexpected-answer"):
        session.rollback()
    assert session.rollback(forget=True) == ["one: undone"]
    assert session.read_record() is None


def test_failed_verification_is_reported_as_undone_after_the_rollback(
    device, tmp_path, monkeypatch
):
    check = {"command": f"echo >>{tmp_path}/reads; wc -l <{tmp_path}/reads", "equals": "1"}
    session = device(make_step(tmp_path, "one", check=check))
    session.close()
    monkeypatch.setattr(dut, "_make_session", lambda *_, **__: session)
    with expect_error("check-failed") as error:
        dut.commit(SimpleNamespace(rollback_command="x"))
    assert error.value.hint == "the device is as it was before"
    assert list_changes(tmp_path) == []
