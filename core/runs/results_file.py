"""results.json: its version, and that what is known is never replaced by less."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from textwrap import indent
from typing import Any

from pydantic import ValidationError
from v6t.analysis.record import Record
from v6t.base.errors import UsageError
from v6t.base.files import read_json
from v6t.benchmarks import registry
from v6t.core.runs.rundir import RESULTS, RunDir

SCHEMA = "v6t-results/1"
COMPLETE, RUNNING, INCORRECT = "complete", "running", "translation incorrect"
OTHER_VERSION = "use the v6t that wrote it; manifest.json names its version"


def read_results(directory: Path) -> dict[str, Any]:
    """Read ``results.json`` of a run directory, each record with all its conditions; empty if there is none.

    Raises:
        UsageError: it is damaged, or of a version this v6t cannot read.
    """
    path = directory / RESULTS
    try:
        document = read_json(path)
    except FileNotFoundError:
        return {}
    except NotADirectoryError as exc:
        raise UsageError(f"{directory} is not a directory", code="not-a-directory") from exc
    except (OSError, UsageError) as exc:
        words = exc.message if isinstance(exc, UsageError) else f"cannot read {path}: {exc}"
        raise UsageError(
            words,
            "move it away; `v6t resume` writes it again from the journal",
            code="damaged-file",
        ) from exc
    content: dict[str, Any] = document if isinstance(document, dict) else {}
    shared = content.pop("conditions", {})
    for record in content.get("results", ()):
        if isinstance(record, dict) and isinstance(own := record.get("conditions"), dict):
            record["conditions"] = {**shared, **own}
    schema = content.get("schema")
    if schema != SCHEMA:
        words = f"{schema!r}" if isinstance(schema, str) else "none"
        raise UsageError(
            f"{path} is of another version: its schema is {words}, this v6t reads '{SCHEMA}'",
            OTHER_VERSION,
            code="journal-other-version",
        )
    return content


def share_conditions(content: Mapping[str, Any]) -> dict[str, Any]:
    """Move the conditions that all records of ``results.json`` have to its head."""
    records = content["results"]
    shared = dict(records[0]["conditions"]) if records else {}
    for record in records:
        shared = _intersect(shared, record["conditions"])
    rest = [{**record, "conditions": _drop(record["conditions"], shared)} for record in records]
    return {**content, "conditions": shared, "results": rest}


def _intersect(shared: Mapping[str, Any], conditions: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in shared.items() if k in conditions and conditions[k] == v}


def _drop(conditions: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in conditions.items() if k not in shared}


def records_of(directory: Path, results: Mapping[str, Any]) -> list[Record]:
    """Read the records among the results of a run directory.

    Raises:
        UsageError: one of them has not even what all records share.
    """
    known = registry.presentations()
    records = []
    for number, values in enumerate(results.get("results", ()), 1):
        try:
            records.append(known.read(values))
        except ValidationError as exc:
            first = exc.errors()[0]
            key = ".".join(map(str, first["loc"])) or "all of it"
            raise UsageError(
                f"record {number} of {directory / RESULTS} is invalid: {key}: {first['msg']}",
                OTHER_VERSION,
                code="damaged-file",
            ) from exc
    return records


class ResultsFile:
    """``results.json`` of a run in progress.

    A resumed run first answers from its journal what it knew before. Until it knows that much
    again, the file stays as it is: whatever stops it meanwhile costs nothing.

    Attributes:
        held: what the file held when the run was taken up.
    """

    def __init__(self, directory: RunDir) -> None:
        """Read what is there.

        Raises:
            UsageError: it cannot be read.
        """
        self._directory = directory
        self._records: list[dict[str, Any]] = []
        self._texts: list[str] = []
        self._shared: dict[str, Any] = {}
        self.held = read_results(directory.path)

    def is_due(self, status: str, *, measured: bool) -> bool:
        """Whether the results so far are to replace what the file holds.

        Args:
            status: of the run.
            measured: whether trials were measured since the run was taken up.
        """
        if not self.held:
            return True
        now = _amount(status, len(self._records))
        before = _amount(self.held["status"], len(self.held["results"]))
        return now > before or (now == before and measured)

    def add(self, record: Record) -> None:
        """Add a result; texts are made again only where fewer conditions are shared than before."""
        self._records.append(record.to_json())
        conditions = self._records[-1]["conditions"]
        before = self._shared if self._texts else conditions
        shared = _intersect(before, conditions)
        if shared != self._shared:
            self._shared, self._texts = shared, []
        for values in self._records[len(self._texts) :]:
            rest = {**values, "conditions": _drop(values["conditions"], shared)}
            text = json.dumps(rest, indent=1, sort_keys=True)
            self._texts.append(indent(text, "  "))

    def write(self, content: Mapping[str, Any]) -> None:
        """Replace the file by this and the results so far."""
        head = {**content, "conditions": self._shared, "results": []}
        text = json.dumps(head, indent=1, sort_keys=True)
        if self._texts:
            place = '\n "results": ['
            text = text.replace(place, place + "\n" + ",\n".join(self._texts) + "\n ", 1)
        self._directory.write_text(RESULTS, text + "\n")


def _amount(status: str, records: int) -> tuple[bool, int, bool]:
    """How much is known; complete is the most."""
    return status == COMPLETE, records, status == INCORRECT
