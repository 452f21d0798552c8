"""A campaign as a page in a repository: Markdown, figures, tables and what others need to compare with it.

Nothing of it says where on which machine the campaign was made: of each run stay its settings without the
ways to devices, its results, and of its manifest what :data:`KEPT` names.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from v6t.core.campaigns.campaign import Campaign, opened
from v6t.core.campaigns.summary import csv_of, runs_of, summary_of
from v6t.core.reporting.write import replace_text
from v6t.core.runs.rundir import CONFIG, MANIFEST, RESULTS, TRIALS
from v6t.profiles.errors import UsageError
from v6t.profiles.files import read_json, read_text

if TYPE_CHECKING:
    from v6t.analysis.blocks import Drawing
    from v6t.analysis.report.campaign_run import CampaignRun

PAGE, SUMMARY, TABLE, FIGURES = "index.md", "summary.json", "summary.csv", "figures"
KEPT = (
    *("schema", "created", "finished", "machine", "order", "packages", "python", "run", "seed", "setup"),
    "source_commit",
)  # fmt: skip
"""Of a manifest."""
_TESTER = ("kind", "engine", "kernel", "clock_source", "cores")
_DEVICE = ("kind", "system", "version", "notes", "shares_oracle", "parts")
_NUMBER = re.compile(r"^\d{3}-")


def publish(directory: Path, place: Path) -> list[Path]:
    """Write the page of a campaign, in place of an earlier one.

    Args:
        directory: of the campaign, finished or not.
        place: of the page; made if absent.

    Returns:
        What was written, directories of runs as such.

    Raises:
        UsageError: no campaign, or the place is something else's or cannot be written.
    """
    from v6t.core.benchmarks.registry import presentations

    campaign = opened(directory)
    runs = runs_of(directory, campaign)
    known, clean = presentations(), _Cleaner(directory)
    try:
        _make_room(place)
        written = list(_page(place, campaign, runs, known))
        content = summary_of(campaign, runs)
        for name, text in (
            (SUMMARY, json.dumps(content, indent=1, sort_keys=True) + "\n"),
            (TABLE, csv_of(content)),
            (TRIALS, _trials(directory, runs)),
        ):
            replace_text(place / name, text)
            written.append(place / name)
        written += _runs(directory, place, runs)
        clean.over(place)
    except OSError as exc:
        raise UsageError(f"{place} cannot be written: {exc.strerror}") from exc
    return written


def name_of(directory: str) -> str:
    """A run's name without its number, which others before it may change."""
    return _NUMBER.sub("", directory)


def _make_room(place: Path) -> None:
    """Remove an earlier page; nothing else is ever removed.

    Raises:
        UsageError: the directory holds something else.
    """
    if place.is_dir() and any(place.iterdir()) and not (place / SUMMARY).is_file():
        raise UsageError(f"{place} holds something else than the page of a campaign")
    for config in place.glob(f"*/{CONFIG}"):
        shutil.rmtree(config.parent)
    shutil.rmtree(place / FIGURES, ignore_errors=True)
    (place / FIGURES).mkdir(parents=True)


def _page(
    place: Path, campaign: Campaign, runs: Sequence[CampaignRun], known: Any
) -> Iterator[Path]:
    from v6t.analysis.report.markdown import to_markdown
    from v6t.analysis.report.overview import overview

    drawn: list[Path] = []

    def placed(drawing: Drawing) -> str:
        path = place / FIGURES / f"{len(drawn) + 1}.svg"
        replace_text(path, _alone(drawing.svg))
        drawn.append(path)
        return f"{FIGURES}/{path.name}"

    document = overview(campaign.title or campaign.name, campaign.notes, runs, known)
    text = to_markdown(document, placed) + _again(campaign.name)
    replace_text(place / PAGE, text)
    yield from (place / PAGE, *drawn)


def _again(name: str) -> str:
    return f"""
## Again

```text
v6t campaign {name} -o again && v6t report again --publish page
v6t compare docs/results again
v6t trend docs/results again
```
"""


