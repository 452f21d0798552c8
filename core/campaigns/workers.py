"""Several testbeds at once: a process for each, ended with this one."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from v6t.core import log

_PR_SET_PDEATHSIG = 1  # option of prctl(2)


def run_in_parallel(
    directory: Path,
    groups: Iterable[str],
    report: bool,
    wait_while: Callable[[Callable[[], bool]], None],
) -> int:
    """Execute each group of runs in its own process; ``wait_while`` blocks while any is running.

    Returns:
        The first exit status that is not 0, or 0.
    """
    options = ["--report" if report else "--no-report", *log.list_verbosity_flags()]
    command = [sys.executable, "-m", "v6t.core.cli.entry", "campaign", "--resume", str(directory)]
    workers = [
        subprocess.Popen(
            [*command, "--group", name, *options],
            stdin=subprocess.DEVNULL,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - no thread has been started yet
        )
        for name in groups
    ]
    try:
        wait_while(lambda: any(worker.poll() is None for worker in workers))
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


def _die_with_parent() -> None:
    """Ask the Linux kernel to interrupt this process when its parent process ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)
