"""Parameters of the MAP-E border relay."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import ClassVar

from pydantic import model_validator
from v6t.base.errors import UsageError
from v6t.packets.reference import DropReason, list_drop_reasons
from v6t.plugins.common.addresses import address
from v6t.plugins.common.relay_params import TunnelRelayParams
from v6t.plugins.map.params import ALL_CES, LISTED_CES, Domain, MapParams
from v6t.plugins.tunnel.ipip import UNMARKABLE

__all__ = ["ALL_CES", "DROP_REASONS", "LISTED_CES", "Domain", "MapEDrop", "MapEParams"]


class MapEDrop(DropReason):
    """Why a MAP-E border relay drops a frame."""

    NO_RULE = "outer source outside every rule"
    BAD_IID = "interface identifier contradicts the EA bits"
    BAD_SOURCE = "inner source address contradicts the outer one"
    BAD_PORT = "inner source port outside the CE's port set"
    NO_DESTINATION = "no rule for the IPv4 destination"
    NO_PORT = "destination port does not belong to a CE"
    TOO_BIG = "too big for the IPv6 link"
    UNMARKED = UNMARKABLE


DROP_REASONS = list_drop_reasons(MapEDrop, "neither IPv4 in IPv6 for the BR nor native IPv6")


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
