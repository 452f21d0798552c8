"""The frames a chain of parts emits: more hops than devices, and a translator's own DF bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from v6t.drivers.tester import OracleDecorator
from v6t.packets.arrays import sort_unique
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.header_policy import HeaderPolicy, merge_policies
from v6t.packets.headers import DONT_FRAGMENT, IPV4, read_hops, view
from v6t.packets.reference import EXHAUSTED, Expected
from v6t.packets.walker import locate_headers

if TYPE_CHECKING:
    from v6t.drivers.tester import Oracle
    from v6t.packets.arrays import U8, Mask
    from v6t.packets.direction import Direction


class ChainOracle(OracleDecorator):
    """The reference translation of a technology as a certain chain does it. Picklable.

    Header fields may have the values that the technology or one of the parts allows: which part did what
    cannot be seen outside.

    Args:
        oracle: the plugin.
        hops: by direction, those that a packet takes beyond the reference's; fewer are negative.
        df: by direction, Don't Fragment of IPv4 packets: ``reference``, ``set`` or ``clear``.
        policy: what of the parts' own can be seen outside.
    """

    def __init__(
        self,
        oracle: Oracle,
        hops: Mapping[Direction, int],
        df: Mapping[Direction, str],
        policy: HeaderPolicy,
    ) -> None:
        super().__init__(oracle)
        self._hops = dict(hops)
        self._df = dict(df)
        self._policy = policy

    @property
    def header_policy(self) -> HeaderPolicy:
        return merge_policies(self.oracle.header_policy, self._policy)

    def expect(self, direction: Direction, frames: U8) -> Expected:
        answer = self.oracle.expect(direction, frames)
        out, length, reason = answer.frames.copy(), answer.length.copy(), answer.reason.copy()
        for size in sort_unique(length[length > 0]):
            rows = np.flatnonzero(length == size)
            changed, alive = self._changed(direction, out[rows, :size])
            out[rows, :size] = changed
            length[rows[~alive]], reason[rows[~alive]] = 0, EXHAUSTED
        return Expected(out, length, reason)

    def _changed(self, direction: Direction, frames: U8) -> tuple[U8, Mask]:
        version, start = locate_headers(frames[0]).networks[-1]
        hops = read_hops(frames, version, start)
        left = hops.astype(int) - self._hops[direction]
        alive = left > 0
        hops[alive] = left[alive]
        if version == 6:
            return frames, alive
        header = view(frames, IPV4, start)
        if self._df[direction] == "set":
            header["flags_frag"] |= DONT_FRAGMENT
        elif self._df[direction] == "clear":
            header["flags_frag"] &= 0xFFFF ^ DONT_FRAGMENT
        write_ipv4_checksum(frames, start)
        return frames, alive
