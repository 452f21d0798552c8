"""What a correct lwAFTR emits (RFC 7596 section 6.2): hairpinning is off, only UDP is carried."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from v6t.plugins.base import Links
from v6t.plugins.common.octets import u16, u32
from v6t.plugins.common.reference_device import (
    COMMON_REASONS,
    EXHAUSTED,
    NOT_FORWARDED,
    Handled,
    Leaving,
    ReferenceDevice,
    route,
    route_all,
)
from v6t.plugins.lw4o6.binding_table import BindingTable
from v6t.plugins.tunnel.ipip import IPIP, carries_udp, decapsulate, encapsulate, is_udp, unmarkable

if TYPE_CHECKING:
    from v6t.packets.arrays import U8

NO_SOFTWIRE, WRONG_OUTER, TOO_BIG, UNMARKED = range(len(COMMON_REASONS), len(COMMON_REASONS) + 4)


class LwAftr:
    """Both handlers and the table."""

    def __init__(self, table: BindingTable, links: Links) -> None:
        """Remember the table.

        Args:
            table: all softwires.
            links: both cables.
        """
        self._table = table
        self._mtu = links.left.mtu
        self._own = np.unique(np.ascontiguousarray(table.br).view("V16")[:, 0])

    def device(self, links: Links) -> ReferenceDevice:
        """Build the reference device with its handlers for both links."""
        return ReferenceDevice(links, {6: self._from_ipv6}, {4: self._from_ipv4, 6: route_all(6)})

    def _from_ipv6(self, packets: U8) -> Handled:
        to = np.ascontiguousarray(packets[:, 24:40]).view("V16")[:, 0]
        ours = np.isin(to, self._own)
        if packets.shape[1] < 68:
            reason = np.full(len(packets), NOT_FORWARDED, dtype=np.uint8)
        else:
            inner = packets[:, 40:]
            row = self._table.find(u32(inner[:, 12:16]), u16(inner[:, 20:22]))
            right = (self._table.b4[row] == packets[:, 8:24]).all(axis=1)
            right &= (self._table.br[row] == packets[:, 24:40]).all(axis=1)
            reason = np.where(right, 0, WRONG_OUTER).astype(np.uint8)
            reason[row < 0] = NO_SOFTWIRE
            reason[(reason == 0) & (inner[:, 8] <= 1)] = EXHAUSTED
            reason[(reason == 0) & unmarkable(packets)] = UNMARKED
            reason[~carries_udp(packets)] = NOT_FORWARDED
        good = ours & (reason == 0)
        leaving = (Leaving(good, decapsulate(packets[good]), 4),) if good.any() else ()
        if ours.all():
            return Handled(reason, leaving)
        # a tunnel for somebody else is none of ours, but neither is it native traffic
        stray = ours | (packets[:, 6] == IPIP)
        native = route(packets, 6, np.where(stray, NOT_FORWARDED, 0).astype(np.uint8))
        return Handled(np.where(ours, reason, native.reason), leaving + native.leaving)

    def _from_ipv4(self, packets: U8) -> Handled:
        if packets.shape[1] < 28:
            return Handled(np.full(len(packets), NOT_FORWARDED, dtype=np.uint8), ())
        row = self._table.find(u32(packets[:, 16:20]), u16(packets[:, 22:24]))
        reason = np.where(row < 0, NO_SOFTWIRE, 0).astype(np.uint8)
        reason[(reason == 0) & (packets[:, 8] <= 1)] = EXHAUSTED
        if packets.shape[1] + 40 > self._mtu:
            reason[reason == 0] = TOO_BIG
        reason[~is_udp(packets)] = NOT_FORWARDED
        good = reason == 0
        chosen = row[good]
        outgoing = encapsulate(packets[good], self._table.br[chosen], self._table.b4[chosen])
        return Handled(reason, (Leaving(good, outgoing, 6),) if good.any() else ())
