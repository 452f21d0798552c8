"""The run directory: who may use it, and files that appear whole or not at all."""

from __future__ import annotations

import fcntl
import json
import os
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from v6t.core.config.settings import ResolvedRun, saved_run
from v6t.profiles.errors import UsageError
from v6t.profiles.files import read_json

CONFIG, MANIFEST, JOURNAL = "config.json", "manifest.json", "journal.jsonl"
_BEGINNINGS = {".lock", MANIFEST, f".{MANIFEST}.part", f".{CONFIG}.part"}
"""What a run leaves that was killed before it had begun: such a directory is as good as empty."""
RESULTS, REPETITIONS, TRIALS = "results.json", "results.csv", "trials.csv"


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
            raise UsageError(f"{path} holds no run", "give the directory of an earlier `v6t run`")
        try:
            self._lock = os.open(path / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as exc:
            raise UsageError(f"{path} cannot be written: {exc.strerror}") from exc
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            os.close(self._lock)
            raise UsageError(f"another v6t is at work in {path}") from exc

    def write_json(self, name: str, value: Any) -> None:
        """Replace a file by JSON, atomically and durably."""
        self.write_text(name, json.dumps(value, indent=1, sort_keys=True) + "\n")

    def write_text(self, name: str, text: str) -> None:
        """Replace a file, atomically and durably."""
        partial = self.path / f".{name}.part"
        with partial.open("w", encoding="utf-8") as out:
            os.fchmod(out.fileno(), 0o600)
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.replace(partial, self.path / name)
        handle = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def read_json(self, name: str) -> Any:
        """A JSON file of the run; None if it does not exist.

        Raises:
            UsageError: it is damaged.
        """
        try:
            return read_json(self.path / name)
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise UsageError(f"{self.path / name} cannot be read: {exc.strerror}") from exc

    def config(self) -> ResolvedRun:
        """The run's resolved configuration."""
        from pydantic import ValidationError

        try:
            return saved_run(self.read_json(CONFIG))
        except ValidationError as exc:
            raise UsageError(f"{self.path / CONFIG} is no configuration of this v6t") from exc

    def close(self) -> None:
        """Give the lock back."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _make(self) -> None:
        if (self.path / CONFIG).exists():
            raise UsageError(
                f"{self.path} holds a run already", f"v6t resume {self.path}, or choose another -o"
            )
        try:
            if self.path.exists() and any(p.name not in _BEGINNINGS for p in self.path.iterdir()):
                raise UsageError(f"{self.path} is not empty", "choose another directory with -o")
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except (OSError, NotADirectoryError) as exc:
            raise UsageError(f"{self.path} cannot be made: {exc.strerror or exc}") from exc


def default_path(run: ResolvedRun) -> Path:
    """``runs/<UTC>-<plugin>[-<label>]`` in the current directory, not yet existing."""
    stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    label = re.sub(r"[^A-Za-z0-9._-]+", "-", run.label).strip("-.")
    base = "-".join(part for part in (stamp, run.plugin, label) if part)
    path, again = Path("runs") / base, 1
    while path.exists():
        again += 1
        path = Path("runs") / f"{base}-{again}"
    return path
