"""``v6t campaign``."""

from __future__ import annotations

from pathlib import Path

import click
from v6t.base.errors import UsageError
from v6t.core.campaigns.packaged import locate
from v6t.core.cli.options import assignments, live_flag, names, report_flag
from v6t.core.cli.paths import PATH
from v6t.core.cli.verbosity import verbosity_flags
from v6t.core.config.yaml_file import YamlFile


@click.command(short_help="carry out many runs described by one file")
@click.argument("file", required=False)
@click.option("-o", "--output", type=PATH, help="New directory for all runs.")
@click.option("--resume", type=PATH, metavar="DIR",
              help="Continue the campaign in DIR; with FILE, what that has beyond it is added.")  # fmt: skip
@click.option("--list", "listing", is_flag=True, help="List the campaigns that come with v6t.")
@click.option("--dry-run", is_flag=True, help="Show runs and time; do nothing.")
@click.option("--testbed", "testbeds", multiple=True, metavar="[NAME=]FILE",
              help="Testbed file in place of the campaign's testbed NAME; repeatable. NAME may be "
              "left out where there is only one.")  # fmt: skip
@click.option("--experiment", "only", multiple=True, callback=names, metavar="NAMES",
              help="These experiments only.")  # fmt: skip
@click.option("--tester", help="Another tester than the testbeds'; sim rehearses.")
@click.option("--preset", help="Another preset than the file's.")
@click.option("--reps", type=int, help="Repetitions.")
@click.option("--set-procedure", multiple=True, callback=assignments, metavar="NAME=VALUE",
              help="Any other setting of the procedures; repeatable.")  # fmt: skip
@click.option("--group", hidden=True, help="One testbed's runs, for the campaign's own workers.")
@live_flag
@report_flag
@verbosity_flags
def command(
    file: str | None,
    output: Path | None,
    resume: Path | None,
    listing: bool,
    dry_run: bool,
    testbeds: tuple[str, ...],
    only: tuple[str, ...],
    tester: str | None,
    preset: str | None,
    reps: int | None,
    set_procedure: dict[str, str],
    group: str | None,
    live: str | None,
    report: bool,
) -> int:
    """Carry out the runs that FILE describes, or a campaign that comes with v6t.

    Every run has its directory; report.html and summary.json in DIR hold the whole. Runs on
    different testbeds are made at the same time.
    """
    if file is not None:
        document = YamlFile(locate(file))
    elif resume is None and not listing:
        raise UsageError(
            "the campaign file is missing",
            "give a FILE, a packaged name (--list) or --resume DIR",
            code="missing-setting",
        )
    from v6t.core.cli import campaign_console as session

    if listing:
        session.show_packaged()
        return 0
    changed = (testbeds, only, tester, preset, reps, set_procedure)
    if resume is not None and (output or dry_run or (file is None and any(changed))):
        raise UsageError(
            "--resume continues what was planned",
            "only a FILE, with what it needs, adds to that",
            code="conflicting-options",
        )
    if resume is not None and file is None:
        return session.continue_campaign(resume, report, group, live)
    from v6t.core.campaigns.campaign import Overrides, plan_campaign

    changes = Overrides(_beds(testbeds), only, tester, preset, reps, set_procedure)
    campaign = plan_campaign(document, changes)
    if resume is not None:
        return session.add(campaign, resume, report, live)
    if dry_run:
        session.show_plan(campaign)
        return 0
    if output is None:
        raise UsageError(
            "the output directory is missing",
            "give a new directory with -o",
            code="missing-setting",
        )
    return session.begin(campaign, output, report, live)


def _beds(given: tuple[str, ...]) -> dict[str, Path]:
    """Testbed files by the names they stand for; without a name by an empty one."""
    found: dict[str, Path] = {}
    for text in given:
        name, equals, file = text.partition("=")
        if not equals:
            name, file = "", text
        if name in found:
            raise UsageError(
                "--testbed is given twice for the same testbed", "write NAME=FILE", code="duplicate"
            )
        found[name] = Path(file)
    return found
