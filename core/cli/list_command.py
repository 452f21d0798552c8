"""``v6t list``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from v6t.core.cli.options import Command, directory_argument, json_option
from v6t.core.cli.terminal import CommandResult, print_table

if TYPE_CHECKING:
    from v6t.core.runs.results import RunSummary


@click.command(cls=Command)
@directory_argument
@json_option
def command(directory: Path | None) -> CommandResult:
    """List the runs in DIRECTORY and its campaigns, oldest first (default: .)."""
    from v6t.core.runs.results import list_runs

    directory = directory or Path()
    runs = list_runs(directory)
    return CommandResult(lambda: [*map(asdict, runs)], partial(_print_runs, directory, runs))


def _print_runs(directory: Path, runs: Sequence[RunSummary]) -> None:
    """Print a table of runs; without runs, print how to make one."""
    from v6t.analysis.sheet import Column, make_table

    if not runs:
        click.echo(f"no runs in {directory}; `v6t run` makes one", err=True)
        return
    columns = [
        Column("date (UTC)", lambda run: run.created[:16].replace("T", " "), text=True),
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
