"""One end of TCP connections on a port of the embedded tester, and the account of all connections."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from v6t.drivers.embedded.port import ExchangePort
from v6t.drivers.oracle.state_table import MemoryFile
from v6t.profiles.tcp.http import build_response, split_into_segments
from v6t.profiles.tcp.segments import (
    NUMBER_BITS,
    SegmentFields,
    TcpLayout,
    compute_client_isns,
    compute_server_isns,
    decode_client_isns,
    decode_server_isns,
)
from v6t.trials.tcp import TcpCounts

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.packets.arrays import U8, Mask
    from v6t.trials.tcp import Tcp

    Connections = NDArray[np.int64]
    Numbers = NDArray[np.uint32]


SENT, OPEN, ASKED, ANSWERED, ENDING, ENDED, REFUSED, UNREACHABLE = (1 << n for n in range(8))
"""State of a connection at one end: the SYN was sent, it is open, an object was asked for, and came; the
end was begun, and is complete; a reset, or an ICMP error, came in place of an answer."""
RESET = 1 << 8  # State: reset after it was open
ESTABLISHED = 1 << 9  # State: open on both sides when the wait for openings ended
DECIDED = OPEN | REFUSED | UNREACHABLE

UNKNOWN, TUPLE, CHECKSUM, NUMBERS, CONTENT = (
    "of no connection",
    "other addresses or ports than before",
    "wrong checksum",
    "sequence numbers of no such connection",
    "other content than was sent",
)
"""Faults of a segment."""
_NUMBER_MASK = (1 << NUMBER_BITS) - 1
_TRIAL_STEP = 0x85EBCA6B  # Distance of sequence numbers of consecutive trials


@dataclass(frozen=True)
class Account:
    """State of all connections in arrays of a memory file, each written by one end only.

    Attributes:
        begun, opened: when the first SYN left, and when the last acknowledgement of the opening came [ns].
        client, server: ``(n,)`` state at each end.
    """

    begun: NDArray[np.int64]
    opened: NDArray[np.int64]
    client: NDArray[np.uint16]
    server: NDArray[np.uint16]

    @staticmethod
    def make_file(count: int) -> MemoryFile:
        """Make the file for a number of connections."""
        return MemoryFile(count * 20)

    @classmethod
    def at(cls, path: str, count: int) -> Account:
        """Map the account from its file."""
        kinds = (("<i8", 0), ("<i8", 8), ("<u2", 16), ("<u2", 18))
        arrays: list[Any] = [
            np.memmap(path, kind, "r+", offset=at * count, shape=(count,)) for kind, at in kinds
        ]
        return cls(*arrays)

    def close_opening(self, waited_s: float) -> None:
        """Mark the connections on the client's side that were established within a time [s]."""
        both = (self.client & self.server & OPEN) != 0
        both &= self.opened - self.begun <= 1e9 * waited_s
        self.client[both] |= ESTABLISHED

    def select_established(self) -> Mask:
        """Select connections that were open on both sides at the end of the opening."""
        standing: Mask = (self.client & ESTABLISHED) != 0
        return standing

    def count(self, *, retransmitted: int, wrong: int) -> TcpCounts:
        """Count connections by state; retransmissions and wrong segments are added."""

        def number(rows: Mask) -> int:
            return int(np.count_nonzero(rows))

        attempted, here = (self.client & SENT) != 0, (self.client & OPEN) != 0
        both = self.select_established()
        refused = ~here & ((self.client & REFUSED) != 0)
        unreachable = ~here & ~refused & ((self.client & UNREACHABLE) != 0)
        ended = ((self.client & ENDING) != 0) & ((self.server & ENDED) != 0)
        taken_s = (self.opened[both] - self.begun[both]) / 1e9
        times: dict[str, Any] = {}
        if len(taken_s):
            times = {
                "fastest_s": float(taken_s.min()),
                "slowest_s": float(taken_s.max()),
                "mean_s": float(taken_s.mean()),
                "sum_s": float(taken_s.sum()),
            }
        return TcpCounts(
            attempted=number(attempted),
            established=number(both),
            half_open=number(here & ~both),
            reset_refused=number(refused),
            icmp_refused=number(unreachable),
            timed_out=number(attempted & ~here & ~refused & ~unreachable),
            retransmitted=retransmitted,
            reset_later=number((self.client & RESET) != 0),
            wrong=wrong,
            requested=number((self.client & ASKED) != 0),
            answered=number((self.client & ANSWERED) != 0),
            closed=number(both & ended),
            **times,
        )


