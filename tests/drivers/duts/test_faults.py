"""Every fault in every phase over SSH, and flushing by reboots."""

import contextlib
from functools import partial
from types import SimpleNamespace

import pytest
from v6t.core.runs import dut
from v6t.tests.expect import expect_error

from .faults import IGNORED, OUTCOMES, REPORTED, RESTORED, UNTOUCHED
from .support import DUMMY, FAULTS, FORWARDING, attempt, over_ssh

pytestmark = over_ssh

OPTIONS = {
    "steps": [
        DUMMY,
        FORWARDING,
        {"command": "sh /run/fault commit", "why": "a step that may fail",
        "undo": "sh /run/fault rollback",
        "check": {"command": "sh /run/fault verify", "equals": "fine"}, "deadline_s": 1.0}],
    "flush": [{"command": "sh /run/fault flush",
        "check": {"command": "sh /run/fault flushed", "equals": "fine"}, "deadline_s": 1.0}],
}  # fmt: skip
CLEAN = ("rm -rf /run/fault-at /run/v6t; mkdir -p /run/v6t; echo first >/run/boot; "
         "ip link del v6tdummy 2>/dev/null; sysctl -q -w net.ipv4.conf.lo.forwarding=0")  # fmt: skip
# Faults that are tested in all phases.
ALL_PHASES = ("drop in the middle", "wrong exit status", "no UTF-8", "reboot")
# Faults that are tested at login and commit only.
LOGIN_AND_COMMIT = ("authentication failure", "changed host key", "partial output", "no permission")
CELLS = [
    *(("commit", fault) for fault in OUTCOMES),
    *((phase, fault) for phase in ("verify", "flush") for fault in ALL_PHASES),
    *(("rollback", fault) for fault in OUTCOMES if fault not in LOGIN_AND_COMMIT),
]
BREAKS_SSHD = ("refused", "authentication failure", "changed host key")
STATE = ("ip -o link show | cut -d: -f2; sysctl -n net.ipv4.conf.lo.forwarding; "
         "mkdir -p /run/v6t; ls /run/v6t")  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _install_fault_script(server):
    server.shell("cat >/run/fault", FAULTS.read_text())


@pytest.fixture
def device(server, make_session, monkeypatch):
    """Clean the device; return a factory of sessions with short deadlines."""
    monkeypatch.setattr("v6t.drivers.duts.session.plan_steps.UNDO_LIMIT_S", 1.0)
    monkeypatch.setattr("v6t.drivers.duts.session.undo_store.STEP_PATIENCE_S", 0)
    monkeypatch.setattr("v6t.drivers.duts.session.transaction.RETRY_PAUSE_S", 0.1)
    server.shell(CLEAN)
    return partial(make_session, OPTIONS, command_deadline_s=1.5, connect_deadline_s=2.0)


def read_state(server):
    return [line for line in server.shell(STATE).splitlines() if line not in ("lock", "beat")]


def arm_fault(server, fault, phase):
    server.shell(f"echo '{fault}' >/run/fault-kind; echo {phase} >/run/fault-at")


@pytest.mark.parametrize(("phase", "fault"), CELLS)
def test_fault_after_login_has_expected_outcome(server, device, fault, phase):
    before = read_state(server)
    session = device()
    session.open()
    if phase != "commit":
        session.commit()
    arm_fault(server, fault, phase)
    error = attempt(getattr(session, phase))
    assert server.shell("ls /run/fault-at 2>/dev/null || true") == "", "the fault did not happen"
    if not error and phase != "rollback":
        outcome = IGNORED
    elif read_state(server) == before:
        outcome = RESTORED
    else:
        outcome = REPORTED
        assert "sh /run/v6t/undo.sh" in error
        assert "v6t dut rollback" in error
    session.close()
    if fault in BREAKS_SSHD:  # repair sshd as an operator would
        for name in ("authorized_keys", "hostkey"):
            content = (server.directory / name).read_text()
            server.shell(f"umask 077; cat >/run/v6t-lab/{name}", content)
        server.stop_listening()
        server.listen()
    assert outcome == OUTCOMES[fault][phase], error
    if outcome != RESTORED:
        other = device()
        other.open()
        other.rollback()
    assert read_state(server) == before


# test_logins.py tests logins that sshd refuses.
@pytest.mark.parametrize("fault", [fault for fault in OUTCOMES if fault not in BREAKS_SSHD])
def test_fault_at_login_leaves_device_unchanged(server, device, fault, monkeypatch):
    before = read_state(server)
    module = "v6t.drivers.duts.session.connection"
    monkeypatch.setattr(f"{module}.build_lock_script", lambda *_: "sh /run/fault connect")
    monkeypatch.setattr(f"{module}.LOCK_DEADLINE_S", 1.0)
    arm_fault(server, fault, "connect")
    assert attempt(device().open)
    assert read_state(server) == before
    assert {outcomes["connect"] for outcomes in OUTCOMES.values()} == {UNTOUCHED}


def test_invalid_utf8_in_survey_is_accepted(server, device, monkeypatch):
    session = device()
    commands = {**session.driver.get_survey_commands(), "nic": "printf 'firmware \\377'"}
    monkeypatch.setattr(session.driver, "get_survey_commands", lambda: commands)
    session.open()
    session.commit()
    session.verify()
    assert session.describe()["facts"]["nic"] == "firmware \\xff"
    session.rollback()


@pytest.fixture
def open_rebooting_session(make_session, monkeypatch):
    """Return a function that opens a session whose flush reboots the device by a command."""
    monkeypatch.setattr("v6t.drivers.duts.session.session.REBOOT_PAUSE_S", 0.3)

    def open_session(command, deadline_s=60.0):
        flush = {"command": command, "reboots": True, "deadline_s": deadline_s}
        session = make_session({"steps": [DUMMY], "flush": [flush]}, connect_deadline_s=2.0)
        session.open()
        return session

    return open_session


def test_flush_by_reboot_configures_and_confirms_again(server, open_rebooting_session, monkeypatch):
    session = open_rebooting_session("setsid sh /run/fault reboot >/dev/null 2>&1 &")
    monkeypatch.setattr(dut, "open_session", lambda *_: contextlib.nullcontext(session))
    session.commit()
    session.flush()
    session.verify()
    session.confirm()
    first = server.shell("cat /run/boot")
    dut.flush(SimpleNamespace(rollback_command="v6t dut rollback X"))
    assert "v6tdummy" in server.shell("ip -o link show dev v6tdummy")
    assert server.shell("cat /run/boot") != first
    assert session.read_status()["rollback_in_s"] is None
    session.verify()
    assert session.rollback() == ["an interface: undone"]
    assert "v6tdummy" not in server.shell("ip -o link")


@pytest.mark.parametrize("command", ["true", "kill $(cat /run/sshd.pid); sleep 0.3; kill -9 $PPID"])
def test_missing_reboot_is_an_error(server, open_rebooting_session, command):
    session = open_rebooting_session(command, deadline_s=1.0)
    session.commit()
    with expect_error("not-rebooted", hint="sh /run/v6t/undo.sh"):
        session.flush()
    if command != "true":
        server.listen()
    session.open()
    session.rollback()
    assert "v6tdummy" not in server.shell("ip -o link")
