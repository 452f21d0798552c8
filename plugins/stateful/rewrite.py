"""Addresses and ports rewritten in arrays of UDP packets: what a correct NAT emits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from v6t.plugins.common.octets import u16, u32, u64
from v6t.plugins.stateful.base import OUTSIDE_POOL
from v6t.plugins.stateful.params import PublicPool
from v6t.profiles import inet

if TYPE_CHECKING:
    from v6t.plugins.common.octets import U8
    from v6t.profiles.model import Direction

HEADERS = {
    4: inet.Headers(l3=0, version=4, inner=None, udp=20, payload=28),
    6: inet.Headers(l3=0, version=6, inner=None, udp=40, payload=48),
}
"""Of bare IP packets."""
_SOURCE = {4: (slice(12, 16), slice(20, 22)), 6: (slice(8, 24), slice(40, 42))}
_DESTINATION = {4: (slice(16, 20), slice(22, 24)), 6: (slice(24, 40), slice(42, 44))}


def source_of(packets: U8, version: int) -> tuple[U8, U8]:
    """Source address and port."""
    address, port = _SOURCE[version]
    return packets[:, address], packets[:, port]


def learned_source(rows: U8) -> tuple[U8, U8]:
    """Source address and port of rows of a Responder's table."""
    size = (rows.shape[1] - 4) // 2
    return rows[:, :size], rows[:, -4:-2]


def rewritten(
    packets: U8,
    version: int,
    *,
    source: tuple[U8, U8] | None = None,
    destination: tuple[U8, U8] | None = None,
    hops: int = 1,
) -> U8:
    """Copies with another source or destination, TTL or hop limit less, checksums valid.

    Args:
        packets: ``(n, length)`` UDP in IP without options.
        version: of IP.
        source: addresses and ports.
        destination: likewise.
        hops: that the packets take.
    """
    out = packets.copy()
    for given, places in ((source, _SOURCE), (destination, _DESTINATION)):
        if given is not None:
            address, port = places[version]
            out[:, address], out[:, port] = given
    out[:, 8 if version == 4 else 7] -= hops
    if version == 4:
        inet.finish_ipv4(out, 0)
    inet.finish_udp(out, HEADERS[version])
    return out


def translated_ends(
    direction: Direction, packets: U8, version: int, initial: U8, learned: U8, *, hops: int = 1
) -> U8:
    """Packets of known connections with their other source (forward) or destination (reverse).

    Args:
        direction: which way.
        packets: see :func:`rewritten`.
        version: of IP.
        initial: packets with which the Initiator opened the connections.
        learned: rows of the Responder's table.
        hops: that the packets take.
    """
    if direction == "forward":
        return rewritten(packets, version, source=learned_source(learned), hops=hops)
    return rewritten(packets, version, destination=source_of(initial, version), hops=hops)


def pool_reasons(pool: PublicPool, rows: U8) -> U8:
    """0 for rows of a table whose source is a public address and port, else the reason."""
    address, port = learned_source(rows)
    value = u16(port)
    first = int(pool.first)
    if pool.first.version == 4:
        number, good = u32(address), np.ones(len(rows), dtype=bool)
    else:
        number, good = u64(address[:, 8:]), u64(address[:, :8]) == np.uint64(first >> 64)
    low = np.uint64(first & (1 << 64) - 1)
    good &= number - low < np.uint64(pool.count)
    good &= (value >= np.uint64(pool.ports.min)) & (value <= np.uint64(pool.ports.max))
    return np.where(good, 0, OUTSIDE_POOL).astype(np.uint8)
