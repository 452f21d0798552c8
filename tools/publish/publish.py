"""Write a campaign as a page in a repository: Markdown, figures, tables and data for comparisons.

Nothing of it says where on which machine the campaign was made: see :mod:`v6t.tools.publish.public`.
Everything is read before anything is written, and the page appears whole or not at all.
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
from v6t.tools.publish.public import Words, public_runs
from v6t.tools.publish.trials_table import trials_table

if TYPE_CHECKING:
    from v6t.analysis.blocks import Drawing
    from v6t.analysis.rundata import CampaignRun

PAGE, TABLE, FIGURES = "index.md", "summary.csv", "figures"
MARKER, SCHEMA = "page.json", "v6t-page/1"
"""Index of a page's files; only files that it lists are ever removed."""


def publish(directory: Path, place: Path) -> list[Path]:
    """Write the page of a campaign, in place of an earlier one.

    Args:
        directory: of the campaign, finished or not.
        place: of the page; made if absent.

    Returns:
        What was written, directories of runs as such.

    Raises:
        UsageError: no campaign, one of its files cannot be read, or the place is something else's or
            cannot be written.
    """
    campaign = load_campaign(directory)
    _refuse(place, directory)
    contents = _contents(directory, campaign, place.resolve().name)
    try:
        _put(place.resolve(), contents)
    except OSError as exc:
        raise UsageError(
            f"{place} cannot be written: {exc.strerror or exc}", code="file-unwritable"
        ) from exc
    parts = (name.partition("/") for name in contents)
    said = [f"{top}/{rest}" if top == FIGURES else top for top, _, rest in parts]
    return [place / name for name in dict.fromkeys(said)]


def _refuse(place: Path, directory: Path) -> None:
    """Raise unless a page may be written to the place."""
    where, source = place.resolve(), directory.resolve()
    if where == source or source in where.parents or where in source.parents:
        raise UsageError(
            f"{place} and the campaign's directory lie in one another",
            "a page has a directory of its own",
            code="file-exists",
        )
    held = next((p for p in (where, *where.parents) if (p / PLAN).exists()), None)
    if held is not None:
        raise UsageError(
            f"{place} is for measurements: {held} holds a campaign", code="file-exists"
        )
    try:
        if where.exists() and (others := _others(where)):
            raise UsageError(
                f"{place} holds something else than the page of a campaign: {others[0]}",
                "nothing was removed; take it away, or choose another directory",
                code="file-exists",
            )
    except OSError as exc:
        raise UsageError(
            f"{place} cannot be read: {exc.strerror or exc}", code="file-unreadable"
        ) from exc


