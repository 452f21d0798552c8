"""MAP-T (RFC 7599): translation between CEs and IPv4 addresses behind the DMR, and the border relay."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address, IPv6Interface, IPv6Network
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.intent.families import MapTRelayConfig
from v6t.packets.arrays import U8, Mask
from v6t.packets.direction import Direction
from v6t.packets.headers import DONT_FRAGMENT, IPV4, IPV6, UDP, to_octets, view
from v6t.packets.reference import EXHAUSTED, NOT_FORWARDED, DropReason
from v6t.plugins import translation
from v6t.plugins.audit_views import RAISED_MTU, AuditView, Translator, make_prefix_variants
from v6t.plugins.base import EmbeddedIpv4, PluginParams
from v6t.plugins.customers import CustomerTechnology
from v6t.plugins.frame_sizes import IPV6_SIZES, LOWEST_IPV6_MTU, LowestIpv6Mtu, check_unfragmented
from v6t.plugins.map_domains import MapParams, MapRelay, RuleParams
from v6t.plugins.map_rules import MapDestinations, MapSources, RuleTable
from v6t.plugins.params import device_address
from v6t.plugins.prefixes import parse_ipv6_network
from v6t.plugins.reference_device import DROP_ALL, Checks, Outcome
from v6t.plugins.translation import check_rfc6052_prefix, embed_ipv4
from v6t.profiles.model import FramePair, Traffic


class DmrParams(PluginParams):
    """Parameters of the default mapping rule (DMR) of a MAP-T domain."""

    if TYPE_CHECKING:
        server_ipv4: IPv4Address

    dmr: str = Field("2001:db8:ffff::/64", description="default mapping rule: an IPv6 prefix")
    lowest_ipv6_mtu: LowestIpv6Mtu = LOWEST_IPV6_MTU

    @cached_property
    def dmr_prefix(self) -> IPv6Network:
        return check_rfc6052_prefix(parse_ipv6_network(self.dmr, "dmr"))

    @property
    def relay_address(self) -> IPv6Address:
        """IPv6 address of the server, behind the DMR."""
        return embed_ipv4(self.dmr_prefix, self.server_ipv4)

    @property
    def embedded_addresses(self) -> EmbeddedIpv4:
        return {"dmr": (self.dmr_prefix, (self.server_ipv4,))}

    @property
    def dmr_config_values(self) -> dict[str, Any]:
        return {"dmr": self.dmr_prefix, "lowest_ipv6_mtu": self.lowest_ipv6_mtu}

    def refuse_dmr_overlap(self, domain: RuleParams) -> None:
        if self.dmr_prefix.overlaps(domain.rule.ipv6_prefix):
            problem = f"the DMR prefix {self.dmr_prefix} and the rule IPv6 prefix {domain.rule_ipv6} overlap"
            raise UsageError(problem, "choose disjoint prefixes", code="address-conflict")


class DmrTranslator(CustomerTechnology):
    """A border relay or CE of MAP-T; subclasses set ``drops`` with a member TOO_BIG."""

    rfcs = (
        "RFC 7599",
        "RFC 7597 sections 5 and 6",
        "RFC 7915 sections 4 and 5",
        "RFC 6052 section 2",
    )
    overhead = 20
    rfc_frame_sizes = IPV6_SIZES
    embeds_host = True

    @abstractmethod
    def check_sender(self, ce: MapSources, port: Any) -> Checks:
        """Return drop reasons of IPv6 packets, given the senders' CEs and ports."""

    @abstractmethod
    def check_receiver(self, ce: MapDestinations, ipv4: Any, port: Any) -> Checks:
        """Return drop reasons of IPv4 packets, given the receivers' CEs, addresses and ports."""

    def build_traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        if direction == "reverse":
            p = self.params
            check_unfragmented(p.df, sizes.ipv6, self.links.left, p.lowest_ipv6_mtu)
        return super().build_traffic(direction, sizes, seed)

    @cached_property
    def rules(self) -> RuleTable:
        return RuleTable(self.params.rules, embeds_host=True)

    def select_translated(self, header: Any, behind_dmr: Mask) -> Mask:
        """Select the IPv6 packets that are translated, of those with a peer behind the DMR."""
        return behind_dmr

    @cached_property
    def _dmr(self) -> translation.Rfc6052Array:
        return translation.Rfc6052Array(self.params.dmr_prefix)

    def _name_fields(self, direction: Direction) -> tuple[str, str, str]:
        """Return the customer's and the server's address field, and the customer's port field."""
        from_customer = direction == self.customer_direction
        return ("src", "dst", "sport") if from_customer else ("dst", "src", "dport")

    def translate_forward(self, packets: U8) -> Outcome:
        customer, server, port_field = self._name_fields("forward")
        header = view(packets, IPV6)
        host, behind_dmr = self._dmr.to_ipv4(header[f"{server}_octets"])
        native = ~self.select_translated(header, behind_dmr)
        if packets.shape[1] < 48:
            return Outcome(DROP_ALL.drops, native=native)
        port = view(packets, UDP, 40)[port_field]
        ce = self.rules.find_sources(header[f"{customer}_high"], header[f"{customer}_low"], port)

        def build_packets(rows: Mask) -> U8:
            ends = {customer: to_octets(ce.ipv4, 4), server: host}
            columns = translation.select_rows(rows, packets, ends["src"], ends["dst"])
            return translation.build_ipv4(*columns)

        checks = [
            (NOT_FORWARDED, ~translation.select_plain_udp(packets, 6)),
            *self.check_sender(ce, port),
            (EXHAUSTED, header["hlim"] <= 1),
            (self.drops["TOO_BIG"], packets.shape[1] - 20 > self.links.right.mtu),
        ]
        return Outcome(checks, build_packets, version=4, native=native)

    def translate_reverse(self, packets: U8) -> Outcome:
        plain = translation.select_plain_udp(packets, 4)
        if not plain.any():
            return DROP_ALL
        customer, server, port_field = self._name_fields("reverse")
        header, port = view(packets, IPV4), view(packets, UDP, 20)[port_field]
        ce = self.rules.find_destinations(header[customer], port)
        df = header["flags_frag"] & DONT_FRAGMENT != 0
        largest = self.links.left.mtu
        mtu = np.where(df, largest, min(largest, self.params.lowest_ipv6_mtu))

        def build_packets(rows: Mask) -> U8:
            host, _ = self._dmr.to_ipv6(header[f"{server}_octets"])
            ends = {customer: ce.ipv6, server: host}
            columns = translation.select_rows(rows, packets, ends["src"], ends["dst"])
            return translation.build_ipv6(*columns)

        checks = [
            (NOT_FORWARDED, ~plain),
            *self.check_receiver(ce, header[customer], port),
            (EXHAUSTED, header["ttl"] <= 1),
            (self.drops["TOO_BIG"], packets.shape[1] + 20 > mtu),
        ]
        return Outcome(checks, build_packets)

    def list_audit_variants(self) -> Mapping[str, Mapping[str, Any]]:
        raised = {RAISED_MTU: {"lowest_ipv6_mtu": 1400}}
        return {**raised, **make_prefix_variants("dmr"), **super().list_audit_variants()}


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

    display_name: ClassVar[str] = "MAP-T"

    dut_left_ipv6: IPv6Interface = device_address("2001:db8:6::1/64", "left")

    @property
    def left_addresses(self) -> list[str]:
        return [str(self.dut_left_ipv6)]

    @model_validator(mode="after")
    def _check_dmr(self) -> MapTParams:
        for domain in self.all_domains:
            self.refuse_dmr_overlap(domain)
        testers = ("tester_left_ipv6", "tester_right_ipv6")  # background would be translated
        self.refuse_addresses_within(self.dmr_prefix, "the DMR prefix", *testers)
        return self


