"""Raw values of a run as comma-separated tables, one row per repetition or trial."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from v6t.analysis.records.throughput import trial_row
from v6t.core.config.resolve import technology
from v6t.core.config.settings import ResolvedRun
from v6t.core.runs.benchmarks import Measured
from v6t.core.runs.journal import Journal
from v6t.core.runs.rundir import REPETITIONS
from v6t.core.runs.specs import THROUGHPUT, WITH_TIMEOUT

Row = dict[str, Any]


def raw_tables(run: ResolvedRun, done: Sequence[Measured]) -> dict[str, list[Row]]:
    """Rows by file name: throughput in ``results.csv``, every other benchmark in its own."""
    n, m = technology(run).params.mixture or ("", "")
    mix = {"n": n, "m": m}
    tables: dict[str, list[Row]] = {REPETITIONS: []}
    for found in done:
        first = mix if found.benchmark in (THROUGHPUT, WITH_TIMEOUT) else {}
        name = REPETITIONS if found.benchmark == THROUGHPUT else f"{found.benchmark}.csv"
        tables.setdefault(name, []).extend(_with_mixture(row, first) for row in found.rows)
    return {name: rows for name, rows in tables.items() if rows or name == REPETITIONS}


def trial_rows(journal: Journal) -> Iterator[Row]:
    """Every trial, one row per direction and class."""
    for key, result in journal.entries.items():
        yield from trial_row(journal.trials[key], result)


def as_csv(rows: Sequence[Row]) -> str:
    """A table with a heading; empty without rows."""
    if not rows:
        return ""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _with_mixture(row: Row, mix: Row) -> Row:
    """The mixture stands after the direction, as in siitperf's column order (GEN-28)."""
    head = {k: row[k] for k in ("No", "Size", "Dir")}
    return {**head, **mix, **{k: v for k, v in row.items() if k not in head}}
