"""The right of this user to make network namespaces."""

import errno
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from v6t.base.errors import EnvironmentLacking
from v6t.drivers.lab import netns

_ROOT_HINT = "a container needs CAP_SYS_ADMIN, CAP_NET_ADMIN and CAP_NET_RAW; or use --tester sim"
_USER_HINT = 'run it as root (`sudo "$(command -v v6t)" ...`), or use --tester sim'
_KERNEL_REASONS = (
    ("kernel/apparmor_restrict_unprivileged_userns", "1",
     "AppArmor denies user namespaces to ordinary users here "
     "(kernel.apparmor_restrict_unprivileged_userns=1)"),
    ("kernel/unprivileged_userns_clone", "0",
     "the kernel denies user namespaces to ordinary users "
     "(kernel.unprivileged_userns_clone=0)"),
    ("user/max_user_namespaces", "0", "user.max_user_namespaces is 0"),
)  # fmt: skip
"""Kernel setting, the value that forbids user namespaces to ordinary users, and the reason."""


def acquire() -> str:
    """Get the right to make namespaces; return how: ``root`` or ``user namespace``.

    An ordinary user's process becomes root of a new user namespace, which needs a process with
    a single thread: call this before anything starts threads.

    Raises:
        EnvironmentLacking: neither way works here; the hint says what would help.
    """
    if (problem := find_problem()) is not None:
        raise problem
    if os.geteuid() == 0:
        return "root"
    try:
        netns.become_root_of_new_user_namespace()
    except OSError as exc:
        hint = _USER_HINT
        if exc.errno == errno.EINVAL:
            hint = f"this process has threads: start Python with OPENBLAS_NUM_THREADS=1; or {hint}"
        problem = f"a user namespace could not be entered: {exc}"
        raise EnvironmentLacking(problem, hint, code="missing-permission") from exc
    return "user namespace"


def find_problem() -> EnvironmentLacking | None:
    """Return the error that :func:`acquire` would raise; None if it would succeed."""
    if shutil.which("ip") is None:
        problem, hint = "the lab needs the `ip` command", "apt-get install iproute2"
        return EnvironmentLacking(problem, f"{hint}, or use --tester sim", code="missing-program")
    is_root = os.geteuid() == 0
    if (reason := _try("root" if is_root else "user")) is None:
        return None
    who, hint = ("root", _ROOT_HINT) if is_root else ("this user", _make_user_hint())
    problem = f"{who} may not make network namespaces: {reason}"
    return EnvironmentLacking(problem, hint, code="missing-permission")


def check_availability() -> tuple[bool, str]:
    """Return whether :func:`acquire` would succeed, and how or why not."""
    if (problem := find_problem()) is not None:
        return False, f"{problem.message}; {problem.hint}"
    return True, "root" if os.geteuid() == 0 else "user namespace"


@lru_cache  # a process keeps the permissions it began with
def _try(kind: str) -> str | None:
    """Make a namespace in a child; return None if that works, else the reason."""
    words = [sys.executable, "-IS", netns.__file__, kind]
    probe = subprocess.run(words, capture_output=True, text=True, check=False)
    if probe.returncode == 0:
        return None
    lines = probe.stderr.strip().splitlines()
    return lines[-1] if lines else f"status {probe.returncode}"


def _make_user_hint() -> str:
    for name, bad, reason in _KERNEL_REASONS:
        with suppress(OSError):
            if (Path("/proc/sys") / name).read_text().strip() == bad:
                return f"{reason}: {_USER_HINT}"
    return _USER_HINT
