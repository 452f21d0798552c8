"""Network, process and mount namespaces of a lab device, and the processes that hold them."""

import subprocess
from collections.abc import Sequence

from v6t.base.errors import EnvironmentLacking

# Mounts the file systems, prints the init's process id as seen from outside, and reaps processes.
_INIT_SCRIPT = """\
set -e
trap exit TERM
read -r pid rest </proc/self/stat
mount -t proc proc /proc
mount -t sysfs sysfs /sys || true  # some containers forbid it, and most devices do not need it
mount -t tmpfs -o mode=755 tmpfs /run
ip link set lo up
echo "$pid"
exec >/dev/null 2>&1
while true; do sleep infinity & wait; done
"""
# Runs with the /proc of this machine, then enters the mount namespace of process $0; $1 is the name.
_NETNS_SCRIPT = """\
read -r pid rest </proc/self/stat
export pid
exec nsenter -t "$0" -m -- sh -ec '
[ -e "/run/netns/$0" ] || { ip netns add "$0"; ip -n "$0" link set lo up; }
exec ip netns exec "$0" sh -c "echo \\$pid; exec sleep infinity >/dev/null 2>&1"' "$1"
"""


def start_namespaces(*, persistent: bool) -> tuple[subprocess.Popen[str], int]:
    """Start a process that creates the namespaces; return it and the process id of their init.

    All processes in the namespaces end with their init, and the init with the returned process.

    Args:
        persistent: let the namespaces outlive this process until their init is killed.

    Raises:
        EnvironmentLacking: the kernel refuses.
    """
    bond = [] if persistent else ["setpriv", "--pdeathsig", "KILL"]
    unshare = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child"]
    return _start_holder([*bond, *unshare, "sh", "-c", _INIT_SCRIPT], "device")


def start_named_namespace(init_pid: int, name: str) -> int:
    """Add a named network namespace to those of an init unless it exists; return a process id in it."""
    enter_network = ["nsenter", "-t", str(init_pid), "-n", "-p", "--"]
    words = [*enter_network, "sh", "-c", _NETNS_SCRIPT, str(init_pid), name]
    return _start_holder(words, "network namespace")[1]


def _start_holder(words: Sequence[str], noun: str) -> tuple[subprocess.Popen[str], int]:
    """Start a process that prints the id of one that holds namespaces; return both."""
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    except OSError as exc:
        problem = f"the lab's {noun} could not be made: {exc.filename}: {exc.strerror}"
        raise EnvironmentLacking(problem, "install util-linux", code="lab-failed") from exc
    line = process.stdout.readline() if process.stdout else ""
    if not line.strip().isdigit():
        lines = (process.stderr.read() if process.stderr else "").strip().splitlines()
        process.wait()
        problem = f"the lab's {noun} could not be made: {lines[-1] if lines else 'no reason given'}"
        hint = "it needs process and mount namespaces; root has them"
        raise EnvironmentLacking(problem, hint, code="lab-failed")
    return process, int(line)
