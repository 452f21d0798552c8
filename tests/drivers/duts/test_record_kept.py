"""The undo record is kept until the device is restored; other files are never used."""

import queue

import pytest
from v6t.base.errors import DutError
from v6t.drivers.duts.plan import Step
from v6t.drivers.duts.session.connection import Heartbeat, Lock
from v6t.drivers.duts.session.plan_steps import make_undo_entry
from v6t.drivers.duts.session.undo_store import DamagedRecordError
from v6t.tests.expect import expect_error

from .field import wait_until
from .support import DUMMY, FORWARDING, over_ssh

# Step whose undo has no effect while /run/stubborn exists.
STUBBORN = {**FORWARDING, "undo": f"[ -e /run/stubborn ] || {FORWARDING['undo']}"}
STATE = "ip -o link show | cut -d: -f2; sysctl -n net.ipv4.conf.lo.forwarding"
CLEAN = (
    "umount /bin/ps 2>/dev/null; rm -rf /run/stubborn /run/v6t /run/elsewhere; ip link del v6tdummy 2>/dev/null; "
    "sysctl -q -w net.ipv4.conf.lo.forwarding=0"
)


@pytest.fixture
def device(server, make_session):
    server.shell(CLEAN)

    def make(**options):
        session = make_session({"steps": [DUMMY, STUBBORN], **options})
        session.open()
        return session

    yield make
    server.shell(CLEAN)


pytestmark = over_ssh


def test_rollback_with_difference_keeps_record(server, device, tmp_path):
    """The next commit does not save the remaining difference as the original state."""
    before = server.shell(STATE)
    session = device()
    session.commit()
    server.shell("touch /run/stubborn")
    for work in (session.rollback, session.rollback, session.commit):
        with expect_error("device-not-restored") as info:
            work()
        assert "v6t dut rollback" in info.value.hint
        assert "--forget" in info.value.hint
        assert (tmp_path / "keep" / "dut-undo.json").exists()
        assert session.read_record() is not None
    server.shell("rm /run/stubborn")
    session.commit()
    assert any(line.endswith("setting: undone") for line in session.rollback())
    assert server.shell(STATE) == before
    assert session.read_record() is None
    assert session.rollback()[0].startswith("there is nothing")


def test_forget_accepts_differing_state(server, device):
    session = device()
    session.commit()
    server.shell("touch /run/stubborn")
    lines = session.rollback(forget=True)
    assert "an interface: undone" in lines
    assert any("'0' before, '1' now" in line for line in lines)
    assert session.read_record() is None
    assert server.shell("ls -A /run/v6t").split() == ["beat", "lock"]


def test_progress_of_an_earlier_run_is_not_inherited(server, device):
    before = server.shell(STATE)
    server.shell("mkdir -p -m 700 /run/v6t; seq 1 13 >/run/v6t/undone; echo all >>/run/v6t/undone; "
                 "seq 1 13 >/run/v6t/progress")  # fmt: skip
    session = device()
    session.commit()
    assert server.shell("cat /run/v6t/progress").split() == ["1", "2"]
    session.rollback()
    assert server.shell(STATE) == before


@pytest.mark.parametrize(
    "damage",
    [
        "truncate -s 100 /run/v6t/record.json",
        "truncate -s 0 /run/v6t/record.json",
        "rm /run/v6t/record.json",
        "sed -i s,v6t-undo/1,v6t-undo/9, /run/v6t/record.json",
    ],
)
def test_damaged_record_error_offers_undo_script(damage, server, device, tmp_path):
    before = server.shell(STATE)
    session = device()
    session.commit()
    server.shell(damage)
    for work in (session.rollback, session.commit, session.status):
        with expect_error("undo-record-failed", kind=DamagedRecordError) as info:
            work()
        assert f"`v6t dut rollback {tmp_path / 'keep'} --by-script` runs it" in info.value.hint
        assert "sh /run/v6t/undo.sh" in info.value.hint
    assert "v6tdummy" in server.shell("ip -o link")
    assert "undo.sh" in session.rollback(by_script=True)[0]
    assert server.shell(STATE) == before
    assert session.rollback()[0].startswith("there is nothing")


def test_local_undo_script_is_named_if_the_device_lost_its_own(server, device):
    session = device()
    session.commit()
    server.shell("rm /run/v6t/record.json /run/v6t/undo.sh")
    with expect_error("undo-record-failed", kind=DamagedRecordError) as info:
        session.rollback()
    assert "dut-undo.sh" in info.value.hint


