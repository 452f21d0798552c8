"""``v6t init``."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click
from v6t.base.errors import UsageError
from v6t.core.cli.options import PATH_TYPE, Command, path_option, plugin_option
from v6t.core.log import print_notice


@click.command(cls=Command)
@click.option(
    "--dir", "directory", default=".", show_default=True, type=PATH_TYPE, help="Where to write."
)
@path_option("--from-siitperf", "siitperf", metavar="FILE", text="Take over a siitperf.conf.")
@path_option(
    "--from-maptperf",
    "maptperf",
    metavar="FILE",
    text="Take over a maptperf.conf or mapperf.conf.",
)
@path_option(
    "--from-run", "run", metavar="DIR", text="Take over the configuration of an earlier run."
)
@plugin_option
def command(
    directory: Path,
    siitperf: Path | None,
    maptperf: Path | None,
    run: Path | None,
    plugin: str | None,
) -> None:
    """Write run.yaml and testbed.yaml with every setting explained.

    Taken over from another tester, run.yaml ends with what became of each of its parameters.

    --from-maptperf takes --plugin mape-br or mapt-br; the default is mape-br if the file names the
    BR's address.
    """
    if sum(path is not None for path in (siitperf, maptperf, run)) > 1:
        message = "one file at a time: --from-siitperf, --from-maptperf or --from-run"
        raise UsageError(message, code="conflicting-options")
    if plugin and not maptperf:
        raise UsageError("--plugin goes with --from-maptperf", code="conflicting-options")
    if source := siitperf or maptperf:
        from v6t.core.migrate.maptperf import read_maptperf
        from v6t.core.migrate.migration import migrate
        from v6t.core.migrate.siitperf import read_siitperf

        read = read_siitperf if siitperf else partial(read_maptperf, plugin=plugin)
        imported = migrate(source, read, directory, "siitperf" if siitperf else "Maptperf")
        paths = [directory / "run.yaml", directory / "testbed.yaml"]
        for parameter, meaning in imported.parameter_targets:
            if meaning.startswith("not known"):
                print_notice(f"v6t: note: line {parameter.line}: {parameter.name} is {meaning}")
    elif run:
        from v6t.core.runs.rundir import write_run_files

        paths = write_run_files(run, directory)
    else:
        from v6t.core.config.yaml_file import write_examples

        paths = write_examples(directory)
    for path in paths:
        click.echo(path)
    click.echo(f"next: v6t run {directory / 'run.yaml'} --testbed {directory / 'testbed.yaml'}")
