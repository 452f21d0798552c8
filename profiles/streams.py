"""The stream set: compiled traffic in TRex's own stream JSON, the only description of a packet.

TRex loads it, the embedded tester runs it, the expander turns it into frames and
``trex-console start -f`` accepts the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from v6t.packets.direction import Direction
from v6t.packets.trailer import Checksum
from v6t.profiles.model import Role

ORDER = 2
"""Newest order of :class:`Stream`; a run is continued in its own order only."""


@dataclass(frozen=True)
class Stream:
    """One compiled traffic class.

    Attributes:
        name: of the class.
        role: of the class.
        stream_id: 0..127, unique over both directions; part of the trailer
            (:mod:`v6t.packets.trailer`) and TRex's latency ``pg_id``.
        weight: share of the frames among the streams of the set.
        trex: TRex's stream object (``packet``, ``vm``, ``mode``, ``isg``, ``flow_stats`` ...).
        checksum: the checksum that covers the end of the frames, if there is one.
        notes: decisions of the compiler (checksum plan, enumeration method, ...).
        order: 2 if an earlier version sent the same frames in another order, else 1.
    """

    name: str
    role: Role
    stream_id: int
    weight: int
    trex: Mapping[str, Any]
    checksum: Checksum | None
    notes: tuple[str, ...] = ()
    order: int = 1


@dataclass(frozen=True)
class StreamSet:
    """All streams of one direction, in the order of the traffic's classes."""

    direction: Direction
    streams: tuple[Stream, ...]
