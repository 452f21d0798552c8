"""What client and server of TCP share: their port, their segments, and the account of all connections."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from v6t.drivers.embedded.played import Played
from v6t.drivers.oracle.state_table import MemoryFile
from v6t.profiles.tcp.http import build_response, split_into_segments
from v6t.profiles.tcp.segments import (
    NUMBER_BITS,
    TcpLayout,
    compute_client_isn,
    compute_server_isn,
    decode_client_isn,
    decode_server_isn,
)
from v6t.trials.tcp import TcpCounts

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.packets.arrays import U8
    from v6t.trials.tcp import Tcp

    Connections = NDArray[np.int64]


SENT, OPEN, ASKED, ANSWERED, ENDING, ENDED, REFUSED, UNREACHABLE = (1 << n for n in range(8))
"""What a side knows of a connection: it sent the SYN, it is open, an object was asked for, and came; the
end was begun, and is complete; a reset, or an ICMP error, came in place of an answer."""
RESET = 1 << 8
"""It was reset after it was open."""
STANDING = 1 << 9
"""It was open on both sides, in time, when the waiting for that ended: what comes later changes nothing."""
DECIDED = OPEN | REFUSED | UNREACHABLE
_OCTETS = 2 * 2 + 2 * 8


@dataclass(frozen=True)
class Account:
    """Four arrays, each written by one side only.

    Attributes:
        client, server: ``(n,)`` what each side knows.
        begun, opened: when the first SYN left, and when the last acknowledgement of the opening came [ns].
    """

    client: NDArray[np.uint16]
    server: NDArray[np.uint16]
    begun: NDArray[np.int64]
    opened: NDArray[np.int64]

    @staticmethod
    def file(count: int) -> MemoryFile:
        """Memory for so many connections."""
        return MemoryFile(count * _OCTETS)

    @classmethod
    def at(cls, path: str, count: int) -> Account:
        """Map the arrays in a file."""
        found: list[Any] = []
        first = 0
        for kind in ("<i8", "<i8", "<u2", "<u2"):
            found.append(np.memmap(path, kind, "r+", offset=first, shape=(count,)))
            first += count * np.dtype(kind).itemsize
        begun, opened, client, server = found
        return cls(client, server, begun, opened)

    def close_opening(self, waited_s: float) -> None:
        """End the opening, on the client's side.

        Args:
            waited_s: longest time from the first SYN to the last acknowledgement of the opening.
        """
        both = (self.client & self.server & OPEN) != 0
        both &= self.opened - self.begun <= 1e9 * waited_s
        self.client[both] |= STANDING

    def established(self) -> NDArray[np.bool_]:
        """Select connections that were open on both sides at the end of the opening."""
        found: NDArray[np.bool_] = (self.client & STANDING) != 0
        return found

    def counted(self, *, retransmitted: int, wrong: int) -> TcpCounts:
        """Count all connections; the arguments are what no connection shows."""
        attempted = (self.client & SENT) != 0
        here, both = (self.client & OPEN) != 0, self.established()
        refused = ~here & ((self.client & REFUSED) != 0)
        unreachable = ~here & ~refused & ((self.client & UNREACHABLE) != 0)
        ended = ((self.client & ENDING) != 0) & ((self.server & ENDED) != 0)
        taken_s = (self.opened[both] - self.begun[both]) / 1e9
        some = len(taken_s) > 0
        count = np.count_nonzero
        silent = attempted & ~here & ~refused & ~unreachable
        return TcpCounts(
            attempted=int(count(attempted)),
            established=int(count(both)),
            half_open=int(count(here & ~both)),
            reset_refused=int(count(refused)),
            icmp_refused=int(count(unreachable)),
            timed_out=int(count(silent)),
            retransmitted=retransmitted,
            reset_later=int(count((self.client & RESET) != 0)),
            wrong=wrong,
            requested=int(count((self.client & ASKED) != 0)),
            answered=int(count((self.client & ANSWERED) != 0)),
            closed=int(count(both & ended)),
            fastest_s=float(taken_s.min()) if some else None,
            slowest_s=float(taken_s.max()) if some else None,
            mean_s=float(taken_s.mean()) if some else None,
            sum_s=float(taken_s.sum()) if some else None,
        )


UNKNOWN, TUPLE, CHECKSUM, NUMBERS, CONTENT = (
    "of no connection",
    "other addresses or ports than before",
    "wrong checksum",
    "sequence numbers of no such connection",
    "other content than was sent",
)
"""What can be wrong with a segment."""
_MASK = (1 << NUMBER_BITS) - 1
_TURN = 0x85EBCA6B
"""Between the sequence numbers of one trial and those of the next, times the nonce."""
_MARKS = 1 << 32 - NUMBER_BITS


class TcpEnd(Played):
    """One end of all connections."""

    _layout: TcpLayout | None = None
    _account: Account
    _count = 0

    def _is_own_segment(self, frames: U8) -> NDArray[np.bool_]:
        if self._layout is None or not self._count:
            return np.zeros(len(frames), bool)
        return self._layout.is_ours(frames)

    @property
    def _segments(self) -> TcpLayout:
        if self._layout is None:
            raise ValueError("nothing is loaded")
        return self._layout

    def _begin_trial(self, path: str, count: int, nonce: int, tcp: Tcp) -> None:
        """Begin a trial.

        Args:
            path: of the account.
            count: connections.
            nonce: of the trial, in every timestamp and every sequence number.
            tcp: how they are made.
        """
        self._begin()
        self._account = Account.at(path, count)
        self._count = count
        self._turn = np.uint32(nonce * _TURN & 0xFFFFFFFF)
        self._mark = np.uint32(nonce % _MARKS << NUMBER_BITS)
        self._answer = build_response(tcp.object_octets)
        self._parts = split_into_segments(self._answer)
        self._ends: U8 = np.zeros((count, self._segments.width), np.uint8)
        self._wrong: Counter[str] = Counter()

    def _stamps(self, which: Connections) -> NDArray[np.uint32]:
        found: NDArray[np.uint32] = which.astype(np.uint32) | self._mark
        return found

    def _client_number(self, which: Connections) -> NDArray[np.uint32]:
        found: NDArray[np.uint32] = compute_client_isn(which) + self._turn
        return found

    def _server_number(self, which: Connections) -> NDArray[np.uint32]:
        found: NDArray[np.uint32] = compute_server_isn(which) + self._turn
        return found

    def _client_of(self, first: NDArray[np.uint32]) -> Connections:
        return decode_client_isn(first - self._turn).astype(np.int64)

    def _server_of(self, first: NDArray[np.uint32]) -> Connections:
        return decode_server_isn(first - self._turn).astype(np.int64)

    def _which(self, stamps: NDArray[np.uint32]) -> tuple[Connections, NDArray[np.bool_]]:
        found = (stamps & np.uint32(_MASK)).astype(np.int64)
        known = (stamps & ~np.uint32(_MASK)) == self._mark
        return found, known & (found < self._count)

    def _blame(self, reason: str, rows: NDArray[np.bool_]) -> None:
        count = int(np.count_nonzero(rows))
        if count:
            self._wrong[reason] += count

    def _emit(
        self,
        which: Connections,
        flags: int,
        numbers: NDArray[np.uint32],
        acknowledged: NDArray[np.uint32] | int,
        echo: NDArray[np.uint32] | int,
        data: bytes = b"",
    ) -> NDArray[np.int64]:
        """Send a segment in each connection.

        Returns:
            ``(n,)`` when each left [ns, CLOCK_REALTIME]: the kernel tells of a batch only when it has taken
            it, so its frames are spread evenly over that time.
        """
        layout = self._segments
        length = layout.frame_octets(flags, len(data))
        content = np.frombuffer(data, np.uint8) if data else None
        stamps = self._stamps(which)
        left = np.empty(len(which), np.int64)
        done = 0
        while done < len(which):
            room = self._tx.room(len(which) - done)
            part = slice(done, done + len(room))
            layout.write(
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
        return {"wrong": dict(self._wrong), **self._health()}


def first_of_each(which: Connections, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Of the chosen rows the first one of each connection."""
    found = np.zeros(len(which), bool)
    places = np.flatnonzero(rows)
    found[places[np.unique(which[places], return_index=True)[1]]] = True
    return found
