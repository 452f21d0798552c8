"""Stateful NAT66: IPv6 clients left, public IPv6 addresses and ports right."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv6Address, IPv6Interface
from typing import TYPE_CHECKING, Any, ClassVar

from v6t.intent.families import Nat66Config
from v6t.plugins.audit_views import TWO_HOSTS, TWO_PUBLIC_ADDRESSES, Nat, first_hosts
from v6t.plugins.base import DeviceIntent
from v6t.plugins.frame_sizes import IPV6_SIZES
from v6t.plugins.params import address, describe_link, device, tester
from v6t.plugins.stateful import (
    Pool6Params,
    StatefulTechnology,
    TranslatedPackets,
    rewrite_endpoint,
    span,
)

if TYPE_CHECKING:
    from v6t.packets.arrays import U8
    from v6t.packets.direction import Direction
    from v6t.plugins.audit_views import AuditView


class Nat66Params(Pool6Params):
    """Parameters of ``nat66``."""

    ranges: ClassVar[Mapping[str, str]] = {
        **Pool6Params.ranges,
        "initiator_ipv6": "initiator_count",
    }

    initiator_ipv6: IPv6Address = address("2001:2::2", "first address of the Initiator")
    dut_left_ipv6: IPv6Interface = device("2001:2:0:f000::1/64", "left")
    tester_left_ipv6: IPv6Address = tester("2001:2:0:f000::2", "left")

    @property
    def initiator(self) -> IPv6Address:
        return self.initiator_ipv6


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
    rfc_frame_sizes = IPV6_SIZES
    params: Nat66Params

    def translate(
        self, direction: Direction, packets: U8, initial: U8, learned: U8
    ) -> TranslatedPackets:
        return TranslatedPackets(rewrite_endpoint(direction, packets, initial, learned), 6)

    def dut_intent(self) -> DeviceIntent:
        """Describe clients, public addresses and ports, and both links with routes to all test hosts."""
        p = self.params
        clients = span(p.initiator_ipv6, p.initiator_count, "initiator_ipv6")
        return DeviceIntent(
            self.name,
            Nat66Config(inside6=(clients,), pool6=p.pool, ports=p.public.span),
            self.links,
            describe_link(p, self.links, "left", [clients]),
            describe_link(p, self.links, "right", p.responder_networks),
        )

    def audit_views(self) -> tuple[AuditView, ...]:
        p = self.params
        hosts = first_hosts(p.initiator_ipv6, p.initiator_count)
        servers = first_hosts(p.responder_ipv6, p.responder_count)
        return (Nat(hosts, servers, p.pool, public=p.public.span),)

    def audit_params(self) -> Mapping[str, Any]:
        return TWO_HOSTS

    def audit_variants(self) -> dict[str, dict[str, Any]]:
        return {TWO_PUBLIC_ADDRESSES: {"pool_count": max(2, self.params.pool_count)}}
