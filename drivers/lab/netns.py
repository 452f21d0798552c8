"""Namespaces and process bonds the standard library of Python 3.10 has no calls for."""

import ctypes
import os
import signal
import socket
import sys
from pathlib import Path

CLONE_NEWUSER, CLONE_NEWNET, CLONE_NEWNS = 0x10000000, 0x40000000, 0x00020000
MS_PRIVATE_REC = 0x00044000  # MS_PRIVATE | MS_REC of mount(2)
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15


def _load_libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(status: int, what: str) -> None:
    if status:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Leave the namespaces named by ``flags`` for new ones, or raise OSError."""
    _check(_load_libc().unshare(flags), "unshare")


def enter(pid: int) -> None:
    """Move this process into the network namespace of another, or raise OSError."""
    handle = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        _check(_load_libc().setns(handle, CLONE_NEWNET), "setns")
    finally:
        os.close(handle)


def enter_command(pid: int | None) -> list[str]:
    """Return the command prefix that enters a process's network namespace; empty without one."""
    return [] if pid is None else ["nsenter", "-t", str(pid), "-n", "--"]


def mount(source: str, target: str, kind: str | None, flags: int = 0) -> None:
    """Mount a filesystem; without a kind, change the flags of an existing mount."""
    what = None if kind is None else kind.encode()
    status = _load_libc().mount(source.encode(), target.encode(), what, ctypes.c_ulong(flags), None)
    _check(status, f"mounting {kind or target}")


def show_in_sys() -> None:
    """Show the interfaces of this process's network namespace below its own /sys."""
    unshare(CLONE_NEWNS)
    mount("none", "/", None, MS_PRIVATE_REC)
    mount("sysfs", "/sys", "sysfs")


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, however it ends."""
    _check(_load_libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
    if os.getppid() != parent:  # it ended before the bond was made
        os._exit(1)


def set_process_title(title: str) -> None:
    """Change the name of this process in lists of processes."""
    words = title.encode()
    _load_libc().prctl(_PR_SET_NAME, words[:15], 0, 0, 0)
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # of its arguments in memory, proc(5)
    if end - start > len(words):
        ctypes.memmove(start, words.ljust(end - start, b"\0"), end - start)


def become_root_of_new_user_namespace() -> None:
    """Enter a new user namespace as its root, or raise OSError; the process must have one thread."""
    uid, gid = os.geteuid(), os.getegid()
    unshare(CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")


if __name__ == "__main__":  # :mod:`v6t.drivers.lab.privilege` tries here what the lab needs
    if sys.argv[1] == "user":
        become_root_of_new_user_namespace()
    unshare(CLONE_NEWNET)
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
