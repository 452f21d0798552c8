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


def odd(path, kind):
    """Put something in a file's place that has no end, or never begins."""
    if path.is_file():
        path.unlink()
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    elif kind == "larger":
        with path.open("wb") as out:
            out.truncate(2 << 30)
    else:
        path.mkdir()


KINDS = ("a pipe", "a device", "larger", "a folder")
ODD = {
    "a pipe": ("not-a-regular-file",),
    "a device": ("not-a-regular-file",),
    "larger": ("file-too-large",),
    "a folder": ("not-a-regular-file", "no-such-run"),
}
"""Codes of files that are none."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("words", [
    ("run", "it"), ("run", "--plugin", "nat44", "--testbed", "it"), ("campaign", "it", "-o", "x"),
    ("init", "--from-siitperf", "it"), ("init", "--from-maptperf", "it"), ("doctor", "--testbed", "it"),
    ("run", "--plugin", "siit", "--set", "mapping=eam", "--set", "eam_file=it", "--dry-run"),
    ("run", "--plugin", "lw4o6", "--set", "table={file: it}", "--dry-run"),
])  # fmt: skip
def test_unusual_files_are_rejected(words, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    odd(tmp_path / "it", kind)
    done = v6t(*words)
    expect_refusal(done)
    if "--set" not in words:
        assert done.code in ODD[kind]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("input") / "run"
    make_run(path, "throughput", modes=("forward",), procedure={"repetitions": 1})
    return path


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("journal.jsonl", kind) for kind in KINDS),
        *((f"{name}.json", "a pipe") for name in ("config", "manifest", "results")),
    ],
)
def test_run_directory_with_unusual_file_is_rejected(name, kind, whole, tmp_path):
    shutil.copytree(whole, tmp_path / "run")
    odd(tmp_path / "run" / name, kind)
    for command in (("resume",), ("report", "--format", "md"), ("compare", whole)):
        done = v6t(*command, tmp_path / "run")
        assert done.status in (0, 2), done  # a report needs no manifest
        assert "internal error" not in done.err


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
def test_a_run_edited_by_hand(name, whole, tmp_path):
    """One sentence, or what can still be said; never a word about a defect of v6t."""
    for number, change in enumerate(EDITS[name]):
        path = tmp_path / f"{number}"
        shutil.copytree(whole, path)
        content = json.loads((path / name).read_text())
        content.pop("sha256", None)  # as if written by hand
        (path / name).write_text(json.dumps(change(content)))
        for command in (
            ("resume", "--no-report"),
            ("report", "--format", "md,json,junit"),
            ("compare", whole),
        ):
            done = v6t(*command, path)
            assert done.status in (0, 2), (number, command, done)


def test_invalid_json_numbers_are_rejected(tmp_path):
    for text in ("NaN", "[Infinity]", '["\\ud83d"]', "1e999", "[" * 100_000, "9" * 5000):
        (tmp_path / "x").write_text(text)
        with expect_error("invalid-json"):
            files.read_json(tmp_path / "x")
    with expect_error("not-a-file-name"):
        files.read_json(tmp_path / "a\0b")


@pytest.mark.parametrize("word", ["--label=\udcff", "--set-dut=left=\udcff", "-o\udcff"])
def test_the_command_line_is_text(word, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    expect_refusal(v6t("run", "--plugin", "nat44", "--tester", "sim", word), "not-text")
    assert not list(tmp_path.iterdir())
