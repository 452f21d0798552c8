"""The journal: one line per trial, on disk before the next trial starts.

Procedures are deterministic given their trials: a run is resumed by answering known trials from the
journal and measuring the rest.
"""

import json
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from v6t.analysis.rundata import RunTrial
from v6t.base.errors import UsageError
from v6t.base.files import JOURNAL_OCTETS, parse_json, read_octets
from v6t.core.runs.rundir import JOURNAL, OTHER_VERSION_HINT, RESULTS
from v6t.trials.codec import TRIAL_DEFAULTS, decode, encode
from v6t.trials.result import Measure, TrialResult
from v6t.trials.trial import Trial

SCHEMA = "v6t-trial/1"  # schema identifier in each line
RESTORE_HINT = "nothing was changed; restore the journal of this run"


class Journal:
    """File with the trials of a run, read when it is opened and extended by each new trial."""

    def __init__(self, path: Path, run: str | None = None) -> None:
        """Read the file, if any, without changing it; it must belong to ``run``, if given."""
        self.path = path
        self.run = run  # identifier of the run
        self.entries: dict[str, TrialResult] = {}  # by trial key, in the order they were measured
        self.trials: dict[str, dict[str, Any]] = {}  # as JSON, by key
        self._starts: dict[str, int] = {}  # position of each trial's line in the file
        self._file = -1
        self._size = 0
        try:
            data = read_octets(path, JOURNAL_OCTETS)
        except UsageError as exc:
            if exc.code != "file-not-found":
                raise
            data = b""
        for line, entry, result in _parse_lines(path, data, run):
            self.run = entry.get("run", "") if self.run is None else self.run
            self._keep_trial(entry["trial"], result, len(line) + 1)
        self.torn = self._size != len(data)  # the last line is incomplete, and left out

    def open(self) -> None:
        """Create the file or open it to append trials, and remove an incomplete last line."""
        if self._file < 0:
            try:
                self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            except OSError as exc:
                problem = f"cannot open {self.path}: {exc.strerror}"
                raise UsageError(problem, code="file-unreadable") from exc
        if os.fstat(self._file).st_size != self._size:
            os.ftruncate(self._file, self._size)
            os.fsync(self._file)

    def append(self, trial: Trial, result: TrialResult) -> None:
        """Append a trial and its result to the file, durably."""
        self.open()
        entry: dict[str, Any] = {
            "schema": SCHEMA,
            "run": self.run or "",
            "n": len(self.entries) + 1,
            "trial": encode(trial),
            "result": encode(result),
        }
        body = json.dumps(entry, separators=(",", ":"), sort_keys=True)
        line = f"{zlib.crc32(body.encode()):08x} {body}\n".encode()
        written = os.write(self._file, line)
        if written != len(line):
            raise OSError(f"{self.path}: only {written} of {len(line)} octets were written")
        os.fsync(self._file)
        self._keep_trial(entry["trial"], decode(TrialResult, entry["result"]), len(line))

    def with_replay(self, measure: Measure) -> Measure:
        """Wrap ``measure`` to return the stored results of known trials and to store new results."""

        def replay_or_measure(trial: Trial) -> TrialResult:
            known = self.trials.get(trial.key)
            values = {**TRIAL_DEFAULTS, **encode(trial)}  # the journal may omit defaults
            if known is None:
                self.append(trial, measure(trial))
            elif json.loads(json.dumps(values)) != {**TRIAL_DEFAULTS, **known}:
                problem = f"the journal's trial {trial.key} is not the next trial of this run"
                hint = "journal and configuration do not belong together; start a new run"
                raise UsageError(problem, hint, code="journal-mismatch")
            return self.entries[trial.key]  # as a resumed run will see it

        return replay_or_measure

    def discard_from(self, key: str) -> None:
        """Forget a trial and all after it; :meth:`open` removes them from the file."""
        keys = list(self.entries)
        for discarded in keys[keys.index(key) :] if key in self.entries else ():
            self._size = min(self._size, self._starts.pop(discarded))
            del self.entries[discarded], self.trials[discarded]

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def list_trials(self) -> list[RunTrial]:
        """List the trials with their results, in the order they were measured."""
        return [RunTrial(self.trials[key], result) for key, result in self.entries.items()]

    def _keep_trial(self, trial: dict[str, Any], result: TrialResult, octets: int) -> None:
        """Keep a trial and its result in memory; its line in the file has this many octets."""
        self._starts[trial["key"]] = self._size
        self._size += octets
        self.trials[trial["key"]] = trial
        self.entries[trial["key"]] = result


def read_journal(directory: Path, results: Mapping[str, Any], manifest: Any) -> Journal:
    """Read the journal of a run; raise UsageError if it lacks trials of the results."""
    path = directory / JOURNAL
    if results and not path.is_file():
        problem = f"{path} is missing, and with it the trials of {RESULTS} next to it"
        raise UsageError(problem, RESTORE_HINT, code="damaged-file")
    journal = Journal(path, str(manifest.get("run", "")) if isinstance(manifest, dict) else None)
    for record in results.get("results", ()):
        for key in record.get("trials", ()):
            if key not in journal.trials:
                problem = f"{path} does not belong to {RESULTS}: trial {key} is not in it"
                raise UsageError(problem, RESTORE_HINT, code="damaged-file")
    return journal


def _parse_lines(
    path: Path, data: bytes, run: str | None
) -> Iterator[tuple[bytes, dict[str, Any], TrialResult]]:
    """Yield each line that ends with a newline, with its content and its result."""
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        where = f"{path}:{number}"
        checksum, _, body = line.partition(b" ")
        try:
            entry = parse_json(body) if int(checksum, 16) == zlib.crc32(body) else None
        except ValueError:
            entry = None
        if not isinstance(entry, dict):
            problem = f"{where}: this line is damaged"
            raise UsageError(problem, RESTORE_HINT, code="damaged-file")
        if (schema := entry.get("schema")) != SCHEMA:
            problem = f"its schema is {schema!r}, this v6t reads '{SCHEMA}'"
            problem = f"{where}: this trial is of another version: {problem}"
            raise UsageError(problem, OTHER_VERSION_HINT, code="journal-other-version")
        run = entry.get("run", "") if run is None else run
        if entry.get("run", "") != run:
            problem = f"{where}: this trial belongs to another run"
            raise UsageError(problem, RESTORE_HINT, code="journal-mismatch")
        if entry.get("n", number) != number:
            problem = f"{where}: this is line {entry['n']} of the run: one is missing or repeated"
            raise UsageError(problem, RESTORE_HINT, code="damaged-file")
        try:
            if not isinstance(entry["trial"]["key"], str):
                raise TypeError("a trial without a key")
            result = decode(TrialResult, entry["result"])
        except (LookupError, TypeError, ValueError, AttributeError) as exc:
            problem = f"{where}: this line is not a trial: {exc}"
            raise UsageError(problem, RESTORE_HINT, code="damaged-file") from exc
        yield line, entry, result
