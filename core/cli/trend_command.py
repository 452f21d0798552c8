"""``v6t trend``."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click
from v6t.analysis.trend import MIN_CHANGE_PERCENT
from v6t.core.cli.options import PATH_TYPE, Command, NumberRange, json_option, output_option
from v6t.core.cli.terminal import CommandResult, make_document_result

WORSE_STATUS = 7  # exit status: the last change of a result is for the worse


@click.command(cls=Command)
@click.argument("directories", nargs=-1, required=True, type=PATH_TYPE)
@click.option("--by", "order", type=click.Choice(["time", "label", "given"]), default="time",
              show_default=True, help="Order of the runs: when they began, their labels (for "
              "example a device's version: 26.02 before 26.10), or as given.")  # fmt: skip
@click.option("--least", "min_percent", type=NumberRange(0, 100), metavar="PERCENT",
              default=MIN_CHANGE_PERCENT, show_default=True,
              help="Smaller changes are left out.")  # fmt: skip
@output_option
@json_option
def command(
    directories: tuple[Path, ...],
    order: str,
    min_percent: float,
    output: Path | None,
) -> CommandResult:
    """Sort comparable runs by time or label, and find lasting changes in their results.

    Each directory is a run, or holds some. Runs of another device, or under other
    conditions, than the last one are left out.
    Of several campaigns, as made or as published, runs of the same name belong together.
    A change is reported if chance explains it once in 10,000 series at most.

    The file of -o is .html, .md or .json.

    Exit status 7: the last change of some result is for the worse.
    """
    from v6t.core.campaigns.results import are_campaigns, find_campaign_trend
    from v6t.core.reporting.trend import find_trend, make_trend_document
    from v6t.core.runs.rundir import check_paths_exist

    check_paths_exist(directories)
    find = find_campaign_trend if are_campaigns(directories) else find_trend
    trend = find(directories, order, min_percent)
    make = partial(make_trend_document, trend, figures=output is not None)
    status = WORSE_STATUS if trend.worse else 0
    return make_document_result(make, output, trend.to_json, status)
