"""How an implementation's frames differ from the reference translation, declared, not guessed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from v6t.drivers.tester import OracleDecorator
from v6t.packets.arrays import sort_unique
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.header_policy import HeaderPolicy, merge_policies
from v6t.packets.headers import DONT_FRAGMENT, IP, IPV4, PROTOCOL_IPIP, read_hops, view
from v6t.packets.reference import EXHAUSTED, Expected
from v6t.packets.walker import build_layout, group_by_headers, locate_headers

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.drivers.tester import Oracle
    from v6t.packets.arrays import U8, Mask
    from v6t.packets.direction import Direction


@dataclass(frozen=True)
class ExpectProfile(HeaderPolicy):
    """Differences of an implementation from the reference and from what RFCs allow.

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
        """Whether there is no difference."""
        return replace(self, why="") == ExpectProfile()


class ProfiledOracle(OracleDecorator):
    """The reference translation of a technology as a certain implementation does it. Picklable.

    Args:
        oracle: the plugin.
        profile: of the device's driver.
    """

    def __init__(self, oracle: Oracle, profile: ExpectProfile) -> None:
        super().__init__(oracle)
        self.profile = profile

    @property
    def header_policy(self) -> HeaderPolicy:
        return merge_policies(self.oracle.header_policy, self.profile)

    def expect(self, direction: Direction, frames: U8) -> Expected:
        answer = self.oracle.expect(direction, frames)
        out, length, reason = answer.frames.copy(), answer.length.copy(), answer.reason.copy()
        if not (length > 0).any():
            return Expected(out, length, reason)
        entered, left = _read_versions(frames), _read_versions(out)
        for size in sort_unique(length[length > 0]):
            for version in (4, 6):
                # what is merely routed passes the implementation's core by
                rows = np.flatnonzero((length == size) & (left == version) & (entered != version))
                if len(rows):
                    changed, alive = self._changed(out[rows, :size], version)
                    out[rows, :size] = changed
                    length[rows[~alive]], reason[rows[~alive]] = 0, EXHAUSTED
        return self._padded(Expected(out, length, reason))

    def _changed(self, frames: U8, version: int) -> tuple[U8, Mask]:
        p = self.profile
        packets = frames[:, locate_headers(frames[0]).networks[0].start :]
        hops = read_hops(packets, version)
        alive = hops.astype(int) - p.further_hops > 0
        hops[alive] -= p.further_hops
        header = view(packets, IP[version])
        if version == 4:
            if p.df == "set":
                header["flags_frag"] |= DONT_FRAGMENT
            elif p.df == "clear":
                header["flags_frag"] &= 0xFFFF ^ DONT_FRAGMENT
            if p.exit_keeps_ttl:
                header["ttl"] += 1
            write_ipv4_checksum(packets)
        else:
            self._tunnelled(packets, header)
        return frames, alive

    def _tunnelled(self, packets: U8, header: NDArray[np.void]) -> None:
        p = self.profile
        rows = np.flatnonzero(header["nh"] == PROTOCOL_IPIP)
        if p.tunnel_hop_limit:
            header["hlim"][rows] = p.tunnel_hop_limit
        if p.tunnel_keeps_ttl and len(rows):
            inner = packets[rows, 40:]
            view(inner, IPV4)["ttl"] += 1
            write_ipv4_checksum(inner)
            packets[rows, 40:] = inner

    def _padded(self, answer: Expected) -> Expected:
        frames, length = answer.frames, answer.length
        least = self.profile.least_octets
        if not least or not (length > 0).any():
            return answer
        short = (length > 0) & (length < least)
        if frames.shape[1] < least:
            more = np.zeros((len(frames), least - frames.shape[1]), dtype=np.uint8)
            frames = np.concatenate([frames, more], axis=1)
        for size in sort_unique(length[short]):
            frames[np.ix_(length == size, range(int(size), least))] = 0
        length[short] = least
        return replace(answer, frames=frames)


def _read_versions(frames: U8) -> U8:
    """Return the IP version of each frame, or 0."""
    versions = np.zeros(len(frames), dtype=np.uint8)
    for rows, headers in group_by_headers(frames):
        networks = build_layout(headers).networks
        versions[rows] = networks[0].version if networks else 0
    return versions
