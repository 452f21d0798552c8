"""How an implementation's frames differ from the reference translation, declared, not guessed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from v6t.drivers.tester import OracleDecorator
from v6t.packets import inet
from v6t.packets.distinct import distinct
from v6t.packets.header_policy import HeaderPolicy, merged

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.drivers.tester import ExpectedFrames, Oracle
    from v6t.packets.arrays import U8
    from v6t.packets.direction import Direction


IPV4_IN_IPV6 = 4


@dataclass(frozen=True)
class ExpectProfile(HeaderPolicy):
    """What one implementation does; the default is the reference and all that RFCs allow.

    Whatever :class:`~v6t.packets.header_policy.HeaderPolicy` has can be declared, too: then one
    behaviour is expected where RFCs allow several, or one that they do not allow.

    Attributes:
        further_hops: hops a translated or (de)capsulated packet takes inside the device beyond the
            reference's single one: TTL and hop limit are smaller by so much.
        df: Don't Fragment of IPv4 packets made from IPv6: as the reference has it, always set, or
            never set.
        tunnel_keeps_ttl: the TTL of IPv4 packets is not decremented before they are put into IPv6.
        exit_keeps_ttl: nor when they are taken out of it.
        least_octets: frames are padded to so many octets, FCS off; 0: not padded.
        why: the source of these values, for the manifest.
    """

    further_hops: int = 0
    df: Literal["reference", "set", "clear"] = "reference"
    tunnel_keeps_ttl: bool = False
    exit_keeps_ttl: bool = False
    least_octets: int = 0
    why: str = ""

    @property
    def plain(self) -> bool:
        """Whether it allows nothing."""
        return replace(self, why="") == ExpectProfile()


@dataclass(frozen=True)
class ProfiledAnswer:
    """See :class:`v6t.drivers.tester.Answer`."""

    frames: U8
    length: NDArray[np.int32]


class ProfiledOracle(OracleDecorator):
    """A plugin's reference translation as a certain implementation does it. Picklable."""

    def __init__(self, oracle: Oracle, profile: ExpectProfile) -> None:
        """Combine.

        Args:
            oracle: the plugin.
            profile: of the device's driver.
        """
        super().__init__(oracle)
        self.profile = profile

    @property
    def header_policy(self) -> HeaderPolicy:
        """The technology's, and what the device does of it."""
        return merged(self.oracle.header_policy, self.profile)

    def expect(self, direction: Direction, frames: U8) -> ExpectedFrames:
        """The reference's frames with the profile's differences."""
        answer = self.oracle.expect(direction, frames)
        out, length = answer.frames.copy(), answer.length.copy()
        if not (length > 0).any():
            return ProfiledAnswer(out, length)
        entered, left = ip_version(frames), ip_version(out)
        for size in distinct(length[length > 0]):
            for version in (4, 6):
                # what is merely routed passes the implementation's core by
                rows = np.flatnonzero((length == size) & (left == version) & (entered != version))
                if len(rows):
                    changed, alive = self._changed(out[rows, :size], version)
                    out[rows, :size] = changed
                    length[rows[~alive]] = 0
        return self._padded(out, length)

    def _changed(self, frames: U8, version: int) -> tuple[U8, NDArray[np.bool_]]:
        p = self.profile
        at = int(_l3(frames[:1])[0])
        packets = frames[:, at:]
        place = 8 if version == 4 else 7
        alive = packets[:, place].astype(int) - p.further_hops > 0
        packets[alive, place] -= p.further_hops
        if version == 4:
            if p.df == "set":
                packets[:, 6] |= 0x40
            elif p.df == "clear":
                packets[:, 6] &= 0xBF
            if p.exit_keeps_ttl:
                packets[:, 8] += 1
            inet.finish_ipv4(packets, 0)
        else:
            self._tunnelled(packets)
        return frames, alive

    def _tunnelled(self, packets: U8) -> None:
        p = self.profile
        rows = np.flatnonzero(packets[:, 6] == IPV4_IN_IPV6)
        if p.tunnel_hop_limit:
            packets[rows, 7] = p.tunnel_hop_limit
        if p.tunnel_keeps_ttl and len(rows):
            inner = packets[rows, 40:]
            inner[:, 8] += 1
            inet.finish_ipv4(inner, 0)
            packets[rows, 40:] = inner

    def _padded(self, frames: U8, length: NDArray[np.int32]) -> ProfiledAnswer:
        least = self.profile.least_octets
        if not least or not (length > 0).any():
            return ProfiledAnswer(frames, length)
        short = (length > 0) & (length < least)
        if frames.shape[1] < least:
            more = np.zeros((len(frames), least - frames.shape[1]), dtype=np.uint8)
            frames = np.concatenate([frames, more], axis=1)
        for size in distinct(length[short]):
            frames[np.ix_(length == size, range(int(size), least))] = 0
        length[short] = least
        return ProfiledAnswer(frames, length)


def _l3(frames: U8) -> NDArray[np.int64]:
    """Where each frame's IP header begins."""
    tagged = (frames[:, 12] == 0x81) & (frames[:, 13] == 0)
    return np.where(tagged, 18, 14)


def ip_version(frames: U8) -> U8:
    """IP version of each frame."""
    if frames.shape[1] < 19:
        return np.zeros(len(frames), dtype=np.uint8)
    version: U8 = (frames[np.arange(len(frames)), _l3(frames)] >> 4).astype(np.uint8)
    return version
