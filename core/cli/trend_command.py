"""``v6t trend``."""

from __future__ import annotations

from pathlib import Path

import click
from v6t.analysis.trend import LEAST_PERCENT
from v6t.core.cli.options import NumberRange
from v6t.core.cli.paths import PATH
from v6t.core.cli.verbosity import verbosity_flags

WORSE = 7
"""Exit status where the last change of something is for the worse."""


@click.command(short_help="find changes among many runs of the same")
@click.argument("directories", nargs=-1, required=True, type=PATH)
@click.option("--by", "order", type=click.Choice(["time", "label", "given"]), default="time",
              show_default=True, help="Order of the runs: when they began, their labels (for "
              "example a device's version: 26.02 before 26.10), or as they are given.")  # fmt: skip
@click.option("--least", "least_percent", type=NumberRange(0, 100), metavar="PERCENT",
              default=LEAST_PERCENT, show_default=True,
              help="Smaller changes are not told.")  # fmt: skip
@click.option("-o", "--output", type=PATH,
              help="Write an .html, .md or .json file instead.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@verbosity_flags
def command(
    directories: tuple[Path, ...],
    order: str,
    least_percent: float,
    output: Path | None,
    as_json: bool,
) -> int:
    """Order runs of the same point, and find where their results change for good.

    Each directory is a run, or holds some. Runs of another device, or under other
    conditions, than the last one are left out.
    Of several campaigns, as made or as published, runs of the same name belong together.
    A change is told if chance explains it once in 10,000 series at most.

    Exit status 7: the last change of some result is for the worse.
    """
    from v6t.core.campaigns.together import are_campaigns, trends
    from v6t.core.cli.document_view import give
    from v6t.core.reporting.trend import find_trend, make_document
    from v6t.core.runs.rundir import refuse_absent

    refuse_absent(directories)
    several = are_campaigns(directories)
    trend = (trends if several else find_trend)(directories, order, least_percent)
    give(trend.to_json, lambda: make_document(trend, figures=output is not None), output, as_json)
    return WORSE if trend.worse else 0
