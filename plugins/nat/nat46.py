"""Stateful NAT46: IPv4 clients left, IPv6 servers right, behind public IPv6 addresses and ports.

There is no RFC of it. The clients know each server by an IPv4 address that is mapped to the
server's own (RFC 7757); what leaves has a public IPv6 source. RFC 8219 section 4.2 counts it among
the single translations.
"""

from __future__ import annotations

from functools import cached_property
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Network,
)
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field, model_validator
from v6t.plugins.base import DutIntent, Links, Part
from v6t.plugins.common.chain import CHAIN, TAYGA, between, chained
from v6t.plugins.common.mixture import ethernet, ipv4, ipv6
from v6t.plugins.common.octets import octets4, u32
from v6t.plugins.common.sizes import check_whole, translated_pair
from v6t.plugins.common.text import network6
from v6t.plugins.nat.nat66 import right_side
from v6t.plugins.siit.params import LOWEST_IPV6_MTU
from v6t.plugins.stateful.base import Packets, StatefulTechnology
from v6t.plugins.stateful.four_tuples import Field as TupleField
from v6t.plugins.stateful.params import networks
from v6t.plugins.stateful.pool6 import Pool6Params, span
from v6t.plugins.stateful.rewrite import HEADERS, learned_source, source_of, within6
from v6t.plugins.translation import rfc6052
from v6t.plugins.translation.vectorised import four_to_six, six_to_four
from v6t.profiles import inet
from v6t.profiles.errors import UsageError
from v6t.profiles.model import FramePair, Layer, Role, TrafficClass

if TYPE_CHECKING:
    from v6t.plugins.base import Link
    from v6t.plugins.common.octets import U8
    from v6t.profiles.model import Direction

_MACS = ("02:00:00:00:04:01", "02:00:00:00:04:02")
_HERE, _THERE = "2001:2:0:f002::1", "2001:2:0:f002::2"


class Nat46Params(Pool6Params):
    """Everything ``nat46`` can be told."""

    initiator_ipv4: IPv4Address = Field(
        IPv4Address("198.18.0.2"), description="first address of the Initiator"
    )
    responder_ipv4: IPv4Address = Field(
        IPv4Address("198.19.0.2"), description="the Responder's first address as clients know it"
    )
    clients_prefix: str = Field(
        "2001:db8:46::/96", description="prefix of the clients within the device, a /96"
    )
    dut_left_ipv4: IPv4Interface = Field(
        IPv4Interface("192.168.18.1/30"), description="the device's IPv4 address on the left"
    )
    tester_left_ipv4: IPv4Address = Field(
        IPv4Address("192.168.18.2"), description="tester's IPv4 address on the left link"
    )

    @property
    def prefix(self) -> IPv6Network:
        """The checked prefix."""
        return rfc6052.check_prefix(network6(self.clients_prefix, "clients_prefix"))

    @property
    def mapping(self) -> tuple[IPv4Network, IPv6Network]:
        """The servers' IPv4 network and the IPv6 network it stands for."""
        six = span(self.responder_ipv6, self.responder_count, "responder_ipv6")
        bits = 128 - six.prefixlen
        return IPv4Network((int(self.responder_ipv4) >> bits << bits, 32 - bits)), six

    @model_validator(mode="after")
    def _mapped(self) -> Nat46Params:
        if self.prefix.prefixlen != 96:
            raise UsageError(f"clients_prefix {self.prefix} is no /96", "use a /96")
        four, six = self.mapping
        if int(self.responder_ipv4) - int(four.network_address) != int(self.responder_ipv6) - int(
            six.network_address
        ):
            raise UsageError(
                f"responder_ipv4 {self.responder_ipv4} and responder_ipv6 {self.responder_ipv6} "
                f"end differently in the last {32 - four.prefixlen} bits, so {self.responder_count}"
                " of them are not mapped by one pair of prefixes",
                "let both end alike",
            )
        return self


