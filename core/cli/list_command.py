"""``v6t list``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click
from v6t.core.cli.paths import PATH
from v6t.core.cli.verbosity import verbosity_flags


@click.command(short_help="list the runs of a directory")
@click.argument("directory", required=False, type=PATH)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@verbosity_flags
def command(directory: Path | None, as_json: bool) -> None:
    """List the runs in DIRECTORY and in campaigns below it, oldest first; default: ./runs, else here."""
    from v6t.analysis.sheet import Column, table
    from v6t.core.cli.document_view import console_for_tables
    from v6t.core.cli.tables import print_table
    from v6t.core.runs.listing import RunSummary, list_runs

    if directory is None:
        directory = Path("runs") if Path("runs").is_dir() else Path()
    runs = list_runs(directory)
    if as_json:
        click.echo(json.dumps([asdict(run) for run in runs], indent=1))
        return
    if not runs:
        click.echo(f"no runs in {directory}; `v6t run` makes one", err=True)
        return

    def setup(run: RunSummary) -> str:
        return f"{run.technology}, {run.device}, {run.tester}"

    columns = [
        Column[RunSummary]("date (UTC)", lambda run: run.created[:16].replace("T", " "), text=True),
        Column("technology, device, tester", setup, text=True),
        Column("first figure", lambda run: run.headline or "-", text=True),
        Column("state", lambda run: run.state, text=True),
        Column("directory", lambda run: run.path, text=True),
    ]
    print_table(console_for_tables(200), table(f"Runs in {directory}", runs, columns))
