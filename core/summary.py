"""The final tables: what a user takes home from a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from v6t.core.run import RunOutcome
from v6t.core.tables import remarks, tables

if TYPE_CHECKING:
    from rich.console import Console


def print_summary(console: Console, outcome: RunOutcome, title: str) -> None:
    """A table per benchmark, flags, remarks, caveats and the directory."""
    console.print(title, highlight=False)
    for table in tables(outcome.records):
        console.print(table)
    searched = [r for r in outcome.records if r["benchmark"].startswith("throughput")]
    repetitions = sorted({r["repetitions"] for r in searched})
    trials = sum(len(r["trials"]) for r in outcome.records)
    invalid = sum(len(r["invalid_trials"]) for r in outcome.records)
    counted = f"{trials} trials" + (
        f", {invalid} of them invalid (tester, not device)" if invalid else ""
    )
    if searched:
        counted = f"Throughput over {', '.join(map(str, repetitions))} repetitions, {counted}"
    console.print(counted, highlight=False)
    if any(r["tester_limited"] or r["upper_bound_hit"] for r in searched):
        console.print(
            "* limited by the tester or the medium: the device may be faster", highlight=False
        )
    for remark in remarks(outcome.records):
        console.print(remark, highlight=False, soft_wrap=True)
    for caveat in outcome.caveats:
        console.print(f"[yellow]{caveat}[/yellow]", highlight=False)
    console.print(f"Results: {outcome.directory}", highlight=False, soft_wrap=True)
