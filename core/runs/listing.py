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
        label: label of the user.
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
    """List the runs in a directory, in its subdirectories and in campaigns there, oldest first."""
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

    def name(part: str, key: str) -> str:
        values: Any = config.get(part)
        return str(values.get(key, "")) if isinstance(values, dict) else ""

    yield RunSummary(
        path=str(path),
        created=str(manifest.get("created", "")),
        technology=str(config["plugin"]),
        device=name("dut", "driver"),
        tester=name("tester", "kind"),
        label=str(config.get("label") or ""),
        headline=str(manifest.get("headline") or ""),
        state=_find_state(path, manifest),
    )


def _find_state(path: Path, manifest: dict[str, Any]) -> str:
    state = manifest.get("status")
    try:
        state = str(state or read_results(path).get("status", RUNNING))
    except UsageError:
        return "damaged"
    if state != RUNNING:
        return state
    try:
        acquire_lock(path).release()
    except UsageError as exc:
        return IN_PROGRESS if exc.code == "directory-locked" else INTERRUPTED
    return INTERRUPTED
