"""What a run requires of a device beyond its technology: sessions, filters, changes under traffic."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceRequirements:
    """What a run requires of a device beyond its technology.

    Attributes:
        sessions: connections that the device must hold; 0: no requirement.
        filters: filter rules of each direction, of which the middle one admits the test traffic.
        live_change: whether a part of its configuration is added, changed and removed under traffic.
        route_updates: whether a route that no test packet takes changes under traffic.
        bgp_speaker: whether a BGP speaker sends these updates.
        snmp_agent: whether it answers SNMP queries.
    """

    sessions: int = 0
    filters: int = 0
    live_change: bool = False
    route_updates: bool = False
    bgp_speaker: bool = False
    snmp_agent: bool = False
