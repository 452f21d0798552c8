"""The customer side of 464XLAT (RFC 6877): a stateless translator, private IPv4 behind it."""

from __future__ import annotations

from functools import cached_property
from ipaddress import IPv4Address, IPv6Address
from typing import Any, ClassVar

from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.intent.families import ClatConfig
from v6t.plugins.audit_views import (
    GLOBAL_HOST,
    RAISED_MTU,
    WELL_KNOWN_PREFIX,
    prefix_variants,
    variant_prefix,
)
from v6t.plugins.params import address
from v6t.plugins.siit.base import StatelessTranslator
from v6t.plugins.siit.hosts import HostRange
from v6t.plugins.siit.params import TranslatorParams
from v6t.plugins.translation.eam import Mappings, mappings_from_text
from v6t.plugins.translation.rfc6052 import WELL_KNOWN


class ClatParams(TranslatorParams):
    """Everything ``clat`` can be told; the defaults are those of Lencse and Bazsó (2024).

    Their PLAT has the well-known prefix, which must not stand for the addresses of RFC 2544 that
    they use (RFC 6052, section 3.1): here it has the prefix of ``nat64``.
    """

    prefix_parameter: ClassVar[str] = "plat_prefix"

    clat_ipv4: str = Field("198.18.0.0/24", description="IPv4 network of the customer")
    clat_ipv6: str = Field(
        "2001:2:0:2::/120", description="IPv6 prefix that stands for it (RFC 6877 section 6)"
    )
    plat_prefix: str = Field(
        "2001:db8:64::/96", description="RFC 6052 prefix of the PLAT, for all other IPv4 addresses"
    )
    ipv6_hosts: HostRange = Field(
        HostRange(first=IPv4Address("198.19.0.2")), description="servers beyond the PLAT"
    )
    ipv4_hosts: HostRange = Field(
        HostRange(first=IPv4Address("198.18.0.2")), description="hosts of the customer"
    )
    bg_ipv6_side: IPv6Address = address("2001:2:0:3::2", "background address beyond the IPv6 link")

    @cached_property
    def mappings(self) -> Mappings:
        return mappings_from_text([(self.clat_ipv4, self.clat_ipv6)], self.plat_prefix)

    @model_validator(mode="after")
    def _sides(self) -> ClatParams:
        own = self.mappings.eams[0].ipv4
        if self.ipv4_hosts.first not in own or self.ipv4_hosts.top not in own:
            raise UsageError(
                f"the customer's hosts are not within clat_ipv4 {own}",
                "choose ipv4_hosts within it",
                code="outside-prefix",
            )
        if any(net.overlaps(own) for net in self.ipv6_hosts.networks()):
            raise UsageError(
                f"the servers beyond the PLAT lie within clat_ipv4 {own}",
                "choose ipv6_hosts outside it",
                code="address-conflict",
            )
        return self


class Clat(StatelessTranslator):
    """Left is IPv6 towards the PLAT, right the customer's IPv4; stateless."""

    name = "clat"
    title = "CLAT of 464XLAT: the customer's IPv4 translated statelessly towards a PLAT"
    rfcs = ("RFC 6877 section 6", "RFC 7915 sections 4 and 5", "RFC 6052 section 2")
    params_model = ClatParams
    ip_versions = (6, 4)
    sides = ("PLAT", "customer")
    prefix_side = "six"
    family = ClatConfig
    params: ClatParams

    def audit_params(self) -> dict[str, Any]:
        """Return another prefix than the well-known one, behind which benchmark addresses are refused."""
        return {"plat_prefix": variant_prefix(96)}

    def audit_variants(self) -> dict[str, dict[str, Any]]:
        return {
            RAISED_MTU: {"lowest_ipv6_mtu": 1400},
            **prefix_variants("plat_prefix"),
            WELL_KNOWN_PREFIX: {
                "plat_prefix": str(WELL_KNOWN),
                "ipv6_hosts": {"first": GLOBAL_HOST, "last": GLOBAL_HOST},
            },
        }
