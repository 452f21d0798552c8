"""The journal: one line per trial, on disk before the next trial starts.

Procedures are deterministic given their trials, so a run is resumed by answering the trials that
are in the journal from it and measuring the rest.

Every line says which version of the format it has and which run it belongs to; lines without
either are from the first version, which marked none.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from v6t.base.errors import UsageError
from v6t.base.files import JOURNAL_OCTETS, explain_read_error, parse_json, read_octets
from v6t.trials.codec import TRIAL_DEFAULTS, result_from_json, result_to_json, trial_to_json
from v6t.trials.result import Measure, TrialResult
from v6t.trials.trial import Trial

SCHEMA = "v6t-trial/1"


def mark_of(manifest: Any) -> str | None:
    """Return the mark of the lines of a run's journal, empty in runs of the first version.

    None if nothing tells: the manifest is lost.
    """
    return str(manifest.get("run", "")) if isinstance(manifest, dict) else None


class Journal:
    """Append-only file of trials.

    Attributes:
        entries: results by trial key, in the order they were measured.
        trials: what was asked, by key.
        run: mark of the run it belongs to.
        torn: whether the last line is incomplete; its trial is not among the entries.
    """

    def __init__(self, path: Path, run: str | None = None) -> None:
        """Read what is there; nothing in it is changed.

        Args:
            path: the file; made if absent.
            run: mark of the run it must belong to, empty for one without; None: any.

        Raises:
            UsageError: a line before the last is damaged, or of another version or run.
        """
        self.path = path
        self.run = run
        self._whole = 0
        self.entries: dict[str, TrialResult] = {}
        self.trials: dict[str, dict[str, Any]] = {}
        self.torn = False
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK, 0o600)
        except OSError as exc:
            raise UsageError(f"cannot open {path}: {exc.strerror}", code="file-unreadable") from exc
        try:
            self._read()
        except BaseException:
            os.close(self._file)
            raise

    def repair(self) -> None:
        """Cut an incomplete last line off."""
        if os.fstat(self._file).st_size != self._whole:
            os.ftruncate(self._file, self._whole)
            os.fsync(self._file)

    def append(self, trial: Trial, result: TrialResult) -> None:
        """Record one trial; on disk when this returns."""
        self.repair()
        entry: dict[str, Any] = {
            "schema": SCHEMA,
            "run": self.run or "",
            "n": len(self.entries) + 1,
            "trial": trial_to_json(trial),
            "result": result_to_json(result),
        }
        line = _line(entry)
        written = os.write(self._file, line)
        if written != len(line):
            raise OSError(f"{self.path}: only {written} of {len(line)} octets were written")
        os.fsync(self._file)
        self._whole += len(line)
        self._remember(entry["trial"], result_from_json(entry["result"]))

    def close(self) -> None:
        """Close the file. May be called twice."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _read(self) -> None:
        data = read_octets(self.path, JOURNAL_OCTETS)
        for line, entry, result in _trials(self.path, data, self.run):
            self.run = entry.get("run", "") if self.run is None else self.run
            self._remember(entry["trial"], result)
            self._whole += len(line) + 1
        self.torn = self._whole != len(data)

    def _remember(self, trial: dict[str, Any], result: TrialResult) -> None:
        self.trials[trial["key"]] = trial
        self.entries[trial["key"]] = result


def read_journal(path: Path, run: str | None = None) -> list[tuple[dict[str, Any], TrialResult]]:
    """Trials with their results, of a run that may be going on: a torn last line is left out.

    Args:
        path: the file; absent: no trials.
        run: mark of the run it must belong to, empty for one without; None: any.

    Raises:
        UsageError: the file cannot be read, or a line before the last is damaged, or of another
            version or run.
    """
    try:
        data = read_octets(path, JOURNAL_OCTETS)
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise explain_read_error(path, exc) from exc
    return [(entry["trial"], result) for _, entry, result in _trials(path, data, run)]


def _trials(
    path: Path, data: bytes, run: str | None
) -> Iterator[tuple[bytes, dict[str, Any], TrialResult]]:
    """Whole lines with what they say; the last may be incomplete and is left out then."""
    lines = data.split(b"\n")
    for number, line in enumerate(lines[:-1], 1):
        entry = _parse(line)
        where = f"{path}:{number}"
        if entry is None:
            if number == len(lines) - 1 and not lines[-1]:
                return  # the last line: written, but not whole
            raise UsageError(
                f"{where}: this line is damaged",
                "the run cannot be resumed; results already written are not touched",
                code="damaged-file",
            )
        schema = entry.get("schema")
        if schema is not None and schema != SCHEMA:
            raise UsageError(
                f"{where}: this trial is of another version: its schema is {schema!r}, "
                f"this v6t reads '{SCHEMA}'",
                "use the v6t that wrote it; manifest.json names its version",
                code="journal-other-version",
            )
        if run is not None and entry.get("run", "") != run:
            raise UsageError(
                f"{where}: this trial belongs to another run",
                "nothing was changed; restore the journal of this run",
                code="journal-mismatch",
            )
        try:
            if not isinstance(entry["trial"]["key"], str):
                raise TypeError("a trial without a key")
            result = result_from_json(entry["result"])
        except (LookupError, TypeError, ValueError, AttributeError) as exc:
            raise UsageError(
                f"{where}: this line is not a trial: {exc}",
                "nothing was changed; restore the journal of this run",
                code="damaged-file",
            ) from exc
        yield line, entry, result


class JournaledMeasure:
    """The tester with a journal before it."""

    def __init__(self, journal: Journal, measure: Measure) -> None:
        """Wrap.

        Args:
            journal: answers what it knows, records what it does not.
            measure: measures the rest.
        """
        self._journal = journal
        self._measure = measure
        self.replayed = 0

    def __call__(self, trial: Trial) -> TrialResult:
        """Return the recorded or the measured result.

        Raises:
            UsageError: the journal holds another trial under this key.
        """
        known = self._journal.trials.get(trial.key)
        if known is not None:
            # compared as JSON: that is what was written, before the trial had all its settings
            if json.loads(json.dumps({**TRIAL_DEFAULTS, **trial_to_json(trial)})) != {
                **TRIAL_DEFAULTS,
                **known,
            }:
                raise UsageError(
                    f"the journal's trial {trial.key} is not the next trial of this run",
                    "journal and configuration do not belong together; start a new run",
                    code="journal-mismatch",
                )
            self.replayed += 1
            return self._journal.entries[trial.key]
        result = self._measure(trial)
        self._journal.append(trial, result)
        # what a resumed run will see, not what was in memory
        return self._journal.entries[trial.key]


def _line(entry: dict[str, Any]) -> bytes:
    body = json.dumps(entry, separators=(",", ":"), sort_keys=True)
    return f"{zlib.crc32(body.encode()):08x} {body}\n".encode()


def _parse(line: bytes) -> dict[str, Any] | None:
    checksum, _, body = line.partition(b" ")
    try:
        if int(checksum, 16) != zlib.crc32(body):
            return None
        entry = parse_json(body)
    except (ValueError, UnicodeDecodeError):
        return None
    return entry if isinstance(entry, dict) else None
