"""Several testbeds at once: a process for each, ended with this one."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from v6t.core import log

_PR_SET_PDEATHSIG = 1


def work_in_parallel(
    directory: Path,
    groups: Mapping[str, Sequence[object]],
    report: bool,
    meanwhile: Callable[[Callable[[], bool]], None],
) -> int:
    """Carry out the runs of each group in a process of its own.

    Args:
        directory: of the campaign, planned already.
        groups: runs by group, as :meth:`v6t.core.campaigns.campaign.Campaign.groups`.
        report: whether each run is reported on.
        meanwhile: called with what tells whether somebody still works; returns when nobody does.

    Returns:
        The first exit status that is not 0, or 0.
    """
    workers = [
        subprocess.Popen(
            [
                *(
                    sys.executable,
                    "-m",
                    "v6t.core.cli.main",
                    "campaign",
                    "--resume",
                    str(directory),
                ),
                *("--group", name, "--report" if report else "--no-report"),
                *log.flags(),
            ],
            stdin=subprocess.DEVNULL,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - no thread has been started yet
        )
        for name in groups
    ]
    try:
        meanwhile(lambda: any(worker.poll() is None for worker in workers))
        statuses = [worker.wait() for worker in workers]
    finally:
        for worker in workers:  # all are told before one is waited for
            if worker.poll() is None:
                worker.send_signal(signal.SIGINT)
        for worker in workers:
            _see_its_end(worker)
    return next((status for status in statuses if status), 0)


def _see_its_end(worker: subprocess.Popen[bytes]) -> None:
    """Let a worker clean up after its run; then make sure."""
    try:
        worker.wait(timeout=60)
    except subprocess.TimeoutExpired:
        worker.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.wait(timeout=10)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)
