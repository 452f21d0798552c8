"""How far a simulated device with several cores spreads the frames it gets (GEN-12)."""

from __future__ import annotations

import zlib
from collections import Counter
from typing import Literal

from v6t.profiles.streams import StreamSet

FRAMES = 2048
"""Frames of each stream that are looked at."""
WITH_PORTS = (6, 17)
"""TCP and UDP: what follows them begins with two ports."""
Hashed = Literal["ports", "addresses", "both", "none"]
"""What the hash sees; ``both``: the device needs entropy in both, its hash takes some bits of either."""


def spread(streams: StreamSet, cores: int, fields: Hashed) -> float:
    """How many times as much the device forwards as one of its cores.

    A frame's core is a hash of the outer header's fields; the device loses frames as soon as its
    busiest core does.

    Args:
        streams: one direction's.
        cores: of the device.
        fields: what the hash sees.
    """
    from v6t.profiles.expand import Expander

    load: Counter[int] = Counter()
    for stream in streams.streams:
        for frame in Expander(stream).frames(0, FRAMES):
            load[_core(frame.tobytes(), cores, fields)] += stream.weight
    return sum(load.values()) / max(load.values())


def _core(frame: bytes, cores: int, fields: str) -> int:
    at = 12
    while frame[at : at + 2] == b"\x81\x00":
        at += 4
    at += 2
    six = frame[at] >> 4 == 6
    addresses = frame[at + 8 : at + 40] if six else frame[at + 12 : at + 20]
    protocol = frame[at + 6] if six else frame[at + 9]
    # of an encapsulated packet the hash sees no ports: they are behind the inner header
    ports = frame[at + 40 : at + 44] if six else frame[at + 20 : at + 24]
    ports = ports if protocol in WITH_PORTS else b""
    if fields == "none":
        return 0
    if fields == "both":
        half = 1 << cores.bit_length() // 2
        return (zlib.crc32(ports) % half * half + zlib.crc32(addresses) % half) % cores
    return zlib.crc32(ports if fields == "ports" else addresses) % cores
