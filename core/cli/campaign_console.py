"""A campaign seen from a terminal."""

from __future__ import annotations

import contextlib
import logging
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from v6t.analysis.sheet import number_of
from v6t.base.errors import UsageError, hides_interrupt
from v6t.base.files import hold_lock
from v6t.base.text import escape_line
from v6t.core import log
from v6t.core.campaigns.campaign import (
    Campaign,
    CampaignRun,
    create_campaign,
    load_campaign,
    read_status,
    run_campaign,
)
from v6t.core.campaigns.results import CampaignProgress
from v6t.core.cli.stopping import of_campaign, signals, signals_of_a_worker
from v6t.core.config.settings import ResolvedRun
from v6t.core.reporting.write import UNREPORTED
from v6t.core.runs.events import Listener, Listeners
from v6t.core.runs.progress import duration
from v6t.core.runs.rundir import read_config

if TYPE_CHECKING:
    from v6t.core.reporting.live import LiveView

_LOG = logging.getLogger(__name__)


def show_packaged() -> None:
    """Names and titles of the campaigns that come with v6t."""
    from v6t.core.campaigns.packaged import list_packaged
    from v6t.core.config.yaml_file import YamlFile

    for name, path in list_packaged().items():
        print(f"{name:<16} {YamlFile(path).data.get('title', '')}")


def show_plan(campaign: Campaign) -> None:
    """Every run with its trials and time, and the whole."""
    for run in campaign.runs:
        print(
            f"{run.directory}: {number_of(run.trials, 'trial')}, about {duration(run.duration_s)}"
        )
    groups = campaign.groups()
    beds = f", {len(groups)} testbeds at the same time" if len(groups) > 1 else ""
    print(
        f"together {number_of(len(campaign.runs), 'run')}, "
        f"{number_of(sum(r.trials for r in campaign.runs), 'trial')}, "
        f"about {duration(campaign.duration_s)}{beds}"
    )


def begin(campaign: Campaign, directory: Path, report: bool, page: str | None) -> int:
    """Start a campaign in a new directory."""
    with _page(page, directory, campaign) as view:  # what is wrong with it is said before all else
        create_campaign(campaign, directory)
        runs = number_of(len(campaign.runs), "run")
        log.notice(f"{runs}, about {duration(campaign.duration_s)}")
        return _carry_on(directory, load_campaign(directory), report, view)


def add(campaign: Campaign, directory: Path, report: bool, page: str | None) -> int:
    """Go on with a campaign in its directory, and with what its file has beyond it."""
    from v6t.core.campaigns.campaign import extend_campaign

    load_campaign(directory)  # before a lock is left where no campaign is
    with hold_lock(directory):
        more = extend_campaign(directory, campaign)
    log.notice(f"{number_of(more, 'run')} more than planned before")
    return continue_campaign(directory, report, None, page)


def continue_campaign(
    directory: Path, report: bool, group: str | None, page: str | None = None
) -> int:
    """Make what is not complete; returns the exit status of the first run that failed."""
    campaign = load_campaign(directory)
    if group is None:
        with _page(page, directory, campaign) as view:
            return _carry_on(directory, campaign, report, view)
    groups = campaign.groups()
    if group not in groups:
        raise UsageError(f"unknown group of runs '{group}'", code="unknown-name")
    with signals_of_a_worker():
        return _work(directory, groups[group], report, f"[{group}] ", None)


def _carry_on(directory: Path, campaign: Campaign, report: bool, view: LiveView | None) -> int:
    groups = campaign.groups()
    with hold_lock(directory), signals(lambda: of_campaign(lambda: _begun(directory), directory)):
        if len(groups) > 1:
            from v6t.core.campaigns.workers import run_in_parallel

            look_on = partial(_look_on, directory, campaign, view)
            status = run_in_parallel(directory, groups, report, look_on)
        else:
            status = _work(directory, campaign.runs, report, "", view)
    return _conclude(directory, campaign, status, report)


