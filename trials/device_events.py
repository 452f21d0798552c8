"""Operations on a device during a trial: resets and changes of its configuration."""

from __future__ import annotations

from dataclasses import dataclass

RESET_HOOKS = ("hardware-reset", "software-reset", "power-cycle")
"""Hooks that reset a device (RFC 6201)."""
NO_CHANGE = "nothing"
"""A stream without a change, for comparison."""
CONFIGURATION_CHANGES = (NO_CHANGE, "add", "change", "remove")
"""Changes of a configuration, in the order in which they are made."""


def name_change_hook(change: str) -> str:
    """Return the name of the hook that makes a change."""
    return f"reconfiguration-{change}"


@dataclass(frozen=True)
class DeviceEvent:
    """A hook that the run calls while traffic runs.

    Testers ignore it; only the simulated tester simulates the outage.

    Attributes:
        hook: name of the hook.
        at_s: time of the call after the first frame [s].
    """

    hook: str
    at_s: float
