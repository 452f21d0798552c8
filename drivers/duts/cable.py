"""No device: the tester's two ports joined, for self-tests and direct connections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from v6t.drivers.duts.driver import Driver
from v6t.drivers.duts.options import Hook
from v6t.drivers.duts.reference import Reference
from v6t.profiles.strict_model import StrictModel


class CableOptions(StrictModel):
    """No device: a cable from one port of the tester to the other.

    In the lab v6t joins them itself. Frames must come back as they were sent, and what is measured is
    the tester.
    """


class Cable(Reference):
    """Nothing between the tester's ports."""

    name = "cable"
    title = "no device: the tester's ports joined, to measure the tester itself"
    executed = "with real frames"
    options_model = CableOptions
    absent = True

    @property
    def hooks(self) -> Mapping[str, Hook]:
        """Nothing has to be emptied."""
        return {}

    @property
    def overrides(self) -> Mapping[str, Any]:
        """Nobody believes anything."""
        return {}

    @classmethod
    def from_flags(cls, given: Mapping[str, Any], flags: Mapping[str, Any]) -> Mapping[str, Any]:
        """It has no options."""
        return Driver.from_flags(given, flags)
