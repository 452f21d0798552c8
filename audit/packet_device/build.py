"""Build the packet-level device of a technology from its audit views."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Any

from v6t.audit.packet_device.device import DeviceLinks, PacketDevice, RoutingDevice
from v6t.audit.packet_device.maps import MapDomain, MapSharing, PrefixMap, SoftwireSharing
from v6t.audit.packet_device.nat import AftrDevice, Nat64Device, NatDevice
from v6t.audit.packet_device.prefix import PrefixDevice
from v6t.audit.packet_device.relays import (
    MapTCustomerEdge,
    MapTRelayDevice,
    TunnelCustomerEdge,
    TunnelRelay,
)
from v6t.audit.packet_device.six_in_four import SixInFourDevice
from v6t.audit.packet_device.translator import StatelessTranslatingDevice
from v6t.base.errors import UsageError
from v6t.plugins import audit_views as views

if TYPE_CHECKING:
    from v6t.plugins.base import Technology


def build_device(technology: Technology) -> PacketDevice:
    """Return a device that behaves as the RFCs require."""
    ports = DeviceLinks.from_technology(technology)
    roles = {type(view): view for view in technology.audit_views()}
    for kind, build in BUILDERS.items():
        device = build(ports, roles[kind]) if kind in roles else None
        if device is not None:
            return device
    raise UsageError(
        f"technology {technology.name} has no packet-level device",
        "choose a device that forwards packets",
        code="no-clauses",
    )


def build_relay(ports: DeviceLinks, view: views.SharedAddressRelay) -> PacketDevice:
    """Return a MAP-E or MAP-T border relay, or an lwAFTR."""
    if view.softwires is not None:
        device = TunnelRelay(ports, SoftwireSharing(view.softwires, view.relays))
        device.reports_sources = True
        return device
    is_mapt = view.dmr is not None
    domains = [MapDomain(rule, embeds_host=is_mapt) for rule in view.rules]
    sharing = MapSharing(domains, view.relay, view.relays)
    if view.dmr is None:
        return TunnelRelay(ports, sharing)
    return MapTRelayDevice(ports, sharing, PrefixMap(view.dmr), view.lowest_ipv6_mtu)


def build_customer_edge(ports: DeviceLinks, view: views.CustomerEdge) -> PacketDevice:
    """Return a MAP-E CE, a MAP-T CE or an lwB4."""
    if view.dmr is None or view.rule is None:
        return TunnelCustomerEdge(ports, view)
    sharing = MapSharing([MapDomain(view.rule, embeds_host=True)], IPv6Address("::"))
    return MapTCustomerEdge(ports, view, sharing, PrefixMap(view.dmr))


def build_nat(ports: DeviceLinks, view: views.Nat) -> PacketDevice:
    """Return a NAT44, NAT66, NAT64 or the AFTR of DS-Lite."""
    if view.prefix is not None:
        return Nat64Device(ports, view, view.prefix)
    return NatDevice(ports, view) if view.aftr is None else AftrDevice(ports, view, view.aftr)


def build_translator(ports: DeviceLinks, view: views.Translator) -> PacketDevice | None:
    """Return a SIIT or CLAT; None if another view defines the mapping."""
    if view.table is None:
        return None
    return StatelessTranslatingDevice(ports, view.six_side, view.lowest_ipv6_mtu, view.table)


BUILDERS: dict[type, Callable[[DeviceLinks, Any], PacketDevice | None]] = {
    views.Nat: build_nat,
    views.SharedAddressRelay: build_relay,
    views.CustomerEdge: build_customer_edge,
    views.Translator: build_translator,
    views.PrefixTranslator: PrefixDevice,
    views.TunnelEnd: SixInFourDevice,
    views.Router: lambda ports, _: RoutingDevice(ports),
}
"""By view, the most specific ones first: a relay has the view of its tunnels, too."""
