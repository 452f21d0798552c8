"""Ctrl-C and its relatives: the first says what is being put back, the second what is not.

A signal may come when the terminal is gone: nothing here depends on being heard.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from v6t.core.config.settings import ResolvedRun

CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SHOW_CURSOR = b"\x1b[?25h"
"""A live line hides it."""
CLEAR_LINE = "\r\x1b[2K"
drawing: list[Callable[[str], None]] = []
"""Whoever draws on the terminal again and again, over what others write there: it says what is to be said."""


@dataclass(frozen=True)
class Stop:
    """What a signal means now.

    Attributes:
        first: what is being put back, and what a second signal costs.
        second: commands for what is not, one line each.
    """

    first: str
    second: tuple[str, ...]


def of_run(run: ResolvedRun, path: Path) -> Stop:
    """While a run is carried out in a directory."""
    place = shlex.quote(str(path))
    resume = f"every finished trial is kept: v6t resume {place}"
    if not (path / "config.json").exists():
        return Stop("stopping: nothing was begun", ("nothing was begun",))
    name = _elsewhere(run)
    if name and any(path.glob("**/dut-undo.json")):
        own = _by_itself(run)
        return Stop(
            f"stopping: putting {name} back as it was; a second Ctrl-C gives that up and leaves it "
            f"configured{own}",
            (f"{name} is still configured{own}: v6t dut rollback {place}", resume),
        )
    if run.tester.kind == "sim":
        return Stop("stopping; a second Ctrl-C ends it at once", (resume,))
    return Stop(
        "stopping: traffic ends, what v6t made on this machine is removed; a second Ctrl-C ends it at once",
        (resume,),
    )


def of_campaign(runs: Callable[[], dict[Path, ResolvedRun]], directory: Path) -> Stop:
    """While a campaign is carried out; ``runs`` are those that were begun, by their directories."""
    again = f"v6t campaign --resume {shlex.quote(str(directory))} continues"
    for path, run in runs().items():
        name = _elsewhere(run)
        if name and any(path.glob("**/dut-undo.json")):
            stop = of_run(run, path)
            return Stop(stop.first, (stop.second[0], again))
    return Stop("stopping the campaign; a second Ctrl-C ends it at once", (again,))


def of_device(run: ResolvedRun, again: str) -> Stop:
    """While ``v6t dut`` works on a device; ``again`` is the command that restores it."""
    name, own = _elsewhere(run), _by_itself(run)
    if not name:
        return Stop("stopping: removing the lab; a second Ctrl-C ends it at once", ())
    return Stop(
        f"stopping: putting {name} back as it was; a second Ctrl-C gives that up and may leave it "
        f"configured{own}",
        (f"{name} may still be configured{own}: {again}",),
    )


def _elsewhere(run: ResolvedRun) -> str:
    """Name the device that outlives this process; empty if there is none."""
    if run.tester.kind == "sim":
        return ""
    parts: dict[str, Any] = run.dut.options.get("parts") or {}
    options = [run.dut.options, *(p.get("options", {}) for p in parts.values())]
    names = [(o.get("ssh") or {}).get("host") or (o.get("ssh") or {}).get("lab") for o in options]
    return ", ".join(str(n) for n in names if n)


def _by_itself(run: ResolvedRun) -> str:
    from v6t.drivers.duts.options import DutOptions

    default = DutOptions.model_fields["undo_after_s"].default
    after = run.dut.options.get("undo_after_s", default)
    return (
        f" (its rollback timer, if it runs by then, undoes everything after {after} s)"
        if str(after) != "0"
        else ""
    )


@contextmanager
def signals(means: Callable[[], Stop]) -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP end the work in order; a second one ends it at once.

    Args:
        means: what that means at this moment.
    """

    def first(number: int, _frame: FrameType | None) -> None:
        for name in CAUGHT:
            signal.signal(name, second)
        try:
            if number == signal.SIGHUP:
                _forget_the_terminal()
            (drawing[-1] if drawing else tell)(means().first)
        finally:  # whatever keeps it from being said
            raise KeyboardInterrupt

    def second(number: int, _frame: FrameType | None) -> None:
        for name in CAUGHT:
            signal.signal(name, signal.SIG_DFL)
        if os.isatty(2):
            _write(SHOW_CURSOR)
        try:
            for line in means().second:
                tell(line)
        finally:
            os.kill(os.getpid(), number)

    with _caught_by(first):
        yield


@contextmanager
def signals_of_a_worker() -> Iterator[None]:
    """Let the first signal end the work in order; others repeat that Ctrl-C.

    A worker hears of one from the terminal, and then from the process that started it and says all
    there is to say; that one is also who ends a worker that does not come to its end.
    """

    def first(number: int, _frame: FrameType | None) -> None:
        for name in CAUGHT:  # SIG_IGN would be inherited by programs it starts
            signal.signal(name, lambda *_: None)
        try:
            if number == signal.SIGHUP:
                _forget_the_terminal()
        finally:
            raise KeyboardInterrupt

    with _caught_by(first):
        yield


@contextmanager
def _caught_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {name: signal.signal(name, handler) for name in CAUGHT}
    try:
        yield
    finally:
        for name, own in before.items():
            signal.signal(name, own)


def tell(text: str) -> None:
    """Print a line on standard error beside whatever is drawn there."""
    _write(f"{CLEAR_LINE if os.isatty(2) else ''}{text}\n".encode())


def _write(octets: bytes) -> None:
    with contextlib.suppress(OSError):
        os.write(2, octets)


def _forget_the_terminal() -> None:
    """Whatever is written to one that is gone fails, and would keep us from putting things back."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        with contextlib.suppress(OSError):
            if stat.S_ISCHR(os.fstat(number).st_mode):  # one that is gone says it is no terminal
                os.dup2(null, number)
    os.close(null)
