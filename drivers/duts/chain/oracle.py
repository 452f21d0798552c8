"""The frames a chain of parts emits: more hops than devices, and a translator's own DF bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from v6t.drivers.duts.expect_profile import ProfiledAnswer
from v6t.drivers.tester import OracleDecorator
from v6t.packets import inet
from v6t.packets.distinct import distinct
from v6t.packets.header_policy import HeaderPolicy, merged

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.drivers.tester import ExpectedFrames, Oracle
    from v6t.packets.arrays import U8
    from v6t.packets.direction import Direction


_SET, _CLEAR = 0x40, 0xBF


class ChainOracle(OracleDecorator):
    """A plugin's reference translation as a certain chain does it. Picklable.

    Header fields may have the values that the technology or one of the parts allows: which part did what
    cannot be seen outside.
    """

    def __init__(
        self,
        oracle: Oracle,
        hops: Mapping[Direction, int],
        df: Mapping[Direction, str],
        policy: HeaderPolicy,
    ) -> None:
        """Combine.

        Args:
            oracle: the plugin.
            hops: by direction, those that a packet takes beyond the reference's; fewer are negative.
            df: by direction, Don't Fragment of IPv4 packets: ``reference``, ``set`` or ``clear``.
            policy: what of the parts' own can be seen outside.
        """
        super().__init__(oracle)
        self._hops = dict(hops)
        self._df = dict(df)
        self._policy = policy

    @property
    def header_policy(self) -> HeaderPolicy:
        """The technology's, and what the parts do of it."""
        return merged(self.oracle.header_policy, self._policy)

    def expect(self, direction: Direction, frames: U8) -> ExpectedFrames:
        """The reference's frames with smaller TTLs; those whose TTL ends are dropped."""
        answer = self.oracle.expect(direction, frames)
        out, length = answer.frames.copy(), answer.length.copy()
        for size in distinct(length[length > 0]):
            rows = np.flatnonzero(length == size)
            changed, alive = self._changed(direction, out[rows, :size])
            out[rows, :size] = changed
            length[rows[~alive]] = 0
        return ProfiledAnswer(out, length)

    def _changed(self, direction: Direction, frames: U8) -> tuple[U8, NDArray[np.bool_]]:
        headers = inet.headers_of(frames[0])
        at = headers.l4_ip
        place = at + (7 if headers.l4_version == 6 else 8)
        left = frames[:, place].astype(int) - self._hops[direction]
        alive = left > 0
        frames[alive, place] = left[alive]
        if headers.l4_version == 6:
            return frames, alive
        if self._df[direction] == "set":
            frames[:, at + 6] |= _SET
        elif self._df[direction] == "clear":
            frames[:, at + 6] &= _CLEAR
        inet.finish_ipv4(frames, at)
        return frames, alive
