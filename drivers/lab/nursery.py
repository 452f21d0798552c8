"""One process that has loaded what the lab's workers need; they are forked from it in milliseconds."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading

NUMBER = struct.Struct("=i")
"""Asked: a worker to end, or 0 for a new one, with its descriptors. Answered: its status or id."""

_TRAFFIC = ("v6t.plugins.", "v6t.profiles.", "v6t.procedures.")
"""Rooms that streams and oracles are made of; what this process uses of them, its workers will."""


class Nursery:
    """The process; it ends with this one, and its workers end with it."""

    def __init__(self) -> None:
        """Start it."""
        self.owner = os.getpid()
        self._turn = threading.Lock()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the nursery)
        self._socket, theirs = socket.socketpair()
        modules = sorted(name for name in sys.modules if name.startswith(_TRAFFIC))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "v6t.drivers.embedded.worker", str(theirs.fileno()), *modules],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._stderr,
            stderr=self._stderr,
            start_new_session=True,  # Ctrl-C is for v6t, which then ends its workers in order
        )
        theirs.close()

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

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
        self._process.kill()
        status = self._process.wait()
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"status {status}"

    def _answer(self) -> int:
        answer = self._socket.recv(NUMBER.size)
        if len(answer) < NUMBER.size:
            raise ConnectionResetError("the process that starts workers is gone")
        return int(NUMBER.unpack(answer)[0])
