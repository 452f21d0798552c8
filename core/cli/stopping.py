"""Signals: the first one ends the work cleanly, the second one at once; each prints its effect.

A signal may arrive after the terminal is gone: nothing here depends on successful output.
"""

import contextlib
import os
import shlex
import signal
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from v6t.core.config.run_setup import RunSetup
from v6t.core.config.settings import Settings
from v6t.drivers.duts.options import DutOptions

HANDLED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SHOW_CURSOR = b"\x1b[?25h"  # terminal code; a state line hides the cursor
CLEAR_LINE = "\r\x1b[2K"  # terminal code
STOPPING_SIMULATION = "stopping: a second Ctrl-C ends v6t at once"
STOPPING = "stopping: removing what v6t made on this machine; a second Ctrl-C ends v6t at once"
# Callbacks of the open live displays, each of which shows a message.
display_callbacks: list[Callable[[str], None]] = []


class StopMessages(NamedTuple):
    """Messages printed after the first and the second signal."""

    first: str  # what v6t restores, and the effect of a second signal
    second: tuple[str, ...]  # lines: what is left, and the commands that clean it up


def make_stop_messages(runs: Mapping[Path, Settings], resume_command: str) -> StopMessages:
    """Return the messages to print when a run or a campaign is stopped.

    Args:
        runs: settings of the runs that have begun, by directory.
        resume_command: command that continues the run or the campaign.
    """
    if not runs:
        return StopMessages("stopping: nothing was started", ("nothing was started",))
    resume = f"every finished trial is kept: {resume_command}"
    stops = [  # several: a campaign on several testbeds
        make_device_stop_messages(run, f"v6t dut rollback {shlex.quote(str(path))}")
        for path, run in runs.items()
        if _list_rollback_limits(run) and any(path.glob("**/dut-undo.json"))
    ]
    simulated = all(run.tester.kind == "sim" for run in runs.values())
    stopping = STOPPING_SIMULATION if simulated else STOPPING
    first = "\n".join(stop.first for stop in stops) or stopping
    return StopMessages(first, (*(line for stop in stops for line in stop.second), resume))


def make_device_stop_messages(run: Settings, rollback_command: str) -> StopMessages:
    """Return the messages to print when a command that configures a device is stopped."""
    if not (limits := _list_rollback_limits(run)):
        return StopMessages(STOPPING, ())
    device = ", ".join(dict.fromkeys(host for host, _ in limits))
    timers = ", ".join(f"{host} after {limit_s} s" for host, limit_s in limits if limit_s != "0")
    timer = f" (the rollback timer, if it runs by then, restores {timers})" if timers else ""
    first = f"stopping: restoring {device}; a second Ctrl-C may leave it configured{timer}"
    return StopMessages(first, (f"{device} may still be configured{timer}: {rollback_command}",))


def _list_rollback_limits(run: Settings) -> list[tuple[str, str]]:
    """Return the host name and ``undo_after_s`` of each device that does not end with v6t."""
    default = DutOptions.model_fields["undo_after_s"].default
    parts: dict[str, Any] = run.dut.options.get("parts") or {}
    options = [run.dut.options, *(part.get("options", {}) for part in parts.values())]
    hosts = [(ssh.get("host") or ssh.get("lab"), o) for o in options if (ssh := o.get("ssh"))]
    return [(str(host), str(o.get("undo_after_s", default))) for host, o in hosts if host]


def handle_device_signals(run: RunSetup) -> contextlib.AbstractContextManager[None]:
    """Let a signal restore the device that a command without a run directory configures."""
    return handle_signals(lambda: make_device_stop_messages(run.settings, run.rollback_command))


@contextmanager
def handle_signals(make_messages: Callable[[], StopMessages] | None) -> Iterator[None]:
    """Stop cleanly on the first SIGINT, SIGTERM or SIGHUP, and at once on the second.

    Args:
        make_messages: returns the messages at the time of the signal; None in a worker, which receives
            signals from the terminal and from the process that started it. That process prints the
            messages and kills a worker that does not end.
    """

    def handle_first_signal(signum: int, _frame: FrameType | None) -> None:
        for name in HANDLED_SIGNALS:  # programs that a worker starts would inherit SIG_IGN
            signal.signal(name, handle_second_signal if make_messages else lambda *_: None)
        try:
            if signum == signal.SIGHUP:
                _detach_terminal()
            if make_messages:
                show = display_callbacks[-1] if display_callbacks else write_stderr_line
                show(make_messages().first)
        finally:  # even if the message cannot be made
            raise KeyboardInterrupt

    def handle_second_signal(signum: int, _frame: FrameType | None) -> None:
        """Print what the second signal leaves behind, and let it end the process."""
        for name in HANDLED_SIGNALS:
            signal.signal(name, signal.SIG_DFL)
        if os.isatty(2):
            _write_stderr(SHOW_CURSOR)
        try:
            for line in make_messages().second if make_messages else ():
                write_stderr_line(line)
        finally:
            os.kill(os.getpid(), signum)

    handlers = {name: signal.signal(name, handle_first_signal) for name in HANDLED_SIGNALS}
    try:
        yield
    finally:
        for name, handler in handlers.items():
            signal.signal(name, handler)


def write_stderr_line(text: str) -> None:
    """Write a line to standard error; on a terminal, it replaces the state line."""
    _write_stderr(f"{CLEAR_LINE if os.isatty(2) else ''}{text}\n".encode())


def _write_stderr(octets: bytes) -> None:
    with contextlib.suppress(OSError):
        os.write(2, octets)


def _detach_terminal() -> None:
    """Replace the closed terminal with ``/dev/null``, so that output does not fail."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        with contextlib.suppress(OSError):
            if stat.S_ISCHR(os.fstat(number).st_mode):  # isatty() is false for a closed terminal
                os.dup2(null, number)
    os.close(null)
