"""Drivers by name: v6t's own, and those of the entry point group ``v6t.duts``.

Each module is imported when its driver is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from v6t.profiles.errors import UsageError

if TYPE_CHECKING:
    from v6t.drivers.duts.driver import Driver

GROUP = "v6t.duts"
DRIVERS = {
    "linux-router": "kinds.linux.router:LinuxRouter",
    "nftables": "kinds.netfilter.nftables:Nftables",
    "iptables": "kinds.netfilter.iptables:Iptables",
    "tayga": "kinds.tayga.siit:Tayga",
    "tayga-nftables": "kinds.tayga.nat64:TaygaNftables",
    "jool": "kinds.jool:Jool",
    "vpp": "kinds.vpp.driver:Vpp",
    "openbsd-pf": "kinds.openbsd_pf:OpenBsdPf",
    "snabb-lwaftr": "kinds.snabb_lwaftr:SnabbLwAftr",
    "map646": "kinds.map646:Map646",
    "command": "kinds.command:Command",
    "nftables66": "kinds.netfilter.nftables66:Nftables66",
    "chain": "chain.driver:Chain",
}


def names() -> list[str]:
    """Names of all drivers; none is imported."""
    return [*DRIVERS, *sorted({e.name for e in _foreign()} - set(DRIVERS))]


def driver_type(name: str) -> type[Driver]:
    """A driver's class.

    Raises:
        UsageError: there is none of this name, or one that cannot be imported.
    """
    if name not in DRIVERS:
        return _from_outside(name)
    module, _, attribute = DRIVERS[name].partition(":")
    found: type[Driver] = getattr(importlib.import_module(f"v6t.drivers.duts.{module}"), attribute)
    return found


def make_driver(name: str, options: Mapping[str, Any]) -> Driver:
    """A driver with its options.

    Raises:
        UsageError: no such driver, or an option is wrong.
    """
    return driver_type(name)(options)


def _foreign() -> list[EntryPoint]:
    return list({(e.name, e.value): e for e in entry_points(group=GROUP)}.values())


def _from_outside(name: str) -> type[Driver]:
    from v6t.drivers.duts.driver import Driver

    found = [e for e in _foreign() if e.name == name]
    if not found:
        raise UsageError(f"there is no device driver '{name}'", "known: " + ", ".join(names()))
    if len(found) > 1:
        raise UsageError(f"two device drivers are called '{name}'", "uninstall one")
    try:
        kind = found[0].load()
    except Exception as exc:  # a foreign module may raise anything
        raise UsageError(
            f"the device driver '{name}' cannot be loaded: {type(exc).__name__}: {exc}"
        ) from exc
    if not (isinstance(kind, type) and issubclass(kind, Driver)):
        raise UsageError(f"the device driver '{name}' is no Driver class")
    return kind
