"""Connections on TRex: phase 1 recorded in a file and learned, phase 2 replayed from lists.

TRex sends programs, not tables, and its lists end at 65,535 values. So connections are dealt out
to blocks: those at places k, k + B, k + 2B ... of an order are block k of B, and blocks that send in
turn send the order. Of a block only its frame and its connections are kept; its lists are made when
TRex is given them and forgotten, so that a table costs its rows and no more.

Blocks that TRex's identifiers reach are stamped, evenly spread over all; the others carry marks
(:mod:`v6t.drivers.trex.streams`). Stamped blocks are those whose frames are timed.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from v6t.base.errors import TesterError, UsageError
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
from v6t.drivers.oracle.state_table import (
    ROW,
    MemoryFile,
    StateTable,
    count_inside_endpoints,
    describe_repeated,
)
from v6t.drivers.tester import (
    PHASE_NAMES,
    Oracle,
    OracleDecorator,
    PhaseCounts,
    describe_stale_frames,
)
from v6t.drivers.trex.bursts import MAX_TIMED_CLASSES, Burst
from v6t.drivers.trex.capture import Recordings
from v6t.drivers.trex.streams import (
    MARK_IDS,
    CyclicSource,
    is_marked,
    longest_packet,
    number_distance,
    packet_of,
    read_marks,
    read_stamps,
    with_checksum_fixes,
    with_mark,
    with_stamps,
)
from v6t.packets import trailer
from v6t.packets.direction import Direction
from v6t.packets.walker import locate_endpoints
from v6t.profiles.compiler import instructions as ins
from v6t.profiles.expand import Expander
from v6t.profiles.rows import list_frames
from v6t.profiles.streams import Stream, StreamSet, compute_period
from v6t.trials.connections import Connections, ReadingOrder
from v6t.trials.result import TrialResult
from v6t.trials.trial import Capability, Trial

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.packets.arrays import I64, U8
    from v6t.packets.reference import Expected

    Reader = Callable[[U8], tuple[NDArray[np.bool_], I64]]

MAX_ROWS = 32_768
"""Connections of a block: its lists have to fit into one request to TRex's server."""
MAX_CONNECTIONS = 1 << 24
"""TRex's server takes more than 100 octets for each value of a list."""
IDS_PER_DIRECTION = MAX_TIMED_CLASSES
"""Streams of a direction that can be stamped, tags among them."""
NOTED_CONNECTIONS = 1_000_000
"""From here on a plan says what connections take."""
SERVER_OCTETS, OWN_OCTETS, RECORDED_OCTETS = 120, 150, 180
"""Of each connection, measured with nat44 and frames of 84 octets: TRex's server, v6t with its
worker, and the recording on the disk of TRex's host."""
_ORDER_SEED = 1


def check_connections(most: int, needs: frozenset[Capability]) -> None:
    """Refuse connections that TRex cannot have.

    Args:
        most: connections of a trial.
        needs: what its phase 2 asks of the tester.

    Raises:
        UsageError: naming the limit.
    """
    if most > MAX_CONNECTIONS:
        raise UsageError(
            f"TRex sends learned connections from lists, of which v6t gives its server at most "
            f"{MAX_CONNECTIONS:,} rows; {most:,} connections are more",
            "lower connections.count (connections.capacity.most of a capacity search), or use "
            "the embedded tester, whose table takes 12 octets a connection",
            code="too-many-for-trex",
        )
    if needs & {"two-rates", "flow-starts"}:
        raise UsageError(
            "TRex sends connections from lists at one rate, all from the first frame on: no system "
            "recovery, and no flows that begin one after the other",
            "leave system-recovery out and set flows.starts to [together], or use the embedded tester",
            code="unsupported-by-tester",
        )
    stamped = IDS_PER_DIRECTION * MAX_ROWS
    if "frame-timeout" in needs and most > stamped:
        raise UsageError(
            f"a timeout for every frame needs TRex's stamp in every frame, and its 128 "
            f"identifiers stamp {stamped:,} connections; {most:,} are more",
            "lower connections.count, or leave the timeout out",
            code="too-many-for-trex",
        )
    if "ipdv" in needs and most > MAX_ROWS:
        raise UsageError(
            f"IPDV needs neighbouring frames in one of TRex's lists, which hold {MAX_ROWS:,} "
            f"connections; {most:,} are more",
            "lower connections.count, or measure PDV",
            code="too-many-for-trex",
        )


