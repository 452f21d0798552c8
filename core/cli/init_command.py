"""``v6t init``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from v6t.base.errors import UsageError
from v6t.core.cli.paths import PATH
from v6t.core.cli.verbosity import verbosity_flags
from v6t.core.log import notice

if TYPE_CHECKING:
    from v6t.core.migrate.migration import Migration


@click.command(short_help="write example files, or convert another tester's")
@click.option("--dir", "directory", default=".", show_default=True,
              type=PATH, help="Where to write.")  # fmt: skip
@click.option("--from-siitperf", "siitperf", type=PATH, metavar="FILE",
              help="Take over a siitperf.conf.")  # fmt: skip
@click.option("--from-maptperf", "maptperf", type=PATH, metavar="FILE",
              help="Take over a maptperf.conf or mapperf.conf.")  # fmt: skip
@click.option("--from-run", "run", type=PATH, metavar="DIR",
              help="Take over the configuration of an earlier run.")  # fmt: skip
@click.option("--plugin", help="With --from-maptperf: mape-br or mapt-br; default: mape-br where "
              "the file names the BR's address.")  # fmt: skip
@verbosity_flags
def command(
    directory: Path,
    siitperf: Path | None,
    maptperf: Path | None,
    run: Path | None,
    plugin: str | None,
) -> None:
    """Write run.yaml and testbed.yaml with every setting explained.

    Taken over from another tester, run.yaml ends with what became of each of its parameters.
    """
    if sum(map(bool, (siitperf, maptperf, run))) > 1:
        raise UsageError(
            "one file at a time: --from-siitperf, --from-maptperf or --from-run",
            code="conflicting-options",
        )
    if plugin and not maptperf:
        raise UsageError("--plugin goes with --from-maptperf", code="conflicting-options")
    if siitperf:
        from v6t.core.migrate.siitperf import read_siitperf

        _take_over(siitperf, read_siitperf, directory, "siitperf")
    elif maptperf:
        from v6t.core.migrate.maptperf import read_maptperf

        _take_over(maptperf, lambda path: read_maptperf(path, plugin), directory, "Maptperf")
    elif run:
        from v6t.core.runs.export import restore

        for path in restore(run, directory):
            click.echo(path)
    else:
        from v6t.core.config.examples import write_examples

        for path in write_examples(directory):
            click.echo(path)
    click.echo(f"next: v6t run {directory / 'run.yaml'} --testbed {directory / 'testbed.yaml'}")


def _take_over(source: Path, read: Callable[[Path], Migration], directory: Path, tool: str) -> None:
    from v6t.core.migrate.migration import migrate

    found = migrate(source, read, directory, tool)
    for name in ("run.yaml", "testbed.yaml"):
        click.echo(directory / name)
    for given, what in found.became:
        if what.startswith("not known"):
            notice(f"v6t: note: line {given.line}: {given.name} is {what}")
