"""``v6t report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from v6t.base.errors import UsageError
from v6t.core.cli.options import (
    Command,
    directory_argument,
    names_option,
    output_directory_option,
)

if TYPE_CHECKING:
    from v6t.core.reporting.write import FigureSelection


@click.command(cls=Command)
@directory_argument
@names_option(
    "--format",
    "formats",
    text="Some of html, md, json, junit, csv, openmetrics, tex, separated by commas; default: all "
    "but the last two.",
)
@output_directory_option
@click.option(
    "--paper",
    help="Print the tables of this paper next to the results, with everything that differs; a "
    "campaign's paper by default.",
)
@click.option(
    "--figures",
    type=click.Choice(["none", "few", "all", "pdf"]),
    default="few",
    show_default=True,
    help="No figures, at most 40 of a run, all of them, or all and each as figures/NAME.pdf with "
    "figures.tex for LaTeX.",
)
def command(
    directory: Path | None,
    formats: tuple[str, ...],
    output: Path | None,
    paper: str | None,
    figures: FigureSelection,
) -> None:
    """Write report.html and its data files for the run in DIRECTORY (default: the latest).

    The HTML file holds everything, figures included, and fetches nothing. Runs that were
    interrupted, or are going on, have reports too.
    """
    from v6t.core.reporting.write import DEFAULT_FILES, write_run_report
    from v6t.core.runs.rundir import resolve_run_path

    directory = resolve_run_path(directory)
    chosen = formats or tuple(DEFAULT_FILES)
    if (directory / "campaign.json").exists():
        from v6t.core.campaigns.campaign import load_campaign
        from v6t.core.campaigns.results import check_no_damage, load_runs, write_campaign_report

        if paper:
            message = "a campaign's paper is named in its file, not by --paper"
            raise UsageError(message, code="conflicting-options")
        if figures == "pdf":
            raise UsageError(
                f"{directory} is a campaign, and --figures pdf is for runs",
                "give the directory of one of its runs",
                code="conflicting-options",
            )
        campaign = load_campaign(directory)
        runs = load_runs(directory, campaign)
        written = write_campaign_report(
            directory, campaign, runs, chosen, output, figures=figures != "none"
        )
        for path in written:
            click.echo(path)
        check_no_damage(runs)
        return
    for path in write_run_report(directory, output, chosen, paper=paper, figures=figures):
        click.echo(path)
