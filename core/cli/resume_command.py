"""``v6t resume``."""

from __future__ import annotations

from pathlib import Path

import click
from v6t.core.cli.options import live_flag, report_flag
from v6t.core.cli.paths import PATH
from v6t.core.cli.verbosity import verbosity_flags


@click.command(short_help="continue an interrupted run")
@click.argument("directory", required=False, type=PATH)
@click.option("--json", "as_json", is_flag=True, help="Print results.json instead of the table.")
@report_flag
@live_flag
@verbosity_flags
def command(directory: Path | None, as_json: bool, report: bool, live: str | None) -> None:
    """Continue the run in DIRECTORY from its journal.

    Without one, or with `latest`: the latest run here or below ./runs.
    """
    from v6t.core.cli.run_console import continue_run
    from v6t.core.runs.rundir import latest_run

    continue_run(latest_run(directory), as_json, report, live)
