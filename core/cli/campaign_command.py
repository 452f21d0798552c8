"""``v6t campaign``."""

from pathlib import Path
from typing import Any

import click
from v6t.base.errors import UsageError
from v6t.core.campaigns import list_packaged_campaigns, locate_campaign
from v6t.core.cli import options
from v6t.core.config.yaml_file import YamlFile


def parse_testbeds(
    _ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]
) -> dict[str, Path]:
    """Parse ``[NAME=]FILE`` texts into files by testbed name; a missing name is empty."""
    files: dict[str, Path] = {}
    for text in texts:
        name, _, file = text.partition("=") if "=" in text else ("", "", text)
        if name in files:
            message = "--testbed is given twice for the same testbed"
            raise UsageError(message, "write NAME=FILE", code="duplicate")
        files[name] = Path(file)
    return files


@click.command(cls=options.RunCommand)
@click.argument("file", required=False)
@options.output_directory_option
@options.path_option("--resume", metavar="DIR",
             text="Continue the campaign in DIR; with FILE, add the runs that are only in it.")  # fmt: skip
@options.list_option
@options.dry_run_option
@click.option("--testbed", "testbeds", multiple=True, metavar="[NAME=]FILE", callback=parse_testbeds,
              help="Testbed file in place of the testbed NAME, or of the only one.")  # fmt: skip
@options.names_option("--experiment", "experiments", text="These experiments only.")
@options.assignments_option("--only", "run_filter", text="Runs with it only, as dut.driver=tayga.")
@options.tester_option
@options.preset_option
@options.procedure_option
@click.option("--group", hidden=True, help="One testbed's runs, for the campaign's own workers.")
@options.live_option
@options.report_option
def campaign_command(
    file: str | None,
    output: Path | None,
    resume: Path | None,
    list_only: bool,
    dry_run: bool,
    group: str | None,
    live: str | None,
    report: bool,
    **overrides: Any,
) -> int:
    """Carry out the runs that FILE describes, or a campaign that comes with v6t.

    Each run has its own directory; report.html and summary.json in DIR cover all runs. Runs on
    different testbeds are carried out at the same time. Tester, preset and settings given as
    options replace those of the files; `--tester sim` rehearses the campaign without devices.
    """
    if list_only:
        for name, path in list_packaged_campaigns().items():
            click.echo(f"{name:<16} {YamlFile(path).data.get('title', '')}")
        return 0
    if file is not None:
        document = YamlFile(locate_campaign(file))
    elif resume is None:
        problem = "the campaign file is missing"
        hint = "give a FILE, a packaged name (--list) or --resume DIR"
        raise UsageError(problem, hint, code="missing-setting")
    from v6t.core.campaigns.campaign import load_campaign, plan_campaign
    from v6t.core.cli import campaign_console as console

    if resume is not None:
        if output or dry_run or (file is None and any(overrides.values())):
            problem = "--resume continues the planned runs"
            hint = "only a FILE, with its options, adds runs"
            raise UsageError(problem, hint, code="conflicting-options")
        if file is None and group is not None:
            return console.continue_group(resume, report, group)
        if file is None:
            campaign = load_campaign(resume)
            return console.execute_campaign(campaign, resume, report, live, is_new=False)

    campaign = plan_campaign(document, setting_flags=overrides.pop("settings"), **overrides)
    if resume is not None:
        return console.add_runs(campaign, resume, report, live)
    if dry_run:
        console.show_plan(campaign)
        return 0
    if output is None:
        hint = "give a new directory with -o"
        raise UsageError("the output directory is missing", hint, code="missing-setting")
    return console.execute_campaign(campaign, output, report, live, is_new=True)
