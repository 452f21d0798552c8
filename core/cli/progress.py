"""The run as it happens: a live line on a terminal, plain lines elsewhere. All on stderr."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import TYPE_CHECKING

from v6t.base.text import escape_controls
from v6t.core.cli.stopping import drawing, tell
from v6t.core.runs.wording import happening, outcome
from v6t.procedures.trial_runner import Progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live as Drawing
    from rich.text import Text
    from v6t.core.runs.remaining import Now


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
        """Print a line; a closed terminal is no error."""
        with contextlib.suppress(OSError):
            print(escape_controls(text), file=sys.stderr, flush=True)

    def trial(self, progress: Progress) -> None:
        """Print a line when the trial is over."""
        if progress.verdict is not None:
            self.say(outcome(progress))

    def now(self, now: Now) -> None:
        """Nothing: a line for each trial is enough."""


_EVERY_S = 0.1
"""How often the live line is drawn anew."""


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
        self._drawing: Drawing | None = None
        # one writes at a time: rich's own ticker may draw between another's erasing and writing
        self._turn = threading.RLock()
        self._ended = threading.Event()
        self._progress: Progress | None = None
        self._now: Now | None = None
        self._since = 0.0
        self._stopping = ""

    def say(self, text: str) -> None:
        """Print a line above the live one."""
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
            if self._drawing is None:
                self._start()

    def _start(self) -> None:
        from rich.live import Live as Drawing
        from rich.spinner import Spinner

        spinner = Spinner("dots", text=self)  # whatever can be drawn
        self._drawing = Drawing(spinner, console=self._console, auto_refresh=False, transient=True)
        self._drawing.start(refresh=True)
        # its own event: one that was told to end does not go on beside the next
        self._ended = threading.Event()
        threading.Thread(
            target=self._tick, args=(self._ended,), name="v6t-live-line", daemon=True
        ).start()
        drawing.append(self.stopping)

    def _tick(self, ended: threading.Event) -> None:
        while not ended.wait(_EVERY_S):
            with self._turn, contextlib.suppress(OSError):
                if self._drawing is not None:
                    self._drawing.refresh()

    def stopping(self, text: str) -> None:
        """Show this from now on: a line beside the live one would be drawn over."""
        self._stopping = text

    def __rich__(self) -> Text:
        """Render the live line at this moment; it is drawn several times a second."""
        from rich.text import Text

        if self._now is None or self._stopping:
            return Text(self._stopping)
        return Text(
            escape_controls(happening(self._now, self._progress, self._passed_s()) + self._of)
        )

    def close(self) -> None:
        """Remove the live line."""
        self._ended.set()
        with self._turn:
            shown, self._drawing = self._drawing, None
            if shown is not None:
                drawing.remove(self.stopping)
                with contextlib.suppress(OSError):
                    shown.stop()
                if self._stopping:
                    tell(self._stopping)

    def _passed_s(self) -> float:
        return time.monotonic() - self._since

    def _line(self, text: str, style: str) -> None:
        """Nobody need hear it: a terminal that is gone ends no run."""
        with self._turn, contextlib.suppress(OSError):
            self._console.print(escape_controls(text), style=style, highlight=False, markup=False)
