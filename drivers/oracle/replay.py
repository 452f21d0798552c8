"""Sources of frames for phase 2: the Initiator's connections again, the Responder's table."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from v6t.drivers.oracle.state_table import StateTable
from v6t.packets.arrays import I64, U8, U32
from v6t.packets.walker import FrameLayout, locate_endpoints
from v6t.profiles.streams import Checksum, Stream
from v6t.trials.connections import ReadingOrder


class FrameSource(Protocol):
    """Source of the frames of one stream by number."""

    length: int
    layout: FrameLayout
    checksum: Checksum | None

    def compute_frames(self, first: int, count: int, out: U8 | None = None) -> U8:
        """See :meth:`v6t.profiles.expand.Expander.compute_frames`."""


MAX_GAP_FRAMES = 128  # Largest gap between wanted frames that are made in one run
MAX_RUN_FRAMES = 64  # Wanted frames of one run, which bounds the memory


def make_frames(source: FrameSource, numbers: NDArray[np.integer]) -> U8:
    """Return frames ``(n, length)`` of a source by their numbers ``(n,)``, in any order."""
    wanted, places = np.unique(numbers.astype(np.int64), return_inverse=True)
    out = np.empty((len(wanted), source.length), dtype=np.uint8)
    begins = np.flatnonzero(np.diff(wanted, prepend=-MAX_GAP_FRAMES - 1) > MAX_GAP_FRAMES)
    for begin, end in zip(begins, np.append(begins, len(wanted))[1:], strict=True):
        for first in range(begin, end, MAX_RUN_FRAMES):
            run = wanted[first : min(first + MAX_RUN_FRAMES, end)]
            low, high = int(run[0]), int(run[-1])
            out[first : first + len(run)] = source.compute_frames(low, high - low + 1)[run - low]
    return out[places.reshape(-1)]


@dataclass(frozen=True)
class ConnectionOrder:
    """Order in which the frames of a direction go through connections."""

    count: int
    reading: ReadingOrder = "linear"
    seed: int = 1

    def find_connections(self, numbers: NDArray[np.integer]) -> I64:
        """Return the connections ``(n,)`` of the frames with these numbers ``(n,)``."""
        if self.reading == "fixed":
            return np.zeros(len(numbers), dtype=np.int64)
        if self.reading == "linear":
            return numbers.astype(np.int64) % self.count
        start = self.seed * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
        mixed = numbers.astype(np.uint64) + np.uint64(start)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        mixed ^= mixed >> np.uint64(31)
        return (mixed % np.uint64(self.count)).astype(np.int64)


class Cycle:
    """Source that repeats the first ``count`` frames of another source."""

    def __init__(self, source: FrameSource, count: int) -> None:
        self._source, self._count = source, count
        self.length, self.layout, self.checksum = source.length, source.layout, source.checksum

    def compute_frames(self, first: int, count: int, out: U8 | None = None) -> U8:
        out = np.empty((count, self.length), dtype=np.uint8) if out is None else out
        done = 0
        while done < count:
            at = (first + done) % self._count
            size = min(count - done, self._count - at)
            self._source.compute_frames(at, size, out[done : done + size])
            done += size
        return out


class Replay:
    """Source of the Responder's frames: a template with addresses and ports of connections.

    ``find_connections`` returns the connections ``(n,)`` of frame numbers ``(n,)``.
    """

    def __init__(
        self,
        stream: Stream,
        table: StateTable,
        find_connections: Callable[[NDArray[np.integer]], I64],
    ) -> None:
        packet = stream.packet
        self._template = np.frombuffer(packet, dtype=np.uint8)
        self._table, self._find_connections = table, find_connections
        self.length = len(packet)
        self.layout = locate_endpoints(packet)
        self.checksum = stream.checksum
        own = _convert_to_words(self._template[self.layout.row][None, :])[0]
        self._sums: list[tuple[int, slice, np.uint32]] = []
        for at, covered in self.layout.row_checksums:
            value = int.from_bytes(packet[at : at + 2], "big")
            if value or stream.checksum is not None:  # UDP may go without
                # what remains without the template's own ends (RFC 1624 equation 3)
                rest = ~np.uint32(value) & 0xFFFF
                rest += (~own[covered] & np.uint32(0xFFFF)).sum(dtype=np.uint32)
                self._sums.append((at, covered, np.uint32(rest)))

    def compute_frames(self, first: int, count: int, out: U8 | None = None) -> U8:
        out = np.empty((count, self.length), dtype=np.uint8) if out is None else out
        which = self._find_connections(np.arange(first, first + count, dtype=np.int64))
        rows = self._table.rows[which]
        out[:] = self._template
        # the learned source is where it is sent to
        out[:, self.layout.row] = rows[:, self.layout.swapped_row]
        words = _convert_to_words(rows)
        for at, covered, rest in self._sums:
            sums = words[:, covered].sum(axis=1, dtype=np.uint32)
            self.layout.write_sum(out, at, sums + rest)
        return out


def _convert_to_words(rows: U8) -> U32:
    """Return rows of octets as 16-bit words."""
    return np.ascontiguousarray(rows).view(">u2").astype(np.uint32)
