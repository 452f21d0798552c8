"""What a correct lwAFTR emits (RFC 7596 section 6.2): hairpinning is off, only UDP is carried."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from v6t.packets.headers import IPV4, IPV6, PROTOCOL_IPIP, UDP, view
from v6t.packets.reference import EXHAUSTED, NOT_FORWARDED
from v6t.plugins.base import Links
from v6t.plugins.common.reference_device import (
    Handled,
    ReferenceDevice,
    answer,
    answer_or_route,
    choose_reasons,
    dropped,
    route_all,
)
from v6t.plugins.lw4o6.binding_table import BindingTable
from v6t.plugins.lw4o6.params import LwAftrDrop
from v6t.plugins.tunnel.ipip import carries_udp, decapsulate, encapsulate, is_udp, unmarkable

if TYPE_CHECKING:
    from v6t.packets.arrays import U8, Mask


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
        outer = view(packets, IPV6)
        ours = np.isin(np.ascontiguousarray(outer["dst_octets"]).view("V16")[:, 0], self._own)
        reason = np.full(len(packets), NOT_FORWARDED, dtype=np.uint8)
        if packets.shape[1] >= 68:
            inner, udp = view(packets, IPV4, 40), view(packets, UDP, 60)
            row = self._table.find(inner["src"].astype(np.uint64), udp["sport"].astype(np.uint64))
            right = (self._table.b4[row] == outer["src_octets"]).all(axis=1)
            right &= (self._table.br[row] == outer["dst_octets"]).all(axis=1)
            reason = choose_reasons(
                len(packets),
                (NOT_FORWARDED, ~carries_udp(packets)),
                (LwAftrDrop.NO_SOFTWIRE, row < 0),
                (LwAftrDrop.WRONG_OUTER, ~right),
                (EXHAUSTED, inner["ttl"] <= 1),
                (LwAftrDrop.UNMARKED, unmarkable(packets)),
            )
        return answer_or_route(
            packets,
            ours,
            reason,
            lambda rows: decapsulate(packets[rows]),
            stray=outer["nh"] == PROTOCOL_IPIP,  # a tunnel of another AFTR is not native traffic
        )

    def _from_ipv4(self, packets: U8) -> Handled:
        if packets.shape[1] < 28:
            return dropped(len(packets), NOT_FORWARDED)
        header, udp = view(packets, IPV4), view(packets, UDP, 20)
        row = self._table.find(header["dst"].astype(np.uint64), udp["dport"].astype(np.uint64))
        reason = choose_reasons(
            len(packets),
            (NOT_FORWARDED, ~is_udp(packets)),
            (LwAftrDrop.NO_SOFTWIRE, row < 0),
            (EXHAUSTED, header["ttl"] <= 1),
            (LwAftrDrop.TOO_BIG, packets.shape[1] + 40 > self._mtu),
        )

        def build(rows: Mask) -> U8:
            chosen = row[rows]
            return encapsulate(packets[rows], self._table.br[chosen], self._table.b4[chosen])

        return answer(reason, build, 6)
