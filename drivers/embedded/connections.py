"""The embedded tester's part in connections: its table, learned in phase 1 and used in phase 2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from v6t.base.errors import TesterError
from v6t.drivers.oracle.connection_oracle import (
    Connected,
    TableAt,
    connecting,
    connection_source,
    foreground,
    foregrounds,
    plugin_of,
)
from v6t.drivers.oracle.replay import FrameSource, Order
from v6t.drivers.oracle.state_table import (
    ROW,
    MemoryFile,
    StateTable,
    count_inside_endpoints,
    describe_repeated,
)
from v6t.drivers.tester import Oracle, PhaseCounts, describe_stale_frames
from v6t.packets.direction import Direction
from v6t.packets.walker import locate_endpoints
from v6t.profiles.streams import Stream, StreamSet
from v6t.trials.connections import Connections
from v6t.trials.result import TrialResult
from v6t.trials.trial import Trial

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.drivers.oracle.connection_oracle import ConnectionOracle
    from v6t.drivers.tester import Oracle
    from v6t.packets.arrays import U8


@dataclass
class ReceiverConnections:
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
        """Return the frames of a stream that is not sent as compiled."""
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
        """Return what phase 1 found; empty in other trials."""
        table = self._table
        if not self.learning or table is None or self._initial is None:
            return {}
        return {
            **describe_repeated(table),
            "inside_endpoints": self._inside_of(self._initial, table.count),
        }

    def _inside_of(self, stream: Stream, count: int) -> int | None:
        """Count them once for each number of connections."""
        if self._inside[0] != count:
            self._inside = count, count_inside_endpoints(stream, count)
        return self._inside[1]


@dataclass(frozen=True)
class ConnectionRole:
    """What one direction of a trial has to do with connections.

    Attributes:
        table: the foreground belongs to these; None: the device is stateless.
        learn: this is phase 1.
        alone: nothing but the foreground is sent.
    """

    table: TableAt | None = None
    learn: bool = False
    alone: bool = False


class ConnectionTable:
    """One table at a time, and what is known of it."""

    def __init__(self) -> None:
        self._file: MemoryFile | None = None
        self._at: TableAt | None = None
        self.version = 4
        """Of IP behind the device."""
        self._began_s = 0.0
        self._report: Mapping[str, Any] = {}

    def load(
        self, streams: Mapping[Direction, StreamSet], oracle: Oracle, *, loopback: bool
    ) -> ReceiverConnections | None:
        """Return what the receivers need; None: the technology is stateless.

        Args:
            streams: of both directions.
            oracle: who knows the frames.
            loopback: frames come back as they were sent.
        """
        plugin = plugin_of(oracle)
        if not isinstance(plugin, Connected) or len(streams) < 2:
            return None
        self.version = plugin.responder_version
        if loopback:
            return ReceiverConnections()
        outer, inner = connecting(oracle, streams["forward"], streams["reverse"])
        return ReceiverConnections(outer, inner)

    def phase_one(self, connections: Connections) -> TableAt:
        """Make a fresh table."""
        self.close()
        count = connections.count
        self._file = MemoryFile(count * ROW[self.version])
        self._at = TableAt(self._file.path, count, self.version, Order(count))
        return self._at

    def validation(self) -> TableAt:
        """Return the table, each row once."""
        if self._at is None:
            raise TesterError("no connections have been established yet", code="not-learned")
        return replace(self._at, reverse=Order(self._at.count))

    def phase_two(self, connections: Connections) -> TableAt:
        """Return the table as the Responder reads it in phase 2."""
        if self._at is None:
            raise TesterError("no connections have been established yet", code="not-learned")
        entries = min(connections.entries or self._at.count, self._at.count)
        return replace(self._at, reverse=Order(entries, connections.reading))

    def reported(self, start: float, reports: Mapping[Direction, Mapping[str, Any]]) -> None:
        """Remember what the receivers said of the last exchange."""
        self._began_s = start
        self._report = reports.get("forward", {})

    def established(self, trial: Trial, result: TrialResult) -> PhaseCounts:
        """Return the counts of phase 1."""
        names = ("duplicate_tuples", "inside_endpoints", "outside_endpoints", "example")
        learned = {name: self._report[name] for name in names if name in self._report}
        return replace(self._phase(result, "forward"), **learned)

    def validated(self, trial: Trial, result: TrialResult) -> PhaseCounts:
        """Return the counts of the validation."""
        return self._phase(result, "reverse")

    def close(self) -> None:
        """Forget the table. May be called twice."""
        self._at = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def _phase(self, result: TrialResult, way: Direction) -> PhaseCounts:
        counted = result.directions[way]
        health: Mapping[str, Any] = dict(result.tester).get(way, {})
        return PhaseCounts(
            counted,
            self._began_s,
            self._began_s + counted.sending_time_s,
            faults=(*result.faults, *describe_stale_frames(health.get("stale", 0), way)),
            started=result.started,
            health=health,
        )
