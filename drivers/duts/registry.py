"""Drivers by name, from the entry point group ``v6t.duts``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from v6t.base.entry_points import Extensions
from v6t.drivers.duts.options import DutOptions, LinuxOptions

if TYPE_CHECKING:
    from v6t.drivers.duts.driver import Driver

ENTRY_POINT_GROUP = "v6t.duts"  # entry points by which packages register drivers
DEFAULT_DRIVER = "reference"  # driver of a testbed file that does not name one
DRIVERS: Extensions[Driver] = Extensions(
    ENTRY_POINT_GROUP, "v6t.drivers.duts.driver:Driver", "device driver"
)
list_driver_names = DRIVERS.list_names
load_driver_type = DRIVERS.load


def list_shared_options(*names: str) -> set[str]:
    """Return the options that mean the same for all of these drivers, such as ``ssh``."""
    models = [load_driver_type(name).options_model for name in names]
    bases = [b for b in (DutOptions, LinuxOptions) if all(issubclass(m, b) for m in models)]
    return {option for base in bases for option in base.model_fields} - {"version"}


def make_driver(name: str, options: Mapping[str, Any], *, swapped: bool = False) -> Driver:
    """Return a driver; ``swapped``: the technology's left side is at the tester's right port."""
    driver = load_driver_type(name)(options)
    if swapped and isinstance(driver.options, DutOptions):
        own = driver.options
        driver.options = own.model_copy(update={"left": own.right, "right": own.left})
    return driver
