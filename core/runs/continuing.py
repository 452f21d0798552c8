"""Taking a run up again: its results and its journal must belong together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from v6t.base.errors import UsageError
from v6t.core.runs.journal import Journal, mark_of, read_journal
from v6t.core.runs.results_file import COMPLETE, read_results
from v6t.core.runs.rundir import JOURNAL, MANIFEST, RESULTS, RunDir
from v6t.profiles.streams import StreamSet

NOTHING_TOUCHED = "nothing was changed; restore the journal of this run"


def finished(directory: RunDir) -> tuple[dict[str, Any], int] | None:
    """Results of a complete run and the number of its trials; None if it is not complete.

    Nothing is written.

    Raises:
        UsageError: the results or the journal cannot be read, or do not belong together.
    """
    results = read_results(directory.path)
    if results.get("status") != COMPLETE:
        return None
    path = directory.path / JOURNAL
    check_there(path, results)
    keys = [
        str(trial["key"]) for trial, _ in read_journal(path, mark_of(directory.read_json(MANIFEST)))
    ]
    check_trials(path, results, set(keys))
    return results, len(keys)


def journal_of(directory: RunDir, held: Mapping[str, Any]) -> Journal:
    """Open the journal of a run that goes on; made where the run begins.

    Args:
        directory: of the run.
        held: its results so far, empty if there are none.

    Raises:
        UsageError: it is missing, damaged, or another run's; nothing was touched.
    """
    path = directory.path / JOURNAL
    check_there(path, held)
    journal = Journal(path, mark_of(directory.read_json(MANIFEST)))
    try:
        check_trials(path, held, journal.trials)
        journal.repair()
    except BaseException:
        journal.close()
        raise
    return journal


def check_order(directory: RunDir, streams: Collection[StreamSet]) -> None:
    """Refuse to continue if the frames would come in another order.

    Args:
        directory: of the run.
        streams: what it sends.

    Raises:
        UsageError: an earlier version sent them in another order; nothing was touched.
    """
    path = directory.path / JOURNAL
    manifest = directory.read_json(MANIFEST)
    known = manifest.get("order", 1) if isinstance(manifest, dict) else 1
    changed = any(s.order > known for stream_set in streams for s in stream_set.streams)
    if changed and read_journal(path):
        raise UsageError(
            f"{path}: these trials sent the enumerated addresses and ports in the order of an "
            "earlier version, which this v6t no longer has",
            "use the v6t that wrote it (manifest.json names its version), or start a new run",
            code="damaged-file",
        )


def check_there(path: Path, held: Mapping[str, Any]) -> None:
    """Refuse a run that has results and no journal."""
    if held and not path.is_file():
        raise UsageError(
            f"{path} is missing, and with it the trials of {RESULTS} beside it",
            NOTHING_TOUCHED,
            code="damaged-file",
        )


def check_trials(path: Path, held: Mapping[str, Any], known: Collection[str]) -> None:
    """Every number in the results has its trials in the journal."""
    for record in held.get("results", ()):
        for key in record.get("trials", ()):
            if key not in known:
                raise UsageError(
                    f"{path} does not belong to {RESULTS} beside it: trial {key} is not in it",
                    NOTHING_TOUCHED,
                    code="damaged-file",
                )
