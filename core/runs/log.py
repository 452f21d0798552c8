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
from v6t.core.runs.progress import describe_step
from v6t.core.runs.rundir import LOG

if TYPE_CHECKING:
    from v6t.procedures.trial_runner import Progress


class LogFile(Listener):
    """The log file of a directory, with the events of a run; created with its first entry.

    Attributes:
        begun: whether there is an entry: a run that is refused leaves its directory alone.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / LOG
        self.begun = False

    def on_message(self, text: str) -> None:
        """Append an entry; a file that cannot be written does not stop the run."""
        self.begun = True
        stamp = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        with (
            contextlib.suppress(OSError),
            open(self._path, "a", encoding="utf-8", opener=_open_private) as out,
        ):
            out.write(f"{stamp} {log.legible(text)}\n")

    def on_step_end(self, progress: Progress) -> None:
        self.on_message(describe_step(progress))

    @contextlib.contextmanager
    def note_error(self) -> Iterator[None]:
        """Append the error that ends the work."""
        try:
            yield
        except (V6tError, KeyboardInterrupt) as exc:
            text = "interrupted"
            if isinstance(exc, V6tError):
                text = f"error: {exc.message}" + (f" ({exc.hint})" if exc.hint else "")
            if self.begun:
                self.on_message(text)
            raise


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


@contextlib.contextmanager
def log_run(listener: Listener, directory: Path) -> Iterator[Listeners]:
    """Add the log file of a run to its listeners, with the error that ends it."""
    file = LogFile(directory)
    events = Listeners(listener, file)
    with log.record_log(file.on_message, events.on_message), file.note_error(), attribute_errors():
        yield events


@contextlib.contextmanager
def log_to(directory: Path | None) -> Iterator[None]:
    """Log to the file of a directory; None: to no file."""
    if directory is None:
        yield
        return
    file = LogFile(directory)
    with log.record_log(file.on_message), file.note_error():
        yield
