"""The customer's side of MAP-E, MAP-T and lightweight 4over6: one device, many hosts and ports."""

from __future__ import annotations

from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, model_validator
from v6t.plugins.base import DutIntent
from v6t.plugins.common.addresses import address
from v6t.plugins.common.stateless import StatelessTechnology
from v6t.plugins.common.text import network6
from v6t.plugins.customer_edge.params import (
    DROP_REASONS,
    Customer,
    CustomerParams,
    Translation,
    Tunnel,
    checked_ports,
    customer_sides,
)
from v6t.plugins.customer_edge.traffic import customer_traffic
from v6t.plugins.map.intent import rule_setting
from v6t.plugins.map.params import RuleParams
from v6t.plugins.map.rules import DEFAULT_PSID_OFFSET, MapRule
from v6t.plugins.siit.params import LOWEST_IPV6_MTU
from v6t.plugins.sizes import IPV6_SIZES, TUNNEL_SIZES, check_whole
from v6t.plugins.translation.rfc6052 import check_prefix
from v6t.profiles.errors import UsageError
from v6t.profiles.intent_settings import CustomerEdge as CustomerEdgeSettings
from v6t.profiles.model import Direction, FramePair, Traffic

if TYPE_CHECKING:
    from v6t.plugins.common.reference_device import ReferenceDevice
    from v6t.plugins.whole import WholeDevice


class MapCeParams(CustomerParams, RuleParams):
    """A CE of a MAP domain."""

    ce_ipv4: IPv4Address = Field(
        IPv4Address("192.0.2.189"), description="the CE's IPv4 address, or the first of its prefix"
    )
    ce_psid: int = Field(9, ge=0, description="the CE's PSID; 0 where addresses are not shared")

    @property
    def ipv4(self) -> IPv4Network:
        """The CE's address or prefix."""
        rule: MapRule = self.rule
        if self.ce_ipv4 not in rule.ipv4_prefix:
            raise UsageError(
                f"ce_ipv4 {self.ce_ipv4} is outside the rule's IPv4 prefix {rule.ipv4_prefix}"
            )
        length = rule.ipv4_prefix.prefixlen + rule.embedded_suffix_len if rule.prefix_ce else 32
        network = IPv4Network((int(self.ce_ipv4), length), strict=False)
        if network.network_address != self.ce_ipv4:
            raise UsageError(
                f"ce_ipv4 {self.ce_ipv4} is not the first address of the CE's prefix",
                f"write {network.network_address}",
            )
        return network

    def _customer(self, way: Tunnel | Translation) -> Customer:
        rule = self.rule
        return Customer(
            self.ipv4, checked_ports(rule.psid_offset, rule.psid_len, self.ce_psid), way
        )


class MapECeParams(MapCeParams):
    """Everything ``mape-ce`` can be told."""

    measured: ClassVar[str] = "MAP-E"

    br_address: IPv6Address = Field(IPv6Address("2001:db8:6::1"), description="the BR's address")

    @property
    def customer(self) -> Customer:
        """See the base class."""
        self.rule.port_set(self.ce_psid)
        local = self.rule.map_address(self.ipv4.network_address, self.ce_psid)
        return self._customer(Tunnel(local, self.br_address))


class MapTCeParams(MapCeParams):
    """Everything ``mapt-ce`` can be told."""

    measured: ClassVar[str] = "MAP-T"

    dmr: str = Field(
        "2001:db8:ffff::/64",
        description="default mapping rule: IPv6 prefix of all other IPv4 addresses (MAP-11)",
    )
    lowest_ipv6_mtu: int = Field(
        LOWEST_IPV6_MTU,
        ge=1280,
        description="IPv4 packets without DF are fragmented to this (RFC 7915 section 4)",
    )

    @cached_property
    def dmr_prefix(self) -> IPv6Network:
        """The checked prefix."""
        return check_prefix(network6(self.dmr, "dmr"))

    @property
    def way(self) -> Translation:
        """How packets cross the IPv6 network."""
        return Translation(self.rule, self.dmr_prefix, self.ce_psid, self.lowest_ipv6_mtu)

    @property
    def customer(self) -> Customer:
        """See the base class."""
        self.rule.port_set(self.ce_psid)
        return self._customer(self.way)

    @model_validator(mode="after")
    def _dmr(self) -> MapTCeParams:
        if self.dmr_prefix.overlaps(self.rule.ipv6_prefix):
            raise UsageError(
                f"the DMR prefix {self.dmr_prefix} and the rule IPv6 prefix {self.rule_ipv6} "
                "overlap",
                "choose prefixes beside each other",
            )
        if self.tester_left_ipv6 in self.dmr_prefix:
            raise UsageError("tester_left_ipv6 lies within the DMR prefix", "choose one outside")
        return self


