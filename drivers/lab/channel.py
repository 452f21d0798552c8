"""Worker processes and the private pipe to each: pickled requests, deadlines, last words."""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
from multiprocessing.connection import Connection
from typing import Any

from v6t.base.entry_points import DEFECT_HINT
from v6t.base.errors import ExtensionError, TesterError
from v6t.drivers.lab.nursery import Nursery

DEADLINE_S = 30.0

_nursery: Nursery | None = None
"""Started with the first worker: a process that makes no lab needs none."""


class Worker:
    """A child process in one role; it ends when this object or this process does."""

    def __init__(
        self, role: str, role_class: type, /, *, namespace: int | None = None, **values: Any
    ) -> None:
        """Start it and hand over what it is made of.

        Args:
            role: what it is, for messages.
            role_class: of the child's :class:`~v6t.drivers.lab.worker.Role`.
            namespace: a process in whose network namespace it works; None: this machine's.
            values: arguments of the class, pickled to the child.
        """
        self.role = role
        ours, theirs = socket.socketpair()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the worker)
        self._ended: int | None = None
        self._nursery, self._pid = _started(theirs.fileno(), self._stderr.fileno())
        theirs.close()
        self._pipe = Connection(ours.detach())
        # the nursery may be older than what this process was told since
        self._send((dict(os.environ), os.getcwd(), sys.path))
        self._send((role_class, namespace, values))

    @property
    def pid(self) -> int:
        """Process id; also names the worker's network namespace."""
        return self._pid

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
                raise TesterError(
                    f"the {self.role} did not answer within {deadline_s:g} s", code="worker-failed"
                )
            status, value = self._pipe.recv()
        except (EOFError, OSError) as exc:
            raise TesterError(
                f"the {self.role} died: {self._last_words()}", code="worker-failed"
            ) from exc
        if status == "blamed":
            raise ExtensionError(value, DEFECT_HINT, code="worker-failed")
        if status == "error":
            raise TesterError(f"the {self.role} failed: {value}", code="worker-failed")
        return value

    def close(self) -> None:
        """End the process. May be called twice."""
        self._pipe.close()
        self._end()
        self._stderr.close()

    def _send(self, message: Any) -> None:
        try:
            self._pipe.send(message)
        except OSError as exc:
            raise TesterError(
                f"the {self.role} died: {self._last_words()}", code="worker-failed"
            ) from exc

    def _last_words(self) -> str:
        status = self._end()  # its end of the pipe is closed: it has said what it had to say
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"status {status}"

    def _end(self) -> int:
        if self._ended is None:
            try:
                self._ended = self._nursery.end(self._pid)
            except OSError:
                self._ended = -signal.SIGKILL
        return self._ended


def _started(pipe: int, output: int) -> tuple[Nursery, int]:
    """A new worker and where it comes from; a nursery that was killed is replaced once."""
    global _nursery  # noqa: PLW0603  (one for the whole process is the point)
    if _nursery is not None and _nursery.owner == os.getpid():
        try:
            return _nursery, _nursery.start(pipe, output)
        except OSError:
            pass
    _nursery = Nursery()
    try:
        return _nursery, _nursery.start(pipe, output)
    except OSError as exc:
        raise TesterError(
            f"no worker could be started: {_nursery.last_words()}", code="lab-failed"
        ) from exc
