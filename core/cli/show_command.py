"""``v6t show``."""

from __future__ import annotations

from pathlib import Path

import click
from v6t.core.cli.paths import PATH
from v6t.core.cli.verbosity import verbosity_flags
from v6t.core.log import is_verbose


@click.command(short_help="print the results of a run again")
@click.argument("directory", required=False, type=PATH, metavar="[RUN]")
@click.option("--warnings", is_flag=True, help="Print every warning.")
@click.option("--trials", is_flag=True, help="List the trials.")
@click.option("--json", "as_json", is_flag=True, help="Print results.json.")
@verbosity_flags
def command(directory: Path | None, warnings: bool, trials: bool, as_json: bool) -> None:
    """Print the tables, warnings and verdict of RUN, or of the latest run here or below ./runs.

    With -v: the complete tables, as in the report.
    """
    from v6t.core.cli.run_console import show_results, show_trials
    from v6t.core.runs.rundir import latest_run

    path = latest_run(directory)
    if trials:
        show_trials(path)
        return
    page = path / "report.html"
    show_results(
        path,
        as_json,
        page if page.exists() else None,
        complete=is_verbose(),
        warnings=warnings,
    )
