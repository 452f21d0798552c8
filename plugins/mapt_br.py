"""MAP-T border relay (RFC 7599): the CEs' packets arrive as IPv6 and leave as IPv4."""

from __future__ import annotations

from ipaddress import IPv6Interface, IPv6Network
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.intent.families import MapTRelayConfig
from v6t.packets.direction import Direction
from v6t.packets.headers import DONT_FRAGMENT, IPV4, IPV6, UDP, to_octets, view
from v6t.packets.reference import EXHAUSTED, NOT_FORWARDED, DropReason, list_drop_reasons
from v6t.plugins import address_mappings
from v6t.plugins.audit_views import RAISED_MTU, Translator, prefix_variants
from v6t.plugins.base import Links
from v6t.plugins.frame_sizes import IPV6_SIZES, check_whole
from v6t.plugins.map_domains import (
    DmrParams,
    MapParams,
    relay_traffic,
    relay_variants,
    relay_view,
    rule_configs,
)
from v6t.plugins.map_rules import MapRule, RuleArray, find_destinations
from v6t.plugins.reference_device import (
    Handled,
    ReferenceDevice,
    answer,
    answer_or_route,
    choose_reasons,
    dropped,
    route_all,
)
from v6t.plugins.relay import Relay
from v6t.plugins.traffic import ipv6
from v6t.plugins.translation import Rfc6052Array, four_to_six, plain_ipv4, plain_ipv6, six_to_four
from v6t.profiles.model import FramePair, Traffic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from v6t.packets.arrays import U8, U64, Mask, Reasons
    from v6t.plugins.audit_views import AuditView
    from v6t.plugins.reference_device import ReferenceDevice


class MapTDrop(DropReason):
    """Why a MAP-T border relay drops a frame."""

    NO_RULE = "source outside every rule"
    BAD_IID = "interface identifier contradicts the EA bits"
    BAD_PORT = "source port outside the CE's port set"
    NO_DESTINATION = "no rule for the IPv4 destination"
    NO_PORT = "destination port does not belong to a CE"
    TOO_BIG = "too big, or to be fragmented"


DROP_REASONS = list_drop_reasons(MapTDrop, "neither UDP to be translated nor native IPv6")


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


