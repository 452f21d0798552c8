"""Commands that a hint proposes: the command that failed, with other parameters or another driver."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress

from v6t.base.errors import UsageError, V6tError
from v6t.core.config.compatibility import can_configure
from v6t.core.config.plugins import load_plugin
from v6t.drivers.duts.registry import DEFAULT_DRIVER, list_driver_names, make_driver

SET_COMMANDS = ("run", "audit", "compile", "dut")
"""Commands with ``--set`` and ``--set-dut``."""
DRIVER_OPTIONS = {"run": "--dut", "audit": "--dut", "dut": "--driver"}
"""Commands that take a driver, and the option."""
SYSTEM_PATH = "/usr/sbin:/sbin"


def add_command_hints(error: UsageError, words: Sequence[str]) -> None:
    """Add the commands that avoid an error to its hint.

    Args:
        error: with parameters, driver options or a technology that would avoid it.
        words: the command line.
    """
    changes = {"--set": error.params, "--set-dut": error.dut_params}
    if any(changes.values()) and words[0] in SET_COMMANDS:
        command = ["v6t"]
        for option, value, option_words in _split_options(words, changes):
            name = value.partition("=")[0]
            if not {name, name.partition(".")[0]} & changes.get(option, {}).keys():
                command += option_words
        for option, params in changes.items():
            for name, value in params.items():
                text = str(value).lower() if isinstance(value, bool) else str(value)
                command += [option, f"{name}={text}"]
        error.add_hint(f"try: {shlex.join(command)}")
    if error.technology:
        error.add_hint(_propose_driver(words, error.technology))


def _split_options(
    words: Sequence[str], options: Container[str]
) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the words of a command line; those of ``options`` with their name and value."""
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        if option not in options:
            yield "", "", [word]
        elif equals:
            yield option, value, [word]
        else:
            value = next(rest, "")
            yield option, value, [word, value]


def _propose_driver(words: Sequence[str], technology: str) -> str:
    """Propose drivers for a technology, with a command unless a testbed file names the device."""
    drivers = list_drivers_for(technology, configured=words[0] == "dut")
    if not drivers:
        return ""
    hint = f"{technology} is made by: {', '.join(drivers)}"
    option = DRIVER_OPTIONS.get(words[0])
    if option is None or any(word.partition("=")[0] == "--testbed" for word in words):
        return hint
    parts = _split_options(words, ("--dut", "--driver", "--set-dut"))
    command = ["v6t", *(word for name, _, part in parts if not name for word in part)]
    return f"{hint}; try: {shlex.join([*command, option, _choose_driver(drivers, technology)])}"


def list_drivers_for(technology: str, *, configured: bool = False) -> list[str]:
    """Return the drivers that can configure a technology, except those that run user commands.

    Args:
        technology: name of the technology.
        configured: leave out the reference device, which has no configuration.
    """
    is_reference = not configured and _find_default_driver(technology) == DEFAULT_DRIVER
    drivers = [DEFAULT_DRIVER] if is_reference else []
    for name in list_driver_names():
        with suppress(V6tError):  # a broken driver of another distribution
            if can_configure(name, technology):
                drivers.append(name)
    return drivers


def _find_default_driver(technology: str) -> str:
    """Return the default driver in the lab, or an empty string for an unknown technology."""
    with suppress(V6tError):
        return load_plugin(technology).default_driver or DEFAULT_DRIVER
    return ""


def _choose_driver(drivers: Sequence[str], technology: str) -> str:
    """Return the default driver, else one whose programs are installed, else the first."""
    default = _find_default_driver(technology)
    if default in drivers and default != DEFAULT_DRIVER:
        return default
    path = f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"
    for name in drivers:
        programs = getattr(make_driver(name, {}), "programs", None)
        if programs and all(shutil.which(program, path=path) for program in programs):
            return name
    return drivers[0]
