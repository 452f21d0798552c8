"""NAT44 (NAPT, RFC 3022, RFC 4787): private IPv4 clients left, public IPv4 right; stateful."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import TYPE_CHECKING

from pydantic import Field
from v6t.plugins.base import DutIntent, Links
from v6t.plugins.common.mixture import ethernet, ipv4
from v6t.plugins.common.sizes import routed_pair
from v6t.plugins.stateful.base import Packets, StatefulTechnology
from v6t.plugins.stateful.four_tuples import Field as TupleField
from v6t.plugins.stateful.params import PoolParams, networks
from v6t.plugins.stateful.rewrite import learned_source, pool_reasons, rewritten, source_of
from v6t.profiles.model import Direction, FramePair, Layer, Role, TrafficClass

if TYPE_CHECKING:
    from v6t.plugins.common.octets import U8


class Nat44Params(PoolParams):
    """Everything ``nat44`` can be told."""

    initiator_ipv4: IPv4Address = Field(
        IPv4Address("198.18.0.2"), description="first address of the Initiator"
    )
    dut_left_ipv4: IPv4Interface = Field(
        IPv4Interface("192.168.18.1/30"), description="the device's IPv4 address on the left"
    )
    dut_right_ipv4: IPv4Interface = Field(
        IPv4Interface("192.168.19.1/30"), description="the device's IPv4 address on the right"
    )
    tester_left_ipv4: IPv4Address = Field(
        IPv4Address("192.168.18.2"), description="tester's IPv4 address on the left link"
    )
    tester_right_ipv4: IPv4Address = Field(
        IPv4Address("192.168.19.2"), description="tester's IPv4 address on the right link"
    )
    dut_left_ipv6: IPv6Interface = Field(
        IPv6Interface("2001:2:0:f000::1/64"), description="the device's IPv6 address on the left"
    )
    dut_right_ipv6: IPv6Interface = Field(
        IPv6Interface("2001:2:0:f001::1/64"), description="the device's IPv6 address on the right"
    )
    tester_left_ipv6: IPv6Address = Field(
        IPv6Address("2001:2:0:f000::2"), description="background address on the left link"
    )
    tester_right_ipv6: IPv6Address = Field(
        IPv6Address("2001:2:0:f001::2"), description="background address on the right link"
    )


class Nat44(StatefulTechnology):
    """Translates private source addresses and ports to public ones."""

    name = "nat44"
    title = "NAT44: private IPv4 clients behind public IPv4 addresses, stateful"
    rfcs = ("RFC 9693", "RFC 3022", "RFC 4787")
    params_model = Nat44Params
    overhead = 0
    ip_versions = (4, 4)
    default_driver = "nftables"
    mapping = "RFC 4787 asks for endpoint-independent mapping; Linux maps by destination, too"
    default_frame_sizes = (64,)
    rfc_frame_sizes = (64, 128, 256, 512, 768, 1024, 1280, 1518)
    params: Nat44Params

    def __init__(self, params: Nat44Params | None = None, links: Links | None = None) -> None:
        super().__init__(params or Nat44Params(), links)

    def frame_pair(self, ipv6_frame_size: int) -> FramePair:
        """Equal sizes but for VLAN tags; both frames are IPv4."""
        return routed_pair(ipv6_frame_size, self.links.left, self.links.right, 4)

    def initiator(self, sizes: FramePair, seed: int) -> TrafficClass:
        """See the base class."""
        p = self.params
        addresses = [
            TupleField("responders", "IP.dst", 31, int(p.responder_ipv4), p.responder_count),
            TupleField("initiators", "IP.src", 31, int(p.initiator_ipv4), p.initiator_count),
        ]
        variables, bindings = p.varied(addresses, seed)
        layers = (
            *ethernet(self.links, "forward"),
            ipv4(p, p.initiator_ipv4, p.responder_ipv4),
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
            ipv4(p, p.responder_ipv4, p.pool_first),
            Layer("UDP", {"sport": p.responder_ports.min, "dport": p.pool_ports.min}),
        )
        return TrafficClass("fg", Role.FOREGROUND, layers, sizes.ipv4)

    def translate(self, direction: Direction, packets: U8, initial: U8, learned: U8) -> Packets:
        """See the base class."""
        reason = pool_reasons(self.params, learned)
        if direction == "forward":
            return Packets(rewritten(packets, 4, source=learned_source(learned)), 4, reason)
        return Packets(rewritten(packets, 4, destination=source_of(initial, 4)), 4, reason)

    def dut_intent(self) -> DutIntent:
        """Clients, public addresses and ports, both links with routes to all test hosts."""
        p, links = self.params, self.links
        inside = networks(p.initiator_ipv4, p.initiator_count)
        return DutIntent(
            technology=self.name,
            settings={
                "inside4": [str(net) for net in inside],
                "pool4": [str(address) for address in p.pool],
                "ports": [p.pool_ports.min, p.pool_ports.max],
                "mtu": min(links.left.mtu, links.right.mtu),
            },
            links=links,
            left={
                "addresses": [str(p.dut_left_ipv4), str(p.dut_left_ipv6)],
                "neighbours": dict.fromkeys(
                    (str(p.tester_left_ipv4), str(p.tester_left_ipv6)), links.left.tester_mac
                ),
                "routes": {str(net): str(p.tester_left_ipv4) for net in inside},
            },
            right={
                "addresses": [str(p.dut_right_ipv4), str(p.dut_right_ipv6)],
                "neighbours": dict.fromkeys(
                    (str(p.tester_right_ipv4), str(p.tester_right_ipv6)), links.right.tester_mac
                ),
                "routes": {str(net): str(p.tester_right_ipv4) for net in p.responder_networks()},
            },
        )
