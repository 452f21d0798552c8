"""One input at a time, in this process: how it ended, how long it took, how much memory there is."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from v6t.core.cli import main
from v6t.tests.core.reportruns import made

from .inputs import FOLDER, PIPE, ZERO, Input

HANGS_S = 60
ALLOWED = (0, 2, 3, 4, 5, 6)
"""Exit statuses of README; 1 is a defect."""


@dataclass(frozen=True)
class Outcome:
    """How one input ended.

    Attributes:
        status: exit status; -1: a hang that was broken off.
        said: on standard error.
        seconds: of processor time.
        peak_mib: the most memory this process ever had.
        lost: a result of the finished run that is less than before.
    """

    status: int
    said: str
    seconds: float
    peak_mib: float
    lost: str = ""

    @property
    def trouble(self) -> str:
        """What is wrong with it, empty if nothing is."""
        if self.status not in ALLOWED:
            return f"status {self.status}"
        if "Traceback" in self.said or "internal error" in self.said:
            return "an internal error"
        if any(not (c.isprintable() or c == "\n") for c in self.said):
            return "control characters on the terminal"
        return self.lost


class _HangError(BaseException):
    pass


class Place:
    """A directory for one input after the other, and a finished run."""

    def __init__(self) -> None:
        """Make the run."""
        self._root = Path(tempfile.mkdtemp(prefix="v6t-fuzz-"))
        self._whole = self._root / "whole"
        made(self._whole, "throughput", procedure={"repetitions": 1})
        self.files = {p.name: p.read_bytes() for p in self._whole.iterdir() if p.is_file()}

    def close(self) -> None:
        """Remove everything."""
        shutil.rmtree(self._root, ignore_errors=True)

    def outcome(self, given: Input) -> Outcome:
        """Carry one input out."""
        here = self._root / "here"
        shutil.rmtree(here, ignore_errors=True)
        here.mkdir()
        for name, content in given.files.items():
            _write(here / name, content)
        run = here / "run"
        if "RUN" in given.words:
            run.mkdir()
            for name, octets in self.files.items():
                _write(run / name, given.damage.get(name, octets))
        words = [{"RUN": str(run), "WHOLE": str(self._whole)}.get(w, w) for w in given.words]
        os.chdir(here)
        try:
            status, said, seconds = _carry_out(words)
        finally:
            os.chdir("/")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        lost = ""
        if status and "RUN" in given.words and "results.json" not in given.damage:
            now = (run / "results.json").read_bytes()
            lost = "" if now == self.files["results.json"] else "failed, yet the results changed"
        return Outcome(status, said, seconds, peak, lost)


def _write(path: Path, content: bytes | str) -> None:
    if content == PIPE:
        os.mkfifo(path)
    elif content == ZERO:
        path.symlink_to(ZERO)
    elif content == FOLDER:
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)


def _carry_out(words: list[str]) -> tuple[int, str, float]:
    out, err = io.StringIO(), io.StringIO()
    began = time.process_time()
    status: object = -1
    with _limited(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main.main(words)
        except SystemExit as exc:
            status = exc.code
        except _HangError:
            status = -1
    seconds = time.process_time() - began
    return status if isinstance(status, int) else 1, err.getvalue(), seconds


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """What takes so long waits for ever."""

    def ring(_number: int, _frame: object) -> None:
        raise _HangError

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(HANGS_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
