"""Raw values of a run as comma-separated tables, one row per repetition or trial."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from v6t.analysis.record import Record
from v6t.analysis.trial_rows import list_trial_rows
from v6t.core.runs.journal import Journal
from v6t.core.runs.rundir import REPETITIONS, TRIALS

Row = dict[str, Any]


class Tables:
    """The tables of a run in progress, which grow: no row is made twice."""

    def __init__(self, journal: Journal) -> None:
        """Begin.

        Args:
            journal: every trial has its rows in ``trials.csv``.
        """
        self._journal = journal
        self._known = 0
        self._texts = {REPETITIONS: io.StringIO(), TRIALS: io.StringIO()}
        self._columns: dict[str, list[str]] = {}

    def add(self, name: str, rows: Iterable[Row]) -> None:
        """More rows of a table; the first one of all has its columns."""
        for row in rows:
            out = self._texts.setdefault(name, io.StringIO())
            new = name not in self._columns
            columns = self._columns.setdefault(name, list(row))
            writer = csv.DictWriter(out, columns, lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow(row)

    def files(self) -> Iterator[tuple[str, str]]:
        """Names and texts; a text is empty without rows."""
        entries, trials = self._journal.entries, self._journal.trials
        for key in islice(entries, self._known, None):
            self.add(TRIALS, list_trial_rows(trials[key], entries[key]))
        self._known = len(entries)
        for name, out in self._texts.items():
            yield name, out.getvalue()


def with_limit(rows: Iterable[Row], record: Record) -> list[Row]:
    """Repetitions, each with a last column that says whether the tester or the medium limits it.

    What was offered above what the self-test covers is limited, too: loss and delay may be the
    tester's own (SELF-02).
    """
    beyond = record.above_usable
    return [
        {**row, "Limited": "yes" if record.limited or row.get("rate") in beyond else "no"}
        for row in rows
    ]
