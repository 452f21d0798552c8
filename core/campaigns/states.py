"""Where the runs of a campaign are that other processes make, at the price of a look at their directories."""

from __future__ import annotations

from pathlib import Path

from v6t.core.campaigns.campaign import FAILURES, WAITING, Campaign, CampaignRun, status_of
from v6t.core.runs import rundir as names
from v6t.core.runs.results_file import COMPLETE, RUNNING


class States:
    """Of each run: a file is read again only when it is another one."""

    def __init__(self, directory: Path, campaign: Campaign) -> None:
        self._directory, self._runs = directory, campaign.runs
        self._known: dict[str, tuple[object, str]] = {}

    def told(self) -> tuple[str, int]:
        """In words, and how many are over."""
        states = {run.directory: self._of(run) for run in self._runs}
        done = sum(state == COMPLETE for state in states.values())
        now = ", ".join(name for name, state in states.items() if state == RUNNING)
        said = f"{done} of {len(states)} runs are complete; now {now or 'none has a result yet'}"
        return said, sum(state not in (WAITING, RUNNING) for state in states.values())

    def _of(self, run: CampaignRun) -> str:
        files = (
            self._directory / run.directory / names.RESULTS,
            self._directory / FAILURES / f"{run.directory}.json",
        )
        written = [_written(path) for path in files]
        if run.directory not in self._known or self._known[run.directory][0] != written:
            self._known[run.directory] = written, status_of(self._directory, run)
        return self._known[run.directory][1]


def _written(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
