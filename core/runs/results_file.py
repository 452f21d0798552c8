"""results.json and the tables of a run: known results are never replaced by fewer."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from v6t.analysis.csv_rows import list_trial_rows
from v6t.analysis.record import RateRecord, Record
from v6t.base.errors import UsageError
from v6t.base.files import read_json
from v6t.benchmarks import registry
from v6t.core.runs.journal import Journal
from v6t.core.runs.rundir import MEDIANS, REPETITIONS, RESULTS, TRIALS, RunDir

SCHEMA = "v6t-results/1"
COMPLETE, RUNNING, INCORRECT = "complete", "running", "translation incorrect"
OTHER_VERSION = "use the v6t that wrote it; manifest.json names its version"
Row = dict[str, Any]


def read_results(directory: Path) -> dict[str, Any]:
    """Read ``results.json`` of a run directory, or return an empty mapping without one."""
    path = directory / RESULTS
    try:
        document = read_json(path)
    except FileNotFoundError:
        return {}
    except NotADirectoryError as exc:
        raise UsageError(f"{directory} is not a directory", code="not-a-directory") from exc
    except (OSError, UsageError) as exc:
        message = exc.message if isinstance(exc, UsageError) else f"cannot read {path}: {exc}"
        raise UsageError(
            message,
            "move it away; `v6t resume` writes it again from the journal",
            code="damaged-file",
        ) from exc
    content: dict[str, Any] = document if isinstance(document, dict) else {}
    schema = content.get("schema")
    if schema != SCHEMA:
        name = f"{schema!r}" if isinstance(schema, str) else "none"
        raise UsageError(
            f"{path} is of another version: its schema is {name}, this v6t reads '{SCHEMA}'",
            OTHER_VERSION,
            code="journal-other-version",
        )
    shared, records = content.pop("conditions", {}), content.get("results")
    if not isinstance(shared, dict) or not isinstance(records, list):
        raise UsageError(
            f"{path} is damaged: it has no list of results",
            "move it away; `v6t resume` writes it again from the journal",
            code="damaged-file",
        )
    for record in records:
        if isinstance(record, dict) and isinstance(own := record.get("conditions"), dict):
            record["conditions"] = {**shared, **own}
    return content


def share_conditions(content: Mapping[str, Any]) -> dict[str, Any]:
    """Move the conditions that all records of ``results.json`` have to its head."""
    conditions = [record["conditions"] for record in content["results"]]
    shared = {
        name: value
        for name, value in (conditions[0] if conditions else {}).items()
        if all(name in each and each[name] == value for each in conditions)
    }
    records = [
        {**record, "conditions": {k: v for k, v in record["conditions"].items() if k not in shared}}
        for record in content["results"]
    ]
    return {**content, "conditions": shared, "results": records}


def read_records(directory: Path, results: Mapping[str, Any]) -> list[Record]:
    """Read the records among the results of a run directory."""
    known = registry.load_presentations()
    records = []
    for number, values in enumerate(results.get("results", ()), 1):
        try:
            records.append(known.read_record(values))
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

    A resumed run first finds its former results in the journal again; until then the file stays.

    Attributes:
        held: content of the file when the run was started or resumed.
        content: what was written last, or would have been.
    """

    def __init__(self, directory: RunDir) -> None:
        self._directory = directory
        self._records: list[dict[str, Any]] = []
        self.held = read_results(directory.path)
        self.content: dict[str, Any] = {}

    def add(self, record: Record) -> None:
        """Add a result."""
        self._records.append(record.to_json())

    def update(self, content: Mapping[str, Any], *, measured: bool) -> bool:
        """Replace the file, unless it holds more results; return whether it was replaced.

        Args:
            content: all but the results, with the status of the run.
            measured: whether trials were measured since the run was resumed.
        """
        self.content = {**content, "results": self._records}
        if self.held:
            amount = _amount(content["status"], len(self._records))
            before = _amount(self.held["status"], len(self.held["results"]))
            if amount < before or (amount == before and not measured):
                return False
        self._directory.write_json(RESULTS, share_conditions(self.content))
        return True


def _amount(status: str, records: int) -> tuple[bool, int, bool]:
    """Return how much is known; complete is the most."""
    return status == COMPLETE, records, status == INCORRECT


class Tables:
    """The CSV files of a run in progress, which grow: each row is made once."""

    def __init__(self, journal: Journal) -> None:
        """Begin; every trial of the journal has its rows in ``trials.csv``."""
        self._journal = journal
        self._known = 0
        self._texts = {name: io.StringIO() for name in (MEDIANS, REPETITIONS, TRIALS)}
        self._columns: dict[str, list[str]] = {}

    def add(self, name: str, rows: Iterable[Row]) -> None:
        """Add rows to a table; the first row decides on its columns."""
        for row in rows:
            out = self._texts.setdefault(name, io.StringIO())
            new = name not in self._columns
            columns = self._columns.setdefault(name, list(row))
            writer = csv.DictWriter(out, columns, lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow(row)

    def files(self) -> Iterator[tuple[str, str]]:
        """Yield names and texts; a text is empty without rows."""
        entries, trials = self._journal.entries, self._journal.trials
        for key in islice(entries, self._known, None):
            self.add(TRIALS, list_trial_rows(trials[key], entries[key]))
        self._known = len(entries)
        for name, out in self._texts.items():
            yield name, out.getvalue()


def with_limit(rows: Iterable[Row], record: Record) -> list[Row]:
    """Add the last columns: whether the tester or the medium limits the row, and the only median.

    Rates that the self-test does not cover are limited: loss and delay may be the tester's own.
    """
    beyond = record.above_usable
    median = {"median": record.median} if isinstance(record, RateRecord) else {}
    return [
        {**row, "Limited": "yes" if record.limited or row.get("rate") in beyond else "no", **median}
        for row in rows
    ]