def _alone(svg: str) -> str:
    """An element as a file of its own, which names its language and is white where nothing is drawn."""
    if "xmlns=" not in svg[: svg.index(">")]:
        svg = svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    return svg.replace("<svg", '<svg style="background:#fff"', 1) + "\n"


def _trials(directory: Path, runs: Sequence[CampaignRun]) -> str:
    """The trials of all runs, their run in a first column."""
    out = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for run in runs:
        try:
            text = read_text(directory / run.directory / TRIALS)
        except OSError:
            continue
        for row in csv.DictReader(io.StringIO(text)):
            if writer is None:
                writer = csv.DictWriter(out, ["run", *row], lineterminator="\n", restval="",
                                        extrasaction="ignore")  # fmt: skip
                writer.writeheader()
            writer.writerow({"run": name_of(run.directory), **_rounded(row)})
    return out.getvalue()


def _rounded(row: Mapping[str, str]) -> dict[str, str]:
    """Microseconds are more than a tester knows: the digits of a binary fraction are not raw values."""
    return {
        k: f"{float(v):.6f}" if re.fullmatch(r"\d+\.\d{7,}", v or "") else v for k, v in row.items()
    }


def _runs(directory: Path, place: Path, runs: Sequence[CampaignRun]) -> Iterator[Path]:
    """What :func:`v6t.core.reporting.write.load` needs of each run."""
    for run in runs:
        if run.data is None or not run.records:
            continue
        source, target = directory / run.directory, place / name_of(run.directory)
        target.mkdir(parents=True)
        contents = {
            CONFIG: _settings(read_json(source / CONFIG)),
            MANIFEST: _manifest(run.data.manifest),
            RESULTS: read_json(source / RESULTS),
        }
        for name, content in contents.items():
            replace_text(target / name, json.dumps(content, sort_keys=True) + "\n")
        yield target


def _settings(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration without the ways to devices, and without places of this machine."""

    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: without(v) for k, v in value.items() if k not in ("ssh", "hooks")}
        if isinstance(value, list):
            return [without(v) for v in value]
        return Path(value).name if isinstance(value, str) and value.startswith("/") else value

    return {
        **config,
        **{part: {**config[part], "options": without(config[part].get("options", {}))}
           for part in ("dut", "tester")},
    }  # fmt: skip


def _manifest(manifest: Mapping[str, Any]) -> dict[str, Any]:
    tester = manifest.get("tester") or {}
    device = tester.get("device") or {}
    return {
        **{key: manifest[key] for key in KEPT if key in manifest},
        "tester": {
            **{key: tester[key] for key in _TESTER if key in tester},
            "device": _told(device),
        },
    }


def _told(device: Any) -> Any:
    """What a device said of itself, and each of its parts: neither commands nor their outputs."""
    if not isinstance(device, Mapping):
        return device
    found = {key: device[key] for key in _DEVICE if key in device}
    parts = found.get("parts")
    if isinstance(parts, Mapping):
        found["parts"] = {name: _told(part) for name, part in parts.items()}
    elif isinstance(parts, list):
        found["parts"] = [_told(part) for part in parts]
    return found


class _Cleaner:
    """Takes this machine's places out of texts: messages of failures may hold some."""

    def __init__(self, directory: Path) -> None:
        places = {str(directory), str(directory.resolve()), os.getcwd(), str(Path.home())}
        self._places = sorted((p for p in places if len(p) > 1), key=len, reverse=True)

    def over(self, place: Path) -> None:
        """All files of a page."""
        for path in place.rglob("*"):
            if path.is_file():
                text = path.read_text(encoding="utf-8")
                cleaned = text
                for known in self._places:
                    cleaned = cleaned.replace(f"{known}/", "")
                if cleaned != text:
                    replace_text(path, cleaned)
                path.chmod(0o644)  # a page is for everybody
