"""The server of TCP connections, a role of the embedded tester: it accepts, answers and ends them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from v6t.drivers.embedded.port import ServerPort
from v6t.drivers.embedded.tcp_end import (
    ASKED,
    CHECKSUM,
    ENDED,
    ENDING,
    NUMBERS,
    OPEN,
    SENT,
    TUPLE,
    UNKNOWN,
    TcpEnd,
    select_first_of_each,
)
from v6t.profiles.tcp.http import REQUEST, SEGMENT_OCTETS
from v6t.profiles.tcp.segments import ACK, FIN, PSH, RST, SYN, SegmentFields, TcpLayout

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.drivers.oracle.connection_oracle import TableLocation
    from v6t.packets.arrays import U8, Mask
    from v6t.trials.tcp import Tcp

    Connections = NDArray[np.int64]


class TcpServer(ServerPort, TcpEnd):
    """Worker that accepts connections to all addresses on one interface."""

    def load(self, *, frame: bytes) -> None:
        self._layout = TcpLayout(np.frombuffer(frame, np.uint8))

    def arm(self, *, path: str, table: TableLocation, nonce: int, tcp: Tcp) -> None:
        """Begin a trial; write the four-tuples behind the device into a table."""
        self._begin_trial(path, table.count, nonce, tcp)
        self._table = table.map()

    def report(self) -> dict[str, Any]:
        self._drain_all()
        return self._make_report()

    def _handle_frames(self, frames: U8, times: NDArray[np.int64]) -> None:
        read = self._layout.read(frames)
        which, known = self._decode_timestamps(read.timestamp)
        known = self._check(UNKNOWN, np.ones(len(known), bool), known & read.has_timestamp)
        which = np.where(known, which, 0)
        known = self._check(CHECKSUM, known, read.is_valid)
        known = self._accept(read, frames, which, known)
        ends = self._layout.read_reversed_endpoints(frames)
        known = self._check(TUPLE, known, (ends == self._ends[which]).all(axis=1))
        right = read.sequence - self._compute_client_isns(which) <= np.uint32(len(REQUEST) + 2)
        known = self._check(NUMBERS, known, right)
        reset = known & (read.flags & RST != 0)
        if reset.any():
            self._account.server[which[reset]] |= ENDED
            known &= ~reset
        self._handle_acknowledgements(read, which, known, times)
        self._answer_requests(read, frames, which, known)
        self._answer_fins(read, which, known & (read.flags & FIN != 0))

    def _accept(self, read: SegmentFields, frames: U8, which: Connections, known: Mask) -> Mask:
        """Answer SYNs; return the rows of known connections."""
        server = self._account.server
        opening = known & (read.flags & (SYN | ACK) == SYN)
        right = self._check(NUMBERS, opening, read.sequence == self._compute_client_isns(which))
        fresh = select_first_of_each(which, right & (server[which] & SENT == 0))
        if fresh.any():
            chosen, rows = which[fresh], frames[fresh]
            self._ends[chosen] = self._layout.read_reversed_endpoints(rows)
            self._table.learn(chosen, rows[:, self._layout.row])
            server[chosen] |= SENT
        if right.any():
            chosen = which[right]
            self._emit(
                chosen, SYN | ACK, self._compute_server_isns(chosen),
                self._compute_client_isns(chosen) + np.uint32(1), read.timestamp[right],
            )  # fmt: skip
        return self._check(UNKNOWN, known & ~opening, server[which] & SENT != 0)

    def _handle_acknowledgements(
        self, read: SegmentFields, which: Connections, known: Mask, times: NDArray[np.int64]
    ) -> None:
        """Note opened and closed connections."""
        server = self._account.server
        mine = known & (read.flags & ACK != 0)
        opened = mine & (read.acknowledgement == self._compute_server_isns(which) + np.uint32(1))
        fresh = select_first_of_each(which, opened & (server[which] & OPEN == 0))
        self._account.opened[which[fresh]] = times[fresh]
        server[which[fresh]] |= OPEN
        ending = mine & (server[which] & ENDING != 0) & (read.flags & FIN == 0)
        ending &= read.acknowledgement == self._next_sequence(which) + np.uint32(1)
        server[which[ending]] |= ENDED

    def _answer_requests(
        self, read: SegmentFields, frames: U8, which: Connections, known: Mask
    ) -> None:
        rows = np.flatnonzero(known & (read.data_octets > 0))
        if not len(rows):
            return
        rows = self._select_data(read, frames, rows, REQUEST)
        chosen = which[rows]
        self._account.server[chosen] |= ASKED
        begun = self._compute_server_isns(chosen) + np.uint32(1)
        acknowledged = self._compute_client_isns(chosen) + np.uint32(1 + len(REQUEST))
        for number, part in enumerate(self._parts):
            place = np.uint32(number * SEGMENT_OCTETS)
            self._emit(chosen, PSH | ACK, begun + place, acknowledged, read.timestamp[rows], part)

    def _answer_fins(self, read: SegmentFields, which: Connections, mine: Mask) -> None:
        if not mine.any():
            return
        chosen = which[mine]
        self._account.server[chosen] |= ENDING
        end = read.sequence[mine] + read.data_octets[mine].astype(np.uint32) + np.uint32(1)
        self._emit(chosen, FIN | ACK, self._next_sequence(chosen), end, read.timestamp[mine])

    def _next_sequence(self, which: Connections) -> NDArray[np.uint32]:
        """Return the sequence number after what was sent."""
        answered = (self._account.server[which] & ASKED != 0) * np.uint32(len(self._answer))
        number: NDArray[np.uint32] = self._compute_server_isns(which) + np.uint32(1) + answered
        return number
