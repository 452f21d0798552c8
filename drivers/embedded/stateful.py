"""The embedded tester's part in connections: the table's memory, and trials that are phase 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from v6t.base.errors import TesterError
from v6t.drivers.embedded.connections import Connections as Known
from v6t.drivers.oracle.connection_oracle import Connected, TableAt, connecting, plugin_of
from v6t.drivers.oracle.replay import Order
from v6t.drivers.oracle.state_table import ROW, MemoryFile
from v6t.drivers.tester import Oracle, PhaseCounts, describe_stale_frames
from v6t.packets.direction import Direction
from v6t.profiles.streams import StreamSet
from v6t.trials.connections import Connections
from v6t.trials.result import TrialResult
from v6t.trials.trial import Trial


@dataclass(frozen=True)
class Load:
    """What one direction of a trial has to do with connections.

    Attributes:
        table: the foreground belongs to these; None: the device is stateless.
        learn: this is phase 1.
        alone: nothing but the foreground is sent.
    """

    table: TableAt | None = None
    learn: bool = False
    alone: bool = False


class Connecting:
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
    ) -> Known | None:
        """What the receivers need to know; None where the technology is stateless.

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
            return Known()
        outer, inner = connecting(oracle, streams["forward"], streams["reverse"])
        return Known(outer, inner)

    def phase_one(self, connections: Connections) -> TableAt:
        """A fresh table."""
        self.close()
        count = connections.count
        self._file = MemoryFile(count * ROW[self.version])
        self._at = TableAt(self._file.path, count, self.version, Order(count))
        return self._at

    def validation(self) -> TableAt:
        """The table, each row once."""
        if self._at is None:
            raise TesterError("no connections have been established yet", code="not-learned")
        return replace(self._at, reverse=Order(self._at.count))

    def phase_two(self, connections: Connections) -> TableAt:
        """The table as the Responder reads it in phase 2."""
        if self._at is None:
            raise TesterError("no connections have been established yet", code="not-learned")
        entries = min(connections.entries or self._at.count, self._at.count)
        return replace(self._at, reverse=Order(entries, connections.reading))

    def reported(self, start: float, reports: Mapping[Direction, Mapping[str, Any]]) -> None:
        """Remember what the receivers said of the last exchange."""
        self._began_s = start
        self._report = reports.get("forward", {})

    def established(self, trial: Trial, result: TrialResult) -> PhaseCounts:
        """Phase 1 as it came out."""
        names = ("duplicate_tuples", "inside_endpoints", "outside_endpoints", "example")
        learned = {name: self._report[name] for name in names if name in self._report}
        return replace(self._phase(result, "forward"), **learned)

    def validated(self, trial: Trial, result: TrialResult) -> PhaseCounts:
        """The validation as it came out."""
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
