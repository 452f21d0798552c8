"""Results of campaigns: report, progress, comparison and trend."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from v6t.analysis.compare.comparison import RunComparison, compare_with_first
from v6t.analysis.csv_rows import format_csv
from v6t.analysis.report import campaign as report
from v6t.analysis.report.render import to_html, to_markdown
from v6t.analysis.rundata import CampaignRun, format_axis_value, strip_number
from v6t.analysis.sheet import Table
from v6t.analysis.trend import Trend
from v6t.base.errors import UsageError, V6tError
from v6t.base.files import report_write_errors, write_atomically
from v6t.benchmarks.registry import load_presentations
from v6t.core.campaigns import campaign as campaigns
from v6t.core.campaigns.campaign import CampaignEntry, CampaignPlan, read_status
from v6t.core.config.yaml_file import check_name
from v6t.core.reporting.trend import find_trend_of_runs
from v6t.core.runs import rundir
from v6t.core.runs.events import RunDataCollector
from v6t.core.runs.results import COMPLETE, RUNNING, load_run
from v6t.drivers.transport.redaction import redact_json

REPORT_FILES = {  # files of a campaign report by format
    "html": "report.html",
    "md": "report.md",
    "json": "summary.json",
    "csv": "summary.csv",
}


def write_campaign_report(
    directory: Path,
    campaign: CampaignPlan,
    runs: Sequence[CampaignRun],
    formats: Sequence[str],
    output: Path | None = None,
    *,
    figures: bool = True,
) -> list[Path]:
    """Write the report of a campaign, finished or not, and return the paths of its files.

    ``formats`` are some of :data:`REPORT_FILES`, by default all.
    """
    formats = tuple(formats or REPORT_FILES)
    for name in formats:
        check_name(name, tuple(REPORT_FILES), "format")
    rundir.check_report_directory(output, directory)
    content = summarize(campaign, runs)
    renderers = {
        "html": lambda: to_html(_make_document(campaign, runs, figures=figures)),
        "md": lambda: to_markdown(_make_document(campaign, runs, figures=False)),
        "json": lambda: rundir.format_json(content),
        "csv": lambda: summary_to_csv(content),
    }
    place = output or directory
    files = {kind: place / REPORT_FILES[kind] for kind in formats}
    with report_write_errors(place):
        place.mkdir(parents=True, exist_ok=True)
        for kind, file in files.items():
            write_atomically(file, renderers[kind]())
    return list(files.values())


def render_page(directory: Path, campaign: CampaignPlan, collector: RunDataCollector) -> str:
    """Return the current report as an HTML page without figures and links."""
    runs = load_runs(directory, campaign, collector)
    return to_html(_make_document(campaign, runs, figures=False, links=False))


def _make_document(campaign: CampaignPlan, runs: Sequence[CampaignRun], **options: bool) -> Any:
    head = (campaign.name, campaign.title, campaign.paper, campaign.notes)
    return report.build_campaign_document(*head, runs, load_presentations(), **options)


def make_tables(runs: Sequence[CampaignRun]) -> Iterator[Table]:
    """Yield the result tables of a campaign's runs, experiment by experiment."""
    for experiment in dict.fromkeys(run.experiment for run in runs):
        group = [run for run in runs if run.experiment == experiment]
        yield from report.make_campaign_tables(group, load_presentations())


def load_runs(
    directory: Path, campaign: CampaignPlan, collector: RunDataCollector | None = None
) -> list[CampaignRun]:
    """Return the current results of each run; load those that ``collector`` does not have."""
    collector = collector or RunDataCollector()
    return [_load_run(directory, run, collector) for run in campaign.runs]


def check_no_damage(runs: Sequence[CampaignRun]) -> None:
    """Raise UsageError that names all runs with damaged files."""
    if damaged := [f"{run.directory}: {run.failure}" for run in runs if run.is_damaged]:
        hint = "restore the file, or move the run's directory away and use `v6t campaign --resume`"
        raise UsageError("; ".join(damaged), hint, code="damaged-file")


def _load_run(directory: Path, run: CampaignEntry, collector: RunDataCollector) -> CampaignRun:
    """Return the results of a run, or its failure; ``collector`` keeps those of a complete run."""
    status, data = read_status(directory, run), None
    failure = str((campaigns.read_failure(directory, run) or {}).get("message", ""))
    path, is_damaged = directory / run.directory, False
    try:
        for name in (rundir.CONFIG, rundir.RESULTS) if status == COMPLETE else ():
            if not (path / name).exists():
                raise UsageError(f"{path / name} does not exist", code="file-not-found")
        if (path / rundir.CONFIG).exists():
            stored = collector.find(run.directory) or load_run(path)
            if stored.config != redact_json(run.settings.to_json()):
                problem = "its settings are not those of the campaign's plan"
                raise UsageError(problem, code="campaign-changed")
            data = stored
            if status == COMPLETE:
                collector.ended[run.directory] = data
    except V6tError as exc:  # the other runs are shown nevertheless
        status, failure, is_damaged = campaigns.FAILED, f"it cannot be read: {exc.message}", True
    identity = (run.directory, run.experiment, run.testbed, run.axes)
    return CampaignRun(*identity, status, failure, data, is_damaged)


