"""A campaign on a terminal: signals, progress, summary."""

from __future__ import annotations

import contextlib
import re
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from v6t.analysis.sheet import pluralize
from v6t.base.errors import UsageError, hides_interrupt
from v6t.base.files import hold_lock
from v6t.core import log
from v6t.core.campaigns.campaign import (
    Campaign,
    CampaignRun,
    create_campaign,
    extend_campaign,
    load_campaign,
    run_campaign,
)
from v6t.core.cli.progress import show_progress
from v6t.core.cli.run_console import write_report
from v6t.core.cli.stopping import handle_signals, make_stop_messages, write_stderr_line
from v6t.core.cli.terminal import print_table, print_text
from v6t.core.config.settings import Settings
from v6t.core.runs.events import Listeners, format_duration
from v6t.core.runs.results import COMPLETE
from v6t.core.runs.rundir import read_config

if TYPE_CHECKING:
    from v6t.core.reporting.live import LiveView

POLL_INTERVAL_S = 1.0  # between two updates of the live page


def show_packaged_campaigns() -> None:
    """Print names and titles of the campaigns that come with v6t."""
    from v6t.core.campaigns.packaged import list_packaged_campaigns
    from v6t.core.config.yaml_file import YamlFile

    for name, path in list_packaged_campaigns().items():
        print(f"{name:<16} {YamlFile(path).data.get('title', '')}")


def show_plan(campaign: Campaign) -> None:
    """Print each run with its trials and duration by experiment, and the totals."""
    for experiment, runs in groupby(campaign.runs, lambda run: run.experiment):
        place = re.split(r"[.:](?: |$)", campaign.notes[experiment])[0]  # sections and figures
        print_text(f"{experiment}: {place}" if place else experiment)
        for run in runs:
            trials = pluralize(run.trials, "trial")
            print_text(f"  {run.directory}: {trials}, about {format_duration(run.duration_s)}")
    groups = campaign.group_runs()
    beds = f", {len(groups)} testbeds at the same time" if len(groups) > 1 else ""
    print(
        f"together {pluralize(len(campaign.runs), 'run')}, "
        f"{pluralize(sum(r.trials for r in campaign.runs), 'trial')}, "
        f"about {format_duration(campaign.duration_s)}{beds}"
    )


def begin_campaign(campaign: Campaign, directory: Path, report: bool, live: str | None) -> int:
    """Execute a campaign in a new directory and return the exit status."""
    with _serve_page(live, directory, campaign) as view:  # before anything is on disk
        create_campaign(campaign, directory)
        runs = pluralize(len(campaign.runs), "run")
        log.print_notice(f"{runs}, about {format_duration(campaign.duration_s)}")
        return _execute_runs(directory, load_campaign(directory), report, view)


def add_runs(campaign: Campaign, directory: Path, report: bool, live: str | None) -> int:
    """Add the new runs of its file to a campaign, continue it and return the exit status."""
    load_campaign(directory)  # an error leaves no lock behind
    with hold_lock(directory):
        more = extend_campaign(directory, campaign)
    log.print_notice(f"{pluralize(more, 'run')} more than planned before")
    return continue_campaign(directory, report, live)


def continue_campaign(directory: Path, report: bool, live: str | None) -> int:
    """Execute the incomplete runs and return the exit status of the first that failed."""
    campaign = load_campaign(directory)
    with _serve_page(live, directory, campaign) as view:
        return _execute_runs(directory, campaign, report, view)


def continue_group(directory: Path, report: bool, group: str) -> int:
    """Execute the incomplete runs of one testbed, and return the exit status."""
    groups = load_campaign(directory).group_runs()
    if group not in groups:
        raise UsageError(f"unknown group of runs '{group}'", code="unknown-name")
    with handle_signals(None):
        return _execute_group(directory, groups[group], report, f"[{group}] ", None)


def _execute_runs(directory: Path, campaign: Campaign, report: bool, view: LiveView | None) -> int:
    """Execute the runs of each testbed, show the results and return the exit status."""
    groups = campaign.group_runs()
    resume_command = f"v6t campaign --resume {shlex.quote(str(directory))}"
    with (
        hold_lock(directory),
        handle_signals(lambda: make_stop_messages(_load_configs(directory), resume_command)),
    ):
        if len(groups) > 1:
            from v6t.core.campaigns.workers import run_in_parallel

            attend = partial(_show_worker_progress, directory, campaign, view)
            status = run_in_parallel(directory, groups, report, attend)
        else:
            status = _execute_group(directory, campaign.runs, report, "", view)
    _finish_campaign(directory, campaign, report)
    return status


@contextmanager
def _serve_page(live: str | None, directory: Path, campaign: Campaign) -> Iterator[LiveView | None]:
    """Serve the live page while the context is open; yield its view, or None without ``live``."""
    if live is None:
        yield None
        return
    from v6t.core.campaigns.results import render_page
    from v6t.core.reporting.live import LiveView, parse_address

    render = partial(render_page, campaign=campaign, cache={})
    view = LiveView(parse_address(live), directory, write_stderr_line, render)
    with contextlib.closing(view):
        yield view


def _load_configs(directory: Path) -> dict[Path, Settings]:
    """Return the settings of the started runs by run directory."""
    configs = {}
    for path in sorted(directory.glob("*/config.json")):
        with contextlib.suppress(UsageError):
            configs[path.parent] = read_config(path)
    return configs


def _show_worker_progress(
    directory: Path, campaign: Campaign, view: LiveView | None, is_working: Callable[[], bool]
) -> None:
    """Update the live page while worker processes execute the runs."""
    if view is None:
        return
    from v6t.core.campaigns.results import read_progress

    with view:
        while is_working():
            view.show_progress(lambda: read_progress(directory, campaign))
            time.sleep(POLL_INTERVAL_S)


def _execute_group(
    directory: Path, runs: Sequence[CampaignRun], report: bool, prefix: str, view: LiveView | None
) -> int:
    """Execute the runs of one testbed, write their reports and return the exit status."""
    try:
        with contextlib.ExitStack() as stack:
            events = stack.enter_context(show_progress(prefix=prefix, in_campaign=True))
            if view is not None:
                events = Listeners(events, stack.enter_context(view))
            failed = run_campaign(directory, runs, events)
            if report:
                events.on_message("writing the reports")
                for path in (directory / run.directory for run in runs):
                    if (path / "results.json").exists() and not (path / "report.html").exists():
                        write_report(path)
    except BaseException as exc:
        if hides_interrupt(exc):
            command = f"v6t campaign --resume {shlex.quote(str(directory))}"
            log.print_notice(f"{prefix}interrupted: {command} continues")
        raise
    return failed[0].exit_code if failed else 0


def _finish_campaign(directory: Path, campaign: Campaign, report: bool) -> None:
    """Print the states of the runs and the tables of the campaign, and write its summary."""
    from v6t.core.campaigns.results import (
        REPORT_FILES,
        check_no_damage,
        load_runs,
        make_tables,
        write_campaign_report,
    )

    runs = load_runs(directory, campaign)
    for run in runs:
        print_text(f"{run.directory}: {run.status}")
    for table in make_tables(runs):
        print_table(table)
    complete = sum(run.status == COMPLETE for run in runs)
    print_text(f"{complete} of {len(runs)} runs complete")
    # --no-report leaves out the page with figures; the other files are always written
    formats = [name for name in REPORT_FILES if report or name != "html"]
    print(f"Summary: {write_campaign_report(directory, formats, runs=runs)[0]}")
    check_no_damage(runs)
