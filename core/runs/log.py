"""What a run said, kept beside its results: one line each, with the time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from v6t.base.entry_points import blaming
from v6t.base.errors import V6tError
from v6t.base.plain_text import visible
from v6t.core.runs.wording import outcome

if TYPE_CHECKING:
    from v6t.core.runs.forecast import Now
    from v6t.procedures.conditions import Progress

LOG = "log.txt"


class Logged:
    """A watch that writes down what another one is told."""

    def __init__(self, watch: Any, directory: Path) -> None:
        """Remember both.

        Args:
            watch: who is told; see :class:`v6t.core.runs.runner.Watch`.
            directory: of the run.
        """
        self._watch = watch
        self._path = directory / LOG
        self.begun = False
        """Whether anything was said: what is refused before that leaves the directory alone."""

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

    def note(self, text: str) -> None:
        """Write down only. A log that cannot be written ends no run."""
        self.begun = True
        stamp = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        with (
            contextlib.suppress(OSError),
            open(self._path, "a", encoding="utf-8", opener=_private) as out,
        ):
            out.write(f"{stamp} {visible(text)}\n")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


@contextlib.contextmanager
def logged(watch: Any, directory: Path) -> Iterator[Logged]:
    """A run's log; errors that end it stand in it."""
    log = Logged(watch, directory)
    try:
        with blaming():
            yield log
    except V6tError as exc:
        if log.begun:
            log.note(f"error: {exc.message}" + (f" ({exc.hint})" if exc.hint else ""))
        raise
    except KeyboardInterrupt:
        if log.begun:
            log.note("interrupted")
        raise
