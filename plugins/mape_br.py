"""MAP-E border relay (RFC 7597): IPv4 of the CEs arrives in IPv6, IPv4 of the server leaves in IPv6."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from pydantic import model_validator
from v6t.intent.families import MapERelayConfig
from v6t.packets.arrays import Mask
from v6t.packets.reference import DropReason
from v6t.plugins.audit_views import AuditView
from v6t.plugins.customers import TunnelRelayParams, make_tunnel_view
from v6t.plugins.map_domains import MapParams, MapRelay
from v6t.plugins.reference_device import Checks
from v6t.plugins.tunnels import ECN_DROP, TunnelDevice, match_address, pack_address


class MapEDrop(DropReason):
    """Why a MAP-E border relay drops a frame."""

    NO_RULE = "outer source outside every rule"
    BAD_IID = "interface identifier contradicts the EA bits"
    BAD_SOURCE = "inner source address contradicts the outer one"
    BAD_PORT = "inner source port outside the CE's port set"
    NO_DESTINATION = "no rule for the IPv4 destination"
    NO_PORT = "destination port does not belong to a CE"
    TOO_BIG = "too big for the IPv6 link"
    NOT_ECN_CAPABLE = ECN_DROP


RFC9637_ADDRESSES = {  # suggested for rules that contain the default addresses
    "br_address": "3fff:6::1",
    "tester_left_ipv6": "3fff:6::2",
    "dut_right_ipv6": "3fff:7::1/64",
    "tester_right_ipv6": "3fff:7::2",
}


class MapEParams(TunnelRelayParams, MapParams):
    """Parameters of ``mape-br``."""

    display_name: ClassVar[str] = "MAP-E"

    @model_validator(mode="after")
    def _check_br_address(self) -> MapEParams:
        label = "the rule IPv6 prefix"
        for rule in self.rules:
            self.refuse_addresses_within(rule.ipv6_prefix, label, "br_address", **RFC9637_ADDRESSES)
        return self


class MapEBorderRelay(TunnelDevice, MapRelay):
    """A MAP-E border relay: decapsulates in forward direction, encapsulates in reverse."""

    name = "mape-br"
    title = "MAP-E border relay: IPv4 of many CEs in IPv6, decapsulated and encapsulated"
    rfcs = ("RFC 7597",)
    params_model = MapEParams
    drops = MapEDrop
    params: MapEParams

    def select_tunnel_packets(self, outer: Any) -> Mask:
        return match_address(outer["dst_octets"], self.params.br_address)

    def check_source(self, outer: Any, inner: Any, udp: Any) -> Checks:
        """Return the drop reasons of the consistency checks of RFC 7597, section 8.1."""
        ce = self.rules.find_sources(outer["src_high"], outer["src_low"], udp["sport"])
        return [
            (MapEDrop.NO_RULE, ~ce.known),
            (MapEDrop.BAD_IID, ~ce.consistent),
            (MapEDrop.BAD_SOURCE, (ce.ipv4 ^ inner["src"]) & ce.mask != 0),
            (MapEDrop.BAD_PORT, ~ce.owned),
        ]

    def choose_tunnel(self, header: Any, udp: Any) -> tuple[Checks, Callable[[Mask], Any]]:
        ce = self.rules.find_destinations(header["dst"], udp["dport"])
        checks = [(MapEDrop.NO_DESTINATION, ~ce.known), (MapEDrop.NO_PORT, ~ce.owned)]
        return checks, lambda rows: (pack_address(self.params.br_address), ce.ipv6[rows])

    def make_configuration(self) -> MapERelayConfig:
        return MapERelayConfig(rules=self.make_rule_configs(), br_address=self.params.br_address)

    def list_audit_views(self) -> tuple[AuditView, ...]:
        relay = self.make_relay_view()
        return relay, make_tunnel_view(relay, copies_dscp=self.copies_dscp)
