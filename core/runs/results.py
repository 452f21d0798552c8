"""The results of a run: results.json and the tables, the data of a report, a list of runs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from v6t.analysis.csv_rows import list_trial_rows
from v6t.analysis.record import RateRecord, Record
from v6t.analysis.rundata import RunData, RunTrial
from v6t.base.errors import UsageError
from v6t.base.files import acquire_lock, read_json
from v6t.benchmarks import registry
from v6t.core.config.bound import make_links, validate_params
from v6t.core.config.plugins import load_plugin
from v6t.core.config.settings import ResolvedRun
from v6t.core.runs.journal import Journal, find_mark, read_journal
from v6t.core.runs.manifest import setup
from v6t.core.runs.rundir import (
    CONFIG,
    JOURNAL,
    MANIFEST,
    MEDIANS,
    REPETITIONS,
    RESULTS,
    TRIALS,
    RunDir,
    no_run,
    read_config,
    read_optional_json,
    reading,
)
from v6t.profiles.mixes import describe_sequence

if TYPE_CHECKING:
    from v6t.analysis.record import Record
    from v6t.plugins.base import Technology


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


def load_run(path: Path, technology: Technology | None = None) -> RunData:
    """Read a run directory; nothing in it is changed, and the run may be in progress."""
    with reading(path):
        results = read_results(path)
        manifest = read_optional_json(path / MANIFEST)
        config = read_optional_json(path / CONFIG)
        if config is None:
            raise no_run(path)
        run = read_config(path / CONFIG)
        trials = read_journal(path / JOURNAL, find_mark(manifest))
        return make_run_data(
            path,
            config,
            run,
            technology or _make_technology(run),
            results or {"status": "nothing measured yet"},
            read_records(path, results),
            manifest,
            [RunTrial(*entry) for entry in trials],
        )


def make_run_data(
    path: Path,
    config: Mapping[str, Any],
    run: ResolvedRun,
    technology: Technology | None,
    results: Mapping[str, Any],
    records: Sequence[Record],
    manifest: Mapping[str, Any] | None,
    trials: Sequence[RunTrial],
) -> RunData:
    """Put the data of a run together."""
    about: dict[str, Any] = {"params": run.params}
    if technology is not None:
        about = {
            "params": technology.params.model_dump(mode="json"),
            "title": technology.title,
            "rfcs": technology.rfcs,
            "rfc_frame_sizes": technology.rfc_frame_sizes,
            "setup": setup(technology, run.frame_sizes),
        }
    if manifest and "setup" in manifest:
        about["setup"] = manifest["setup"]
    mixes = dict.fromkeys(r.frame_sizes.mix for r in records if r.frame_sizes.mix)
    return RunData(
        name=path.resolve().name,
        results=results,
        records=records,
        config=config,
        manifest=manifest or {},
        settings=run.procedure.model_dump(mode="json"),
        trials=trials,
        bottleneck=results.get("bottleneck") or (),
        mix_sequences={mix: describe_sequence(mix) for mix in mixes},
        **about,
    )


def _make_technology(run: ResolvedRun) -> Technology | None:
    try:
        plugin = load_plugin(run.plugin)
        links = make_links(run.links_left, run.links_right, run.initiator)
        return plugin(validate_params(plugin, run.params), links)
    except UsageError:
        return None


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
