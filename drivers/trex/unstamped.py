"""Streams without TRex's stamp, told apart by marks of their own, where nothing is timed.

TRex hands stamped frames to a port one by one (``CCoreEthIF::send_one_pkt_lat``, v3.08), others up
to 32 at a time. To an interface of Linux each handing over is a system call, which the kernel's work
for a frame is not much longer than.
"""

from __future__ import annotations

from dataclasses import replace

from v6t.drivers.oracle.replay import FrameSource
from v6t.drivers.trex.listed import Cycling
from v6t.drivers.trex.marking import CLASS, FIRST, NUMBER_OCTETS, distance, marked
from v6t.drivers.trex.stamping import mended
from v6t.packets.direction import Direction
from v6t.profiles.compiler import instructions as ins
from v6t.profiles.expand import Expander
from v6t.profiles.streams import Stream, StreamSet

CLASSES = FIRST // CLASS
"""That marks tell apart."""
_FOR_EVER = 1 << 62


class Unstamped:
    """The streams of both directions, with marks."""

    def __init__(self) -> None:
        self._sets: dict[Direction, StreamSet] = {}
        self._plain: dict[Direction, dict[int, Stream]] = {}

    def clear(self) -> None:
        """Forget them."""
        self._sets.clear()
        self._plain.clear()

    def load(self, streams: StreamSet) -> None:
        """Make those of a direction, if marks of theirs can be told and have room.

        Args:
            streams: without stamps.
        """
        distances = {distance(Expander(s).length) for s in streams.streams}
        few = len(streams.streams) <= CLASSES and len(distances) == 1
        if not few or not all(map(_has_room, streams.streams)):
            return
        named = [replace(s, stream_id=FIRST + n * CLASS) for n, s in enumerate(streams.streams)]
        way = streams.direction
        self._sets[way] = StreamSet(way, tuple(mended(marked(s)) for s in named))
        self._plain[way] = {s.stream_id: s for s in named}

    def streams(self, direction: Direction) -> StreamSet | None:
        """Those of a direction; None: there are none."""
        return self._sets.get(direction)

    def source(self, direction: Direction, stream: Stream) -> FrameSource | None:
        """Frames of one of these as TRex sends them; None: it is none of these."""
        plain = self._plain.get(direction, {}).get(stream.stream_id)
        return None if plain is None else Cycling(Expander(plain), _FOR_EVER, True)


def _has_room(stream: Stream) -> bool:
    program = list(stream.trex["vm"]["instructions"])
    return ins.count_variable_octets(program) + NUMBER_OCTETS <= ins.MAX_VARIABLE_OCTETS
