"""How the frames of an implementation, or of a chain of them, differ from the reference translation."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from v6t.drivers.tester import Oracle, OracleDecorator
from v6t.packets.arrays import U8, Mask
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.direction import Direction
from v6t.packets.header_policy import HeaderPolicy, merge_policies
from v6t.packets.headers import DONT_FRAGMENT, IPV4, IPV6, PROTOCOL_IPIP, read_hops, view
from v6t.packets.reference import EXHAUSTED, Expected
from v6t.packets.walker import Network, build_layout, group_by_headers

Networks = Sequence[Network]  # IP headers of frames, from the outermost to the innermost


@dataclass(frozen=True)
class HeaderProfile(HeaderPolicy):
    """Differences of an implementation's headers from the reference and from what RFCs allow.

    A field of :class:`~v6t.packets.header_policy.HeaderPolicy` may declare one behaviour where RFCs
    allow several, or one that they do not allow.
    """

    further_hops: int = 0  # hops inside the device in addition to the reference's single one
    # Don't Fragment bit of IPv4 packets translated from IPv6
    df: Literal["reference", "set", "clear"] = "reference"
    tunnel_keeps_ttl: bool = False  # the TTL is not decremented before encapsulation into IPv6
    exit_keeps_ttl: bool = False  # the TTL is not decremented after decapsulation
    least_octets: int = 0  # minimum frame length without FCS, reached by padding; 0: no padding
    why: str = ""  # reason for these values, for the manifest

    @property
    def equals_reference(self) -> bool:
        """Whether the frames equal those of the reference translation."""
        return replace(self, why="") == HeaderProfile()


class FrameOracle(OracleDecorator):
    """Base of oracles that adjust expected frames in groups with the same headers."""

    adjusts_routed_frames = True  # False: only frames that leave with another IP version

    def expect(self, direction: Direction, frames: U8) -> Expected:
        """Return the adjusted expected frames; frames whose hop limit expires are dropped."""
        answer = self.oracle.expect(direction, frames)
        out, length, reason = answer.frames.copy(), answer.length.copy(), answer.reason.copy()
        present = np.flatnonzero(length > 0)
        entered = np.zeros(len(present), dtype=np.uint8)  # IP versions
        if not self.adjusts_routed_frames:
            for group, networks in _group_by_networks(frames[present]):
                entered[group] = networks[0].version
        for group, networks in _group_by_networks(out[present]):
            rows = present[group]
            if not self.adjusts_routed_frames:
                rows = rows[entered[group] != networks[0].version]
            if not len(rows):
                continue
            changed = out[rows]
            alive = self._adjust_frames(direction, changed, networks)
            out[rows] = changed
            length[rows[~alive]], reason[rows[~alive]] = 0, EXHAUSTED
        return Expected(out, length, reason)

    @abstractmethod
    def _adjust_frames(self, direction: Direction, frames: U8, networks: Networks) -> Mask:
        """Adjust a group in place; return the mask of frames whose hop limit has not expired."""


class ProfiledOracle(FrameOracle):
    """A picklable oracle that adjusts the reference translation to one implementation.

    Implementations do not translate frames that are merely routed.
    """

    adjusts_routed_frames = False

    def __init__(self, oracle: Oracle, profile: HeaderProfile) -> None:
        super().__init__(oracle)
        self.profile = profile

    @property
    def header_policy(self) -> HeaderPolicy:
        return merge_policies(self.oracle.header_policy, self.profile)

    def expect(self, direction: Direction, frames: U8) -> Expected:
        answer = super().expect(direction, frames)
        out, length, least = answer.frames, answer.length, self.profile.least_octets
        short = (length > 0) & (length < least)
        if not short.any():
            return answer
        out = np.pad(out, ((0, 0), (0, max(0, least - out.shape[1]))))
        out[short[:, None] & (np.arange(out.shape[1]) >= length[:, None])] = 0
        length[short] = least
        return replace(answer, frames=out)

    def _adjust_frames(self, direction: Direction, frames: U8, networks: Networks) -> Mask:
        p, network = self.profile, networks[0]
        alive = _decrement_hops(frames, network.version, network.start, p.further_hops)
        packets = frames[:, network.start :]
        if network.version == 4:
            if p.exit_keeps_ttl:
                view(packets, IPV4)["ttl"] += 1  # _write_df updates the checksum
            _write_df(packets, 0, p.df)
            return alive
        header = view(packets, IPV6)
        rows = np.flatnonzero(header["nh"] == PROTOCOL_IPIP)
        if p.tunnel_hop_limit:
            header["hlim"][rows] = p.tunnel_hop_limit
        if p.tunnel_keeps_ttl and len(rows):
            inner = packets[rows, 40:]
            view(inner, IPV4)["ttl"] += 1
            write_ipv4_checksum(inner)
            packets[rows, 40:] = inner
        return alive


class ChainOracle(FrameOracle):
    """A picklable oracle that adjusts the reference translation to one chain.

    Outside the chain the parts cannot be told apart: a field may have any value that one of them allows.

    Args:
        hops: hops beyond the reference's by direction; negative: fewer hops.
        df: Don't Fragment of IPv4 packets by direction: ``reference``, ``set`` or ``clear``.
    """

    def __init__(
        self,
        oracle: Oracle,
        hops: Mapping[Direction, int],
        df: Mapping[Direction, str],
        policy: HeaderPolicy,
    ) -> None:
        super().__init__(oracle)
        self._hops, self._df, self._policy = dict(hops), dict(df), policy

    @property
    def header_policy(self) -> HeaderPolicy:
        return merge_policies(self.oracle.header_policy, self._policy)

    def _adjust_frames(self, direction: Direction, frames: U8, networks: Networks) -> Mask:
        version, start = networks[-1]
        alive = _decrement_hops(frames, version, start, self._hops[direction])
        if version == 4:
            _write_df(frames, start, self._df[direction])
        return alive


def _decrement_hops(frames: U8, version: int, start: int, count: int) -> Mask:
    """Decrement TTL or hop limit in place; return the mask of frames where it has not expired."""
    hops = read_hops(frames, version, start)
    remaining = hops.astype(int) - count
    alive = remaining > 0
    hops[alive] = remaining[alive]
    return alive


def _write_df(frames: U8, start: int, df: str) -> None:
    """Set or clear Don't Fragment in place, and update the IPv4 checksum."""
    header = view(frames, IPV4, start)
    if df == "set":
        header["flags_frag"] |= DONT_FRAGMENT
    elif df == "clear":
        header["flags_frag"] &= 0xFFFF ^ DONT_FRAGMENT
    write_ipv4_checksum(frames, start)


def _group_by_networks(frames: U8) -> Iterator[tuple[NDArray[np.intp], Networks]]:
    """Yield the rows of frames with the same headers, and their IP headers; frames without are left out."""
    for rows, headers in group_by_headers(frames):
        if networks := build_layout(headers).networks:
            yield rows, networks
