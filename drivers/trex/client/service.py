"""The protocol of a worker with TRex's client: one request a line, one answer a line, as JSON.

Requests are ``{"id": 1, "op": "...", ...}``, answers ``{"id": 1, "ok": ...}`` or
``{"id": 1, "error": "...", "kind": "..."}``. When stdin ends, so does the process, after giving
the ports back.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import queue
import re
import signal
import sys
import threading
import time
from dataclasses import is_dataclass
from typing import Any, TextIO

_GRACE_S = 5.0  # Time for a request to end and for giving ports back, once stdin has ended


class RequestError(Exception):
    """Failure of a request; v6t maps ``kind`` to its own errors."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def make_one_line(exc: Any) -> str:
    """Return the text of an error of TRex's client without colors and line breaks."""
    text = re.sub("\x1b[^m]*m", "", str(exc)).replace("*", " ")
    return " ".join(text.split()) or type(exc).__name__


def _encode(value: Any) -> Any:
    """Encode a dataclass as its fields for JSON, and any other object as its representation."""
    return vars(value) if is_dataclass(value) else repr(value)


def serve(worker: Any, lines: TextIO, out: TextIO) -> None:
    """Answer requests until the input ends, then exit even if a request hangs."""
    requests: queue.Queue[str] = queue.Queue()

    def read_requests() -> None:
        """Queue the requests; exit if the last one has not ended soon after the input."""
        for line in iter(lines.readline, ""):
            requests.put(line)
        requests.put("")
        time.sleep(_GRACE_S)
        os._exit(1)

    threading.Thread(target=read_requests, daemon=True).start()
    try:
        for line in iter(requests.get, ""):
            request = json.loads(line)
            number, op = request.pop("id"), request.pop("op")
            answer = {"id": number}
            try:
                answer["ok"] = getattr(worker, op)(**request)
            except RequestError as exc:
                answer.update(error=str(exc), kind=exc.kind)
            except Exception as exc:
                answer.update(error=make_one_line(exc), kind=type(exc).__name__)
            out.write(json.dumps(answer, default=_encode) + "\n")
            out.flush()
    finally:
        with contextlib.suppress(Exception):
            worker.close()


def main(worker: Any) -> None:
    """Answer requests from stdin on stdout; redirect all output of TRex's client to stderr."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    out = io.TextIOWrapper(os.fdopen(os.dup(1), "wb"), encoding="ascii")
    os.dup2(2, 1)
    serve(worker, sys.stdin, out)
    out.flush()
    # ports were given back; TRex's client has threads that the interpreter would wait for
    os._exit(0)