def describe_costs(most: int, needs: frozenset[Capability]) -> Iterator[str]:
    """Yield what a user should know before a run with this many connections."""
    stamped = IDS_PER_DIRECTION * MAX_ROWS
    if most > stamped and needs & {"tags", "every-frame"}:
        yield (
            f"delays are those of about {stamped:,} of {most:,} connections, evenly spread: as many "
            "as TRex's 128 identifiers stamp"
        )
    if most >= NOTED_CONNECTIONS:
        server, own, disk = (
            f"{most * octets / 2**30:.1f} GiB"
            for octets in (SERVER_OCTETS, OWN_OCTETS, RECORDED_OCTETS)
        )
        yield (
            f"{most:,} connections on TRex take about {server} of its server's memory, {own} of "
            f"v6t's and {disk} of disk on the server's host"
        )


@dataclass(frozen=True)
class ListOrder(Order):
    """Connections in the order of a list, again and again."""

    rows: NDArray[np.integer] = field(default_factory=lambda: np.zeros(1, dtype=np.int64))

    def connections(self, numbers: NDArray[np.integer]) -> I64:
        """Return the connections ``(n,)`` of frames ``(n,)``."""
        connections: I64 = self.rows[numbers % len(self.rows)].astype(np.int64)
        return connections


@dataclass(frozen=True)
class Block:
    """One stream of listed rows.

    Attributes:
        stream: without its lists.
        connections: of its rows.
        make_source: makes the source of the frames of its rows.
    """

    stream: Stream
    connections: NDArray[np.integer]
    make_source: Callable[[], FrameSource]


