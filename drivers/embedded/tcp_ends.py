"""The ends of TCP connections, roles of the embedded tester: client, server, and their states.

The client opens the connections, asks for an object in each and ends them; the server accepts and answers.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from v6t.drivers.embedded.port import TICK_S, ClientPort, ExchangePort, ServerPort
from v6t.drivers.embedded.timing import Pace
from v6t.drivers.oracle.connection_oracle import TableLocation
from v6t.drivers.oracle.state_table import MemoryFile
from v6t.packets.arrays import I64, U8, U32, Mask
from v6t.profiles.expand import Expander
from v6t.profiles.streams import Stream
from v6t.profiles.tcp.http import REQUEST, SEGMENT_OCTETS, build_response, split_into_segments
from v6t.profiles.tcp.segments import (
    ACK,
    FIN,
    NUMBER_BITS,
    PSH,
    RST,
    SYN,
    SegmentFields,
    TcpLayout,
    compute_client_isns,
    compute_server_isns,
    decode_client_isns,
    decode_server_isns,
    read_quoted_segments,
)
from v6t.trials.connections import Tcp, TcpCounts

Connections = I64
Numbers = U32

Step = Literal["open", "ask", "rst", "fin"]  # What is done in each connection
LOOK_S = 0.002  # Interval at which the client reads the server's states

SENT, OPEN, ASKED, ANSWERED, ENDING, ENDED, REFUSED, UNREACHABLE = (1 << n for n in range(8))
"""State of a connection at one end: the SYN was sent, it is open, an object was requested, and
received; closing began, and is complete; a reset, or an ICMP error, was received in place of an
answer."""
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
class ConnectionStates:
    """State of all connections in arrays ``(n,)`` of a memory file, each written by one end only."""

    begun: I64  # Time at which the first SYN left [ns]
    opened: I64  # Time at which the ACK of the SYN-ACK arrived [ns]
    client: NDArray[np.uint16]  # State at the client
    server: NDArray[np.uint16]  # State at the server

    @staticmethod
    def make_file(count: int) -> MemoryFile:
        """Make the memory file for a number of connections."""
        return MemoryFile(count * 20)

    @classmethod
    def open_file(cls, path: str, count: int) -> ConnectionStates:
        """Map the states of ``count`` connections from the memory file at a path."""
        kinds = (("<i8", 0), ("<i8", 8), ("<u2", 16), ("<u2", 18))
        arrays: list[Any] = [
            np.memmap(path, kind, "r+", offset=at * count, shape=(count,)) for kind, at in kinds
        ]
        return cls(*arrays)

    def mark_established_connections(self, waited_s: float) -> None:
        """Set ``ESTABLISHED`` in the client's states of connections that both ends opened in time."""
        both = (self.client & self.server & OPEN) != 0
        both &= self.opened - self.begun <= 1e9 * waited_s
        self.client[both] |= ESTABLISHED

    def select_established(self) -> Mask:
        """Return a mask of the connections that :meth:`mark_established_connections` marked."""
        standing: Mask = (self.client & ESTABLISHED) != 0
        return standing

    def count(self, *, retransmitted: int, wrong: int) -> TcpCounts:
        """Count connections by outcome, given the numbers of retransmitted SYNs and wrong segments."""

        def number(rows: Mask) -> int:
            return int(np.count_nonzero(rows))

        attempted, here = (self.client & SENT) != 0, (self.client & OPEN) != 0
        both = self.select_established()
        refused = ~here & ((self.client & REFUSED) != 0)
        unreachable = ~here & ~refused & ((self.client & UNREACHABLE) != 0)
        ended = ((self.client & ENDING) != 0) & ((self.server & ENDED) != 0)
        taken_s = (self.opened[both] - self.begun[both]) / 1e9
        functions = {"fastest_s": np.min, "slowest_s": np.max, "mean_s": np.mean, "sum_s": np.sum}
        times: dict[str, Any] = {}
        if len(taken_s):
            times = {name: float(function(taken_s)) for name, function in functions.items()}
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
    """Base of workers at one end of a trial's TCP connections."""

    _layout: TcpLayout
    _states: ConnectionStates
    _count = 0

    def _select_exchange_frames(self, frames: U8) -> Mask:
        return self._layout.select_frames(frames) if self._count else np.zeros(len(frames), bool)

    def _begin_trial(self, path: str, count: int, nonce: int, tcp: Tcp) -> None:
        """Prepare for a trial; its nonce is part of all timestamps and initial sequence numbers."""
        self._drain_all()
        self._reset_counters()
        self._states = ConnectionStates.open_file(path, count)
        self._count = count
        self._turn = np.uint32(nonce * _TRIAL_STEP & 0xFFFFFFFF)
        self._mark = np.uint32(nonce << NUMBER_BITS & 0xFFFFFFFF)
        self._answer = build_response(tcp.object_octets)
        self._parts = split_into_segments(self._answer)
        self._ends: U8 = np.zeros((count, self._layout.width), np.uint8)
        self._wrong: Counter[str] = Counter()

    def _make_timestamps(self, indices: Connections) -> Numbers:
        return indices.astype(np.uint32) | self._mark

    def _compute_client_isns(self, indices: Connections) -> Numbers:
        return compute_client_isns(indices) + self._turn

    def _compute_server_isns(self, indices: Connections) -> Numbers:
        return compute_server_isns(indices) + self._turn

    def _decode_client_isns(self, first: Numbers) -> Connections:
        return decode_client_isns(first - self._turn).astype(np.int64)

    def _decode_server_isns(self, first: Numbers) -> Connections:
        return decode_server_isns(first - self._turn).astype(np.int64)

    def _decode_timestamps(self, stamps: Numbers) -> tuple[Connections, Mask]:
        """Return the connection of each timestamp, and a mask of those that exist."""
        indices = (stamps & np.uint32(_NUMBER_MASK)).astype(np.int64)
        is_current = (stamps & ~np.uint32(_NUMBER_MASK)) == self._mark
        return indices, is_current & (indices < self._count)

    def _select_valid(self, reason: str, rows: Mask, right: Mask) -> Mask:
        """Return the valid rows; count the other rows as wrong, with a reason."""
        if count := int(np.count_nonzero(rows & ~right)):
            self._wrong[reason] += count
        return rows & right

    def _select_data(
        self, read: SegmentFields, frames: U8, rows: NDArray[np.intp], octets: bytes
    ) -> NDArray[np.intp]:
        """Return the rows whose segment data equal ``octets``; count the others as wrong."""
        first = int(read.data_start[rows[0]])
        content = frames[rows][:, first : first + len(octets)]
        same: Mask = (read.data_octets[rows] == len(octets)) & (read.data_start[rows] == first)
        if content.shape[1] == len(octets):
            same &= (content == np.frombuffer(octets, np.uint8)).all(axis=1)
        else:
            same[:] = False
        return rows[self._select_valid(CONTENT, np.ones(len(rows), bool), same)]

    def _emit(
        self,
        indices: Connections,
        flags: int,
        numbers: Numbers,
        acknowledged: Numbers | int,
        echo: Numbers | int,
        data: bytes = b"",
    ) -> I64:
        """Send a segment in each connection.

        Returns:
            Times ``(n,)`` at which the segments left [ns, CLOCK_REALTIME]. The kernel reports only when it
            has taken a batch, so the times are spread evenly over that duration.
        """
        length = self._layout.count_frame_octets(flags, len(data))
        content = np.frombuffer(data, np.uint8) if data else None
        stamps = self._make_timestamps(indices)
        left = np.empty(len(indices), np.int64)
        done = 0
        while done < len(indices):
            room = self._tx.get_free_slots(len(indices) - done)
            part = slice(done, done + len(room))
            self._layout.write(
                room[:, :length],
                self._ends[indices[part]],
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
        """Return the numbers of wrong segments by reason, and the figures of the port."""
        return {"wrong": dict(self._wrong), **self._read_health()}


def select_first_of_each(indices: Connections, rows: Mask) -> Mask:
    """Return a mask of the first of the ``rows`` that belong to each connection."""
    first = np.zeros(len(indices), bool)
    places = np.flatnonzero(rows)
    first[places[np.unique(indices[places], return_index=True)[1]]] = True
    return first


class TcpClient(ClientPort, TcpEnd):
    """Worker that opens, uses and ends connections on one interface."""

    def load(self, *, stream: Stream) -> None:
        self._tuples = Expander(stream)
        self._layout = TcpLayout(self._tuples.compute_frames(0, 1)[0])

    def arm(self, *, path: str, count: int, nonce: int, tcp: Tcp) -> None:
        self._begin_trial(path, count, nonce, tcp)
        self._tcp = tcp
        self._got = np.zeros(count if len(self._parts) > 1 else 0, np.uint16)
        self._since = np.zeros(count, np.int64)
        """Time at which each connection's request, or its FIN or RST, left [ns]."""
        self._retransmitted = 0
        self._unanswered: list[tuple[float, int, int, Connections]] = []
        """Heap of SYNs to retransmit: due time, serial number, tries so far, connections."""
        self._order = itertools.count()

    def run(self, *, step: Step, pace: Pace, start: float, wait_s: float) -> dict[str, Any]:
        """Run a step in each connection, beginning at ``start`` [s, CLOCK_MONOTONIC]; wait for outcomes."""
        states = self._states
        self._sent, self._step = 0, step
        chosen = states.client & SENT if step == "rst" else states.select_established()
        self._queue = np.arange(self._count) if step == "open" else np.flatnonzero(chosen)
        lateness = self._send_all(pace, start)
        ended = time.monotonic()
        while time.monotonic() < ended + wait_s and not self._is_complete():
            until = time.monotonic() + LOOK_S
            while time.monotonic() < until:
                time.sleep(TICK_S if self._drain() else 5 * TICK_S)
            self._retransmit()
        self._drain_all()
        if step == "open":
            states.mark_established_connections(self._tcp.max_wait_s)
        counts = {"sent": self._sent, "retransmitted": self._retransmitted}
        times = {"sending_time_s": self._sent_by - start, "lateness_s": lateness}
        return {**counts, **times, **self._make_report()}

    def _is_complete(self) -> bool:
        """Whether every connection has an outcome of the current step."""
        here, there = self._states.client, self._states.server
        if self._step == "open":
            undecided = (here & SENT != 0) & (here & DECIDED == 0)
            return not undecided.any() and not (here & ~there & OPEN).any()
        if self._step == "ask":
            return not ((here & ASKED != 0) & (here & (ANSWERED | RESET) == 0)).any()
        return not ((here & ENDING != 0) & (there & OPEN != 0) & (there & ENDED == 0)).any()

    def _send(self, wanted: int) -> None:
        first, states = self._sent, self._states
        indices = self._queue[first : first + wanted]
        if self._step == "open":
            tuples = self._tuples.compute_frames(first, wanted)
            self._ends[indices] = self._layout.read_endpoints(tuples)
            states.client[indices] |= SENT
            isns = self._compute_client_isns(indices)
            states.begun[indices] = self._emit(indices, SYN, isns, 0, 0)
            self._schedule(indices, 0)
        elif self._step == "ask":
            states.client[indices] |= ASKED
            self._since[indices] = self._emit(
                indices, PSH | ACK, self._compute_client_isns(indices) + np.uint32(1),
                self._compute_server_isns(indices) + np.uint32(1), self._make_timestamps(indices), REQUEST,
            )  # fmt: skip
        else:
            states.client[indices] |= ENDING
            self._since[indices] = self._reply(indices, (RST if self._step == "rst" else FIN) | ACK)
        self._sent += wanted

    def _do_due_work(self) -> None:
        self._retransmit()

    def _schedule(self, indices: Connections, tries: int) -> None:
        """Schedule the next retransmission of SYNs; see :mod:`v6t.trials.connections`."""
        if tries < self._tcp.retransmissions:
            due = time.monotonic() + self._tcp.timeout_s * (1 << tries)
            heapq.heappush(self._unanswered, (due, next(self._order), tries, indices))

    def _retransmit(self) -> None:
        while self._unanswered and self._unanswered[0][0] <= time.monotonic():
            _, _, tries, indices = heapq.heappop(self._unanswered)
            indices = indices[self._states.client[indices] & DECIDED == 0]
            if len(indices) and self._step == "open":
                self._retransmitted += len(indices)
                self._emit(indices, SYN, self._compute_client_isns(indices), 0, 0)
                self._schedule(indices, tries + 1)

    def _reply(self, indices: Connections, flags: int, beyond: int = 0) -> I64:
        """Send a segment without data in each connection; return when each left [ns].

        ``beyond`` more octets of the server are acknowledged: a FIN.
        """
        state = self._states.client[indices]
        sent = (state & ASKED != 0) * np.uint32(len(REQUEST))
        ended = (state & ENDING != 0) * np.uint32(0 if flags & (FIN | RST) else 1)
        received = (state & ANSWERED != 0) * np.uint32(len(self._answer))
        return self._emit(
            indices,
            flags,
            self._compute_client_isns(indices) + np.uint32(1) + sent + ended,
            self._compute_server_isns(indices) + np.uint32(1 + beyond) + received,
            self._make_timestamps(indices),
        )

    def _handle_frames(self, frames: U8, times: I64) -> None:
        read = self._layout.read(frames)
        indices, known = self._decode_timestamps(read.echo)
        known &= read.has_timestamp
        # a device that resets in place of the server uses no timestamps
        bare = (read.flags & RST != 0) & ~read.has_timestamp
        if bare.any():
            indices[bare] = self._find_reset_connections(read, bare)
            known |= bare & (indices < self._count)
            read.is_valid[bare] |= self._layout.has_partial_checksum(frames[bare])
        known = self._select_valid(UNKNOWN, np.ones(len(known), bool), known)
        indices = np.where(known, indices, 0)
        ends = self._layout.read_reversed_endpoints(frames)
        known = self._select_valid(TUPLE, known, (ends == self._ends[indices]).all(axis=1))
        known = self._select_valid(CHECKSUM, known, read.is_valid)
        waited = times - self._states.begun[indices] <= 1e9 * self._tcp.max_wait_s
        self._handle_syn_acks(read, indices, known & waited)
        self._handle_resets(indices[known & (read.flags & RST != 0)], REFUSED)
        in_time = times - self._since[indices] <= 1e9 * self._tcp.timeout_s
        self._handle_data_and_fins(read, frames, indices, known, in_time)

    def _find_connections(self, choices: list[Connections], ports: U8 | None = None) -> Connections:
        """Return each row's first choice that was opened and has the ports, or the count for none."""
        connections = np.full(len(choices[0]), self._count, np.int64)
        for tried in choices:
            fits = (connections == self._count) & (tried < self._count)
            fits[fits] = self._states.client[tried[fits]] & SENT != 0
            if ports is not None:
                fits[fits] = (self._ends[tried[fits], -4:] == ports[fits]).all(axis=1)
            connections[fits] = tried[fits]
        return connections

    def _find_reset_connections(self, read: SegmentFields, bare: Mask) -> Connections:
        """Find the connections of resets without timestamps (RFC 9293, section 3.5.2); the count for none.

        What answers a segment without ACK acknowledges it; what answers another has the number that it
        acknowledged.
        """
        request, answer = len(REQUEST), len(self._answer)
        acknowledged, number = read.acknowledgement[bare], read.sequence[bare]
        answers = read.flags[bare] & ACK != 0
        return self._find_connections(
            [
                np.where(
                    answers,
                    self._decode_client_isns(acknowledged - np.uint32(1 + sent)),
                    self._decode_server_isns(number - np.uint32(1 + received)),
                )
                for sent, received in ((0, 0), (request, answer), (request + 1, answer + 1))
            ]
        )

    def _find_quoted_connections(self, ports: U8, numbers: U32) -> Connections:
        """Return the connections of segments quoted in ICMP errors, without unknown ones."""
        sent = 1 + len(REQUEST)
        choices = [self._decode_client_isns(numbers - np.uint32(n)) for n in (0, 1, sent, sent + 1)]
        connections = self._find_connections(choices, ports)
        return connections[connections < self._count]

    def _handle_syn_acks(self, read: SegmentFields, indices: Connections, known: Mask) -> None:
        mine = known & (read.flags & (SYN | ACK | RST | FIN) == SYN | ACK)
        right = read.acknowledgement == self._compute_client_isns(indices) + np.uint32(1)
        right &= read.sequence == self._compute_server_isns(indices)
        mine = self._select_valid(NUMBERS, mine, right)
        if mine.any():
            chosen = indices[mine]
            self._states.client[chosen] |= OPEN
            self._reply(chosen, ACK)

    def _handle_resets(self, chosen: Connections, state: int) -> None:
        """Record a refusal of connections that were not open yet, and a reset of open ones."""
        client = self._states.client
        was_open = client[chosen] & OPEN != 0
        if self._step == "open":
            client[chosen[~was_open]] |= np.uint16(state)
        later = chosen[was_open]
        if state == REFUSED:
            later = later[client[later] & ENDING == 0]
        client[later] |= RESET

    def _handle_data_and_fins(
        self, read: SegmentFields, frames: U8, indices: Connections, known: Mask, in_time: Mask
    ) -> None:
        data = known & in_time & (read.data_octets > 0) & (read.flags & (SYN | RST) == 0)
        if data.any():
            self._handle_data(read, frames, indices, data)
        # an unsolicited end of a connection is accepted at any time
        asked_for = self._states.client[indices] & ENDING != 0
        ended = known & (in_time | ~asked_for) & (read.flags & FIN != 0)
        if ended.any():
            chosen = indices[ended]
            self._states.client[chosen] |= ENDED
            self._reply(chosen, ACK, beyond=1)

    def _handle_data(
        self, read: SegmentFields, frames: U8, indices: Connections, mine: Mask
    ) -> None:
        """Check segments with data, and record the received parts of objects."""
        place = (read.sequence - self._compute_server_isns(indices) - np.uint32(1)).astype(np.int64)
        number = place // SEGMENT_OCTETS
        right = (number < len(self._parts)) & (place % SEGMENT_OCTETS == 0)
        right = self._select_valid(NUMBERS, mine, right)
        for part, octets in enumerate(self._parts):
            rows = np.flatnonzero(right & (number == part))
            if len(rows):
                self._complete_part(indices[self._select_data(read, frames, rows, octets)], part)

    def _complete_part(self, chosen: Connections, part: int) -> None:
        """Record a received part of objects; acknowledge complete objects."""
        client = self._states.client
        if len(self._parts) > 1:
            np.bitwise_or.at(self._got, chosen, np.uint16(1 << part))
            chosen = chosen[self._got[chosen] == (1 << len(self._parts)) - 1]
        chosen = chosen[select_first_of_each(chosen, client[chosen] & ANSWERED == 0)]
        if len(chosen):
            client[chosen] |= ANSWERED
            self._reply(chosen, ACK)

    def _handle_control_frames(self, frames: U8) -> None:
        if self._count:
            for ports, numbers in read_quoted_segments(self._layout.select_icmp(frames)):
                self._handle_resets(self._find_quoted_connections(ports, numbers), UNREACHABLE)
        super()._handle_control_frames(frames)


class TcpServer(ServerPort, TcpEnd):
    """Worker that accepts connections to all addresses on one interface."""

    def load(self, *, frame: bytes) -> None:
        self._layout = TcpLayout(np.frombuffer(frame, np.uint8))

    def arm(self, *, path: str, table: TableLocation, nonce: int, tcp: Tcp) -> None:
        """Prepare for a trial, whose four-tuples behind the device are written into ``table``."""
        self._begin_trial(path, table.count, nonce, tcp)
        self._table = table.map()

    def report(self) -> dict[str, Any]:
        self._drain_all()
        waited_s, self._wait_s = self._wait_s, 0.0
        return {**self._make_report(), "wait_s": waited_s}

    def _handle_frames(self, frames: U8, times: I64) -> None:
        read = self._layout.read(frames)
        indices, known = self._decode_timestamps(read.timestamp)
        known = self._select_valid(UNKNOWN, np.ones(len(known), bool), known & read.has_timestamp)
        indices = np.where(known, indices, 0)
        known = self._select_valid(CHECKSUM, known, read.is_valid)
        known = self._accept(read, frames, indices, known)
        ends = self._layout.read_reversed_endpoints(frames)
        known = self._select_valid(TUPLE, known, (ends == self._ends[indices]).all(axis=1))
        right = read.sequence - self._compute_client_isns(indices) <= np.uint32(len(REQUEST) + 2)
        known = self._select_valid(NUMBERS, known, right)
        reset = known & (read.flags & RST != 0)
        if reset.any():
            self._states.server[indices[reset]] |= ENDED
            known &= ~reset
        self._handle_acknowledgements(read, indices, known, times)
        self._answer_requests(read, frames, indices, known)
        self._answer_fins(read, indices, known & (read.flags & FIN != 0))

    def _accept(self, read: SegmentFields, frames: U8, indices: Connections, known: Mask) -> Mask:
        """Answer SYNs; return a mask of the other segments that belong to a connection."""
        server = self._states.server
        opening = known & (read.flags & (SYN | ACK) == SYN)
        right = read.sequence == self._compute_client_isns(indices)
        right = self._select_valid(NUMBERS, opening, right)
        fresh = select_first_of_each(indices, right & (server[indices] & SENT == 0))
        if fresh.any():
            chosen, rows = indices[fresh], frames[fresh]
            self._ends[chosen] = self._layout.read_reversed_endpoints(rows)
            self._table.learn(chosen, rows[:, self._layout.row])
            server[chosen] |= SENT
        if right.any():
            chosen = indices[right]
            self._emit(
                chosen, SYN | ACK, self._compute_server_isns(chosen),
                self._compute_client_isns(chosen) + np.uint32(1), read.timestamp[right],
            )  # fmt: skip
        return self._select_valid(UNKNOWN, known & ~opening, server[indices] & SENT != 0)

    def _handle_acknowledgements(
        self, read: SegmentFields, indices: Connections, known: Mask, times: I64
    ) -> None:
        """Record the connections that acknowledgements open or close."""
        server = self._states.server
        mine = known & (read.flags & ACK != 0)
        opened = mine & (read.acknowledgement == self._compute_server_isns(indices) + np.uint32(1))
        fresh = select_first_of_each(indices, opened & (server[indices] & OPEN == 0))
        self._states.opened[indices[fresh]] = times[fresh]
        server[indices[fresh]] |= OPEN
        ending = mine & (server[indices] & ENDING != 0) & (read.flags & FIN == 0)
        ending &= read.acknowledgement == self._compute_next_sequences(indices) + np.uint32(1)
        server[indices[ending]] |= ENDED

    def _answer_requests(
        self, read: SegmentFields, frames: U8, indices: Connections, known: Mask
    ) -> None:
        rows = np.flatnonzero(known & (read.data_octets > 0))
        if not len(rows):
            return
        rows = self._select_data(read, frames, rows, REQUEST)
        chosen = indices[rows]
        self._states.server[chosen] |= ASKED
        begun = self._compute_server_isns(chosen) + np.uint32(1)
        acknowledged = self._compute_client_isns(chosen) + np.uint32(1 + len(REQUEST))
        for number, part in enumerate(self._parts):
            place = np.uint32(number * SEGMENT_OCTETS)
            self._emit(chosen, PSH | ACK, begun + place, acknowledged, read.timestamp[rows], part)

    def _answer_fins(self, read: SegmentFields, indices: Connections, mine: Mask) -> None:
        if not mine.any():
            return
        chosen = indices[mine]
        self._states.server[chosen] |= ENDING
        end = read.sequence[mine] + read.data_octets[mine].astype(np.uint32) + np.uint32(1)
        numbers = self._compute_next_sequences(chosen)
        self._emit(chosen, FIN | ACK, numbers, end, read.timestamp[mine])

    def _compute_next_sequences(self, indices: Connections) -> U32:
        """Return the server's next sequence number in each connection."""
        answered = (self._states.server[indices] & ASKED != 0) * np.uint32(len(self._answer))
        number: U32 = self._compute_server_isns(indices) + np.uint32(1) + answered
        return number
