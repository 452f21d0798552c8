"""Runs of a directory in short, from their manifests: results are not read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from v6t.base.errors import UsageError
from v6t.base.files import acquire_lock, read_json
from v6t.core.runs.results_file import RUNNING, read_results
from v6t.core.runs.rundir import CONFIG, MANIFEST

INTERRUPTED, IN_PROGRESS = "interrupted", "in progress"


@dataclass(frozen=True)
class RunSummary:
    """A run in one line.

    Attributes:
        path: its directory.
        created: start of the run, UTC, ISO 8601.
        technology, device, tester: names.
        label: words of the user.
        headline: its first figure; empty if there is none.
        state: ``complete``, ``interrupted``, ``in progress`` or ``translation incorrect``.
    """

    path: str
    created: str
    technology: str
    device: str
    tester: str
    label: str
    headline: str
    state: str


def list_runs(directory: Path) -> list[RunSummary]:
    """List the runs in a directory, in its subdirectories and in campaigns there, oldest first.

    Raises:
        UsageError: the directory does not exist.
    """
    if not directory.is_dir():
        raise UsageError(f"{directory} is not a directory", code="not-a-directory")
    places = (directory, *directory.glob("*/"), *directory.glob("*/*/"))
    runs = [run for place in places for run in _summarize(place)]
    return sorted(runs, key=lambda run: (run.created, run.path))


def _summarize(path: Path) -> Iterator[RunSummary]:
    try:
        config, manifest = read_json(path / CONFIG), read_json(path / MANIFEST)
    except (OSError, UsageError):
        return
    if not (isinstance(config, dict) and isinstance(manifest, dict) and "plugin" in config):
        return
    state = str(manifest.get("status") or _status(path))
    if state == RUNNING:
        state = IN_PROGRESS if _is_locked(path) else INTERRUPTED
    yield RunSummary(
        path=str(path),
        created=str(manifest.get("created", "")),
        technology=str(config["plugin"]),
        device=_name(config.get("dut"), "driver"),
        tester=_name(config.get("tester"), "kind"),
        label=str(config.get("label") or ""),
        headline=str(manifest.get("headline") or ""),
        state=state,
    )


def _status(path: Path) -> str:
    """Return the status of a run whose manifest does not have it."""
    try:
        return str(read_results(path).get("status", RUNNING))
    except UsageError:
        return "damaged"


def _is_locked(path: Path) -> bool:
    try:
        acquire_lock(path).release()
    except UsageError as exc:
        return exc.code == "directory-locked"
    return False


def _name(part: Any, key: str) -> str:
    return str(part.get(key, "")) if isinstance(part, dict) else ""
