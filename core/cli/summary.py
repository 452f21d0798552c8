"""The results of a run on a terminal: a table for each benchmark, warnings by kind, the verdict."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from v6t.analysis.report.verdict import verdict_sentences
from v6t.analysis.sheet import footnotes, number_of
from v6t.analysis.warnings import NOT_MEASURED, list_warnings
from v6t.base.text import escape_controls
from v6t.benchmarks.registry import presentations
from v6t.core.cli.tables import print_table
from v6t.core.runs.bottleneck import describe_entry

if TYPE_CHECKING:
    from rich.console import Console
    from v6t.analysis.presentation import Presentations
    from v6t.analysis.rundata import RunData

SHOWN_WARNINGS = 3
SAME_CODE = (
    "The reference device uses v6t's own translation; matching frames verify the data path only."
)


def print_results(
    console: Console, data: RunData, path: Path, *, complete: bool = False, warnings: bool = False
) -> None:
    """Print the results of a run.

    Args:
        console: on standard output.
        data: the run.
        path: its directory.
        complete: all tables, also those that are shortened on a terminal.
        warnings: every warning; else the first of each kind, at most three.
    """
    known = presentations()
    for presentation, records in known.measured(data.records):
        tables = presentation.tables if complete else presentation.brief_tables
        for table in tables(records):
            print_table(console, table)
    shown = _warnings(data, known)
    lines = [*footnotes(data.records), *_count_trials(data), *_bottleneck(data)]
    found = list_warnings(data.records, known)
    lines += [str(warning) for warning in found if warning.code == NOT_MEASURED]
    if warnings:
        lines += [text for text, count in shown if not count]
        lines += [str(warning) for warning in found if warning.code != NOT_MEASURED]
    elif shown:
        more = f"; all: v6t show {quote(str(path))} --warnings" if _more(shown) else ""
        lines += ["", f"{number_of(len(shown), 'kind')} of warnings{more}"]
        lines += [_in_line(text, count, console.width) for text, count in shown[:SHOWN_WARNINGS]]
    lines += [f"shown as it stands, since {failure}" for failure in known.failures]
    lines += ["", *verdict_sentences(data)[:1]]
    for line in lines:
        _print(console, line)


def _count_trials(data: RunData) -> Iterator[str]:
    trials = sum(len(r.trials) for r in data.records)
    invalid = sum(len(r.invalid_trials) for r in data.records)
    yield number_of(trials, "trial") + (
        f", {invalid} of them invalid (fault of the tester, not of the device)" if invalid else ""
    )


def _warnings(data: RunData, known: Presentations) -> list[tuple[str, int]]:
    """List each kind of warning with the number of figures it is about; 0: the whole run."""
    whole = [*data.results.get("caveats", ())]
    if data.shares_oracle:
        whole.append(SAME_CODE)
    kinds: dict[tuple[str, str], tuple[str, int]] = {}
    for record in data.records:
        for warning in list_warnings([record], known) if record.measured else ():
            kind = record.benchmark, warning.code
            first, count = kinds.get(kind, (f"{record.benchmark}: {warning.text}", 0))
            kinds[kind] = first, count + 1
    return [*((text, 0) for text in whole), *kinds.values()]


def _more(shown: list[tuple[str, int]]) -> bool:
    return len(shown) > SHOWN_WARNINGS or any(count > 1 for _, count in shown)


def _in_line(text: str, count: int, width: int) -> str:
    end = f"   {number_of(count, 'figure')}" if count else ""
    room = width - len(end) - 2
    if len(text) > room:
        text = text[: room - 1].rsplit(" ", 1)[0] + " …"
    return f"  {text.ljust(room if count else 0)}{end}"


def _bottleneck(data: RunData) -> Iterator[str]:
    """Yield what limits the device, where it was watched."""
    watched = data.results.get("bottleneck")
    if not watched:
        return
    yield "What limits the device"
    for entry in watched:
        yield from (f"  {line}" for line in describe_entry(entry))
    yield from (
        f"  {text}" for text in dict.fromkeys(e["together"] for e in watched if "together" in e)
    )


def _print(console: Console, line: str) -> None:
    console.print(
        escape_controls(line), highlight=False, markup=False, soft_wrap=not console.is_terminal
    )
