"""What client and server of TCP share: their port, the segments they write, what they find wrong."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from v6t.drivers.embedded.played import Played
from v6t.drivers.embedded.tcp_account import Account
from v6t.profiles.tcp.http import build_response, split_into_segments
from v6t.profiles.tcp.segments import (
    NUMBER_BITS,
    TcpLayout,
    compute_client_isn,
    compute_server_isn,
    decode_client_isn,
    decode_server_isn,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.packets.arrays import U8
    from v6t.trials.tcp import Tcp

    Connections = NDArray[np.int64]

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

    def _mine(self, frames: U8) -> NDArray[np.bool_]:
        if self._layout is None or not self._count:
            return np.zeros(len(frames), bool)
        return self._layout.is_ours(frames)

    @property
    def _segments(self) -> TcpLayout:
        if self._layout is None:
            raise ValueError("nothing is loaded")
        return self._layout

    def _armed(self, path: str, count: int, nonce: int, tcp: Tcp) -> None:
        """A trial begins.

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
        """First sequence numbers of the clients in this trial."""
        found: NDArray[np.uint32] = compute_client_isn(which) + self._turn
        return found

    def _server_number(self, which: Connections) -> NDArray[np.uint32]:
        """Those of the servers."""
        found: NDArray[np.uint32] = compute_server_isn(which) + self._turn
        return found

    def _client_of(self, first: NDArray[np.uint32]) -> Connections:
        """Connections by the first sequence numbers of their clients, whatever their count."""
        return decode_client_isn(first - self._turn).astype(np.int64)

    def _server_of(self, first: NDArray[np.uint32]) -> Connections:
        """The same by those of their servers."""
        return decode_server_isn(first - self._turn).astype(np.int64)

    def _which(self, stamps: NDArray[np.uint32]) -> tuple[Connections, NDArray[np.bool_]]:
        """Connections by timestamps, and which of them are this trial's."""
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

    def _told(self) -> dict[str, Any]:
        return {"wrong": dict(self._wrong), **self._health()}


def first_of_each(which: Connections, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Of the chosen rows the first one of each connection."""
    found = np.zeros(len(which), bool)
    places = np.flatnonzero(rows)
    found[places[np.unique(which[places], return_index=True)[1]]] = True
    return found
