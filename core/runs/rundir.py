"""The run directory: who may use it, and files that appear whole or not at all."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from v6t.base.entry_points import describe_culprit
from v6t.base.errors import UsageError
from v6t.base.files import LOCK, acquire_lock, explain_read_error, read_json, write_atomically
from v6t.core.config.settings import ResolvedRun, saved_run

CONFIG, MANIFEST, JOURNAL = "config.json", "manifest.json", "journal.jsonl"
AUDIT = "audit.json"
"""Of a directory that `v6t audit` wrote."""
RESULTS, REPETITIONS, TRIALS = "results.json", "results.csv", "trials.csv"
_WRITTEN = (CONFIG, MANIFEST, JOURNAL, RESULTS, REPETITIONS, TRIALS)
_BEGINNINGS = {LOCK, "log.txt", *_WRITTEN, *(f".{name}.part" for name in _WRITTEN)}
"""What a run leaves that ended before its first trial: such a directory is as good as empty."""


def no_run(path: Path) -> UsageError:
    """Return the error for a directory that holds no run."""
    if (path / AUDIT).is_file():
        return UsageError(
            f"{path} contains an audit, not a run",
            "its report is audit.html; `v6t compare` compares audits with audits and runs with runs",
            code="no-such-run",
        )
    return UsageError(
        f"{path} does not contain a run",
        "give the directory of an earlier `v6t run`",
        code="no-such-run",
    )


def refuse_absent(paths: Iterable[Path]) -> None:
    """Name what is not there before anything is said of what is; ``latest`` is found elsewhere.

    Raises:
        UsageError: one of the paths does not exist.
    """
    for path in paths:
        if not path.exists() and str(path) != LATEST:
            raise UsageError(
                f"{path} does not exist",
                "give the directory of an earlier run or campaign",
                code="file-not-found",
            )


class RunDir:
    """A locked run directory."""

    def __init__(self, path: Path, *, new: bool) -> None:
        """Make or open it, and take its lock.

        Args:
            path: the directory.
            new: it must not hold a run yet; otherwise it must.

        Raises:
            UsageError: it holds something else, or another v6t works in it.
        """
        self.path = path
        if new:
            self._make()
        elif not (path / CONFIG).is_file():
            raise no_run(path)
        self._lock = acquire_lock(path)
        if new:
            try:
                self._empty()
            except BaseException:
                self.close()
                raise

    def write_json(self, name: str, value: Any) -> None:
        """Replace a file by JSON, atomically and durably."""
        self.write_text(name, json.dumps(value, indent=1, sort_keys=True) + "\n")

    def write_text(self, name: str, text: str) -> None:
        """Replace a file, atomically and durably."""
        write_atomically(self.path / name, text, durable=True)

    def read_json(self, name: str) -> Any:
        """Read a JSON file of the run; None if it does not exist.

        Raises:
            UsageError: it is damaged.
        """
        try:
            return read_json(self.path / name)
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise explain_read_error(self.path / name, exc) from exc

    def config(self) -> ResolvedRun:
        """Return the run's resolved configuration."""
        from pydantic import ValidationError

        try:
            return saved_run(self.read_json(CONFIG))
        except ValidationError as exc:
            raise UsageError(
                f"{self.path / CONFIG} is not a configuration of this version of v6t",
                code="damaged-file",
            ) from exc

    def close(self) -> None:
        """Give the lock back."""
        self._lock.release()

    def _make(self) -> None:
        try:
            if self.path.exists():
                self._check_free()
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as exc:
            raise UsageError(
                f"cannot create {self.path}: {exc.strerror or exc}", code="file-unwritable"
            ) from exc

    def _check_free(self) -> None:
        """Nothing is here, or a run that has measured nothing and left no device configured."""
        entries = {p.name: p for p in self.path.iterdir()}
        begun = JOURNAL in entries and entries[JOURNAL].stat().st_size > 0
        if CONFIG in entries and (begun or not entries.keys() <= _BEGINNINGS):
            raise UsageError(
                f"{self.path} holds a run already",
                f"v6t resume {shlex.quote(str(self.path))}, or choose another -o",
                code="file-exists",
            )
        if begun or not entries.keys() <= _BEGINNINGS:
            raise UsageError(
                f"{self.path} is not empty", "choose another directory with -o", code="file-exists"
            )

    def _empty(self) -> None:
        """Take away what a run left that never began; the lock is held."""
        self._check_free()
        for name in _BEGINNINGS - {LOCK, "log.txt"}:
            (self.path / name).unlink(missing_ok=True)


@contextmanager
def reading(directory: Path) -> Iterator[None]:
    """Report damaged files of a run as errors: they may have been changed by hand.

    Raises:
        UsageError: it could not be used as what v6t writes.
    """
    try:
        yield
    except (
        *(LookupError, TypeError, ValueError, AttributeError, ArithmeticError),
        *(RecursionError, AssertionError),
    ) as exc:
        if describe_culprit(exc) is not None:  # an extension's fault
            raise
        raise UsageError(
            f"{directory} contains a damaged file ({type(exc).__name__}: {exc})",
            "restore the file; if it was not changed, this is a defect of v6t, and "
            "`v6t --debug ...` shows the traceback",
            code="damaged-file",
        ) from exc


LATEST = "latest"
"""Stands for the run here or below ``runs`` that was worked on last."""


def latest_run(path: Path | None) -> Path:
    """Return the directory itself, or the latest run if it is none or ``latest``.

    Raises:
        UsageError: there is no run in the current directory or below its ``runs``.
    """
    if path is not None and (str(path) != LATEST or path.exists()):
        return path
    return latest_runs(1)[0]


def latest_runs(count: int) -> list[Path]:
    """Those that were worked on last, the latest at the end.

    Raises:
        UsageError: there are not so many in the current directory and below its ``runs``.
    """
    beside = [*Path("runs").glob("*"), *Path().glob("*")]
    runs = sorted((p for p in beside if (p / CONFIG).is_file()), key=_touched)
    if len(runs) < count:
        many = "is no run" if count == 1 else f"are no {count} runs"
        raise UsageError(
            f"there {many} here or below ./runs",
            "give the directory of the run; `latest` searches only here",
            code="no-such-run",
        )
    return runs[-count:]


def _touched(path: Path) -> tuple[float, str]:
    return max(p.stat().st_mtime for p in (path / CONFIG, path / JOURNAL) if p.exists()), path.name


def default_path(run: ResolvedRun) -> Path:
    """``runs/<UTC>-<plugin>[-<label>]`` in the current directory, not yet existing."""
    stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    label = re.sub(r"[^A-Za-z0-9._-]+", "-", run.label).strip("-.")
    base = "-".join(part for part in (stamp, run.plugin, label) if part)
    return unused(Path("runs") / base)


def unused(path: Path) -> Path:
    """Return this directory if nothing is there, else the first one with a number after its name."""
    candidate, again = path, 1
    while candidate.exists():
        again += 1
        candidate = path.with_name(f"{path.name}-{again}")
    return candidate
