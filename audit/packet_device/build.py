"""Build the packet-level device of a technology from its audit views."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import TYPE_CHECKING, TypeVar

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
    from collections.abc import Sequence

    from v6t.plugins.base import Technology

View = TypeVar("View")


def build_device(technology: Technology) -> PacketDevice:
    """Return a device that behaves as the RFCs require."""
    roles, ports = technology.audit_views(), DeviceLinks.from_technology(technology)
    relay, edge = find(roles, views.SharedAddressRelay), find(roles, views.CustomerEdge)
    translator, nat = find(roles, views.Translator), find(roles, views.Nat)
    if nat is not None:
        return build_nat(ports, nat)
    if relay is not None:
        return build_relay(ports, relay)
    if edge is not None:
        return build_customer_edge(ports, edge)
    if translator is not None and translator.table is not None:
        return StatelessTranslatingDevice(
            ports, translator.six_side, translator.lowest_ipv6_mtu, translator.table
        )
    prefix = find(roles, views.PrefixTranslator)
    if prefix is not None:
        return PrefixDevice(ports, prefix)
    tunnel = find(roles, views.TunnelEnd)
    if tunnel is not None:
        return SixInFourDevice(ports, tunnel)
    if find(roles, views.Router) is None:
        raise UsageError(
            f"technology {technology.name} has no packet-level device",
            "choose a device that forwards packets",
            code="no-clauses",
        )
    return RoutingDevice(ports)


def find(roles: Sequence[views.AuditView], view: type[View]) -> View | None:
    """Return the view of a type, or None."""
    return next((v for v in roles if isinstance(v, view)), None)


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
        return Nat64Device(ports, view, PrefixMap(view.prefix))
    return NatDevice(ports, view) if view.aftr is None else AftrDevice(ports, view)
