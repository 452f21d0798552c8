"""Stateful NAT64 (RFC 6146): IPv6 clients left, public IPv4 right; servers behind a prefix."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from ipaddress import IPv6Address, IPv6Network
from typing import Any, ClassVar

from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.intent.families import Nat64Config
from v6t.packets.address_layouts import make_embedded_address_layout
from v6t.packets.arrays import U8
from v6t.packets.bit_layout import BitLayout
from v6t.packets.direction import Direction
from v6t.plugins import audit_views as views
from v6t.plugins.base import EmbeddedIpv4
from v6t.plugins.four_tuples import TupleField
from v6t.plugins.frame_sizes import IPV6_SIZES, LOWEST_IPV6_MTU, check_unfragmented
from v6t.plugins.params import Ipv6Links, RightIpv4Link, address
from v6t.plugins.stateful import Endpoints, Napt, Pool4Params, translate_version
from v6t.plugins.translation import WELL_KNOWN, Rfc6052Array, embed_ipv4, parse_rfc6052_prefix
from v6t.profiles.model import FramePair

# Lifetimes of sessions in seconds (RFC 6146, section 4).
SESSION_LIFETIMES_S = {
    "UDP_MIN": 120, "UDP_DEFAULT": 300, "TCP_TRANS": 240, "TCP_EST": 7440, "TCP_INCOMING_SYN": 6,
    "FRAGMENT_MIN": 2, "ICMP_DEFAULT": 60,
}  # fmt: skip


class Nat64Params(RightIpv4Link, Ipv6Links, Pool4Params):
    """Parameters of ``nat64``."""

    display_name: ClassVar[str] = "NAT64"

    prefix: str = Field("2001:db8:64::/96", description="RFC 6052 prefix, or wkp: 64:ff9b::/96")
    initiator_ipv6: IPv6Address = address("2001:2::2", "first address of the Initiator")
    initiator_offset: int = Field(
        14, ge=8, le=14, description="octet of the 16 bits that count the Initiator's addresses"
    )

    @cached_property
    def server_prefix(self) -> IPv6Network:
        return parse_rfc6052_prefix(self.prefix, "prefix")

    @property
    def initiator_step(self) -> int:
        return 1 << 8 * (14 - self.initiator_offset)

    @property
    def first_number(self) -> int:
        """Value of the 16 counting bits in the Initiator's first address."""
        return int(self.initiator_ipv6) // self.initiator_step & 0xFFFF

    @property
    def embedded_addresses(self) -> EmbeddedIpv4:
        return {"prefix": (self.server_prefix, (self.responder_ipv4, self.last_responder))}

    @property
    def server(self) -> IPv6Address:
        return embed_ipv4(self.server_prefix, self.responder_ipv4)

    @property
    def server_layout(self) -> BitLayout:
        return make_embedded_address_layout(self.server_prefix)

    @model_validator(mode="after")
    def _check_prefix(self) -> Nat64Params:
        names = ("initiator_ipv6", "tester_left_ipv6", "tester_right_ipv6")
        self.refuse_addresses_within(self.server_prefix, "the translated prefix", *names)
        problem = ""
        if self.initiator_offset != 14 and self.first_number + self.initiator_count > 1 << 16:
            problem = f"{self.initiator_count} addresses from {self.initiator_ipv6} exceed 16 bits"
            hint = f"choose one with a smaller number at octet {self.initiator_offset}"
        varying = (int(self.responder_ipv4) ^ int(self.last_responder)).bit_length()
        if varying > self.server_layout.copies[-1].length:
            where, hint = f"a /{self.server_prefix.prefixlen}", "use a /96, or fewer addresses"
            problem = f"{self.responder_count} addresses of the Responder do not lie together behind {where}"
        if problem:
            raise UsageError(problem, hint, code="not-enough-addresses")
        return self


class Nat64(Napt):
    """A NAT64: IPv6 clients are translated to public IPv4 addresses and ports."""

    name = "nat64"
    title = "NAT64: IPv6 clients behind public IPv4 addresses, stateful"
    rfcs = ("RFC 9693", "RFC 6146", "RFC 7915", "RFC 6052")
    params_model = Nat64Params
    overhead = 20
    ip_versions = (6, 4)
    default_driver = "tayga-nftables"
    usual_timeout_s = SESSION_LIFETIMES_S["UDP_DEFAULT"]
    mapping = "RFC 6146 requires endpoint-independent mapping: one BIB entry per client endpoint"
    rfc_frame_sizes = IPV6_SIZES
    params: Nat64Params

    def list_address_fields(self) -> list[TupleField]:
        p = self.params
        suffix, source = p.server_layout.copies[-1], super().list_address_fields()[1]
        if p.initiator_offset != 14:
            source = replace(source, last_bit=8 * p.initiator_offset + 15, first=p.first_number)
        last_bit, first = suffix.destination + suffix.length - 1, int(p.responder_ipv4)
        servers = (last_bit, first, p.responder_count, str(p.server))
        return [TupleField("responders", "IPv6.dst", *servers), source]

    def check_traffic(self, direction: Direction, sizes: FramePair) -> None:
        if direction == "reverse":
            check_unfragmented(self.params.df, sizes.ipv6, self.links.left, LOWEST_IPV6_MTU)

    def rewrite(self, packets: U8, endpoint: Endpoints, *, source: bool) -> U8:
        addresses = Rfc6052Array(self.params.server_prefix)
        return translate_version(packets, addresses, endpoint, source=source)

    def make_configuration(self) -> Nat64Config:
        p = self.params
        pool: Any = {"pool4": p.pool, "ports": p.public_pool.port_bounds, **p.limits}
        clients: Any = {"clients": p.initiator_count, "inside6": tuple(p.clients)}
        return Nat64Config(prefix=p.server_prefix, **clients, **pool)

    def list_audit_views(self) -> tuple[views.AuditView, ...]:
        p = self.params
        ends = p.initiator_ipv6, p.pool, 40123, p.responder_ipv4, p.server, 443
        kind: Any = {"stateful": True, "uses_ports": True, "may_reassemble": True}  # RFC 6146, 3.4
        translator = views.Translator("left", *ends, LOWEST_IPV6_MTU, **kind)
        nat = self.make_nat_view(prefix=p.server_prefix, lowest_ipv6_mtu=LOWEST_IPV6_MTU)
        return nat, translator

    def list_audit_variants(self) -> dict[str, dict[str, Any]]:
        well_known = {"prefix": str(WELL_KNOWN), "responder_ipv4": views.GLOBAL_HOST}
        own = {**views.make_prefix_variants("prefix"), views.WELL_KNOWN_PREFIX: well_known}
        return {**own, **super().list_audit_variants()}
