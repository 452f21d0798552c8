"""The log file of a directory: one entry for each message and command, with the time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from v6t.base.entry_points import attribute_errors
from v6t.base.errors import V6tError
from v6t.core import log
from v6t.core.runs.wording import outcome

if TYPE_CHECKING:
    from v6t.core.runs.remaining import Now
    from v6t.procedures.trial_runner import Progress

LOG = "log.txt"


class LogFile:
    """A log file that is made with its first entry."""

    def __init__(self, directory: Path) -> None:
        """Remember the directory."""
        self._path = directory / LOG
        self.begun = False
        """Whether there is an entry: a run that is refused before leaves the directory alone."""

    def note(self, text: str) -> None:
        """Append an entry. A file that cannot be written ends no run."""
        self.begun = True
        stamp = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        with (
            contextlib.suppress(OSError),
            open(self._path, "a", encoding="utf-8", opener=_private) as out,
        ):
            out.write(f"{stamp} {log.legible(text)}\n")


class Logged(LogFile):
    """A watch that logs what it passes on to another watch."""

    def __init__(self, watch: Any, directory: Path) -> None:
        """Combine both.

        Args:
            watch: who is told; see :class:`v6t.core.runs.runner.Watch`.
            directory: of the run.
        """
        super().__init__(directory)
        self._watch = watch

    def say(self, text: str) -> None:
        """Tell, and write down."""
        self._watch.say(text)
        self.note(text)

    def trial(self, progress: Progress) -> None:
        """Tell, and write down how a trial of a search ended."""
        self._watch.trial(progress)
        if progress.verdict is not None:
            self.note(outcome(progress))

    def now(self, now: Now) -> None:
        """Tell: what comes of it will be written down."""
        self._watch.now(now)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


@contextlib.contextmanager
def logged(watch: Any, directory: Path) -> Iterator[Logged]:
    """Keep a run's log, with the errors that end it."""
    file = Logged(watch, directory)
    with log.record_log(file.note, file.say), _ending(file), attribute_errors():
        yield file


@contextlib.contextmanager
def log_to(directory: Path | None) -> Iterator[None]:
    """Log to a file in a directory; None: to no file."""
    if directory is None:
        yield
        return
    file = LogFile(directory)
    with log.record_log(file.note), _ending(file):
        yield


@contextlib.contextmanager
def _ending(file: LogFile) -> Iterator[None]:
    """Log the error that ends the work."""
    try:
        yield
    except V6tError as exc:
        if file.begun:
            file.note(f"error: {exc.message}" + (f" ({exc.hint})" if exc.hint else ""))
        raise
    except KeyboardInterrupt:
        if file.begun:
            file.note("interrupted")
        raise
