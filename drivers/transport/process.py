"""Commands run by a local program that takes them elsewhere: ``ssh``, ``nsenter``."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence

from v6t.drivers.transport.contract import ConnectionLost, DeadlinePassed

Process = subprocess.Popen[bytes]


def begin(program: Sequence[str]) -> Process:
    """Start a program with three pipes, in a process group of its own: Ctrl-C is not for it."""
    return subprocess.Popen(
        list(program),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={k: v for k, v in os.environ.items() if k != "V6T_DUT_PASSWORD"},
    )


def finish(process: Process, text: str, limit_s: float) -> tuple[bytes, bytes] | None:
    """Give a program its input and wait for its end; None: it did not end in time and was killed.

    Args:
        process: from :func:`begin`.
        text: its standard input.
        limit_s: how long it may take [s].
    """
    try:
        return process.communicate(text.encode(), limit_s)
    except subprocess.TimeoutExpired:
        kill(process)
        return None
    except BaseException:
        kill(process)
        raise


def kill(process: Process) -> None:
    """End a program and everything in its process group.

    Its pipes are closed, not read to their end: ssh's master has them, too, for as long as the
    command goes on at the other end.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    process.wait()


class ProcessHeld:
    """A command that goes on until it is let go; see :class:`v6t.drivers.transport.contract.Held`."""

    def __init__(self, name: str, process: Process, gone: Callable[[], bool] = lambda: False):
        """Combine.

        Args:
            name: of the device, for messages.
            process: the running program.
            gone: whether what carries it has ended.
        """
        self._name = name
        self._process = process
        self._gone = gone
        self._buffer = b""

    def line(self, deadline_s: float) -> str:
        """See :class:`v6t.drivers.transport.contract.Held`."""
        out = self._process.stdout
        end = time.monotonic() + deadline_s
        while b"\n" not in self._buffer and out is not None:
            left = end - time.monotonic()
            if left <= 0 or not select.select([out], [], [], left)[0]:
                raise DeadlinePassed(f"{self._name}: nothing came within {deadline_s:g} s")
            more = os.read(out.fileno(), 65536)
            if not more:
                raise ConnectionLost(f"{self._name}: a watching command ended by itself")
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode(errors="backslashreplace")

    def send(self, text: str) -> None:
        """See :class:`v6t.drivers.transport.contract.Held`."""
        try:
            if self._process.stdin is not None and not self.ended:
                os.write(self._process.stdin.fileno(), text.encode())
                return
        except (OSError, ValueError):
            pass
        raise ConnectionLost(f"{self._name}: a watching command ended by itself")

    @property
    def ended(self) -> bool:
        """See :class:`v6t.drivers.transport.contract.Held`."""
        return self._gone() or self._process.poll() is not None

    def release(self) -> None:
        """See :class:`v6t.drivers.transport.contract.Held`."""
        with contextlib.suppress(OSError, ValueError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