class ConnectionBlocks:
    """A foreground whose frames are those of connections in an order.

    Args:
        stream: whose frames they are.
        order: connections in the order in which they are sent.
        source: makes the frames of block k of B, given k, B and the block's connections.
        first_id: identifier of the first stamped block.
        ids: number of identifiers.
        rows: largest block; None: :data:`MAX_ROWS`.
        marks: blocks without an identifier may be marked.

    Attributes:
        timed: connections of stamped blocks.

    Raises:
        UsageError: there are more blocks than identifiers.
    """

    def __init__(
        self,
        stream: Stream,
        order: NDArray[np.integer],
        source: Callable[[int, int, NDArray[np.integer]], FrameSource],
        first_id: int,
        ids: int,
        rows: int | None = None,
        *,
        marks: bool = True,
    ) -> None:
        number = max(1, -(-len(order) // (rows or MAX_ROWS)))
        if number > ids and not marks:
            raise UsageError(
                f"in a mix of frame sizes TRex's identifiers stamp "
                f"{ids * (rows or MAX_ROWS):,} connections; {len(order):,} are more",
                "lower connections.count, choose fewer sizes, or use the embedded tester",
                code="too-many-for-trex",
            )
        spread = min(number, ids)
        stamped = {at * number // spread: first_id + at for at in range(spread)}
        self._distance = number_distance(len(packet_of(stream)))
        self._order = order
        blocks = []
        for at in range(number):
            connections = order[at::number]
            name = f"{stream.name}.{at}" if number > 1 else stream.name
            named = {**stream.trex, "name": name} if "name" in stream.trex else stream.trex
            own = replace(stream, stream_id=stamped.get(at, MARK_IDS + at), trex=named)
            blocks.append(Block(own, connections, partial(source, at, number, connections)))
        self.blocks = tuple(blocks)
        self._by_id = {b.stream.stream_id: at for at, b in enumerate(blocks)}
        self.timed = sum(len(b.connections) for b in blocks if not is_marked(b.stream))

    @property
    def count(self) -> int:
        """Connections that are sent."""
        return len(self._order)

    def block(self, stream: Stream) -> Block | None:
        """Return the block that a stream is; None: it is not one of these."""
        at = self._by_id.get(stream.stream_id)
        return None if at is None else self.blocks[at]

    def source(self, block: Block) -> FrameSource:
        """Return the frames of a block as TRex sends them."""
        return CyclicSource(block.make_source(), len(block.connections), is_marked(block.stream))

    def program(self, block: Block) -> Mapping[str, Any]:
        """Return a block as the worker gives it to TRex, its lists packed."""
        stream, source = block.stream, block.make_source()
        frames = source.frames(0, len(block.connections))
        if stream.checksum is not None:  # TRex computes these
            ipv4 = [ip.start + 10 for ip in source.layout.networks[-1:] if ip.version == 4]
            for at in [stream.checksum.field, *ipv4]:
                frames[:, at : at + 2] = 0
        listing = list_frames(stream, frames, _pack_list)[0]
        if is_marked(stream):
            return with_checksum_fixes(with_mark(listing)).trex
        return with_stamps(StreamSet("forward", (listing,))).streams[0].trex

    def locate(self, block: Block, frames: U8) -> I64:
        """Find the connections of a block's frames ``(n, length)``."""
        is_stamped = not is_marked(block.stream)
        numbers = (read_stamps(frames) if is_stamped else read_marks(frames, self._distance))[-1]
        rows = ListOrder(len(block.connections), rows=block.connections)
        return rows.connections(numbers)

    def connections(self, frames: U8) -> tuple[NDArray[np.bool_], I64]:
        """Find which frames are of these blocks, and their connections.

        Only where one block at most is stamped: TRex numbers stamped streams as it likes.
        """
        is_own, stream, number = read_marks(frames, self._distance)
        at = np.where(is_own, stream - MARK_IDS, 0)
        is_own &= at < len(self.blocks)
        stamped = [b for b in self.blocks if not is_marked(b.stream)]
        if stamped and frames.shape[1] >= trailer.LENGTH:
            (block,) = stamped
            has_trailer, stamp = read_stamps(frames)
            is_stamped = has_trailer & (trailer.read(frames).stream_id < MARK_IDS)
            is_own = is_own | is_stamped
            at = np.where(is_stamped, self._by_id[block.stream.stream_id], at)
            number = np.where(is_stamped, stamp, number)
        place = at + len(self.blocks) * number
        is_own = is_own & (place < len(self._order))
        return is_own, self._order[np.where(is_own, place, 0)].astype(np.int64)


def _pack_list(frames: U8, at: int, size: int) -> ins.Instruction:
    """Make a list as the worker unpacks it: octets of the network's order, in base64."""
    values = base64.b64encode(frames[:, at : at + size].tobytes()).decode()
    return {**ins.list_var(f"at{at}", size, ()), "value_list": None, "packed": values}


class StreamOracle(OracleDecorator):
    """The oracle of one stream, whose frames tell their connections in their own way.

    Args:
        oracle: of the technology, around ``connections``.
        connections: the part of it that locates connections.
        locate: finds the connections of frames; None: they belong to none.
    """

    def __init__(
        self, oracle: Oracle, connections: ConnectionOracle, locate: Callable[[U8], I64] | None
    ) -> None:
        super().__init__(oracle)
        self._connections = connections
        self._locate = locate

    def expect(self, direction: Direction, frames: U8) -> Expected:
        locate = self._locate
        self._connections.locate = lambda _, rows: None if locate is None else locate(rows)
        return self.oracle.expect(direction, frames)


class LearnedConnections:
    """One table of connections at a time, and the streams that send them.

    Args:
        recordings: of phases.
    """

    def __init__(self, recordings: Recordings) -> None:
        self._recordings = recordings
        self._streams: Mapping[Direction, StreamSet] = {}
        self._outer: Oracle | None = None
        self._inner: ConnectionOracle | None = None
        self._version = 4
        self._file: MemoryFile | None = None
        self._table: StateTable | None = None
        self._recorded = self._distinct = 0
        self._blocks: dict[Direction, tuple[ConnectionBlocks, ...]] = {}
        self._sets: dict[tuple[Any, ...], tuple[StreamSet, tuple[ConnectionBlocks, ...]]] = {}

    def load(
        self, streams: Mapping[Direction, StreamSet], oracle: Oracle, *, loopback: bool
    ) -> None:
        """Take the streams of both directions and the oracle of their frames."""
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
        """Make a fresh table."""
        check_connections(connections.count, frozenset())
        self.close()
        count = connections.count
        self._file = MemoryFile(count * ROW[self._version])
        self._table = StateTable(self._file.path, count, self._version)
        if self._inner is not None:
            self._inner.bind(TableAt(self._file.path, count, self._version, Order(count)))

    def request_recording(self, port: int, streams: StreamSet, nonce: int) -> dict[str, Any]:
        """Return what the worker needs to record the frames of a phase on a port."""
        name, length = PHASE_NAMES[streams.direction], longest_packet(streams)
        return {str(port): self._recordings.request(name, self._rows.count, length, nonce)}

    def learn(self) -> None:
        """Read the recording of phase 1 and remember its four-tuples.

        Raises:
            EnvironmentLacking: it is on another host.
        """
        table = self._rows

        def read_numbers(frames: U8) -> tuple[NDArray[np.bool_], I64]:
            has_trailer, numbers = read_stamps(frames)
            return has_trailer & (numbers >= 0) & (numbers < table.count), numbers

        def learn(numbers: I64, frames: U8) -> None:
            where = locate_endpoints(np.asarray(frames[0])).row
            table.learn(numbers, frames[:, where])

        self._read("forward", read_numbers, learn)

    def count_phase_one(
        self, connections: Connections, result: TrialResult, began_s: float
    ) -> PhaseCounts:
        """Return the counts of phase 1."""
        table = self._rows
        stream = foreground(self._streams["forward"])
        return replace(
            self._count(result, began_s, "forward"),
            inside_endpoints=count_inside_endpoints(stream, connections.count),
            **describe_repeated(table),
        )

    def read_validation(self) -> None:
        """Read which connections are in the recording of the validation."""
        (blocks,) = self._blocks["reverse"]
        self._read("reverse", blocks.connections)

    def count_validation(self, result: TrialResult, began_s: float) -> PhaseCounts:
        """Return the counts of the validation."""
        return self._count(result, began_s, "reverse")

    def make_validation(self, streams: StreamSet, rate_fps: float) -> tuple[StreamSet, list[Burst]]:
        """Send every learned connection once, from outside.

        One block is stamped, which proves how long sending took; marks say which connection the
        frames of the others belong to.
        """
        stream_set = self._list(streams, "linear", None, alone=True)
        count, (blocks,) = self._rows.count, self._blocks["reverse"]
        bursts = []
        for at, (stream, block) in enumerate(zip(stream_set.streams, blocks.blocks, strict=True)):
            frames = len(block.connections)
            group = None if is_marked(stream) else stream.stream_id
            share = rate_fps * frames / count
            bursts.append(Burst(at, share, frames, 1e6 * at / rate_fps, group))
        return stream_set, bursts

    def make_phase_two(
        self, streams: StreamSet, trial: Trial, connections: Connections
    ) -> StreamSet:
        """Return what a direction sends in phase 2.

        The Initiator goes through its own four-tuples as it did in phase 1; the Responder through
        its table. A table read pseudorandomly is shuffled: every connection comes once per pass.
        """
        if streams.direction == "reverse":
            return self._list(streams, connections.reading, connections.entries)
        count = self._rows.count
        if trial.frames <= count or compute_period(foreground(streams)) == count:
            self._blocks.pop("forward", None)
            return streams
        return self._list(streams, "linear", None)

    def timed_share(self, direction: Direction) -> float | None:
        """Return the share of connections whose frames carry TRex's stamp; None: all of them do."""
        blocks = self._blocks.get(direction, ())
        timed, count = sum(one.timed for one in blocks), sum(one.count for one in blocks)
        return None if timed == count else timed / count

    def program(self, direction: Direction, stream: Stream) -> Mapping[str, Any]:
        """Return a stream as the worker gives it to TRex."""
        blocks, block = self._find_block(direction, stream)
        return stream.trex if blocks is None or block is None else blocks.program(block)

    def source(self, direction: Direction, stream: Stream) -> FrameSource | None:
        """Return the frames of a stream that are not those of its program; None: they are."""
        blocks, block = self._find_block(direction, stream)
        return None if blocks is None or block is None else blocks.source(block)

    def oracle(self, direction: Direction, stream: Stream) -> Oracle | None:
        """Return the oracle of a stream; None: that of all streams."""
        if self._outer is None or self._inner is None or self._table is None:
            return None
        locate: Callable[[U8], I64] | None = None
        blocks, block = self._find_block(direction, stream)
        if blocks is not None and block is not None:
            locate = partial(blocks.locate, block)
        elif direction not in self._blocks and any(
            stream.stream_id == own.stream_id for own in foregrounds(self._streams[direction])
        ):
            count = self._rows.count

            def locate(frames: U8) -> I64:
                return read_stamps(frames)[1] % count

        return StreamOracle(self._outer, self._inner, locate)

    def close(self) -> None:
        """Forget the table. May be called twice."""
        self._table = None
        self._blocks.clear()
        self._sets.clear()
        if self._file is not None:
            self._file.close()
            self._file = None

    # ------------------------------------------------------------------ inside

    @property
    def _rows(self) -> StateTable:
        if self._table is None:
            raise TesterError("no connections have been established yet", code="not-learned")
        return self._table

    def _find_block(
        self, direction: Direction, stream: Stream
    ) -> tuple[ConnectionBlocks | None, Block | None]:
        for blocks in self._blocks.get(direction, ()):
            if (block := blocks.block(stream)) is not None:
                return blocks, block
        return None, None

    def _read(
        self,
        direction: Direction,
        read_numbers: Reader,
        learn: Callable[[I64, U8], None] | None = None,
    ) -> None:
        is_recorded = np.zeros(self._rows.count, dtype=bool)
        self._recorded = 0
        for _, frames in self._recordings.read(PHASE_NAMES[direction]):
            is_own, numbers = read_numbers(frames)
            rows = np.flatnonzero(is_own)
            if not len(rows):
                continue
            self._recorded += len(rows)
            is_recorded[numbers[rows]] = True
            if learn is not None:
                learn(numbers[rows], frames[rows])
        self._distinct = int(np.count_nonzero(is_recorded))

    def _count(self, result: TrialResult, began_s: float, direction: Direction) -> PhaseCounts:
        counted = result.directions[direction]
        ((name, count),) = counted.classes.items()
        arrived = count.received + count.surplus
        stale = self._recordings.stale.get(PHASE_NAMES[direction], 0)
        faults = [*result.faults, *describe_stale_frames(stale, direction)]
        frames = self._recorded
        if self._distinct < count.required and frames < arrived:
            faults.append(f"TRex recorded {frames} of {arrived} frames of {PHASE_NAMES[direction]}")
        else:  # a full recording lacks surplus only if it holds every connection
            frames = max(frames, arrived)
        classes = {name: replace(count, received=self._distinct, surplus=frames - self._distinct)}
        return PhaseCounts(
            replace(counted, classes=classes),
            began_s,
            began_s + counted.sending_time_s,
            faults=tuple(faults),
            started=result.started,
            health=dict(result.tester),
        )

    def _list(
        self, streams: StreamSet, reading: ReadingOrder, entries: int | None, *, alone: bool = False
    ) -> StreamSet:
        key = (streams.direction, reading, entries, alone)
        if key not in self._sets:
            count = self._rows.count
            used = count if entries is None else min(entries, count)
            order = np.arange(1 if reading == "fixed" else used, dtype=np.int32)
            if reading == "pseudorandom":
                np.random.default_rng(_ORDER_SEED).shuffle(order)
            self._sets[key] = self._make_blocks(streams, order, alone)
        stream_set, self._blocks[streams.direction] = self._sets[key]
        return stream_set

    def _make_blocks(
        self, streams: StreamSet, order: NDArray[np.int32], alone: bool
    ) -> tuple[StreamSet, tuple[ConnectionBlocks, ...]]:
        table = self._rows
        own = foregrounds(streams)[:1] if alone else foregrounds(streams)
        others = () if alone else tuple(s for s in streams.streams if s not in own)

        def make_source(
            stream: Stream, at: int, blocks: int, connections: NDArray[np.integer]
        ) -> FrameSource:
            if streams.direction == "forward":  # in the order of the program
                return Expander(stream, at, blocks)
            return Replay(stream, table, ListOrder(len(connections), rows=connections))

        first = min(s.stream_id for s in streams.streams)
        ids = 1 if alone else (IDS_PER_DIRECTION - len(others)) // len(own)
        listed = tuple(
            ConnectionBlocks(
                stream,
                order,
                partial(make_source, stream),
                first + len(others) + number * ids,
                ids,
                marks=len(own) == 1,
            )
            for number, stream in enumerate(own)
        )
        further = tuple(
            replace(s, weight=s.weight * len(listed[0].blocks), stream_id=first + number)
            for number, s in enumerate(others)
        )
        blocks = tuple(b.stream for one in listed for b in one.blocks)
        return StreamSet(streams.direction, (*blocks, *further)), listed
