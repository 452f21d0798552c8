"""One frame in a hundred is a broadcast that the device has nothing to do with (RFC 2544 section 11.1)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from v6t.core.modifiers.base import Modifier
from v6t.profiles.model import Layer, Role, Traffic, TrafficClass

if TYPE_CHECKING:
    from v6t.intent.device import Links

NAME = "broadcast"
OTHERS = 99
"""Test frames for each broadcast."""
ETHERTYPE = 0x88B5
"""For local experiments (IEEE 802): no protocol of a router, which has to take the frame and drop it."""


class Broadcast(Modifier):
    """In place of every hundredth test frame, evenly spread; none may come out of the device."""

    name = NAME
    source = "RFC 2544 section 11.1"

    @property
    def words(self) -> str:
        return "1 frame in 100 is a broadcast of no protocol that a router knows, in place of a test frame"

    def traffic(self, traffic: Traffic, links: Links) -> Traffic:
        """Add a class of frames to be dropped, as long as the first class's."""
        link = links.left if traffic.direction == "forward" else links.right
        kind: dict[str, object] = {"type": ETHERTYPE}
        addresses = {"src": link.tester_mac, "dst": "ff:ff:ff:ff:ff:ff"}
        layers = (
            (Layer("Ether", {**addresses, **kind}),)
            if link.vlan is None
            else (Layer("Ether", addresses), Layer("Dot1Q", {"vlan": link.vlan, **kind}))
        )
        others = tuple(replace(c, weight=OTHERS * c.weight) for c in traffic.classes)
        weight = sum(c.weight for c in traffic.classes)
        octets = traffic.classes[0].frame_size
        sent = TrafficClass(NAME, Role.NEGATIVE, layers, octets, weight=weight)
        return replace(traffic, classes=(*others, sent))
