"""Lightweight 4over6 AFTR (RFC 7596): IPv4 in IPv6 of many lwB4s, by binding table."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from v6t.plugins.base import DutIntent, Expected, Links, Technology
from v6t.plugins.common.relay_params import relay_sides
from v6t.plugins.common.sizes import translated_pair
from v6t.plugins.lw4o6.params import DROP_REASONS, LwAftrParams
from v6t.plugins.lw4o6.traffic import lw_traffic
from v6t.profiles.model import Direction, FramePair, Traffic

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from v6t.plugins.common.reference_device import ReferenceDevice


class LightweightAftr(Technology):
    """Decapsulates forward, encapsulates in reverse; stateless, the table apart."""

    name = "lwaftr"
    title = "lwAFTR of lightweight 4over6: IPv4 of many lwB4s in IPv6, by binding table"
    rfcs = ("RFC 7596 section 6",)
    params_model = LwAftrParams
    overhead = 40
    ip_versions = (6, 4)
    sides = ("lwB4s", "server")
    drop_reasons: ClassVar[tuple[str, ...]] = DROP_REASONS
    default_frame_sizes = (104,)
    rfc_frame_sizes = (104, 168, 296, 552, 808, 1064, 1320, 1518)
    params: LwAftrParams

    def __init__(self, params: LwAftrParams | None = None, links: Links | None = None) -> None:
        super().__init__(params or LwAftrParams(), links)

    def frame_pair(self, ipv6_frame_size: int) -> FramePair:
        """Forty octets apart; see the base class."""
        left, right = self.links.left, self.links.right
        return translated_pair(ipv6_frame_size, self.overhead, left, right, "lw4o6")

    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        """Foreground, background and spoofed frames as the parameters say."""
        return lw_traffic(self.params, self.links, direction, sizes, seed)

    def expect(self, direction: Direction, frames: NDArray[np.uint8]) -> Expected:
        """The reference translation; see :mod:`v6t.plugins.lw4o6.reference`."""
        return self._device.expect(direction, frames)

    def dut_intent(self) -> DutIntent:
        """How to make the binding table, both links, static neighbours, routes to the lwB4s.

        A million rows are not written out: ``table`` says how they are made, or names the file.
        """
        p = self.params
        left, right = relay_sides(p, self.links, f"{p.br_address}/64", p.customers)
        left["addresses"] = [f"{address}/64" for address in p.br_addresses]
        table = (
            {
                "softwires": p.softwires,
                "ipv4_pool": str(p.pool),
                "b4_prefix": str(p.b4_network),
                "psid_len": p.psid_len,
                "psid_offset": p.psid_offset,
            }
            if p.binding_table is None
            else {"file": str(p.binding_table)}
        )
        return DutIntent(
            technology=self.name,
            settings={
                "table": table,
                "br_address": str(p.br_address),
                "hairpinning": False,
                "mtu": self.links.left.mtu,
            },
            links=self.links,
            left=left,
            right=right,
        )

    @cached_property
    def _device(self) -> ReferenceDevice:
        from v6t.plugins.lw4o6.reference import LwAftr

        return LwAftr(self.params.table(), self.links).device(self.links)