class MapTRelay:
    """Both handlers of a BR, and what they look up."""

    def __init__(
        self, rules: Sequence[MapRule], dmr: IPv6Network, links: Links, lowest_ipv6_mtu: int
    ) -> None:
        """Precompute what every batch needs.

        Args:
            rules: all mapping rules.
            dmr: the default mapping rule's prefix.
            links: both cables.
            lowest_ipv6_mtu: longest IPv6 packet made of IPv4 without DF [octets].
        """
        # longest prefixes last: later matches replace earlier ones
        by_length = sorted(rules, key=lambda r: r.ipv6_prefix.prefixlen)
        self._by_ipv6 = [RuleArray(r, whole_host=True) for r in by_length]
        by_length = sorted(rules, key=lambda r: (r.ipv4_prefix.prefixlen, r.ipv4_prefix))
        self._by_ipv4 = [RuleArray(r, whole_host=True) for r in by_length]
        self._dmr = Rfc6052Array(dmr)
        self._ipv6_mtu, self._ipv4_mtu = links.left.mtu, links.right.mtu
        self._lowest = lowest_ipv6_mtu

    def device(self, links: Links) -> ReferenceDevice:
        """Build the reference device."""
        return ReferenceDevice(links, {6: self._from_ipv6}, {4: self._from_ipv4, 6: route_all(6)})

    def map_source(self, high: U64, low: U64, port: U64) -> tuple[U8, Reasons]:
        """Return the IPv4 address of CEs, and 0 or the reason to drop their packets.

        Args:
            high, low: ``(n,)``, halves of the IPv6 source addresses.
            port: ``(n,)``, source ports.
        """
        reason = np.full(len(high), MapTDrop.NO_RULE, dtype=np.uint8)
        address = np.zeros(len(high), dtype=np.uint64)
        for rule in self._by_ipv6:
            inside = rule.contains_ipv6(high)
            if not inside.any():
                continue
            claimed, psid, consistent = rule.decode_address(high, low)
            owner, owned = rule.find_psids(port)
            verdict = choose_reasons(
                len(high),
                (MapTDrop.BAD_IID, ~consistent),
                (MapTDrop.BAD_PORT, ~owned | (owner != psid)),
            )
            np.copyto(reason, verdict, where=inside)
            np.copyto(address, claimed, where=inside)
        return to_octets(address, 4), reason

    def map_destination(self, ipv4: U64, port: U64) -> tuple[U8, Reasons]:
        """Return the MAP addresses of IPv4 destinations and ports, and 0 or the drop reason."""
        found = find_destinations(self._by_ipv4, ipv4, port)
        reason = choose_reasons(
            len(ipv4), (MapTDrop.NO_DESTINATION, ~found.known), (MapTDrop.NO_PORT, ~found.owned)
        )
        return found.ipv6, reason

    def _from_ipv6(self, packets: U8) -> Handled:
        header = view(packets, IPV6)
        server, inside = self._dmr.to_ipv4(header["dst_octets"])
        source = np.zeros((len(packets), 4), dtype=np.uint8)
        reason = np.full(len(packets), NOT_FORWARDED, dtype=np.uint8)
        if inside.any() and packets.shape[1] >= 48:
            high, low, port = (
                numbers.astype(np.uint64)
                for numbers in (
                    header["src_high"],
                    header["src_low"],
                    view(packets, UDP, 40)["sport"],
                )
            )
            source, wrong_source = self.map_source(high, low, port)
            reason = choose_reasons(
                len(packets),
                (NOT_FORWARDED, ~plain_ipv6(packets)),
                (wrong_source, wrong_source != 0),
                (EXHAUSTED, header["hlim"] <= 1),
                (MapTDrop.TOO_BIG, packets.shape[1] - 20 > self._ipv4_mtu),
            )

        def build(rows: Mask) -> U8:
            return six_to_four(packets[rows], source[rows], server[rows])

        return answer_or_route(packets, inside, reason, build)

    def _from_ipv4(self, packets: U8) -> Handled:
        plain = plain_ipv4(packets)
        if not plain.any():
            return dropped(len(packets), NOT_FORWARDED)
        header, udp = view(packets, IPV4), view(packets, UDP, 20)
        ipv4, port = header["dst"].astype(np.uint64), udp["dport"].astype(np.uint64)
        destination, unknown = self.map_destination(ipv4, port)
        df = header["flags_frag"] & DONT_FRAGMENT != 0
        reason = choose_reasons(
            len(packets),
            (NOT_FORWARDED, ~plain),
            (unknown, unknown != 0),
            (EXHAUSTED, header["ttl"] <= 1),
            (MapTDrop.TOO_BIG, packets.shape[1] + 20 > np.where(df, self._ipv6_mtu, self._lowest)),
        )

        def build(rows: Mask) -> U8:
            server, _ = self._dmr.to_ipv6(packets[rows, 12:16])
            return four_to_six(packets[rows], server, destination[rows])

        return answer(reason, build, 6)


class MapTBorderRelay(Relay):
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
    sides = ("CEs", "server")
    drop_reasons: ClassVar[tuple[str, ...]] = DROP_REASONS
    rfc_frame_sizes = IPV6_SIZES
    params: MapTParams

    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        """Foreground per domain, background and spoofed frames as the parameters say."""
        p = self.params
        if direction == "reverse":
            check_whole(p.df, sizes.ipv6, self.links.left, p.lowest_ipv6_mtu)
        server = address_mappings.embed(p.dmr_prefix, p.server_ipv4)
        # no IPv4 header, so the host's address is in the identifier only
        return relay_traffic(
            p,
            self.links,
            direction,
            sizes,
            seed,
            lambda ce, _: (ipv6(p, ce, server),),
            whole_host=True,
        )

    def configuration(self) -> MapTRelayConfig:
        """Return the rules and the DMR."""
        p = self.params
        return MapTRelayConfig(
            rules=rule_configs(p), dmr=p.dmr_prefix, lowest_ipv6_mtu=p.lowest_ipv6_mtu
        )

    def left_addresses(self) -> list[str]:
        return [str(self.params.dut_left_ipv6)]

    def audit_views(self) -> tuple[AuditView, ...]:
        p = self.params
        server = address_mappings.embed(p.dmr_prefix, p.server_ipv4)
        relay = relay_view(
            p, "MAP-T", server, frozenset(), dmr=p.dmr_prefix, lowest_ipv6_mtu=p.lowest_ipv6_mtu
        )
        customer = relay.customer
        translator = Translator(
            six_side="left",
            six=customer.ipv6,
            six4=(customer.ipv4,),
            port=customer.port,
            four=p.server_ipv4,
            four6=server,
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
            **relay_variants(self.params),
        }

    def reference_device(self) -> ReferenceDevice:

        p = self.params
        rules = [d.rule for d in p.all_domains]
        return MapTRelay(rules, p.dmr_prefix, self.links, p.lowest_ipv6_mtu).device(self.links)
