"""What every forwarding device discards before it looks at a route: broken headers, Martians.

IPv4: RFC 1812 section 5.2.2 (lengths, version, header checksum) and 5.3.7 (addresses that may not
be forwarded; RFC 7915 section 4.1 asks a translator for the same). IPv6: RFC 8200 section 3
(payload length), RFC 4291 sections 2.5.2, 2.5.3, 2.5.6 and 2.7. The addresses are those of
:data:`v6t.plugins.addresses.UNFORWARDED`, which parameters are checked with as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from v6t.packets.checksum import has_valid_sum
from v6t.packets.headers import IPV4, IPV6, view
from v6t.packets.unique import sort_unique
from v6t.plugins.addresses import UNFORWARDED

if TYPE_CHECKING:
    from v6t.packets.arrays import U8, Mask

_NEVER = {v: [n for n in UNFORWARDED.values() if n.version == v] for v in (4, 6)}


def _first_octets(version: int, longest: int = 128) -> Mask:
    """Mark each first octet of the networks of :data:`UNFORWARDED` up to a prefix length."""
    marked = np.zeros(256, dtype=bool)
    for net in _NEVER[version]:
        if net.prefixlen > longest:
            continue
        marked[net.network_address.packed[0] : net.broadcast_address.packed[0] + 1] = True
    return marked


_UNICAST4 = ~_first_octets(4, 8)
"""Whether a device may forward an IPv4 address, by its first octet; class E contains broadcast."""
_PAIRS4 = [n.network_address.packed[:2] for n in _NEVER[4] if n.prefixlen == 16]
"""First two octets of IPv4 addresses that no device forwards."""
_SUSPECT6 = _first_octets(6)
"""Whether an IPv6 address needs a comparison with the table, by its first octet."""


def forwardable(addresses: U8) -> Mask:
    """Mark the rows of ``(n, 4)`` or ``(n, 16)`` addresses that a device forwards."""
    good: Mask
    if addresses.shape[1] == 4:
        good = _UNICAST4[addresses[:, 0]]
        for first, second in _PAIRS4:
            good &= (addresses[:, 0] != first) | (addresses[:, 1] != second)
        return good
    good = ~_SUSPECT6[addresses[:, 0]]
    rows = np.flatnonzero(~good)
    if len(rows):
        good[rows] = ~_listed6(addresses[rows])
    return good


def sound(packets: U8, version: int) -> Mask:
    """Rows of ``(n, length)`` packets, at least a header long, that a device may forward."""
    return _sound_ipv4(packets) if version == 4 else _sound_ipv6(packets)


def _sound_ipv4(packets: U8) -> Mask:
    length, header = packets.shape[1], view(packets, IPV4)
    first, total = header["ver_ihl"], header["len"].astype(np.uint16)
    good: Mask = (total >= 20) & (total <= length)
    good &= forwardable(header["src_octets"]) & forwardable(header["dst_octets"])
    plain = first == 0x45
    if plain.all():
        return good & has_valid_sum(packets[:, :20])
    good &= plain | (first > 0x45) & (first < 0x50)
    for octets in sort_unique(4 * (first[good] & 15).astype(int)):
        rows = np.flatnonzero(good & (first == 0x40 | octets // 4))
        good[rows] &= octets <= total[rows]
        if octets <= length:
            good[rows] &= has_valid_sum(packets[rows, :octets])
    return good


def _sound_ipv6(packets: U8) -> Mask:
    header = view(packets, IPV6)
    good: Mask = header["plen"] <= packets.shape[1] - 40
    good &= header["ver_tc"] >> 4 == 6
    good &= forwardable(header["src_octets"]) & forwardable(header["dst_octets"])
    return good


def _listed6(addresses: U8) -> Mask:
    """Mark the rows of ``(n, 16)`` addresses within a prefix of :data:`UNFORWARDED`."""
    mask: Mask = np.zeros(len(addresses), dtype=bool)
    for net in _NEVER[6]:
        octets = -(-net.prefixlen // 8)
        bits = np.frombuffer(net.netmask.packed[:octets], dtype=np.uint8)
        first = np.frombuffer(net.network_address.packed[:octets], dtype=np.uint8)
        mask |= (addresses[:, :octets] & bits == first).all(axis=1)
    return mask
