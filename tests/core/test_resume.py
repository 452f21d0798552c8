"""Resumed and complete runs: no result is lost or replaced by an incomplete one."""

import json
import shutil
import zlib
from dataclasses import replace
from importlib.metadata import version
from unittest.mock import Mock

import pytest
from v6t.analysis.report.setup import _list_machine_facts
from v6t.base.errors import TesterError
from v6t.core.runs.events import Listener
from v6t.core.runs.journal import Journal
from v6t.core.runs.results import ResultWriter, load_run, read_results
from v6t.core.runs.runner import resume
from v6t.tests.core import support
from v6t.tests.expect import expect_error, expect_refusal
from v6t.trials.result import TrialResult
from v6t.trials.trial import Trial

from .test_run import simulate_throughput


def rewrite_journal(path, change):
    """Rewrite the journal with changed entries and valid checksums."""
    lines = []
    for entry in map(change, support.read_journal(path)):
        body = json.dumps(entry, separators=(",", ":"), sort_keys=True).encode()
        lines.append(f"{zlib.crc32(body):08x} ".encode() + body + b"\n")
    (path / "journal.jsonl").write_bytes(b"".join(lines))


def remove_run_id(entry):
    return {k: v for k, v in entry.items() if k != "run"}


def remove_counters(entry):
    for direction in entry["result"]["directions"].values():
        for count in direction["classes"].values():
            count.pop("received")
    return entry


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Provide a complete run, which tests copy."""
    path = tmp_path_factory.mktemp("finished") / "out"
    support.measure_run(simulate_throughput(), path)
    return path


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """Provide a run whose tester failed after one of three directions."""
    path = tmp_path_factory.mktemp("failed") / "out"
    with pytest.raises(TesterError):
        support.measure_run(simulate_throughput(crash_at=60), path)
    assert 1 <= len(read_results(path)["results"]) < 3
    support.remove_crash(path)
    return path


@pytest.fixture
def complete(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "out")


@pytest.fixture
def incomplete(failed, tmp_path):
    return shutil.copytree(failed, tmp_path / "out")


def test_complete_run_is_only_read(complete):
    before = support.read_dir(complete), {p: p.stat().st_mtime_ns for p in complete.iterdir()}
    assert "nothing was measured" in support.v6t("resume", complete).err
    assert len(resume(complete, Listener()).trials) == len(support.read_trial_keys(complete))
    after = support.read_dir(complete), {p: p.stat().st_mtime_ns for p in complete.iterdir()}
    assert after == before


@pytest.mark.slow
def test_complete_run_without_write_permission_is_read(complete):
    for path in complete.iterdir():
        if path.name != ".lock":
            path.chmod(0o400)
    complete.chmod(0o500)
    with support.enforce_permissions():
        done = support.v6t("resume", complete, "--json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["status"] == "complete"


def change_lines(path, change):
    journal = path / "journal.jsonl"
    journal.write_bytes(b"".join(change(journal.read_bytes().splitlines(keepends=True))))


def flip(octets, at):
    return octets[:at] + bytes([octets[at] ^ 1]) + octets[at + 1 :]


def flip_after(path, text):
    """Flip one bit of the octet after the first occurrence of a text."""
    octets = path.read_bytes()
    path.write_bytes(flip(octets, octets.index(text) + len(text)))


def replace_results(path, **changes):
    (path / "results.json").write_text(json.dumps(read_results(path) | changes))


def edit_manifest(path, **changes):
    """Change values of the manifest; None removes one."""
    manifest = json.loads((path / "manifest.json").read_text()) | changes
    kept = {key: value for key, value in manifest.items() if value is not None}
    (path / "manifest.json").write_text(json.dumps(kept))


def exchange_journal(path):
    """Replace the journal by that of another run."""
    support.measure_run(simulate_throughput(delay_us=30), path.parent / "other")
    shutil.copy(path.parent / "other" / "journal.jsonl", path)


def change_seed(path):
    config = path / "config.json"
    config.write_text(config.read_text().replace('"seed": 1', '"seed": 2'))


def exchange_results(path):
    """Replace the results by those of another run with the same trials."""
    support.measure_run(simulate_throughput(), path.parent / "other")
    shutil.copy(path.parent / "other" / "results.json", path)


DAMAGES = {
    "trials without a run": (
        "incomplete", "journal-mismatch", "journal.jsonl", lambda p: rewrite_journal(p, remove_run_id)),
    "lost line": ("incomplete", "damaged-file", "journal.jsonl",
        lambda p: change_lines(p, lambda lines: lines[:10] + lines[11:])),
    "repeated line": ("incomplete", "damaged-file", "journal.jsonl",
        lambda p: change_lines(p, lambda lines: lines[:10] + lines[9:])),
    "empty journal": (
        "incomplete", "damaged-file", "journal.jsonl", lambda p: change_lines(p, lambda lines: [])),
    "flipped first line": ("incomplete", "damaged-file", "journal.jsonl",
        lambda p: change_lines(p, lambda lines: [flip(lines[0], 99), *lines[1:]])),
    "read-only journal": (
        "incomplete", "file-unreadable", "journal.jsonl", lambda p: (p / "journal.jsonl").chmod(0o400)),
    "invalid config": (
        "incomplete", "invalid-json", "config.json", lambda p: (p / "config.json").write_text("{}\n{}\n")),
    "list of versions": (
        "incomplete", "damaged-file", "", lambda p: edit_manifest(p, versions=5)),
    "flipped manifest": (
        "incomplete", "journal-mismatch", "", lambda p: flip_after(p / "manifest.json", b'"run": "')),
    "changed config": ("any", "damaged-file", "config.json", change_seed),
    "no journal": ("any", "damaged-file", "journal.jsonl", lambda p: (p / "journal.jsonl").unlink()),
    "flipped last line": ("any", "damaged-file", "journal.jsonl",
        lambda p: change_lines(p, lambda lines: [*lines[:-1], flip(lines[-1], 99)])),
    "journal of another run": ("any", "journal-mismatch", "journal.jsonl", exchange_journal),
    "results of another run": ("complete", "damaged-file", "results.json", exchange_results),
    "cut journal": ("complete", "damaged-file", "journal.jsonl",
        lambda p: change_lines(p, lambda lines: lines[:20])),
    "flipped results": ("complete", "damaged-file", "results.json",
        lambda p: flip_after(p / "results.json", b'"median": ')),
    "trials without a count": (
        "complete", "damaged-file", "journal.jsonl", lambda p: rewrite_journal(p, remove_counters)),
    "journal of a later version": ("complete", "journal-other-version", "journal.jsonl",
        lambda p: rewrite_journal(p, lambda entry: {**entry, "schema": "x/9"})),
    "results of a later version": ("complete", "journal-other-version", "results.json",
        lambda p: replace_results(p, schema="v6t-results/9")),
    "results without a schema": ("complete", "journal-other-version", "results.json",
        lambda p: replace_results(p, schema=None)),
}  # fmt: skip
"""State of the run before the damage, error code, file that the error names, and damage."""


@pytest.mark.parametrize("name", [n for n, row in DAMAGES.items() if row[0] != "complete"])
def test_resume_of_a_damaged_run_changes_nothing(name, incomplete):
    _, code, file, damage = DAMAGES[name]
    damage(incomplete)
    before = support.read_dir(incomplete)
    with support.enforce_permissions():
        done = support.v6t("resume", incomplete)
    assert str(incomplete / file) in expect_refusal(done, code)
    assert support.read_dir(incomplete) == before


@pytest.mark.parametrize("name", [n for n, row in DAMAGES.items() if row[0] != "incomplete"])
def test_damaged_complete_run_is_not_read(name, complete):
    _, code, file, damage = DAMAGES[name]
    damage(complete)
    before = support.read_dir(complete)
    for words in (["show"], ["report", "--format", "md"], ["compare", complete], ["resume"]):
        assert file in expect_refusal(support.v6t(*words, complete), code), words
    assert support.read_dir(complete) == before


def test_trial_without_duration_is_rejected_as_damaged(complete):
    rewrite_journal(complete, lambda e: {**e, "trial": {**e["trial"], "duration_s": None}})
    expect_refusal(support.v6t("show", "--trials", complete), "damaged-file")


def test_resume_without_config_digest_is_accepted(incomplete):
    """Manifests of version 0.1.0 have no digest."""
    edit_manifest(incomplete, config_sha256=None)
    assert resume(incomplete, Listener()).status == "complete"


@pytest.mark.parametrize("changes", [
    {"versions": ["0.0.1, commit 5bad"]},
    # manifests of earlier versions
    {"versions": None, "packages": {"v6t": "0.0.1"}, "source_commit": "5bad"},
])  # fmt: skip
def test_version_that_resumes_a_run_is_recorded(changes, incomplete):
    edit_manifest(incomplete, **changes)
    manifest = resume(incomplete, Listener()).manifest
    first, last = manifest["versions"]
    assert first == "0.0.1, commit 5bad" and last.startswith(version("v6t"))
    assert dict(_list_machine_facts(manifest))["resumed by"] == f"v6t {last}"


def test_published_run_is_read_without_journal(complete):
    run = json.loads((complete / "manifest.json").read_text())["run"]
    (complete / "manifest.json").write_text(json.dumps({"run": run}))
    (complete / "journal.jsonl").unlink()
    assert load_run(complete).status == "complete"


def test_results_without_run_id_are_accepted(complete):
    """Earlier versions of v6t wrote no run ID."""
    content = json.loads((complete / "results.json").read_text())
    del content["run"], content["sha256"]
    (complete / "results.json").write_text(json.dumps(content))
    assert load_run(complete).status == "complete"


def test_foreign_journal_without_run_id_is_rejected_unchanged(complete):
    """Without the manifest, the difference is detected when trials are replayed."""
    (complete / "manifest.json").unlink()
    rewrite_journal(complete, lambda e: remove_run_id({**e, "trial": {**e["trial"], "x": "blue"}}))
    replace_results(complete, status="running")
    before = support.read_dir(complete)
    with expect_error("journal-mismatch"):
        resume(complete, Listener())
    assert support.read_dir(complete) | {"log.txt": b""} == before | {"log.txt": b""}


def test_resume_never_shrinks_results_file(incomplete, monkeypatch):
    """At no moment of a resumed run does results.json hold less than before."""
    counts = [len(read_results(incomplete)["results"])]
    write = ResultWriter.write

    def write_and_count(self, head, *, has_new_trials):
        write(self, head, has_new_trials=has_new_trials)
        counts.append(len(read_results(incomplete)["results"]))

    monkeypatch.setattr(ResultWriter, "write", write_and_count)
    resume(incomplete, Listener())
    assert counts == sorted(counts) and counts[-1] == 3


def test_lost_results_are_restored_from_journal(complete):
    before = (complete / "results.json").read_bytes()
    (complete / "results.json").unlink()
    assert support.count_new_trials(complete) == 0
    assert (complete / "results.json").read_bytes() == before


def test_journal_is_resumed_without_manifest(incomplete, tmp_path):
    (incomplete / "manifest.json").unlink()
    resume(incomplete, Listener())
    support.measure_run(simulate_throughput(), tmp_path / "other")
    assert support.read_comparable(incomplete) == support.read_comparable(tmp_path / "other")
    assert support.count_new_trials(incomplete) == 0
    assert len({e["run"] for e in support.read_journal(incomplete)}) == 1


def test_missing_trial_setting_has_its_default(tmp_path):
    """A later version has one more setting of trials, here at its default."""
    trial = Trial("throughput", "t", 104, 64, "forward", 1000.0, 1.0, residual_wait_s=2.0)
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append(trial, TrialResult({}))
    journal.trials["t"].pop("residual_wait_s")
    measure = journal.with_replay(Mock(side_effect=AssertionError("measured again")))
    assert measure(trial) == TrialResult({})
    with expect_error("journal-mismatch"):
        measure(replace(trial, residual_wait_s=3.0))


@pytest.mark.parametrize("lines", [1, 20, 60])
def test_resumed_simulation_continues_its_clock(lines, complete, tmp_path):
    cut = shutil.copytree(complete, tmp_path / "cut")
    change_lines(cut, lambda all: all[:lines])
    (cut / "results.json").unlink()
    assert support.count_new_trials(cut) > 0
    for name in ("trials.csv", "results.csv"):
        assert (cut / name).read_bytes() == (complete / name).read_bytes()
