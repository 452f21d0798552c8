"""Build the packet-level device of a technology from its audit views."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network
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
            case views.Nat(prefix=IPv6Network() as prefix):
                return Nat64Device(ports, view, prefix)
            case views.Nat(aftr=IPv6Address() as aftr):
                return AftrDevice(ports, view, aftr)
            case views.Nat():
                return NatDevice(ports, view)
            case views.SharedAddressRelay(dmr=IPv6Network() as dmr):
                return MapTRelayDevice(ports, view, dmr)
            case views.SharedAddressRelay():
                return TunnelRelay(ports, view)
            case views.CustomerEdge(dmr=IPv6Network() as dmr) if view.rule:
                return MapTCustomerEdge(ports, view, view.rule, dmr)
            case views.CustomerEdge():
                return TunnelCustomerEdge(ports, view)
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
