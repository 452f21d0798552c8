"""The journal: one line per trial, on disk before the next trial starts.

Procedures are deterministic given their trials, so a run is resumed by answering the trials that
are in the journal from it and measuring the rest.
"""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

from v6t.procedures.trial import (
    Measure,
    Trial,
    TrialResult,
    result_from_json,
    result_to_json,
    trial_to_json,
)
from v6t.profiles.errors import UsageError


class Journal:
    """Append-only file of trials.

    Attributes:
        entries: results by trial key, in the order they were measured.
        trials: what was asked, by key.
        torn: whether the last line was incomplete and has been dropped.
    """

    def __init__(self, path: Path) -> None:
        """Read what is there; a torn last line is cut off.

        Args:
            path: the file; made if absent.

        Raises:
            UsageError: a line before the last is damaged.
        """
        self.path = path
        self.entries: dict[str, TrialResult] = {}
        self.trials: dict[str, dict[str, Any]] = {}
        self.torn = False
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as exc:
            raise UsageError(f"{path} cannot be opened: {exc.strerror}") from exc
        try:
            self._read()
        except BaseException:
            os.close(self._file)
            raise

    def append(self, trial: Trial, result: TrialResult) -> None:
        """Record one trial; on disk when this returns."""
        entry = {
            "n": len(self.entries) + 1,
            "trial": trial_to_json(trial),
            "result": result_to_json(result),
        }
        line = _line(entry)
        written = os.write(self._file, line)
        if written != len(line):
            raise OSError(f"{self.path}: only {written} of {len(line)} octets were written")
        os.fsync(self._file)
        self._remember(entry)

    def close(self) -> None:
        """Close the file. May be called twice."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _read(self) -> None:
        data = self.path.read_bytes()
        good = 0
        lines = data.split(b"\n")
        for number, line in enumerate(lines[:-1], 1):
            entry = _parse(line)
            if entry is None:
                if number == len(lines) - 1 and not lines[-1]:
                    break  # the last line: written, but not whole
                raise UsageError(
                    f"{self.path}:{number}: this line is damaged",
                    "the run cannot be resumed; results already written are not touched",
                )
            self._remember(entry)
            good += len(line) + 1
        if good != len(data):
            self.torn = True
            os.ftruncate(self._file, good)
            os.fsync(self._file)

    def _remember(self, entry: dict[str, Any]) -> None:
        key = entry["trial"]["key"]
        self.trials[key] = entry["trial"]
        self.entries[key] = result_from_json(entry["result"])


def read_journal(path: Path) -> list[tuple[dict[str, Any], TrialResult]]:
    """Trials with their results, of a run that may be going on: a torn last line is left out.

    Raises:
        UsageError: the file cannot be read, or a line before the last is damaged.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise UsageError(f"{path} cannot be read: {exc.strerror}") from exc
    found = []
    for number, line in enumerate(lines[:-1], 1):
        entry = _parse(line)
        if entry is None:
            if number == len(lines) - 1:
                break
            raise UsageError(f"{path}:{number}: this line is damaged")
        found.append((entry["trial"], result_from_json(entry["result"])))
    return found


class JournaledMeasure:
    """The door to the tester, with a journal before it."""

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
        """The recorded or the measured result.

        Raises:
            UsageError: the journal holds another trial under this key.
        """
        known = self._journal.trials.get(trial.key)
        if known is not None:
            # compared as JSON: that is what was written
            if json.loads(json.dumps(trial_to_json(trial))) != known:
                raise UsageError(
                    f"the journal's trial {trial.key} is not the one this run asks for",
                    "journal and configuration do not belong together; start a new run",
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
        entry = json.loads(body)
    except (ValueError, UnicodeDecodeError):
        return None
    return entry if isinstance(entry, dict) else None
