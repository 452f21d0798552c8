"""MAP-E border relay (RFC 7597): IPv4 of the CEs arrives in IPv6, IPv4 of the server leaves in IPv6."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import model_validator
from v6t.base.errors import UsageError
from v6t.intent.families import MapERelayConfig
from v6t.packets.headers import IPV4, IPV6, UDP, view
from v6t.packets.reference import EXHAUSTED, NOT_FORWARDED, DropReason
from v6t.plugins.frame_sizes import TUNNEL_SIZES
from v6t.plugins.map_domains import MapParams, MapRelay
from v6t.plugins.params import address
from v6t.plugins.reference_device import DROP_ALL, Answer
from v6t.plugins.relay import TunnelRelayParams, customer_tunnel
from v6t.plugins.tunnels import (
    UNMARKABLE,
    carries_udp,
    decapsulate,
    encapsulate,
    is_udp,
    unmarkable,
)

if TYPE_CHECKING:
    from v6t.packets.arrays import U8
    from v6t.plugins.audit_views import AuditView


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


class MapEParams(TunnelRelayParams, MapParams):
    """Parameters of ``mape-br``."""

    measured: ClassVar[str] = "MAP-E"

    br_address: IPv6Address = address(
        "2001:db8:6::1", "the BR's tunnel address; like a loopback address if it is not on the link"
    )

    @model_validator(mode="after")
    def _check_br_address(self) -> MapEParams:
        if any(self.br_address in d.rule.ipv6_prefix for d in self.all_domains):
            raise UsageError(
                "br_address lies within a rule IPv6 prefix",
                "choose one outside",
                code="address-conflict",
            )
        return self


class MapEBorderRelay(MapRelay):
    """Decapsulates forward, encapsulates in reverse; stateless."""

    name = "mape-br"
    title = "MAP-E border relay: IPv4 of many CEs in IPv6, decapsulated and encapsulated"
    rfcs = ("RFC 7597",)
    params_model = MapEParams
    overhead = 40
    drops = MapEDrop
    rfc_frame_sizes = TUNNEL_SIZES
    params: MapEParams

    @property
    def relay_address(self) -> IPv6Address:
        return self.params.br_address

    def forward(self, packets: U8) -> Answer:
        """Decapsulate after the consistency check of RFC 7597, section 8.1."""
        outer = view(packets, IPV6)
        native = (outer["dst_octets"] != self._br_octets).any(axis=1)
        if packets.shape[1] < 68:
            return Answer(DROP_ALL.drops, native=native)
        inner, udp = view(packets, IPV4, 40), view(packets, UDP, 60)
        ce = self.rules.find_sources(outer["src_high"], outer["src_low"], udp["sport"])
        return Answer(
            [
                (NOT_FORWARDED, ~carries_udp(packets)),
                (MapEDrop.NO_RULE, ~ce.known),
                (MapEDrop.BAD_IID, ~ce.consistent),
                (MapEDrop.BAD_SOURCE, ~ce.have_address(inner["src"])),
                (MapEDrop.BAD_PORT, ~ce.owned),
                (EXHAUSTED, inner["ttl"] <= 1),
                (MapEDrop.UNMARKED, unmarkable(packets)),
            ],
            lambda rows: decapsulate(packets[rows]),
            version=4,
            native=native,
        )

    def reverse(self, packets: U8) -> Answer:
        """Encapsulate towards the MAP address of the IPv4 destination and port."""
        if packets.shape[1] < 28:
            return DROP_ALL
        header, udp = view(packets, IPV4), view(packets, UDP, 20)
        ce = self.rules.find_destinations(header["dst"], udp["dport"])
        return Answer(
            [
                (NOT_FORWARDED, ~is_udp(packets)),
                (MapEDrop.NO_DESTINATION, ~ce.known),
                (MapEDrop.NO_PORT, ~ce.owned),
                (EXHAUSTED, header["ttl"] <= 1),
                (MapEDrop.TOO_BIG, packets.shape[1] + 40 > self.links.left.mtu),
            ],
            lambda rows: encapsulate(packets[rows], self._br_octets, ce.ipv6[rows]),
        )

    @property
    def _br_octets(self) -> U8:
        return np.frombuffer(self.params.br_address.packed, dtype=np.uint8)

    def configuration(self) -> MapERelayConfig:
        return MapERelayConfig(rules=self.rule_configs(), br_address=self.params.br_address)

    def audit_views(self) -> tuple[AuditView, ...]:
        relay = self.relay_view("MAP-E")
        return relay, customer_tunnel(relay)
