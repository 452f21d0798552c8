"""Worker processes and the private pipe to each: pickled requests, deadlines, last words."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
from multiprocessing.connection import Connection
from typing import Any

from v6t.profiles.errors import ExtensionError, TesterError
from v6t.profiles.extensions import BLAMED

DEADLINE_S = 30.0


class Worker:
    """A child process in one role; it ends when this object or this process does."""

    def __init__(self, role: str, spec: dict[str, Any]) -> None:
        """Start it and hand over its specification.

        Args:
            role: what it is, for messages.
            spec: pickled to the child; ``spec["kind"]`` selects the role's class.
        """
        self.role = role
        ours, theirs = socket.socketpair()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the worker)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "v6t.drivers.embedded.worker", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._stderr,
            stderr=self._stderr,
            start_new_session=True,  # Ctrl-C is for v6t, which then ends its workers in order
        )
        theirs.close()
        self._pipe = Connection(ours.detach())
        self._send(spec)

    @property
    def pid(self) -> int:
        """Process id; also names the worker's network namespace."""
        return self._process.pid

    def ask(self, request: str, /, deadline_s: float = DEADLINE_S, **arguments: Any) -> Any:
        """Send a request and wait for its answer.

        Raises:
            TesterError: the worker failed, died or did not answer in time.
            ExtensionError: it failed in an extension's code.
        """
        self.tell(request, **arguments)
        return self.answer(deadline_s)

    def tell(self, request: str, /, **arguments: Any) -> None:
        """Send a request; fetch the answer with :meth:`answer` later."""
        self._send((request, arguments))

    def answer(self, deadline_s: float = DEADLINE_S) -> Any:
        """The answer to the oldest request still open.

        Raises:
            TesterError: see :meth:`ask`.
        """
        try:
            if not self._pipe.poll(deadline_s):
                raise TesterError(f"the {self.role} did not answer within {deadline_s:g} s")
            status, value = self._pipe.recv()
        except (EOFError, OSError) as exc:
            raise TesterError(f"the {self.role} died: {self._last_words()}") from exc
        if status == "blamed":
            raise ExtensionError(value, BLAMED)
        if status == "error":
            raise TesterError(f"the {self.role} failed: {value}")
        return value

    def close(self) -> None:
        """End the process. May be called twice."""
        self._pipe.close()
        self._process.kill()
        self._process.wait()
        self._stderr.close()

    def _send(self, message: Any) -> None:
        try:
            self._pipe.send(message)
        except OSError as exc:
            raise TesterError(f"the {self.role} died: {self._last_words()}") from exc

    def _last_words(self) -> str:
        self._process.wait(timeout=5)
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"status {self._process.returncode}"
