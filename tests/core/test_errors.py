"""Every invalid input gives at most two lines and status 2, and writes nothing."""

import json

import pytest
from v6t.base import errors
from v6t.base.errors import DutError
from v6t.core.cli import main as main_module
from v6t.core.runs.results import read_results
from v6t.drivers.lab import privilege
from v6t.drivers.trex import channel
from v6t.tests.core.support import SIM, enforce_permissions, tree, v6t
from v6t.tests.expect import expect_refusal

pytestmark = pytest.mark.slow

COMPILE = ["compile", "--plugin", "mape-br"]
DOMAIN = "domains=[{rule_ipv6: 2001:db8:1::/51, rule_ipv7: x}]"

# the commands of tests/docs/test_messages.py are not repeated here
BAD = [
    # commands and flags
    ("unknown-option", "--frob", ["--frob"]),
    ("invalid-command-line", "v6t calc --help", ["calc"]),
    ("unknown-command", "", ["calc", "foo"]),
    ("invalid-command-line", "", ["calc", "map"]),
    ("no-such-run", "", ["resume"]),
    ("invalid-command-line", "", ["doctor", "x"]),
    ("invalid-argument", "", ["completion", "tcsh"]),
    # technology, tester, device, preset, mode
    ("unknown-name", "", ["selftest", "--plugin", "x"]),
    ("file-not-found", "'map-e'", ["run", "mapp-e"]),
    ("unsupported-by-device", "", ["run", "--plugin", "mape-br", "--measure", "reset"]),
    ("invalid-command-line", "", ["dut"]),
    ("unknown-setting", "", ["run", "--plugin", "mape-br", "--set-tester", "a=1"]),
    # frame sizes
    ("frame-too-small", "", [*SIM, "--frame-size", "0"]),
    ("duplicate", "", [*SIM, "--frame-size", "104", "--frame-size", "104"]),
    # the procedure
    ("out-of-range", "procedure.trial_duration_s", [*SIM, "--duration", "0"]),
    ("not-a-number", "", [*SIM, "--duration", "nan"]),
    ("out-of-range", "", [*SIM, "--duration", "1e-9"]),
    ("out-of-range", "procedure.resolution_fps", [*SIM, "--resolution", "0"]),
    ("out-of-range", "procedure.confirmations", [*SIM, "--confirm", "-1"]),
    ("invalid-argument", "", [*SIM, "--seed", "x"]),
    # --set and its relatives
    ("not-name-and-value", "", [*SIM, "--set", "=1"]),
    ("not-name-and-value", "", [*SIM, "--set-tester", "foo"]),
    ("not-name-and-value", "", [*SIM, "--set-dut", "foo"]),
    ("unknown-setting", "did you mean 'min'?", [*SIM, "--set", "fw_dport.mim=1"]),
    ("unknown-setting", "did you mean 'rule_ipv6'?", [*SIM, "--set", DOMAIN]),
    ("unknown-setting", "dut.options.params.psid_ofset", [*SIM, "--set-dut", "psid_ofset=1"]),
    ("duplicate", "", [*SIM, "--set", "n=1", "--set", "n.x=1"]),
    ("invalid-yaml", "", [*SIM, "--set", "domains=[!!python/object/apply:os.getcwd []]"]),
    ("unknown-setting", "unknown setting 'params.'", [*SIM, "--set", "..=1"]),
    ("unknown-setting", "params.a\\nb", [*SIM, "--set", "a\nb=1"]),
    ("unknown-setting", "\\x1b[2J", [*SIM, "--set", "\x1b[2J=1"]),
    ("not-text", "\\udcff", [*SIM, "--set", "\udcff=1"]),
    ("out-of-range", "write n = 2, m = 1", [*SIM, "--set", "n=4", "--set", "m=2"]),
    ("out-of-range", "", [*SIM, "--set", "n=2147483647", "--set", "m=1"]),
    ("out-of-range", "tester_fps", [*SIM, "--set-tester", "tester_fps=0"]),
    ("out-of-range", "loss_probability", [*SIM, "--set-tester", "loss_probability=7"]),
    ("missing-setting", "loss_curve.0.1", [*SIM, "--set-tester", "loss_curve=[[1]]"]),
    ("not-a-number", "loss_curve.0.0", [*SIM, "--set-tester", "loss_curve=[[.nan, 0]]"]),
    # files and directories
    ("not-a-regular-file", "", [*SIM, "--testbed", "/dev/null"]),
    ("file-unwritable", "", [*SIM, "-o", "/dev/null/x"]),
    ("file-unwritable", "", [*SIM, "-o", "/proc/x"]),
    # compile
    ("invalid-argument", "", [*COMPILE, "--direction", "up"]),
    ("frame-too-small", "", [*COMPILE, "--frame-size", "0"]),
    ("invalid-argument", "", [*COMPILE, "--count", "0"]),
    ("invalid-argument", "", [*COMPILE, "--cores", "0"]),
    ("out-of-range", "", [*COMPILE, "--rate", "0"]),
    ("not-a-number", "", [*COMPILE, "--rate", "nan"]),
    ("missing-setting", "add -o FILE.pcap", [*COMPILE, "--format", "pcap"]),
    ("missing-setting", "", [*COMPILE, "--format", "pcap", "-o", "-"]),
    ("file-unwritable", "", [*COMPILE, "-o", "no/x.json"]),
]


