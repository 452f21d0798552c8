"""The way to a device that is a set of namespaces of this machine."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time

from v6t.drivers.duts.transport import (
    DEADLINE_S,
    ConnectionLost,
    DeadlinePassed,
    Output,
    for_shell,
)
from v6t.profiles.errors import DutError


class NamespaceTransport:
    """Commands run as this user within the namespaces of a process."""

    def __init__(self, pid: int, name: str = "lab device") -> None:
        """Remember.

        Args:
            pid: a process in the network, process and mount namespaces of the device.
            name: for messages.
        """
        self.name = name
        self._pid = pid

    def open(self) -> None:
        """Nothing to connect to; see whether it is there."""
        if self.run("true").status:
            raise DutError(f"{self.name}: its namespaces cannot be entered")

    def run(self, command: str, text: str = "", deadline_s: float | None = None) -> Output:
        """See :class:`v6t.drivers.duts.transport.Transport`."""
        limit = deadline_s or DEADLINE_S
        process = self._start(command)
        try:
            out, err = process.communicate(text.encode(), limit)
        except subprocess.TimeoutExpired as exc:
            _kill(process)
            raise DeadlinePassed(
                f"{self.name}: no end of a command after {limit:g} s: {command[:120]}"
            ) from exc
        except BaseException:
            _kill(process)
            raise
        if process.returncode == -signal.SIGKILL:
            raise ConnectionLost(f"{self.name}: it vanished during: {command[:120]}")
        return Output.of(process.returncode, out, err)

    def hold(self, command: str) -> NamespaceHeld:
        """See :class:`v6t.drivers.duts.transport.Transport`."""
        return NamespaceHeld(self.name, self._start(command))

    def close(self) -> None:
        """Nothing to give back."""

    def _start(self, command: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*enter(self._pid), "sh", "-c", for_shell(command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )


class NamespaceHeld:
    """A running command in the namespaces."""

    def __init__(self, name: str, process: subprocess.Popen[bytes]) -> None:
        self._name = name
        self._process = process
        self._buffer = b""

    def line(self, deadline_s: float) -> str:
        """See :class:`v6t.drivers.duts.transport.Held`."""
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
        """See :class:`v6t.drivers.duts.transport.Held`."""
        try:
            if self._process.stdin is not None:
                os.write(self._process.stdin.fileno(), text.encode())
        except (OSError, ValueError) as exc:
            raise ConnectionLost(f"{self._name}: a watching command ended by itself") from exc

    @property
    def ended(self) -> bool:
        """See :class:`v6t.drivers.duts.transport.Held`."""
        return self._process.poll() is not None

    def release(self) -> None:
        """See :class:`v6t.drivers.duts.transport.Held`."""
        with contextlib.suppress(OSError, ValueError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            _kill(self._process)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


def enter(pid: int) -> list[str]:
    """The command that runs another one in the namespaces of a process."""
    return ["nsenter", "-t", str(pid), "-n", "-m", "-p", "--"]


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