def _others(place: Path) -> list[str]:
    """List the files of a directory that no page wrote; all of them without a page."""
    if not place.is_dir():
        return ["a file"]
    found = [p.relative_to(place).as_posix() for p in place.rglob("*") if not _is_directory(p)]
    try:
        marker = read_json(place / MARKER)
    except (FileNotFoundError, UsageError):
        marker = None
    known = isinstance(marker, dict) and marker.get("schema") == SCHEMA
    files = marker.get("files") if known and isinstance(marker, dict) else None
    own = {MARKER, *map(str, files)} if isinstance(files, list) else set()
    if not own and any(place.iterdir()):
        return sorted(found) or ["directories"]
    return sorted(set(found) - own)


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _put(place: Path, contents: Mapping[str, str]) -> None:
    """Write all files into a temporary directory, then replace the place."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{place.name}.", dir=place.parent) as beside:
        made, earlier = Path(beside, "new"), Path(beside, "earlier")
        made.mkdir()
        for name, text in contents.items():
            path = made / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")
        for path in (made, *made.rglob("*")):  # a page is for everybody
            path.chmod(0o755 if path.is_dir() else 0o644)
        if place.exists():
            place.rename(earlier)
        try:
            made.rename(place)
        except OSError:
            if earlier.exists():
                earlier.rename(place)
            raise


def _contents(directory: Path, campaign: CampaignPlan, page: str) -> dict[str, str]:
    """Build the text of every file of the page, by relative path."""
    read = load_runs(directory, campaign)
    words = Words(directory, read)
    runs = _named_apart(public_runs(read, words))
    summary = summarize(replace(campaign, title=words.cleaned(campaign.title)), runs)
    contents = {
        **_page(campaign, runs, words, page),
        SUMMARY_FILE: json.dumps(summary, indent=1, sort_keys=True) + "\n",
        TABLE: summary_to_csv(summary),
        TRIALS: trials_table(directory, list(zip(read, runs, strict=True)), words),
    }
    for run in runs:
        contents.update(_run(run))
    marker = {"schema": SCHEMA, "campaign": campaign.name, "files": sorted(contents)}
    contents[MARKER] = json.dumps(marker, indent=1) + "\n"
    return contents


def _named_apart(runs: Sequence[CampaignRun]) -> list[CampaignRun]:
    """Rename runs so that their names, also without numbers, are unique and are not those of page files."""
    taken = {PAGE, SUMMARY_FILE, TABLE, TRIALS, FIGURES, MARKER}
    found = []
    for run in runs:
        plain, number, name = strip_number(run.directory), 1, run.directory
        while strip_number(name) in taken:
            number += 1
            name = f"{run.directory}-{number}"
        taken.add(strip_number(name))
        found.append(replace(run, directory=name) if strip_number(name) != plain else run)
    return found


def _page(
    campaign: CampaignPlan, runs: Sequence[CampaignRun], words: Words, page: str
) -> dict[str, str]:
    from v6t.analysis.report.render import to_markdown
    from v6t.benchmarks.registry import load_presentations
    from v6t.tools.publish.overview import overview

    drawn: dict[str, str] = {}

    def placed(drawing: Drawing) -> str:
        name = f"{FIGURES}/{len(drawn) + 1}.svg"
        drawn[name] = _alone(drawing.svg)
        return name

    notes = {name: words.cleaned(text) for name, text in campaign.notes.items()}
    title = words.cleaned(campaign.title or campaign.name)
    document = overview(title, notes, runs, load_presentations())
    return {PAGE: to_markdown(document, placed) + _again(campaign, page), **drawn}


def _again(campaign: CampaignPlan, page: str) -> str:
    """Describe how to repeat a campaign that comes with v6t; empty for another one."""
    from v6t.core.config.yaml_file import YamlFile

    file = list_packaged_campaigns().get(campaign.name)
    if file is None:
        return ""
    content = YamlFile(file).data
    names = {experiment["name"] for experiment in content["experiments"]}
    if (
        content.get("title", "") != campaign.title
        or not {r.experiment for r in campaign.runs} <= names
    ):
        return ""
    where, beds = shlex.quote(page), _beds(campaign)
    needs = content.get("again", "") if not beds else ""
    return f"""
## Again

In the directory that contains that of this page:

```text
v6t campaign {campaign.name}{beds} -o again
v6t compare {where} again
v6t trend {where} again
```
{f"{chr(10)}{needs.strip()}{chr(10)}" if needs else ""}"""


def _beds(campaign: CampaignPlan) -> str:
    """Return the command's options for the testbeds; empty for the lab."""
    testers = [run.config["tester"] for run in campaign.runs]
    if any(tester["kind"] == "sim" for tester in testers):
        return " --tester sim"
    if all(load_kind(tester["kind"], tester["options"]).in_lab for tester in testers):
        return ""
    beds = list(dict.fromkeys(run.testbed for run in campaign.runs))
    return "".join(f" --testbed {bed}=FILE" if len(beds) > 1 else " --testbed FILE" for bed in beds)


def _alone(svg: str) -> str:
    """Make an SVG element a standalone file with a namespace and a white background."""
    if "xmlns=" not in svg[: svg.index(">")]:
        svg = svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    return svg.replace("<svg", '<svg style="background:#fff"', 1) + "\n"


def _run(run: CampaignRun) -> dict[str, str]:
    """Return the files of a run that :func:`v6t.core.reporting.write.load` needs."""
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
