"""The results of a run: results.json and the tables, the data of a report, a list of runs."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from v6t.analysis.csv_rows import format_csv, list_figure_rows, list_trial_rows
from v6t.analysis.record import CsvRow, Record
from v6t.analysis.rundata import RunData
from v6t.base.errors import UsageError
from v6t.base.files import acquire_lock, write_atomically
from v6t.benchmarks import registry
from v6t.benchmarks.base import Benchmark
from v6t.benchmarks.point import Measurement
from v6t.core.config.run_setup import load_technology
from v6t.core.config.settings import Settings
from v6t.core.runs import rundir
from v6t.core.runs.journal import Journal, read_journal
from v6t.core.runs.manifest import describe_setup
from v6t.core.runs.rundir import CONFIG, MANIFEST, MEDIANS, REPETITIONS, RESULTS, TRIALS, RunDir
from v6t.drivers.transport.redaction import redact_json
from v6t.plugins.base import Technology
from v6t.profiles.mixes import describe_sequence

SCHEMA = "v6t-results/1"  # schema identifier in results.json
DIGEST = "sha256"  # key of the digest in results.json; earlier versions wrote none
COMPLETE, RUNNING, INCORRECT = "complete", "running", "translation incorrect"
INTERRUPTED, IN_PROGRESS = "interrupted", "in progress"
REWRITE_HINT = "move it away; `v6t resume` writes it again from the journal"
NO_RESULTS = {"status": "nothing measured yet", "results": []}  # before the first trial


def read_results(directory: Path) -> dict[str, Any]:
    """Return the content of ``results.json``, empty if the run has no results yet."""
    path = directory / RESULTS
    try:
        content = rundir.read_optional_json(path)
    except UsageError as exc:
        if exc.code == "not-a-directory":
            raise
        raise UsageError(exc.message, REWRITE_HINT, code="damaged-file") from exc
    if content is None:
        return {}
    content = content if isinstance(content, dict) else {}
    if (schema := content.get("schema")) != SCHEMA:
        name = repr(schema) if isinstance(schema, str) else "none"
        problem = f"{path} is of another version: its schema is {name}, this v6t reads '{SCHEMA}'"
        raise UsageError(problem, rundir.OTHER_VERSION_HINT, code="journal-other-version")
    if content.pop(DIGEST, None) not in (None, _compute_digest(content)):
        problem = f"{path} was changed after v6t wrote it"
        raise UsageError(problem, REWRITE_HINT, code="damaged-file")
    shared, records = content.pop("conditions", {}), content.get("results")
    if not isinstance(shared, dict) or not isinstance(records, list):
        problem = f"{path} is damaged: it has no list of results"
        raise UsageError(problem, REWRITE_HINT, code="damaged-file")
    for record in records:
        if isinstance(record, dict) and isinstance(own := record.get("conditions"), dict):
            record["conditions"] = {**shared, **own}
    return content


def write_results(directory: Path, content: Mapping[str, Any]) -> None:
    """Replace ``results.json``."""
    text = rundir.format_json(make_results_document(content))
    write_atomically(directory / RESULTS, text, durable=True)


def make_results_document(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return results as stored: conditions common to all records at the top, and a digest."""
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
    document = {**content, "conditions": shared, "results": records}
    return {**document, DIGEST: _compute_digest(document)}


