"""MAP-T border relay (RFC 7599): the CEs' packets arrive as IPv6 and leave as IPv4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from v6t.intent.families import MapTRelayConfig
from v6t.packets.direction import Direction
from v6t.plugins import address_mappings
from v6t.plugins.audit_views import RAISED_MTU, Translator, prefix_variants
from v6t.plugins.common.mixture import ipv6
from v6t.plugins.common.relay import Relay
from v6t.plugins.frame_sizes import IPV6_SIZES, check_whole
from v6t.plugins.map.audit_view import mapt_view, relay_variants
from v6t.plugins.map.intent import rule_configs
from v6t.plugins.map.mapt_params import DROP_REASONS, MapTParams
from v6t.plugins.map.traffic import relay_traffic
from v6t.profiles.model import FramePair, Traffic

if TYPE_CHECKING:
    from v6t.plugins.audit_views import AuditView
    from v6t.plugins.common.reference_device import ReferenceDevice


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
        """The BR's."""
        return [str(self.params.dut_left_ipv6)]

    def audit_views(self) -> tuple[AuditView, ...]:
        p = self.params
        server = address_mappings.embed(p.dmr_prefix, p.server_ipv4)
        relay = mapt_view(p, server)
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
        from v6t.plugins.map.mapt_reference import MapTRelay

        p = self.params
        rules = [d.rule for d in p.all_domains]
        return MapTRelay(rules, p.dmr_prefix, self.links, p.lowest_ipv6_mtu).device(self.links)
