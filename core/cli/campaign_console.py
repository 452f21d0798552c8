"""A campaign on a terminal: signals, a process for each testbed, progress, summary."""

import contextlib
import ctypes
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path

from v6t.analysis.sheet import pluralize
from v6t.base.errors import UsageError, hides_interrupt
from v6t.base.files import hold_lock
from v6t.core import log
from v6t.core.campaigns import campaign as campaigns
from v6t.core.campaigns import results
from v6t.core.campaigns.campaign import CampaignEntry, CampaignPlan, load_campaign
from v6t.core.cli.progress import open_view, show_progress
from v6t.core.cli.run_console import write_report
from v6t.core.cli.stopping import StopMessages, handle_signals, make_stop_messages
from v6t.core.cli.terminal import print_table, print_text
from v6t.core.reporting.live import LiveView
from v6t.core.runs.events import RunDataCollector, format_duration
from v6t.core.runs.results import COMPLETE
from v6t.core.runs.rundir import CONFIG

POLL_INTERVAL_S = 1.0  # between two updates of the live page
_PR_SET_PDEATHSIG = 1  # option of prctl(2)


def show_plan(campaign: CampaignPlan) -> None:
    """Print each run with its trials and duration by experiment, and the totals."""
    for experiment, runs in groupby(campaign.runs, lambda run: run.experiment):
        place = re.split(r"[.:](?: |$)", campaign.notes[experiment])[0]  # sections and figures
        print_text(f"{experiment}: {place}" if place else experiment)
        for run in runs:
            trials = pluralize(run.trials, "trial")
            print_text(f"  {run.directory}: {trials}, about {format_duration(run.duration_s)}")
    groups = campaign.group_runs()
    beds = f", {len(groups)} testbeds at the same time" if len(groups) > 1 else ""
    trials = pluralize(sum(run.trials for run in campaign.runs), "trial")
    duration = f"about {format_duration(campaign.duration_s)}{beds}"
    print(f"together {pluralize(len(campaign.runs), 'run')}, {trials}, {duration}")


def execute_campaign(
    campaign: CampaignPlan, directory: Path, report: bool, live: str | None, *, is_new: bool
) -> int:
    """Execute the incomplete runs and return the exit status of the first that failed."""
    execution = CampaignExecution(campaign, directory, report)
    with execution.serve_page(live):  # before anything is on disk
        if is_new:
            campaigns.create_campaign(campaign, directory)
            runs = pluralize(len(campaign.runs), "run")
            log.print_notice(f"{runs}, about {format_duration(campaign.duration_s)}")
        return execution.execute_runs()


def add_runs(campaign: CampaignPlan, directory: Path, report: bool, live: str | None) -> int:
    """Add the new runs of its file to a campaign, continue it and return the exit status."""
    stored = load_campaign(directory)  # an error leaves no lock behind
    with hold_lock(directory):
        extended = campaigns.extend_campaign(directory, stored, campaign)
    more = len(extended.runs) - len(stored.runs)
    log.print_notice(f"{pluralize(more, 'run')} more than planned before")
    return execute_campaign(extended, directory, report, live, is_new=False)


def continue_group(directory: Path, report: bool, group: str) -> int:
    """Execute the incomplete runs of one testbed, and return the exit status."""
    campaign = load_campaign(directory)
    groups = campaign.group_runs()
    if group not in groups:
        raise UsageError(f"unknown group of runs '{group}'", code="unknown-name")
    with handle_signals(None):
        execution = CampaignExecution(campaign, directory, report)
        return execution.execute_group(groups[group], f"[{group}] ")


