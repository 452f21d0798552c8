"""Resumed and complete runs: no result is lost or replaced by less."""

import json
import shutil
import zlib

import pytest
from v6t.base.errors import TesterError
from v6t.core.runs.events import Listener
from v6t.core.runs.journal import Journal
from v6t.core.runs.results import load_run, read_results
from v6t.core.runs.runner import resume
from v6t.tests.core.support import (
    count_new_trials,
    enforce_permissions,
    measure_run,
    read_comparable,
    read_journal,
    read_trial_keys,
    remove_crash,
    tree,
    v6t,
)
from v6t.tests.expect import expect_error, expect_refusal
from v6t.trials.result import TrialResult
from v6t.trials.trial import Trial

from .test_run import simulated


def rewrite(path, change):
    """Rewrite the journal with changed entries and valid checksums."""
    changed = [change(entry) for entry in read_journal(path)]
    text = b""
    for entry in changed:
        body = json.dumps(entry, separators=(",", ":"), sort_keys=True).encode()
        text += f"{zlib.crc32(body):08x} ".encode() + body + b"\n"
    (path / "journal.jsonl").write_bytes(text)


def unmarked(entry):
    return {k: v for k, v in entry.items() if k != "run"}


def with_another_field(entry):
    return {**entry, "trial": {**entry["trial"], "colour": "blue"}}


def without_a_count(entry):
    for direction in entry["result"]["directions"].values():
        for count in direction["classes"].values():
            count.pop("received")
    return entry


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Provide a complete run, which tests copy."""
    path = tmp_path_factory.mktemp("finished") / "out"
    measure_run(simulated(), path)
    return path


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """Provide a run whose tester failed after one of three directions."""
    path = tmp_path_factory.mktemp("failed") / "out"
    with pytest.raises(TesterError):
        measure_run(simulated(crash_at=60), path)
    assert 1 <= len(read_results(path)["results"]) < 3
    remove_crash(path)
    return path


@pytest.fixture
def complete(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "out")


@pytest.fixture
def begun(failed, tmp_path):
    return shutil.copytree(failed, tmp_path / "out")


def test_a_complete_run_is_only_read(complete):
    before = {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in complete.iterdir()}
    assert "nothing was measured" in v6t("resume", complete).err
    again = resume(complete, Listener())
    assert len(again.trials) == len(read_trial_keys(complete))
    assert {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in complete.iterdir()} == before


@pytest.mark.slow
def test_a_complete_run_that_may_not_be_written_can_be_read(complete):
    for path in complete.iterdir():
        if path.name != ".lock":
            path.chmod(0o400)
    complete.chmod(0o500)
    with enforce_permissions():
        done = v6t("resume", complete, "--json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["status"] == "complete"


def change_lines(path, change):
    """Replace the lines of the journal."""
    journal = path / "journal.jsonl"
    journal.write_bytes(b"".join(change(journal.read_bytes().splitlines(keepends=True))))


def change_schema(path, schema):
    """Change the version in the results."""
    (path / "results.json").write_text(json.dumps(read_results(path) | {"schema": schema}))


def flip(octets, at):
    """Change one bit of an octet."""
    return octets[:at] + bytes([octets[at] ^ 1]) + octets[at + 1 :]


def flip_after(file, words):
    """Change one bit of the octet after the first occurrence of some words."""
    octets = file.read_bytes()
    file.write_bytes(flip(octets, octets.index(words) + len(words)))


def exchange_journal(path):
    """Replace the journal by that of another run."""
    measure_run(simulated(delay_us=30), path.parent / "other")
    shutil.copy(path.parent / "other" / "journal.jsonl", path)


def change_seed(path):
    config = path / "config.json"
    config.write_text(config.read_text().replace('"seed": 1', '"seed": 2'))


DAMAGE = {
    "trials without a run": lambda path: rewrite(path, unmarked),
    "journal of a later version": lambda path: rewrite(path, lambda e: {**e, "schema": "x/9"}),
    "trials without a count": lambda path: rewrite(path, without_a_count),
    "results of a later version": lambda path: change_schema(path, "v6t-results/9"),
    "results without a schema": lambda path: change_schema(path, None),
    "lost line": lambda path: change_lines(path, lambda lines: lines[:10] + lines[11:]),
    "repeated line": lambda path: change_lines(path, lambda lines: lines[:10] + lines[9:]),
    "cut journal": lambda path: change_lines(path, lambda lines: lines[:20]),
    "empty journal": lambda path: change_lines(path, lambda lines: []),
    "flipped first line": lambda path: change_lines(path, lambda all: [flip(all[0], 99), *all[1:]]),
    "flipped last line": lambda path: change_lines(
        path, lambda all: [*all[:-1], flip(all[-1], 99)]
    ),
    "no journal": lambda path: (path / "journal.jsonl").unlink(),
    "journal of another run": exchange_journal,
    "flipped results": lambda path: flip_after(path / "results.json", b'"median": '),
    "flipped manifest": lambda path: flip_after(path / "manifest.json", b'"run": "'),
    "changed config": change_seed,
}


@pytest.mark.parametrize(
    ("what", "code"),
    [
        *(
            (what, "journal-mismatch")
            for what in ("trials without a run", "journal of another run")
        ),
        *((what, "damaged-file") for what in ("no journal", "empty journal")),
        *((what, "damaged-file") for what in ("flipped first line", "flipped last line")),
        *((what, "damaged-file") for what in ("lost line", "repeated line")),
    ],
)
def test_resume_with_a_damaged_journal_changes_nothing(what, code, begun):
    DAMAGE[what](begun)
    before = tree(begun)
    assert str(begun / "journal.jsonl") in expect_refusal(v6t("resume", begun), code)
    assert tree(begun) == before


@pytest.mark.parametrize(
    ("what", "code"), [("changed config", "damaged-file"), ("flipped manifest", "journal-mismatch")]
)
def test_resume_with_damaged_settings_changes_nothing(what, code, begun):
    DAMAGE[what](begun)
    before = tree(begun)
    expect_refusal(v6t("resume", begun), code)
    assert tree(begun) == before


def test_resume_without_config_digest_is_accepted(begun):
    """The manifests of version 0.1.0 have none."""
    manifest = json.loads((begun / "manifest.json").read_text())
    del manifest["config_sha256"]
    (begun / "manifest.json").write_text(json.dumps(manifest))
    assert resume(begun, Listener()).status == "complete"


@pytest.mark.parametrize(
    ("what", "code", "file"),
    [
        ("changed config", "damaged-file", "config.json"),
        *((f"{what} journal", "damaged-file", "journal.jsonl") for what in ("no", "cut")),
        ("flipped last line", "damaged-file", "journal.jsonl"),
        ("journal of another run", "journal-mismatch", "journal.jsonl"),
        ("flipped results", "damaged-file", "results.json"),
        ("trials without a count", "damaged-file", "journal.jsonl"),
        ("journal of a later version", "journal-other-version", "journal.jsonl"),
        ("results of a later version", "journal-other-version", "results.json"),
        ("results without a schema", "journal-other-version", "results.json"),
    ],
)
def test_damaged_complete_run_is_not_read(what, code, file, complete):
    DAMAGE[what](complete)
    before = tree(complete)
    for words in (["show"], ["report", "--format", "md"], ["compare", complete], ["resume"]):
        assert file in expect_refusal(v6t(*words, complete), code), words
    assert tree(complete) == before


def test_published_run_is_read_without_journal(complete):
    manifest = json.loads((complete / "manifest.json").read_text())
    (complete / "manifest.json").write_text(json.dumps({"run": manifest["run"]}))
    (complete / "journal.jsonl").unlink()
    assert load_run(complete).status == "complete"


def test_foreign_journal_without_run_id_is_rejected_unchanged(complete):
    """The run's manifest is lost: replaying finds it."""
    (complete / "manifest.json").unlink()
    rewrite(complete, lambda e: unmarked(with_another_field(e)))
    content = read_results(complete) | {"status": "running"}
    (complete / "results.json").write_text(json.dumps(content))
    before = tree(complete)
    with expect_error("journal-mismatch"):
        resume(complete, Listener())
    kept = {name: text for name, text in tree(complete).items() if name != "log.txt"}
    assert kept == {name: text for name, text in before.items() if name != "log.txt"}


