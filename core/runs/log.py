"""The log file of a directory: one entry for each message and command, with the time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from v6t.base.entry_points import attribute_errors
from v6t.base.errors import V6tError
from v6t.core import log
from v6t.core.runs.events import Listener, Listeners
from v6t.core.runs.wording import describe_step

if TYPE_CHECKING:
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


class LogListener(LogFile, Listener):
    """Writes the events of a run into its log file."""

    def on_message(self, text: str) -> None:
        self.note(text)

    def on_step_end(self, progress: Progress) -> None:
        self.note(describe_step(progress))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


@contextlib.contextmanager
def logged(listener: Listener, directory: Path) -> Iterator[Listeners]:
    """Keep the log of a run, with the errors that end it."""
    file = LogListener(directory)
    events = Listeners(listener, file)
    with log.record_log(file.note, events.on_message), _ending(file), attribute_errors():
        yield events


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
