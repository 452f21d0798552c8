"""The run as it happens: a live line on a terminal, plain lines elsewhere. All on stderr."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

from v6t.core.cli.stopping import drawing, tell
from v6t.core.runs.wording import happening, outcome
from v6t.procedures.conditions import Progress
from v6t.profiles.plain_text import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status
    from rich.text import Text
    from v6t.core.runs.forecast import Now


class Silent:
    """Says nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    def trial(self, progress: Progress) -> None:
        """Nothing."""

    def now(self, now: Now) -> None:
        """Nothing."""


class Plain:
    """One line per trial, for logs and pipes."""

    def say(self, text: str) -> None:
        """The line; nobody need hear it."""
        with contextlib.suppress(OSError):
            print(visible(text), file=sys.stderr, flush=True)

    def trial(self, progress: Progress) -> None:
        """A line when the trial is over."""
        if progress.verdict is not None:
            self.say(outcome(progress))

    def now(self, now: Now) -> None:
        """Nothing: a line for each trial is enough."""


class Live:
    """What is being done now, with rate, bracket and time left; finished trials above it."""

    def __init__(self, console: Console, of: str = "") -> None:
        """Start watching.

        Args:
            console: where to draw, on stderr.
            of: whose time left is told, where that is not plain.
        """
        self._console = console
        self._of = of
        self._status: Status | None = None
        self._progress: Progress | None = None
        self._now: Now | None = None
        self._since = 0.0
        self._stopping = ""

    def say(self, text: str) -> None:
        """A line that stays."""
        self._line(text, "dim")

    def trial(self, progress: Progress) -> None:
        """Remember what a trial is for; leave a line after it."""
        self._progress = progress
        if progress.verdict is not None:
            colour = (
                "green"
                if progress.verdict.passed
                else "red"
                if progress.verdict.valid
                else "yellow"
            )
            self._line(outcome(progress), colour)

    def now(self, now: Now) -> None:
        """Show it, until the next trial."""
        self._now, self._since = now, time.monotonic()
        with contextlib.suppress(OSError):
            if self._status is None:
                self._status = self._console.status(self)
                self._status.start()
                drawing.append(self.stopping)

    def stopping(self, text: str) -> None:
        """Show this from now on: a line beside the live one would be drawn over."""
        self._stopping = text

    def __rich__(self) -> Text:
        """The live line as it is at this moment: whoever draws it asks several times a second."""
        from rich.text import Text

        if self._now is None or self._stopping:
            return Text(self._stopping)
        return Text(visible(happening(self._now, self._progress, self._passed_s()) + self._of))

    def close(self) -> None:
        """Remove the live line."""
        status, self._status = self._status, None
        if status is not None:
            drawing.remove(self.stopping)
            with contextlib.suppress(OSError):
                status.stop()
            if self._stopping:
                tell(self._stopping)

    def _passed_s(self) -> float:
        return time.monotonic() - self._since

    def _line(self, text: str, style: str) -> None:
        """Nobody need hear it: a terminal that is gone ends no run."""
        with contextlib.suppress(OSError):
            self._console.print(visible(text), style=style, highlight=False, markup=False)
