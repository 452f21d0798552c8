"""The reference translation of a stateful device: its plugin, with the connection of each frame."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
from v6t.base.errors import TesterError
from v6t.drivers.oracle.replay import ConnectionOrder, Cycle, FrameSource, Replay, make_frames
from v6t.drivers.oracle.state_table import ROW_OCTETS, MemoryFile, StateTable
from v6t.drivers.tester import Oracle, OracleDecorator
from v6t.packets import trailer
from v6t.packets.arrays import I64, U8
from v6t.packets.direction import Direction
from v6t.packets.header_policy import HeaderPolicy
from v6t.packets.reference import Expected, ReferenceTranslation
from v6t.profiles.dns.zone import Zone
from v6t.profiles.expand import Expander
from v6t.profiles.model import Role
from v6t.profiles.streams import Stream, StreamSet
from v6t.trials.connections import ReadingOrder


@runtime_checkable
class StatefulTranslation(ReferenceTranslation, Protocol):
    """Reference translation of a stateful plugin (see ``v6t.plugins.stateful``)."""

    @property
    def responder_version(self) -> int:
        """IP version behind the device, which the Responder's four-tuples have."""

    def expect_for_connections(
        self, direction: Direction, frames: U8, initial: U8, learned: U8
    ) -> Expected:
        """Return the reference translation of frames of known connections."""


@dataclass(frozen=True)
class TableLocation:
    """Location of the Responder's table, and the order in which it is read."""

    path: str
    count: int
    version: int
    reverse: ConnectionOrder

    def map(self) -> StateTable:
        """Map the table into this process."""
        return StateTable(self.path, self.count, self.version)


def list_foregrounds(streams: StreamSet) -> tuple[Stream, ...]:
    """Return the streams whose frames belong to connections: one for each frame size.

    Frame k of each belongs to the same connection.
    """
    return tuple(s for s in streams.streams if s.role is Role.FOREGROUND)


def find_foreground(streams: StreamSet) -> Stream:
    """Return the first foreground stream, whose frames open and validate connections."""
    return list_foregrounds(streams)[0]


def make_connection_source(direction: Direction, stream: Stream, at: TableLocation) -> FrameSource:
    """Return the source of a foreground stream's frames in phase 2."""
    if direction == "forward":
        return Cycle(Expander(stream), at.count)
    return Replay(stream, at.map(), at.reverse.find_connections)


class ConnectionOracle:
    """Reference translation of frames that belong to learned connections; picklable unbound."""

    zone: Zone | None = None

    def __init__(self, plugin: StatefulTranslation, forward: StreamSet, reverse: StreamSet) -> None:
        self._plugin = plugin
        self._initial = find_foreground(forward)
        both = {"forward": forward, "reverse": reverse}
        self._numbers = {d: [s.stream_id for s in list_foregrounds(own)] for d, own in both.items()}
        self._expander: Expander | None = None
        self._table: StateTable | None = None
        self._orders: Mapping[str, ConnectionOrder] = {}
        self.locate: Callable[[U8], I64 | None] | None = None
        """Returns the connections of frames, or None without any; set if trailers do not identify them."""

    @property
    def header_policy(self) -> HeaderPolicy:
        return self._plugin.header_policy

    def bind(self, at: TableLocation) -> None:
        """Use the connections of a table."""
        self._table = at.map()
        self._orders = {"forward": ConnectionOrder(at.count), "reverse": at.reverse}

    def _find_connections(self, direction: Direction, frames: U8) -> I64 | None:
        """Return the connections ``(n,)`` of frames, or None if they belong to no connection."""
        if self.locate is not None:
            return self.locate(frames)
        marks = trailer.read(frames)
        if not np.isin(marks.stream_id, self._numbers[direction]).all():
            return None
        return self._orders[direction].find_connections(marks.seq)

    def expect(self, direction: Direction, frames: U8) -> Expected:
        table, which = self._table, None
        if table is not None and len(frames):
            which = self._find_connections(direction, frames)
        if table is None or which is None:
            return self._plugin.expect(direction, frames)
        if self._expander is None:
            self._expander = Expander(self._initial)
        initial = make_frames(self._expander, which)
        return self._plugin.expect_for_connections(direction, frames, initial, table.rows[which])


def make_connection_oracle(
    oracle: Oracle, forward: StreamSet, reverse: StreamSet
) -> tuple[Oracle, ConnectionOracle]:
    """Return an oracle for frames of connections, and its inner part, which is bound to a table.

    Decorators of the plugin (further hops, a header profile) are kept.
    """
    if isinstance(oracle, OracleDecorator):
        outer = copy.copy(oracle)
        outer.oracle, connection_oracle = make_connection_oracle(oracle.oracle, forward, reverse)
        return outer, connection_oracle
    if not isinstance(oracle, StatefulTranslation):
        raise TypeError("a technology without connections")
    connection_oracle = ConnectionOracle(oracle, forward, reverse)
    return connection_oracle, connection_oracle


def unwrap_plugin(oracle: Oracle) -> Oracle:
    """Return the plugin inside an oracle."""
    while isinstance(oracle, OracleDecorator):
        oracle = oracle.oracle
    return oracle


class ConnectionTable:
    """The table of the Responder, in memory that several processes can map.

    Attributes:
        oracles: result of :func:`make_connection_oracle`; None in loopback or if the technology is
            stateless.
    """

    def __init__(self) -> None:
        self.oracles: tuple[Oracle, ConnectionOracle] | None = None
        self._file: MemoryFile | None = None
        self._at: TableLocation | None = None
        self._version = 4

    def load(
        self, streams: Mapping[Direction, StreamSet], oracle: Oracle, *, loopback: bool
    ) -> bool:
        """Prepare for the streams of a technology; return whether it has connections."""
        self.oracles = None
        plugin = unwrap_plugin(oracle)
        if not isinstance(plugin, StatefulTranslation) or len(streams) < 2:
            return False
        self._version = plugin.responder_version
        if not loopback:
            self.oracles = make_connection_oracle(oracle, streams["forward"], streams["reverse"])
        return True

    def make(self, count: int) -> TableLocation:
        """Make an empty table for a number of connections."""
        self.close()
        self._file = MemoryFile(count * ROW_OCTETS[self._version])
        self._at = TableLocation(self._file.path, count, self._version, ConnectionOrder(count))
        return self._at

    def read(self, entries: int | None = None, reading: ReadingOrder = "linear") -> TableLocation:
        """Return the table with a reading order of its first ``entries`` rows, or of all."""
        if self._at is None:
            raise TesterError("no connections have been established yet", code="not-learned")
        count = self._at.count
        return replace(self._at, reverse=ConnectionOrder(min(entries or count, count), reading))

    def close(self) -> None:
        self._at = None
        if self._file is not None:
            self._file.close()
            self._file = None
