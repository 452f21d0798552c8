"""The final table: what a user takes home from a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from v6t.core.run import RunOutcome

if TYPE_CHECKING:
    from rich.console import Console


def print_summary(console: Console, outcome: RunOutcome, title: str) -> None:
    """Table, flags, caveats and the directory."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    table.add_column("IPv6/IPv4\noctets", justify="right", no_wrap=True)
    table.add_column("direction", no_wrap=True)
    for name in ("median fps\nper direction", "P1", "P99", "aggregate\nfps"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("loss", justify="right", no_wrap=True)
    table.add_column("frames\nmatched", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for record in outcome.records:
        table.add_row(*_cells(record))
    console.print(table)
    repetitions = sorted({r["repetitions"] for r in outcome.records})
    trials = sum(len(r["trials"]) for r in outcome.records)
    invalid = sum(len(r["invalid_trials"]) for r in outcome.records)
    console.print(
        f"Throughput over {', '.join(map(str, repetitions))} repetitions, {trials} trials"
        + (f", {invalid} of them invalid (tester, not device)" if invalid else ""),
        highlight=False,
    )
    flagged = [r for r in outcome.records if r["tester_limited"] or r["upper_bound_hit"]]
    if flagged:
        console.print(
            "* limited by the tester or the medium: the device may be faster", highlight=False
        )
    for caveat in outcome.caveats:
        console.print(f"[yellow]{caveat}[/yellow]", highlight=False)
    console.print(f"Results: {outcome.directory}", highlight=False, soft_wrap=True)


def _cells(record: dict[str, Any]) -> tuple[str, ...]:
    both = record["direction"] == "bidirectional"
    losses = [v for v in record["loss"].values() if v is not None]
    share = record["matched"]
    return (
        f"{record['frame_sizes']['ipv6']}/{record['frame_sizes']['ipv4']}",
        record["direction"],
        f"{record['median']:,.0f}",
        f"{record['p1']:,.0f}",
        f"{record['p99']:,.0f}",
        f"{record['aggregate_median']:,.0f}" if both else "-",
        f"{max(losses):.4%}" if losses else "undefined",
        "undefined" if share is None else f"{share:.2%}",
        "*" if record["tester_limited"] or record["upper_bound_hit"] else "",
    )
