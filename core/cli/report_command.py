"""``v6t report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from v6t.base.errors import UsageError
from v6t.core.cli.options import names
from v6t.core.cli.paths import PATH
from v6t.core.cli.verbosity import verbosity_flags

if TYPE_CHECKING:
    from v6t.core.reporting.write import FiguresWanted


@click.command(short_help="write the report of a run or campaign")
@click.argument("directory", required=False, type=PATH)
@click.option("--format", "formats", multiple=True, callback=names, metavar="NAMES",
              help="Some of html, md, json, junit, csv, openmetrics, tex, separated by commas; "
              "default: all but the last two.",
              )  # fmt: skip
@click.option("-o", "--output", type=PATH,
              help="Another directory for the files.")  # fmt: skip
@click.option("--paper", help="Set the tables of this paper beside the results, with everything "
              "that differs; a campaign's paper by default.")  # fmt: skip
@click.option("--no-figures", is_flag=True, help="Tables only.")
@click.option("--figures", type=click.Choice(["few", "all", "pdf"]), default="few",
              show_default=True, help="At most 40 figures of a run, all of them, or all and each "
              "as figures/NAME.pdf with figures.tex for LaTeX.")  # fmt: skip
@verbosity_flags
def command(
    directory: Path | None,
    formats: tuple[str, ...],
    output: Path | None,
    paper: str | None,
    no_figures: bool,
    figures: FiguresWanted,
) -> None:
    """Write report.html and its companions of the run in DIRECTORY, or the latest here or below ./runs.

    The HTML file holds everything, figures included, and fetches nothing. Runs that were
    interrupted, or are going on, have reports too.
    """
    from v6t.core.reporting.write import ALL_FILES, FILES, write
    from v6t.core.runs.rundir import latest_run

    directory = latest_run(directory)
    if (directory / "campaign.json").exists():
        from v6t.core.campaigns.results import write_summary

        if paper:
            raise UsageError(
                "a campaign's paper is named in its file, not by --paper",
                code="conflicting-options",
            )
        if figures == "pdf":
            raise UsageError(
                f"{directory} is a campaign, and --figures pdf is for runs",
                "give the directory of one of its runs",
                code="conflicting-options",
            )
        for path in write_summary(directory, formats or tuple(FILES), output,
                                  figures=not no_figures):  # fmt: skip
            click.echo(path)
        return
    for kind in formats:
        if kind not in ALL_FILES:
            raise UsageError(f"unknown format '{kind}'", ", ".join(ALL_FILES), code="unknown-name")
    chosen = formats or tuple(FILES)
    for path in write(
        directory,
        output,
        chosen,
        paper=paper,
        figures="none" if no_figures else figures,
    ):
        click.echo(path)
