"""Progress of a run on standard error: plain lines, or a state line on a terminal."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from v6t.base.text import escape_controls
from v6t.core import log
from v6t.core.cli.stopping import display_callbacks, write_stderr_line
from v6t.core.runs.events import (
    CurrentTrial,
    Listener,
    describe_point,
    describe_step,
    describe_trial,
    format_duration,
)
from v6t.procedures.trial_runner import Progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text
    from v6t.analysis.record import Record

REFRESH_INTERVAL_S = 0.1
MIN_BAR_WIDTH, MAX_BAR_WIDTH = 6, 24  # characters


@contextlib.contextmanager
def show_progress(*, prefix: str = "", in_campaign: bool = False) -> Iterator[Listener]:
    """Yield a listener that shows events and log records at the chosen verbosity.

    Args:
        prefix: of each message, if one of several processes prints them; steps are not shown.
        in_campaign: the run is one of several, so its remaining time is not that of the command.
    """
    from v6t.core.cli.terminal import make_console

    console = make_console(stderr=True)
    is_live = console.is_terminal and not log.is_quiet() and not prefix
    lines = LiveProgress(console, in_campaign=in_campaign) if is_live else LineProgress(prefix)
    with log.redirect_records(lines.on_message):
        try:
            yield Listener() if log.is_quiet() else lines
        finally:
            lines.close()


class LineProgress(Listener):
    """Listener that prints a line for each message and point, with ``-v`` also for each step."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._point_began = time.monotonic()

    def on_message(self, text: str) -> None:
        self._print_line(f"{self._prefix}{text}")

    def on_step_end(self, progress: Progress) -> None:
        verdict = progress.verdict
        if log.is_verbose() and verdict is not None and not self._prefix:
            style = "yellow" if not verdict.valid else "green" if verdict.passed else "red"
            self._print_line(f"  {describe_step(progress)}", style)

    def on_point_end(self, records: Sequence[Record]) -> None:
        began, self._point_began = self._point_began, time.monotonic()
        for line in () if self._prefix else describe_point(records, self._point_began - began):
            self._print_line(line, "bold")

    def close(self) -> None:
        """Remove the state line, if there is one."""

    def _print_line(self, text: str, style: str = "dim") -> None:
        del style
        with contextlib.suppress(OSError):  # a closed terminal does not stop the run
            print(escape_controls(text), file=sys.stderr, flush=True)


class LiveProgress(LineProgress):
    """Listener that draws the state of the run below the printed lines.

    Args:
        console: terminal to draw on; drawing starts with the first trial.
        in_campaign: the run is one of several.
    """

    def __init__(self, console: Console, *, in_campaign: bool = False) -> None:
        super().__init__()
        self._console = console
        self._of_run = " in this run" if in_campaign else ""
        self._live: Live | None = None
        self._lock = threading.RLock()  # rich's refresh must not interleave with a print
        self._closed = threading.Event()
        self._current: CurrentTrial | None = None
        self._trial_began = 0.0
        self._progress: Progress | None = None
        self._message = ""
        self._stop_message = ""

    def on_message(self, text: str) -> None:
        """Show a message in the state line; print notes and warnings above it."""
        if self._live is None or text.startswith(("note:", "warning:")) or log.is_verbose():
            super().on_message(text)
        self._message = text

    def on_step_start(self, progress: Progress) -> None:
        self._progress = progress

    def on_trial_start(self, current: CurrentTrial) -> None:
        self._current, self._trial_began, self._message = current, time.monotonic(), ""
        if self._live is not None:
            return
        from rich.live import Live

        with contextlib.suppress(OSError):
            self._live = Live(
                console=self._console,
                get_renderable=self._render,
                auto_refresh=False,
                transient=True,
            )
            self._live.start(refresh=True)
            self._closed = threading.Event()
            threading.Thread(target=self._refresh, args=(self._closed,), daemon=True).start()
            display_callbacks.append(self.show_stop_message)

    def _refresh(self, closed: threading.Event) -> None:
        """Redraw the state lines until the display is closed."""
        while not closed.wait(REFRESH_INTERVAL_S):
            with self._lock, contextlib.suppress(OSError):
                if self._live is not None:
                    self._live.refresh()

    def show_stop_message(self, text: str) -> None:
        """Replace the state line with a message until the display is closed."""
        self._stop_message = text

    def _render(self) -> Text:
        """Return the current state lines."""
        from rich.text import Text

        if self._stop_message or self._current is None:
            return Text(self._stop_message)
        width = max(20, self._console.width - 1)
        lines = self._describe_state(self._current)
        short = (line if len(line) <= width else line[: width - 1] + "…" for line in lines)
        return Text("\n".join(short))

    def _describe_state(self, current: CurrentTrial) -> tuple[str, str]:
        """Return the lines with the progress bar and with the current trial."""
        passed_s = time.monotonic() - self._trial_began
        remaining_s = max(0.0, current.remaining_s - passed_s)
        elapsed_s = current.elapsed_s + passed_s
        share = elapsed_s / (elapsed_s + remaining_s) if elapsed_s + remaining_s else 0.0
        total = current.number + current.remaining_trials
        state = (
            f" {share:4.0%}   trial {current.number:,} of ~{total:,}   "
            f"{format_duration(remaining_s)} left{self._of_run}"
        )
        width = max(MIN_BAR_WIDTH, min(MAX_BAR_WIDTH, self._console.width - len(state) - 3))
        bar = ("━" * round(width * share)).ljust(width, "─")
        message = self._message or describe_trial(current, self._progress, passed_s)
        return f"  {bar}{state}", f"  {escape_controls(message)}"

    def close(self) -> None:
        """Remove the state line."""
        self._closed.set()
        with self._lock:
            live, self._live = self._live, None
            if live is not None:
                display_callbacks.remove(self.show_stop_message)
                with contextlib.suppress(OSError):
                    live.stop()
                if self._stop_message:
                    write_stderr_line(self._stop_message)

    def _print_line(self, text: str, style: str = "dim") -> None:
        with self._lock, contextlib.suppress(OSError):
            self._console.print(escape_controls(text), style=style, highlight=False, markup=False)
