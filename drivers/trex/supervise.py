"""Run one program so that it can never outlive v6t: ``python -m v6t.drivers.trex.supervise``.

The kernel signals this process when its parent ends, however it ends; it then ends the program and
everything the program started. It may enter the lab's network namespace first.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence

from v6t.drivers.lab import netns

GRACE_S = 6.0
"""TRex needs seconds to close its ports; after this time it is killed."""
_PR_SET_PDEATHSIG = 1


def command(
    program: Sequence[str], namespace_pid: int | None = None, leaves: str = ""
) -> list[str]:
    """Return the command that runs ``program`` under this guard.

    Args:
        program: to be run.
        namespace_pid: process whose network namespace it enters; None: this one's.
        leaves: directory that the program leaves behind, which is removed then.
    """
    where = [] if namespace_pid is None else ["--namespace", str(namespace_pid)]
    return [
        sys.executable, "-m", "v6t.drivers.trex.supervise", "--parent", str(os.getpid()), *where,
        "--leaves", leaves, "--", *program,
    ]  # fmt: skip


class _EndRequest(Exception):
    """A signal asked this process to end."""


def _request_end(number: int, frame: object) -> None:
    raise _EndRequest


def run(program: Sequence[str], parent: int, namespace_pid: int | None, leaves: str = "") -> int:
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
    finally:
        if leaves:
            shutil.rmtree(leaves, ignore_errors=True)


def _end(child: subprocess.Popen[bytes]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            break
        try:
            child.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            continue
        if not _group_lives(child.pid):
            break


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def main() -> None:
    """Run the program of the command line and return its exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--namespace", type=int)
    parser.add_argument("--leaves", default="")
    parser.add_argument("program", nargs="+")
    arguments = parser.parse_args()
    try:
        sys.exit(run(arguments.program, arguments.parent, arguments.namespace, arguments.leaves))
    except OSError as exc:
        print(f"{arguments.program[0]}: {exc.strerror or exc}", file=sys.stderr)
        sys.exit(127)


if __name__ == "__main__":
    main()
