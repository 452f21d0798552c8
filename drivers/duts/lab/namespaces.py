"""Network, process and mount namespaces of a lab device, and their init process.

``python -m v6t.drivers.duts.lab.namespaces bound|persistent`` prints the process id that names the
namespaces. All processes in them end with that process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from v6t.base.errors import EnvironmentLacking
from v6t.drivers.lab import netns

_CLONE_NEWPID = 0x20000000  # unshare(2): new namespace for process ids


def start_namespaces(*, persistent: bool) -> tuple[subprocess.Popen[str], int]:
    """Start a process that creates the namespaces; return it and the process id of their init.

    Args:
        persistent: let the namespaces outlive this process until their init is killed.

    Raises:
        EnvironmentLacking: the kernel refuses.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, "persistent" if persistent else "bound"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    line = process.stdout.readline() if process.stdout else ""
    if not line.strip().isdigit():
        words = (process.stderr.read() if process.stderr else "").strip().splitlines()
        process.wait()
        cause = words[-1] if words else "the namespaces could not be made"
        problem = f"the lab's device could not be made: {cause}"
        hint = "it needs process and mount namespaces; root has them"
        raise EnvironmentLacking(problem, hint, code="lab-failed")
    return process, int(line)


def main() -> None:
    """Create the namespaces and wait until the init process in them ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.argv[1:] != ["persistent"]:
        netns.die_with_parent(os.getppid())
    netns.unshare(netns.CLONE_NEWNET | netns.CLONE_NEWNS | _CLONE_NEWPID)
    reader, tell = os.pipe()
    if child := os.fork():
        os.write(tell, f"{child}\n".encode())
        _, status = os.waitpid(child, 0)
        sys.exit(os.waitstatus_to_exitcode(status) != 0)
    _run_init(os.read(reader, 32))


def _run_init(outer_pid: bytes) -> None:
    """Mount the file systems, print the process id as seen from outside, and reap processes until SIGTERM."""
    netns.die_with_parent(0)  # a parent outside the process namespace is seen as 0
    netns.mount("none", "/", None, netns.MS_PRIVATE_REC)
    netns.mount("proc", "/proc", "proc")
    with contextlib.suppress(OSError):  # some containers forbid it, and most devices do not need it
        netns.mount("sysfs", "/sys", "sysfs")
    netns.mount("tmpfs", "/run", "tmpfs")
    Path("/run").chmod(0o755)
    Path("/run/sshd").mkdir(mode=0o755)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    signals = {signal.SIGCHLD, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    sys.stdout.write(outer_pid.decode())
    sys.stdout.flush()
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)
    while signal.sigwait(signals) != signal.SIGTERM:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


if __name__ == "__main__":
    try:
        main()
    except (OSError, subprocess.SubprocessError) as exc:
        print(f"{exc}", file=sys.stderr)
        sys.exit(1)