class CampaignExecution:
    """Executes the incomplete runs of a campaign and shows the results of all its runs.

    Runs of this process are reported from memory; others are read from their directories. If
    ``report`` is true, each run gets its own report.
    """

    def __init__(self, campaign: CampaignPlan, directory: Path, report: bool) -> None:
        self._campaign, self._directory, self._report = campaign, directory, report
        self._collector = RunDataCollector()
        self._view: LiveView | None = None
        self._resume_command = f"v6t campaign --resume {shlex.quote(str(directory))}"

    @contextlib.contextmanager
    def serve_page(self, live: str | None) -> Iterator[None]:
        """Serve the live page at an address within the context; None: serve no page."""
        render = partial(results.render_page, self._directory, self._campaign, self._collector)
        self._view = open_view(live, self._directory, render)
        with contextlib.closing(self._view) if self._view else contextlib.nullcontext():
            yield

    def execute_runs(self) -> int:
        """Execute the runs of each testbed, show the results and return the exit status."""
        groups = self._campaign.group_runs()
        with hold_lock(self._directory), handle_signals(self._make_stop_messages):
            if len(groups) > 1:
                status = self._execute_in_parallel(groups)
            else:
                status = self.execute_group(self._campaign.runs, "")
        self._report_results()
        return status

    def _make_stop_messages(self) -> StopMessages:
        settings_by_path = {}
        for run in self._campaign.runs:
            path = self._directory / run.directory
            if (path / CONFIG).exists():
                with contextlib.suppress(UsageError):  # settings of another version
                    settings_by_path[path] = run.settings
        return make_stop_messages(settings_by_path, self._resume_command)

    def execute_group(self, runs: Sequence[CampaignEntry], prefix: str) -> int:
        """Execute the runs of one testbed, write their reports and return the exit status."""
        try:
            progress = show_progress(self._collector, self._view, prefix=prefix, in_campaign=True)
            with progress as events:
                failed = campaigns.run_campaign(self._directory, runs, events)
                if self._report:
                    events.on_message("writing the reports")
                    for run in runs:  # that this process has measured, or that have no report yet
                        path = self._directory / run.directory
                        data = self._collector.find(run.directory)
                        is_missing = data is not None or not (path / "report.html").exists()
                        if is_missing and (path / "results.json").exists():
                            write_report(path, data)
        except BaseException as exc:
            if hides_interrupt(exc):
                log.print_notice(f"{prefix}interrupted: {self._resume_command} continues")
            raise
        return failed[0].exit_code if failed else 0

    def _execute_in_parallel(self, groups: Iterable[str]) -> int:
        """Execute each group of runs in its own process; return the first exit status that is not 0."""
        options = ["--report" if self._report else "--no-report", *log.list_verbosity_flags()]
        command = [sys.executable, "-m", "v6t.core.cli.entry", "campaign"]
        command += ["--resume", str(self._directory), *options]
        workers = [
            subprocess.Popen(
                [*command, "--group", name],
                stdin=subprocess.DEVNULL,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - no thread has been started yet
            )
            for name in groups
        ]
        try:
            self._show_worker_progress(workers)
            statuses = [worker.wait() for worker in workers]
        finally:
            for worker in workers:  # all are signalled before one is waited for
                if worker.poll() is None:
                    worker.send_signal(signal.SIGINT)
            for worker in workers:
                try:
                    worker.wait(timeout=60)
                except subprocess.TimeoutExpired:
                    worker.kill()
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        worker.wait(timeout=10)
        return next((status for status in statuses if status), 0)

    def _show_worker_progress(self, workers: Sequence[subprocess.Popen[bytes]]) -> None:
        """Update the live page while worker processes execute the runs."""
        if self._view is None:
            return
        with self._view as view:
            while any(worker.poll() is None for worker in workers):
                view.show_progress(lambda: results.read_progress(self._directory, self._campaign))
                time.sleep(POLL_INTERVAL_S)

    def _report_results(self) -> None:
        runs = results.load_runs(self._directory, self._campaign, self._collector)
        for run in runs:
            print_text(f"{run.directory}: {run.status}")
        for table in results.make_tables(runs):
            print_table(table)
        complete = sum(run.status == COMPLETE for run in runs)
        print_text(f"{complete} of {len(runs)} runs complete")
        # --no-report leaves out the page with figures; the other files are always written
        formats = [name for name in results.REPORT_FILES if self._report or name != "html"]
        paths = results.write_campaign_report(self._directory, self._campaign, runs, formats)
        print(f"Summary: {paths[0]}")
        results.check_no_damage(runs)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)
