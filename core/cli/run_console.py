"""A run on a terminal: signals, progress, report and results."""

from __future__ import annotations

import contextlib
import logging
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from v6t.analysis.rundata import RunData
from v6t.base.entry_points import describe_culprit
from v6t.base.errors import TranslationError, V6tError, hides_interrupt
from v6t.core import log
from v6t.core.cli.stopping import handle_signals, make_stop_messages, write_stderr_line
from v6t.core.config.run_setup import RunSetup, make_setup
from v6t.core.runs.events import CompositeListener, Listener, RunDataCollector, open_log
from v6t.core.runs.rundir import RunDir, choose_default_path
from v6t.drivers.duts.session.undo_store import LOCAL_RECORD

if TYPE_CHECKING:
    from v6t.core.reporting.write import FigureSelection
    from v6t.core.runs.plan import RunPlan

_LOG = logging.getLogger(__name__)
WATCH_DURATION_S = 10.0  # of the load at each rate while the device is sampled


def execute_and_report(
    setup: RunSetup,
    output: Path | None,
    report: bool = True,
    watch_device: bool = False,
    live: str | None = None,
    min_fps: float | None = None,
    resume_options: Sequence[str] = (),
) -> tuple[Path, RunData]:
    """Execute a run in a new directory and write the report.

    Args:
        setup: the run.
        output: directory of the run; by default, a new one below ``runs``.
        report: write the report.
        watch_device: look for the bottleneck afterwards.
        live: address of the page that shows the run; None for no page.
        min_fps: rate below which JUnit results fail, per direction.
        resume_options: options of the command that resumes the run.

    Returns:
        The directory, and the data of the run.
    """
    from v6t.core.runs.runner import execute

    path = output or choose_default_path(setup.settings)

    def measure(events: Listener, run_plan: RunPlan) -> RunData:
        """Execute the run, and add the rate limit and the bottleneck to its data if requested."""
        data = execute(setup, path, events, run_plan)
        if min_fps is not None:
            with RunDir(path, new=False) as run_dir:
                data = _store_rate_limit(run_dir, data, min_fps)
        return _add_bottleneck(path, events, run_plan, data) if watch_device else data

    return path, _run_and_report(setup, path, measure, report, live, resume_options)


def _store_rate_limit(run_dir: RunDir, data: RunData, min_fps: float) -> RunData:
    """Add the rate below which JUnit results fail to the results of a run, and return its data."""
    from v6t.core.runs.results import write_results

    data = replace(data, results={**data.results, "fail_below_fps": min_fps})
    write_results(run_dir, data.results)
    return data


def continue_run(
    path: Path,
    report: bool = True,
    live: str | None = None,
    min_fps: float | None = None,
    resume_options: Sequence[str] = (),
) -> RunData:
    """Resume a run, write the report and return its data; a complete run is not measured."""
    from v6t.core.runs.results import make_stored_data, read_run
    from v6t.core.runs.runner import measure_rest

    def measure(events: Listener, run_plan: RunPlan) -> RunData:
        """Measure the rest of the run, and add the rate limit to its data if requested."""
        data = measure_rest(run_dir, files, events, run_plan)
        return data if min_fps is None else _store_rate_limit(run_dir, data, min_fps)

    with RunDir(path, new=False) as run_dir:
        files = read_run(path)
        if files.is_complete:
            log.print_notice("this run was complete already; nothing was measured")
            data = make_stored_data(files)
            if min_fps is not None:
                data = _store_rate_limit(run_dir, data, min_fps)
                if report:
                    write_report(path, data)
            return data
        setup = make_setup(files.settings)
        setup.tester.prepare()
        return _run_and_report(setup, path, measure, report, live, resume_options)


def _run_and_report(
    setup: RunSetup,
    path: Path,
    measure: Callable[[Listener, RunPlan], RunData],
    report: bool,
    live: str | None,
    resume_options: Sequence[str],
) -> RunData:
    """Call ``measure`` for a run, show its progress, write its report and return its data."""
    from v6t.core.cli.progress import show_progress
    from v6t.core.runs.plan import plan

    planned = plan(setup)  # traffic that cannot be compiled is rejected before a directory is made
    resume_command = shlex.join(["v6t", "resume", str(path), *resume_options])
    has_begun = (path / "config.json").exists
    collector = RunDataCollector()
    try:
        with contextlib.ExitStack() as stack:
            events: Listener = CompositeListener(collector, stack.enter_context(show_progress()))
            if live is not None:
                from v6t.core.reporting.live import LiveView, parse_address

                view = LiveView(parse_address(live), path, write_stderr_line)
                events = CompositeListener(events, stack.enter_context(view))
            with handle_signals(
                lambda: make_stop_messages(
                    {path: setup.settings} if has_begun() else {}, resume_command
                )
            ):
                data = measure(events, planned)
            if report:
                events.on_message("writing the report")
                write_report(path, data)
    except KeyboardInterrupt:
        if has_begun():
            log.print_notice(f"interrupted; every finished trial is kept: {resume_command}")
        raise
    except TranslationError:
        if report:
            write_report(path, collector.find(""))
        raise
    return data


def _add_bottleneck(path: Path, events: Listener, run_plan: RunPlan, data: RunData) -> RunData:
    """Return the data of a finished run with the device's bottleneck; warn if it is not found.

    Raises:
        V6tError: the device is not restored, or the error hides a Ctrl-C.
    """
    from v6t.core.runs.bottleneck import watch_device

    events.on_message("repeating the measured rates while sampling the device once a second")
    try:
        with open_log(path), RunDir(path, new=False) as run_dir:
            results = watch_device(run_dir, run_plan, data.results, WATCH_DURATION_S)
    except V6tError as exc:
        if hides_interrupt(exc) or any(path.glob(f"**/{LOCAL_RECORD}")):  # changes may be left
            raise
        hint = f"v6t dut bottleneck {shlex.quote(str(path))} tries again"
        _LOG.warning("the device could not be watched: %s; %s", exc.message, hint)
        return data
    return replace(data, results=results)


def write_report(path: Path, data: RunData | None = None) -> None:
    """Write the report of a run, without figures if they cannot be drawn; warn of failures."""
    from v6t.core.reporting.write import REPORT_ERRORS, write_run_report

    problems: dict[FigureSelection, str] = {
        "few": "the report is written without figures",
        "none": f"the report could not be written; v6t report {shlex.quote(str(path))} tries again",
    }
    for figures, problem in problems.items():
        try:
            write_run_report(path, figures=figures, data=data)
            return
        except REPORT_ERRORS as exc:
            _LOG.warning("%s: %s", problem, describe_culprit(exc) or exc)
