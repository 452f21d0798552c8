"""What customers' devices can be told; left is the IPv6 link, right the IPv4 one."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)
from typing import Any, ClassVar

from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.intent.device import LinkIntent
from v6t.plugins.base import Links
from v6t.plugins.common.addresses import address, device, tester
from v6t.plugins.common.mixture import Mixture, negative_share
from v6t.plugins.common.ports import (
    DestinationPorts,
    Policy,
    SourcePorts,
    destination_range,
    source_range,
)
from v6t.plugins.customer_edge.customer import Customer, Translation, Tunnel, checked_ports
from v6t.plugins.map.mapt_params import DmrParams
from v6t.plugins.map.params import RuleParams
from v6t.plugins.map_rules import DEFAULT_PSID_OFFSET, MapRule

DEFAULT_PSID = 9


class CustomerParams(Mixture):
    """What all customers' devices can be told; left is the IPv6 link, right the IPv4 one."""

    server_ipv4: IPv4Address = address("203.0.113.56", "the IPv4 host beyond the relay")
    dut_left_ipv6: IPv6Interface = Field(
        IPv6Interface("2001:db8:6::9/64"), description="the device's address on the IPv6 link"
    )
    tester_left_ipv6: IPv6Address = tester("2001:db8:6::1", "left")
    dut_right_ipv4: IPv4Interface = Field(
        IPv4Interface("192.168.19.1/30"), description="the device's address on the IPv4 link"
    )
    tester_right_ipv4: IPv4Address = Field(
        IPv4Address("192.168.19.2"),
        description="tester's IPv4 address on the right link; the customer's hosts are behind it",
    )
    dut_right_ipv6: IPv6Interface = device("2001:db8:7::1/64", "right")
    tester_right_ipv6: IPv6Address = tester("2001:db8:7::2", "right")
    fw_sport: SourcePorts = Field(default_factory=source_range, description="forward source ports")
    fw_dport: Policy = Field(
        "random", description="forward destination ports, within the customer's port set"
    )
    rv_sport: Policy = Field(
        "random", description="reverse source ports, within the customer's port set"
    )
    rv_dport: DestinationPorts = Field(
        default_factory=destination_range, description="reverse destination ports"
    )
    negative_percent: int = negative_share(
        "share of frames the device must drop: they are none of the customer's [%]"
    )

    @property
    def customer(self) -> Customer:
        """The customer."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _server(self) -> CustomerParams:
        if self.server_ipv4 in self.customer.ipv4:
            raise UsageError(
                "server_ipv4 is the customer's own address",
                "choose one beyond the relay",
                code="address-conflict",
            )
        return self


class MapCeParams(CustomerParams, RuleParams):
    """A CE of a MAP domain."""

    ce_ipv4: IPv4Address = Field(
        IPv4Address("192.0.2.189"), description="the CE's IPv4 address, or the first of its prefix"
    )
    ce_psid: int = Field(
        DEFAULT_PSID,
        ge=0,
        description="the CE's PSID; by default the highest one, if that is lower",
    )

    @model_validator(mode="before")
    @classmethod
    def _fitting_psid(cls, given: Any) -> Any:
        """Choose a PSID that fits the rule, unless one is given."""
        if not isinstance(given, Mapping) or "ce_psid" in given:
            return given
        rule = RuleParams(**{k: v for k, v in given.items() if k in RuleParams.model_fields}).rule
        return {**given, "ce_psid": min(DEFAULT_PSID, rule.sharing_ratio - 1)}

    @property
    def only_psid(self) -> int:
        """Return the CE's PSID."""
        return self.ce_psid

    @property
    def ipv4(self) -> IPv4Network:
        """The CE's address or prefix."""
        rule: MapRule = self.rule
        if self.ce_ipv4 not in rule.ipv4_prefix:
            raise UsageError(
                f"ce_ipv4 {self.ce_ipv4} is outside the rule's IPv4 prefix {rule.ipv4_prefix}",
                code="outside-prefix",
            )
        network = IPv4Network((int(self.ce_ipv4), rule.ce_prefix_len), strict=False)
        if network.network_address != self.ce_ipv4:
            raise UsageError(
                f"ce_ipv4 {self.ce_ipv4} is not the first address of the CE's prefix",
                f"write {network.network_address}",
                code="conflict",
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
        self.rule.port_set(self.ce_psid)
        local = self.rule.map_address(self.ipv4.network_address, self.ce_psid)
        return self._customer(Tunnel(local, self.br_address))


class MapTCeParams(DmrParams, MapCeParams):
    """Everything ``mapt-ce`` can be told."""

    measured: ClassVar[str] = "MAP-T"

    @property
    def way(self) -> Translation:
        """How packets cross the IPv6 network."""
        return Translation(self.rule, self.dmr_prefix, self.ce_psid, self.lowest_ipv6_mtu)

    @property
    def customer(self) -> Customer:
        self.rule.port_set(self.ce_psid)
        return self._customer(self.way)

    @model_validator(mode="after")
    def _dmr(self) -> MapTCeParams:
        self.refuse_overlap(self)
        if self.tester_left_ipv6 in self.dmr_prefix:
            raise UsageError(
                "tester_left_ipv6 lies within the DMR prefix",
                "choose one outside",
                code="outside-prefix",
            )
        return self


class LwB4Params(CustomerParams):
    """Everything ``lwb4`` can be told."""

    measured: ClassVar[str] = "lw4o6"

    b4_address: IPv6Address = address("2001:db8:b4:1:0:c612:1:9", "the lwB4's tunnel address")
    br_address: IPv6Address = address("2001:db8:6::1", "the lwAFTR's address")
    ipv4_address: IPv4Address = address("198.18.0.1", "the lwB4's IPv4 address")
    psid: int = Field(
        DEFAULT_PSID, ge=0, description="PSID; by default the highest one, if that is lower"
    )
    psid_len: int = Field(6, ge=0, le=16, description="PSID length; 0: the whole address")
    psid_offset: int = Field(DEFAULT_PSID_OFFSET, ge=0, le=16, description="PSID offset")

    @model_validator(mode="before")
    @classmethod
    def _fitting_psid(cls, given: Any) -> Any:
        """Choose a PSID that fits its length, unless one is given."""
        if not isinstance(given, Mapping) or "psid" in given:
            return given
        length = str(given.get("psid_len", cls.model_fields["psid_len"].default))
        if not length.isdecimal() or int(length) > 16:
            return given  # which is refused
        return {**given, "psid": min(DEFAULT_PSID, (1 << int(length)) - 1)}

    @property
    def customer(self) -> Customer:
        return Customer(
            IPv4Network(self.ipv4_address),
            checked_ports(self.psid_offset, self.psid_len, self.psid),
            Tunnel(self.b4_address, self.br_address),
        )


def customer_sides(
    params: CustomerParams, links: Links, remote: IPv6Network | IPv6Address
) -> tuple[LinkIntent, LinkIntent]:
    """Describe left and right link of a customer's device.

    Args:
        params: of the device.
        links: both cables.
        remote: IPv6 prefix or address of the relay's side.
    """
    p = params
    left = LinkIntent.describe(
        links.left, [p.dut_left_ipv6], [p.tester_left_ipv6], {remote: p.tester_left_ipv6}
    )
    right = LinkIntent.describe(
        links.right,
        [p.dut_right_ipv4, p.dut_right_ipv6],
        [p.tester_right_ipv4, p.tester_right_ipv6],
        {p.customer.ipv4: p.tester_right_ipv4},
    )
    return left, right
