"""One input at a time, in this process: how it ended, how long it took, how much memory there is."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from v6t.core.cli import main

from .inputs import FOLDER, PIPE, ZERO, Input
from .kept import originals

HANGS_S = 60
ALLOWED = (0, 2, 3, 4, 5, 6)
"""Exit statuses of README; 1 is a defect."""


@dataclass(frozen=True)
class Outcome:
    """How one input ended."""

    status: int  # exit status; -1: a hang that was broken off
    said: str  # on standard error
    seconds: float  # of processor time
    peak_mib: float  # the most memory this process had meanwhile, with that of the attack itself
    lost: str = ""  # a result of the finished run that is less than before

    @property
    def trouble(self) -> str:
        """Describe the problem of an outcome; empty without one."""
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
    """A directory for one input after the other, and what was finished before."""

    def __init__(self) -> None:
        """Make the files that are never damaged."""
        self._root = Path(tempfile.mkdtemp(prefix="v6t-fuzz-"))
        self._kept = {}
        for name, word in (("WHOLE", "RUN"), ("AUDITED", "AUDIT")):
            self._kept[name] = _laid(self._root / name, originals()[word])

    def close(self) -> None:
        """Remove everything."""
        shutil.rmtree(self._root, ignore_errors=True)

    def outcome(self, given: Input) -> Outcome:
        """Execute one input."""
        here = self._root / "here"
        shutil.rmtree(here, ignore_errors=True)
        here.mkdir()
        for name, content in given.files.items():
            _write(here / name, content)
        places = dict(self._kept)
        for word in set(given.words) & originals().keys():
            places[word] = _laid(here / word.lower(), {**originals()[word], **given.damage})
        # no system hands a program a word with an octet 0 in it
        words = [str(places.get(w, w)).replace("\0", "") for w in given.words]
        os.chdir(here)
        try:
            _forget_peak()
            status, text, seconds = _carry_out(words)
            peak = _peak_mib()
        finally:
            os.chdir("/")
        lost = "failed, yet results changed" if status and self._changed(given, here) else ""
        return Outcome(status, text, seconds, peak, lost)

    @staticmethod
    def _changed(given: Input, here: Path) -> bool:
        """Check whether undamaged results have changed."""
        return any(
            (here / word.lower() / name).read_bytes() != octets
            for word in set(given.words) & originals().keys()
            for name, octets in originals()[word].items()
            if name.endswith("results.json") and name not in given.damage
        )


def _laid(path: Path, files: Mapping[str, bytes | str]) -> Path:
    """Write these files to a directory."""
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        _write(path / name, content)
    return path


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


def _forget_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_mib() -> float:
    """Return this program's peak memory; getrusage would include the process that started it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Raise an error in code that hangs."""

    def ring(_number: int, _frame: object) -> None:
        raise _HangError

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(HANGS_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