@pytest.mark.parametrize(("code", "part", "arguments"), BAD)
def test_invalid_input_has_a_code_and_leaves_no_files(code, part, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert part in expect_refusal(v6t(*arguments), code)
    assert tree(tmp_path) == {}


def test_a_run_that_could_not_start_does_not_block_its_repetition(tmp_path, monkeypatch):
    """Its device lacked a program, say: nothing was measured, and the same line works afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "v6t.core.runs.runner.Runner._measure",
        lambda state: (_ for _ in ()).throw(
            DutError("the device lacks the program conntrack", code="command-failed")
        ),
    )
    words = [*SIM, "--reps", 1, "--mode", "forward", "-o", "out"]
    assert v6t(*words).status == 4
    assert (tmp_path / "out" / "config.json").exists()
    (tmp_path / "out" / "dut-undo.json").touch()  # its device may still be configured
    expect_refusal(v6t(*words), "file-exists")
    (tmp_path / "out" / "dut-undo.json").unlink()
    (tmp_path / "out" / "mine").touch()
    expect_refusal(v6t(*words), "file-exists")
    (tmp_path / "out" / "mine").unlink()
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert v6t(*words).status == 0
    before = tree(tmp_path)
    expect_refusal(v6t(*words), "file-exists")
    assert tree(tmp_path) == before


def test_nonempty_directory_is_not_used(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    expect_refusal(v6t(*SIM, "-o", tmp_path), "file-exists")
    assert tree(tmp_path) == {"thesis.tex": b"years of work"}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([*SIM, "-o", "shut"], "file-unwritable"),
        ([*SIM, "-o", "shut/out"], "file-unwritable"),
        (["init", "--dir", "shut"], "file-unwritable"),
        ([*COMPILE, "-o", "shut/x.json"], "file-unwritable"),
        ([*COMPILE, "--format", "pcap", "-o", "shut/x"], "file-unwritable"),
        (["run", "secret.yaml"], "file-unreadable"),
        ([*SIM, "--testbed", "secret.yaml"], "file-unreadable"),
    ],
)
def test_permissions(arguments, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shut").mkdir(mode=0o500)
    (tmp_path / "secret.yaml").touch(mode=0o000)
    with enforce_permissions():
        done = v6t(*arguments)
    assert arguments[-1] in expect_refusal(done, code)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["secret.yaml", "shut"]


def test_run_with_read_only_journal_is_not_resumed(tmp_path):
    out = tmp_path / "out"
    assert v6t(*SIM, "--reps", 1, "--mode", "forward", "-o", out).status == 0
    content = read_results(out) | {"status": "running"}
    (out / "results.json").write_text(json.dumps(content))
    (out / "journal.jsonl").chmod(0o400)
    before = tree(out)
    with enforce_permissions():
        done = v6t("resume", out)
    assert "journal.jsonl" in expect_refusal(done, "file-unreadable")
    assert tree(out) == before


def test_a_damaged_run_is_not_touched(tmp_path):
    out = tmp_path / "out"
    assert v6t(*SIM, "--reps", 1, "--mode", "forward", "-o", out).status == 0
    (out / "config.json").write_text("{}\n{}\n")
    before = tree(out)
    assert str(out / "config.json") in expect_refusal(v6t("resume", out), "invalid-json")
    assert tree(out) == before


@pytest.mark.parametrize(
    ("variable", "code", "status"), [("", "missing-program", 3), (".", "missing-installation", 2)]
)
def test_missing_trex_is_reported(variable, code, status, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(channel, "DEFAULT_LOCATION", tmp_path / "opt")
    monkeypatch.delenv("TREX_DIR", raising=False)
    if variable:
        monkeypatch.setenv("TREX_DIR", str(tmp_path))
    said = expect_refusal(v6t(*SIM, "--tester", "trex", "-o", "out"), code, status)
    assert "TREX_DIR" in said
    assert tree(tmp_path) == {}


@pytest.mark.parametrize(("command", "uid"), [("run", 1000), ("selftest", 0)])
def test_missing_lab_permission_is_reported(command, uid, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(privilege.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(privilege.os, "geteuid", lambda: uid)
    monkeypatch.setattr(privilege, "_try", lambda kind: f"{kind}: Operation not permitted")
    said = expect_refusal(v6t(command, "--plugin", "mape-br"), "missing-permission", 3)
    assert "--tester sim" in said
    assert tree(tmp_path) == {}


def test_missing_ip_command_is_reported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    expect_refusal(v6t("run", "--plugin", "mape-br"), "missing-program", 3)
    assert tree(tmp_path) == {}


def test_each_kind_of_error_has_its_exit_status(monkeypatch):
    expected = {
        errors.UsageError: 2,
        errors.EnvironmentLacking: 3,
        errors.DutError: 4,
        errors.TesterError: 5,
        errors.TranslationError: 6,
    }
    for kind, status in expected.items():

        def fail(*_args, kind=kind, **_rest):
            raise kind("what is wrong", "what to do", code="tester-fault")

        monkeypatch.setattr(main_module.cli, "invoke", fail)
        done = v6t("doctor")
        assert (done.status, done.err) == (status, "v6t: what is wrong\n     what to do\n")


def test_internal_error_is_one_line_without_debug(monkeypatch):
    def fail(*_args, **_rest):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(main_module.cli, "invoke", fail)
    done = v6t("doctor")
    assert done.status == 1
    assert done.code == "internal-error"
    assert "ZeroDivisionError" in done.err
    assert "Traceback" not in done.err
    monkeypatch.setenv("V6T_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        v6t("doctor")


@pytest.mark.parametrize(
    ("option", "status", "code"),
    [
        ("loss_probability=1", 6, "translation-incorrect"),
        ("crash_at=20", 5, "tester-fault"),
    ],
)
def test_failure_during_a_run_has_status_and_code(option, status, code, tmp_path):
    done = v6t(*SIM, "--set-tester", option, "-o", tmp_path / "out")
    assert (done.status, done.code) == (status, code)
    assert "Traceback" not in done.err
