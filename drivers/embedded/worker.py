"""Entry point of the tester's child processes: ``python -m v6t.drivers.embedded.worker FD``."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

from v6t.drivers.lab import netns
from v6t.profiles.extensions import blame


class Role(Protocol):
    """What a worker does; public methods are its requests."""

    def idle(self, pipe: Connection) -> None:
        """Work until a request waits in the pipe."""


class Holder:
    """Keeps a new network namespace, or one that is there, alive and runs commands in it."""

    def __init__(self, namespace: int | None) -> None:
        if namespace is None:
            netns.unshare(netns.CLONE_NEWNET)
        else:
            netns.enter(namespace)

    def idle(self, pipe: Connection) -> None:
        """Nothing to do but wait."""
        pipe.poll(None)

    def run(self, command: list[str], text: str = "") -> tuple[int, str]:
        """Exit status and output of a command run inside the namespace."""
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def set(self, values: Mapping[str, str]) -> list[str]:
        """Write kernel settings below /proc/sys; returns those the kernel does not have."""
        absent = []
        for name, value in values.items():
            try:
                (Path("/proc/sys") / name).write_text(value)
            except FileNotFoundError:
                absent.append(name)
        return absent


def _make(spec: dict[str, Any]) -> Role:
    kind = spec.pop("kind")
    if kind == "holder":
        return Holder(spec["namespace"])
    netns.enter(spec.pop("namespace"))
    if kind == "sender":
        from v6t.drivers.embedded.sender import Sender

        return Sender(**spec)
    if kind == "receiver":
        from v6t.drivers.embedded.receiver import Receiver

        return Receiver(**spec)
    if kind == "known":
        from v6t.drivers.lab.known_device import KnownDut

        return KnownDut(**spec)
    from v6t.drivers.lab.reference_device import ReferenceDut

    return ReferenceDut(**spec)


def _serve(pipe: Connection) -> None:
    role = _make(pipe.recv())
    gc.collect()
    gc.freeze()
    pipe.send(("ok", os.getpid()))
    while True:
        try:
            role.idle(pipe)
        except (EOFError, ConnectionResetError, BrokenPipeError):
            raise
        except Exception as exc:  # noqa: BLE001  (the parent turns it into one sentence)
            pipe.recv()  # whoever asks next learns why nothing was done
            pipe.send(_told(exc))
            return
        request, arguments = pipe.recv()
        try:
            pipe.send(("ok", getattr(role, request)(**arguments)))
        except Exception as exc:  # noqa: BLE001  (the parent turns it into one sentence)
            pipe.send(_told(exc))


def _told(exc: Exception) -> tuple[str, str]:
    said = blame(exc)
    return ("error", f"{type(exc).__name__}: {exc}") if said is None else ("blamed", said)


def main() -> None:
    """Serve requests until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    netns.die_with(os.getppid())
    try:
        _serve(Connection(int(sys.argv[1])))
    except (EOFError, ConnectionResetError, BrokenPipeError):
        return
    except Exception as exc:  # noqa: BLE001  (last words, read by the parent)
        print(f"{type(exc).__name__}: {exc}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
