"""Messages of stopped commands, which name configured devices and the commands that restore them."""

import json
import shlex
from unittest.mock import Mock

import pytest
from v6t.core.cli import dut_command
from v6t.core.cli.stopping import make_device_stop_messages, make_stop_messages
from v6t.tests.core.support import v6t
from v6t.tests.settings import resolve

DIRECT = {"driver": "nftables", "options": {"ssh": {"host": "dut.example.net"}}}


def write_testbed(directory, dut, **tester):
    """Write a testbed file whose path must be quoted for a shell; return its path."""
    path = directory / "a bed.json"
    path.write_text(json.dumps({"tester": {"kind": "trex", **tester}, "dut": dut}))
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


@pytest.mark.parametrize(("dut", "words", "expected"), [
    (DIRECT, ["--plugin", "nat44"], []),
    (DIRECT, ["--plugin", "nat44", *OTHER_CONFIG], OTHER_CONFIG),
    (DIRECT, ["--plugin", "nat44", "--driver", "nftables"], ["--driver", "nftables"]),
    (CHAIN, ["--plugin", "dslite-aftr"], ["--plugin", "dslite-aftr"]),
])  # fmt: skip
def test_rollback_command_is_complete(dut, words, expected, tmp_path):
    """The command has the options that name the device, quoted for the shell."""
    path = write_testbed(tmp_path, dut)
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
