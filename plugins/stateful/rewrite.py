"""Addresses and ports rewritten in arrays of packets: what a correct NAT emits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.headers import read_hops, to_numbers
from v6t.packets.walker import FrameLayout, locate_endpoints
from v6t.plugins.stateful.base import StatefulDrop
from v6t.plugins.stateful.params import PublicPool

if TYPE_CHECKING:
    from v6t.packets.arrays import U8
    from v6t.packets.direction import Direction


Numbered = tuple["U8", "U8"]
"""Addresses ``(n, 4)`` or ``(n, 16)``, and ports ``(n, 2)`` or what stands for them."""


def _locate(packets: U8) -> FrameLayout:
    return locate_endpoints(packets[0], f"IPv{packets[0, 0] >> 4}")


def source_of(packets: U8) -> Numbered:
    """Source address and port of IP packets."""
    layout = _locate(packets)
    return packets[:, layout.address(source=True)], packets[:, layout.port(source=True)]


def learned_source(rows: U8) -> Numbered:
    """Source address and port of rows of a Responder's table."""
    size = (rows.shape[1] - 4) // 2
    return rows[:, :size], rows[:, -4:-2]


def renumbered(packets: U8, *, source: U8 | None = None, destination: U8 | None = None) -> U8:
    """The same packets with other ports, transport checksums valid."""
    layout = _locate(packets)
    for ports, place in ((source, True), (destination, False)):
        if ports is not None:
            packets[:, layout.port(source=place)] = ports
    layout.write_checksum(packets)
    return packets


def rewritten(
    packets: U8,
    *,
    source: Numbered | None = None,
    destination: Numbered | None = None,
    hops: int = 1,
) -> U8:
    """Copies with another source or destination, TTL or hop limit less, checksums valid.

    Args:
        packets: ``(n, length)`` IP packets.
        source: addresses and ports.
        destination: likewise.
        hops: that the packets take.
    """
    out = packets.copy()
    layout = _locate(out)
    for endpoint, place in ((source, True), (destination, False)):
        if endpoint is not None:
            out[:, layout.address(source=place)], out[:, layout.port(source=place)] = endpoint
    header_hops = read_hops(out, layout.version)
    header_hops -= np.uint8(hops)
    if layout.version == 4:
        write_ipv4_checksum(out)
    layout.write_checksum(out)
    return out


def translated_ends(
    direction: Direction, packets: U8, initial: U8, learned: U8, *, hops: int = 1
) -> U8:
    """Packets of known connections with their other source (forward) or destination (reverse).

    Args:
        direction: which way.
        packets: see :func:`rewritten`.
        initial: packets with which the Initiator opened the connections.
        learned: rows of the Responder's table.
        hops: that the packets take.
    """
    if direction == "forward":
        return rewritten(packets, source=learned_source(learned), hops=hops)
    return rewritten(packets, destination=source_of(initial), hops=hops)


def pool_reasons(pool: PublicPool, rows: U8) -> U8:
    """0 for rows of a table whose source is a public address and port, else the reason."""
    address, port = learned_source(rows)
    value = to_numbers(port)
    first = int(pool.first)
    if pool.first.version == 4:
        number, good = to_numbers(address), np.ones(len(rows), dtype=bool)
    else:
        number, good = (
            to_numbers(address[:, 8:]),
            to_numbers(address[:, :8]) == np.uint64(first >> 64),
        )
    low = np.uint64(first & (1 << 64) - 1)
    good &= number - low < np.uint64(pool.count)
    good &= (value >= np.uint64(pool.ports.min)) & (value <= np.uint64(pool.ports.max))
    return np.where(good, 0, StatefulDrop.OUTSIDE_POOL).astype(np.uint8)
