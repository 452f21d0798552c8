"""A run seen from a terminal: privileges, signals, progress, the final table."""

from __future__ import annotations

import contextlib
import logging
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from v6t.base.entry_points import describe_culprit
from v6t.base.errors import TranslationError, V6tError
from v6t.base.files import read_text
from v6t.core import log
from v6t.core.cli.stopping import of_run, signals
from v6t.core.runs.events import Listener, Listeners

if TYPE_CHECKING:
    from v6t.analysis.rundata import RunData, RunTrial
    from v6t.core.config.bound import BoundRun
    from v6t.core.reporting.write import FiguresWanted
    from v6t.core.runs.plan import RunPlan

_LOG = logging.getLogger(__name__)

WATCHED_S = 10.0
"""Load at each rate while the device is watched [s]."""


def carry_out(
    bound: BoundRun,
    output: Path | None,
    as_json: bool,
    report: bool = True,
    watch_device: bool = False,
    live: str | None = None,
) -> Path:
    """Run in a new directory, watch the device if asked to, write the report, print the results.

    Returns:
        The directory.
    """
    from v6t.core.runs.rundir import default_path
    from v6t.core.runs.runner import execute

    path = output or default_path(bound.settings)

    def work(events: Listener, planned: RunPlan) -> RunData:
        data = execute(bound, path, events, planned).data
        return _watch_device(path, events, bound, data) if watch_device else data

    _attend(bound, path, as_json, report, work, live)
    return path


def continue_run(path: Path, as_json: bool, report: bool = True, live: str | None = None) -> None:
    """Resume, write the report, print the results; a complete run is only read and printed."""
    from v6t.core.config.bound import bind
    from v6t.core.runs.results_file import COMPLETE, read_results
    from v6t.core.runs.rundir import RunDir
    from v6t.core.runs.runner import resume

    with RunDir(path, new=False) as directory:
        run = directory.config()
        complete = read_results(path).get("status") == COMPLETE
    if complete:
        outcome = resume(path, Listener())
        log.notice("this run was complete already; nothing was measured")
        page = path / "report.html"
        show_results(path, as_json, page if page.exists() else None, data=outcome.data)
        return
    bound = bind(run)
    bound.tester.prepare()

    def work(events: Listener, planned: RunPlan) -> RunData:
        return resume(path, events, planned).data

    _attend(bound, path, as_json, report, work, live)


def _attend(
    bound: BoundRun,
    path: Path,
    as_json: bool,
    report: bool,
    work: Callable[[Listener, RunPlan], RunData],
    page: str | None = None,
) -> None:
    """Show a run while it happens, then its results."""
    from rich.console import Console
    from v6t.core.cli.progress import LineProgress, LiveProgress
    from v6t.core.runs.plan import plan

    errors = Console(stderr=True)
    planned = plan(bound)  # traffic that cannot be compiled is refused before a directory is made
    live = LiveProgress(errors) if errors.is_terminal and not log.is_quiet() else None
    lines = live or LineProgress()
    with contextlib.ExitStack() as stack:
        stack.enter_context(log.shown_by(lines.on_message))
        events = Listeners(Listener() if log.is_quiet() else lines)
        if page is not None:
            from v6t.core.reporting.live import LiveView, parse_address

            view = LiveView(parse_address(page), path, lines.on_message)
            events = Listeners(events, stack.enter_context(view))
        if live:
            stack.callback(live.close)
        try:
            with signals(lambda: of_run(bound.settings, path)):
                data = work(events, planned)
        except KeyboardInterrupt:
            if live:
                live.close()
            if (path / "config.json").exists():
                words = f"v6t resume {shlex.quote(str(path))}"
                events.on_message(f"interrupted; every finished trial is kept: {words}")
            raise
        except TranslationError:
            if live:
                live.close()
            write_report(path, report)
            raise
        if live and report:
            live.on_message("writing the report")
        written = write_report(path, report, data)
    show_results(path, as_json, written, data=data)


def show_results(
    path: Path,
    as_json: bool,
    page: Path | None,
    *,
    complete: bool = False,
    warnings: bool = False,
    data: RunData | None = None,
) -> None:
    """Print the results of a run on standard output; see :func:`~v6t.core.cli.summary.print_results`."""
    from v6t.core.cli.document_view import console_for_tables
    from v6t.core.cli.summary import print_results
    from v6t.core.runs.run_data import load_run
    from v6t.core.runs.rundir import reading

    if as_json:
        sys.stdout.write(read_text(path / "results.json"))
        return
    console = console_for_tables(120)
    with reading(path):
        print_results(console, data or load_run(path), path, complete=complete, warnings=warnings)
    console.print(
        f"Report: {page}" if page else f"Results: {path}", highlight=False, soft_wrap=True
    )


def show_trials(path: Path) -> None:
    """Print a table of the trials of a run: rate, frames required and received, faults."""
    from v6t.analysis.rundata import RunTrial
    from v6t.analysis.sheet import Column, count, table
    from v6t.core.cli.document_view import console_for_tables
    from v6t.core.cli.tables import print_table
    from v6t.core.runs.run_data import load_run

    trials = load_run(path).trials
    columns = [
        Column[RunTrial]("trial", lambda t: t.key, text=True),
        Column("fps per\ndirection", lambda t: count(t.asked["rate_fps"])),
        Column("s", lambda t: f"{t.sending_s:g}"),
        Column("required", lambda t: _frames(t, "required")),
        Column("received", lambda t: _frames(t, "received")),
        Column("faults", lambda t: "; ".join(t.result.faults), text=True),
    ]
    print_table(console_for_tables(200), table(f"Trials of {path}", trials, columns))


def _frames(trial: RunTrial, name: str) -> str:
    return f"{sum(d.count_frames(name) for d in trial.result.directions.values()):,}"


def _watch_device(path: Path, events: Listener, bound: BoundRun, data: RunData) -> RunData:
    """Look for the bottleneck and add it to the data; results are safe on disk, whatever happens."""
    from v6t.core.runs.bottleneck import watch_device
    from v6t.core.runs.log import log_to

    events.on_message("repeating the measured rates while sampling the device once a second")
    try:
        with log_to(path):
            found = watch_device(path, lambda line: None, WATCHED_S, bound)  # the summary shows it
    except V6tError as exc:
        hint = f"v6t dut bottleneck {shlex.quote(str(path))} tries again"
        _LOG.warning("the device could not be watched: %s; %s", exc.message, hint)
        return data
    return replace(data, results={**data.results, "bottleneck": found}, bottleneck=found)


def write_report(path: Path, wanted: bool, data: RunData | None = None) -> Path | None:
    """Write the report; results are safe on disk, whatever becomes of it."""
    from v6t.core.reporting.write import UNREPORTED, write

    if not wanted:
        return None
    choices: tuple[FiguresWanted, ...] = ("few", "none")
    for figures in choices:
        try:
            return write(path, figures=figures, data=data)[0]
        except UNREPORTED as exc:
            said = describe_culprit(exc) or f"{exc}"
            # nobody has changed this run's files: what fails may be the library that draws
            if figures != "none" and not isinstance(exc.__cause__ or exc, (V6tError, OSError)):
                _LOG.warning("the figures of the report could not be drawn: %s", said)
                continue
            again = f"v6t report {shlex.quote(str(path))} tries again"
            _LOG.warning("the report could not be written: %s; %s", said, again)
            return None
    return None
