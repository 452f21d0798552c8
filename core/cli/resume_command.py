"""``v6t resume``."""

from __future__ import annotations

from pathlib import Path

import click
from v6t.core.cli.options import (
    Command,
    directory_argument,
    json_option,
    live_option,
    report_option,
)
from v6t.core.cli.terminal import CommandResult


@click.command(cls=Command)
@directory_argument
@json_option
@report_option
@live_option
def command(directory: Path | None, report: bool, live: str | None) -> CommandResult:
    """Continue the run in DIRECTORY from its journal.

    Without one, or with `latest`: the latest run here or below ./runs.
    """
    from v6t.core.cli.run_console import continue_run
    from v6t.core.runs.rundir import resolve_run_path

    return continue_run(resolve_run_path(directory), report, live)
