"""Progress of a run on standard error: plain lines, and a state line on a terminal."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text
from v6t.analysis.record import Record
from v6t.base.text import escape_controls
from v6t.core import log
from v6t.core.cli.stopping import display_callbacks, write_stderr_line
from v6t.core.reporting.live import LiveView, parse_address
from v6t.core.runs import events
from v6t.core.runs.events import CurrentTrial, Listener
from v6t.procedures.trial_runner import Progress

REFRESHES_PER_SECOND = 10
MIN_BAR_WIDTH, MAX_BAR_WIDTH = 6, 24  # characters


@contextlib.contextmanager
def show_progress(
    collector: Listener,
    view: LiveView | None = None,
    *,
    prefix: str = "",
    in_campaign: bool = False,
) -> Iterator[Listener]:
    """Yield a listener that shows events and log records at the chosen verbosity.

    Args:
        collector: also receives the events.
        view: page that shows the events; None for no page.
        prefix: start of each message, if one of several processes prints them; steps are not shown.
        in_campaign: the run is one of several, so its remaining time is not that of the command.
    """
    context = click.get_current_context(silent=True)
    color = None if context is None else context.color
    colors = {None: "auto", True: "standard", False: None}[color]
    console = _StderrConsole(stderr=True, emoji=False, color_system=colors)  # type: ignore[arg-type]
    display = ProgressDisplay(console, prefix, in_campaign=in_campaign)
    listeners = [collector, Listener() if log.is_quiet() else display, *([view] if view else [])]
    page = view or contextlib.nullcontext()
    with log.redirect_records(display.on_message), contextlib.closing(display), page:
        yield events.CompositeListener(*listeners)


def open_view(
    live: str | None, directory: Path, render: Callable[[], str] | None = None
) -> LiveView | None:
    """Return the page served at the address of ``--live``, or None without the option."""
    if live is None:
        return None
    return LiveView(parse_address(live), directory, write_stderr_line, render)


class _StderrConsole(Console):
    """Console on standard error that may be closed."""

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError, because rich would end the program."""
        raise BrokenPipeError


class ProgressDisplay(Listener):
    """Listener that prints lines and, on a terminal, draws the state of the run below them.

    It prints a line for each message and point, with ``-v`` also for each step. Drawing starts with
    the first trial. ``prefix`` and ``in_campaign`` are those of :func:`show_progress`.
    """

    def __init__(self, console: Console, prefix: str = "", *, in_campaign: bool = False) -> None:
        self._console, self._prefix = console, prefix
        self._of_run = " in this run" if in_campaign else ""
        self._live: Live | None = None
        self._current: CurrentTrial | None = None
        self._trial_began = self._point_began = time.monotonic()
        self._progress: Progress | None = None
        self._message = self._stop_message = ""

    def on_message(self, text: str) -> None:
        """Show a message in the state line, if there is one; print notes and warnings above it."""
        if self._live is None or text.startswith(("note:", "warning:")) or log.is_verbose():
            self._print_line(f"{self._prefix}{text}")
        self._message = text

    def on_step_start(self, progress: Progress) -> None:
        self._progress = progress

    def on_step_end(self, progress: Progress) -> None:
        verdict = progress.verdict
        if log.is_verbose() and verdict is not None and not self._prefix:
            style = "yellow" if not verdict.valid else "green" if verdict.passed else "red"
            self._print_line(f"  {events.describe_step(progress)}", style)

    def on_point_end(self, records: Sequence[Record]) -> None:
        began, self._point_began = self._point_began, time.monotonic()
        if not self._prefix:
            for line in events.describe_point(records, self._point_began - began):
                self._print_line(line, "bold")

    def on_trial_start(self, current_trial: CurrentTrial) -> None:
        self._current, self._trial_began, self._message = current_trial, time.monotonic(), ""
        if self._live is not None or self._prefix or not self._console.is_terminal:
            return
        self._live = Live(
            console=self._console,
            get_renderable=self._render,
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=True,
        )
        display_callbacks.append(self.show_stop_message)
        with contextlib.suppress(OSError):
            self._live.start(refresh=True)

    def show_stop_message(self, text: str) -> None:
        """Replace the state line with a message until the display is closed."""
        self._stop_message = text

    def close(self) -> None:
        """Remove the state line, if there is one."""
        live, self._live = self._live, None
        if live is not None:
            display_callbacks.remove(self.show_stop_message)
            with contextlib.suppress(OSError):
                live.stop()
            if self._stop_message:
                write_stderr_line(self._stop_message)

    def _render(self) -> Text:
        if self._stop_message or self._current is None:
            return Text(self._stop_message)
        lines = self._describe_state(self._current)
        return Text("\n".join(lines), no_wrap=True, overflow="ellipsis")

    def _describe_state(self, current: CurrentTrial) -> tuple[str, str]:
        passed_s = time.monotonic() - self._trial_began
        remaining_s = max(0.0, current.remaining_s - passed_s)
        elapsed_s = current.elapsed_s + passed_s
        share = elapsed_s / (elapsed_s + remaining_s) if elapsed_s + remaining_s else 0.0
        total = current.number + current.remaining_trials
        remaining = f"{events.format_duration(remaining_s)} left{self._of_run}"
        state = f" {share:4.0%}   trial {current.number:,} of ~{total:,}   {remaining}"
        width = max(MIN_BAR_WIDTH, min(MAX_BAR_WIDTH, self._console.width - len(state) - 3))
        bar = ("━" * round(width * share)).ljust(width, "─")
        message = self._message or events.describe_trial(current, self._progress, passed_s)
        return f"  {bar}{state}", f"  {escape_controls(message)}"

    def _print_line(self, text: str, style: str = "dim") -> None:
        with contextlib.suppress(OSError):  # a closed terminal does not stop the run
            self._console.print(
                escape_controls(text),
                style=style,
                highlight=False,
                markup=False,
                soft_wrap=not self._console.is_terminal,
            )