@contextmanager
def _page(page: str | None, directory: Path, campaign: Campaign) -> Iterator[LiveView | None]:
    """Open the page for browsers: its port is taken, and nobody is answered yet."""
    if page is None:
        yield None
        return
    from v6t.core.campaigns.results import render_page
    from v6t.core.cli.progress import LineProgress
    from v6t.core.reporting.live import LiveView, parse_address

    made = partial(render_page, campaign=campaign, complete={})
    with contextlib.closing(
        LiveView(parse_address(page), directory, LineProgress().on_message, made)
    ) as view:
        yield view


def _begun(directory: Path) -> dict[Path, ResolvedRun]:
    """Return the runs that have a directory, by its name."""
    found = {}
    for path in sorted(directory.glob("*/config.json")):
        with contextlib.suppress(UsageError):
            found[path.parent] = read_config(path)
    return found


def _look_on(
    directory: Path, campaign: Campaign, view: LiveView | None, at_work: Callable[[], bool]
) -> None:
    """While processes of their own make the runs, a page says which of them go on."""
    if view is None:
        return
    progress = CampaignProgress(directory, campaign)
    with view:
        while at_work():
            view.show_state(progress.describe)
            time.sleep(1.0)


def _work(
    directory: Path, runs: Sequence[CampaignRun], report: bool, prefix: str, view: LiveView | None
) -> int:
    from rich.console import Console
    from v6t.core.cli.progress import LineProgress, LiveProgress

    errors = Console(stderr=True)
    live = None
    terminal: Listener = Listener()
    if not log.is_quiet() and prefix:
        terminal = _Prefixed(prefix)
    elif not log.is_quiet():
        live = LiveProgress(errors, part=True) if errors.is_terminal else None
        terminal = live or LineProgress()
    events = Listeners(terminal, *([] if view is None else [view]))
    messages = _Prefixed(prefix).on_message if log.is_quiet() else terminal.on_message
    with log.shown_by(messages), contextlib.nullcontext() if view is None else view:
        try:
            failed = run_campaign(directory, runs, events)
        except BaseException as exc:
            if hides_interrupt(exc):
                again = f"v6t campaign --resume {shlex.quote(str(directory))}"
                events.on_message(f"interrupted: {again} continues")
            raise
        finally:
            if live:
                live.close()
        if report:
            _report(directory, runs)
    return failed[0].exit_code if failed else 0


def _report(directory: Path, runs: Sequence[CampaignRun]) -> None:
    """Write a report of each run that has none yet; a failure loses no measurement."""
    from v6t.core.reporting.write import write

    for run in runs:
        path = directory / run.directory
        if (path / "results.json").exists() and not (path / "report.html").exists():
            try:
                write(path)
            except UNREPORTED as exc:
                _LOG.warning("the report of %s could not be written: %s", run.directory, exc)


def _conclude(directory: Path, campaign: Campaign, status: int, report: bool) -> int:
    from v6t.core.campaigns.results import FILES, load_runs, make_tables, write_summary
    from v6t.core.cli.document_view import console_for_tables
    from v6t.core.cli.tables import print_table

    done = sum(read_status(directory, run) == "complete" for run in campaign.runs)
    for run in campaign.runs:
        print(escape_line(f"{run.directory}: {read_status(directory, run)}"))
    runs = load_runs(directory, campaign)
    console = console_for_tables()
    for sheet in make_tables(runs):
        print_table(console, sheet)
    print(f"{done} of {len(campaign.runs)} runs complete")
    # the page with its figures is the report; what programs and people with an editor read always is
    written = write_summary(directory, [f for f in FILES if report or f != "html"], runs=runs)
    print(f"Summary: {written[0]}")
    return status


class _Prefixed(Listener):
    """Prints the messages of one of several processes; their steps would be a jumble."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def on_message(self, text: str) -> None:
        from v6t.core.cli.progress import LineProgress

        LineProgress().on_message(f"{self._prefix}{text}")
