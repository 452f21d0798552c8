"""Signals: the first one ends the work cleanly, the second one at once; each prints its effect.

A signal may arrive after the terminal is gone: nothing here depends on successful output.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from v6t.core.config.settings import ResolvedRun

HANDLED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Terminal code that shows the cursor, which a state line hides.
SHOW_CURSOR = b"\x1b[?25h"
CLEAR_LINE = "\r\x1b[2K"
# Functions that each show a message in a display that redraws the terminal.
displays: list[Callable[[str], None]] = []


class Stop(NamedTuple):
    """Messages printed after the first and the second signal.

    Attributes:
        first: the restoration, and the effect of a second signal.
        second: commands for that, one line each.
    """

    first: str  # printed after the first signal
    second: tuple[str, ...]  # lines printed after the second signal


def make_run_stop(run: ResolvedRun, path: Path) -> Stop:
    """Return what to print when the run in this directory is stopped."""
    place = shlex.quote(str(path))
    resume = f"every finished trial is kept: v6t resume {place}"
    if not (path / "config.json").exists():
        return Stop("stopping: nothing was begun", ("nothing was begun",))
    device = _find_device(run)
    if device and any(path.glob("**/dut-undo.json")):
        timer = _describe_timer(run)
        return Stop(
            f"stopping: putting {device} back as it was; a second Ctrl-C gives that up and leaves it "
            f"configured{timer}",
            (f"{device} is still configured{timer}: v6t dut rollback {place}", resume),
        )
    if run.tester.kind == "sim":
        return Stop("stopping; a second Ctrl-C ends it at once", (resume,))
    return Stop(
        "stopping: traffic ends, what v6t made on this machine is removed; a second Ctrl-C ends it at once",
        (resume,),
    )


def make_campaign_stop(runs: Callable[[], dict[Path, ResolvedRun]], directory: Path) -> Stop:
    """Return what to print when a campaign is stopped; ``runs`` returns the started runs."""
    again = f"v6t campaign --resume {shlex.quote(str(directory))} continues"
    for path, run in runs().items():
        if _find_device(run) and any(path.glob("**/dut-undo.json")):
            first, second = make_run_stop(run, path)
            return Stop(first, (second[0], again))
    return Stop("stopping the campaign; a second Ctrl-C ends it at once", (again,))


def make_device_stop(run: ResolvedRun, rollback_command: str) -> Stop:
    """Return what to print when a command that works on a device is stopped."""
    device, timer = _find_device(run), _describe_timer(run)
    if not device:
        return Stop("stopping: removing the lab; a second Ctrl-C ends it at once", ())
    return Stop(
        f"stopping: putting {device} back as it was; a second Ctrl-C gives that up and may leave it "
        f"configured{timer}",
        (f"{device} may still be configured{timer}: {rollback_command}",),
    )


def _find_device(run: ResolvedRun) -> str:
    """Return the hosts of the device; empty if it exists only within this process."""
    if run.tester.kind == "sim":
        return ""
    parts: dict[str, Any] = run.dut.options.get("parts") or {}
    options = [run.dut.options, *(part.get("options", {}) for part in parts.values())]
    hosts = [ssh.get("host") or ssh.get("lab") for o in options if (ssh := o.get("ssh"))]
    return ", ".join(str(host) for host in hosts if host)


def _describe_timer(run: ResolvedRun) -> str:
    """Describe the device's rollback timer; empty if it is off."""
    from v6t.drivers.duts.options import DutOptions

    default = DutOptions.model_fields["undo_after_s"].default
    after_s = run.dut.options.get("undo_after_s", default)
    if str(after_s) == "0":
        return ""
    return f" (its rollback timer, if it runs by then, undoes everything after {after_s} s)"


@contextmanager
def handle_signals(describe: Callable[[], Stop] | None) -> Iterator[None]:
    """Stop cleanly on the first SIGINT, SIGTERM or SIGHUP, and at once on the second.

    Args:
        describe: returns the messages at the time of the signal; None in a worker, which receives a signal
            from the terminal and another from the process that started it: that process prints the
            messages and kills a worker that does not end.
    """

    def stop(signum: int, _frame: FrameType | None) -> None:
        """Print what the first signal does, and interrupt the run."""
        for name in HANDLED_SIGNALS:  # programs that a worker starts would inherit SIG_IGN
            signal.signal(name, end if describe else lambda *_: None)
        try:
            if signum == signal.SIGHUP:
                _detach_terminal()
            if describe:
                (displays[-1] if displays else print_line)(describe().first)
        finally:  # even if the message cannot be made
            raise KeyboardInterrupt

    def end(signum: int, _frame: FrameType | None) -> None:
        """Print what the second signal leaves behind, and end the process by the signal."""
        for name in HANDLED_SIGNALS:
            signal.signal(name, signal.SIG_DFL)
        if os.isatty(2):
            _write(SHOW_CURSOR)
        try:
            for line in describe().second if describe else ():
                print_line(line)
        finally:
            os.kill(os.getpid(), signum)

    before = {name: signal.signal(name, stop) for name in HANDLED_SIGNALS}
    try:
        yield
    finally:
        for name, former in before.items():
            signal.signal(name, former)


def print_line(text: str) -> None:
    """Print a line on standard error in place of a state line."""
    _write(f"{CLEAR_LINE if os.isatty(2) else ''}{text}\n".encode())


def _write(octets: bytes) -> None:
    with contextlib.suppress(OSError):
        os.write(2, octets)


def _detach_terminal() -> None:
    """Replace the closed terminal by ``/dev/null``: failing output would prevent the restoration."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        with contextlib.suppress(OSError):
            if stat.S_ISCHR(os.fstat(number).st_mode):  # isatty() is false for a closed terminal
                os.dup2(null, number)
    os.close(null)
