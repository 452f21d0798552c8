"""Options and drivers that avoid an error, added to its hint."""

from __future__ import annotations

import shlex
from contextlib import suppress

from v6t.base.errors import UsageError, V6tError
from v6t.core.config.compatibility import can_configure
from v6t.core.config.plugins import load_plugin
from v6t.drivers.duts.registry import DEFAULT_DRIVER, list_driver_names

# Commands with ``--set`` and ``--set-dut``.
SET_COMMANDS = ("run", "audit", "compile", "dut")


def add_option_hints(error: UsageError, command: str) -> None:
    """Add to the hint of an error the options that avoid it.

    Args:
        error: with parameters, driver options or a technology that would avoid it.
        command: first word of the command line.
    """
    options = []
    for option, params in (("--set", error.params), ("--set-dut", error.dut_params)):
        for name, value in params.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            options += [option, f"{name}={text}"]
    if options and command in SET_COMMANDS:
        error.add_hint(f"try: {shlex.join(options)}")
    if error.technology:
        drivers = list_compatible_drivers(error.technology, exclude_reference=command == "dut")
        error.add_hint(f"drivers for {error.technology}: {', '.join(drivers) or 'none'}")


def list_compatible_drivers(technology: str, *, exclude_reference: bool = False) -> list[str]:
    """Return the drivers that can configure a technology, except those that run user commands.

    Args:
        technology: name of the technology.
        exclude_reference: leave out the reference device, which has no configuration.
    """
    drivers = []
    with suppress(V6tError):  # an unknown technology has no default
        if not exclude_reference and not load_plugin(technology).default_driver:
            drivers.append(DEFAULT_DRIVER)
    for name in list_driver_names():
        with suppress(V6tError):  # a broken driver of another distribution
            if can_configure(name, technology):
                drivers.append(name)
    return drivers
