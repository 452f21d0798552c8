"""MAP-T border relay (RFC 7599): packets of the CEs arrive as IPv6 and leave as IPv4."""

from __future__ import annotations

from functools import cached_property
from ipaddress import IPv6Address, IPv6Interface
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import model_validator
from v6t.base.errors import UsageError
from v6t.intent.families import MapTRelayConfig
from v6t.packets.direction import Direction
from v6t.packets.headers import DONT_FRAGMENT, IPV4, IPV6, UDP, to_octets, view
from v6t.packets.reference import EXHAUSTED, NOT_FORWARDED, DropReason
from v6t.plugins.address_mappings import embed
from v6t.plugins.audit_views import RAISED_MTU, Translator, prefix_variants
from v6t.plugins.frame_sizes import IPV6_SIZES, check_whole
from v6t.plugins.map_domains import DmrParams, MapParams, MapRelay
from v6t.plugins.params import address
from v6t.plugins.reference_device import DROP_ALL, Answer
from v6t.plugins.relay import CustomerFlow
from v6t.plugins.traffic import ipv6
from v6t.plugins.translation import (
    Rfc6052Array,
    four_to_six,
    plain_ipv4,
    plain_ipv6,
    six_to_four,
)
from v6t.profiles.model import FramePair, Layer, Traffic

if TYPE_CHECKING:
    from v6t.packets.arrays import U8, Mask
    from v6t.plugins.audit_views import AuditView


class MapTDrop(DropReason):
    """Why a MAP-T border relay drops a frame."""

    NO_RULE = "source outside every rule"
    BAD_IID = "interface identifier contradicts the EA bits"
    BAD_PORT = "source port outside the CE's port set"
    NO_DESTINATION = "no rule for the IPv4 destination"
    NO_PORT = "destination port does not belong to a CE"
    TOO_BIG = "too big, or to be fragmented"


class MapTParams(DmrParams, MapParams):
    """Parameters of ``mapt-br``."""

    measured: ClassVar[str] = "MAP-T"

    dut_left_ipv6: IPv6Interface = address(
        "2001:db8:6::1/64", "the BR's IPv6 address on the left link"
    )

    @property
    def left_addresses(self) -> list[str]:
        return [str(self.dut_left_ipv6)]

    @model_validator(mode="after")
    def _check_dmr(self) -> MapTParams:
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


class MapTBorderRelay(MapRelay):
    """Translates IPv6 of the CEs forward, IPv4 of the server in reverse; stateless."""

    name = "mapt-br"
    title = "MAP-T border relay: IPv4 of many CEs translated to IPv6 and back"
    rfcs = (
        "RFC 7599",
        "RFC 7597 sections 5 and 6",
        "RFC 7915 sections 4 and 5",
        "RFC 6052 section 2",
    )
    params_model = MapTParams
    overhead = 20
    drops = MapTDrop
    rfc_frame_sizes = IPV6_SIZES
    whole_host = True
    params: MapTParams

    @property
    def relay_address(self) -> IPv6Address:
        return embed(self.params.dmr_prefix, self.params.server_ipv4)

    def customer_headers(self, flow: CustomerFlow) -> tuple[Layer, ...]:
        return (ipv6(self.params, flow.ipv6, flow.relay),)

    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        p = self.params
        if direction == "reverse":
            check_whole(p.df, sizes.ipv6, self.links.left, p.lowest_ipv6_mtu)
        return super().traffic(direction, sizes, seed)

    @cached_property
    def _dmr(self) -> Rfc6052Array:
        return Rfc6052Array(self.params.dmr_prefix)

    def forward(self, packets: U8) -> Answer:
        """Translate packets for the DMR prefix after the check of RFC 7597, section 8.1."""
        header = view(packets, IPV6)
        server, inside = self._dmr.to_ipv4(header["dst_octets"])
        if packets.shape[1] < 48:
            return Answer(DROP_ALL.drops, native=~inside)
        udp = view(packets, UDP, 40)
        ce = self.rules.find_sources(header["src_high"], header["src_low"], udp["sport"])
        return Answer(
            [
                (NOT_FORWARDED, ~plain_ipv6(packets)),
                (MapTDrop.NO_RULE, ~ce.known),
                (MapTDrop.BAD_IID, ~ce.consistent),
                (MapTDrop.BAD_PORT, ~ce.owned),
                (EXHAUSTED, header["hlim"] <= 1),
                (MapTDrop.TOO_BIG, packets.shape[1] - 20 > self.links.right.mtu),
            ],
            lambda rows: six_to_four(packets[rows], to_octets(ce.ipv4[rows], 4), server[rows]),
            version=4,
            native=~inside,
        )

    def reverse(self, packets: U8) -> Answer:
        """Translate towards the MAP address of the IPv4 destination and port."""
        plain = plain_ipv4(packets)
        if not plain.any():
            return DROP_ALL
        header, udp = view(packets, IPV4), view(packets, UDP, 20)
        ce = self.rules.find_destinations(header["dst"], udp["dport"])
        df = header["flags_frag"] & DONT_FRAGMENT != 0
        mtu = np.where(df, self.links.left.mtu, self.params.lowest_ipv6_mtu)

        def build(rows: Mask) -> U8:
            server, _ = self._dmr.to_ipv6(packets[rows, 12:16])
            return four_to_six(packets[rows], server, ce.ipv6[rows])

        return Answer(
            [
                (NOT_FORWARDED, ~plain),
                (MapTDrop.NO_DESTINATION, ~ce.known),
                (MapTDrop.NO_PORT, ~ce.owned),
                (EXHAUSTED, header["ttl"] <= 1),
                (MapTDrop.TOO_BIG, packets.shape[1] + 20 > mtu),
            ],
            build,
        )

    def configuration(self) -> MapTRelayConfig:
        p = self.params
        return MapTRelayConfig(
            rules=self.rule_configs(), dmr=p.dmr_prefix, lowest_ipv6_mtu=p.lowest_ipv6_mtu
        )

    def audit_views(self) -> tuple[AuditView, ...]:
        p = self.params
        relay = self.relay_view("MAP-T", dmr=p.dmr_prefix, lowest_ipv6_mtu=p.lowest_ipv6_mtu)
        customer = relay.customer
        translator = Translator(
            six_side="left",
            six=customer.ipv6,
            six4=(customer.ipv4,),
            port=customer.port,
            four=p.server_ipv4,
            four6=relay.relay,
            server_port=443,
            lowest_ipv6_mtu=p.lowest_ipv6_mtu,
            uses_ports=customer.ports.psid_len > 0,
            may_reassemble=True,  # RFC 7599, section 10.2
        )
        return relay, translator

    def audit_variants(self) -> dict[str, dict[str, Any]]:
        return {
            RAISED_MTU: {"lowest_ipv6_mtu": 1400},
            **prefix_variants("dmr"),
            **super().audit_variants(),
        }
