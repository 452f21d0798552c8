"""MAP-E border relay (RFC 7597): the CEs' IPv4 packets arrive in IPv6, the server's leave in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from v6t.intent.families import MapERelayConfig
from v6t.packets.direction import Direction
from v6t.plugins.common.mixture import ipv4, ipv6
from v6t.plugins.common.relay import Relay
from v6t.plugins.frame_sizes import TUNNEL_SIZES
from v6t.plugins.map.audit_view import customer_tunnel, mape_view, relay_variants
from v6t.plugins.map.intent import rule_configs
from v6t.plugins.map.mape_params import DROP_REASONS, MapEParams
from v6t.plugins.map.traffic import relay_traffic
from v6t.profiles.model import FramePair, Traffic

if TYPE_CHECKING:
    from v6t.plugins.audit_views import AuditView
    from v6t.plugins.common.reference_device import ReferenceDevice


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
        """The link's, and the BR's if it is another one."""
        return self.params.left_addresses

    def audit_views(self) -> tuple[AuditView, ...]:
        relay = mape_view(self.params)
        return relay, customer_tunnel(relay)

    def audit_variants(self) -> dict[str, dict[str, Any]]:
        return relay_variants(self.params)

    def reference_device(self) -> ReferenceDevice:
        from v6t.plugins.map.mape_reference import MapERelay

        rules = [d.rule for d in self.params.all_domains]
        return MapERelay(rules, self.params.br_address, self.links).device(self.links)
