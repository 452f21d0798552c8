"""A route beside the traffic is moved by BGP, and read back (RFC 2544 section 11.3)."""

from __future__ import annotations

from v6t.core.modifiers.routing import INTERVAL_S, Routing
from v6t.intent.device import DeviceRequirements


class Bgp(Routing):
    """The updates of a speaker that the driver starts, in place of the driver's own commands."""

    name = "bgp"
    requirements = DeviceRequirements(route_updates=True, bgp_speaker=True)

    @property
    def words(self) -> str:
        return (
            "a trial begins with a BGP update for a network that no test frame goes to, sent by a speaker "
            f"on the device itself and read back from its routing table, another one every {INTERVAL_S:g} s"
        )