class LwB4Params(CustomerParams):
    """Everything ``lwb4`` can be told."""

    measured: ClassVar[str] = "lw4o6"

    b4_address: IPv6Address = address("2001:db8:b4:1:0:c612:1:9", "the lwB4's tunnel address")
    br_address: IPv6Address = address("2001:db8:6::1", "the lwAFTR's address")
    ipv4_address: IPv4Address = address("198.18.0.1", "the lwB4's IPv4 address")
    psid: int = Field(9, ge=0, description="PSID")
    psid_len: int = Field(6, ge=0, le=16, description="PSID length; 0: the whole address")
    psid_offset: int = Field(DEFAULT_PSID_OFFSET, ge=0, le=16, description="PSID offset")

    @property
    def customer(self) -> Customer:
        """See the base class."""
        return Customer(
            IPv4Network(self.ipv4_address),
            checked_ports(self.psid_offset, self.psid_len, self.psid),
            Tunnel(self.b4_address, self.br_address),
        )


class CustomerEdge(StatelessTechnology):
    """Left is the operator's IPv6, right the customer's IPv4; stateless, NAPT left out."""

    ip_versions = (6, 4)
    sides = ("relay", "customer")
    drop_reasons: ClassVar[tuple[str, ...]] = DROP_REASONS
    params: CustomerParams

    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        """Foreground, background and stray frames as the parameters say."""
        p = self.params
        way = p.customer.way
        if direction == "reverse" and isinstance(way, Translation):
            check_whole(p.df, sizes.ipv6, self.links.left, way.lowest_ipv6_mtu)
        return customer_traffic(p, self.links, direction, sizes, seed)

    def dut_intent(self) -> DutIntent:
        """Address, ports, the way to the relay, both links; no NAPT."""
        p = self.params
        customer = p.customer
        way = customer.way
        remote = str(way.dmr) if isinstance(way, Translation) else f"{way.remote}/128"
        left, right = customer_sides(p, self.links, remote)
        return DutIntent(
            technology=self.name,
            settings=CustomerEdgeSettings(
                ipv4=customer.ipv4,
                psid=customer.ports.psid,
                psid_len=customer.ports.psid_len,
                psid_offset=customer.ports.psid_offset,
                napt=False,
                mtu=self.links.left.mtu,
                **self._way(way),
            ).listed(),
            links=self.links,
            left=left,
            right=right,
        )

    def _way(self, way: Tunnel | Translation) -> dict[str, Any]:
        p = self.params
        more: dict[str, Any] = {}
        if isinstance(p, MapCeParams):
            more["rule"] = rule_setting(p.rule)
            more["end_user_prefix"] = p.rule.end_user_prefix(p.ce_ipv4, p.ce_psid)
        if isinstance(way, Translation):
            return {**more, "dmr": way.dmr, "lowest_ipv6_mtu": way.lowest_ipv6_mtu}
        return {**more, "tunnel_local": way.local, "tunnel_remote": way.remote}

    def reference_device(self) -> ReferenceDevice:
        """See the base class."""
        from v6t.plugins.customer_edge.reference import customer_device

        return customer_device(self.params.customer, self.links)


class MapECe(CustomerEdge):
    """MAP-E CE without its NAPT."""

    name = "mape-ce"
    title = "MAP-E CE, single device: encapsulates a customer's IPv4, NAPT left out"
    rfcs = ("RFC 7597 sections 5, 6 and 8",)
    params_model = MapECeParams
    overhead = 40
    rfc_frame_sizes = TUNNEL_SIZES


class MapTCe(CustomerEdge):
    """MAP-T CE without its NAPT."""

    name = "mapt-ce"
    title = "MAP-T CE, single device: translates a customer's IPv4, NAPT left out"
    rfcs = (
        "RFC 7599",
        "RFC 7597 sections 5 and 6",
        "RFC 7915 sections 4 and 5",
        "RFC 6052 section 2",
    )
    params_model = MapTCeParams
    overhead = 20
    rfc_frame_sizes = IPV6_SIZES
    params: MapTCeParams

    def whole_device(self) -> WholeDevice:
        """With fragments, ICMP and errors of its own, where the address is not shared."""
        if self.params.rule.shared:
            return super().whole_device()
        from v6t.plugins.customer_edge.whole import WholeMapTCe

        return WholeMapTCe(self)


class LwB4(CustomerEdge):
    """Lightweight B4 without its NAPT."""

    name = "lwb4"
    title = "lwB4 of lightweight 4over6, single device: encapsulates IPv4, NAPT left out"
    rfcs = ("RFC 7596 sections 5 and 6",)
    params_model = LwB4Params
    overhead = 40
    rfc_frame_sizes = TUNNEL_SIZES
