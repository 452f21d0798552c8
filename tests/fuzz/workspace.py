"""Execute one fuzz input in this process and describe the outcome."""

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

from .finished_runs import make_finished_runs
from .inputs import FOLDER, PIPE, ZERO, Input

TIME_LIMIT_S = 60
ALLOWED_STATUSES = (0, 2, 3, 4, 5, 6)
"""The documented exit statuses; 1 is a defect."""


@dataclass(frozen=True)
class Outcome:
    status: int  # exit status, or -1 after the time limit
    stderr: str
    seconds: float  # processor time
    peak_mib: float  # peak memory of this process above what it used before
    changed_results: str = ""  # problem if a failed command changed undamaged results

    @property
    def problem(self) -> str:
        """Describe the problem; empty without one."""
        if self.status not in ALLOWED_STATUSES:
            return f"status {self.status}"
        if "Traceback" in self.stderr or "internal error" in self.stderr:
            return "an internal error"
        if any(not (c.isprintable() or c == "\n") for c in self.stderr):
            return "control characters on the terminal"
        return self.changed_results


class _HangError(BaseException):
    pass


class Workspace:
    """Temporary directory in which inputs are executed one after the other."""

    def __init__(self) -> None:
        """Write the directories that are never damaged."""
        self._root = Path(tempfile.mkdtemp(prefix="v6t-fuzz-"))
        self._undamaged = {}
        for name, word in (("OTHER_RUN", "RUN"), ("OTHER_AUDIT", "AUDIT")):
            self._undamaged[name] = self._root / name
            _write_files(self._root / name, make_finished_runs()[word])

    def close(self) -> None:
        shutil.rmtree(self._root, ignore_errors=True)

    def execute(self, command: Input) -> Outcome:
        current = self._root / "current"
        shutil.rmtree(current, ignore_errors=True)
        current.mkdir()
        _write_files(current, command.files)
        directories = dict(self._undamaged)
        for word in set(command.words) & make_finished_runs().keys():
            directories[word] = current / word.lower()
            _write_files(directories[word], {**make_finished_runs()[word], **command.damage})
        # an argument of a process cannot contain the octet 0
        words = [str(directories.get(w, w)).replace("\0", "") for w in command.words]
        os.chdir(current)
        try:
            _reset_peak_memory()
            before = _read_peak_mib()
            status, stderr, seconds = _run_command(words)
            peak = _read_peak_mib() - before
        finally:
            os.chdir("/")
        changed = status != 0 and self._has_changed_results(command, current)
        problem = "failed, yet results changed" if changed else ""
        return Outcome(status, stderr, seconds, peak, problem)

    @staticmethod
    def _has_changed_results(command: Input, current: Path) -> bool:
        """Check whether undamaged results have changed."""
        return any(
            (current / word.lower() / name).read_bytes() != octets
            for word in set(command.words) & make_finished_runs().keys()
            for name, octets in make_finished_runs()[word].items()
            if name.endswith("results.json") and name not in command.damage
        )


def _write_files(directory: Path, files: Mapping[str, bytes | str]) -> None:
    """Write regular files and the special files of :mod:`.inputs`."""
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content == PIPE:
            os.mkfifo(path)
        elif content == ZERO:
            path.symlink_to(ZERO)
        elif content == FOLDER:
            path.mkdir()
        elif isinstance(content, bytes):
            path.write_bytes(content)


def _run_command(words: list[str]) -> tuple[int, str, float]:
    """Run a command; return its exit status, standard error and processor time."""
    out, err = io.StringIO(), io.StringIO()
    start = time.process_time()
    status: object = -1
    with _time_limit(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main.main(words)
        except SystemExit as exc:
            status = exc.code
        except _HangError:
            status = -1
    seconds = time.process_time() - start
    return status if isinstance(status, int) else 1, err.getvalue(), seconds


def _reset_peak_memory() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _read_peak_mib() -> float:
    """Return this process's peak memory; getrusage would include the process that started it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


@contextlib.contextmanager
def _time_limit() -> Iterator[None]:
    """Raise an error in code that hangs."""

    def raise_error(_number: int, _frame: object) -> None:
        raise _HangError

    previous = signal.signal(signal.SIGALRM, raise_error)
    signal.alarm(TIME_LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
