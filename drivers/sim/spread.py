"""How far a simulated device with several cores spreads the frames it gets (GEN-12)."""

from __future__ import annotations

import zlib
from collections import Counter
from typing import Literal

from v6t.packets.walker import FrameLayout
from v6t.profiles.streams import StreamSet

FRAMES = 2048
"""Frames of each stream that are looked at."""
WITH_PORTS = ("TCP", "UDP")
"""Protocols whose header begins with two ports."""
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
        expander = Expander(stream)
        for frame in expander.frames(0, FRAMES):
            load[_core(frame.tobytes(), expander.layout, cores, fields)] += stream.weight
    return sum(load.values()) / max(load.values())


def _core(frame: bytes, layout: FrameLayout, cores: int, fields: str) -> int:
    addresses = frame[layout.networks[0].addresses]
    # of an encapsulated packet the hash sees no ports: they are behind the inner header
    has_ports = layout.transport in WITH_PORTS and len(layout.networks) == 1
    ports = frame[layout.start : layout.start + 4] if has_ports else b""
    if fields == "none":
        return 0
    if fields == "both":
        half = 1 << cores.bit_length() // 2
        return (zlib.crc32(ports) % half * half + zlib.crc32(addresses) % half) % cores
    return zlib.crc32(ports if fields == "ports" else addresses) % cores
