"""Which of VPP's plugins a technology takes, and whether a VPP that runs already has loaded it."""

from __future__ import annotations

from v6t.base.errors import DutError
from v6t.intent.families import (
    BindingTable,
    CustomerEdge,
    DsLite,
    IntentSettings,
    MapRelay,
    Nat,
    Nat64,
    Npt,
    Softwire,
)

_NAT44 = {"ed": "nat", "ei": "nat44_ei"}


def plugin(settings: IntentSettings, nat44: str) -> str:
    """Name of the plugin; empty: none is taken.

    Args:
        settings: of the intent.
        nat44: the driver's option of this name.
    """
    match settings:
        case MapRelay() | BindingTable():
            return "map"
        case DsLite():
            return "dslite"
        case Nat64():
            return "nat64"
        case Npt():
            return "npt66"
        case Nat():
            return _NAT44[nat44]
        case _:
            return ""


def check(shown: str, settings: IntentSettings, nat44: str, tunnels: str = "") -> None:
    """Look for the plugin in what ``show plugins`` printed.

    Args:
        shown: by that command.
        settings: of the intent.
        nat44: the driver's option of this name.
        tunnels: what ``show ipip tunnel`` printed. Since 26.10 its commands are a plugin's; a
            VPP without them does not know the command.

    Raises:
        DutError: it is not there. Its commands would fail only in the middle of the configuration.
    """
    if isinstance(settings, (CustomerEdge, Softwire)) and "unknown input" in tunnels:
        raise _lacking("ipip")
    name = plugin(settings, nat44)
    if not name or "Plugin path" not in shown:
        return
    if f"{name}_plugin.so" in shown.split():
        return
    raise _lacking(name)


def _lacking(name: str) -> DutError:
    return DutError(
        f"VPP has not loaded {name}_plugin.so",
        f"its start-up file wants `plugins {{ plugin {name}_plugin.so {{ enable }} }}`; then start it anew",
        code="plugin-not-loaded",
    )
