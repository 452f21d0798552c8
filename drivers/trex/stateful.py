"""Connections on TRex: phase 1 recorded in a file and learned, phase 2 replayed from lists.

TRex sends programs, not tables, so a learned table becomes lists of ready frames: blocks of at most
:data:`~v6t.profiles.transform.chunks.MOST_ROWS` connections that send in turn.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from v6t.drivers.embedded.connections import inside_endpoints
from v6t.drivers.oracle.connection_oracle import (
    Connected,
    ConnectionOracle,
    TableAt,
    connecting,
    foreground,
    plugin_of,
)
from v6t.drivers.oracle.replay import Order, Replay
from v6t.drivers.oracle.state_table import ROW, MemoryFile, StateTable
from v6t.drivers.tester import Oracle, Phase
from v6t.drivers.trex.recording import read_frames, sequence
from v6t.drivers.trex.samples import FIRST_SEQUENCE
from v6t.drivers.trex.stamping import Burst, stamped
from v6t.procedures.connection_types import Connections, Reading
from v6t.procedures.trial import Trial, TrialResult
from v6t.profiles.ends import ends_of
from v6t.profiles.errors import EnvironmentLacking, TesterError
from v6t.profiles.expand import Expander
from v6t.profiles.model import Direction
from v6t.profiles.streams import Stream, StreamSet
from v6t.profiles.transform.chunks import MOST_ROWS, blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.drivers.trex.attachment import Attachment
    from v6t.drivers.trex.remote import Remote
    from v6t.profiles.arrays import I64, U8

SPARE = 1000
"""A recording may hold so many frames more than there are connections."""
IDS_PER_DIRECTION = 32
"""TRex has 128 latency groups: for two directions, each with tagged clones of its streams."""
ORDER_SEED = 1


@dataclass(frozen=True)
class Listed(Order):
    """Connections in the order of a list."""

    which: I64 = field(default_factory=lambda: np.zeros(1, dtype=np.int64))

    def connections(self, numbers: NDArray[np.integer]) -> I64:
        """Connections ``(n,)`` of frames ``(n,)``."""
        found: I64 = self.which[numbers]
        return found


def _order(count: int, entries: int | None, reading: Reading) -> I64:
    used = count if entries is None else min(entries, count)
    if reading == "fixed":
        return np.zeros(1, dtype=np.int64)
    if reading == "linear":
        return np.arange(used, dtype=np.int64)
    return np.random.default_rng(ORDER_SEED).permutation(used).astype(np.int64)


class Connecting:
    """One table at a time, and what is known of it."""

    def __init__(self, attachment: Attachment, remote: Remote | None) -> None:
        """No table yet.

        Args:
            attachment: to the server that records.
            remote: host of the recordings; None: this one.
        """
        self._attachment = attachment
        self._remote = remote
        self._streams: Mapping[Direction, StreamSet] = {}
        self._outer: Oracle | None = None
        self._inner: ConnectionOracle | None = None
        self._version = 4
        self._file: MemoryFile | None = None
        self._table: StateTable | None = None
        self._path = ""
        self._recorded = self._fresh = 0
        self._current: I64 | None = None
        self._numbers: dict[tuple[Direction, int], I64] = {}
        self._sets: dict[tuple[Any, ...], tuple[StreamSet, dict[tuple[Direction, int], I64]]] = {}

    def load(
        self, streams: Mapping[Direction, StreamSet], oracle: Oracle, *, loopback: bool
    ) -> None:
        """What will be sent, and who knows the frames that come back."""
        self.close()
        self._streams = streams
        self._outer = self._inner = None
        plugin = plugin_of(oracle)
        if not isinstance(plugin, Connected) or len(streams) < 2:
            return
        self._version = plugin.responder_version
        if not loopback:
            self._outer, self._inner = connecting(oracle, streams["forward"], streams["reverse"])
            self._inner.locate = self._locate

    def recording(self, port: int, connections: Connections) -> dict[str, Any]:
        """A fresh table, and what the worker needs to record phase 1 on a port."""
        self.close()
        count = connections.count
        self._file = MemoryFile(count * ROW[self._version])
        self._table = StateTable(self._file.path, count, self._version)
        if self._inner is not None:
            self._inner.bind(TableAt(self._file.path, count, self._version, Order(count)))
        own = foreground(self._streams["forward"]).stream_id
        self._numbers["forward", own] = np.arange(count, dtype=np.int64)
        self._path = f"{self._attachment.ask('scratch')}/phase1.pcap"
        return {
            str(port): {
                "filter": "ether[len - 16] = 0xab",
                "limit": count + SPARE,
                "path": self._path,
            }
        }

    def learn(self) -> None:
        """Read the recording and remember its four-tuples.

        Raises:
            TesterError: there is none.
            EnvironmentLacking: it is on another host.
        """
        table = self._table
        if table is None:
            raise TesterError("nothing was to be learned")
        recorded = 0
        seen = np.zeros(table.count, dtype=bool)
        with tempfile.TemporaryDirectory(prefix="v6t-") as directory:
            path = Path(self._path)
            if self._remote is not None:
                path = Path(directory) / "phase1.pcap"
                self._remote.fetch(self._path, path)
            if not path.exists():
                raise EnvironmentLacking(
                    f"the recording of phase 1 is not here: {path}",
                    "TRex writes it on the server's host: say ssh: user@host in the testbed",
                )
            for frames in read_frames(path):
                marked, numbers = sequence(frames, FIRST_SEQUENCE)
                mine = marked & (numbers >= 0) & (numbers < table.count)
                rows = np.flatnonzero(mine)
                if not len(rows):
                    continue
                recorded += len(rows)
                seen[numbers[rows]] = True
                where = ends_of(np.asarray(frames[rows[0]])).row
                table.learn(numbers[rows], frames[:, where][rows])
        self._attachment.ask("forget", path=self._path)
        self._recorded, self._fresh = recorded, int(np.count_nonzero(seen))

    def learned(
        self, connections: Connections, result: TrialResult, raw: Mapping[str, Any]
    ) -> Phase:
        """Phase 1 as it came out."""
        table = self._table
        if table is None:
            raise TesterError("nothing was learned")
        phase = self.phase(result, raw, "forward")
        ((name, count),) = phase.result.classes.items()
        arrived = count.received + count.surplus
        faults = list(phase.faults)
        if self._recorded < arrived:
            faults.append(f"TRex recorded {self._recorded} of {arrived} frames of phase 1")
        counted = replace(count, received=self._fresh, surplus=max(0, self._recorded - self._fresh))
        repeated, example = table.repeated()
        shown = (
            None if example is None else {str(k): table.rows[k].tobytes().hex() for k in example}
        )
        return replace(
            phase,
            result=replace(phase.result, classes={name: counted}),
            repeated=repeated,
            inside=inside_endpoints(foreground(self._streams["forward"]), connections.count),
            outside=table.endpoints(),
            example=shown,
            faults=tuple(faults),
        )

    def validation(self, streams: StreamSet, rate_fps: float) -> tuple[StreamSet, list[Burst]]:
        """Every learned connection once, from outside.

        Args:
            streams: of the Responder.
            rate_fps: frames per second.
        """
        found = self._listed(streams, "linear", None, alone=True)
        count = self._count
        bursts = []
        for at, stream in enumerate(found.streams):
            frames = len(self._numbers["reverse", stream.stream_id])
            group = stream.stream_id if len(found.streams) <= IDS_PER_DIRECTION else None
            share = rate_fps * frames / count
            bursts.append(Burst(at, share, frames, 1e6 * at / rate_fps, group))
        return found, bursts

    def phase_two(self, streams: StreamSet, trial: Trial, connections: Connections) -> StreamSet:
        """What a direction sends in phase 2.

        The Initiator goes through its own four-tuples as it did in phase 1; the Responder through
        its table. A table read pseudorandomly is shuffled: every connection comes once per pass.
        """
        if streams.direction == "reverse":
            return self._listed(streams, connections.reading, connections.entries)
        if trial.frames <= self._count:
            own = foreground(streams).stream_id
            self._numbers["forward", own] = np.arange(self._count, dtype=np.int64)
            return streams
        return self._listed(streams, "linear", None)

    def oracle(self, direction: Direction, stream: Stream) -> Oracle | None:
        """Who knows the frames of a stream; None: whoever knows all."""
        if self._outer is None or self._table is None:
            return None
        self._current = self._numbers.get((direction, stream.stream_id))
        return self._outer

    @property
    def _count(self) -> int:
        if self._table is None:
            raise TesterError("nothing was learned yet")
        return self._table.count

    def _locate(self, direction: Direction, frames: U8) -> I64 | None:
        del direction
        if self._current is None:
            return None
        _, numbers = sequence(frames, FIRST_SEQUENCE)
        found: I64 = self._current[numbers % len(self._current)]
        return found

    def _listed(
        self, streams: StreamSet, reading: Reading, entries: int | None, *, alone: bool = False
    ) -> StreamSet:
        """The set with its foreground as blocks of listed frames, made once per table."""
        key = (streams.direction, reading, entries, alone)
        if key not in self._sets:
            self._sets[key] = self._list(streams, _order(self._count, entries, reading), alone)
        made, numbers = self._sets[key]
        self._numbers = {k: v for k, v in self._numbers.items() if k[0] != streams.direction}
        self._numbers.update(numbers)
        return made

    def _list(
        self, streams: StreamSet, order: I64, alone: bool
    ) -> tuple[StreamSet, dict[tuple[Direction, int], I64]]:
        own = foreground(streams)
        first = min(s.stream_id for s in streams.streams)
        if streams.direction == "forward":
            frames = Expander(own).frames(0, len(order))
        elif self._table is not None:
            frames = Replay(own, self._table, Listed(len(order), which=order)).frames(0, len(order))
        listed = blocks(own, len(order), lambda which: frames[which], first, MOST_ROWS)
        # lists replaced the program that has TRex fix the checksum of stamped frames
        made = stamped(StreamSet(streams.direction, listed)).streams
        numbers = {
            (streams.direction, stream.stream_id): order[at :: len(made)]
            for at, stream in enumerate(made)
        }
        if alone:
            return StreamSet(streams.direction, made), numbers
        others = [
            replace(s, weight=s.weight * len(made), stream_id=first + len(made) + number)
            for number, s in enumerate(s for s in streams.streams if s is not own)
        ]
        return StreamSet(streams.direction, (*made, *others)), numbers

    def phase(self, result: TrialResult, raw: Mapping[str, Any], way: Direction) -> Phase:
        """A phase as it came out."""
        counted = result.directions[way]
        began_s = float(raw["began"])
        return Phase(
            counted,
            began_s,
            began_s + counted.sending_time_s,
            faults=result.faults,
            started=result.started,
            health=dict(result.tester),
        )

    def close(self) -> None:
        """Forget the table. May be called twice."""
        self._table = None
        self._numbers.clear()
        self._sets.clear()
        if self._file is not None:
            self._file.close()
            self._file = None
