"""Commands that read stored runs: ``v6t list``, ``show``, ``report``, ``compare`` and ``trend``."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from shlex import quote
from textwrap import shorten
from typing import Any

import click
from v6t.analysis.compare.comparison import RunComparison
from v6t.analysis.presentation import Presentations
from v6t.analysis.report.verdict import write_verdict
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import Column, explain_marks, make_table, pluralize
from v6t.analysis.trend import MIN_CHANGE_PERCENT
from v6t.analysis.warnings import NOT_MEASURED, list_warnings
from v6t.audit.record import AuditComparison, read_audit
from v6t.base.errors import UsageError
from v6t.base.files import read_json
from v6t.benchmarks.registry import load_presentations
from v6t.core.cli import options, terminal
from v6t.core.cli.terminal import CommandResult, make_document_result, print_table
from v6t.core.log import is_verbose
from v6t.core.reporting import compare
from v6t.core.reporting.trend import find_trend, make_trend_document
from v6t.core.reporting.write import FigureSelection, write_run_report
from v6t.core.runs import results, rundir
from v6t.core.runs.results import RunSummary

WORSE_STATUS = 7  # exit status: a result is worse, or became worse at its last change
RESULTS_WIDTH = 120  # width of results in pipes and files, in characters
MAX_SHOWN_WARNINGS = 3  # kinds of warnings shown without --warnings
SHARED_CODE_WARNING = "The reference device is v6t's: matching frames verify the data path only."


@click.command(cls=options.Command)
@options.directory_argument
@options.json_option
def list_command(directory: Path | None) -> CommandResult:
    """List the runs in DIRECTORY (default: .) and in its campaigns, oldest first."""
    directory = directory or Path()
    runs = results.list_runs(directory)
    return CommandResult(lambda: [*map(asdict, runs)], partial(_print_runs, directory, runs))


def _print_runs(directory: Path, runs: Sequence[RunSummary]) -> None:
    if not runs:
        click.echo(f"no runs in {directory}; `v6t run` makes one", err=True)
        return

    def describe_result(run: RunSummary) -> str:
        return run.headline or "-" if run.state == results.COMPLETE else run.state

    columns = [
        Column("date (UTC)", lambda run: run.created[:16].replace("T", " "), text=True),
        Column("technology", lambda run: run.technology, text=True),
        Column("device", lambda run: run.device, text=True),
        Column("tester", lambda run: run.tester, text=True),
        Column("first figure, or state", describe_result, text=True),
        Column("directory", lambda run: run.path, text=True),
    ]
    # the default name of a directory contains the date and the technology
    optional = ("tester",), ("device",), ("date",), ("technology",)
    print_table(make_table(f"Runs in {directory}", runs, columns), 200, optional)


@click.command(cls=options.Command)
@click.argument("directory", required=False, type=options.PATH_TYPE, metavar="[RUN]")
@options.flag("--warnings", text="Print every warning.")
@options.flag("--trials", text="List the trials.")
@options.json_option
def show_command(directory: Path | None, warnings: bool, trials: bool) -> CommandResult:
    """Print the tables, warnings and verdict of RUN (default: the latest here or below ./runs).

    With -v: the complete tables, as in the report.
    """
    path = rundir.resolve_run_path(directory)
    data = results.load_run(path)
    if trials:
        with rundir.report_damage(path):
            return make_trials_result(data)
    return make_run_result(data, path, wide=is_verbose(), all_warnings=warnings)


def make_run_result(
    data: RunData, path: Path, *, wide: bool = False, all_warnings: bool = False
) -> CommandResult:
    """Return the results of a run as a command result; its text ends with the path of any report.

    Args:
        wide: print all columns and tables.
        all_warnings: print every warning; else the first of each kind, at most three.
    """

    def print_results() -> None:
        with rundir.report_damage(path):
            _print_results(data, path, wide, all_warnings)
        page = path / "report.html"
        click.echo(f"Report: {page}" if page.exists() else f"Results: {path}")
        if data.status in (results.RUNNING, results.NO_RESULTS["status"]):
            click.echo(f"This run is not complete. To continue: v6t resume {quote(str(path))}")

    def to_json() -> Any:
        """Return the content of results.json, in the order of the file."""
        return json.loads(rundir.format_json(results.make_results_document(data.results)))

    return CommandResult(to_json, print_results)


def _print_results(data: RunData, path: Path, wide: bool, all_warnings: bool) -> None:
    """Print tables, trials, warnings and the verdict; see :func:`make_run_result`."""
    known = load_presentations()
    for presentation, records in known.group_measured(data.records):
        make_tables = presentation.make_tables if wide else presentation.make_brief_tables
        for table in make_tables(records):
            print_table(table, RESULTS_WIDTH)
    trials = pluralize(sum(len(record.trials) for record in data.records), "trial")
    if invalid := sum(len(record.invalid_trials) for record in data.records):
        trials += f", {invalid} of them invalid (fault of the tester, not of the device)"
    trials += ", not counting checks and self-tests"
    lines = [*explain_marks(data.records), trials, *_describe_bottleneck(data)]
    kinds = _list_warning_kinds(data, known)
    warnings = list_warnings(data.records, known)
    lines += [str(warning) for warning in warnings if warning.code == NOT_MEASURED]
    if all_warnings:
        texts = [text for text, count in kinds if not count]
        texts += [str(warning) for warning in warnings if warning.code != NOT_MEASURED]
        lines += [f"- {text}" for text in texts]
    elif kinds:
        is_cut = len(kinds) > MAX_SHOWN_WARNINGS or any((count or 0) > 1 for _, count in kinds)
        more = f"; all: v6t show {quote(str(path))} --warnings" if is_cut else ""
        lines += ["", f"{pluralize(len(kinds), 'kind')} of warnings{more}"]
        for text, count in kinds[:MAX_SHOWN_WARNINGS]:
            end = f"   {pluralize(count, 'figure')}" if count else ""
            room = terminal.get_width(RESULTS_WIDTH) - len(end) - 2
            lines.append(f"  {shorten(text, room, placeholder=' …'):<{room if count else 0}}{end}")
    lines += [f"shown unchanged, because {failure}" for failure in known.failures]
    for line in [*lines, "", *write_verdict(data)[:1]]:
        terminal.print_text(line, indent=2 if line.startswith("- ") else 0)


def _list_warning_kinds(data: RunData, known: Presentations) -> list[tuple[str, int | None]]:
    """Return one warning of each kind and the number of figures that it applies to.

    The number is None if the warning applies to the whole run.
    """
    run_warnings = [*data.caveats, *([SHARED_CODE_WARNING] if data.shares_oracle else ())]
    kinds: dict[tuple[str, str], tuple[str, int]] = {}
    for record in data.records:
        for warning in list_warnings([record], known) if record.measured else ():
            kind = record.benchmark, warning.code
            first, count = kinds.get(kind, (f"{record.benchmark}: {warning.text}", 0))
            kinds[kind] = first, count + 1
    return [*((text, None) for text in run_warnings), *kinds.values()]


def _describe_bottleneck(data: RunData) -> Iterator[str]:
    from v6t.core.runs.bottleneck import describe_entry

    if data.bottleneck:
        yield "What limits the device"
    yield from (f"  {line}" for entry in data.bottleneck for line in describe_entry(entry))
    yield from dict.fromkeys(f"  {e['together']}" for e in data.bottleneck if "together" in e)


def make_trials_result(data: RunData) -> CommandResult:
    """Return the trials of a run: rate, length, frames required and received, faults."""
    trials = [
        {
            "trial": trial.key,
            "rate_fps": trial.request["rate_fps"],
            "sending_s": trial.sending_s,
            **{
                counter: sum(d.count_frames(counter) for d in trial.result.directions.values())
                for counter in ("required", "received")
            },
            "faults": list(trial.result.faults),
        }
        for trial in data.trials
    ]
    columns = [
        Column[dict[str, Any]]("trial", lambda t: t["trial"], text=True),
        Column("fps per\ndirection", lambda t: t["rate_fps"]),
        Column("s", lambda t: f"{t['sending_s']:g}"),
        Column("required", lambda t: f"{t['required']:,}"),
        Column("received", lambda t: f"{t['received']:,}"),
        Column("faults", lambda t: "; ".join(t["faults"]), text=True),
    ]
    table = make_table(f"Trials of {data.name}", trials, columns)
    return CommandResult(lambda: trials, partial(print_table, table, 200))


@click.command(cls=options.Command)
@options.directory_argument
@options.names_option(
    "--format",
    "formats",
    text="Some of html, md, json, junit, csv, openmetrics, tex, separated by commas; default: all "
    "but the last two. Campaigns: html, md, json, csv.",
)
@options.output_directory_option
@click.option("--paper", help="Print the tables of this paper next to the results.")
@click.option(
    "--figures",
    type=click.Choice(["none", "few", "all", "pdf"]),
    default="few",
    show_default=True,
    help="None, at most 40, all, or all and each as figures/NAME.pdf with figures.tex for LaTeX.",
)
def report_command(
    directory: Path | None,
    formats: tuple[str, ...],
    output: Path | None,
    paper: str | None,
    figures: FigureSelection,
) -> None:
    """Write report.html and its data files for the run in DIRECTORY (default: the latest).

    The HTML file contains everything, including figures, and loads nothing. Interrupted and
    unfinished runs also have reports.
    """
    directory = rundir.resolve_run_path(directory)
    if (directory / "campaign.json").exists():
        from v6t.core.campaigns import results as campaign_results
        from v6t.core.campaigns.campaign import load_campaign

        if paper:
            problem = "a campaign's paper is named in its file, not by --paper"
            raise UsageError(problem, code="conflicting-options")
        if figures == "pdf":
            problem = f"{directory} is a campaign, and --figures pdf is for runs"
            hint = "give the directory of one of its runs"
            raise UsageError(problem, hint, code="conflicting-options")
        campaign = load_campaign(directory)
        runs = campaign_results.load_runs(directory, campaign)
        write = partial(campaign_results.write_campaign_report, directory, campaign, runs)
        for path in write(formats, output, figures=figures != "none"):
            click.echo(path)
        campaign_results.check_no_damage(runs)
        return
    for path in write_run_report(directory, output, formats, paper=paper, figures=figures):
        click.echo(path)


@click.command(cls=options.Command)
@click.argument("directories", nargs=-1, type=options.PATH_TYPE)
@options.flag("--anyway", text="Compare under different conditions, too; print the differences.")
@options.flag("--published", text="Compare with published results under the same conditions.")
@options.output_option
@options.json_option
def compare_command(
    directories: tuple[Path, ...], anyway: bool, published: bool, output: Path | None
) -> CommandResult:
    """Compare each run with the first one: print differences, confidence intervals and verdicts.

    The word `latest` is the latest run here or below ./runs; a single directory is compared with
    it; without a directory, the latest two runs are compared.

    Audits (`v6t audit`) of one technology are compared clause by clause; campaigns, also published
    ones, run by run.

    Technology, parameters, frame size, rate convention, loss tolerance and trial duration must be
    equal.

    The file given with -o must end in .html, .md or .json.

    Exit status 7: a result is worse than that of the first run. With -v: the intervals, too.
    """
    from v6t.core.campaigns.results import are_campaigns, compare_campaigns

    rundir.check_paths_exist(directories)
    directories = directories or tuple(rundir.find_latest_runs(1 if published else 2))
    directories = tuple(map(rundir.resolve_run_path, directories))
    are_audits = all((path / rundir.AUDIT).is_file() for path in directories)
    if published and (anyway or are_audits):
        problem = "--published is for runs, and excludes --anyway"
        raise UsageError(problem, code="conflicting-options")
    if are_audits:
        audits = _compare_audits(directories, anyway)
        return make_document_result(audits.document, output, audits.to_json)
    if published:
        with rundir.report_damage(directories[-1]):
            document = compare.make_published_document(directories)
        return make_document_result(lambda: document, output)
    if are_campaigns(directories):
        return make_comparison_result(compare_campaigns(directories, anyway), output)
    if len(directories) == 1:
        with suppress(UsageError):
            directories = directories[0], *rundir.find_latest_runs(1)
        if directories[0].resolve() == directories[-1].resolve():
            problem = "a comparison needs two runs, but no later run exists here or below ./runs"
            raise UsageError(problem, "or --published for published results", code="no-such-run")
    with rundir.report_damage(directories[-1]):
        runs = [*map(results.load_run, directories)]
        return make_comparison_result(compare.compare_runs(runs, anyway), output, directories, runs)


def make_comparison_result(
    comparison: RunComparison,
    output: Path | None = None,
    directories: Sequence[Path] = (),
    runs: Sequence[RunData] = (),
) -> CommandResult:
    """Return a comparison as result; write it to a file, if one is given."""
    make_document = partial(compare.make_brief_document, comparison, directories)
    if output or is_verbose():
        make_document = partial(compare.make_comparison_document, comparison, runs)
    status = WORSE_STATUS if any(line.improved is False for line in comparison.lines) else 0
    return make_document_result(make_document, output, comparison.to_json, status)


def _compare_audits(directories: tuple[Path, ...], allow_differences: bool) -> AuditComparison:
    if len(directories) < 2:
        problem = "a comparison needs two audits"
        raise UsageError(problem, "v6t compare DIRECTORY DIRECTORY", code="no-such-run")
    paths = [path / rundir.AUDIT for path in directories]
    audits = [read_audit(read_json(path), str(path)) for path in paths]
    for path, audit in zip(directories[1:], audits[1:], strict=True):
        if audit.plugin != audits[0].plugin and not allow_differences:
            technologies = f"{audits[0].plugin}, {audit.plugin}"
            problem = f"{directories[0]} and {path} differ: technology {technologies}"
            raise UsageError(problem, "--anyway compares them regardless", code="not-comparable")
    return AuditComparison(audits)


@click.command(cls=options.Command)
@click.argument("directories", nargs=-1, required=True, type=options.PATH_TYPE)
@click.option("--by", "order", type=click.Choice(["time", "label", "given"]), default="time",
              show_default=True, help="Order of runs: start, label or as given.")  # fmt: skip
@click.option("--least", "min_percent", type=options.NumberRange(0, 100), metavar="PERCENT",
              default=MIN_CHANGE_PERCENT, show_default=True,
              help="Smaller changes are left out.")  # fmt: skip
@options.output_option
@options.json_option
def trend_command(
    directories: tuple[Path, ...], order: str, min_percent: float, output: Path | None
) -> CommandResult:
    """Sort comparable runs by time or label, and find lasting changes in their results.

    Each DIRECTORY is a run or contains runs. Runs with another device or other conditions
    than the last one are left out.
    In several campaigns, runs with the same name form one series.
    A change is reported only if it would occur by chance in at most 1 of 10,000 series.

    The file given with -o must end in .html, .md or .json.

    Exit status 7: the latest change of at least one result is a deterioration.
    """
    from v6t.core.campaigns.results import are_campaigns, find_campaign_trend

    rundir.check_paths_exist(directories)
    find = find_campaign_trend if are_campaigns(directories) else find_trend
    trend = find(directories, order, min_percent)
    make_document = partial(make_trend_document, trend, figures=output is not None)
    status = WORSE_STATUS if trend.worse else 0
    return make_document_result(make_document, output, trend.to_json, status)
