"""A run seen from a terminal: privileges, signals, progress, the final table."""

from __future__ import annotations

import contextlib
import json
import logging
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from v6t.base.entry_points import describe_culprit
from v6t.base.errors import TranslationError, V6tError
from v6t.base.files import read_text
from v6t.core import log
from v6t.core.cli.stopping import of_run, signals
from v6t.core.cli.wrapping import wrap

if TYPE_CHECKING:
    from v6t.core.config.bound import BoundRun
    from v6t.core.config.settings import ResolvedRun

_LOG = logging.getLogger(__name__)

UNLIKE = 0.8
"""Below this part of the planned time it is said that a run may be so short."""
WATCHED_S = 10.0
"""Load at each rate while the device is watched [s]."""


def show_plan(bound: BoundRun, as_json: bool) -> None:
    """Print what the run would do."""
    from v6t.core.config.cautions import cautions
    from v6t.core.runs.dut import plan_text, plan_without_device
    from v6t.core.runs.plan import plan
    from v6t.core.runs.wording import duration
    from v6t.drivers.duts.capabilities import find_capabilities
    from v6t.profiles.mixes import format_sizes

    planned = plan(bound)
    commands = plan_text(*plan_without_device(bound)) if bound.driver.configures else ""
    if as_json:
        print(json.dumps(planned.to_json(), indent=1))
        return
    run = bound.settings
    print(f"{run.plugin} with the {run.tester.kind} tester, {run.dut.driver} device")
    for point in planned.points:
        sizes = format_sizes(point.frame_sizes)
        print(
            f"  {sizes:>9} octets, {point.mode}, {point.benchmark}: {point.trials} trials, about "
            f"{duration(point.duration_s)}; the medium carries {point.media_fps:,} fps "
            "per direction" + (f"; counted by {point.counted_by}" if point.counted_by else "")
        )
    together = f"  together {planned.trials} trials, about {duration(planned.duration_s)}"
    least = duration(planned.least_s)
    if planned.least_s < UNLIKE * planned.duration_s:
        together += f"; only {least} where the device carries every upper bound at once"
    print(wrap(together))
    print("Streams")
    for line in planned.streams:
        print(f"  {line}")
    if commands and not bound.driver.of_parts:
        print(f"The {run.dut.driver} driver has")
        for row, text in find_capabilities(bound.driver, bound.intent).rows():
            print(f"  {row:<12} {text}")
    print("The device must be")
    print("  " + json.dumps(planned.intent, indent=1).replace("\n", "\n  "))
    if commands:
        print("To make it so")
        print("  " + commands.replace("\n", "\n  "))
    for caveat in planned.caveats:
        print(wrap(caveat))
    for caution in cautions(bound):
        print(wrap(f"note: {caution}"))


def carry_out(
    bound: BoundRun,
    output: Path | None,
    as_json: bool,
    report: bool = True,
    watch_device: bool = False,
    live: str | None = None,
) -> None:
    """Run in a new directory, watch the device if asked to, show the outcome, write the report."""
    from v6t.core.runs.rundir import default_path
    from v6t.core.runs.runner import execute

    path = output or default_path(bound.settings)

    def work(watch: Any) -> Any:
        outcome = execute(bound, path, watch)
        if watch_device:
            _watch_device(path, watch, bound)
        return outcome

    _attend(bound, path, as_json, report, work, live)


def continue_run(path: Path, as_json: bool, report: bool = True, live: str | None = None) -> None:
    """Resume, show the outcome, write the report; a complete run is only read and shown."""
    from v6t.core.cli.progress import Silent
    from v6t.core.config.bound import bind
    from v6t.core.runs.results_file import COMPLETE, read_results
    from v6t.core.runs.rundir import RunDir, reading
    from v6t.core.runs.runner import resume

    directory = RunDir(path, new=False)
    try:
        run = directory.config()
        complete = read_results(path).get("status") == COMPLETE
    finally:
        directory.close()
    if complete:
        outcome = resume(path, Silent())
        log.notice("this run was complete already; nothing was measured")
        page = path / "report.html"
        with reading(path):
            _show(run, path, outcome, as_json, page if page.exists() else None)
        return
    bound = bind(run)
    bound.tester.prepare()
    _attend(bound, path, as_json, report, lambda watch: resume(path, watch, bound), live)