class MapTBorderRelay(DmrTranslator, MapRelay):
    """A MAP-T border relay: translates to IPv4 in forward direction, to IPv6 in reverse."""

    name = "mapt-br"
    title = "MAP-T border relay: IPv4 of many CEs translated to IPv6 and back"
    params_model = MapTParams
    drops = MapTDrop
    params: MapTParams

    def check_sender(self, ce: MapSources, port: Any) -> Checks:
        own = [(MapTDrop.BAD_IID, ~ce.consistent), (MapTDrop.BAD_PORT, ~ce.owned)]
        return [(MapTDrop.NO_RULE, ~ce.known), *own]

    def check_receiver(self, ce: MapDestinations, ipv4: Any, port: Any) -> Checks:
        return [(MapTDrop.NO_DESTINATION, ~ce.known), (MapTDrop.NO_PORT, ~ce.owned)]

    def make_configuration(self) -> MapTRelayConfig:
        return MapTRelayConfig(rules=self.make_rule_configs(), **self.params.dmr_config_values)

    def list_audit_views(self) -> tuple[AuditView, ...]:
        relay = self.make_relay_view(**self.params.dmr_config_values)
        customer = relay.customer
        own = customer.ipv6, (customer.ipv4,), customer.port
        shared = customer.ports.psid_len > 0
        kind = {"uses_ports": shared, "may_reassemble": True}  # RFC 7599, section 10.2
        server = relay.server, relay.relay, 443
        return relay, Translator("left", *own, *server, self.params.lowest_ipv6_mtu, **kind)
