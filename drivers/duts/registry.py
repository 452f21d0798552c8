"""Drivers by name, from the entry point group ``v6t.duts``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from v6t.base.entry_points import Extensions
from v6t.drivers.duts.options import DutOptions

if TYPE_CHECKING:
    from v6t.drivers.duts.driver import Driver

ENTRY_POINT_GROUP = "v6t.duts"  # entry points by which packages register drivers
DEFAULT_DRIVER = "reference"  # driver of a testbed file that does not name one
DRIVERS: Extensions[Driver] = Extensions(
    ENTRY_POINT_GROUP, "v6t.drivers.duts.driver:Driver", "device driver"
)
list_driver_names = DRIVERS.names
load_driver_type = DRIVERS.load


def make_driver(name: str, options: Mapping[str, Any], *, swapped: bool = False) -> Driver:
    """Return the driver of this name, with options from the testbed file.

    Args:
        swapped: the technology's left side is at the tester's right port.
    """
    driver = load_driver_type(name)(options)
    if swapped and isinstance(driver.options, DutOptions):
        own = driver.options
        driver.options = own.model_copy(update={"left": own.right, "right": own.left})
    return driver