class Nat46(StatefulTechnology):
    """Translates IPv4 clients to public IPv6 addresses and ports."""

    name = "nat46"
    title = "NAT46: IPv4 clients of IPv6 servers behind public IPv6 addresses, stateful"
    rfcs = ("RFC 9693", "RFC 8219 section 4.2", "RFC 7915", "RFC 7757")
    params_model = Nat46Params
    overhead = 20
    ip_versions = (4, 6)
    default_driver = CHAIN
    mapping = "no RFC; RFC 4787 asks NATs for endpoint-independent mapping, Linux maps by both ends"
    default_frame_sizes = (84,)
    rfc_frame_sizes = (84, 128, 256, 512, 768, 1024, 1280, 1518)
    params: Nat46Params

    def __init__(self, params: Nat46Params | None = None, links: Links | None = None) -> None:
        super().__init__(params or Nat46Params(), links)

    @property
    def ends(self) -> None:
        """No background (MIX-03)."""

    @property
    def _ipv6_link(self) -> Link:
        return self.links.right

    def frame_pair(self, ipv6_frame_size: int) -> FramePair:
        """Twenty octets apart, IPv6 on the right; see the base class."""
        left, right = self.links.left, self.links.right
        return translated_pair(ipv6_frame_size, self.overhead, right, left, "NAT46")

    def initiator(self, sizes: FramePair, seed: int) -> TrafficClass:
        """See the base class."""
        p = self.params
        check_whole(p.df, sizes.ipv6, self.links.right, LOWEST_IPV6_MTU)
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
            "fg", Role.FOREGROUND, layers, sizes.ipv4, tuple(variables), tuple(bindings)
        )

    def responder(self, sizes: FramePair) -> TrafficClass:
        """See the base class."""
        p = self.params
        layers = (
            *ethernet(self.links, "reverse"),
            ipv6(p, p.responder_ipv6, p.pool_first),
            Layer("UDP", {"sport": p.responder_ports.min, "dport": p.pool_ports.min}),
        )
        return TrafficClass("fg", Role.FOREGROUND, layers, sizes.ipv6)

    def translate(self, direction: Direction, packets: U8, initial: U8, learned: U8) -> Packets:
        """See the base class."""
        p = self.params
        reason = within6(p.pool_first, p.pool_count, p.pool_ports, learned)
        four, six = p.mapping
        if direction == "forward":
            source, port = learned_source(learned)
            server = np.empty((len(packets), 16), dtype=np.uint8)
            server[:] = np.frombuffer(six.network_address.packed, dtype=np.uint8)
            low = u32(packets[:, 16:20]) - np.uint64(int(four.network_address))
            server[:, 12:] = octets4(low + np.uint64(int(six.network_address) & 0xFFFFFFFF))
            made = four_to_six(packets, source, server)
            made[:, 40:42] = port
            inet.finish_udp(made, HEADERS[6])
            return Packets(made, 6, reason)
        client, port = source_of(initial, 4)
        low = u32(packets[:, 20:24]) - np.uint64(int(six.network_address) & 0xFFFFFFFF)
        made = six_to_four(packets, octets4(low + np.uint64(int(four.network_address))), client)
        made[:, 22:24] = port
        inet.finish_udp(made, HEADERS[4])
        return Packets(made, 4, reason)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """A stateless translator, and a NAT66 behind it."""
        p, links = self.params, self.links
        here, there = between(*_MACS, links.right.mtu)
        four, six = p.mapping
        tester = str(p.tester_left_ipv4)
        left = {
            "addresses": [str(p.dut_left_ipv4)],
            "neighbours": {tester: links.left.tester_mac},
            "routes": {str(net): tester for net in networks(p.initiator_ipv4, p.initiator_count)},
        }
        middle = {
            "addresses": [f"{_HERE}/64"],
            "neighbours": {_THERE: here.tester_mac},
            "routes": {str(six): _THERE},
        }
        siit = DutIntent(
            "siit",
            {
                "eam": [[str(four), str(six)]],
                "prefix": str(p.prefix),
                "ipv6_side": "right",
                "lowest_ipv6_mtu": LOWEST_IPV6_MTU,
                "mtu": links.right.mtu,
            },
            Links(links.left, here),
            left,
            middle,
        )
        clients = [
            IPv6Network(
                (int(p.prefix.network_address) | int(net.network_address), 96 + net.prefixlen)
            )
            for net in networks(p.initiator_ipv4, p.initiator_count)
        ]
        nat = DutIntent(
            "nat66",
            {
                "inside6": [str(net) for net in clients],
                "pool6": [str(address) for address in p.pool],
                "ports": [p.pool_ports.min, p.pool_ports.max],
                "mtu": links.right.mtu,
            },
            Links(there, links.right),
            {
                "addresses": [f"{_THERE}/64"],
                "neighbours": {_HERE: there.tester_mac},
                "routes": {str(net): _HERE for net in clients},
            },
            right_side(p, links),
        )
        return (
            Part("siit", self.name, siit, "tayga", TAYGA, to_ipv4="reverse"),
            Part("nat66", self.name, nat, "nftables66", stateful=True),
        )

    def dut_intent(self) -> DutIntent:
        """The translation and the public addresses, part by part."""
        four, six = self.params.mapping
        settings: dict[str, Any] = {"servers": [str(four), str(six)], "mtu": self.links.right.mtu}
        return chained(self.name, self.parts, settings, self.links)