def _compute_digest(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a document without its digest, formatted as in the file."""
    return rundir.compute_digest(rundir.format_json(document).encode())


def read_records(directory: Path, results: Mapping[str, Any]) -> list[Record]:
    """Parse the records in the content of ``results.json``."""
    known = registry.load_presentations()
    records = []
    for number, values in enumerate(results.get("results", ()), 1):
        try:
            records.append(known.read_record(values))
        except ValidationError as exc:
            first = exc.errors()[0]
            key = ".".join(map(str, first["loc"])) or "all of it"
            problem = f"record {number} of {directory / RESULTS} is invalid: {key}: {first['msg']}"
            raise UsageError(problem, rundir.OTHER_VERSION_HINT, code="damaged-file") from exc
    return records


class ResultWriter:
    """Writes ``results.json`` and the tables during a run.

    A resumed run first finds its former results in the journal again; until then the files stay.
    """

    def __init__(self, directory: RunDir, journal: Journal, stored: Mapping[str, Any]) -> None:
        """Store the content of ``results.json`` when the run was started or resumed."""
        self._directory, self._journal, self.stored = directory, journal, stored
        self.content: dict[str, Any] = {}  # new content, even if the stored one was kept
        self.records: list[Record] = []
        self._documents: list[dict[str, Any]] = []
        self._tables: dict[str, list[CsvRow]] = {MEDIANS: [], REPETITIONS: [], TRIALS: []}
        self._tabulated_trials = 0

    def add(self, benchmark: Benchmark[Any, Any], measurement: Measurement) -> None:
        """Add the record of a benchmark and its rows of the tables."""
        record = measurement.record
        self.records.append(record)
        self._documents.append(record.to_json())
        for name, rows in {benchmark.csv_file: measurement.rows, **measurement.extra_rows}.items():
            if table := [*_add_limit_columns(rows, record)]:  # a file without rows is not written
                self._tables.setdefault(name, []).extend(table)
        self._tables[MEDIANS].extend(list_figure_rows(record, benchmark))

    def write(self, header: Mapping[str, Any], *, has_new_trials: bool) -> None:
        """Replace the files, unless ``results.json`` already contains more results.

        Args:
            header: content of ``results.json`` except the results.
            has_new_trials: whether trials were measured since the run was resumed.
        """
        self.content = {**header, "results": self._documents}
        if self.stored:
            amount, before = _rank_completeness(self.content), _rank_completeness(self.stored)
            if amount < before or (amount == before and not has_new_trials):
                return
        write_results(self._directory.path, self.content)
        trials = self._journal.list_trials()
        for trial in trials[self._tabulated_trials :]:
            self._tables[TRIALS].extend(list_trial_rows(trial.request, trial.result))
        self._tabulated_trials = len(trials)
        for name, rows in self._tables.items():
            self._directory.write_text(name, format_csv(rows))


def _rank_completeness(content: Mapping[str, Any]) -> tuple[bool, int, bool]:
    """Return a sort key by status and number of results; complete runs come last."""
    return content["status"] == COMPLETE, len(content["results"]), content["status"] == INCORRECT


def _add_limit_columns(rows: Iterable[CsvRow], record: Record) -> Iterator[CsvRow]:
    """Yield the rows with a column ``Limited`` and, if there is one, the median rate.

    Rates beyond the self-test count as limited, because the tester itself may lose or delay frames.
    """
    beyond = record.above_usable
    rates = record.as_rate_record
    median = {"median": rates.median} if rates else {}
    for row in rows:
        is_limited = record.limited or row.get("rate") in beyond
        yield {**row, "Limited": "yes" if is_limited else "no", **median}


@dataclass(frozen=True)
class RunFiles:
    """Contents of the files of a run."""

    path: Path
    settings: Settings
    manifest: dict[str, Any] | None  # content of ``manifest.json``; None if the file does not exist
    results: Mapping[str, Any]  # content of ``results.json``; empty if the run has no results yet
    journal: Journal

    @property
    def is_complete(self) -> bool:
        return self.results.get("status") == COMPLETE


def read_run(path: Path) -> RunFiles:
    """Read the files of a run directory; the run may still be in progress."""
    with rundir.report_damage(path):
        results = read_results(path)
        manifest = rundir.read_optional_json(path / MANIFEST)
        if not (path / CONFIG).is_file():
            raise rundir.make_no_run_error(path)
        settings = rundir.read_config(path, manifest)
        # a published copy of a run has no journal, and its manifest neither status nor digest
        keys = {"status", rundir.CONFIG_DIGEST}
        is_published = manifest is not None and not keys & manifest.keys()
        journal = read_journal(path, {} if is_published else results, manifest)
        if len({results.get("run"), journal.run} - {None, ""}) > 1:
            problem = f"{path / RESULTS} belongs to another run"
            raise UsageError(problem, REWRITE_HINT, code="damaged-file")
        return RunFiles(path, settings, manifest, results, journal)


def load_run(path: Path) -> RunData:
    """Load the data of a run directory; the run may still be in progress."""
    return make_stored_data(read_run(path))


def make_stored_data(files: RunFiles) -> RunData:
    """Return the data of a run whose files were read."""
    results, technology = files.results or NO_RESULTS, None
    with rundir.report_damage(files.path):
        records = read_records(files.path, results)
        with suppress(UsageError):  # its plugin is not installed, or has changed
            technology = load_technology(files.settings)
        return make_run_data(replace(files, results=results), technology, records)


def make_run_data(
    files: RunFiles, technology: Technology | None, records: Sequence[Record]
) -> RunData:
    """Assemble the data of a run, without secrets, from the contents of its files."""
    run, results, manifest = files.settings, files.results, files.manifest
    about: dict[str, Any] = {"params": run.params}
    if technology is not None:
        about = {
            "params": technology.params.model_dump(mode="json"),
            "title": technology.title,
            "rfcs": technology.rfcs,
            "rfc_frame_sizes": technology.rfc_frame_sizes,
            "setup": describe_setup(technology, run.frame_sizes),
        }
    if manifest and "setup" in manifest:
        about["setup"] = manifest["setup"]
    mixes = dict.fromkeys(r.frame_sizes.mix for r in records if r.frame_sizes.mix)
    return RunData(
        name=files.path.resolve().name,
        results=results,
        records=records,
        config=redact_json(run.to_json()),
        manifest=redact_json(manifest or {}),
        settings=run.procedure.model_dump(mode="json"),
        trials=files.journal.list_trials(),
        mix_sequences={mix: describe_sequence(mix) for mix in mixes},
        **about,
    )


@dataclass(frozen=True)
class RunSummary:
    """Summary of a run directory for a list of runs."""

    path: str
    created: str  # start of the run in UTC, ISO 8601
    technology: str
    device: str
    tester: str
    label: str
    headline: str  # first result; empty if there is none
    state: str  # "complete", "interrupted", "in progress", "translation incorrect" or "damaged"


def list_runs(directory: Path) -> list[RunSummary]:
    """List the runs in a directory, in its subdirectories and in campaigns there, oldest first.

    Manifests are read, results are not.
    """
    if not directory.is_dir():
        raise UsageError(f"{directory} is not a directory", code="not-a-directory")
    places = [directory]
    for depth in ("", "*/", "runs/*/"):
        places += directory.glob(f"{depth}*/")
    runs = [run for place in places for run in _summarize_run(place)]
    return sorted(runs, key=lambda run: (run.created, run.path))


def _summarize_run(path: Path) -> Iterator[RunSummary]:
    config, manifest = (rundir.read_json_object(path / name) for name in (CONFIG, MANIFEST))
    if config is None or manifest is None or "plugin" not in config:
        if os.path.isfile(path / rundir.JOURNAL):  # False in a directory that may not be searched
            yield RunSummary(str(path), "", "", "", "", "", "", "damaged")
        return
    device, tester = (
        str(part.get(key, "")) if isinstance(part := config.get(name), dict) else ""
        for name, key in (("dut", "driver"), ("tester", "kind"))
    )
    created, headline = (str(manifest.get(key) or "") for key in ("created", "headline"))
    yield RunSummary(
        str(path), created, str(config["plugin"]), device, tester,
        str(config.get("label") or ""), headline, _find_state(path, manifest),
    )  # fmt: skip


def _find_state(path: Path, manifest: dict[str, Any]) -> str:
    try:
        state = str(manifest.get("status") or read_results(path).get("status", RUNNING))
    except UsageError:
        return "damaged"
    if state != RUNNING:
        return state
    try:
        acquire_lock(path).release()
    except UsageError as exc:
        return IN_PROGRESS if exc.code == "directory-locked" else INTERRUPTED
    return INTERRUPTED
