"""Directory of a published campaign: Markdown, figures, tables and data for comparisons.

All files of the campaign are read before the page is written, and the page replaces an earlier one in one
step. See :mod:`v6t.tools.publish.redaction` for the data that is not published.
"""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from v6t.analysis.rundata import strip_number
from v6t.base.errors import UsageError
from v6t.base.files import read_json
from v6t.core.campaigns import list_packaged_campaigns
from v6t.core.campaigns.campaign import PLAN, SUMMARY_FILE, CampaignPlan, load_campaign
from v6t.core.campaigns.results import load_runs, summarize, summary_to_csv
from v6t.core.runs.results import make_results_document
from v6t.core.runs.rundir import CONFIG, MANIFEST, RESULTS, TRIALS
from v6t.drivers.testers import load_kind
from v6t.tools.publish.redaction import Redactor
from v6t.tools.publish.trials_table import format_trials_csv

if TYPE_CHECKING:
    from v6t.analysis.blocks import Drawing
    from v6t.analysis.rundata import CampaignRun

PAGE, TABLE, FIGURES = "index.md", "summary.csv", "figures"
INDEX, SCHEMA = "page.json", "v6t-page/1"
"""List of a page's files; only files in this list are ever removed."""


def publish_campaign(directory: Path, page: Path) -> list[Path]:
    """Write the page of a campaign; an earlier page is replaced.

    Args:
        directory: directory of the campaign, which need not be complete.
        page: directory of the page; created if absent.

    Returns:
        The written files, and the directories of runs.

    Raises:
        UsageError: the campaign cannot be read, or `page` contains other files or cannot be written.
    """
    campaign = load_campaign(directory)
    _check_page_directory(page, directory)
    files = _build_files(directory, campaign, page.resolve().name)
    try:
        _replace_directory(page.resolve(), files)
    except OSError as exc:
        raise UsageError(
            f"{page} cannot be written: {exc.strerror or exc}", code="file-unwritable"
        ) from exc
    parents = (name.partition("/")[0] for name in files)
    names = [name if top == FIGURES else top for name, top in zip(files, parents, strict=True)]
    return [page / name for name in dict.fromkeys(names)]


def _check_page_directory(page: Path, directory: Path) -> None:
    """Raise UsageError if the page would overwrite a campaign or files that no page wrote."""
    target, source = page.resolve(), directory.resolve()
    if target == source or source in target.parents or target in source.parents:
        raise UsageError(
            f"{page} and the campaign's directory must not contain each other",
            "choose a separate directory for the page",
            code="file-exists",
        )
    campaign = next((p for p in (target, *target.parents) if (p / PLAN).exists()), None)
    if campaign is not None:
        raise UsageError(
            f"{page} is inside the directory of a campaign: {campaign}",
            "choose a separate directory for the page",
            code="file-exists",
        )
    try:
        if target.exists() and (unknown := _list_unknown_files(target)):
            raise UsageError(
                f"{page} contains files that are not part of a page: {unknown[0]}",
                "move them away, or choose another directory; nothing was removed",
                code="file-exists",
            )
    except OSError as exc:
        raise UsageError(
            f"{page} cannot be read: {exc.strerror or exc}", code="file-unreadable"
        ) from exc


def _list_unknown_files(directory: Path) -> list[str]:
    """List the files in a directory that are not part of a page."""
    if not directory.is_dir():
        return ["a file"]
    names = {
        path.relative_to(directory).as_posix()
        for path in directory.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }
    try:
        index = read_json(directory / INDEX)
    except UsageError:
        index = None
    if isinstance(index, dict) and index.get("schema") == SCHEMA:
        published = index.get("files")
        if isinstance(published, list):
            return sorted(names - {INDEX, *map(str, published)})
    return sorted(names) or ["directories"] * any(directory.iterdir())


