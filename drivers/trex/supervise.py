"""Run one program so that it can never outlive v6t: ``python -m v6t.drivers.trex.supervise``.

The kernel signals this process when its parent ends, however it ends; it then ends the program and
everything the program started. It may enter the lab's network namespace first.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence

from v6t.drivers.lab import netns

GRACE_S = 6.0
"""TRex needs seconds to close its ports; after this time it is killed."""
_PR_SET_PDEATHSIG = 1


def command(program: Sequence[str], namespace_pid: int | None = None) -> list[str]:
    """Return the command that runs a program under this guard, in the network namespace of a process."""
    where = [] if namespace_pid is None else ["--namespace", str(namespace_pid)]
    guard = [sys.executable, "-m", "v6t.drivers.trex.supervise", "--parent", str(os.getpid())]
    return [*guard, *where, "--", *program]


class _EndRequest(Exception):
    """A signal asked this process to end."""


def _request_end(number: int, frame: object) -> None:
    raise _EndRequest


def run(program: Sequence[str], parent: int, namespace_pid: int | None) -> int:
    """Start the program and wait for its end, or for a signal to end it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for v6t, which then ends us in order
    signal.signal(signal.SIGTERM, _request_end)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the bond was made
        return 1
    if namespace_pid is not None:
        netns.enter(namespace_pid)
    child = subprocess.Popen(program, start_new_session=True)
    try:
        return child.wait()
    except _EndRequest:
        _end(child)
        return 0


def _end(child: subprocess.Popen[bytes]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with contextlib.suppress(ProcessLookupError, PermissionError):  # no one is left in the group
        for number in (signal.SIGTERM, signal.SIGKILL):
            os.killpg(child.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(GRACE_S)
                os.killpg(child.pid, 0)


def main() -> None:
    """Run the program of the command line and return its exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--namespace", type=int)
    parser.add_argument("program", nargs="+")
    arguments = parser.parse_args()
    try:
        sys.exit(run(arguments.program, arguments.parent, arguments.namespace))
    except OSError as exc:
        print(f"{arguments.program[0]}: {exc.strerror or exc}", file=sys.stderr)
        sys.exit(127)


if __name__ == "__main__":
    main()
