"""The frames a chain of parts emits: more hops than devices, and a translator's own DF bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from v6t.drivers.duts.expect_profile import ExpectProfile, ProfiledAnswer
from v6t.drivers.tester import OracleAround
from v6t.profiles import inet
from v6t.profiles.distinct import distinct

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.drivers.tester import Answer, Oracle
    from v6t.profiles.arrays import U8
    from v6t.profiles.headerpolicy import HeaderPolicy
    from v6t.profiles.model import Direction


_SET, _CLEAR = 0x40, 0xBF


class ChainOracle(OracleAround):
    """A plugin's reference translation as a certain chain does it. Picklable.

    Header fields may have the values that the technology allows: which part did what cannot be seen
    outside. Don't Fragment is the last translator's.
    """

    def __init__(self, oracle: Oracle, hops: int, last: Mapping[Direction, ExpectProfile]) -> None:
        """Combine.

        Args:
            oracle: the plugin.
            hops: that a packet takes beyond those of the reference.
            last: the profile of the last translator to IPv4, by direction.
        """
        super().__init__(oracle)
        self._hops = hops
        self._df = {way: profile.df for way, profile in last.items()}
        self._either = [way for way, own in last.items() if own.dont_fragment == "either"]

    @property
    def header_policy(self) -> HeaderPolicy:
        """The technology's, and in each direction what its last translator does of DF."""
        policy = self.oracle.header_policy
        if not self._either:
            return policy
        both = len(self._either) > 1
        return replace(policy, dont_fragment="either" if both else self._either[0])

    def expect(self, direction: Direction, frames: U8) -> Answer:
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
        if headers.l4_version == 6:
            alive = frames[:, at + 7] > self._hops
            frames[alive, at + 7] -= self._hops
            return frames, alive
        alive = frames[:, at + 8] > self._hops
        frames[alive, at + 8] -= self._hops
        if self._df[direction] == "set":
            frames[:, at + 6] |= _SET
        elif self._df[direction] == "clear":
            frames[:, at + 6] &= _CLEAR
        inet.finish_ipv4(frames, at)
        return frames, alive
