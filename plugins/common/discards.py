"""What every forwarding device discards before it looks at a route: broken headers, Martians.

IPv4: RFC 1812 section 5.2.2 (lengths, version, header checksum) and 5.3.7 (addresses that may not
be forwarded; RFC 7915 section 4.1 asks a translator for the same). IPv6: RFC 8200 section 3
(payload length), RFC 4291 sections 2.5.2, 2.5.3, 2.5.6 and 2.7. No device here forwards multicast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from v6t.plugins.common.octets import u16
from v6t.profiles.distinct import distinct

if TYPE_CHECKING:
    from v6t.profiles.arrays import U8, Mask

_FIRST = np.arange(256)
_UNICAST4 = (_FIRST != 0) & (_FIRST != 127) & (_FIRST < 224)
"""By the first octet: not this network, loopback, multicast, reserved or broadcast."""
_SUSPECT6 = (_FIRST == 0) | (_FIRST == 0xFE) | (_FIRST == 0xFF)
"""By the first octet: addresses that need a second look."""


def sound(packets: U8, version: int) -> Mask:
    """Rows of ``(n, length)`` packets, at least a header long, that a device may forward."""
    return _sound_ipv4(packets) if version == 4 else _sound_ipv6(packets)


def _sound_ipv4(packets: U8) -> Mask:
    length = packets.shape[1]
    first = packets[:, 0]
    total = u16(packets[:, 2:4])
    good: Mask = (total >= 20) & (total <= length)
    good &= _UNICAST4[packets[:, 12]] & _UNICAST4[packets[:, 16]]
    plain = first == 0x45
    if plain.all():
        return good & _checksummed(packets[:, :20])
    good &= plain | (first > 0x45) & (first < 0x50)
    for octets in distinct(4 * (first[good] & 15).astype(int)):
        rows = np.flatnonzero(good & (first == 0x40 | octets // 4))
        good[rows] &= octets <= total[rows]
        if octets <= length:
            good[rows] &= _checksummed(packets[rows, :octets])
    return good


def _checksummed(headers: U8) -> Mask:
    """Rows whose one's complement sum is right; it does not depend on the order of octets."""
    words = np.ascontiguousarray(headers).view(np.uint32)
    total = words[:, 0].astype(np.uint64)
    for column in range(1, words.shape[1]):
        total += words[:, column]
    right: Mask = (total > 0) & (total % np.uint64(0xFFFF) == 0)
    return right


def _sound_ipv6(packets: U8) -> Mask:
    good: Mask = u16(packets[:, 4:6]) <= packets.shape[1] - 40
    good &= packets[:, 0] >> 4 == 6
    for at in (8, 24):
        suspect = _SUSPECT6[packets[:, at]]
        if suspect.any():
            rows = np.flatnonzero(suspect)
            good[rows] &= ~_not_to_forward(packets[rows, at : at + 16])
    return good


def _not_to_forward(addresses: U8) -> Mask:
    """Unspecified, loopback, link-local or multicast."""
    low = (addresses[:, :15] == 0).all(axis=1) & (addresses[:, 15] <= 1)
    local = (addresses[:, 0] == 0xFE) & (addresses[:, 1] & 0xC0 == 0x80)
    mask: Mask = low | local | (addresses[:, 0] == 0xFF)
    return mask
