"""What to type where the named device cannot be the technology: the drivers that can, and a command."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from contextlib import suppress

from v6t.base.errors import V6tError
from v6t.core.config.compatibility import can_be
from v6t.core.config.plugins import load_plugin
from v6t.drivers.duts.registry import REFERENCE, make_driver, names

COMMANDS = {"run": "--dut", "audit": "--dut", "dut": "--driver"}
"""Those that take a device, and by which flag."""
FLAGS = ("--dut", "--driver", "--set-dut")
"""What is said of the driver that cannot."""
TESTBED = "--testbed"
SYSTEM = "/usr/sbin:/sbin"


def another_driver(arguments: Sequence[str], technology: str) -> str:
    """``"nat46 is made by: chain; try: v6t run --plugin nat46 --dut chain"``; empty: nobody can.

    Args:
        arguments: of the command line. A device of a testbed file is wherever that says: then no command is
            given, for another driver may not be for it.
        technology: its name.
    """
    flag = COMMANDS.get(arguments[0], "")
    able = drivers_for(technology, configured=arguments[0] == "dut")
    if not able:
        return ""
    said = f"{technology} is made by: {', '.join(able)}"
    if not flag or TESTBED in {word.partition("=")[0] for word in arguments}:
        return said
    kept: list[str] = []
    words = iter(arguments)
    for word in words:
        name, joined, _ = word.partition("=")
        whole = [word] if joined or name not in FLAGS else [word, next(words, "")]
        kept += [] if name in FLAGS else whole
    return f"{said}; try: {shlex.join(['v6t', *kept, flag, _nearest(able, technology)])}"


def drivers_for(technology: str, *, configured: bool = False) -> list[str]:
    """Whose device can be the whole of it; without those that type what the user says (``command``).

    Args:
        technology: its name.
        configured: only devices that there is something to configure of.
    """
    reference = not configured and _default(technology) == REFERENCE
    able = [REFERENCE] if reference else []
    for name in names():
        with suppress(V6tError):  # of another distribution, and broken
            if can_be(name, technology):
                able.append(name)
    return able


def _default(technology: str) -> str:
    """Return the lab's default driver; empty: there is no such technology."""
    with suppress(V6tError):
        return load_plugin(technology).default_driver or REFERENCE
    return ""


def _nearest(able: Sequence[str], technology: str) -> str:
    """Return the lab's own choice; else a driver whose programs are installed, or any."""
    default = _default(technology)
    if default in able and default != REFERENCE:
        return default
    path = f"{os.environ.get('PATH', '')}:{SYSTEM}"
    for name in able:
        programs = getattr(make_driver(name, {}), "programs", None)
        if programs and all(shutil.which(program, path=path) for program in programs):
            return name
    return able[0]
