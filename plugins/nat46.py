"""Stateful NAT46: IPv4 clients left, IPv6 servers right, behind public IPv6 addresses and ports.

There is no RFC of it. The clients know each server by an IPv4 address that is mapped to the
server's own (RFC 7757); what leaves has a public IPv6 source. RFC 8219 section 4.2 counts it among
the single translations.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Network
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.intent.device import LinkIntent
from v6t.intent.families import Nat66Config, SiitConfig
from v6t.packets.headers import IPV4, IPV6, to_octets, view
from v6t.plugins import address_mappings
from v6t.plugins.base import DeviceIntent, Embedded, Links, Part
from v6t.plugins.chain import CHAIN, TAYGA, between, chain_intent
from v6t.plugins.frame_sizes import IPV6_SIZES, check_whole
from v6t.plugins.params import address, device, tester
from v6t.plugins.prefixes import network6
from v6t.plugins.siit import LOWEST_IPV6_MTU
from v6t.plugins.stateful import (
    Packets,
    Pool6Params,
    StatefulTechnology,
    learned_source,
    networks,
    pool_reasons,
    renumbered,
    source_of,
    span,
)
from v6t.plugins.translation import four_to_six, six_to_four
from v6t.profiles.model import FramePair

if TYPE_CHECKING:
    from v6t.packets.arrays import U8
    from v6t.packets.direction import Direction

_MACS = ("02:00:00:00:04:01", "02:00:00:00:04:02")
_HERE, _THERE = "2001:2:0:f002::1", "2001:2:0:f002::2"


class Nat46Params(Pool6Params):
    """Everything ``nat46`` can be told."""

    measured: ClassVar[str] = "NAT46"
    ranges: ClassVar[Mapping[str, str]] = {
        **Pool6Params.ranges,
        "initiator_ipv4": "initiator_count",
        "responder_ipv4": "responder_count",
    }

    initiator_ipv4: IPv4Address = address("198.18.0.2", "first address of the Initiator")
    responder_ipv4: IPv4Address = Field(
        IPv4Address("198.19.0.2"), description="the Responder's first address as clients know it"
    )
    clients_prefix: str = Field(
        "2001:db8:46::/96", description="prefix of the clients within the device, a /96"
    )
    dut_left_ipv4: IPv4Interface = device("192.168.18.1/30", "left")
    tester_left_ipv4: IPv4Address = tester("192.168.18.2", "left")

    @property
    def initiator(self) -> IPv4Address:
        return self.initiator_ipv4

    @property
    def server(self) -> IPv4Address:
        """Mapped to its own."""
        return self.responder_ipv4

    @property
    def prefix(self) -> IPv6Network:
        """The checked prefix."""
        return address_mappings.check_prefix(network6(self.clients_prefix, "clients_prefix"))

    @property
    def embedded_addresses(self) -> Embedded:
        """Return the Initiator's addresses."""
        last = self.initiator_ipv4 + (self.initiator_count - 1)
        return {"clients_prefix": (self.prefix, (self.initiator_ipv4, last))}

    @property
    def mapping(self) -> tuple[IPv4Network, IPv6Network]:
        """The servers' IPv4 network and the IPv6 network it stands for."""
        six = span(self.responder_ipv6, self.responder_count, "responder_ipv6")
        bits = 128 - six.prefixlen
        return IPv4Network((int(self.responder_ipv4) >> bits << bits, 32 - bits)), six

    @model_validator(mode="after")
    def _mapped(self) -> Nat46Params:
        if self.prefix.prefixlen != 96:
            raise UsageError(
                f"clients_prefix {self.prefix} must be a /96", "use a /96", code="not-a-prefix"
            )
        four, six = self.mapping
        if int(self.responder_ipv4) - int(four.network_address) != int(self.responder_ipv6) - int(
            six.network_address
        ):
            raise UsageError(
                f"responder_ipv4 {self.responder_ipv4} and responder_ipv6 {self.responder_ipv6} "
                f"end differently in the last {32 - four.prefixlen} bits, so {self.responder_count}"
                " of them are not mapped by one pair of prefixes",
                "let both end alike",
                code="not-enough-addresses",
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
    rfc_frame_sizes = IPV6_SIZES
    params: Nat46Params

    def check_traffic(self, direction: Direction, sizes: FramePair) -> None:
        if direction == "forward":
            check_whole(self.params.df, sizes.ipv6, self.links.right, LOWEST_IPV6_MTU)

    def translate(self, direction: Direction, packets: U8, initial: U8, learned: U8) -> Packets:
        p = self.params
        reason = pool_reasons(p.public, learned)
        four, six = p.mapping
        if direction == "forward":
            source, port = learned_source(learned)
            server = np.empty((len(packets), 16), dtype=np.uint8)
            server[:] = np.frombuffer(six.network_address.packed, dtype=np.uint8)
            low = view(packets, IPV4)["dst"].astype(np.uint64) - np.uint64(
                int(four.network_address)
            )
            server[:, 12:] = to_octets(low + np.uint64(int(six.network_address) & 0xFFFFFFFF), 4)
            outgoing = four_to_six(packets, source, server)
            return Packets(renumbered(outgoing, source=port), 6, reason)
        client, port = source_of(initial)
        low = (view(packets, IPV6)["src_low"] & 0xFFFFFFFF).astype(np.uint64) - np.uint64(
            int(six.network_address) & 0xFFFFFFFF
        )
        outgoing = six_to_four(
            packets, to_octets(low + np.uint64(int(four.network_address)), 4), client
        )
        return Packets(renumbered(outgoing, destination=port), 4, reason)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """A stateless translator, and a NAT66 behind it."""
        p, links = self.params, self.links
        here, there = between(*_MACS, links.right.mtu)
        four, six = p.mapping
        inside = networks(p.initiator_ipv4, p.initiator_count)
        left = LinkIntent.describe(
            links.left,
            [p.dut_left_ipv4],
            [p.tester_left_ipv4],
            dict.fromkeys(inside, p.tester_left_ipv4),
        )
        middle = LinkIntent.describe(here, [f"{_HERE}/64"], [_THERE], {six: _THERE})
        siit = DeviceIntent(
            "siit",
            SiitConfig(
                eam=((four, six),),
                prefix=p.prefix,
                ipv6_side="right",
                lowest_ipv6_mtu=LOWEST_IPV6_MTU,
            ),
            Links(links.left, here),
            left,
            middle,
        )
        clients = [
            IPv6Network(
                (int(p.prefix.network_address) | int(net.network_address), 96 + net.prefixlen)
            )
            for net in inside
        ]
        nat = DeviceIntent(
            "nat66",
            Nat66Config(
                inside6=tuple(clients),
                pool6=p.pool,
                ports=p.public.span,
            ),
            Links(there, links.right),
            LinkIntent.describe(there, [f"{_THERE}/64"], [_HERE], dict.fromkeys(clients, _HERE)),
            p.right_side(links),
        )
        return (
            Part("siit", self.name, siit, "tayga", TAYGA, to_ipv4="reverse"),
            Part("nat66", self.name, nat, "nftables66", stateful=True),
        )

    def dut_intent(self) -> DeviceIntent:
        """The translation and the public addresses, part by part."""
        return chain_intent(self.name, self.parts, self.links)
