"""A run on a terminal: signals, progress, report and results."""

import logging
import shlex
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from v6t.analysis.rundata import RunData
from v6t.base.entry_points import describe_culprit
from v6t.base.errors import ExtensionError, TranslationError, V6tError, hides_interrupt
from v6t.base.files import hold_lock
from v6t.core import log
from v6t.core.cli.progress import open_view, show_progress
from v6t.core.cli.stopping import StopMessages, handle_signals, make_stop_messages
from v6t.core.config.run_setup import RunSetup, make_setup
from v6t.core.reporting.write import REPORT_ERRORS, FigureSelection, write_run_report
from v6t.core.runs.events import Listener, RunDataCollector, open_log
from v6t.core.runs.plan import RunPlan, plan
from v6t.core.runs.results import make_stored_data, read_run, write_results
from v6t.core.runs.rundir import RunDir
from v6t.core.runs.runner import measure_rest
from v6t.drivers.duts.session.undo_store import LOCAL_RECORD

_LOG = logging.getLogger(__name__)
WATCH_DURATION_S = 10.0  # of the load at each rate while the device is sampled


@dataclass(frozen=True)
class RunOutput:
    """How a run on a terminal is shown, reported and checked."""

    report: bool = True  # write the report
    live: str | None = None  # address of the page that shows the run; None for no page
    min_fps: float | None = None  # rate per direction below which run and JUnit results fail
    baseline: tuple[Path, RunData] | None = None  # run to compare with

    def format_resume_command(self, path: Path) -> str:
        """Return the command that resumes the run in a directory with the same checks."""
        words = ["v6t", "resume", str(path)]
        words += [] if self.min_fps is None else ["--fail-below", f"{self.min_fps:.15g}"]
        words += [] if self.baseline is None else ["--baseline", str(self.baseline[0])]
        return shlex.join(words)

    def store_rate_limit(self, path: Path, data: RunData) -> RunData:
        """Add the rate below which JUnit results fail to the results of a run, and return its data."""
        data = replace(data, results={**data.results, "fail_below_fps": self.min_fps})
        write_results(path, data.results)
        return data


def execute_and_report(
    setup: RunSetup,
    path: Path,
    output: RunOutput,
    measure: Callable[[Listener, RunPlan], RunData],
    *,
    lock: Callable[[Path], AbstractContextManager[object]] = hold_lock,
    watch_device: bool = False,
) -> RunData:
    """Call ``measure`` for a run, look for the bottleneck if requested, and write the report.

    ``lock`` locks the directory while the results of the finished run are changed.
    """
    run_plan = plan(setup)  # traffic that cannot be compiled is rejected before a directory is made
    resume_command = output.format_resume_command(path)
    has_begun = (path / "config.json").exists
    collector = RunDataCollector()

    def make_messages() -> StopMessages:
        return make_stop_messages({path: setup.settings} if has_begun() else {}, resume_command)

    try:
        with show_progress(collector, open_view(output.live, path)) as events:
            with handle_signals(make_messages):
                data = measure(events, run_plan)
                if output.min_fps is not None:
                    with lock(path):
                        data = output.store_rate_limit(path, data)
                if watch_device:
                    data = _add_bottleneck(path, events, run_plan, data)
            if output.report:
                events.on_message("writing the report")
                write_report(path, data)
    except KeyboardInterrupt:
        if has_begun():
            log.print_notice(f"interrupted; every finished trial is kept: {resume_command}")
        raise
    except TranslationError:
        if output.report:
            write_report(path, collector.find(""))
        raise
    return data


def continue_run(path: Path, output: RunOutput) -> RunData:
    """Resume a run, write the report and return its data; a complete run is not measured."""
    with RunDir(path, new=False) as run_dir:
        files = read_run(path)
        if not files.is_complete:
            setup = make_setup(files.settings)
            setup.tester.prepare()
            measure = partial(measure_rest, run_dir, files)
            return execute_and_report(setup, path, output, measure, lock=nullcontext)
        log.print_notice("this run was complete already; nothing was measured")
        data = make_stored_data(files)
        if output.min_fps is not None:
            data = output.store_rate_limit(path, data)
            if output.report:
                write_report(path, data)
        return data


def _add_bottleneck(path: Path, events: Listener, run_plan: RunPlan, data: RunData) -> RunData:
    """Return the data of a finished run with the device's bottleneck; warn if it is not found.

    Raises:
        V6tError: the device is not restored, an extension failed, or the error hides a Ctrl-C.
    """
    from v6t.core.runs.bottleneck import watch_device

    events.on_message("repeating the measured rates while sampling the device once a second")
    try:
        with open_log(path), RunDir(path, new=False) as run_dir:
            results = watch_device(run_dir, run_plan, data.results, WATCH_DURATION_S)
    except V6tError as exc:
        if isinstance(exc, ExtensionError) or hides_interrupt(exc):
            raise
        if any(path.glob(f"**/{LOCAL_RECORD}")):  # changes may be left
            raise
        retry = f"; v6t dut bottleneck {shlex.quote(str(path))} tries again"
        hint = "" if exc.code == "no-such-run" else retry  # which would fail, too
        _LOG.warning("the device could not be watched: %s%s", exc.message, hint)
        return data
    return replace(data, results=results)


def write_report(path: Path, data: RunData | None = None) -> None:
    """Write the report of a run, without figures if they cannot be drawn; warn of failures."""
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
