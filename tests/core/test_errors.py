"""Every invalid input, unusual file and damaged run gives at most two lines and status 2."""

import json
import os
import shlex
import shutil
from unittest.mock import Mock

import pytest
from v6t.base import errors, files
from v6t.base.errors import DutError
from v6t.core.cli import main as main_module
from v6t.drivers.lab import privilege
from v6t.tests.core.support import SIM, enforce_permissions, make_run, read_dir, read_vectors, v6t
from v6t.tests.expect import expect_error, expect_refusal

COMPILE = ["compile", "--plugin", "mape-br"]
COMMANDS = [row for rows in read_vectors("invalid_commands").values() for row in rows]
"""Error code, arguments and part of the message of invalid command lines."""
WORDS = {
    "SIM": shlex.join(SIM),
    "MAP": "calc map --rule-ipv6 2001:db8:ce::/51 --rule-ipv4 192.0.2.0/24 --ea-len 13",
    "NINES": "9" * 5000,
    "NAT": "run --plugin nat44 --tester sim",
}


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row[1])
def test_invalid_input_has_a_code_and_leaves_no_files(row, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, command, *parts = row
    for word, text in WORDS.items():
        command = command.replace(word, text)
    stderr = expect_refusal(v6t(*shlex.split(command)), code)
    assert len(stderr) < 500
    assert all(part in stderr for part in parts)
    assert read_dir(tmp_path) == {}


@pytest.mark.slow
def test_run_that_could_not_start_does_not_block_its_repetition(tmp_path, monkeypatch):
    """Nothing was measured, for example because the device lacked a program."""
    out = tmp_path / "out"
    words = [*SIM, "--reps", 1, "--mode", "forward", "-o", out]

    error = DutError("the device lacks the program conntrack", code="command-failed")
    with monkeypatch.context() as patch:
        patch.setattr("v6t.core.runs.runner.Runner._measure", Mock(side_effect=error))
        assert v6t(*words).status == 4
    assert (out / "config.json").exists()
    for name in ("dut-undo.json", "mine"):  # the device may be configured, the file is the user's
        (out / name).touch()
        expect_refusal(v6t(*words), "file-exists")
        (out / name).unlink()
    assert v6t(*words).status == 0
    before = read_dir(out)
    expect_refusal(v6t(*words), "file-exists")
    expect_refusal(v6t(*words, "--dry-run"), "file-exists")
    expect_refusal(v6t(*words[:-1], out / "inner"), "file-exists")
    (tmp_path / "loop").symlink_to("loop")
    for elsewhere in (tmp_path / ("a" * 300) / "inner", tmp_path / "loop"):
        expect_refusal(v6t(*words[:-1], elsewhere), "file-unwritable")
    assert read_dir(out) == before
    (out / "journal.jsonl").unlink()  # as in a published run
    expect_refusal(v6t(*words), "file-exists")


@pytest.mark.parametrize(("arguments", "code"), [
    ([*SIM, "-o", "shut"], "file-unwritable"),
    ([*SIM, "-o", "shut/out"], "file-unwritable"),
    (["init", "--dir", "shut"], "file-unwritable"),
    ([*COMPILE, "-o", "shut/x.json"], "file-unwritable"),
    ([*COMPILE, "--format", "pcap", "-o", "shut/x"], "file-unwritable"),
    (["run", "secret.yaml"], "file-unreadable"),
    ([*SIM, "--testbed", "secret.yaml"], "file-unreadable"),
])  # fmt: skip
def test_missing_permission_has_a_code_and_leaves_no_files(arguments, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shut").mkdir(mode=0o500)
    (tmp_path / "secret.yaml").touch(mode=0o000)
    with enforce_permissions():
        done = v6t(*arguments)
    assert arguments[-1] in expect_refusal(done, code)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["secret.yaml", "shut"]


@pytest.mark.parametrize(("words", "code", "status", "advice"), [
    (["run", "--plugin", "mape-br", "--tester", "trex"], "missing-installation", 2, "TREX_DIR"),
    (["selftest", "--plugin", "mape-br"], "missing-permission", 3, "--tester sim"),
])  # fmt: skip
def test_missing_tester_is_reported(words, code, status, advice, tmp_path, monkeypatch):
    """Without TREX_DIR, and with `run`: see tests/docs/test_messages.py."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TREX_DIR", str(tmp_path))
    monkeypatch.setattr(privilege.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(privilege.os, "geteuid", lambda: 0)
    monkeypatch.setattr(privilege, "_try", lambda kind: f"{kind}: Operation not permitted")
    assert advice in expect_refusal(v6t(*words), code, status)
    assert read_dir(tmp_path) == {}


def test_missing_ip_command_is_reported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    expect_refusal(v6t("run", "--plugin", "mape-br"), "missing-program", 3)
    assert read_dir(tmp_path) == {}


@pytest.mark.parametrize(("kind", "status"), [
    (errors.UsageError, 2), (errors.EnvironmentLacking, 3), (errors.DutError, 4),
    (errors.TesterError, 5), (errors.TranslationError, 6),
])  # fmt: skip
def test_each_kind_of_error_has_its_exit_status(kind, status, monkeypatch):
    error = kind("what is wrong", "what to do", code="tester-fault")
    monkeypatch.setattr(main_module.cli, "invoke", Mock(side_effect=error))
    done = v6t("doctor")
    assert (done.status, done.err) == (status, "v6t: what is wrong\n     what to do\n")


def test_internal_error_is_one_line_without_debug(monkeypatch):
    monkeypatch.setattr(main_module.cli, "invoke", Mock(side_effect=ZeroDivisionError))
    done = v6t("doctor")
    assert (done.status, done.code) == (1, "internal-error")
    assert "ZeroDivisionError" in done.err and "Traceback" not in done.err
    monkeypatch.setenv("V6T_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        v6t("doctor")


@pytest.mark.slow
@pytest.mark.parametrize(("option", "status", "code"), [
    ("loss_probability=1", 6, "translation-incorrect"), ("crash_at=20", 5, "tester-fault"),
])  # fmt: skip
def test_failure_during_a_run_has_status_and_code(option, status, code, tmp_path):
    done = v6t(*SIM, "--set-tester", option, "-o", tmp_path / "out")
    assert (done.status, done.code) == (status, code)
    assert "Traceback" not in done.err


TEXTS = [
    ("zz: " + "{" * 16 + "}" * 16, "invalid-yaml"), ("zz: " + "[" * 1000, "invalid-yaml"),
    ("zz: " + "{a: " * 500 + "}" * 500, "invalid-yaml"),
    ("".join("  " * n + "a:\n" for n in range(500)), "invalid-yaml"),
    ("- " * 500 + "1", "invalid-yaml"), ("seed: 0x" + "f" * 5000, "out-of-range"),
    ("seed: " + "9" * 5000, "invalid-yaml"), ('label: "\\ud83d"', "not-text"),
    ('"\\ud83d": 1', "not-text"), ("label: \x00", "not-text"), ("x" * 300_000, "file-too-large"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code"), TEXTS, ids=range(len(TEXTS)))
def test_invalid_settings_file_is_rejected(text, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").write_text(text)
    for command in ("run run.yaml", "campaign run.yaml -o x", "dut plan run.yaml"):
        assert "run.yaml" in expect_refusal(v6t(*command.split()), code)


def make_unusual(path, kind):
    """Replace a file by a pipe, an endless device, a huge file or a directory."""
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "large":
        with path.open("wb") as file:
            file.truncate(2 << 30)
    else:
        path.mkdir()


CODES = {
    "pipe": ("not-a-regular-file",), "device": ("not-a-regular-file",),
    "large": ("file-too-large",), "directory": ("not-a-regular-file", "no-such-run"),
}  # fmt: skip
"""Possible error codes by kind of file."""


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("words", [
    ("run", "it"), ("run", "--plugin", "nat44", "--testbed", "it"), ("campaign", "it", "-o", "x"),
    ("init", "--from-siitperf", "it"), ("init", "--from-maptperf", "it"), ("doctor", "--testbed", "it"),
    ("run", "--plugin", "siit", "--set", "mapping=eam", "--set", "eam_file=it", "--dry-run"),
    ("run", "--plugin", "lw4o6", "--set", "table={file: it}", "--dry-run"),
])  # fmt: skip
def test_unusual_files_are_rejected(words, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_unusual(tmp_path / "it", kind)
    done = v6t(*words)
    expect_refusal(done)
    assert "--set" in words or done.code in CODES[kind]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    path = tmp_path_factory.mktemp("input") / "run"
    return make_run(path, modes=("forward",), procedure={"repetitions": 1})


def expect_no_internal_error(run, original):
    """Check that resume, report and compare of a damaged run succeed or reject the run."""
    for command in ("resume --no-report", "report --format md,json,junit", f"compare {original}"):
        done = v6t(*command.split(), run)
        assert done.status in (0, 2), (command, done)


@pytest.mark.parametrize(("name", "kind"), [
    *(("journal.jsonl", kind) for kind in CODES),
    *((f"{name}.json", "pipe") for name in ("config", "manifest", "results")),
])  # fmt: skip
def test_run_directory_with_unusual_file_is_not_an_internal_error(
    name, kind, original, tmp_path, monkeypatch
):
    monkeypatch.setattr("v6t.core.runs.journal.JOURNAL_OCTETS", 1 << 20)  # quicker to read
    run = shutil.copytree(original, tmp_path / "run")
    make_unusual(run / name, kind)
    expect_no_internal_error(run, original)


EDITS = {
    "results.json": (
        lambda r: {**r, "results": 5}, lambda r: {**r, "results": [5]}, lambda r: {**r, "caveats": 7},
        lambda r: {**r, "results": [{**r["results"][0], "rates": "many"}]}, lambda r: [], lambda r: {},
        lambda r: {**r, "results": [{**r["results"][0], "median": None, "trials": 3}]},
        lambda r: {**r, "status": ["complete"]}, lambda r: {**r, "bottleneck": [1]},
        lambda r: {**r, "finding": 3}, lambda r: {**r, "label": {"a": 1}},
    ),
    "manifest.json": (
        lambda m: [], lambda m: {}, lambda m: dict.fromkeys(m, 3), lambda m: {k: [] for k in m},
        lambda m: {k: {} for k in m}, dict.fromkeys, lambda m: dict.fromkeys(m, "x"),
    ),
    "config.json": (
        lambda c: [], lambda c: {}, lambda c: {**c, "params": []}, lambda c: {**c, "plugin": "none"},
        lambda c: {**c, "frame_sizes": [10**30]}, lambda c: {**c, "procedure": {}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_run_edited_by_hand_is_not_an_internal_error(name, original, tmp_path):
    for number, change in enumerate(EDITS[name]):
        run = shutil.copytree(original, tmp_path / f"{number}")
        content = json.loads((run / name).read_text())
        content.pop("sha256", None)  # as if written by hand
        (run / name).write_text(json.dumps(change(content)))
        expect_no_internal_error(run, original)


def test_invalid_json_numbers_are_rejected(tmp_path):
    for text in ("NaN", "[Infinity]", '["\\ud83d"]', "1e999", "[" * 100_000, "9" * 5000):
        (tmp_path / "x").write_text(text)
        with expect_error("invalid-json"):
            files.read_json(tmp_path / "x")
    with expect_error("not-a-file-name"):
        files.read_json(tmp_path / "a\0b")
