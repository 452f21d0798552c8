"""A way to run commands on a device: SSH, or a namespace of this machine."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from v6t.base.errors import DutError
from v6t.drivers.transport.redaction import redact, redact_values

DEADLINE_S = 30.0  # Default for a command
MAX_OUTPUT_OCTETS = 32 << 20
"""Limit of a command's output, so that endless output does not fill the memory."""
_LOG = logging.getLogger(__name__)
ON_DEVICE = "on the device"
_NOT_RUN = "v6t: this was not run"
_PATH = "PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin LC_ALL=C; export PATH LC_ALL; "


class ConnectionLost(DutError):
    """The connection broke; what the last command did is unknown."""


class DeviceTakenOver(ConnectionLost):
    """Another process may be at work on the device; the command was not run."""


class Unreachable(DutError):
    """Error of a connection that cannot be made now; the next attempt may succeed."""


class DeadlinePassed(DutError):
    """A command did not end in time; it may still be running."""


_ESCAPES = {c: f"\\x{c:02x}" for c in (*range(32), *range(127, 160)) if chr(c) not in "\t\n\r"}


def decode_output(octets: bytes) -> tuple[str, bool]:
    """Decode output; return the text, and whether it was plain (see :class:`Output`)."""
    shown = octets.decode(errors="backslashreplace").translate(_ESCAPES)
    try:
        return shown, shown == octets.decode()
    except UnicodeDecodeError:
        return shown, False


@dataclass(frozen=True)
class Output:
    """Result of a command."""

    status: int  # Exit status
    out: str
    err: str
    r"""Standard output and standard error; octets that are not UTF-8 and control characters appear as
    ``\xNN``."""
    clean: bool = True  # Whether ``out`` is plain text

    @staticmethod
    def decode(name: str, status: int, out: bytes, err: bytes) -> Output:
        """Decode the output of a command, or raise DeviceTakenOver if the device did not run it."""
        # sudo and login shells may print lines, too
        if status == 1 and _NOT_RUN.encode() in err.splitlines():
            problem = f"{name}: this v6t has lost the lock on the device: the rollback timer has "
            problem += "undone everything, or another process uses the device"
            raise DeviceTakenOver(problem, code="device-busy")
        text, clean = decode_output(out)
        return Output(status, text, decode_output(err)[0], clean)

    @property
    def cause(self) -> str:
        """Cause of a failure: last line of standard error, else of standard output, else the status."""
        lines = (self.err.strip() or self.out.strip()).splitlines()
        return redact_values(lines[-1].strip())[:300] if lines else f"status {self.status}"


class HeldCommand:
    """A command of a device that runs, through a local program, until it is released.

    Args:
        name: device, for messages.
        is_disconnected: whether the connection to the device has ended.
    """

    def __init__(
        self,
        name: str,
        process: subprocess.Popen[bytes],
        is_disconnected: Callable[[], bool] = lambda: False,
    ) -> None:
        self._name = name
        self._process = process
        self._is_disconnected = is_disconnected
        self._buffer = b""

    def read_line(self, deadline_s: float) -> str:
        """Return the next line of output; raise ConnectionLost or DeadlinePassed."""
        out = self._process.stdout
        end = time.monotonic() + deadline_s
        while b"\n" not in self._buffer and out is not None:
            if (left := end - time.monotonic()) <= 0 or not select.select([out], [], [], left)[0]:
                problem = f"{self._name}: no output within {deadline_s:g} s"
                raise DeadlinePassed(problem, code="timeout")
            if not (more := os.read(out.fileno(), 65536)):
                raise self._make_lost_error("ended unexpectedly")
            self._buffer += more
            if len(self._buffer) > MAX_OUTPUT_OCTETS:
                raise self._make_lost_error("printed a line without end", "too-much-output")
        line, _, self._buffer = self._buffer.partition(b"\n")
        text = decode_output(line)[0]
        _LOG.debug("%s: a held command answers: %s", self._name, redact(text))
        return text

    def send(self, text: str) -> None:
        """Write to the command's standard input; raise ConnectionLost if the command has ended."""
        with contextlib.suppress(OSError, ValueError):
            if self._process.stdin is not None and not self.ended:
                os.write(self._process.stdin.fileno(), text.encode())
                _LOG.debug("%s: a held command is sent: %s", self._name, redact(text.rstrip("\n")))
                return
        raise self._make_lost_error("ended unexpectedly")

    def _make_lost_error(self, problem: str, code: str = "connection-lost") -> ConnectionLost:
        return ConnectionLost(f"{self._name}: a watching command {problem}", code=code)

    @property
    def ended(self) -> bool:
        """Whether the command or the connection is known to have ended."""
        return self._is_disconnected() or self._process.poll() is not None

    def read_error(self) -> str:
        """Wait up to 2 s for the command's end; return its standard error."""
        err = self._process.stderr
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2)
        if err is None or not select.select([err], [], [], 0)[0]:
            return ""
        return decode_output(os.read(err.fileno(), 65536))[0]

    def release(self) -> None:
        """Close the command's standard input and wait for its end. May be called twice."""
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


class Transport(Protocol):
    """Connection to a device for commands; opened once, closed always."""

    name: str  # Name of the device in messages
    condition: str
    """Shell line that must succeed before each command; empty for none. See :func:`make_shell_line`."""
    where: str  # Place of its shell in messages

    def open(self) -> None:
        """Connect, or raise DutError with a hint."""

    def run(self, command: str, text: str = "", deadline_s: float = DEADLINE_S) -> Output:
        """Run a shell line with ``text`` as its standard input, and wait for its end.

        Raises:
            ConnectionLost: the connection broke; there is no status.
            DeadlinePassed: the command did not end in time.
            DeviceTakenOver: the condition failed; the command was not run.
        """

    def hold(self, command: str) -> HeldCommand:
        """Start a command whose standard input stays open."""

    def close(self) -> None:
        """Release everything. May be called twice."""


def make_shell_line(command: str, become: str = "", condition: str = "", netns: str = "") -> str:
    """Return a line for any login shell in which ``sh`` runs a command and finds system programs.

    Args:
        command: shell line to run.
        become: ``sudo -n`` or ``doas -n`` if the login is not root's.
        condition: shell line; if it fails, the command is not run, which :meth:`Output.decode` reports.
        netns: network namespace in which the command runs.
    """
    first = f"{condition} || {{ echo '{_NOT_RUN}' >&2; exit 1; }}; " if condition else ""
    line = f"sh -c {shlex.quote(_PATH + first + command)}"
    if netns:  # this needs root, and ip is also a system program
        line = f"sh -c {shlex.quote(f'{_PATH}exec ip netns exec {netns} {line}')}"
    # sudo and doas drop this variable, which shows the management interface
    return f'{become} env SSH_CONNECTION="$SSH_CONNECTION" {line}' if become else line
