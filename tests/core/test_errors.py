"""Whatever is wrong with the input: two lines at most, status 2, nothing on disk."""

from __future__ import annotations

import json

import pytest
from v6t.base import errors
from v6t.base.errors import DutError
from v6t.core.cli import main as main_module

from .support import SIM, bound_by_permissions, complaint, tree, v6t, v6t_process

pytestmark = pytest.mark.slow

MAP = ["calc", "map", "--rule-ipv6", "2001:db8:ce::/51", "--rule-ipv4", "192.0.2.0/24"]
COMPILE = ["compile", "--plugin", "mape-br"]
DOMAIN = "domains=[{rule_ipv6: 2001:db8:1::/51, rule_ipv7: x}]"

BAD = {
    # commands and flags
    "no such command 'frob'": ["frob"],
    "Did you mean 'run'?": ["runn"],
    "--frob": ["--frob"],
    "v6t run --help": ["run", "--frob"],
    "v6t calc --help": ["calc"],
    "No such command 'foo'": ["calc", "foo"],
    "Missing option '--rule-ipv6'": ["calc", "map"],
    "there is no run here or below ./runs": ["resume"],
    "a comparison needs two runs": ["compare", "."],
    "there is no nope": ["compare", "nope"],
    "unexpected extra argument": ["doctor", "x"],
    "no completion for 'tcsh'": ["completion", "tcsh"],
    # technology, tester, device, preset, mode
    "which technology?": ["run", "--dut", "vpp"],
    "there is no plugin 'x'": ["selftest", "--plugin", "x"],
    "did you mean 'mape-br'?": ["run", "--plugin", "mape-bt"],
    "did you mean 'mapt-br' or 'mapt-ce'?": ["run", "--plugin", "mapt"],
    "`v6t dut --help` shows": ["dut"],
    "did you mean 'sim'?": [*SIM, "--tester", "simm"],
    "there is no preset 'fast'": [*SIM, "--preset", "fast"],
    "did you mean 'forward'?": [*SIM, "--mode", "forwards"],
    "a mode is given twice": [*SIM, "--mode", "reverse", "--mode", "reverse"],
    "there is no device driver 'cisco'": [*SIM, "--dut", "cisco"],
    "the embedded tester has no option 'a'": ["run", "--plugin", "mape-br", "--set-tester", "a=1"],
    # frame sizes
    "'x' is not a valid integer": [*SIM, "--frame-size", "x"],
    "-1 octets holds no IPv4 frame": [*SIM, "--frame-size", "-1"],
    "of 0 octets holds no IPv4 frame": [*SIM, "--frame-size", "0"],
    "the smallest is 104": [*SIM, "--frame-size", "103"],
    "1518 octets at most": [*SIM, "--frame-size", "1519"],
    "frame size is given twice": [*SIM, "--frame-size", "104", "--frame-size", "104"],
    # the procedure
    "procedure.repetitions": [*SIM, "--reps", "0"],
    "repetitions: a whole number is wanted ('1.5' given)": [*SIM, "--reps", "1.5"],
    "procedure.trial_duration_s": [*SIM, "--duration", "0"],
    "('nan' given)": [*SIM, "--duration", "nan"],
    "('inf' given)": [*SIM, "--duration", "inf"],
    "('-1' given)": [*SIM, "--duration", "-1"],
    "('1e-9' given)": [*SIM, "--duration", "1e-9"],
    "procedure.resolution_fps": [*SIM, "--resolution", "0"],
    "resolution_fps: a finite number is wanted": [*SIM, "--resolution", "inf"],
    "procedure.loss_tolerance": [*SIM, "--loss-tolerance", "1"],
    "loss_tolerance: a finite number is wanted": [*SIM, "--loss-tolerance", "nan"],
    "procedure.confirmations": [*SIM, "--confirm", "-1"],
    "Invalid value for '--seed'": [*SIM, "--seed", "x"],
    # --set and its relatives
    "--set takes name=value, not 'foo'": [*SIM, "--set", "foo"],
    "--set takes name=value, not '=1'": [*SIM, "--set", "=1"],
    "--set-tester takes name=value": [*SIM, "--set-tester", "foo"],
    "--set-dut takes name=value": [*SIM, "--set-dut", "foo"],
    "did you mean 'psid_offset'?": [*SIM, "--set", "psid_ofset=1"],
    "did you mean 'min'?": [*SIM, "--set", "fw_dport.mim=1"],
    "did you mean 'rule_ipv6'?": [*SIM, "--set", DOMAIN],
    "unknown setting 'dut.options.params.psid_ofset'": [*SIM, "--set-dut", "psid_ofset=1"],
    "did you mean 'capacity_fps'?": [*SIM, "--set-tester", "capacty_fps=1"],
    "('x' given)": [*SIM, "--set", "psid_offset=x"],
    "psid_offset 17 is outside 0..16": [*SIM, "--set", "psid_offset=17"],
    "'foo' is no IPv6 prefix": [*SIM, "--set", "rule_ipv6=foo"],
    "did you mean 2001:db8::/32?": [*SIM, "--set", "rule_ipv6=2001:db8::1/32"],
    "fw_dport.min: it must be at most 65,535": [*SIM, "--set", "fw_dport.min=70000"],
    "'n' is given as a whole already": [*SIM, "--set", "n=1", "--set", "n.x=1"],
    "'[{' is no YAML value": [*SIM, "--set", "domains=[{"],
    "is no YAML value": [*SIM, "--set", "domains=[!!python/object/apply:os.getcwd []]"],
    "unknown setting 'params.'": [*SIM, "--set", "..=1"],
    r"params.a\nb": [*SIM, "--set", "a\nb=1"],
    r"\x1b[2J": [*SIM, "--set", "\x1b[2J=1"],
    r"\udcff": [*SIM, "--set", "\udcff=1"],
    "set ces to at most 8192": [*SIM, "--set", "ces=8193"],
    "write n = 2, m = 1": [*SIM, "--set", "n=4", "--set", "m=2"],
    "repeat only after": [*SIM, "--set", "n=2147483647", "--set", "m=1"],
    "capacity_fps: a number is wanted ('x' given)": [*SIM, "--set-tester", "capacity_fps=x"],
    "capacity_fps: a finite number is wanted ('nan' given)": [
        *SIM,
        "--set-tester",
        "capacity_fps=nan",
    ],
    "tester_fps: it must be at least 1 ('0' given)": [*SIM, "--set-tester", "tester_fps=0"],
    "loss_probability: it must be at most 1 ('7' given)": [
        *SIM,
        "--set-tester",
        "loss_probability=7",
    ],
    "loss_curve.0.1: this is missing": [*SIM, "--set-tester", "loss_curve=[[1]]"],
    "loss_curve.0.0: a finite number is wanted (nan given)": [
        *SIM,
        "--set-tester",
        "loss_curve=[[.nan, 0]]",
    ],
    # files and directories
    "nope.yaml cannot be read": ["run", "nope.yaml"],
    ". cannot be read: Is a directory": ["run", "."],
    "/dev/null is a device, not a file": [*SIM, "--testbed", "/dev/null"],
    "/dev/null/x cannot be made": [*SIM, "-o", "/dev/null/x"],
    "/proc/x cannot be made": [*SIM, "-o", "/proc/x"],
    "nope holds no run": ["resume", "nope"],
    "/dev/null cannot be written": ["init", "--dir", "/dev/null"],
    # compile
    "there is no direction 'up'": [*COMPILE, "--direction", "up"],
    "there is no format 'x'": [*COMPILE, "--format", "x"],
    "frame of 0 octets": [*COMPILE, "--frame-size", "0"],
    "0 frames cannot be sent": [*COMPILE, "--count", "0"],
    "0 cores cannot send": [*COMPILE, "--cores", "0"],
    "a rate of 0.0": [*COMPILE, "--rate", "0"],
    "a rate of 'inf'": [*COMPILE, "--rate", "inf"],
    "a rate of 'nan'": [*COMPILE, "--rate", "nan"],
    "add -o FILE.pcap": [*COMPILE, "--format", "pcap"],
    "a capture needs a file": [*COMPILE, "--format", "pcap", "-o", "-"],
    "no/x.json cannot be written": [*COMPILE, "-o", "no/x.json"],
    # calc
    "is outside 0..48": [*MAP, "--ea-len", "49"],
    "'x' is not a line rate": ["calc", "rate", "--line-rate", "x", "--frame-size", "64"],
    "'1e99' is not a line rate": ["calc", "rate", "--line-rate", "1e99", "--frame-size", "64"],
    "'1e9999' is not a line rate": ["calc", "rate", "--line-rate", "1e9999", "--frame-size", "64"],
    "smallest frame has 64 octets": ["calc", "rate", "--line-rate", "1G", "--frame-size", "63"],
}


