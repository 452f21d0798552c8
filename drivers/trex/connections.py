"""Connections on TRex: phase 1 recorded in a file and learned, phase 2 replayed from lists.

TRex sends programs, not tables, and its lists end at 65,535 values. So connections are dealt out
to blocks: those at places k, k + B, k + 2B ... of an order are block k of B, and blocks that send in
turn send the order. Of a block only its frame and its connections are kept; its lists are made when
TRex is given them and forgotten, so that a table costs its rows and no more.

Blocks that TRex's identifiers reach are stamped, evenly spread over all; the others carry marks
(:mod:`v6t.drivers.trex.streams`). Stamped blocks are those whose frames are timed.
"""

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from v6t.base.errors import TesterError, UsageError
from v6t.drivers import tester
from v6t.drivers.oracle import connection_oracle
from v6t.drivers.oracle.connection_oracle import ConnectionOracle, ConnectionTable, find_foreground
from v6t.drivers.oracle.replay import Cycle, FrameSource, Replay
from v6t.drivers.oracle.state_table import StateTable, count_inside_endpoints, describe_duplicates
from v6t.drivers.tester import PHASE_NAMES, Oracle, PhaseCounts
from v6t.drivers.trex import streams as trex_streams
from v6t.drivers.trex.bursts import IDS_PER_DIRECTION, OfferedLoad
from v6t.drivers.trex.capture import CaptureReader, Recordings
from v6t.drivers.trex.streams import MARK_IDS, is_marked, read_numbers
from v6t.packets.arrays import I64, U8
from v6t.packets.direction import Direction
from v6t.packets.reference import Expected
from v6t.packets.walker import locate_endpoints
from v6t.profiles.compiler import instructions as ins
from v6t.profiles.expand import Expander
from v6t.profiles.model import Role
from v6t.profiles.rows import list_frames
from v6t.profiles.streams import Stream, StreamSet, compute_period
from v6t.trials.connections import Connections, ReadingOrder
from v6t.trials.result import TrialResult
from v6t.trials.trial import Capability, Trial

MAX_ROWS = 32_768  # Connections of a block, whose lists must fit into one request
MAX_CONNECTIONS = 1 << 24  # Limited by the memory that TRex's server takes for lists
STAMPED_CONNECTIONS = IDS_PER_DIRECTION * MAX_ROWS
WARNED_CONNECTIONS = 1_000_000  # From this number on a plan warns of memory and disk space
SERVER_OCTETS, OWN_OCTETS, RECORDED_OCTETS = 120, 150, 180
"""Octets per connection, measured with nat44 and frames of 84 octets: memory of TRex's server, memory
of v6t with its worker, and disk space of the recording on TRex's host."""
_ORDER_SEED = 1  # Of the pseudorandom order of connections


def check_connections(most: int, needs: frozenset[Capability]) -> None:
    """Refuse a number of connections that TRex cannot keep, or that lacks capabilities it needs."""
    if needs & {"two-rates", "flow-starts"}:
        problem = "TRex sends connections at one rate, and all of them from the first frame on"
        hint = "leave out system-recovery, set flows.starts to [together], or use --tester embedded"
        raise UsageError(problem, hint, code="unsupported-by-tester")
    for is_needed, limit, reason, hint in (
        (True, MAX_CONNECTIONS,
         "TRex sends learned connections from lists, of which v6t gives its server at most {} rows",
         "lower connections.count (connections.capacity.most of a capacity search), or use the "
         "embedded tester, whose table takes 12 octets a connection"),
        ("frame-timeout" in needs, STAMPED_CONNECTIONS,
         "a timeout for every frame needs TRex's stamp in every frame, and its 128 identifiers stamp "
         "{} connections", "lower connections.count, or leave the timeout out"),
        ("ipdv" in needs, MAX_ROWS,
         "IPDV needs neighboring frames in one of TRex's lists, which hold {} connections",
         "lower connections.count, or measure PDV"),
    ):  # fmt: skip
        if is_needed and most > limit:
            text = f"{reason.format(f'{limit:,}')}; {most:,} connections are more"
            raise UsageError(text, hint, code="too-many-for-trex")