def _replace_directory(directory: Path, files: Mapping[str, str]) -> None:
    """Write all files into a temporary directory, which then replaces the directory."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{directory.name}.", dir=directory.parent) as parent:
        new, old = Path(parent, "new"), Path(parent, "earlier")
        new.mkdir()
        for name, text in files.items():
            path = new / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")
        for path in (new, *new.rglob("*")):  # readable by all users, whatever the umask
            path.chmod(0o755 if path.is_dir() else 0o644)
        if directory.exists():
            directory.rename(old)
        try:
            new.rename(directory)
        except OSError:
            if old.exists():
                old.rename(directory)
            raise


def _build_files(directory: Path, campaign: CampaignPlan, page_name: str) -> dict[str, str]:
    """Return the text of every file of the page, by relative path."""
    runs = load_runs(directory, campaign)
    redactor = Redactor(directory, runs)
    public_runs = _make_names_unique([redactor.redact_run(run) for run in runs])
    title = redactor.redact_text(campaign.title)
    summary = summarize(replace(campaign, title=title), public_runs)
    files = {
        **_render_page(campaign, public_runs, redactor, page_name),
        SUMMARY_FILE: json.dumps(summary, indent=1, sort_keys=True) + "\n",
        TABLE: summary_to_csv(summary),
        TRIALS: format_trials_csv(directory, list(zip(runs, public_runs, strict=True)), redactor),
    }
    for run in public_runs:
        files.update(_render_run(run))
    index = {"schema": SCHEMA, "campaign": campaign.name, "files": sorted(files)}
    return {**files, INDEX: json.dumps(index, indent=1) + "\n"}


def _make_names_unique(runs: Sequence[CampaignRun]) -> list[CampaignRun]:
    """Rename runs whose name without its number is already the name of a run or a file of the page."""
    names = {PAGE, SUMMARY_FILE, TABLE, TRIALS, FIGURES, INDEX}
    renamed = []
    for run in runs:
        directory, number = run.directory, 1
        while strip_number(directory) in names:
            number += 1
            directory = f"{run.directory}-{number}"
        names.add(strip_number(directory))
        renamed.append(replace(run, directory=directory))
    return renamed


def _render_page(
    campaign: CampaignPlan, runs: Sequence[CampaignRun], redactor: Redactor, page_name: str
) -> dict[str, str]:
    """Return the Markdown file and its figures."""
    from v6t.analysis.report.render import to_markdown
    from v6t.benchmarks.registry import load_presentations
    from v6t.tools.publish.overview import build_overview

    figures: dict[str, str] = {}

    def add_figure(drawing: Drawing) -> str:
        name = f"{FIGURES}/{len(figures) + 1}.svg"
        figures[name] = _make_standalone(drawing.svg)
        return name

    notes = {name: redactor.redact_text(text) for name, text in campaign.notes.items()}
    title = redactor.redact_text(campaign.title or campaign.name)
    markdown = to_markdown(build_overview(title, notes, runs, load_presentations()), add_figure)
    return {PAGE: markdown + explain_repetition(campaign, page_name), **figures}


def explain_repetition(campaign: CampaignPlan, page_name: str) -> str:
    """Return the commands that repeat a packaged campaign, as Markdown; empty for other campaigns."""
    from v6t.core.config.yaml_file import YamlFile

    file = list_packaged_campaigns().get(campaign.name)
    if file is None:
        return ""
    content = YamlFile(file).data
    experiments = {experiment["name"] for experiment in content["experiments"]}
    if content.get("title", "") != campaign.title or not experiments.issuperset(
        run.experiment for run in campaign.runs
    ):
        return ""
    page, options = shlex.quote(page_name), _format_testbed_options(campaign)
    requirements = "" if options else content.get("again", "")
    return f"""
## Repeat the campaign

Run these commands in the parent directory of this page:

```text
v6t campaign {campaign.name}{options} -o again
v6t compare {page} again
v6t trend {page} again
```
{f"{chr(10)}{requirements.strip()}{chr(10)}" if requirements else ""}"""


def _format_testbed_options(campaign: CampaignPlan) -> str:
    """Return the options that select the testbeds; empty for the lab."""
    testers = [run.config["tester"] for run in campaign.runs]
    if any(tester["kind"] == "sim" for tester in testers):
        return " --tester sim"
    if all(load_kind(tester["kind"], tester["options"]).in_lab for tester in testers):
        return ""
    testbeds = list(dict.fromkeys(run.testbed for run in campaign.runs))
    if len(testbeds) == 1:
        return " --testbed FILE"
    return "".join(f" --testbed {name}=FILE" for name in testbeds)


def _make_standalone(svg: str) -> str:
    """Add a namespace and a white background to an SVG element."""
    if "xmlns=" not in svg[: svg.index(">")]:
        svg = svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    return svg.replace("<svg", '<svg style="background:#fff"', 1) + "\n"


def _render_run(run: CampaignRun) -> dict[str, str]:
    """Return the files that ``v6t compare`` and ``v6t trend`` read; none without results."""
    if run.data is None or not run.records:
        return {}
    contents: dict[str, Any] = {
        CONFIG: run.data.config,
        MANIFEST: run.data.manifest,
        RESULTS: make_results_document(run.data.results),
    }
    return {
        f"{strip_number(run.directory)}/{name}": json.dumps(content, sort_keys=True) + "\n"
        for name, content in contents.items()
    }
