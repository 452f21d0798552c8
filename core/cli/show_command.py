"""``v6t show``."""

from __future__ import annotations

from pathlib import Path

import click
from v6t.core.cli.options import PATH_TYPE, Command, flag, json_option
from v6t.core.cli.terminal import CommandResult
from v6t.core.log import is_verbose


@click.command(cls=Command)
@click.argument("directory", required=False, type=PATH_TYPE, metavar="[RUN]")
@flag("--warnings", text="Print every warning.")
@flag("--trials", text="List the trials.")
@json_option
def command(directory: Path | None, warnings: bool, trials: bool) -> CommandResult:
    """Print the tables, warnings and verdict of RUN (default: the latest here or below ./runs).

    With -v: the complete tables, as in the report.
    """
    from v6t.core.cli.results_view import make_run_result, make_trials_result
    from v6t.core.runs.results import load_run
    from v6t.core.runs.rundir import resolve_run_path

    path = resolve_run_path(directory)
    data = load_run(path)
    if trials:
        return make_trials_result(data)
    return make_run_result(data, path, wide=is_verbose(), all_warnings=warnings)
