"""Which of VPP's plugins a technology takes, and whether a VPP that runs already has loaded it."""

from __future__ import annotations

from v6t.base.errors import DutError
from v6t.drivers.duts.kinds.vpp.syntax import key
from v6t.profiles.intent_settings import (
    BindingTable,
    DsLite,
    IntentSettings,
    MapRelay,
    Nat,
    Nat64,
    Npt,
)

_NAT44 = {"ed": "nat", "ei": "nat44_ei"}
_ONCE_OF_NAT = frozenset(("nat44_ei", "nat64", "dslite"))
_OF_THEIR_OWN = (21, 6)
"""From this version on these are plugins; before, all or some of them were parts of ``nat``."""


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


def check(shown: str, settings: IntentSettings, nat44: str, version: str) -> None:
    """Look for the plugin in what ``show plugins`` printed.

    Raises:
        DutError: it is not there. Its commands would fail only in the middle of the configuration.
    """
    name = plugin(settings, nat44)
    if not name or "Plugin path" not in shown:
        return
    found = {name}
    if name in _ONCE_OF_NAT and key(version) < _OF_THEIR_OWN:
        found.add("nat")
    if any(f"{one}_plugin.so" in shown.split() for one in found):
        return
    raise DutError(
        f"VPP has not loaded {name}_plugin.so",
        f"its start-up file wants `plugins {{ plugin {name}_plugin.so {{ enable }} }}`; then start it anew",
        code="plugin-not-loaded",
    )
