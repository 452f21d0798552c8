"""The server of connections of TCP, as a role of the embedded tester: it accepts, answers and ends them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from v6t.drivers.embedded.played import Answering
from v6t.drivers.embedded.tcp_end import (
    ASKED,
    CHECKSUM,
    CONTENT,
    ENDED,
    ENDING,
    NUMBERS,
    OPEN,
    SENT,
    TUPLE,
    UNKNOWN,
    TcpEnd,
    first_of_each,
)
from v6t.drivers.oracle.state_table import StateTable
from v6t.profiles.tcp.http import REQUEST, SEGMENT_OCTETS
from v6t.profiles.tcp.segments import ACK, FIN, PSH, RST, SYN, SegmentFields, TcpLayout

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.drivers.oracle.connection_oracle import TableAt
    from v6t.packets.arrays import U8
    from v6t.trials.tcp import Tcp

    Connections = NDArray[np.int64]

_REQUEST = np.frombuffer(REQUEST, np.uint8)


class TcpServer(Answering, TcpEnd):
    """Accepts connections on one interface, whatever their addresses."""

    def __init__(self, interface: str, frame_octets: int) -> None:
        super().__init__(interface, frame_octets, None, self._is_own_segment)

    def load(self, *, frame: bytes) -> None:
        self._layout = TcpLayout(np.frombuffer(frame, np.uint8))

    def arm(self, *, path: str, table: TableAt, nonce: int, tcp: Tcp) -> None:
        """Begin a trial; see :meth:`TcpEnd._begin_trial`.

        Args:
            path: of the account.
            table: where the four-tuples behind the device are to be written.
            nonce, tcp: of the trial.
        """
        self._begin_trial(path, table.count, nonce, tcp)
        self._table = StateTable(table.path, table.count, table.version)

    def report(self) -> dict[str, Any]:
        self._drain_all()
        return self._make_report()

    def _handle_frames(self, frames: U8, times: NDArray[np.int64]) -> None:
        layout = self._segments
        read = layout.read(frames)
        which, known = self._which(read.timestamp)
        known &= read.has_timestamp
        self._blame(UNKNOWN, ~known)
        which = np.where(known, which, 0)
        self._blame(CHECKSUM, known & ~read.is_valid)
        known &= read.is_valid
        known = self._accept(read, frames, which, known)
        ours = (layout.read_reversed_endpoints(frames) == self._ends[which]).all(axis=1)
        self._blame(TUPLE, known & ~ours)
        known &= ours
        right = read.sequence - self._client_number(which) <= np.uint32(len(REQUEST) + 2)
        self._blame(NUMBERS, known & ~right)
        known &= right
        server = self._account.server
        reset = known & (read.flags & RST != 0)
        if reset.any():
            server[which[reset]] |= ENDED
            known &= ~reset
        self._handle_acknowledgements(read, which, known, times)
        self._answer_requests(read, frames, which, known)
        self._answer_fins(read, which, known)

    def _accept(
        self, read: SegmentFields, frames: U8, which: Connections, known: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Answer SYNs; what is left are segments of connections that are there."""
        opening = known & (read.flags & (SYN | ACK) == SYN)
        right = opening & (read.sequence == self._client_number(which))
        self._blame(NUMBERS, opening & ~right)
        server = self._account.server
        fresh = first_of_each(which, right & (server[which] & SENT == 0))
        if fresh.any():
            chosen, rows = which[fresh], frames[fresh]
            self._ends[chosen] = self._segments.read_reversed_endpoints(rows)
            self._table.learn(chosen, rows[:, self._segments.row])
            server[chosen] |= SENT
        if right.any():
            chosen = which[right]
            self._emit(
                chosen, SYN | ACK, self._server_number(chosen),
                self._client_number(chosen) + np.uint32(1), read.timestamp[right],
            )  # fmt: skip
        there = known & ~opening
        found: NDArray[np.bool_] = there & (server[which] & SENT != 0)
        self._blame(UNKNOWN, there & ~found)
        return found

    def _handle_acknowledgements(
        self,
        read: SegmentFields,
        which: Connections,
        known: NDArray[np.bool_],
        times: NDArray[np.int64],
    ) -> None:
        server = self._account.server
        mine = known & (read.flags & ACK != 0)
        opened = mine & (read.acknowledgement == self._server_number(which) + np.uint32(1))
        fresh = first_of_each(which, opened & (server[which] & OPEN == 0))
        self._account.opened[which[fresh]] = times[fresh]
        server[which[fresh]] |= OPEN
        ending = mine & (server[which] & ENDING != 0) & (read.flags & FIN == 0)
        ending &= read.acknowledgement == self._next_sequence(which) + np.uint32(1)
        server[which[ending]] |= ENDED

    def _answer_requests(
        self, read: SegmentFields, frames: U8, which: Connections, known: NDArray[np.bool_]
    ) -> None:
        rows = np.flatnonzero(known & (read.data_octets > 0))
        if not len(rows):
            return
        first = int(read.data_start[rows[0]])
        content = frames[rows][:, first : first + len(_REQUEST)]
        same = (read.data_octets[rows] == len(_REQUEST)) & (read.data_start[rows] == first)
        if content.shape[1] == len(_REQUEST):
            same &= (content == _REQUEST).all(axis=1)
        else:
            same[:] = False
        if not same.all():
            self._wrong[CONTENT] += int(np.count_nonzero(~same))
        rows = rows[same]
        chosen = which[rows]
        self._account.server[chosen] |= ASKED
        begun = self._server_number(chosen) + np.uint32(1)
        heard = self._client_number(chosen) + np.uint32(1 + len(REQUEST))
        for number, part in enumerate(self._parts):
            place = np.uint32(number * SEGMENT_OCTETS)
            self._emit(chosen, PSH | ACK, begun + place, heard, read.timestamp[rows], part)

    def _answer_fins(
        self, read: SegmentFields, which: Connections, known: NDArray[np.bool_]
    ) -> None:
        mine = known & (read.flags & FIN != 0)
        if not mine.any():
            return
        chosen = which[mine]
        self._account.server[chosen] |= ENDING
        heard = (
            read.sequence[mine] + read.data_octets[mine].astype(np.uint32) + np.uint32(1)
        ).astype(np.uint32)
        self._emit(chosen, FIN | ACK, self._next_sequence(chosen), heard, read.timestamp[mine])

    def _next_sequence(self, which: Connections) -> NDArray[np.uint32]:
        answered = (self._account.server[which] & ASKED != 0) * np.uint32(len(self._answer))
        found: NDArray[np.uint32] = (self._server_number(which) + np.uint32(1) + answered).astype(
            np.uint32
        )
        return found
