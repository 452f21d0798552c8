"""Unusual files, such as pipes, directories and huge files, are rejected at once."""

import json
import os
import shutil

import pytest
from v6t.base import files
from v6t.tests.core.reportruns import make_run
from v6t.tests.core.support import v6t
from v6t.tests.expect import expect_error, expect_refusal

TEXTS = [
    ("zz: " + "{" * 16 + "}" * 16, "invalid-yaml"),
    ("zz: " + "[" * 1000, "invalid-yaml"),
    ("zz: " + "{a: " * 300 + "}" * 300, "invalid-yaml"),
    ("".join("  " * n + "a:\n" for n in range(300)), "invalid-yaml"),
    ("- " * 300 + "1", "invalid-yaml"),
    ("seed: 0x" + "f" * 5000, "out-of-range"),
    ("seed: " + "9" * 5000, "invalid-yaml"),
    ('label: "\\ud83d"', "not-text"),
    ('"\\ud83d": 1', "not-text"),
    ("label: \x00", "not-text"),
    ("x" * 300_000, "file-too-large"),
]


@pytest.mark.parametrize(("text", "code"), TEXTS, ids=range(len(TEXTS)))
def test_invalid_settings_file_is_rejected(text, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").write_text(text)
    for command in (
        ("run", "run.yaml"),
        ("campaign", "run.yaml", "-o", "x"),
        ("dut", "plan", "run.yaml"),
    ):
        assert "run.yaml" in expect_refusal(v6t(*command), code)


def make_unusual(path, kind):
    """Put something in a file's place that has no end, or never begins."""
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
    "pipe": ("not-a-regular-file",),
    "device": ("not-a-regular-file",),
    "large": ("file-too-large",),
    "directory": ("not-a-regular-file", "no-such-run"),
}
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
    """Resume, report and compare a damaged run: each reports what it can, or rejects the run."""
    for command in (
        ("resume", "--no-report"),
        ("report", "--format", "md,json,junit"),
        ("compare", original),
    ):
        done = v6t(*command, run)
        assert done.status in (0, 2), (command, done)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("journal.jsonl", kind) for kind in CODES),
        *((f"{name}.json", "pipe") for name in ("config", "manifest", "results")),
    ],
)
def test_run_directory_with_unusual_file_is_not_an_internal_error(name, kind, original, tmp_path):
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


@pytest.mark.parametrize("word", ["--label=\udcff", "--set-dut=left=\udcff", "-o\udcff"])
def test_command_line_that_is_not_text_is_rejected(word, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    expect_refusal(v6t("run", "--plugin", "nat44", "--tester", "sim", word), "not-text")
    assert not list(tmp_path.iterdir())
