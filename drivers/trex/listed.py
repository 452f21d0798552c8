"""Connections as TRex sends them in phase 2: blocks of listed rows, made one at a time.

TRex sends programs, not tables, and its lists end at 65,535 values. So connections are dealt out
to blocks: those at places k, k + B, k + 2B ... of an order are block k of B, and blocks that send in
turn send the order. Of a block only its frame and its connections are kept; its lists are made when
TRex is given them and forgotten, so that a table costs its rows and no more.

Blocks that TRex's identifiers reach are stamped, evenly spread over all; the others carry marks
(:mod:`v6t.drivers.trex.marking`). Stamped blocks are those whose frames are timed.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from v6t.base.errors import UsageError
from v6t.drivers.oracle.replay import FrameSource, Order
from v6t.drivers.trex import marking, tables
from v6t.drivers.trex.recording import sequence
from v6t.drivers.trex.samples import FIRST_SEQUENCE
from v6t.drivers.trex.stamping import mended, stamped
from v6t.packets import trailer
from v6t.profiles.compiler import instructions as ins
from v6t.profiles.rows import list_frames
from v6t.profiles.streams import Checksum, Stream, StreamSet

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.packets.arrays import I64, U8
    from v6t.packets.walker import FrameLayout


@dataclass(frozen=True)
class Rows(Order):
    """Connections in the order of a list, again and again."""

    which: NDArray[np.integer] = field(default_factory=lambda: np.zeros(1, dtype=np.int64))

    def connections(self, numbers: NDArray[np.integer]) -> I64:
        """Connections ``(n,)`` of frames ``(n,)``."""
        connections: I64 = self.which[numbers % len(self.which)].astype(np.int64)
        return connections


class Cycling:
    """Frames of a block, again and again, as they are before the trailer is written."""

    def __init__(self, source: FrameSource, rows: int, marked: bool) -> None:
        """Of ``rows`` rows, which the source has in their order."""
        self._source, self._rows, self._marked = source, rows, marked
        self.length: int = source.length
        self.layout: FrameLayout = source.layout
        self.checksum: Checksum | None = source.checksum

    def frames(self, first: int, count: int, out: U8 | None = None) -> U8:
        """Frames ``first ..``; see :class:`~v6t.drivers.oracle.replay.FrameSource`."""
        if out is None:
            out = np.empty((count, self.length), dtype=np.uint8)
        for number in range(first, first + count):
            row = out[number - first : number - first + 1]
            self._source.frames(number % self._rows, 1, row)
            if self._marked:
                marking.put_number(row, np.array([number]), self.checksum)
        return out


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


class Listed:
    """A foreground whose frames are those of connections in an order."""

    def __init__(
        self,
        own: Stream,
        order: NDArray[np.integer],
        source: Callable[[int, int, NDArray[np.integer]], FrameSource],
        first_id: int,
        stamps: int,
        rows: int | None = None,
        *,
        marks: bool = True,
    ) -> None:
        """Deal out.

        Args:
            own: the stream whose frames they are.
            order: connections in the order in which they are sent.
            source: frames of block k of B, given k, B and the block's connections.
            first_id: identifier of the first stamped block.
            stamps: identifiers there are.
            rows: largest block; None: :data:`~v6t.drivers.trex.tables.MOST_ROWS`.
            marks: blocks that no identifier is left for may be marked.

        Raises:
            UsageError: there are more blocks than identifiers.
        """
        number = max(1, -(-len(order) // (rows or tables.MOST_ROWS)))
        if number > stamps and not marks:
            raise UsageError(
                f"in a mix of frame sizes TRex's identifiers stamp "
                f"{stamps * (rows or tables.MOST_ROWS):,} connections; {len(order):,} are more",
                "lower connections.count, choose fewer sizes, or use the embedded tester",
                code="too-many-for-trex",
            )
        spread = min(number, stamps)
        timed = {at * number // spread: first_id + at for at in range(spread)}
        self.length = len(base64.b64decode(own.trex["packet"]["binary"]))
        self.far = marking.distance(self.length)
        self._order = order
        blocks = []
        for at in range(number):
            mine = order[at::number]
            identifier = timed.get(at, marking.FIRST + at)
            name = f"{own.name}.{at}" if number > 1 else own.name
            named = {**own.trex, "name": name} if "name" in own.trex else own.trex
            light = replace(own, stream_id=identifier, trex=named)
            blocks.append(Block(light, mine, partial(source, at, number, mine)))
        self.blocks = tuple(blocks)
        self._by_id = {b.stream.stream_id: at for at, b in enumerate(self.blocks)}
        self.timed = sum(len(b.connections) for b in blocks if not marking.is_marked(b.stream))

    def block(self, stream: Stream) -> Block | None:
        """The block that a stream is; None: it is none of these."""
        at = self._by_id.get(stream.stream_id)
        return None if at is None else self.blocks[at]

    def source(self, stream: Stream) -> FrameSource | None:
        """Frames of a block as TRex sends them; None: it is none of these."""
        block = self.block(stream)
        if block is None:
            return None
        return Cycling(block.make_source(), len(block.connections), marking.is_marked(stream))

    def program(self, stream: Stream) -> Mapping[str, Any] | None:
        """A block as the worker gives it to TRex, its lists packed; None: it is none of these."""
        block = self.block(stream)
        if block is None:
            return None
        listing = _listing(block)
        if marking.is_marked(stream):
            return mended(marking.marked(listing)).trex
        return stamped(StreamSet("forward", (listing,))).streams[0].trex

    @property
    def count(self) -> int:
        """Connections that are sent."""
        return len(self._order)

    def knowing(self, stream: Stream) -> Callable[[U8], I64] | None:
        """What tells the connections of a block's frames; None: the stream is no block."""
        block = self.block(stream)
        if block is None:
            return None
        rows = Rows(len(block.connections), which=block.connections)

        def connections(frames: U8) -> I64:
            if marking.is_marked(stream):
                return rows.connections(marking.read(frames, self.far)[2])
            return rows.connections(sequence(frames, FIRST_SEQUENCE)[1])

        return connections

    def connections(self, frames: U8) -> tuple[NDArray[np.bool_], I64]:
        """Which frames are of these blocks, and their connections.

        Only where one block at most is stamped: TRex numbers stamped streams as it likes.

        Args:
            frames: ``(n, length)`` as received.
        """
        mine, stream, number = marking.read(frames, self.far)
        stamps = [b for b in self.blocks if not marking.is_marked(b.stream)]
        at = np.where(mine, stream - marking.FIRST, 0)
        mine &= at < len(self.blocks)
        if stamps and frames.shape[1] >= trailer.LENGTH:
            (one,) = stamps
            marks = trailer.read(frames)
            hit = marks.magic_ok & (marks.stream_id < marking.FIRST)
            mine = mine | hit
            at = np.where(hit, self._by_id[one.stream.stream_id], at)
            stamp = (marks.seq - np.uint32(FIRST_SEQUENCE)).astype(np.int64)
            number = np.where(hit, stamp, number)
        place = at + len(self.blocks) * number
        mine = mine & (place < len(self._order))
        return mine, self._order[np.where(mine, place, 0)].astype(np.int64)


def _listing(block: Block) -> Stream:
    """The block with its lists: of each row the octets that change, but not what TRex computes."""
    stream, source = block.stream, block.make_source()
    frames = source.frames(0, len(block.connections))
    if stream.checksum is not None:
        ipv4 = [ip.start + 10 for ip in source.layout.networks[-1:] if ip.version == 4]
        for at in [stream.checksum.field, *ipv4]:
            frames[:, at : at + 2] = 0
    return list_frames(stream, frames, _packed)[0]


def _packed(frames: U8, at: int, size: int) -> ins.Instruction:
    """A list as the worker unpacks it: its values as octets of the network's order, in base64."""
    values = base64.b64encode(frames[:, at : at + size].tobytes()).decode()
    return {**ins.list_var(f"at{at}", size, ()), "value_list": None, "packed": values}
