"""The stream set: compiled traffic, in TRex's own stream JSON. The one artifact.

TRex loads it, the embedded tester runs it, the expander turns it into frames and
``trex-console start -f`` accepts the file. Nothing else describes a packet a second time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from v6t.packets.direction import Direction
from v6t.packets.trailer import Checksum
from v6t.profiles.model import Role

ORDER = 2
"""Of :class:`Stream`, the newest: what a run keeps, to be taken up in the same order only."""


@dataclass(frozen=True)
class Stream:
    """One compiled traffic class.

    Attributes:
        name: the class's name.
        role: see :class:`~v6t.profiles.model.Role`.
        stream_id: 0..127, unique over both directions; stands in the trailer of every frame the
            tester stamps (:mod:`v6t.packets.trailer`) and is TRex's latency ``pg_id``.
        weight: share of the frames among the streams of the set.
        trex: TRex's stream object (``packet``, ``vm``, ``mode``, ``isg``, ``flow_stats`` ...).
        checksum: see :class:`Checksum`; None: none covers the end of the frames (GRE, UDP
            without checksum).
        notes: what the compiler decided, in words (checksum plan, enumeration method, ...).
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
