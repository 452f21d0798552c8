"""Device drivers in short, for ``v6t dut list``."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

from v6t.base.errors import V6tError
from v6t.core.config.compatibility import technologies_for
from v6t.drivers.duts.registry import make_driver, names

SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin"


@dataclass(frozen=True)
class DriverSummary:
    """A driver in one line.

    Attributes:
        name: name of the driver.
        title: what the device is.
        technologies: technologies it configures; empty: any, by the user's own lines.
        programs: programs it needs, and whether this machine has them.
    """

    name: str
    title: str
    technologies: tuple[str, ...]
    programs: dict[str, bool]


def list_drivers() -> list[DriverSummary]:
    """List the drivers that can be loaded, by name."""
    path = f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"
    drivers = []
    for name in names():
        try:
            driver = make_driver(name, {})
            technologies = technologies_for(name)
        except V6tError:  # a broken driver of another distribution; doctor shows it
            continue
        programs = {
            program: shutil.which(program, path=path) is not None
            for program in getattr(driver, "programs", None) or ()
        }
        drivers.append(DriverSummary(name, driver.title, technologies, programs))
    return drivers
