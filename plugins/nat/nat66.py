"""Stateful NAT66: IPv6 clients left, public IPv6 addresses and ports right."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Interface
from typing import TYPE_CHECKING, Any

from pydantic import Field, model_validator
from v6t.plugins.base import DutIntent, Links
from v6t.plugins.common.mixture import ethernet, ipv6
from v6t.plugins.common.sizes import routed_pair
from v6t.plugins.stateful.base import Packets, StatefulTechnology
from v6t.plugins.stateful.four_tuples import Field as TupleField
from v6t.plugins.stateful.pool6 import Pool6Params, span
from v6t.plugins.stateful.rewrite import learned_source, rewritten, source_of, within6
from v6t.profiles.model import FramePair, Layer, Role, TrafficClass

if TYPE_CHECKING:
    from v6t.plugins.common.octets import U8
    from v6t.profiles.model import Direction


class Nat66Params(Pool6Params):
    """Everything ``nat66`` can be told."""

    initiator_ipv6: IPv6Address = Field(
        IPv6Address("2001:2::2"), description="first address of the Initiator"
    )
    dut_left_ipv6: IPv6Interface = Field(
        IPv6Interface("2001:2:0:f000::1/64"), description="the device's IPv6 address on the left"
    )
    tester_left_ipv6: IPv6Address = Field(
        IPv6Address("2001:2:0:f000::2"), description="tester's IPv6 address on the left link"
    )

    @model_validator(mode="after")
    def _clients(self) -> Nat66Params:
        span(self.initiator_ipv6, self.initiator_count, "initiator_ipv6")
        return self


class Nat66(StatefulTechnology):
    """Translates IPv6 source addresses and ports to public ones."""

    name = "nat66"
    title = "NAT66: IPv6 clients behind public IPv6 addresses and ports, stateful"
    rfcs = ("RFC 9693", "RFC 4787")
    params_model = Nat66Params
    overhead = 0
    ip_versions = (6, 6)
    default_driver = "nftables66"
    mapping = "no RFC; RFC 4787 asks NATs for endpoint-independent mapping, Linux maps by both ends"
    default_frame_sizes = (84,)
    rfc_frame_sizes = (84, 128, 256, 512, 768, 1024, 1280, 1518)
    params: Nat66Params

    def __init__(self, params: Nat66Params | None = None, links: Links | None = None) -> None:
        super().__init__(params or Nat66Params(), links)

    @property
    def ends(self) -> None:
        """No background (MIX-03)."""

    def frame_pair(self, ipv6_frame_size: int) -> FramePair:
        """Equal sizes but for VLAN tags; both frames are IPv6."""
        return routed_pair(ipv6_frame_size, self.links.left, self.links.right, 6)

    def initiator(self, sizes: FramePair, seed: int) -> TrafficClass:
        """See the base class."""
        p = self.params
        addresses = [
            low_bits("responders", "IPv6.dst", p.responder_ipv6, p.responder_count),
            low_bits("initiators", "IPv6.src", p.initiator_ipv6, p.initiator_count),
        ]
        variables, bindings = p.varied(addresses, seed)
        layers = (
            *ethernet(self.links, "forward"),
            ipv6(p, p.initiator_ipv6, p.responder_ipv6),
            Layer("UDP", {"sport": p.initiator_ports.min, "dport": p.responder_ports.min}),
        )
        return TrafficClass(
            "fg", Role.FOREGROUND, layers, sizes.ipv6, tuple(variables), tuple(bindings)
        )

    def responder(self, sizes: FramePair) -> TrafficClass:
        """See the base class."""
        p = self.params
        layers = (
            *ethernet(self.links, "reverse"),
            ipv6(p, p.responder_ipv6, p.pool_first),
            Layer("UDP", {"sport": p.responder_ports.min, "dport": p.pool_ports.min}),
        )
        return TrafficClass("fg", Role.FOREGROUND, layers, sizes.ipv4)

    def translate(self, direction: Direction, packets: U8, initial: U8, learned: U8) -> Packets:
        """See the base class."""
        p = self.params
        reason = within6(p.pool_first, p.pool_count, p.pool_ports, learned)
        if direction == "forward":
            return Packets(rewritten(packets, 6, source=learned_source(learned)), 6, reason)
        return Packets(rewritten(packets, 6, destination=source_of(initial, 6)), 6, reason)

    def dut_intent(self) -> DutIntent:
        """Clients, public addresses and ports, both links with routes to all test hosts."""
        p, links = self.params, self.links
        clients = span(p.initiator_ipv6, p.initiator_count, "initiator_ipv6")
        settings: dict[str, Any] = {
            "inside6": [str(clients)],
            "pool6": [str(address) for address in p.pool],
            "ports": [p.pool_ports.min, p.pool_ports.max],
            "mtu": min(links.left.mtu, links.right.mtu),
        }
        left = {
            "addresses": [str(p.dut_left_ipv6)],
            "neighbours": {str(p.tester_left_ipv6): links.left.tester_mac},
            "routes": {str(clients): str(p.tester_left_ipv6)},
        }
        return DutIntent(self.name, settings, links, left, right_side(p, links))


def right_side(params: Pool6Params, links: Links) -> dict[str, Any]:
    """The right link of an intent: addresses, neighbours, the way to the Responder."""
    p = params
    servers = span(p.responder_ipv6, p.responder_count, "responder_ipv6")
    return {
        "addresses": [str(p.dut_right_ipv6)],
        "neighbours": {str(p.tester_right_ipv6): links.right.tester_mac},
        "routes": {str(servers): str(p.tester_right_ipv6)},
    }


def low_bits(name: str, field: str, first: IPv6Address, count: int) -> TupleField:
    """Consecutive addresses that differ in their last 32 bits."""
    return TupleField(name, field, 127, int(first) & 0xFFFFFFFF, count)