def summarize(campaign: CampaignPlan, runs: Sequence[CampaignRun]) -> dict[str, Any]:
    """Return the content of the campaign's ``summary.json``."""
    head = (campaign.name, campaign.title, campaign.paper)
    return report.summarize_campaign(*head, runs, load_presentations())


def summary_to_csv(summary: dict[str, Any]) -> str:
    """Convert a summary to CSV with a row per result and a column per varying setting."""
    axes = dict.fromkeys((a for run in summary["runs"] for a in run["axes"]), "")
    rows = []
    for run in summary["runs"]:
        head = {name: run[name] for name in ("directory", "experiment", "testbed")}
        for axis, value in {**axes, **run["axes"]}.items():
            head[axis] = format_axis_value(value) if isinstance(value, (dict, list)) else value
        head["status"] = run["status"]
        rows += [{**head, **figures} for figures in run["results"] or [{}]]
    return format_csv(rows)


def read_progress(directory: Path, campaign: CampaignPlan) -> tuple[str, int]:
    """Read the progress of other processes; return a message and the number of ended runs."""
    states = {run.directory: read_status(directory, run) for run in campaign.runs}
    done = sum(state == COMPLETE for state in states.values())
    running = ", ".join(name for name, state in states.items() if state == RUNNING)
    text = f"{done} of {len(states)} runs are complete; now {running or 'none has a result yet'}"
    return text, sum(state not in (campaigns.WAITING, RUNNING) for state in states.values())


def are_campaigns(directories: Sequence[Path]) -> bool:
    """Return whether there are two or more directories, each of a measured or published campaign."""
    names = (campaigns.PLAN, campaigns.SUMMARY_FILE)
    are_all = all(any((path / name).is_file() for name in names) for path in directories)
    return len(directories) > 1 and are_all


def compare_campaigns(directories: Sequence[Path], allow_differences: bool) -> RunComparison:
    """Compare each run of the first campaign with the runs of the same name in the others."""
    names, known = _name_campaigns(directories), load_presentations()
    lines, left_out = [], []
    first, *others = map(_find_runs, directories)
    for name, path in first.items():
        for campaign, other in zip(names[1:], others, strict=True):
            if name not in other:
                left_out.append(f"{name}: not in {campaign}")
                continue
            with rundir.report_damage(other[name]):
                runs = load_run(path), [load_run(other[name])]
                comparison = compare_with_first(*runs, known, anyway=allow_differences)
            for line in comparison.lines:
                lines.append(replace(line, run=campaign, benchmark=f"{name}: {line.benchmark}"))
            unlike = [text for texts in comparison.unlike.values() for text in texts]
            left_out += [f"{name}: {text}" for text in [*comparison.left_out, *unlike]]
    if not lines:
        reason = left_out[0] if left_out else "they do not contain runs"
        raise UsageError(f"these campaigns cannot be compared: {reason}", code="not-comparable")
    return RunComparison(tuple(names), tuple(lines), tuple(dict.fromkeys(left_out)), {})


def find_campaign_trend(directories: Sequence[Path], order: str, min_percent: float) -> Trend:
    """Return the trends over several campaigns of the runs that the last campaign contains."""
    campaign_names, run_paths = _name_campaigns(directories), [*map(_find_runs, directories)]
    names: list[str] = []
    series, left_out = [], []
    for name in run_paths[-1]:
        runs = []
        for campaign, paths in zip(campaign_names, run_paths, strict=True):
            if name in paths:
                with rundir.report_damage(paths[name]):
                    runs.append(replace(load_run(paths[name]), name=campaign))
        try:
            trend = find_trend_of_runs(runs, order, min_percent)
        except UsageError as exc:  # the trends of other runs are shown nevertheless
            left_out.append(f"{name}: {exc.message}")
            continue
        names += trend.runs
        series += [replace(s, point=f"{name}: {s.point}") for s in trend.series]
        left_out += [f"{name}: {text}" for text in trend.left_out]
    if not series:
        problem = f"{directories[-1]} contains no benchmark with a trend"
        raise UsageError(problem, code="no-such-run")
    return Trend(tuple(dict.fromkeys(names)), order, tuple(series), tuple(left_out))


def _find_runs(directory: Path) -> dict[str, Path]:
    configs = sorted(directory.glob(f"*/{rundir.CONFIG}"))
    return {strip_number(p.parent.name): p.parent for p in configs}


def _name_campaigns(directories: Sequence[Path]) -> list[str]:
    names = [path.resolve().name for path in directories]
    return [n if names.count(n) == 1 else str(p) for n, p in zip(names, directories, strict=True)]
