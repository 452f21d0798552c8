"""Raw values of a run as comma-separated tables, one row per repetition or trial."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from v6t.analysis.records.base import Record
from v6t.analysis.records.throughput import trial_row
from v6t.core.runs.journal import Journal

Row = dict[str, Any]


def trial_rows(journal: Journal) -> Iterator[Row]:
    """Every trial, one row per direction and class."""
    for key, result in journal.entries.items():
        yield from trial_row(journal.trials[key], result)


def with_limit(rows: Sequence[Row], record: Record) -> list[Row]:
    """Repetitions, each with a last column that says whether the tester or the medium limits it."""
    return [{**row, "Limited": "yes" if record.limited else "no"} for row in rows]


def as_csv(rows: Sequence[Row]) -> str:
    """A table with a heading; empty without rows."""
    if not rows:
        return ""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()