def describe_costs(most: int, needs: frozenset[Capability]) -> Iterator[str]:
    """Yield warnings about timed connections, memory and disk space before a run."""
    if most > STAMPED_CONNECTIONS and needs & {"tags", "every-frame"}:
        yield (
            f"delays are those of about {STAMPED_CONNECTIONS:,} of {most:,} connections, evenly "
            "spread: as many as TRex's 128 identifiers stamp"
        )
    if most >= WARNED_CONNECTIONS:
        each = (SERVER_OCTETS, OWN_OCTETS, RECORDED_OCTETS)
        server, own, disk = (f"{most * octets / 2**30:.1f} GiB" for octets in each)
        yield (
            f"{most:,} connections on TRex take about {server} of its server's memory, {own} of "
            f"v6t's and {disk} of disk on the server's host"
        )


def cycle_through(connections: NDArray[np.integer], numbers: NDArray[np.integer]) -> I64:
    """Return the connections of frame numbers ``(n,)``, where frames repeat a list of connections."""
    return connections[numbers % len(connections)].astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class Block(trex_streams.SentStream):
    """Stream of a block of connections, whose lists of values are made when it is rendered."""

    connections: NDArray[np.integer] = field(compare=False)

    @property
    def is_timed(self) -> bool:
        """Whether the frames carry TRex's stamp."""
        return not is_marked(self)

    def source(self) -> FrameSource:
        make_cycle = Cycle if self.is_timed else trex_streams.MarkedCycle
        return make_cycle(self.make_source(), len(self.connections))

    def render(self) -> Stream:
        """Return the stream with its lists of values, packed for the worker."""
        source = self.make_source()
        frames = source.compute_frames(0, len(self.connections))
        if self.checksum is not None:  # TRex computes these
            ipv4 = [ip.start + 10 for ip in source.layout.networks[-1:] if ip.version == 4]
            for at in [self.checksum.field, *ipv4]:
                frames[:, at : at + 2] = 0
        listing = list_frames(self, frames, _pack_list)[0]
        if self.is_timed:
            return trex_streams.with_stamp(listing)
        return trex_streams.with_checksum_fixes(trex_streams.with_mark(listing))

    def locate(self, frames: U8) -> I64:
        """Return the connections of received frames of this block."""
        distance = trex_streams.find_number_distance(self)
        return cycle_through(self.connections, read_numbers(frames, distance))