def _attend(
    bound: BoundRun,
    path: Path,
    as_json: bool,
    report: bool,
    work: Callable[[Any], Any],
    page: str | None = None,
) -> None:
    from rich.console import Console
    from v6t.core.cli.progress import Live, Plain, Silent
    from v6t.core.runs.plan import plan

    errors = Console(stderr=True)
    plan(bound)  # what cannot be compiled is said before anything is on disk
    quiet = log.is_quiet()
    live = Live(errors) if errors.is_terminal and not quiet else None
    shown = live or (Silent() if quiet else Plain())
    with log.shown_by((live or Plain()).say), _served(page, path, shown) as watch:
        try:
            with signals(lambda: of_run(bound.settings, path)):
                outcome = work(watch)
        except KeyboardInterrupt:
            if live:
                live.close()
            if (path / "config.json").exists():
                words = f"v6t resume {shlex.quote(str(path))}"
                watch.say(f"interrupted; every finished trial is kept: {words}")
            raise
        except TranslationError:
            if live:
                live.close()
            _report(path, report)
            raise
        finally:
            if live:
                live.close()
        if live and report:
            live.say("writing the report")  # seconds in which nothing else would be seen
        _show(bound.settings, path, outcome, as_json, _report(path, report))


def _served(page: str | None, path: Path, watch: Any) -> contextlib.AbstractContextManager[Any]:
    """Whoever watches the run, a page for browsers among them if one is wanted."""
    if page is None:
        return contextlib.nullcontext(watch)
    from v6t.core.reporting.live import LiveView, address_of

    return LiveView(address_of(page), path, watch)


def _show(run: ResolvedRun, path: Path, outcome: Any, as_json: bool, page: Path | None) -> None:
    """Print the results on standard output."""
    from v6t.core.cli.document_view import console_for_tables
    from v6t.core.cli.summary import print_summary

    if as_json:
        sys.stdout.write(read_text(path / "results.json"))
        return
    out = console_for_tables(120)
    print_summary(out, outcome, f"{run.plugin}, {run.tester.kind} tester, {run.dut.driver} device")
    if page:
        out.print(f"Report: {page}", highlight=False, soft_wrap=True)


def _watch_device(path: Path, watch: Any, bound: BoundRun) -> None:
    """Look for the bottleneck; results are safe on disk, whatever becomes of it."""
    from v6t.core.runs.bottleneck import watch_again
    from v6t.core.runs.log import log_to

    watch.say("the found rates once more, with the device watched every second")
    try:
        with log_to(path):
            watch_again(path, lambda line: None, WATCHED_S, bound)  # the summary shows it
    except V6tError as exc:
        hint = f"v6t dut bottleneck {shlex.quote(str(path))} tries again"
        _LOG.warning("the device could not be watched: %s; %s", exc.message, hint)


def _report(path: Path, wanted: bool) -> Path | None:
    """Write the report; results are safe on disk, whatever becomes of it."""
    from v6t.core.reporting.write import UNREPORTED, write

    if not wanted:
        return None
    for figures in (True, False):
        try:
            return write(path, figures=figures)[0]
        except UNREPORTED as exc:
            said = describe_culprit(exc) or f"{exc}"
            # nobody has changed this run's files: what fails may be the library that draws
            if figures and not isinstance(exc.__cause__ or exc, (V6tError, OSError)):
                _LOG.warning("the figures of the report could not be drawn: %s", said)
                continue
            again = f"v6t report {shlex.quote(str(path))} tries again"
            _LOG.warning("the report could not be written: %s; %s", said, again)
            return None
    return None
