"""One process that has loaded what the lab's workers need; they are forked from it in milliseconds."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback

from v6t.drivers.lab import netns, worker
from v6t.drivers.lab.worker import NUMBER

TITLE = "lab of v6t"
"""What ``ps`` shows of a nursery that was forked, and of its workers."""

_TRAFFIC = (
    "v6t.drivers.",
    "v6t.packets.",
    "v6t.plugins.",
    "v6t.profiles.",
    "v6t.procedures.",
)
"""Rooms that streams and oracles are made of; what this process uses of them, its workers will."""


class Nursery:
    """The process; it ends with this one, and its workers end with it."""

    def __init__(self) -> None:
        """Start it: a fork, which has imported everything already, where nothing forbids one."""
        self.owner = os.getpid()
        self._turn = threading.Lock()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the nursery)
        self._socket, theirs = socket.socketpair()
        start = _forked if _has_one_thread() else _executed
        self.pid = start(theirs, self._stderr.fileno())
        theirs.close()

    def start(self, pipe: int, output: int) -> int:
        """Fork a worker that serves a pipe; its process id.

        Args:
            pipe: descriptor of the worker's end.
            output: descriptor of the file for its last words.

        Raises:
            OSError: the nursery is gone.
        """
        with self._turn:
            socket.send_fds(self._socket, [NUMBER.pack(0)], [pipe, output])
            return self._answer()

    def end(self, pid: int) -> int:
        """Kill a worker if it still runs; its exit status, negative for a signal.

        Raises:
            OSError: the nursery is gone, and with it the worker.
        """
        with self._turn:
            self._socket.sendall(NUMBER.pack(pid))
            return self._answer()

    def last_words(self) -> str:
        """Why it is gone."""
        os.kill(self.pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"status {status}"

    def _answer(self) -> int:
        answer = self._socket.recv(NUMBER.size)
        if len(answer) < NUMBER.size:
            raise ConnectionResetError("the process that starts workers is gone")
        return int(NUMBER.unpack(answer)[0])


def _has_one_thread() -> bool:
    """Whether a fork has all that its code may wait for: a lock that another thread holds stays locked there.

    Threads that only C knows of are not counted: OpenBLAS ends its own before each fork.
    """
    return len(sys._current_frames()) == 1


def _executed(theirs: socket.socket, output: int) -> int:
    modules = sorted(name for name in sys.modules if name.startswith(_TRAFFIC))
    process = subprocess.Popen(
        [sys.executable, "-m", worker.__name__, str(theirs.fileno()), *modules],
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,  # Ctrl-C is for v6t, which then ends its workers in order
    )
    process.returncode = 0  # it is waited for by whoever asks for its last words
    return process.pid


def _forked(theirs: socket.socket, output: int) -> int:
    owner = os.getpid()
    signals = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if not pid:
            _serve(owner, theirs.fileno(), output, signals)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)
    return pid


def _serve(owner: int, asked: int, output: int, signals: set[int]) -> None:
    """The life of the fork. Nothing of its owner is left to it: neither files, signals nor terminal."""
    try:
        gc.freeze()  # what it was born with is never looked through, and never finalized
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)
        os.setsid()
        null = os.open(os.devnull, os.O_RDONLY)
        for file, number in ((null, 0), (output, 1), (output, 2)):
            os.dup2(file, number)
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2 and int(name) != asked:
                with contextlib.suppress(OSError):  # the listing's own
                    os.close(int(name))
        words = os.fdopen(2, "w", buffering=1, closefd=False, errors="backslashreplace")
        sys.stdout = sys.stderr = words
        netns.die_with(owner)
        netns.rename(TITLE)
        worker.serve(asked)
    except BaseException:  # noqa: BLE001  (last words, read by the owner)
        traceback.print_exc()
    finally:
        os._exit(1)
