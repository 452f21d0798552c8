"""Commands run by a local program that takes them elsewhere: ``ssh``, ``nsenter``."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

from v6t.base.errors import DutError
from v6t.drivers.transport.contract import ConnectionLost, DeadlinePassed, decode_output
from v6t.drivers.transport.redaction import ENABLE_PASSWORD, LOGIN_PASSWORD, redact

Process = subprocess.Popen[bytes]

MAX_OUTPUT_OCTETS = 32 << 20
"""More than this no answer is: a device that talks without end fills no memory here."""
_LOG = logging.getLogger(__name__)


def build_clean_environment() -> dict[str, str]:
    """Return the environment without passwords."""
    return {k: v for k, v in os.environ.items() if k not in (LOGIN_PASSWORD, ENABLE_PASSWORD)}


def begin(program: Sequence[str]) -> Process:
    """Start a program with three pipes, in a process group that Ctrl-C does not reach."""
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    environment = build_clean_environment()
    return subprocess.Popen(list(program), start_new_session=True, env=environment, **pipes)


def finish(process: Process, text: str, limit_s: float) -> tuple[bytes, bytes] | None:
    """Write the input of a program and return its output; None if it was killed at the deadline."""
    try:
        return _communicate(process, text.encode(), time.monotonic() + limit_s)
    except BaseException:
        kill(process)
        raise


def _communicate(process: Process, text: bytes, end: float) -> tuple[bytes, bytes] | None:
    """Communicate as :class:`subprocess.Popen` does, up to a limit of output."""
    stdin, out, err = process.stdin, process.stdout, process.stderr
    if stdin is None or out is None or err is None:
        raise ValueError("a process without its three pipes")
    chunks: dict[int, list[bytes]] = {out.fileno(): [], err.fileno(): []}
    amount = 0
    with selectors.DefaultSelector() as ready:
        ready.register(out, selectors.EVENT_READ)
        ready.register(err, selectors.EVENT_READ)
        os.set_blocking(stdin.fileno(), False)
        ready.register(stdin, selectors.EVENT_WRITE)
        while ready.get_map():
            left = end - time.monotonic()
            if left <= 0:
                kill(process)
                return None
            for key, _ in ready.select(left):
                if key.fileobj is stdin:
                    text = _feed(stdin.fileno(), text)
                    if not text:
                        ready.unregister(stdin)
                        with contextlib.suppress(OSError):
                            stdin.close()
                    continue
                more = os.read(key.fd, 65536)
                amount += len(more)
                if amount > MAX_OUTPUT_OCTETS:
                    raise DutError(
                        f"a command printed more than {MAX_OUTPUT_OCTETS >> 20} MiB: "
                        f"{decode_output(chunks[out.fileno()][0][:80])[0] if chunks[out.fileno()] else ''}",
                        "nothing of it was used",
                        code="too-much-output",
                    )
                chunks[key.fd].append(more)
                if not more:
                    ready.unregister(key.fileobj)
    outputs = b"".join(chunks[out.fileno()]), b"".join(chunks[err.fileno()])
    try:
        process.wait(max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        kill(process)
        return None
    out.close()
    err.close()
    return outputs


def _feed(handle: int, text: bytes) -> bytes:
    """Write what fits; return the rest, which is empty if the pipe is closed."""
    try:
        return text[os.write(handle, text) :] if text else b""
    except BlockingIOError:
        return text
    except BrokenPipeError:
        return b""


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
    """A local program that runs until it is released."""

    def __init__(self, name: str, process: Process, gone: Callable[[], bool] = lambda: False):
        self._name = name
        self._process = process
        self._gone = gone
        self._buffer = b""

    def line(self, deadline_s: float) -> str:
        out = self._process.stdout
        end = time.monotonic() + deadline_s
        while b"\n" not in self._buffer and out is not None:
            left = end - time.monotonic()
            if left <= 0 or not select.select([out], [], [], left)[0]:
                problem = f"{self._name}: no output within {deadline_s:g} s"
                raise DeadlinePassed(problem, code="timeout")
            more = os.read(out.fileno(), 65536)
            if not more:
                raise self._make_lost_error("ended unexpectedly")
            self._buffer += more
            if len(self._buffer) > MAX_OUTPUT_OCTETS:
                raise self._make_lost_error("printed a line without end", "too-much-output")
        line, _, self._buffer = self._buffer.partition(b"\n")
        text = decode_output(line)[0]
        _LOG.debug("%s: a held command answers: %s", self._name, redact(text))
        return text

    def send(self, text: str) -> None:
        try:
            if self._process.stdin is not None and not self.ended:
                os.write(self._process.stdin.fileno(), text.encode())
                _LOG.debug("%s: a held command is sent: %s", self._name, redact(text.rstrip("\n")))
                return
        except (OSError, ValueError):
            pass
        raise self._make_lost_error("ended unexpectedly")

    def _make_lost_error(self, problem: str, code: str = "connection-lost") -> ConnectionLost:
        return ConnectionLost(f"{self._name}: a watching command {problem}", code=code)

    @property
    def ended(self) -> bool:
        return self._gone() or self._process.poll() is not None

    def read_error(self) -> str:
        err = self._process.stderr
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2)
        if err is None or not select.select([err], [], [], 0)[0]:
            return ""
        return decode_output(os.read(err.fileno(), 65536))[0]

    def release(self) -> None:
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
