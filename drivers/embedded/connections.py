"""The receiver's part in connections: it learns four-tuples in phase 1 and knows them in phase 2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from v6t.drivers.oracle.connection_oracle import (
    TableAt,
    connection_source,
    foreground,
    foregrounds,
)
from v6t.drivers.oracle.replay import FrameSource
from v6t.drivers.oracle.state_table import StateTable
from v6t.drivers.oracle.state_table import endpoint_marks as marks
from v6t.packets.arrays import sort_unique
from v6t.packets.walker import locate_endpoints
from v6t.profiles.expand import Expander
from v6t.profiles.streams import Stream, StreamSet

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.drivers.oracle.connection_oracle import ConnectionOracle
    from v6t.drivers.tester import Oracle
    from v6t.packets.arrays import U8

CHUNK = 1 << 16
COUNTED = 1 << 23
"""Up to so many connections their endpoints before the device are counted one by one."""


@dataclass
class Connections:
    """What a receiver knows of connections.

    Attributes:
        oracle: the oracle that knows them, None in loopback or where the device is stateless.
        inner: the part of it that is told which ones there are.
        learning: phase 1 is under way.
    """

    oracle: Oracle | None = None
    inner: ConnectionOracle | None = None
    learning: bool = False
    _table: StateTable | None = None
    _number: int = -1
    _initial: Stream | None = None
    _sources: Mapping[int, FrameSource] = field(default_factory=dict)
    _inside: tuple[int, int | None] = (0, None)

    def arm(
        self, oracle: Oracle | None, at: TableAt | None, streams: StreamSet, learn: bool
    ) -> Oracle | None:
        """Prepare for a trial; the oracle of its frames.

        Args:
            oracle: that was loaded.
            at: the connections; None: the trial has none.
            streams: that will arrive.
            learn: this is phase 1.
        """
        self.learning = learn
        self._table = None
        self._sources = {}
        self._number = -1
        if at is None:
            return oracle
        stream = foreground(streams)
        self._number, self._initial = stream.stream_id, stream
        if self.inner is not None:
            self._table = self.inner.bind(at)
        else:
            self._table = StateTable(at.path, at.count, at.version)
        if not learn:
            self._sources = {
                s.stream_id: connection_source(streams.direction, s, at, self._table)
                for s in foregrounds(streams)
            }
        return self.oracle or oracle

    def source(self, stream: Stream) -> FrameSource | None:
        """What was sent of a stream, where it is not the stream as compiled."""
        return self._sources.get(stream.stream_id)

    def learn(
        self, stream: Stream, frames: U8, numbers: NDArray[np.uint32], fresh: NDArray[np.bool_]
    ) -> None:
        """Remember the four-tuples of frames.

        Args:
            stream: they belong to.
            frames: ``(n, length)``, equally long and laid out alike.
            numbers: ``(n,)`` of their connections.
            fresh: ``(n,)``, those that were not received before.
        """
        table = self._table
        rows = np.flatnonzero(fresh)
        if table is None or stream.stream_id != self._number or not len(rows):
            return
        where = locate_endpoints(frames[rows[0]]).row
        table.learn(numbers[rows].astype(np.int64), frames[:, where][rows])

    def report(self) -> dict[str, Any]:
        """What phase 1 found; empty otherwise."""
        table = self._table
        if not self.learning or table is None or self._initial is None:
            return {}
        repeated, example = table.repeated()
        shown = None
        if example is not None:
            shown = {str(k): table.rows[k].tobytes().hex() for k in example}
        return {
            "repeated": repeated,
            "example": shown,
            "inside": self._inside_of(self._initial, table.count),
            "outside": table.endpoints(),
        }

    def _inside_of(self, stream: Stream, count: int) -> int | None:
        """Counted once for each number of connections: they are always the same."""
        if self._inside[0] != count:
            self._inside = count, inside_endpoints(stream, count)
        return self._inside[1]


def inside_endpoints(stream: Stream, count: int) -> int | None:
    """Distinct initiator addresses and ports among the first frames of a stream.

    Behind a tunnel the address is that of the tunnel and the inner one together (ST-18).
    """
    if count > COUNTED:
        return None
    expander = Expander(stream)
    where = locate_endpoints(expander.frames(0, 1)[0]).tunnel_row
    found = [
        marks(expander.frames(first, min(CHUNK, count - first))[:, where])
        for first in range(0, count, CHUNK)
    ]
    return len(sort_unique(np.concatenate(found)))
