"""Every invalid input gives at most two lines and status 2, and writes nothing."""

import pytest
from v6t.base import errors
from v6t.base.errors import DutError
from v6t.core.cli import main as main_module
from v6t.drivers.lab import privilege
from v6t.tests.core.support import SIM, enforce_permissions, tree, v6t
from v6t.tests.expect import expect_refusal

pytestmark = pytest.mark.slow

COMPILE = ["compile", "--plugin", "mape-br"]
DOMAIN = "domains=[{rule_ipv6: 2001:db8:1::/51, rule_ipv7: x}]"

# not in test_config.py or tests/docs/test_messages.py
INVALID = [
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
    ("unknown-setting", "embedded tester", ["run", "--plugin", "mape-br", "--set-tester", "a=1"]),
    ("frame-too-small", "", [*SIM, "--frame-size", "0"]),
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


@pytest.mark.parametrize(("code", "part", "arguments"), INVALID)
def test_invalid_input_has_a_code_and_leaves_no_files(code, part, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert part in expect_refusal(v6t(*arguments), code)
    assert tree(tmp_path) == {}


def test_run_that_could_not_start_does_not_block_its_repetition(tmp_path, monkeypatch):
    """A device that lacked a program, for example: nothing was measured."""
    out = tmp_path / "out"
    words = [*SIM, "--reps", 1, "--mode", "forward", "-o", out]

    def fail(runner):
        raise DutError("the device lacks the program conntrack", code="command-failed")

    with monkeypatch.context() as patch:
        patch.setattr("v6t.core.runs.runner.Runner._measure", fail)
        assert v6t(*words).status == 4
    assert (out / "config.json").exists()
    for name in ("dut-undo.json", "mine"):  # the device may be configured, the file is the user's
        (out / name).touch()
        expect_refusal(v6t(*words), "file-exists")
        (out / name).unlink()
    assert v6t(*words).status == 0
    before = tree(out)
    expect_refusal(v6t(*words), "file-exists")
    assert tree(out) == before


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
def test_missing_permission_has_a_code_and_leaves_no_files(arguments, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shut").mkdir(mode=0o500)
    (tmp_path / "secret.yaml").touch(mode=0o000)
    with enforce_permissions():
        done = v6t(*arguments)
    assert arguments[-1] in expect_refusal(done, code)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["secret.yaml", "shut"]


@pytest.mark.parametrize(
    ("words", "code", "status", "advice"),
    [
        (["run", "--plugin", "mape-br", "--tester", "trex"], "missing-installation", 2, "TREX_DIR"),
        (["selftest", "--plugin", "mape-br"], "missing-permission", 3, "--tester sim"),
    ],
)
def test_missing_tester_is_reported(words, code, status, advice, tmp_path, monkeypatch):
    """Without TREX_DIR, and with `run`: see tests/docs/test_messages.py."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TREX_DIR", str(tmp_path))
    monkeypatch.setattr(privilege.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(privilege.os, "geteuid", lambda: 0)
    monkeypatch.setattr(privilege, "_try", lambda kind: f"{kind}: Operation not permitted")
    assert advice in expect_refusal(v6t(*words), code, status)
    assert tree(tmp_path) == {}


def test_missing_ip_command_is_reported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    expect_refusal(v6t("run", "--plugin", "mape-br"), "missing-program", 3)
    assert tree(tmp_path) == {}


@pytest.mark.parametrize(("kind", "status"), [
    (errors.UsageError, 2), (errors.EnvironmentLacking, 3), (errors.DutError, 4),
    (errors.TesterError, 5), (errors.TranslationError, 6),
])  # fmt: skip
def test_each_kind_of_error_has_its_exit_status(kind, status, monkeypatch):
    def fail(*_args, **_rest):
        raise kind("what is wrong", "what to do", code="tester-fault")

    monkeypatch.setattr(main_module.cli, "invoke", fail)
    done = v6t("doctor")
    assert (done.status, done.err) == (status, "v6t: what is wrong\n     what to do\n")


def test_internal_error_is_one_line_without_debug(monkeypatch):
    def fail(*_args, **_rest):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(main_module.cli, "invoke", fail)
    done = v6t("doctor")
    assert (done.status, done.code) == (1, "internal-error")
    assert "ZeroDivisionError" in done.err
    assert "Traceback" not in done.err
    monkeypatch.setenv("V6T_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        v6t("doctor")


@pytest.mark.parametrize(
    ("option", "status", "code"),
    [("loss_probability=1", 6, "translation-incorrect"), ("crash_at=20", 5, "tester-fault")],
)
def test_failure_during_a_run_has_status_and_code(option, status, code, tmp_path):
    done = v6t(*SIM, "--set-tester", option, "-o", tmp_path / "out")
    assert (done.status, done.code) == (status, code)
    assert "Traceback" not in done.err
