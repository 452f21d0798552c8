"""Requests a line, answers a line: how a worker with TRex's client is talked to.

Handed over with :mod:`v6t.drivers.trex.client_worker`: old syntax, the standard library only.

One request a line, ``{"id": 1, "op": "...", ...}``; one answer a line, ``{"id": 1, "ok": ...}`` or
``{"id": 1, "error": "...", "kind": "..."}``. When stdin ends, so does the process, after giving
the ports back.
"""

import ctypes
import io
import json
import os
import signal
import sys


class Trouble(Exception):
    """A failure with a kind that v6t maps to its own errors."""

    def __init__(self, kind, text):
        Exception.__init__(self, text)
        self.kind = kind


def plain(value):
    """JSON-able copy: keys become text."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def one_line(exc):
    """An error of TRex's client without colours and line breaks."""
    text, out, skip = str(exc), [], False
    for char in text:
        if char == "\x1b":
            skip = True
        elif skip:
            skip = char != "m"
        else:
            out.append(char)
    return " ".join("".join(out).replace("*", " ").split()) or type(exc).__name__


def die_with_parent():
    """Have the kernel end this process when its parent ends; only Linux can."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)
    except Exception:
        pass


def serve(worker, lines, out):
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
                answer = {"error": one_line(exc), "kind": type(exc).__name__}
            answer["id"] = number
            out.write(json.dumps(answer, default=repr) + "\n")
            out.flush()
    finally:
        try:
            worker.close()
        except Exception:
            pass


def main(worker):
    """Requests on stdin, answers on stdout; whatever TRex's client prints goes to stderr."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    out = io.TextIOWrapper(os.fdopen(os.dup(1), "wb"), encoding="ascii")
    os.dup2(2, 1)
    serve(worker, sys.stdin, out)
    out.flush()
    # ports were given back; TRex's client has threads that the interpreter would wait for
    os._exit(0)
