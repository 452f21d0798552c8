"""The final tables: what a user takes home from a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from v6t.analysis.marks import footnotes
from v6t.analysis.sheet import number_of
from v6t.analysis.warnings import list_warnings
from v6t.base.files import read_json
from v6t.benchmarks.registry import presentations
from v6t.benchmarks.throughput import ThroughputRecord
from v6t.core.cli.tables import print_table
from v6t.core.runs.bottleneck import lines_of
from v6t.core.runs.rundir import MANIFEST, RESULTS
from v6t.core.runs.runner import RunOutcome

if TYPE_CHECKING:
    from rich.console import Console


def print_summary(console: Console, outcome: RunOutcome, title: str) -> None:
    """Print a table per benchmark, flags, remarks, caveats and the directory."""
    console.print(title, highlight=False)
    known = presentations()
    # a terminal breaks lines anywhere, in figures, too; whoever reads a pipe wants each line whole
    whole = not console.is_terminal
    for table in known.sheets(outcome.records):
        print_table(console, table)
    console.print("`v6t explain WORD` says what a word of these tables means", highlight=False)
    searched = [r for r in outcome.records if isinstance(r, ThroughputRecord)]
    repetitions = sorted({r.repetitions for r in searched})
    trials = sum(len(r.trials) for r in outcome.records)
    invalid = sum(len(r.invalid_trials) for r in outcome.records)
    counted = number_of(trials, "trial") + (
        f", {invalid} of them invalid (tester, not device)" if invalid else ""
    )
    if searched:
        many = ", ".join(map(str, repetitions))
        counted = f"Throughput over {many} repetition{'s' * (many != '1')}, {counted}"
    console.print(counted, highlight=False)
    for note in footnotes(outcome.records):
        console.print(note, highlight=False)
    for warning in list_warnings(outcome.records, known):
        console.print(str(warning), highlight=False, soft_wrap=whole)
    for failure in known.failures:
        console.print(
            f"shown as it stands, since {failure}", highlight=False, soft_wrap=whole, markup=False
        )
    if _shares_oracle(outcome):
        console.print(
            "the device is made of the reference translation itself: frames that matched prove "
            "the path, not the translation",
            highlight=False,
        )
    for line in _bottleneck(outcome):
        console.print(line, highlight=False, soft_wrap=whole, markup=False)
    for caveat in outcome.caveats:
        console.print(f"[yellow]{caveat}[/yellow]", highlight=False)
    console.print(f"Results: {outcome.directory}", highlight=False, soft_wrap=True)


def _shares_oracle(outcome: RunOutcome) -> bool:
    """Whether frames were compared with what made them, and there were any."""
    from v6t.analysis.rundata import shares_oracle

    manifest = read_json(outcome.directory / MANIFEST)
    return shares_oracle(manifest)


def _bottleneck(outcome: RunOutcome) -> Iterator[str]:
    """Print what limits the device, where it was watched."""
    results = read_json(outcome.directory / RESULTS)
    watched = results.get("bottleneck")
    if not watched:
        return
    yield "What limits the device"
    for entry in watched:
        yield from (f"  {line}" for line in lines_of(entry))
    yield from (
        f"  {text}" for text in dict.fromkeys(e["together"] for e in watched if "together" in e)
    )
