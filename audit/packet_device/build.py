"""Build the packet-level device of a technology from its audit views."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network
from typing import TYPE_CHECKING

from v6t.audit.packet_device.device import PacketDevice, RoutingDevice
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
    intent = technology.dut_intent()
    for view in technology.audit_views():
        match view:
            case views.Nat(prefix=IPv6Network() as prefix):
                return Nat64Device(intent, view, prefix)
            case views.Nat(aftr=IPv6Address() as aftr):
                return AftrDevice(intent, view, aftr)
            case views.Nat():
                return NatDevice(intent, view)
            case views.SharedAddressRelay(dmr=IPv6Network() as dmr):
                return MapTRelayDevice(intent, view, dmr)
            case views.SharedAddressRelay():
                return TunnelRelay(intent, view)
            case views.CustomerEdge(dmr=IPv6Network() as dmr) if view.rule:
                return MapTCustomerEdge(intent, view, view.rule, dmr)
            case views.CustomerEdge():
                return TunnelCustomerEdge(intent, view)
            case views.Translator(table=views.AddressTable() as table):
                mtu = view.lowest_ipv6_mtu
                return StatelessTranslatingDevice(intent, view.six_side, mtu, table)
            case views.PrefixTranslator():
                return PrefixDevice(intent, view)
            case views.TunnelEnd():
                return SixInFourDevice(intent, view)
            case views.Router():
                return RoutingDevice(intent)
    raise UsageError(
        f"technology {technology.name} has no packet-level device",
        "choose a device that forwards packets",
        code="no-clauses",
    )
