"""Internet headers in arrays of frames: where they are, and their checksums.

Frames are rows of ``(n, length)`` uint8 arrays (Ethernet header on, FCS off); rows may be far
apart in memory, octets of a row are neighbours. All rows of one array are laid out alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ETHERTYPE_IPV4 = 0x0800
ETHERTYPE_IPV6 = 0x86DD
ETHERTYPES_VLAN = (0x8100, 0x88A8)
PROTOCOL_IPIP = 4
PROTOCOL_TCP = 6
PROTOCOL_UDP = 17


@dataclass(frozen=True)
class Headers:
    """Offsets [octets] of the headers of a frame.

    Attributes:
        l3: the first IP header.
        version: its version, 4 or 6; 0 if the frame carries no IP.
        inner: IPv4 header inside IPv6 (4in6), or None.
        udp: UDP header, or None.
        payload: first octet after the last known header.
    """

    l3: int
    version: int
    inner: int | None
    udp: int | None
    payload: int

    @property
    def l4_ip(self) -> int:
        """Offset of the IP header next to UDP: the inner one of 4in6."""
        return self.l3 if self.inner is None else self.inner

    @property
    def l4_version(self) -> int:
        """Version of the IP header next to UDP."""
        return self.version if self.inner is None else 4


def headers_of(packet: bytes | NDArray[np.uint8]) -> Headers:
    """Headers of one frame; stops at what it does not know (extension headers, ICMP, ARP)."""
    data = bytes(packet)
    l3 = 14
    ethertype = int.from_bytes(data[12:14], "big")
    while ethertype in ETHERTYPES_VLAN:
        ethertype = int.from_bytes(data[l3 + 2 : l3 + 4], "big")
        l3 += 4
    if ethertype == ETHERTYPE_IPV4 and len(data) >= l3 + 20:
        return _with_ipv4(data, l3, l3, 4, None)
    if ethertype == ETHERTYPE_IPV6 and len(data) >= l3 + 40:
        after = l3 + 40
        if data[l3 + 6] == PROTOCOL_IPIP and len(data) >= after + 20:
            return _with_ipv4(data, after, l3, 6, after)
        if data[l3 + 6] == PROTOCOL_UDP and len(data) >= after + 8:
            return Headers(l3, 6, None, after, after + 8)
        return Headers(l3, 6, None, None, after)
    return Headers(l3, 0, None, None, l3)


def _with_ipv4(data: bytes, at: int, l3: int, version: int, inner: int | None) -> Headers:
    after = at + 4 * (data[at] & 15)
    fragment = int.from_bytes(data[at + 6 : at + 8], "big") & 0x1FFF
    if data[at + 9] == PROTOCOL_UDP and not fragment and len(data) >= after + 8:
        return Headers(l3, version, inner, after, after + 8)
    return Headers(l3, version, inner, None, after)


def words(frames: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """16-bit words of each row in network order, ``(n, length // 2)``, sharing memory."""
    even = frames[:, : frames.shape[1] & ~1]
    swapped: NDArray[np.uint16] = even.view(">u2")
    return swapped


def fold(sums: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Ones' complement sums of any width folded to 16 bits, in place."""
    import numpy as np

    while True:
        high = sums >> 16
        if not high.any():
            return sums
        np.bitwise_and(sums, 0xFFFF, out=sums)
        np.add(sums, high, out=sums)


def ones_complement_sum(frames: NDArray[np.uint8], first: int, end: int) -> NDArray[np.uint32]:
    """Sum ``(n,)`` of the words in octets ``first..end-1``, an odd last octet padded with zero."""
    import numpy as np

    length = end - first
    part = frames[:, first : first + (length & ~1)]
    sums: NDArray[np.uint32] = part.view(">u2").sum(axis=1, dtype=np.uint32)
    if length & 1:
        sums += frames[:, end - 1].astype(np.uint32) << 8
    return sums


def pseudo_header_sum(frames: NDArray[np.uint8], headers: Headers) -> NDArray[np.uint32]:
    """Addresses, protocol and UDP length (RFC 768, RFC 8200 section 8.1), ``(n,)``."""
    import numpy as np

    if headers.udp is None:
        raise ValueError("a frame without UDP has no UDP checksum")
    at, size = (headers.l4_ip + 12, 8) if headers.l4_version == 4 else (headers.l4_ip + 8, 32)
    sums = ones_complement_sum(frames, at, at + size)
    length = ones_complement_sum(frames, headers.udp + 4, headers.udp + 6)
    return (sums + length + np.uint32(PROTOCOL_UDP)).astype(np.uint32)


def udp_sum(frames: NDArray[np.uint8], headers: Headers) -> NDArray[np.uint32]:
    """Pseudo header, UDP header (checksum included) and data, folded; 0xffff when right.

    Rows must hold equally long datagrams; the first row's UDP length counts.
    """
    if headers.udp is None or not len(frames):
        raise ValueError("a frame without UDP has no UDP checksum")
    length = int.from_bytes(bytes(frames[0, headers.udp + 4 : headers.udp + 6]), "big")
    end = min(headers.udp + length, frames.shape[1])
    return fold(pseudo_header_sum(frames, headers) + ones_complement_sum(frames, headers.udp, end))


def verify(frames: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which rows have valid checksums: every IPv4 header, and UDP present and not zero (GEN-25).

    ``(n,)``; frames without IP are never valid.
    """
    import numpy as np

    good: NDArray[np.bool_] = np.zeros(len(frames), dtype=bool)
    if not len(frames):
        return good
    headers = headers_of(frames[0])
    if not headers.version or headers.udp is None:
        return good
    good[:] = True
    if headers.l4_version == 4:
        at = headers.l4_ip
        end = at + 4 * int(frames[0, at] & 15)
        good &= fold(ones_complement_sum(frames, at, end)) == 0xFFFF
    good &= udp_sum(frames, headers) == 0xFFFF
    checksum = frames[:, headers.udp + 6 : headers.udp + 8]
    good[~checksum.any(axis=1)] = False
    return good


def finish_udp(frames: NDArray[np.uint8], headers: Headers) -> None:
    """Write valid UDP checksums from scratch (0 becomes 0xffff)."""
    import numpy as np

    if headers.udp is None:
        raise ValueError("a frame without UDP has no UDP checksum")
    field = frames[:, headers.udp + 6 : headers.udp + 8]
    field[:] = 0
    value = ~udp_sum(frames, headers) & np.uint32(0xFFFF)
    value[value == 0] = 0xFFFF
    field[:, 0] = value >> 8
    field[:, 1] = value & 0xFF


def finish_ipv4(frames: NDArray[np.uint8], at: int, length: int = 0) -> None:
    """Write valid header checksums of the IPv4 header at offset ``at``.

    Args:
        frames: ``(n, length)``.
        at: of all rows.
        length: of all headers [octets]; 0: as the first row says.
    """
    import numpy as np

    frames[:, at + 10 : at + 12] = 0
    end = at + (length or 4 * int(frames[0, at] & 15))
    value = ~fold(ones_complement_sum(frames, at, end)) & np.uint32(0xFFFF)
    frames[:, at + 10] = value >> 8
    frames[:, at + 11] = value & 0xFF