def test_interrupted_record_removal_leaves_device_unconfigured(server, device):
    """The record is removed first and the completion mark last."""
    session = device()
    session.commit()
    server.shell("sh /run/v6t/undo.sh && rm /run/v6t/record.json")
    assert session.rollback()[0].startswith("there is nothing")
    session.commit()
    session.rollback()


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("mkdir -m 700 {d}; chown nobody {d}", "device-busy"),
        ("mkdir -m 777 {d}", "device-busy"),
        ("mkdir -m 770 {d}", "device-busy"),
        ("mkdir -m 700 {d}; chown nobody /run/elsewhere", "device-busy"),
        ("chmod 777 /run/elsewhere", "device-busy"),
        ("ln -s /run {d}", "device-busy"),
        ("touch {d}", "file-unwritable"),
    ],
)
def test_foreign_state_directory_is_rejected(command, code, server, device):
    """The owner of the directory could make v6t run a script as root."""
    server.shell("mkdir -m 755 /run/elsewhere; " + command.format(d="/run/elsewhere/v6t"))
    with expect_error(code, mentions="/run/elsewhere"):
        device(state_dir="/run/elsewhere/v6t")


@pytest.mark.parametrize("command", ["mkdir -m 755 {d}", "chmod 1777 /run/elsewhere", "true"])
def test_state_directory_is_private(command, server, device):
    server.shell("mkdir -m 755 /run/elsewhere; " + command.format(d="/run/elsewhere/v6t"))
    session = device(state_dir="/run/elsewhere/v6t")
    session.commit()
    modes = server.shell("cd /run/elsewhere/v6t; stat -c '%a %n' . record.json undo.sh progress")
    assert modes.split("\n")[:4] == ["700 .", "600 record.json", "600 undo.sh", "600 progress"]
    session.rollback()


def test_placeholders_in_device_output_are_not_expanded():
    output = "'{words}'; {old}"
    undo = make_undo_entry(1, Step("true", "x", undo="put {old} and {words}"), output)
    assert undo.command == """put ''"'"'{words}'"'"'; {old}' and ''"'"'{words}'"'"';' '{old}'"""


@pytest.mark.parametrize("ps", ["/bin/ps", "/bin/false"])
def test_lock_of_silent_owner_expires(ps, server, login, monkeypatch):
    """The ps of BusyBox cannot select a process."""
    monkeypatch.setattr("v6t.drivers.duts.session.connection.LOCK_SILENCE_S", 2)
    server.shell(f"{CLEAN}; mount --bind {ps} /bin/ps")
    silent, second = Lock(login(), "/run/v6t", "alice@one process 1"), login()
    silent.stop()
    with expect_error("device-busy"):
        Lock(second, "/run/v6t", "bob@two process 2")
    wait_until(lambda: "lock" not in server.shell("ls /run/v6t"), "the lock frees itself")
    other = Lock(second, "/run/v6t", "bob@two process 2")
    silent.release()  # keeps the locks of others
    assert "bob@two" in server.shell("readlink /run/v6t/lock")
    other.release()
    wait_until(lambda: server.shell("ls -A /run/v6t") == "", "nothing is left")
    server.shell("umount /bin/ps")


class EchoConnection:
    """Connection that answers every line at once, unless it is silent."""

    ended = False

    def __init__(self, silent=False):
        self.silent = silent
        self.lines = queue.Queue()
        self.sent = 0

    def send(self, text):
        self.sent += 1
        if not self.silent:
            self.lines.put(text)

    def line(self, deadline_s):
        try:
            return self.lines.get(timeout=min(deadline_s, 0.2))
        except queue.Empty as exc:
            raise DutError("nothing came", code="command-failed") from exc


def test_unanswered_beats_count_as_silence():
    beats = Heartbeat(EchoConnection(silent=True), 0.05)
    wait_until(lambda: beats.silence_s > 0.5, "silence")
    assert not beats.await_answer(0.2)
    beats.stop()


def test_await_answer_does_not_wait_for_next_beat():
    """Earlier output does not count as an answer."""
    connection = EchoConnection()
    beats = Heartbeat(connection, 3600.0)
    for number in (1, 2, 3):
        assert beats.await_answer(60.0)
        assert connection.sent == number
    connection.ended = connection.silent = True
    assert not beats.await_answer(60.0)
    beats.stop()
