"""Stopped commands: their messages, and Ctrl-C after each command on a device."""

import json
import shlex
import shutil
from contextlib import closing, suppress
from itertools import count
from types import SimpleNamespace
from unittest.mock import Mock, call

import pytest
from v6t.base.errors import DutError, hides_interrupt
from v6t.core.cli import dut_command
from v6t.core.cli.stopping import make_device_stop_messages, make_stop_messages
from v6t.core.log import copy_records
from v6t.core.runs import dut
from v6t.drivers.duts.chain.session import run_all_actions
from v6t.drivers.transport.process import LocalTransport
from v6t.tests.core.support import v6t
from v6t.tests.expect import expect_error
from v6t.tests.settings import resolve

from .support import ChangedTransport, make_file_session

DIRECT = {"driver": "nftables", "options": {"ssh": {"host": "dut.example.net"}}}


def write_testbed(directory, device, **tester):
    """Write a testbed file whose path must be quoted for a shell; return its path."""
    path = directory / "a bed.json"
    path.write_text(json.dumps({"tester": {"kind": "trex", **tester}, "dut": device}))
    return path


@pytest.fixture
def run(tmp_path):
    """Provide the settings of a run on a remote device."""
    return resolve(None, write_testbed(tmp_path, DIRECT), plugin="nat44")


def with_dut_options(run, options):
    return run.model_copy(update={"dut": run.dut.model_copy(update={"options": options})})


def test_stop_messages_name_configured_runs_of_a_remote_device(run, tmp_path):
    out = tmp_path / "out"
    assert make_stop_messages({}, "").first.startswith("stopping: nothing")
    out.mkdir()
    assert "removing" in make_stop_messages({out: run}, "").first
    (out / "dut-undo.json").touch()
    stop = make_stop_messages({out: run}, f"v6t resume {out}")
    assert "dut.example.net" in stop.first
    device, trials = stop.second
    assert device.startswith("dut.example.net ")
    assert device.endswith(f"after 60 s): v6t dut rollback {out}")
    assert trials.endswith(f": v6t resume {out}")
    other = tmp_path / "002-y"
    other.mkdir()
    (other / "dut-undo.json").touch()
    *devices, trials = make_stop_messages(dict.fromkeys((out, other), run), "v6t campaign").second
    assert [line.rpartition(" ")[2] for line in devices] == [str(out), str(other)]
    assert trials.endswith(": v6t campaign")


@pytest.mark.parametrize(("tester", "options", "is_printed"), [
    ("embedded", {}, False),
    ("sim", {}, False),
    # `v6t dut commit` and `v6t audit --interfaces` do not use the tester
    ("sim", DIRECT["options"], True),
])  # fmt: skip
def test_command_is_printed_only_for_device_that_outlives_v6t(tester, options, is_printed):
    run = with_dut_options(resolve(plugin="nat44", tester=tester, dut="nftables"), options)
    assert bool(make_device_stop_messages(run, "this").second) == is_printed


def test_verify_rejects_simulated_device(tmp_path):
    path = write_testbed(tmp_path, DIRECT, kind="sim")
    result = v6t("dut", "verify", "--testbed", path, "--plugin", "nat44")
    assert result.code == "unsupported-by-tester"


def test_stop_messages_of_chain_name_its_devices_and_rollback_timers(run):
    parts = {
        host: {"driver": "nftables", "options": {"ssh": {"host": host}, **limit}}
        for host, limit in (("a", {"undo_after_s": 30}), ("b", {"undo_after_s": "0"}), ("c", {}))
    }
    run = with_dut_options(run, {"parts": parts})
    message = make_device_stop_messages(run, "--testbed x").first
    assert "restoring a, b, c" in message
    assert "restores a after 30 s, c after 60 s)" in message


NAT = {"options": {"ssh": {"host": "b.example.net"}}}
CHAIN = {"driver": "chain", "options": {"parts": {"nat": NAT}}}
OTHER_CONFIG = ["--set-dut", "ssh.config=/a b"]


def find_rolled_back_device(command):
    """Return the device settings that a ``v6t dut rollback`` command resolves to."""
    params = dut_command.rollback_command.make_context("rollback", command[3:]).params
    return dut_command.resolve_device_run(params, any_technology=True).settings.dut


@pytest.mark.parametrize(("device", "words", "expected"), [
    (DIRECT, ["--plugin", "nat44"], []),
    (DIRECT, ["--plugin", "nat44", *OTHER_CONFIG], OTHER_CONFIG),
    (DIRECT, ["--plugin", "nat44", "--driver", "nftables"], ["--driver", "nftables"]),
    (CHAIN, ["--plugin", "dslite-aftr"], ["--plugin", "dslite-aftr"]),
])  # fmt: skip
def test_rollback_command_is_complete(device, words, expected, tmp_path):
    """The command has the options that name the device, quoted for the shell."""
    path = write_testbed(tmp_path, device)
    words = ["--testbed", str(path), *words]
    params = dut_command.commit_command.make_context("commit", words).params
    setup = dut_command.resolve_device_run(params, single_frames=True)
    command = shlex.split(setup.rollback_command)
    assert command == ["v6t", "dut", "rollback", "--testbed", str(path), *expected]
    assert find_rolled_back_device(command) == setup.settings.dut


VPP = ["--driver", "vpp", "--set-dut", "ssh.host=vpp.example.net"]


@pytest.mark.parametrize(("words", "expected"), [
    (["dslite-aftr", "--testbed", "{bed}"], ["dslite-aftr", "--testbed", "{bed}"]),
    (["{run}"], ["{run}"]),
    (["{run}", *VPP], ["{run}", *VPP]),
])  # fmt: skip
def test_audit_before_run_has_complete_rollback_command(words, expected, tmp_path, monkeypatch):
    bed = write_testbed(tmp_path, CHAIN, options={"ssh": {"host": "trex.example.net"}})
    places = {"bed": bed, "run": tmp_path / "run"}
    places["run"].mkdir()
    settings = resolve(None, bed, plugin="dslite-aftr")
    (places["run"] / "config.json").write_text(json.dumps(settings.to_json()))
    audit = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr("v6t.audit.auditor.audit_core_clauses", audit)
    assert v6t("run", *(word.format(**places) for word in words), "--audit", "warn").status == 130
    setup = audit.call_args.args[0].setup
    command = shlex.split(setup.rollback_command)
    assert command == ["v6t", "dut", "rollback", *(word.format(**places) for word in expected)]
    assert find_rolled_back_device(command) == setup.settings.dut


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
    with expect_error("device-not-restored", mentions="No such file", hint="--forget"):
        session.rollback()
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
