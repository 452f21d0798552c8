"""The results of a run on standard output: tables, warnings by kind, the verdict, the trials."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from shlex import quote
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import click
from v6t.core.cli.terminal import CommandResult, get_width, print_table, print_text

if TYPE_CHECKING:
    from v6t.analysis.presentation import Presentations
    from v6t.analysis.rundata import RunData

PIPE_WIDTH = 120  # width of results in pipes and files, in characters
MAX_SHOWN_WARNINGS = 3  # kinds of warnings shown without --warnings
SHARED_CODE_WARNING = (
    "The reference device uses v6t's own translation; matching frames verify the data path only."
)


def make_run_result(
    data: RunData, path: Path, *, wide: bool = False, all_warnings: bool = False
) -> CommandResult:
    """Return the results of a run as a command result; its text ends with the path of any report.

    Args:
        data: the run.
        path: its directory.
        wide: print all columns and tables.
        all_warnings: print every warning; else the first of each kind, at most three.
    """
    from v6t.core.runs.results import make_results_document
    from v6t.core.runs.rundir import format_json, report_damage

    def print_results() -> None:
        with report_damage(path):
            _print_results(data, path, wide, all_warnings)
        page = path / "report.html"
        click.echo(f"Report: {page}" if page.exists() else f"Results: {path}")

    def to_json() -> Any:
        """Return the content of results.json, in the order of the file."""
        return json.loads(format_json(make_results_document(data.results)))

    return CommandResult(to_json, print_results)


def _print_results(data: RunData, path: Path, wide: bool, all_warnings: bool) -> None:
    """Print tables, trials, warnings and the verdict; see :func:`make_run_result`."""
    from v6t.analysis.report.verdict import write_verdict
    from v6t.analysis.sheet import explain_marks, pluralize
    from v6t.analysis.warnings import NOT_MEASURED, list_warnings
    from v6t.benchmarks.registry import load_presentations

    known = load_presentations()
    for presentation, records in known.group_measured(data.records):
        make_tables = presentation.make_tables if wide else presentation.make_brief_tables
        for table in make_tables(records):
            print_table(table, PIPE_WIDTH)
    trials = pluralize(sum(len(record.trials) for record in data.records), "trial")
    if invalid := sum(len(record.invalid_trials) for record in data.records):
        trials += f", {invalid} of them invalid (fault of the tester, not of the device)"
    trials += ", not counting checks and self-tests"
    lines = [*explain_marks(data.records), trials, *_describe_bottleneck(data)]
    kinds = _list_warning_kinds(data, known)
    warnings = list_warnings(data.records, known)
    lines += [str(warning) for warning in warnings if warning.code == NOT_MEASURED]
    if all_warnings:
        texts = [text for text, count in kinds if not count]
        texts += [str(warning) for warning in warnings if warning.code != NOT_MEASURED]
        lines += [f"- {text}" for text in texts]
    elif kinds:
        is_cut = len(kinds) > MAX_SHOWN_WARNINGS or any((count or 0) > 1 for _, count in kinds)
        more = f"; all: v6t show {quote(str(path))} --warnings" if is_cut else ""
        lines += ["", f"{pluralize(len(kinds), 'kind')} of warnings{more}"]
        for text, count in kinds[:MAX_SHOWN_WARNINGS]:
            end = f"   {pluralize(count, 'figure')}" if count else ""
            room = get_width(PIPE_WIDTH) - len(end) - 2
            lines.append(f"  {shorten(text, room, placeholder=' …'):<{room if count else 0}}{end}")
    lines += [f"shown as it stands, since {failure}" for failure in known.failures]
    for line in [*lines, "", *write_verdict(data)[:1]]:
        print_text(line, indent=2 if line.startswith("- ") else 0)


def _list_warning_kinds(data: RunData, known: Presentations) -> list[tuple[str, int | None]]:
    """Return one warning of each kind and the number of figures that it applies to.

    The number is None if the warning applies to the whole run.
    """
    from v6t.analysis.warnings import list_warnings

    whole = [
        *data.results.get("caveats", ()),
        *([SHARED_CODE_WARNING] if data.shares_oracle else ()),
    ]
    kinds: dict[tuple[str, str], tuple[str, int]] = {}
    for record in data.records:
        for warning in list_warnings([record], known) if record.measured else ():
            kind = record.benchmark, warning.code
            first, count = kinds.get(kind, (f"{record.benchmark}: {warning.text}", 0))
            kinds[kind] = first, count + 1
    return [*((text, None) for text in whole), *kinds.values()]


def _describe_bottleneck(data: RunData) -> Iterator[str]:
    """Yield lines about what limits the device, if this was measured."""
    from v6t.core.runs.bottleneck import describe_entry

    entries = data.results.get("bottleneck") or []
    if entries:
        yield "What limits the device"
    for entry in entries:
        yield from (f"  {line}" for line in describe_entry(entry))
    yield from dict.fromkeys(f"  {entry['together']}" for entry in entries if "together" in entry)


def make_trials_result(data: RunData) -> CommandResult:
    """Return the trials of a run: rate, length, frames required and received, faults."""
    from v6t.analysis.sheet import Column, make_table

    trials = [
        {
            "trial": trial.key,
            "rate_fps": trial.request["rate_fps"],
            "sending_s": trial.sending_s,
            **{
                counter: sum(d.count_frames(counter) for d in trial.result.directions.values())
                for counter in ("required", "received")
            },
            "faults": list(trial.result.faults),
        }
        for trial in data.trials
    ]
    columns = [
        Column[dict[str, Any]]("trial", lambda t: t["trial"], text=True),
        Column("fps per\ndirection", lambda t: t["rate_fps"]),
        Column("s", lambda t: f"{t['sending_s']:g}"),
        Column("required", lambda t: f"{t['required']:,}"),
        Column("received", lambda t: f"{t['received']:,}"),
        Column("faults", lambda t: "; ".join(t["faults"]), text=True),
    ]
    table = make_table(f"Trials of {data.name}", trials, columns)
    return CommandResult(lambda: trials, partial(print_table, table, 200))
