"""Drivers by name; each module is imported when its driver is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from v6t.profiles.errors import UsageError

if TYPE_CHECKING:
    from v6t.drivers.duts.driver import Driver

DRIVERS = {
    "linux-router": "linux_router:LinuxRouter",
    "nftables": "nftables:Nftables",
    "iptables": "iptables:Iptables",
    "tayga": "tayga:Tayga",
    "tayga-nftables": "tayga_nat64:TaygaNftables",
    "jool": "jool:Jool",
    "vpp": "vpp:Vpp",
    "openbsd-pf": "openbsd_pf:OpenBsdPf",
    "snabb-lwaftr": "snabb_lwaftr:SnabbLwAftr",
    "map646": "map646:Map646",
    "command": "command:Command",
}


def driver_type(name: str) -> type[Driver]:
    """A driver's class.

    Raises:
        UsageError: there is none of this name.
    """
    if name not in DRIVERS:
        raise UsageError(f"there is no device driver '{name}'", "known: " + ", ".join(DRIVERS))
    module, _, attribute = DRIVERS[name].partition(":")
    found: type[Driver] = getattr(
        importlib.import_module(f"v6t.drivers.duts.kinds.{module}"), attribute
    )
    return found


def make_driver(name: str, options: Mapping[str, Any]) -> Driver:
    """A driver with its options.

    Raises:
        UsageError: no such driver, or an option is wrong.
    """
    return driver_type(name)(options)