def test_resume_never_shrinks_results_file(begun, monkeypatch):
    """At no moment of a resumed run does results.json hold less than before."""
    from v6t.core.runs.results import ResultWriter

    known = [len(read_results(begun)["results"])]
    write = ResultWriter.write

    def watched(self, head, *, has_new_trials):
        write(self, head, has_new_trials=has_new_trials)
        known.append(len(read_results(begun)["results"]))

    monkeypatch.setattr(ResultWriter, "write", watched)
    resume(begun, Listener())
    assert known == sorted(known)
    assert known[-1] == 3


def test_lost_results_are_restored_from_journal(complete):
    before = (complete / "results.json").read_bytes()
    (complete / "results.json").unlink()
    assert count_new_trials(complete) == 0
    assert (complete / "results.json").read_bytes() == before


def test_journal_is_resumed_without_manifest(begun, tmp_path):
    (begun / "manifest.json").unlink()
    resume(begun, Listener())
    measure_run(simulated(), tmp_path / "whole")
    assert read_comparable(begun) == read_comparable(tmp_path / "whole")
    assert count_new_trials(begun) == 0
    assert len({e["run"] for e in read_journal(begun)}) == 1


@pytest.mark.parametrize(("waits", "same"), [(2.0, True), (3.0, False)])
def test_missing_trial_setting_has_its_default(waits, same, tmp_path):
    """A later version knows one more setting of trials and asks for its default."""
    asked = Trial("throughput", "t", 104, 64, "forward", 1000.0, 1.0, residual_wait_s=waits)
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append(asked, TrialResult({}))
    journal.trials["t"].pop("residual_wait_s")
    measure = journal.with_replay(never_measured)
    if same:
        assert measure(asked) == TrialResult({})
    else:
        with expect_error("journal-mismatch"):
            measure(asked)


def never_measured(trial):
    raise AssertionError(f"{trial.key} was measured")


@pytest.mark.parametrize("lines", [1, 20, 60])
def test_resumed_simulation_continues_its_clock(lines, complete, tmp_path):
    shutil.copytree(complete, tmp_path / "cut")
    journal = tmp_path / "cut" / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:lines]))
    (tmp_path / "cut" / "results.json").unlink()
    assert count_new_trials(tmp_path / "cut") > 0
    for name in ("trials.csv", "results.csv"):
        assert (tmp_path / "cut" / name).read_bytes() == (complete / name).read_bytes()
