"""The protocol of a worker with TRex's client: one request a line, one answer a line, as JSON.

Requests are ``{"id": 1, "op": "...", ...}``, answers ``{"id": 1, "ok": ...}`` or
``{"id": 1, "error": "...", "kind": "..."}``. When stdin ends, so does the process, after giving
the ports back.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import re
import signal
import sys
from typing import Any, TextIO


class Trouble(Exception):
    """A failure with a kind that v6t maps to its own errors."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def make_plain(value: Any) -> Any:
    """Return a copy that JSON can hold: keys become text."""
    if isinstance(value, dict):
        return {str(k): make_plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [make_plain(v) for v in value]
    return value


def make_one_line(exc: Any) -> str:
    """Return the text of an error of TRex's client without colors and line breaks."""
    text = re.sub("\x1b[^m]*m", "", str(exc)).replace("*", " ")
    return " ".join(text.split()) or type(exc).__name__


def serve(worker: Any, lines: TextIO, out: TextIO) -> None:
    """Answer requests until they end."""
    try:
        for line in iter(lines.readline, ""):
            request = json.loads(line)
            number, op = request.pop("id"), request.pop("op")
            try:
                answer = {"ok": getattr(worker, op)(**request)}
            except Trouble as exc:
                answer = {"error": str(exc), "kind": exc.kind}
            except Exception as exc:
                answer = {"error": make_one_line(exc), "kind": type(exc).__name__}
            answer["id"] = number
            out.write(json.dumps(answer, default=repr) + "\n")
            out.flush()
    finally:
        with contextlib.suppress(Exception):
            worker.close()


def main(worker: Any) -> None:
    """Serve requests on stdin; all output of TRex's client goes to stderr."""
    with contextlib.suppress(Exception):  # only Linux can end this process with its parent
        ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    out = io.TextIOWrapper(os.fdopen(os.dup(1), "wb"), encoding="ascii")
    os.dup2(2, 1)
    serve(worker, sys.stdin, out)
    out.flush()
    # ports were given back; TRex's client has threads that the interpreter would wait for
    os._exit(0)
