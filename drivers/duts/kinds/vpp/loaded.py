"""Which of VPP's plugins a technology takes, and whether a VPP that runs already has loaded it."""

from __future__ import annotations

from v6t.base.errors import DutError
from v6t.intent.families import (
    AftrTunnelConfig,
    B4Config,
    DeviceConfig,
    DsLiteAftrConfig,
    LwAftrConfig,
    LwB4Config,
    MapERelayConfig,
    MapTRelayConfig,
    Nat44Config,
    Nat64Config,
    NptConfig,
)

_NAT44 = {"ed": "nat", "ei": "nat44_ei"}


def plugin(configuration: DeviceConfig, nat44: str) -> str:
    """Name of the plugin; empty: none is taken.

    Args:
        configuration: of the intent.
        nat44: the driver's option of this name.
    """
    match configuration:
        case MapERelayConfig() | MapTRelayConfig() | LwAftrConfig():
            return "map"
        case DsLiteAftrConfig():
            return "dslite"
        case Nat64Config():
            return "nat64"
        case NptConfig():
            return "npt66"
        case Nat44Config():
            return _NAT44[nat44]
        case _:
            return ""


def check(shown: str, configuration: DeviceConfig, nat44: str, tunnels: str = "") -> None:
    """Look for the plugin in what ``show plugins`` printed.

    Args:
        shown: by that command.
        configuration: of the intent.
        nat44: the driver's option of this name.
        tunnels: what ``show ipip tunnel`` printed. Since 26.10 its commands are a plugin's; a
            VPP without them does not know the command.

    Raises:
        DutError: it is not there. Its commands would fail only in the middle of the configuration.
    """
    if (
        isinstance(configuration, (LwB4Config, B4Config, AftrTunnelConfig))
        and "unknown input" in tunnels
    ):
        raise _lacking("ipip")
    name = plugin(configuration, nat44)
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
