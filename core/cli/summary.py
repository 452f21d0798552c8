"""The final tables: what a user takes home from a run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from v6t.core.cli.tables import remarks, tables
from v6t.core.runs.bottleneck import lines_of
from v6t.core.runs.rundir import RESULTS
from v6t.core.runs.runner import RunOutcome

if TYPE_CHECKING:
    from rich.console import Console


def print_summary(console: Console, outcome: RunOutcome, title: str) -> None:
    """A table per benchmark, flags, remarks, caveats and the directory."""
    console.print(title, highlight=False)
    for table in tables(outcome.records):
        console.print(table)
    searched = [
        r
        for r in outcome.records
        if r["benchmark"].startswith("throughput") and not r.get("not_measured")
    ]
    repetitions = sorted({r["repetitions"] for r in searched})
    trials = sum(len(r["trials"]) for r in outcome.records)
    invalid = sum(len(r["invalid_trials"]) for r in outcome.records)
    counted = f"{trials} trial{'s' * (trials != 1)}" + (
        f", {invalid} of them invalid (tester, not device)" if invalid else ""
    )
    if searched:
        many = ", ".join(map(str, repetitions))
        counted = f"Throughput over {many} repetition{'s' * (many != '1')}, {counted}"
    console.print(counted, highlight=False)
    variants = [f for r in outcome.records for f in _variants(r)]
    bounded = [*outcome.records, *variants]
    if any(r.get("tester_limited") or r.get("upper_bound_hit") for r in bounded):
        console.print(
            "* limited by the tester or the medium: the device may be faster", highlight=False
        )
    for remark in remarks(outcome.records):
        console.print(remark, highlight=False, soft_wrap=True)
    for line in _bottleneck(outcome):
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    for caveat in outcome.caveats:
        console.print(f"[yellow]{caveat}[/yellow]", highlight=False)
    console.print(f"Results: {outcome.directory}", highlight=False, soft_wrap=True)


def _variants(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Results of variants of the traffic: by flows, by what varies."""
    return [*record.get("points", ()), *record.get("cases", {}).values()]


def _bottleneck(outcome: RunOutcome) -> Iterator[str]:
    """What limits the device, where it was watched."""
    results = json.loads((outcome.directory / RESULTS).read_text(encoding="utf-8"))
    watched = results.get("bottleneck")
    if not watched:
        return
    yield "What limits the device"
    for entry in watched:
        yield from (f"  {line}" for line in lines_of(entry))
    yield from (
        f"  {text}" for text in dict.fromkeys(e["together"] for e in watched if "together" in e)
    )
