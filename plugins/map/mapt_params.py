"""Parameters of the MAP-T border relay."""

from __future__ import annotations

from functools import cached_property
from ipaddress import IPv4Address, IPv6Interface, IPv6Network
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.packets.reference import DropReason, list_drop_reasons
from v6t.plugins.address_mappings import check_prefix
from v6t.plugins.base import Embedded, PluginParams
from v6t.plugins.common.text import network6
from v6t.plugins.frame_sizes import LOWEST_IPV6_MTU
from v6t.plugins.map.params import MapParams, RuleParams


class MapTDrop(DropReason):
    """Why a MAP-T border relay drops a frame."""

    NO_RULE = "source outside every rule"
    BAD_IID = "interface identifier contradicts the EA bits"
    BAD_PORT = "source port outside the CE's port set"
    NO_DESTINATION = "no rule for the IPv4 destination"
    NO_PORT = "destination port does not belong to a CE"
    TOO_BIG = "too big, or to be fragmented"


DROP_REASONS = list_drop_reasons(MapTDrop, "neither UDP to be translated nor native IPv6")


class DmrParams(PluginParams):
    """What the relay and the CE of a MAP-T domain know of addresses beyond it."""

    if TYPE_CHECKING:
        server_ipv4: IPv4Address

    dmr: str = Field(
        "2001:db8:ffff::/64",
        description="default mapping rule: IPv6 prefix of all other IPv4 addresses",
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
    def embedded_addresses(self) -> Embedded:
        """Return the host beyond the relay."""
        return {"dmr": (self.dmr_prefix, (self.server_ipv4,))}

    def refuse_overlap(self, domain: RuleParams) -> None:
        """Raise :class:`~v6t.base.errors.UsageError` if a rule's prefix lies within, or around it."""
        if self.dmr_prefix.overlaps(domain.rule.ipv6_prefix):
            raise UsageError(
                f"the DMR prefix {self.dmr_prefix} and the rule IPv6 prefix {domain.rule_ipv6} overlap",
                "choose disjoint prefixes",
                code="address-conflict",
            )


class MapTParams(DmrParams, MapParams):
    """Everything ``mapt-br`` can be told."""

    measured: ClassVar[str] = "MAP-T"

    dut_left_ipv6: IPv6Interface = Field(
        IPv6Interface("2001:db8:6::1/64"), description="the BR's IPv6 address on the left link"
    )

    @model_validator(mode="after")
    def _dmr(self) -> MapTParams:
        for domain in self.all_domains:
            self.refuse_overlap(domain)
        for name in ("tester_left_ipv6", "tester_right_ipv6"):
            if getattr(self, name) in self.dmr_prefix:
                raise UsageError(
                    f"{name} lies within the DMR prefix, so background frames would be translated",
                    "choose an address outside",
                    code="address-conflict",
                )
        return self
