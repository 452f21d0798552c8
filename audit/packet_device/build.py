"""Build the packet-level device of a technology from its audit views."""

from __future__ import annotations

from ipaddress import IPv6Network
from typing import TYPE_CHECKING

from v6t.audit.packet_device.device import DeviceLinks, PacketDevice, RoutingDevice
from v6t.audit.packet_device.nat import AftrDevice, Nat64Device, NatDevice
from v6t.audit.packet_device.relays import (
    MapTCustomerEdge,
    MapTRelayDevice,
    SixInFourDevice,
    TunnelCustomerEdge,
    TunnelRelay,
)
from v6t.audit.packet_device.translator import PrefixDevice, StatelessTranslatingDevice
from v6t.base.errors import UsageError
from v6t.plugins import audit_views as views

if TYPE_CHECKING:
    from v6t.plugins.base import Technology


def build_device(technology: Technology) -> PacketDevice:
    """Return a device that behaves as the RFCs require, of the first view that defines one."""
    ports = DeviceLinks.from_technology(technology)
    for view in technology.audit_views():
        match view:
            case views.Nat(aftr=None, prefix=None):
                return NatDevice(ports, view)
            case views.Nat(prefix=IPv6Network()):
                return Nat64Device(ports, view)
            case views.Nat():
                return AftrDevice(ports, view)
            case views.SharedAddressRelay():
                return (MapTRelayDevice if view.dmr else TunnelRelay)(ports, view)
            case views.CustomerEdge():
                return (MapTCustomerEdge if view.dmr else TunnelCustomerEdge)(ports, view)
            case views.Translator(table=views.AddressTable() as table):
                mtu = view.lowest_ipv6_mtu
                return StatelessTranslatingDevice(ports, view.six_side, mtu, table)
            case views.PrefixTranslator():
                return PrefixDevice(ports, view)
            case views.TunnelEnd():
                return SixInFourDevice(ports, view)
            case views.Router():
                return RoutingDevice(ports)
    raise UsageError(
        f"technology {technology.name} has no packet-level device",
        "choose a device that forwards packets",
        code="no-clauses",
    )
