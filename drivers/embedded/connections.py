"""The connections of the embedded tester: its table, learned in phase 1 and used in phase 2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from v6t.drivers.oracle.connection_oracle import (
    TableLocation,
    foreground,
    list_foregrounds,
    make_connection_source,
)
from v6t.drivers.oracle.replay import FrameSource
from v6t.drivers.oracle.state_table import StateTable, count_inside_endpoints, describe_repeated
from v6t.packets.walker import locate_endpoints
from v6t.profiles.streams import Stream, StreamSet

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.drivers.oracle.connection_oracle import ConnectionOracle
    from v6t.drivers.tester import Oracle
    from v6t.packets.arrays import U8


@dataclass
class ReceiverConnections:
    """The connections of a receiver's frames.

    Attributes:
        oracle: the oracle that knows them, None in loopback or where the device is stateless.
    """

    oracle: Oracle | None = None
    inner: ConnectionOracle | None = None  # Part of the oracle that is bound to a table
    learning: bool = False  # Whether this is a trial of phase 1
    _table: StateTable | None = None
    _initial: Stream | None = None
    _sources: Mapping[int, FrameSource] = field(default_factory=dict)
    _inside: tuple[int, int | None] = (0, None)

    def arm(
        self, oracle: Oracle | None, at: TableLocation | None, streams: StreamSet, learn: bool
    ) -> Oracle | None:
        """Prepare for a trial; return the oracle of its frames. None: a trial without connections."""
        self.learning = learn
        self._table = self._initial = None
        self._sources = {}
        if at is None:
            return oracle
        self._initial = foreground(streams)
        self._table = at.map()
        if self.inner is not None:
            self.inner.bind(at)
        if not learn:
            self._sources = {
                s.stream_id: make_connection_source(streams.direction, s, at)
                for s in list_foregrounds(streams)
            }
        return self.oracle or oracle

    def source(self, stream: Stream) -> FrameSource | None:
        """Return the source of a stream's frames; None: as compiled."""
        return self._sources.get(stream.stream_id)

    def learn(
        self, stream: Stream, frames: U8, numbers: NDArray[np.uint32], fresh: NDArray[np.bool_]
    ) -> None:
        """Remember the four-tuples of those frames ``(n, length)`` that were not received before."""
        rows = np.flatnonzero(fresh)
        if self._table is None or self._initial is None or not len(rows):
            return
        if stream.stream_id == self._initial.stream_id:
            where = locate_endpoints(frames[rows[0]]).row
            self._table.learn(numbers[rows].astype(np.int64), frames[:, where][rows])

    def report(self) -> dict[str, Any]:
        """Return the fields of PhaseCounts that phase 1 found; empty in other trials."""
        table = self._table
        if not self.learning or table is None or self._initial is None:
            return {}
        if self._inside[0] != table.count:  # counted once for each number of connections
            self._inside = table.count, count_inside_endpoints(self._initial, table.count)
        return {**describe_repeated(table), "inside_endpoints": self._inside[1]}