class TcpEnd(ExchangePort):
    """One end of all connections of a trial."""

    _layout: TcpLayout
    _account: Account
    _count = 0

    def _is_ours(self, frames: U8) -> Mask:
        return self._layout.recognizes(frames) if self._count else np.zeros(len(frames), bool)

    def _begin_trial(self, path: str, count: int, nonce: int, tcp: Tcp) -> None:
        """Begin a trial, whose nonce is in every timestamp and every sequence number."""
        self._drain_all()
        self._begin()
        self._account = Account.at(path, count)
        self._count = count
        self._turn = np.uint32(nonce * _TRIAL_STEP & 0xFFFFFFFF)
        self._mark = np.uint32(nonce << NUMBER_BITS & 0xFFFFFFFF)
        self._answer = build_response(tcp.object_octets)
        self._parts = split_into_segments(self._answer)
        self._ends: U8 = np.zeros((count, self._layout.width), np.uint8)
        self._wrong: Counter[str] = Counter()

    def _make_timestamps(self, which: Connections) -> Numbers:
        stamps: Numbers = which.astype(np.uint32) | self._mark
        return stamps

    def _compute_client_isns(self, which: Connections) -> Numbers:
        number: Numbers = compute_client_isns(which) + self._turn
        return number

    def _compute_server_isns(self, which: Connections) -> Numbers:
        number: Numbers = compute_server_isns(which) + self._turn
        return number

    def _decode_client_isns(self, first: Numbers) -> Connections:
        return decode_client_isns(first - self._turn).astype(np.int64)

    def _decode_server_isns(self, first: Numbers) -> Connections:
        return decode_server_isns(first - self._turn).astype(np.int64)

    def _decode_timestamps(self, stamps: Numbers) -> tuple[Connections, Mask]:
        """Return the connections of timestamps, and which of them exist."""
        which = (stamps & np.uint32(_NUMBER_MASK)).astype(np.int64)
        return which, ((stamps & ~np.uint32(_NUMBER_MASK)) == self._mark) & (which < self._count)

    def _check(self, reason: str, rows: Mask, right: Mask) -> Mask:
        """Return the rows that are right; count the others as wrong."""
        count = int(np.count_nonzero(rows & ~right))
        if count:
            self._wrong[reason] += count
        return rows & right

    def _select_data(
        self, read: SegmentFields, frames: U8, rows: NDArray[np.intp], octets: bytes
    ) -> NDArray[np.intp]:
        """Return the rows whose data are these octets."""
        first = int(read.data_start[rows[0]])
        content = frames[rows][:, first : first + len(octets)]
        same: Mask = (read.data_octets[rows] == len(octets)) & (read.data_start[rows] == first)
        if content.shape[1] == len(octets):
            same &= (content == np.frombuffer(octets, np.uint8)).all(axis=1)
        else:
            same[:] = False
        return rows[self._check(CONTENT, np.ones(len(rows), bool), same)]

    def _emit(
        self,
        which: Connections,
        flags: int,
        numbers: Numbers,
        acknowledged: Numbers | int,
        echo: Numbers | int,
        data: bytes = b"",
    ) -> NDArray[np.int64]:
        """Send a segment in each connection.

        Returns:
            ``(n,)`` when each left [ns, CLOCK_REALTIME]: the kernel tells of a batch only when it has taken
            it, so its frames are spread evenly over that time.
        """
        length = self._layout.count_frame_octets(flags, len(data))
        content = np.frombuffer(data, np.uint8) if data else None
        stamps = self._make_timestamps(which)
        left = np.empty(len(which), np.int64)
        done = 0
        while done < len(which):
            room = self._tx.room(len(which) - done)
            part = slice(done, done + len(room))
            self._layout.write(
                room[:, :length],
                self._ends[which[part]],
                flags,
                numbers[part],
                acknowledged if isinstance(acknowledged, int) else acknowledged[part],
                (stamps[part], echo if isinstance(echo, int) else echo[part]),
                content,
            )
            began = time.time_ns()
            self._tx.commit(len(room), length)
            took = time.time_ns() - began
            left[part] = began + took * np.arange(len(room)) // len(room)
            done += len(room)
        return left

    def _make_report(self) -> dict[str, Any]:
        """Return the faults of segments and the figures of the port."""
        return {"wrong": dict(self._wrong), **self._read_health()}


def select_first_of_each(which: Connections, rows: Mask) -> Mask:
    """Select the first of the chosen rows of each connection."""
    first = np.zeros(len(which), bool)
    places = np.flatnonzero(rows)
    first[places[np.unique(which[places], return_index=True)[1]]] = True
    return first
