"""Build the packet-level device of a technology from its audit views."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network
from typing import TYPE_CHECKING

from v6t.audit.packet_device import nat, relays, translator
from v6t.audit.packet_device.device import PacketDevice, RoutingDevice
from v6t.base.errors import UsageError
from v6t.plugins import audit_views as views

if TYPE_CHECKING:
    from v6t.plugins.base import Technology


def build_device(technology: Technology) -> PacketDevice:
    """Return a device that behaves as the RFCs require, of the first view that defines one."""
    for view in technology.audit_views():
        if kind := _find_kind(view):
            return kind(technology.dut_intent(), view)
    problem = f"technology {technology.name} has no packet-level device"
    raise UsageError(problem, "choose a device that forwards packets", code="no-clauses")


def _find_kind(view: views.AuditView) -> type[PacketDevice] | None:
    match view:
        case views.Nat(prefix=IPv6Network()):
            return nat.Nat64Device
        case views.Nat(aftr=IPv6Address()):
            return nat.AftrDevice
        case views.SharedAddressRelay(dmr=IPv6Network()):
            return relays.MapTRelayDevice
        case views.CustomerEdge(dmr=IPv6Network()):
            return relays.MapTCustomerEdge
        case views.Translator(table=None):
            return None
    return _KINDS[type(view)]


_KINDS: dict[type, type[PacketDevice]] = {
    views.Nat: nat.NatDevice,
    views.SharedAddressRelay: relays.TunnelRelay,
    views.CustomerEdge: relays.TunnelCustomerEdge,
    views.Translator: translator.StatelessTranslatingDevice,
    views.PrefixTranslator: translator.PrefixDevice,
    views.TunnelEnd: relays.SixInFourDevice,
    views.Router: RoutingDevice,
}