def make_blocks(
    stream: Stream,
    order: NDArray[np.integer],
    make_source: Callable[[int, int, NDArray[np.integer]], FrameSource],
    first_id: int,
    ids: int,
    *,
    marks: bool = True,
) -> tuple[Block, ...]:
    """Distribute the connections of a foreground stream over blocks, in an order.

    Args:
        order: connections in the order in which frames use them.
        make_source: returns the frames of block k of B, given k, B and the block's connections.
        first_id, ids: first identifier of stamped blocks, and number of identifiers.
        marks: whether blocks without an identifier may be marked.
    """
    if (number := max(1, -(-len(order) // MAX_ROWS))) > ids and not marks:
        problem = f"of mixed sizes TRex stamps {ids * MAX_ROWS:,} connections, not {len(order):,}"
        hint = "lower connections.count, choose fewer sizes, or use the embedded tester"
        raise UsageError(problem, hint, code="too-many-for-trex")
    spread = min(number, ids)
    stamped = {at * number // spread: first_id + at for at in range(spread)}
    blocks = []
    for at in range(number):
        connections = order[at::number]
        name = f"{stream.name}.{at}" if number > 1 else stream.name
        named = {**stream.trex, "name": name} if "name" in stream.trex else stream.trex
        own = replace(stream, stream_id=stamped.get(at, MARK_IDS + at), trex=named)
        source = partial(make_source, at, number, connections)
        blocks.append(Block(**vars(own), connections=connections, make_source=source))
    return tuple(blocks)


def find_connections(blocks: Sequence[Block], number: int) -> NDArray[np.integer]:
    """Return the connections of frames with a stream number, in the order of the frames.

    At most one block may be stamped, because TRex chooses the numbers of stamped streams.
    """
    timed = [block for block in blocks if block.is_timed]
    own = timed if number < MARK_IDS else blocks[number - MARK_IDS :]
    return own[0].connections if own else np.empty(0, np.int64)


def _pack_list(frames: U8, at: int, size: int) -> ins.Instruction:
    """Make the instruction of a list, packed in network byte order and base64 for the worker."""
    values = base64.b64encode(frames[:, at : at + size].tobytes()).decode()
    return {**ins.declare_list(f"at{at}", size, ()), "value_list": None, "packed": values}


class StreamOracle(tester.OracleDecorator):
    """Oracle of one stream; ``locate`` returns its frames' connections, or None without any."""

    def __init__(
        self, oracle: Oracle, connections: ConnectionOracle, locate: Callable[[U8], I64 | None]
    ) -> None:
        super().__init__(oracle)
        self._connections = connections
        self._locate = locate

    def expect(self, direction: Direction, frames: U8) -> Expected:
        self._connections.locate = self._locate
        return self.oracle.expect(direction, frames)


class LearnedConnections:
    """Table of learned connections, and the streams that send them."""

    def __init__(self, recordings: Recordings) -> None:
        self._recordings = recordings
        self._streams: Mapping[Direction, StreamSet] = {}
        self._oracle: Oracle | None = None
        self._memory = ConnectionTable()
        self._table: StateTable | None = None
        self._recorded = self._distinct = 0
        self._sets: dict[tuple[Any, ...], StreamSet] = {}

    def load(
        self, streams: Mapping[Direction, StreamSet], oracle: Oracle, *, loopback: bool
    ) -> None:
        self.close()
        self._streams = streams
        self._oracle = None if loopback else oracle
        self._memory.load(streams, oracle, loopback=loopback)

    def make_table(self, connections: Connections) -> None:
        """Make an empty table for phase 1."""
        self.close()
        at = self._memory.make(connections.count)
        self._table = at.map()
        if self._memory.oracles is not None:
            self._memory.oracles[1].bind(at)

    def request_recording(self, load: OfferedLoad) -> dict[str, Any]:
        """Return the request to record the frames of a phase."""
        return self._recordings.request(PHASE_NAMES[load.direction], load, self._rows.count)

    def read_phase(self, load: OfferedLoad) -> None:
        """Read the recording of a phase; learn the four-tuples of phase 1."""
        table, blocks, learns = self._rows, list_blocks(load.streams), load.direction == "forward"
        in_order = np.arange(table.count, dtype=np.int32)
        is_recorded = np.zeros(table.count, dtype=bool)
        self._recorded = 0
        for batch in self._recordings.read(PHASE_NAMES[load.direction]):
            reader = CaptureReader([batch], load.mark_distance, keep=None if learns else 0)
            for number, (frames,) in reader.samples.items():
                connections = in_order if learns else find_connections(blocks, number)
                sequence = reader.select_columns([number]).sequence
                rows = np.flatnonzero(sequence < len(connections))
                self._recorded += len(rows)
                is_recorded[connections[sequence[rows]]] = True
                if learns and len(rows):
                    where = locate_endpoints(frames[rows[0]]).row
                    table.learn(sequence[rows], frames[rows][:, where])
        self._distinct = int(np.count_nonzero(is_recorded))

    def count_phase(self, direction: Direction, result: TrialResult, began_s: float) -> PhaseCounts:
        """Return the counts of a phase from its recording."""
        counted = result.directions[direction]
        ((name, count),) = counted.classes.items()
        arrived = count.received + count.surplus
        stale = self._recordings.stale.get(PHASE_NAMES[direction], 0)
        faults = [*result.faults, *tester.describe_stale_frames(stale, direction)]
        frames = self._recorded
        if self._distinct < count.required and frames < arrived:
            faults.append(f"TRex recorded {frames} of {arrived} frames of {PHASE_NAMES[direction]}")
        else:  # a full recording lacks surplus only if it holds every connection
            frames = max(frames, arrived)
        classes = {name: replace(count, received=self._distinct, surplus=frames - self._distinct)}
        fields: dict[str, Any] = {}
        if direction == "forward":
            first = find_foreground(self._streams["forward"])
            inside = count_inside_endpoints(first, self._rows.count)
            fields = {**describe_duplicates(self._rows), "inside_endpoints": inside}
        counted, health = replace(counted, classes=classes), dict(result.tester)
        return PhaseCounts(
            counted, began_s, faults=tuple(faults), started=result.started, health=health, **fields
        )

    def make_validation(self, streams: StreamSet) -> StreamSet:
        """Return the streams that use every learned connection once, from outside.

        One block is stamped, which gives the sending time. In the other blocks, marks identify the
        connections of frames.
        """
        return self._get_streams(streams, "linear", None, alone=True)

    def make_phase_two(
        self, streams: StreamSet, trial: Trial, connections: Connections
    ) -> StreamSet:
        """Return the streams of a direction in phase 2.

        The Initiator goes through its own four-tuples as it did in phase 1; the Responder through
        its table. A table read pseudorandomly is shuffled: every connection comes once per pass.
        """
        if streams.direction == "reverse":
            return self._get_streams(streams, connections.reading, connections.entries)
        count = self._rows.count
        if trial.frames <= count or compute_period(find_foreground(streams)) == count:
            return streams
        return self._get_streams(streams, "linear", None)

    def find_oracle(self, stream: Stream) -> Oracle | None:
        """Return the oracle of a stream's frames, or None in loopback."""
        table, oracles = self._table, self._memory.oracles
        if oracles is None or table is None:
            return self._oracle
        if isinstance(stream, Block):
            return StreamOracle(*oracles, stream.locate)
        if stream.role is Role.FOREGROUND:
            return StreamOracle(*oracles, lambda frames: read_numbers(frames) % table.count)
        return StreamOracle(*oracles, lambda _: None)

    def close(self) -> None:
        self._table = None
        self._sets.clear()
        self._memory.close()

    @property
    def _rows(self) -> StateTable:
        if self._table is None:
            raise TesterError("no connections have been established yet", code="not-learned")
        return self._table

    def _get_streams(
        self, streams: StreamSet, reading: ReadingOrder, entries: int | None, *, alone: bool = False
    ) -> StreamSet:
        """Return the streams that send connections in a reading order, from a cache if possible."""
        key = (streams.direction, reading, entries, alone)
        if key not in self._sets:
            count = self._rows.count
            used = count if entries is None else min(entries, count)
            order = np.arange(1 if reading == "fixed" else used, dtype=np.int32)
            if reading == "pseudorandom":
                np.random.default_rng(_ORDER_SEED).shuffle(order)
            self._sets[key] = self._make_blocks(streams, order, alone)
        return self._sets[key]

    def _make_blocks(self, streams: StreamSet, order: NDArray[np.int32], alone: bool) -> StreamSet:
        """Replace the foreground by blocks in an order; ``alone`` drops the other streams."""
        table = self._rows
        own = connection_oracle.list_foregrounds(streams)[: 1 if alone else None]
        others = () if alone else tuple(s for s in streams.streams if s not in own)

        def make_source(
            stream: Stream, at: int, blocks: int, connections: NDArray[np.integer]
        ) -> FrameSource:
            if streams.direction == "forward":  # in the order of the program
                return Expander(stream, at, blocks)
            return Replay(stream, table, partial(cycle_through, connections))

        first = min(s.stream_id for s in streams.streams)
        ids = 1 if alone else (IDS_PER_DIRECTION - len(others)) // len(own)
        listed: list[Stream] = []
        for number, stream in enumerate(own):
            start, source = first + len(others) + number * ids, partial(make_source, stream)
            listed += make_blocks(stream, order, source, start, ids, marks=len(own) == 1)
        blocks = len(listed) // len(own)
        numbered = enumerate(others, first)
        further = (replace(s, weight=s.weight * blocks, stream_id=n) for n, s in numbered)
        return replace(streams, streams=(*listed, *further))


def list_blocks(streams: StreamSet) -> list[Block]:
    """List the streams that send connections from lists."""
    return [stream for stream in streams.streams if isinstance(stream, Block)]


def compute_timed_share(streams: StreamSet) -> float | None:
    """Return the share of connections with stamped frames, or None if all frames are stamped."""
    blocks = list_blocks(streams)
    timed = sum(len(b.connections) for b in blocks if b.is_timed)
    count = sum(len(b.connections) for b in blocks)
    return None if timed == count else timed / count
