"""The one login of this process, lent to the programs it starts: they connect to a socket and ask."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from dataclasses import asdict
from pathlib import Path

from v6t.base.errors import EnvironmentLacking
from v6t.drivers.duts.console.dialogue import Dialogue

READY = b"?"
"""Said to whoever connects: a process that sleeps does not, and is not waited for."""
_MOST = 16 << 20


class Broker:
    """Answers requests one after the other, in threads of its own, until :meth:`close`."""

    def __init__(self, dialogue: Dialogue, path: Path, idle_s: float = 0.0) -> None:
        """Begin.

        Args:
            dialogue: a login that has begun.
            path: of the socket, in a directory that is this user's alone.
            idle_s: after so long without a request the login is kept alive [s]; 0: never.

        Raises:
            EnvironmentLacking: there can be no such socket.
        """
        self._dialogue = dialogue
        self._turn = threading.Lock()
        self._over = threading.Event()
        self._last_s = time.monotonic()
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.bind(str(path))
        except OSError as exc:
            self._socket.close()
            raise EnvironmentLacking(
                f"cannot create the socket {path}: {exc}",
                "set TMPDIR to a directory with a short name",
                code="socket-failed",
            ) from exc
        self._socket.listen()
        if idle_s:
            threading.Thread(target=self._stay, args=[idle_s], name="v6t-box", daemon=True).start()
        threading.Thread(target=self._serve, name="v6t-box", daemon=True).start()

    def close(self) -> None:
        """Take no more requests."""
        self._over.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                asker, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=[asker], daemon=True).start()

    def _stay(self, idle_s: float) -> None:
        """Keep the login alive while nobody asks for anything."""
        while self._dialogue.alive:
            left_s = self._last_s + idle_s - time.monotonic()
            if left_s > 0:
                if self._over.wait(left_s):
                    return
                continue
            with self._turn, contextlib.suppress(OSError, ValueError):
                if self._over.is_set():
                    return
                self._dialogue.stay()
                self._last_s = time.monotonic()

    def _answer(self, asker: socket.socket) -> None:
        with asker, contextlib.suppress(OSError, ValueError):
            asker.sendall(READY)
            request = b""
            while more := asker.recv(65536):
                request += more
                if len(request) > _MOST:
                    return
            if not request:  # it was not patient enough, and does it otherwise
                return
            with self._turn:
                reply = self._dialogue.reply([str(line) for line in json.loads(request)])
                self._last_s = time.monotonic()
            asker.sendall(json.dumps(asdict(reply)).encode())
