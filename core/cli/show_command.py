"""``v6t show``."""

from __future__ import annotations

from pathlib import Path

import click
from v6t.core.cli.options import PATH_TYPE, Command, flag, json_option
from v6t.core.log import is_verbose


@click.command(cls=Command)
@click.argument("directory", required=False, type=PATH_TYPE, metavar="[RUN]")
@flag("--warnings", text="Print every warning.")
@flag("--trials", text="List the trials.")
@json_option
def command(directory: Path | None, warnings: bool, trials: bool, as_json: bool) -> None:
    """Print the tables, warnings and verdict of RUN (default: the latest here or below ./runs).

    With -v: the complete tables, as in the report.
    """
    from v6t.core.cli.results_view import show_results, show_trials
    from v6t.core.runs.rundir import resolve_run_path

    path = resolve_run_path(directory)
    if trials:
        show_trials(path)
    else:
        show_results(path, as_json, wide=is_verbose(), all_warnings=warnings)
