"""Parameters that all stateless translators share (SIIT, CLAT)."""

from __future__ import annotations

from functools import cached_property
from ipaddress import IPv4Address, IPv4Interface, IPv6Address
from typing import ClassVar

from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.packets.reference import DropReason
from v6t.plugins.base import Embedded
from v6t.plugins.params import LinkParams, address, negative_share
from v6t.plugins.siit.hosts import HostRange, host
from v6t.plugins.translation.eam import Mappings, Rfc6052

LOWEST_IPV6_MTU = 1280


class TranslatorDrop(DropReason):
    """Why a stateless translator drops a frame."""

    NO_MAPPING = "no mapping for an address"
    TOO_BIG = "too big, and not to be fragmented"
    UNTRANSLATABLE = "not a whole UDP datagram with a checksum"
    FRAGMENTS = "leaves as fragments"


class TranslatorParams(LinkParams):
    """Hosts on both sides, link addresses, negative traffic."""

    measured: ClassVar[str] = "translation"
    prefix_parameter: ClassVar[str] = "prefix"
    """The parameter that names the prefix for addresses without an explicit mapping."""

    ipv6_hosts: HostRange = Field(
        HostRange(first=IPv4Address("198.18.0.2")),
        description="hosts beyond the IPv6 link, named by their IPv4 addresses",
    )
    ipv4_hosts: HostRange = Field(
        HostRange(first=IPv4Address("198.19.0.2")), description="hosts beyond the IPv4 link"
    )
    bg_ipv6_side: IPv6Address = address("2001:2::2", "background address beyond the IPv6 link")
    bg_ipv4_side: IPv6Address = Field(
        IPv6Address("2001:2:0:8000::2"), description="background address beyond the IPv4 link"
    )
    dut_ipv4: IPv4Interface = address("192.168.19.1/30", "the device's address on the IPv4 link")
    tester_ipv4: IPv4Address = address("192.168.19.2", "tester's address on the IPv4 link")
    lowest_ipv6_mtu: int = Field(
        LOWEST_IPV6_MTU,
        ge=1280,
        description="IPv4 packets without DF are fragmented to this (RFC 7915 section 4)",
    )
    negative_percent: int = negative_share(
        "share of frames the translator must drop: no mapping holds their source [%]"
    )

    @cached_property
    def mappings(self) -> Mappings:
        """The checked address table."""
        raise NotImplementedError

    @property
    def embedded_addresses(self) -> Embedded:
        """Return the ends of host ranges that no explicit mapping holds."""
        mappings = self.mappings
        if mappings.prefix is None:
            return {}
        ends = [
            end for hosts in (self.ipv6_hosts, self.ipv4_hosts) for end in (hosts.first, hosts.top)
        ]
        behind = [end for end in ends if isinstance(mappings.of_ipv4(end), Rfc6052)]
        return {self.prefix_parameter: (mappings.prefix.ipv6, behind)}

    @model_validator(mode="after")
    def _hosts(self) -> TranslatorParams:
        mappings = self.mappings
        if mappings.to_ipv4(self.bg_ipv4_side) is not None:
            raise UsageError(
                f"the background address {self.bg_ipv4_side} lies within a mapping, so it would "
                "be translated",
                "choose a bg_ipv4_side outside all mappings",
                code="address-conflict",
            )
        ends = (self.ipv6_hosts, self.ipv4_hosts)
        if ends[0].first <= ends[1].top and ends[1].first <= ends[0].top:
            raise UsageError(
                "ipv6_hosts and ipv4_hosts overlap",
                "choose disjoint ranges",
                code="address-conflict",
            )
        host("ipv6_host", self.ipv6_hosts, mappings, 1)
        host("ipv4_host", self.ipv4_hosts, mappings, 1)
        return self