@pytest.mark.parametrize("expected", BAD, ids=str)
def test_bad_input_is_said_in_two_lines(expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert expected in complaint(v6t(*BAD[expected]))
    assert tree(tmp_path) == {}


def test_a_directory_that_holds_a_run_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert v6t(*SIM, "--reps", 1, "--mode", "forward", "-o", "out").status == 0
    before = tree(tmp_path)
    said = complaint(v6t(*SIM, "-o", "out"))
    assert "out holds a run already" in said
    assert "v6t resume out" in said
    assert tree(tmp_path) == before


def test_a_run_that_could_not_start_does_not_block_its_repetition(tmp_path, monkeypatch):
    """Its device lacked a program, say: nothing was measured, and the same line works afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "v6t.core.runs.runner._measure_all",
        lambda state: (_ for _ in ()).throw(
            DutError("the device lacks the program conntrack", code="command-failed")
        ),
    )
    words = [*SIM, "--reps", 1, "--mode", "forward", "-o", "out"]
    assert v6t(*words).status == 4
    assert (tmp_path / "out" / "config.json").exists()
    (tmp_path / "out" / "dut-undo.json").touch()  # its device may still be configured
    assert "out holds a run already" in complaint(v6t(*words))
    (tmp_path / "out" / "dut-undo.json").unlink()
    (tmp_path / "out" / "mine").touch()
    assert "out holds a run already" in complaint(v6t(*words))
    (tmp_path / "out" / "mine").unlink()
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert v6t(*words).status == 0
    assert "out holds a run already" in complaint(v6t(*words))


def test_a_directory_that_holds_anything_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    assert "is not empty" in complaint(v6t(*SIM, "-o", tmp_path))
    assert tree(tmp_path) == {"thesis.tex": b"years of work"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([*SIM, "-o", "shut"], "shut cannot be written: Permission denied"),
        ([*SIM, "-o", "shut/out"], "shut/out cannot be made: Permission denied"),
        (["init", "--dir", "shut"], "shut cannot be written: Permission denied"),
        ([*COMPILE, "-o", "shut/x.json"], "shut/x.json cannot be written: Permission denied"),
        ([*COMPILE, "--format", "pcap", "-o", "shut/x"], "shut/x cannot be written: Permission"),
        (["run", "secret.yaml"], "'secret.yaml' is not readable"),
        ([*SIM, "--testbed", "secret.yaml"], "'secret.yaml' is not readable"),
    ],
)
def test_permissions(arguments, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shut").mkdir(mode=0o500)
    (tmp_path / "secret.yaml").touch(mode=0o000)
    with bound_by_permissions():
        done = v6t(*arguments)
    assert expected in complaint(done)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["secret.yaml", "shut"]


def test_a_run_whose_journal_may_not_be_written_is_not_resumed(tmp_path):
    out = tmp_path / "out"
    assert v6t(*SIM, "--reps", 1, "--mode", "forward", "-o", out).status == 0
    content = json.loads((out / "results.json").read_text())
    (out / "results.json").write_text(json.dumps({**content, "status": "running"}))
    (out / "journal.jsonl").chmod(0o400)
    before = tree(out)
    with bound_by_permissions():
        done = v6t("resume", out)
    assert "journal.jsonl cannot be opened: Permission denied" in complaint(done)
    assert tree(out) == before


@pytest.mark.parametrize("name", ["config.json", "journal.jsonl"])
def test_a_damaged_run_is_not_touched(name, tmp_path):
    out = tmp_path / "out"
    assert v6t(*SIM, "--reps", 1, "--mode", "forward", "-o", out).status == 0
    (out / name).write_text("{}\n{}\n")
    before = tree(out)
    assert str(out / name) in complaint(v6t("resume", out))
    assert tree(out) == before


def test_trex_that_is_not_there(tmp_path, monkeypatch):
    from v6t.drivers.trex import installation

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TREX_DIR", raising=False)
    monkeypatch.setattr(installation, "OPT", tmp_path / "opt")
    said = complaint(v6t(*SIM, "--tester", "trex", "-o", "out"), 3)
    assert "no TRex found" in said
    assert "TREX_DIR" in said
    assert tree(tmp_path) == {}


def test_trex_dir_that_holds_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TREX_DIR", str(tmp_path))
    said = complaint(v6t(*SIM, "--tester", "trex", "-o", "out"))
    assert f"TREX_DIR is {tmp_path}, but there is no t-rex-64" in said
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("uid", [0, 1000])
@pytest.mark.parametrize("command", ["run", "selftest"])
def test_no_permission_for_the_lab(command, uid, tmp_path, monkeypatch):
    from v6t.drivers.lab import privilege

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(privilege.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(privilege.os, "geteuid", lambda: uid)
    monkeypatch.setattr(privilege, "_try", lambda kind: f"{kind}: Operation not permitted")
    said = complaint(v6t(command, "--plugin", "mape-br"), 3)
    assert "may not make network namespaces" in said
    assert "Operation not permitted" in said
    assert "--tester sim" in said
    assert tree(tmp_path) == {}


def test_no_ip_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = complaint(v6t_process("run", "--plugin", "mape-br", PATH=str(tmp_path)), 3)
    assert "apt-get install iproute2" in said
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

        monkeypatch.setattr(main_module.cli, "main", fail)
        done = v6t("doctor")
        assert (done.status, done.err) == (status, "v6t: what is wrong\n     what to do\n")


def test_a_defect_is_one_line_unless_asked(monkeypatch):
    def fail(*_args, **_rest):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(main_module.cli, "main", fail)
    done = v6t("doctor")
    assert done.status == 1
    assert done.err.splitlines()[0] == "v6t: internal error: ZeroDivisionError: division by zero"
    assert "Traceback" not in done.err
    monkeypatch.setenv("V6T_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        v6t("doctor")


def test_a_wrong_device_is_shown_frame_by_frame(tmp_path):
    done = v6t(*SIM, "--set-tester", "mismatch=1", "-o", tmp_path / "out")
    assert done.status == 6
    assert "translation incorrect" in done.err
    assert "expected" in done.err
    assert "received" in done.err
    assert "Traceback" not in done.err


def test_a_device_that_loses_all_the_time_is_not_called_nameless(tmp_path):
    done = v6t(*SIM, "--set-tester", "loss_probability=1", "-o", tmp_path / "out")
    assert done.status == 6
    assert "v6t: translation incorrect: forward: lost 1 of 200 frames" in done.err


def test_a_tester_that_fails(tmp_path):
    done = v6t(*SIM, "--set-tester", "crash_at=20", "-o", tmp_path / "out")
    assert done.status == 5
    assert "v6t: simulated failure of the tester in trial 20\n" in done.err
    assert "Traceback" not in done.err
