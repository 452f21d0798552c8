"""Parameters of the MAP-E border relay."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import ClassVar

from pydantic import model_validator
from v6t.base.errors import UsageError
from v6t.plugins.common.addresses import address
from v6t.plugins.common.relay_params import TunnelRelayParams
from v6t.plugins.map.params import ALL_CES, LISTED_CES, Domain, MapParams
from v6t.plugins.tunnel.ipip import UNMARKABLE

__all__ = ["ALL_CES", "DROP_REASONS", "LISTED_CES", "Domain", "MapEParams"]

DROP_REASONS = (
    "forwarded",
    "not addressed to this device",
    "neither IPv4 in IPv6 for the BR nor native IPv6",
    "TTL or hop limit exhausted",
    "outer source outside every rule",
    "interface identifier contradicts the EA bits",
    "inner source address contradicts the outer one",
    "inner source port outside the CE's port set",
    "no rule for the IPv4 destination",
    "destination port belongs to no CE",
    "too big for the IPv6 link",
    UNMARKABLE,
)
"""Why a frame was not forwarded; the reference relay answers with an index into this."""


class MapEParams(TunnelRelayParams, MapParams):
    """Everything ``mape-br`` can be told."""

    measured: ClassVar[str] = "MAP-E"

    br_address: IPv6Address = address(
        "2001:db8:6::1", "the BR's tunnel address; like a loopback address if it is not on the link"
    )

    @model_validator(mode="after")
    def _br(self) -> MapEParams:
        if any(self.br_address in d.rule.ipv6_prefix for d in self.all_domains):
            raise UsageError(
                "br_address lies within a rule IPv6 prefix",
                "choose one outside",
                code="address-conflict",
            )
        return self
