"""The run as it happens: a live line on a terminal, plain lines elsewhere. All on stderr."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

from v6t.core.runs.wording import duration, outcome, point
from v6t.procedures.conditions import Progress
from v6t.profiles.plain_text import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status


class Silent:
    """Says nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    def trial(self, progress: Progress) -> None:
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


class Live:
    """What is being offered now, with bracket and time left; finished trials above it."""

    def __init__(self, console: Console, total_trials: int) -> None:
        """Start watching.

        Args:
            console: where to draw, on stderr.
            total_trials: trials of all searches expected, for the time left.
        """
        self._console = console
        self._total = total_trials
        self._done = 0
        self._began: float | None = None
        self._status: Status | None = None

    def say(self, text: str) -> None:
        """A line that stays."""
        self._line(text, "dim")

    def trial(self, progress: Progress) -> None:
        """Redraw before a trial; leave a line after it."""
        if self._began is None:
            self._began = time.monotonic()
        if progress.verdict is not None:
            self._done += 1
            colour = (
                "green"
                if progress.verdict.passed
                else "red"
                if progress.verdict.valid
                else "yellow"
            )
            self._line(outcome(progress), colour)
            return
        bracket = ""
        if progress.low_fps != progress.high_fps:
            bracket = f", between {progress.low_fps:,.0f} and {progress.high_fps:,.0f}"
        text = (
            f"{point(progress)}: offering {progress.rate_fps:,.0f} {progress.unit}"
            f"{bracket}{self._left()}"
        )
        with contextlib.suppress(OSError):
            if self._status is None:
                self._status = self._console.status(text)
                self._status.start()
            self._status.update(text)

    def close(self) -> None:
        """Remove the live line."""
        status, self._status = self._status, None
        if status is not None:
            with contextlib.suppress(OSError):
                status.stop()

    def _line(self, text: str, style: str) -> None:
        """Nobody need hear it: a terminal that is gone ends no run."""
        with contextlib.suppress(OSError):
            self._console.print(visible(text), style=style, highlight=False, markup=False)

    def _left(self) -> str:
        if not self._done or self._began is None:
            return ""
        each = (time.monotonic() - self._began) / self._done
        return f", about {duration(each * max(0, self._total - self._done))} left"
