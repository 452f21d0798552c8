"""MAP-E border relay (RFC 7597): the CEs' IPv4 packets arrive in IPv6, the server's leave in it."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import model_validator
from v6t.base.errors import UsageError
from v6t.intent.families import MapERelayConfig
from v6t.packets.direction import Direction
from v6t.packets.headers import IPV4, IPV6, UDP, view
from v6t.packets.reference import EXHAUSTED, NOT_FORWARDED, DropReason, list_drop_reasons
from v6t.plugins.base import Links
from v6t.plugins.frame_sizes import TUNNEL_SIZES
from v6t.plugins.map_domains import (
    MapParams,
    customer_tunnel,
    relay_traffic,
    relay_variants,
    relay_view,
    rule_configs,
)
from v6t.plugins.map_rules import MapRule, RuleArray, find_destinations
from v6t.plugins.params import address
from v6t.plugins.reference_device import (
    Handled,
    ReferenceDevice,
    answer,
    answer_or_route,
    choose_reasons,
    dropped,
    route_all,
)
from v6t.plugins.relay import Relay, TunnelRelayParams
from v6t.plugins.traffic import ipv4, ipv6
from v6t.plugins.tunnels import (
    UNMARKABLE,
    carries_udp,
    decapsulate,
    encapsulate,
    is_udp,
    unmarkable,
)
from v6t.profiles.model import FramePair, Traffic

if TYPE_CHECKING:
    from v6t.packets.arrays import U8, U64, Mask, Reasons
    from v6t.plugins.audit_views import AuditView
    from v6t.plugins.reference_device import ReferenceDevice


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


_SHORTEST = 28
"""Octets of IPv4 and UDP headers."""


class MapERelay:
    """Both handlers of a BR, and what they look up."""

    def __init__(self, rules: Sequence[MapRule], br_address: IPv6Address, links: Links) -> None:
        """Precompute what every batch needs.

        Args:
            rules: all mapping rules.
            br_address: the tunnels' end.
            links: both cables.
        """
        self._br = np.frombuffer(br_address.packed, dtype=np.uint8)
        # longest prefixes last: later matches replace earlier ones
        by_length = sorted(rules, key=lambda r: r.ipv6_prefix.prefixlen)
        self._by_ipv6 = [RuleArray(r) for r in by_length]
        by_length = sorted(rules, key=lambda r: (r.ipv4_prefix.prefixlen, r.ipv4_prefix))
        self._by_ipv4 = [RuleArray(r) for r in by_length]
        self._mtu = links.left.mtu

    def device(self, links: Links) -> ReferenceDevice:
        """Build the reference device."""
        return ReferenceDevice(links, {6: self._from_ipv6}, {4: self._from_ipv4, 6: route_all(6)})

    def _from_ipv6(self, packets: U8) -> Handled:
        outer = view(packets, IPV6)
        ours = (outer["dst_octets"] == self._br).all(axis=1)
        reason = np.full(len(packets), NOT_FORWARDED, dtype=np.uint8)
        if packets.shape[1] >= 40 + _SHORTEST:
            inner, udp = view(packets, IPV4, 40), view(packets, UDP, 60)
            wrong_source = self._check_source(
                *(a.astype(np.uint64) for a in (outer["src_high"], outer["src_low"])),
                *(a.astype(np.uint64) for a in (inner["src"], udp["sport"])),
            )
            reason = choose_reasons(
                len(packets),
                (NOT_FORWARDED, ~carries_udp(packets)),
                (wrong_source, wrong_source != 0),
                (EXHAUSTED, inner["ttl"] <= 1),
                (MapEDrop.UNMARKED, unmarkable(packets)),
            )
        return answer_or_route(packets, ours, reason, lambda rows: decapsulate(packets[rows]))

    def _check_source(self, high: U64, low: U64, ipv4: U64, port: U64) -> Reasons:
        """Return 0 for packets whose outer and inner source agree, else the drop reason."""
        reason = np.full(len(high), MapEDrop.NO_RULE, dtype=np.uint8)
        for rule in self._by_ipv6:
            inside = rule.contains_ipv6(high)
            if inside.any():
                np.copyto(reason, _check_rule(rule, high, low, ipv4, port), where=inside)
        return reason

    def _from_ipv4(self, packets: U8) -> Handled:
        if packets.shape[1] < _SHORTEST:
            return dropped(len(packets), NOT_FORWARDED)
        header, udp = view(packets, IPV4), view(packets, UDP, 20)
        ipv4, port = header["dst"].astype(np.uint64), udp["dport"].astype(np.uint64)
        destinations = find_destinations(self._by_ipv4, ipv4, port)
        reason = choose_reasons(
            len(packets),
            (NOT_FORWARDED, ~is_udp(packets)),
            (MapEDrop.NO_DESTINATION, ~destinations.known),
            (MapEDrop.NO_PORT, ~destinations.owned),
            (EXHAUSTED, header["ttl"] <= 1),
            (MapEDrop.TOO_BIG, packets.shape[1] + 40 > self._mtu),
        )

        def build(rows: Mask) -> U8:
            return encapsulate(packets[rows], self._br, destinations.ipv6[rows])

        return answer(reason, build, 6)


def _check_rule(rule: RuleArray, high: U64, low: U64, source: U64, port: U64) -> Reasons:
    """Return 0 for packets that are consistent with a rule, else the drop reason."""
    right_high, right_low, owned = rule.map_address(source, port)
    _, _, consistent = rule.decode_address(high, low)
    return choose_reasons(
        len(high),
        (MapEDrop.BAD_IID, ~consistent),
        (MapEDrop.BAD_SOURCE, (right_low ^ low) & rule.mask_without_psid != 0),
        (MapEDrop.BAD_PORT, ~owned | (right_high != high) | (right_low != low)),
    )


class MapEBorderRelay(Relay):
    """Decapsulates forward, encapsulates in reverse; stateless."""

    name = "mape-br"
    title = "MAP-E border relay: IPv4 of many CEs in IPv6, decapsulated and encapsulated"
    rfcs = ("RFC 7597",)
    params_model = MapEParams
    overhead = 40
    sides = ("CEs", "server")
    drop_reasons: ClassVar[tuple[str, ...]] = DROP_REASONS
    rfc_frame_sizes = TUNNEL_SIZES
    params: MapEParams

    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        """Foreground per domain, background and spoofed frames as the parameters say."""
        p = self.params
        return relay_traffic(
            p,
            self.links,
            direction,
            sizes,
            seed,
            lambda ce, own: (ipv6(p, ce, p.br_address), ipv4(p, own, p.server_ipv4)),
        )

    def configuration(self) -> MapERelayConfig:
        """Return the rules and the relay's address."""
        return MapERelayConfig(rules=rule_configs(self.params), br_address=self.params.br_address)

    def left_addresses(self) -> list[str]:
        return self.params.left_addresses

    def audit_views(self) -> tuple[AuditView, ...]:
        relay = relay_view(
            self.params, "MAP-E", self.params.br_address, frozenset({self.params.br_address})
        )
        return relay, customer_tunnel(relay)

    def audit_variants(self) -> dict[str, dict[str, Any]]:
        return relay_variants(self.params)

    def reference_device(self) -> ReferenceDevice:

        rules = [d.rule for d in self.params.all_domains]
        return MapERelay(rules, self.params.br_address, self.links).device(self.links)
