"""``v6t list``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click
from v6t.core.cli.options import PATH_TYPE, Command, json_option
from v6t.core.cli.terminal import print_json, print_table


@click.command(cls=Command)
@click.argument("directory", required=False, type=PATH_TYPE)
@json_option
def command(directory: Path | None, as_json: bool) -> None:
    """List the runs in DIRECTORY and its campaigns, oldest first (default: ./runs, or else .)."""
    from v6t.analysis.sheet import Column, make_table
    from v6t.core.runs.results import RunSummary, list_runs

    if directory is None:
        directory = Path("runs") if Path("runs").is_dir() else Path()
    runs = list_runs(directory)
    if as_json:
        print_json([asdict(run) for run in runs])
        return
    if not runs:
        click.echo(f"no runs in {directory}; `v6t run` makes one", err=True)
        return
    columns = [
        Column[RunSummary]("date (UTC)", lambda run: run.created[:16].replace("T", " "), text=True),
        Column(
            "technology, device, tester",
            lambda run: f"{run.technology}, {run.device}, {run.tester}",
            text=True,
        ),
        Column("first figure", lambda run: run.headline or "-", text=True),
        Column("state", lambda run: run.state, text=True),
        Column("directory", lambda run: run.path, text=True),
    ]
    print_table(make_table(f"Runs in {directory}", runs, columns), 200)
