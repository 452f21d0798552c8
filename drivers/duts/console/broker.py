"""The one login of this process, lent to the programs it starts: they connect to a socket and ask."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from dataclasses import asdict
from pathlib import Path

from v6t.drivers.duts.console.dialogue import Dialogue

READY = b"?"
"""Said to whoever connects: a process that sleeps does not, and is not waited for."""
_MOST = 16 << 20


class Broker:
    """Answers requests one after the other, in threads of its own, until :meth:`close`."""

    def __init__(self, dialogue: Dialogue, path: Path) -> None:
        """Begin.

        Args:
            dialogue: a login that has begun.
            path: of the socket, in a directory that is this user's alone.
        """
        self._dialogue = dialogue
        self._turn = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        threading.Thread(target=self._serve, name="v6t-box", daemon=True).start()

    def close(self) -> None:
        """Take no more requests."""
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
            asker.sendall(json.dumps(asdict(reply)).encode())
