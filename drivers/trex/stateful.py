"""Connections on TRex: phase 1 recorded in a file and learned, phase 2 replayed from lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from v6t.base.errors import TesterError
from v6t.drivers.embedded.connections import inside_endpoints
from v6t.drivers.oracle.connection_oracle import (
    Connected,
    ConnectionOracle,
    TableAt,
    connecting,
    foreground,
    foregrounds,
    plugin_of,
)
from v6t.drivers.oracle.replay import FrameSource, Order, Replay
from v6t.drivers.oracle.state_table import ROW, MemoryFile, StateTable
from v6t.drivers.tester import (
    PHASE_NAMES,
    Oracle,
    OracleDecorator,
    PhaseCounts,
    describe_stale_frames,
)
from v6t.drivers.trex import tables
from v6t.drivers.trex.listed import Listed, Rows
from v6t.drivers.trex.marking import is_marked
from v6t.drivers.trex.recording import Recordings, longest_frame, sequence
from v6t.drivers.trex.samples import FIRST_SEQUENCE
from v6t.drivers.trex.stamping import Burst
from v6t.packets.direction import Direction
from v6t.packets.walker import locate_endpoints
from v6t.profiles.expand import Expander
from v6t.profiles.streams import Stream, StreamSet, compute_period
from v6t.trials.connections import Connections, ReadingOrder
from v6t.trials.result import TrialResult
from v6t.trials.trial import Trial

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.packets.arrays import I64, U8
    from v6t.packets.reference import Expected

    Reader = Callable[[U8], tuple[NDArray[np.bool_], I64]]

ORDER_SEED = 1


class StreamOracle(OracleDecorator):
    """The oracle of one stream, whose frames tell their connections in its own way.

    Args:
        oracle: of the technology, around ``connections``.
        connections: to be told how to locate them.
        locate: the connections of frames; None: they belong to none.
    """

    def __init__(
        self,
        oracle: Oracle,
        connections: ConnectionOracle,
        locate: Callable[[U8], I64] | None,
    ) -> None:
        super().__init__(oracle)
        self._connections = connections
        self._locate = locate

    def expect(self, direction: Direction, frames: U8) -> Expected:
        locate = self._locate
        self._connections.locate = lambda _, rows: None if locate is None else locate(rows)
        return self.oracle.expect(direction, frames)


@dataclass(frozen=True)
class Recorded:
    """What a recording held.

    Attributes:
        frames: of connections.
        distinct: connections they belong to.
    """

    frames: int
    distinct: int


def _order(count: int, entries: int | None, reading: ReadingOrder) -> NDArray[np.int32]:
    used = count if entries is None else min(entries, count)
    if reading == "fixed":
        return np.zeros(1, dtype=np.int32)
    order = np.arange(used, dtype=np.int32)
    if reading == "pseudorandom":
        np.random.default_rng(ORDER_SEED).shuffle(order)
    return order


class Connecting:
    """One table at a time, and what is known of it."""

    def __init__(self, recordings: Recordings) -> None:
        """No table yet.

        Args:
            recordings: of phases.
        """
        self._recordings = recordings
        self._streams: Mapping[Direction, StreamSet] = {}
        self._outer: Oracle | None = None
        self._inner: ConnectionOracle | None = None
        self._version = 4
        self._file: MemoryFile | None = None
        self._table: StateTable | None = None
        self._recorded = Recorded(0, 0)
        self._listed: dict[Direction, tuple[Listed, ...]] = {}
        self._sets: dict[tuple[Any, ...], tuple[StreamSet, tuple[Listed, ...]]] = {}

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

    def begin(self, connections: Connections) -> None:
        """A fresh table."""
        tables.check(connections.count, frozenset())
        self.close()
        count = connections.count
        self._file = MemoryFile(count * ROW[self._version])
        self._table = StateTable(self._file.path, count, self._version)
        if self._inner is not None:
            self._inner.bind(TableAt(self._file.path, count, self._version, Order(count)))

    def recording(self, port: int, streams: StreamSet, nonce: int) -> dict[str, Any]:
        """What the worker needs to record a phase on a port.

        Args:
            port: that receives.
            streams: whose frames are recorded, one for each connection.
            nonce: octet of the trial in the trailers of marked frames.
        """
        name, length = PHASE_NAMES[streams.direction], longest_frame(streams)
        return {str(port): self._recordings.request(name, self._rows.count, length, nonce)}

    def learn(self) -> None:
        """Read the recording of phase 1 and remember its four-tuples.

        Raises:
            TesterError: there is none.
            EnvironmentLacking: it is on another host.
        """
        table = self._rows

        def stamps(frames: U8) -> tuple[NDArray[np.bool_], I64]:
            marked, numbers = sequence(frames, FIRST_SEQUENCE)
            return marked & (numbers >= 0) & (numbers < table.count), numbers

        def use(numbers: I64, frames: U8) -> None:
            where = locate_endpoints(np.asarray(frames[0])).row
            table.learn(numbers, frames[:, where])

        self._read("forward", stamps, use)

    def learned(
        self, connections: Connections, result: TrialResult, raw: Mapping[str, Any]
    ) -> PhaseCounts:
        """Phase 1 as it came out."""
        table = self._rows
        repeated, example = table.repeated()
        shown = (
            None if example is None else {str(k): table.rows[k].tobytes().hex() for k in example}
        )
        return replace(
            self._counted(result, raw, "forward"),
            duplicate_tuples=repeated,
            inside_endpoints=inside_endpoints(
                foreground(self._streams["forward"]), connections.count
            ),
            outside_endpoints=table.endpoints(),
            example=shown,
        )

    def try_all(self) -> None:
        """Read the recording of the validation: which connections are in it."""
        (listed,) = self._listed["reverse"]
        self._read("reverse", listed.connections)

    def validated(self, result: TrialResult, raw: Mapping[str, Any]) -> PhaseCounts:
        """The validation as it came out."""
        return self._counted(result, raw, "reverse")

    def validation(self, streams: StreamSet, rate_fps: float) -> tuple[StreamSet, list[Burst]]:
        """Every learned connection once, from outside.

        One block is stamped, which proves how long sending took; marks say which connection the
        frames of the others belong to.

        Args:
            streams: of the Responder.
            rate_fps: frames per second.
        """
        stream_set = self._list(streams, "linear", None, alone=True)
        count, (listed,) = self._rows.count, self._listed["reverse"]
        bursts = []
        for at, (stream, block) in enumerate(zip(stream_set.streams, listed.blocks, strict=True)):
            frames = len(block.connections)
            group = None if is_marked(stream) else stream.stream_id
            share = rate_fps * frames / count
            bursts.append(Burst(at, share, frames, 1e6 * at / rate_fps, group))
        return stream_set, bursts

    def phase_two(self, streams: StreamSet, trial: Trial, connections: Connections) -> StreamSet:
        """What a direction sends in phase 2.

        The Initiator goes through its own four-tuples as it did in phase 1; the Responder through
        its table. A table read pseudorandomly is shuffled: every connection comes once per pass.
        """
        if streams.direction == "reverse":
            return self._list(streams, connections.reading, connections.entries)
        count = self._rows.count
        if trial.frames <= count or compute_period(foreground(streams)) == count:
            self._listed.pop("forward", None)
            return streams
        return self._list(streams, "linear", None)

    def timed_share(self, direction: Direction) -> float | None:
        """Share of the connections whose frames carry TRex's stamp; None: all of them do."""
        listed = self._listed.get(direction, ())
        timed, count = sum(one.timed for one in listed), sum(one.count for one in listed)
        return None if timed == count else timed / count

    def program(self, direction: Direction, stream: Stream) -> Mapping[str, Any]:
        """A stream as the worker gives it to TRex."""
        listed = self._list_of(direction, stream)
        return (listed.program(stream) if listed else None) or stream.trex

    def source(self, direction: Direction, stream: Stream) -> FrameSource | None:
        """Frames of a stream, where they are not those of its program."""
        listed = self._list_of(direction, stream)
        return listed.source(stream) if listed else None

    def oracle(self, direction: Direction, stream: Stream) -> Oracle | None:
        """Return the oracle of a stream; None: that of all streams."""
        if self._outer is None or self._inner is None or self._table is None:
            return None
        return StreamOracle(self._outer, self._inner, self._knowing(direction, stream))

    def phase(self, result: TrialResult, raw: Mapping[str, Any], way: Direction) -> PhaseCounts:
        """A phase as it came out."""
        counted = result.directions[way]
        began_s = float(raw["began"])
        return PhaseCounts(
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
        self._listed.clear()
        self._sets.clear()
        if self._file is not None:
            self._file.close()
            self._file = None

    # ------------------------------------------------------------------ inside

    def _list_of(self, direction: Direction, stream: Stream) -> Listed | None:
        """Whose block a stream is."""
        listings = (one for one in self._listed.get(direction, ()) if one.block(stream))
        return next(listings, None)

    @property
    def _rows(self) -> StateTable:
        if self._table is None:
            raise TesterError("no connections have been established yet", code="not-learned")
        return self._table

    def _read(
        self,
        way: Direction,
        connections_of: Reader,
        use: Callable[[I64, U8], None] | None = None,
    ) -> None:
        """Count the connections of a recording one by one."""
        seen = np.zeros(self._rows.count, dtype=bool)
        recorded = 0
        for _, frames in self._recordings.read(PHASE_NAMES[way]):
            mine, numbers = connections_of(frames)
            rows = np.flatnonzero(mine)
            if not len(rows):
                continue
            recorded += len(rows)
            seen[numbers[rows]] = True
            if use is not None:
                use(numbers[rows], frames[rows])
        self._recorded = Recorded(recorded, int(np.count_nonzero(seen)))

    def _counted(self, result: TrialResult, raw: Mapping[str, Any], way: Direction) -> PhaseCounts:
        """A phase with the counts of its recording."""
        phase, recorded = self.phase(result, raw, way), self._recorded
        ((name, count),) = phase.result.classes.items()
        arrived = count.received + count.surplus
        stale = self._recordings.stale.get(PHASE_NAMES[way], 0)
        faults = [*phase.faults, *describe_stale_frames(stale, way)]
        frames = recorded.frames
        if recorded.distinct < count.required and frames < arrived:
            faults.append(f"TRex recorded {frames} of {arrived} frames of {PHASE_NAMES[way]}")
        else:  # a full recording lacks surplus only if it holds every connection
            frames = max(frames, arrived)
        surplus = frames - recorded.distinct
        counted = replace(count, received=recorded.distinct, surplus=surplus)
        return replace(
            phase,
            result=replace(phase.result, classes={name: counted}),
            faults=tuple(faults),
        )

    def _knowing(self, direction: Direction, stream: Stream) -> Callable[[U8], I64] | None:
        """What tells the connections of a stream's frames; None: they belong to none."""
        if direction in self._listed:
            listed = self._list_of(direction, stream)
            return listed.knowing(stream) if listed else None
        mine = foregrounds(self._streams[direction])
        if all(stream.stream_id != own.stream_id for own in mine):
            return None
        count = self._rows.count

        def connections(frames: U8) -> I64:
            return sequence(frames, FIRST_SEQUENCE)[1] % count

        return connections

    def _list(
        self, streams: StreamSet, reading: ReadingOrder, entries: int | None, *, alone: bool = False
    ) -> StreamSet:
        """The set with its foreground as blocks of listed frames, made once per table."""
        key = (streams.direction, reading, entries, alone)
        if key not in self._sets:
            self._sets[key] = self._as_blocks(
                streams, _order(self._rows.count, entries, reading), alone
            )
        stream_set, self._listed[streams.direction] = self._sets[key]
        return stream_set

    def _as_blocks(
        self, streams: StreamSet, order: NDArray[np.int32], alone: bool
    ) -> tuple[StreamSet, tuple[Listed, ...]]:
        table = self._rows
        every = foregrounds(streams)[:1] if alone else foregrounds(streams)
        first = min(s.stream_id for s in streams.streams)
        others = () if alone else tuple(s for s in streams.streams if s not in every)

        def source(own: Stream, at: int, blocks: int, mine: NDArray[np.integer]) -> FrameSource:
            if streams.direction == "forward":  # in the order of the program
                return Expander(own, at, blocks)
            return Replay(own, table, Rows(len(mine), which=mine))

        stamps = 1 if alone else (tables.IDS_PER_DIRECTION - len(others)) // len(every)
        listed = tuple(
            Listed(
                *(own, order, partial(source, own), first + len(others) + number * stamps, stamps),
                marks=len(every) == 1,
            )
            for number, own in enumerate(every)
        )
        blocks = tuple(b.stream for one in listed for b in one.blocks)
        further = tuple(
            replace(s, weight=s.weight * len(listed[0].blocks), stream_id=first + number)
            for number, s in enumerate(others)
        )
        return StreamSet(streams.direction, (*blocks, *further)), listed
