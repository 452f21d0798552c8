"""Drivers by name, found through the entry point group ``v6t.duts``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from v6t.profiles.extensions import Extensions

if TYPE_CHECKING:
    from v6t.drivers.duts.driver import Driver

GROUP = "v6t.duts"
REFERENCE = "reference"
"""The device where a file names none."""
DRIVERS: Extensions[Driver] = Extensions(GROUP, "v6t.drivers.duts.driver:Driver", "device driver")
names = DRIVERS.names
driver_type = DRIVERS.load


def make_driver(name: str, options: Mapping[str, Any]) -> Driver:
    """A driver with its options.

    Raises:
        UsageError: no such driver, or an option is wrong.
    """
    return driver_type(name)(options)
