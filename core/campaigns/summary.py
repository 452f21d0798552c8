"""What a campaign found, as files beside its plan."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from v6t.base.errors import UsageError, V6tError
from v6t.base.files import write_atomically
from v6t.core.campaigns.campaign import FAILED, Campaign, failure_of, opened, status_of
from v6t.core.campaigns.campaign import CampaignRun as Planned
from v6t.core.runs.results_file import COMPLETE
from v6t.core.runs.run_data import load_run

if TYPE_CHECKING:
    from v6t.analysis.report.campaign_run import CampaignRun
    from v6t.analysis.sheet import Sheet

FILES = {
    "html": "report.html",
    "md": "report.md",
    "json": "summary.json",
    "csv": "summary.csv",
}
"""What the report of a campaign consists of."""


def write_summary(
    directory: Path,
    formats: Sequence[str] = tuple(FILES),
    output: Path | None = None,
    *,
    figures: bool = True,
    runs: Sequence[CampaignRun] | None = None,
) -> list[Path]:
    """Write the report of a campaign, finished or not.

    Args:
        directory: of the campaign.
        formats: some of :data:`FILES`.
        output: another directory for the files.
        figures: whether to draw.
        runs: of :func:`runs_of`, where they are read already.

    Raises:
        UsageError: no campaign, or the files cannot be written.
    """
    from v6t.analysis.report.campaign import campaign_document
    from v6t.analysis.report.render import to_html, to_markdown
    from v6t.benchmarks.registry import presentations

    campaign = opened(directory)
    runs = runs_of(directory, campaign) if runs is None else runs
    head = (campaign.name, campaign.title, campaign.paper)
    known = presentations()
    content = summary_of(campaign, runs)
    texts = {
        "html": lambda: to_html(
            campaign_document(*head, campaign.notes, runs, known, figures=figures)
        ),
        "md": lambda: to_markdown(
            campaign_document(*head, campaign.notes, runs, known, figures=False)
        ),
        "json": lambda: json.dumps(content, indent=1, sort_keys=True) + "\n",
        "csv": lambda: csv_of(content),
    }
    place = output or directory
    written = []
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        for kind in formats:
            if kind in FILES:
                write_atomically(place / FILES[kind], texts[kind]())
                written.append(place / FILES[kind])
    except OSError as exc:
        raise UsageError(f"cannot write {place}: {exc.strerror}", code="file-unwritable") from exc
    return written


def page_of(directory: Path, campaign: Campaign, kept: dict[str, CampaignRun]) -> str:
    """Write the report so far as one page: without figures, and without files beside it.

    Args:
        directory: of the campaign.
        campaign: what was planned.
        kept: runs that were complete when a page was made before; added to.
    """
    from v6t.analysis.report.campaign import campaign_document
    from v6t.analysis.report.render import to_html
    from v6t.benchmarks.registry import presentations

    head = (campaign.name, campaign.title, campaign.paper, campaign.notes)
    runs = runs_of(directory, campaign, kept)
    return to_html(campaign_document(*head, runs, presentations(), figures=False, links=False))


def tables(runs: Sequence[CampaignRun]) -> list[Sheet]:
    """Make the tables of a campaign's runs for the terminal."""
    from v6t.analysis.report.campaign import campaign_tables
    from v6t.benchmarks.registry import presentations

    return [
        sheet
        for experiment in dict.fromkeys(run.experiment for run in runs)
        for sheet in campaign_tables(
            [run for run in runs if run.experiment == experiment], presentations()
        )
    ]


def runs_of(
    directory: Path, campaign: Campaign, kept: dict[str, CampaignRun] | None = None
) -> list[CampaignRun]:
    """Read what each run of a campaign has found so far from its directory.

    Args:
        directory: of the campaign.
        campaign: what was planned.
        kept: complete runs by their names, which are not read again; added to.
    """
    kept = {} if kept is None else kept
    found = []
    for run in campaign.runs:
        made = kept.get(run.directory) or _read(directory, run)
        if made.status == COMPLETE:
            kept[run.directory] = made
        found.append(made)
    return found


def _read(directory: Path, run: Planned) -> CampaignRun:
    """One run; one that cannot be read hides no other."""
    from v6t.analysis.report.campaign_run import CampaignRun

    status, data = status_of(directory, run), None
    failure = str((failure_of(directory, run) or {}).get("message", ""))
    path = directory / run.directory
    try:
        if (path / "config.json").exists():
            data = load_run(path)
    except V6tError as exc:
        status, failure = FAILED, f"it cannot be read: {exc.message}"
    return CampaignRun(run.directory, run.experiment, run.testbed, run.axes, status, failure, data)


def summary_of(campaign: Campaign, runs: Sequence[CampaignRun]) -> dict[str, Any]:
    """Describe a campaign for programs, see :func:`v6t.analysis.report.campaign.summary`."""
    from v6t.analysis.report.campaign import summary
    from v6t.benchmarks.registry import presentations

    return summary(campaign.name, campaign.title, campaign.paper, runs, presentations())


def csv_of(content: dict[str, Any]) -> str:
    """Write the same as CSV: one line per figure, with a column for each setting that varies."""
    axes = list(dict.fromkeys(a for run in content["runs"] for a in run["axes"]))
    rows = [
        {
            "directory": run["directory"],
            "experiment": run["experiment"],
            "testbed": run["testbed"],
            **{a: _cell(run["axes"].get(a, "")) for a in axes},
            "status": run["status"],
            **figures,
        }
        for run in content["runs"]
        for figures in run["results"] or [{}]
    ]
    columns = list(dict.fromkeys(k for row in rows for k in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    """Numbers as they are, for whoever reads the file with a program."""
    from v6t.analysis.report.campaign_run import shown

    return shown(value) if isinstance(value, (dict, list)) else value
