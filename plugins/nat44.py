"""NAT44 (NAPT, RFC 3022, RFC 4787): private IPv4 clients left, public IPv4 right; stateful."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import TYPE_CHECKING, Any, ClassVar

from v6t.intent.families import Nat44Config
from v6t.packets.direction import Direction
from v6t.plugins.audit_views import TWO_HOSTS, Nat, first_hosts
from v6t.plugins.base import DeviceIntent
from v6t.plugins.frame_sizes import IPV4_SIZES
from v6t.plugins.params import address, background_address, describe_link, device, tester
from v6t.plugins.stateful import (
    PoolParams,
    StatefulTechnology,
    TranslatedPackets,
    networks,
    rewrite_endpoint,
)

if TYPE_CHECKING:
    from v6t.packets.arrays import U8
    from v6t.plugins.audit_views import AuditView


class Nat44Params(PoolParams):
    """Parameters of ``nat44``."""

    ranges: ClassVar[Mapping[str, str]] = {
        **PoolParams.ranges,
        "initiator_ipv4": "initiator_count",
    }

    initiator_ipv4: IPv4Address = address("198.18.0.2", "first address of the Initiator")
    dut_left_ipv4: IPv4Interface = device("192.168.18.1/30", "left")
    dut_right_ipv4: IPv4Interface = device("192.168.19.1/30", "right")
    tester_left_ipv4: IPv4Address = tester("192.168.18.2", "left")
    tester_right_ipv4: IPv4Address = tester("192.168.19.2", "right")
    dut_left_ipv6: IPv6Interface = device("2001:2:0:f000::1/64", "left")
    dut_right_ipv6: IPv6Interface = device("2001:2:0:f001::1/64", "right")
    tester_left_ipv6: IPv6Address = background_address("2001:2:0:f000::2", "left")
    tester_right_ipv6: IPv6Address = background_address("2001:2:0:f001::2", "right")

    @property
    def initiator(self) -> IPv4Address:
        return self.initiator_ipv4


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
    rfc_frame_sizes = IPV4_SIZES
    params: Nat44Params

    @property
    def ends(self) -> tuple[IPv6Address, IPv6Address]:
        return self.params.tester_left_ipv6, self.params.tester_right_ipv6

    def translate(
        self, direction: Direction, packets: U8, initial: U8, learned: U8
    ) -> TranslatedPackets:
        return TranslatedPackets(rewrite_endpoint(direction, packets, initial, learned), 4)

    def dut_intent(self) -> DeviceIntent:
        """Describe clients, public addresses and ports, and both links with routes to all test hosts."""
        p = self.params
        clients = networks(p.initiator_ipv4, p.initiator_count)
        return DeviceIntent(
            self.name,
            Nat44Config(inside4=tuple(clients), pool4=p.pool, ports=p.public.span, **p.limits),
            self.links,
            describe_link(p, self.links, "left", clients),
            describe_link(p, self.links, "right", p.responder_networks),
        )

    def audit_views(self) -> tuple[AuditView, ...]:
        p = self.params
        hosts = first_hosts(p.initiator_ipv4, p.initiator_count)
        servers = first_hosts(p.responder_ipv4, p.responder_count)
        return (Nat(hosts, servers, p.pool, **p.audit_limits),)

    def audit_params(self) -> Mapping[str, Any]:
        return TWO_HOSTS

    def audit_variants(self) -> dict[str, dict[str, Any]]:
        return self.params.audit_variants()
