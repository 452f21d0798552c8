"""The server that forks the workers of the lab, and the life of a worker.

It runs in a fork of v6t, or as ``python -m v6t.drivers.lab.worker FD MODULE...``, see :mod:`.nursery`.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol

from v6t.base.entry_points import describe_culprit
from v6t.drivers.lab import netns

NUMBER = struct.Struct("=i")
"""A request: the worker to end, or 0 for a new one, with its descriptors. The answer: its status or id."""


class Role(Protocol):
    """The work of a worker; its public methods are requests."""

    def idle(self, pipe: Connection) -> None:
        """Work until a request waits in the pipe."""


class Holder:
    """Keeps a new network namespace, or one that is there, alive and runs commands in it."""

    def __init__(self, target: int | None) -> None:
        self._sees_own = False
        if target is None:
            netns.unshare(netns.CLONE_NEWNET)
        else:
            netns.enter(target)

    def idle(self, pipe: Connection) -> None:
        """Wait for the next request."""
        pipe.poll(None)

    def run(self, command: list[str], text: str = "") -> tuple[int, str]:
        """Run a command inside the namespace; return its exit status and output."""
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def set(self, values: Mapping[str, str]) -> list[str]:
        """Write kernel settings below /proc/sys; return those the kernel does not have."""
        absent = []
        for name, value in values.items():
            try:
                (Path("/proc/sys") / name).write_text(value)
            except FileNotFoundError:
                absent.append(name)
        return absent

    def steer(self, mask: str) -> tuple[list[str], str]:
        """Have the CPUs of a mask receive frames of this namespace's interfaces (RPS).

        Queues that already have CPUs keep them.

        Returns:
            Interfaces steered now, and why no more could be; empty: they could.
        """
        found = []
        try:
            if not self._sees_own:
                netns.show_in_sys()
                self._sees_own = True
            for queues in sorted(Path("/sys/class/net").glob("*/queues")):
                name = queues.parent.name
                mine = [q for q in queues.glob("rx-*/rps_cpus") if not _has_cpus(q)]
                for queue in mine if name != "lo" else ():
                    queue.write_text(mask)
                    found.append(name)
        except OSError as exc:
            return found, exc.strerror or str(exc)
        return sorted(set(found)), ""


def _has_cpus(queue: Path) -> bool:
    return bool(queue.read_text().strip("0,\n"))


def _serve(pipe: Connection) -> None:
    role_class, namespace, values = pipe.recv()
    if namespace is not None:  # else interfaces of this machine
        netns.enter(namespace)
    role: Role = role_class(**values)
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
            pipe.send(_describe_error(exc))
            return
        request, arguments = pipe.recv()
        try:
            pipe.send(("ok", getattr(role, request)(**arguments)))
        except Exception as exc:  # noqa: BLE001  (the parent turns it into one sentence)
            pipe.send(_describe_error(exc))


def _describe_error(exc: Exception) -> tuple[str, str]:
    said = describe_culprit(exc)
    return ("error", f"{type(exc).__name__}: {exc}") if said is None else ("blamed", said)


def _work(pipe: Connection, output: int) -> None:
    """Serve requests until the pipe is closed."""
    os.setsid()
    for stream in (1, 2):
        os.dup2(output, stream)
    os.close(output)
    surroundings, place, sys.path = pipe.recv()
    os.environ.clear()
    os.environ.update(surroundings)
    os.chdir(place)
    _serve(pipe)


def _run_child(mother: int, pipe: int, output: int) -> None:
    """Work in the forked process, which does not return."""
    status = 0
    try:
        netns.die_with(mother)
        _work(Connection(pipe), output)
    except (EOFError, ConnectionResetError, BrokenPipeError):
        pass
    except Exception as exc:  # noqa: BLE001  (last words, read by the parent)
        print(f"{type(exc).__name__}: {exc}", file=sys.stderr, flush=True)
        status = 1
    finally:
        os._exit(status)


def main() -> None:
    """Load the modules that workers need, then serve."""
    netns.die_with(os.getppid())
    for name in sys.argv[2:]:
        importlib.import_module(name)
    serve(int(sys.argv[1]))


def serve(line: int) -> None:
    """Start and end workers until the socket is closed.

    Args:
        line: descriptor of the socket.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked = socket.socket(fileno=line)
    gc.collect()
    gc.freeze()  # pages that are never looked through stay shared
    while True:
        request, descriptors, _, _ = socket.recv_fds(asked, NUMBER.size, 2)
        if not request:
            return
        (pid,) = NUMBER.unpack(request)
        if pid:
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            asked.sendall(NUMBER.pack(os.waitstatus_to_exitcode(status)))
            continue
        mother = os.getpid()
        pid = os.fork()
        if not pid:
            asked.close()
            _run_child(mother, *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        asked.sendall(NUMBER.pack(pid))


if __name__ == "__main__":
    main()
