"""Resumed and repeated runs: what is replayed, and what is measured again."""

from v6t.core.runs.journal import Journal
from v6t.tests.expect import expect_error
from v6t.trials.result import TrialResult
from v6t.trials.trial import Trial


def make_trial(key):
    return Trial("throughput", key, 104, 64, "forward", 1000.0, 1.0)


def test_journal_with_lines_of_two_runs_is_rejected_without_manifest(tmp_path):
    path = tmp_path / "journal.jsonl"
    for number, run in enumerate(("first", "second")):
        journal = Journal(path)
        journal.run = run
        journal.append(make_trial(f"t{number}"), TrialResult({}))
        journal.close()
    with expect_error("journal-mismatch"):
        Journal(path)
