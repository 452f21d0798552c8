"""A rollback undoes everything, or says what is left and how to undo it."""

import pytest
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.duts.session.session import Session
from v6t.drivers.transport.contract import Output
from v6t.drivers.transport.process import LocalTransport
from v6t.tests.expect import expect_error

from .intents import ROUTER4


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
