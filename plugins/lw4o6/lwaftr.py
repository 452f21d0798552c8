"""Lightweight 4over6 AFTR (RFC 7596): IPv4 in IPv6 of many lwB4s, by binding table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from v6t.intent.families import GeneratedTable, LwAftrConfig, TableFile
from v6t.packets.direction import Direction
from v6t.plugins.common.relay import Relay
from v6t.plugins.frame_sizes import TUNNEL_SIZES
from v6t.plugins.lw4o6.audit_view import lwaftr_variants, lwaftr_view
from v6t.plugins.lw4o6.params import DROP_REASONS, LwAftrParams
from v6t.plugins.lw4o6.traffic import lw_traffic
from v6t.plugins.map.audit_view import customer_tunnel
from v6t.profiles.model import FramePair, Traffic

if TYPE_CHECKING:
    from v6t.plugins.audit_views import AuditView
    from v6t.plugins.common.reference_device import ReferenceDevice


class LightweightAftr(Relay):
    """Decapsulates forward, encapsulates in reverse; stateless, the table apart."""

    name = "lwaftr"
    title = "lwAFTR of lightweight 4over6: IPv4 of many lwB4s in IPv6, by binding table"
    rfcs = ("RFC 7596 section 6",)
    params_model = LwAftrParams
    overhead = 40
    sides = ("lwB4s", "server")
    drop_reasons: ClassVar[tuple[str, ...]] = DROP_REASONS
    rfc_frame_sizes = TUNNEL_SIZES
    params: LwAftrParams

    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        """Foreground, background and spoofed frames as the parameters say."""
        return lw_traffic(self.params, self.links, direction, sizes, seed)

    def configuration(self) -> LwAftrConfig:
        """Describe the binding table without its rows, which may be a million."""
        p = self.params
        table: GeneratedTable | TableFile = GeneratedTable(
            softwires=p.softwires,
            ipv4_pool=p.pool,
            b4_prefix=p.b4_network,
            psid_len=p.psid_len,
            psid_offset=p.psid_offset,
        )
        if p.binding_table is not None:
            table = TableFile(file=str(p.binding_table))
        return LwAftrConfig(table=table, br_address=p.br_address)

    def left_addresses(self) -> list[str]:
        """List the address on the link and all others of the lwAFTR."""
        return self.params.left_addresses

    def audit_views(self) -> tuple[AuditView, ...]:
        relay = lwaftr_view(self.params)
        return relay, customer_tunnel(relay)

    def audit_variants(self) -> dict[str, dict[str, Any]]:
        return lwaftr_variants(self.params)

    def reference_device(self) -> ReferenceDevice:
        from v6t.plugins.lw4o6.reference import LwAftr

        return LwAftr(self.params.table(), self.links).device(self.links)
