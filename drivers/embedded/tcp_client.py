"""The client of TCP connections, a role of the embedded tester: it opens, asks and ends them."""

from __future__ import annotations

import heapq
import itertools
import time
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from v6t.drivers.embedded.port import TICK_S, ClientPort
from v6t.drivers.embedded.sender import Pace
from v6t.drivers.embedded.tcp_end import (
    ANSWERED,
    ASKED,
    CHECKSUM,
    DECIDED,
    ENDED,
    ENDING,
    NUMBERS,
    OPEN,
    REFUSED,
    RESET,
    SENT,
    TUPLE,
    UNKNOWN,
    UNREACHABLE,
    TcpEnd,
    select_first_of_each,
)
from v6t.profiles.expand import Expander
from v6t.profiles.tcp.http import REQUEST, SEGMENT_OCTETS
from v6t.profiles.tcp.segments import (
    ACK,
    FIN,
    PSH,
    RST,
    SYN,
    SegmentFields,
    TcpLayout,
    read_quoted_segments,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.packets.arrays import U8, Mask
    from v6t.profiles.streams import Stream
    from v6t.trials.tcp import Tcp

    Connections = NDArray[np.int64]

Step = Literal["open", "ask", "rst", "fin"]  # What is done in each connection
LOOK_S = 0.002  # Interval of readings of the server's side of the account


class TcpClient(ClientPort, TcpEnd):
    """Worker that opens, uses and ends connections on one interface."""

    def load(self, *, stream: Stream) -> None:
        self._tuples = Expander(stream)
        self._layout = TcpLayout(self._tuples.frames(0, 1)[0])

    def arm(self, *, path: str, count: int, nonce: int, tcp: Tcp) -> None:
        self._begin_trial(path, count, nonce, tcp)
        self._tcp = tcp
        self._got = np.zeros(count if len(self._parts) > 1 else 0, np.uint16)
        self._since = np.zeros(count, np.int64)
        """When the last request of each connection left, or its end [ns]."""
        self._retransmitted = 0
        self._unanswered: list[tuple[float, int, int, Connections]] = []
        """SYNs to be sent again: when, in which order they came, how often they were, and which."""
        self._order = itertools.count()

    def run(self, *, step: Step, pace: Pace, start: float, wait_s: float) -> dict[str, Any]:
        """Do a step in each connection from ``start`` on [s, CLOCK_MONOTONIC]; wait for its outcome."""
        account = self._account
        self._sent, self._step = 0, step
        chosen = account.client & SENT if step == "rst" else account.select_established()
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
            account.close_opening(self._tcp.max_wait_s)
        return {
            "sent": self._sent,
            "sending_time_s": self._sent_by - start,
            "lateness_s": lateness,
            "retransmitted": self._retransmitted,
            **self._make_report(),
        }

    def _is_complete(self) -> bool:
        """Whether every connection has an outcome of the current step."""
        here, there = self._account.client, self._account.server
        if self._step == "open":
            undecided = (here & SENT != 0) & (here & DECIDED == 0)
            return not undecided.any() and not (here & ~there & OPEN).any()
        if self._step == "ask":
            return not ((here & ASKED != 0) & (here & (ANSWERED | RESET) == 0)).any()
        return not ((here & ENDING != 0) & (there & OPEN != 0) & (there & ENDED == 0)).any()

    def _send(self, wanted: int) -> None:
        first, account = self._sent, self._account
        which = self._queue[first : first + wanted]
        if self._step == "open":
            tuples = self._tuples.frames(first, wanted)
            self._ends[which] = self._layout.read_endpoints(tuples)
            account.client[which] |= SENT
            account.begun[which] = self._emit(which, SYN, self._compute_client_isns(which), 0, 0)
            self._schedule(which, 0)
        elif self._step == "ask":
            account.client[which] |= ASKED
            self._since[which] = self._emit(
                which, PSH | ACK, self._compute_client_isns(which) + np.uint32(1),
                self._compute_server_isns(which) + np.uint32(1), self._make_timestamps(which), REQUEST,
            )  # fmt: skip
        else:
            account.client[which] |= ENDING
            self._since[which] = self._reply(which, (RST if self._step == "rst" else FIN) | ACK)
        self._sent += wanted

    def _do_due_work(self) -> None:
        self._retransmit()

    def _schedule(self, which: Connections, tries: int) -> None:
        """Schedule the next retransmission of SYNs; see :mod:`v6t.trials.tcp`."""
        if tries < self._tcp.retransmissions:
            due = time.monotonic() + self._tcp.timeout_s * (1 << tries)
            heapq.heappush(self._unanswered, (due, next(self._order), tries, which))

    def _retransmit(self) -> None:
        """Send the SYNs that are due again."""
        while self._unanswered and self._unanswered[0][0] <= time.monotonic():
            _, _, tries, which = heapq.heappop(self._unanswered)
            which = which[self._account.client[which] & DECIDED == 0]
            if len(which) and self._step == "open":
                self._retransmitted += len(which)
                self._emit(which, SYN, self._compute_client_isns(which), 0, 0)
                self._schedule(which, tries + 1)

    def _reply(self, which: Connections, flags: int, beyond: int = 0) -> NDArray[np.int64]:
        """Send a segment without data in each connection; return when each left [ns].

        ``beyond`` more octets of the server are acknowledged: a FIN.
        """
        state = self._account.client[which]
        sent = (state & ASKED != 0) * np.uint32(len(REQUEST))
        ended = (state & ENDING != 0) * np.uint32(0 if flags & (FIN | RST) else 1)
        received = (state & ANSWERED != 0) * np.uint32(len(self._answer))
        return self._emit(
            which,
            flags,
            self._compute_client_isns(which) + np.uint32(1) + sent + ended,
            self._compute_server_isns(which) + np.uint32(1 + beyond) + received,
            self._make_timestamps(which),
        )

    def _handle_frames(self, frames: U8, times: NDArray[np.int64]) -> None:
        read = self._layout.read(frames)
        which, known = self._decode_timestamps(read.echo)
        known &= read.has_timestamp
        # a device that refuses in the server's place uses no timestamps
        bare = (read.flags & RST != 0) & ~read.has_timestamp
        if bare.any():
            which[bare] = self._find_reset_connections(read, bare)
            known |= bare & (which < self._count)
            read.is_valid[bare] |= self._layout.has_partial_checksum(frames[bare])
        known = self._check(UNKNOWN, np.ones(len(known), bool), known)
        which = np.where(known, which, 0)
        ends = self._layout.read_reversed_endpoints(frames)
        known = self._check(TUPLE, known, (ends == self._ends[which]).all(axis=1))
        known = self._check(CHECKSUM, known, read.is_valid)
        waited = times - self._account.begun[which] <= 1e9 * self._tcp.max_wait_s
        self._handle_syn_acks(read, which, known & waited)
        self._handle_resets(which[known & (read.flags & RST != 0)], REFUSED)
        in_time = times - self._since[which] <= 1e9 * self._tcp.timeout_s
        self._handle_data_and_fins(read, frames, which, known, in_time)

    def _find_connections(
        self, candidates: list[Connections], ports: U8 | None = None
    ) -> Connections:
        """Return the first begun connection of each row, with these ports ``(n, 4)``, or the count."""
        found = np.full(len(candidates[0]), self._count, np.int64)
        for tried in candidates:
            fits = (found == self._count) & (tried < self._count)
            fits[fits] = self._account.client[tried[fits]] & SENT != 0
            if ports is not None:
                fits[fits] = (self._ends[tried[fits], -4:] == ports[fits]).all(axis=1)
            found[fits] = tried[fits]
        return found

    def _find_reset_connections(self, read: SegmentFields, bare: Mask) -> Connections:
        """Find the connections of resets without timestamps (RFC 9293, section 3.5.2), or the count.

        What answers a segment without ACK acknowledges it; what answers another has the number that it
        acknowledged.
        """
        asked, answer = len(REQUEST), len(self._answer)
        acknowledged, number = read.acknowledgement[bare], read.sequence[bare]
        answers = read.flags[bare] & ACK != 0
        return self._find_connections(
            [
                np.where(
                    answers,
                    self._decode_client_isns(acknowledged - np.uint32(1 + sent)),
                    self._decode_server_isns(number - np.uint32(1 + received)),
                )
                for sent, received in ((0, 0), (asked, answer), (asked + 1, answer + 1))
            ]
        )

    def _find_quoted_connections(self, ports: U8, numbers: NDArray[np.uint32]) -> Connections:
        """Find the connections of quoted segments, without those of no connection."""
        sent = 1 + len(REQUEST)
        candidates = [
            self._decode_client_isns(numbers - np.uint32(n)) for n in (0, 1, sent, sent + 1)
        ]
        found = self._find_connections(candidates, ports)
        return found[found < self._count]

    def _handle_syn_acks(self, read: SegmentFields, which: Connections, known: Mask) -> None:
        """Open the connections of valid SYN-ACKs."""
        mine = known & (read.flags & (SYN | ACK | RST | FIN) == SYN | ACK)
        right = read.acknowledgement == self._compute_client_isns(which) + np.uint32(1)
        right &= read.sequence == self._compute_server_isns(which)
        mine = self._check(NUMBERS, mine, right)
        if mine.any():
            chosen = which[mine]
            self._account.client[chosen] |= OPEN
            self._reply(chosen, ACK)

    def _handle_resets(self, chosen: Connections, state: int) -> None:
        """Set the state of connections that were opening, and reset open ones."""
        client = self._account.client
        was_open = client[chosen] & OPEN != 0
        if self._step == "open":
            client[chosen[~was_open]] |= np.uint16(state)
        later = chosen[was_open]
        if state == REFUSED:
            later = later[client[later] & ENDING == 0]
        client[later] |= RESET

    def _handle_data_and_fins(
        self, read: SegmentFields, frames: U8, which: Connections, known: Mask, in_time: Mask
    ) -> None:
        data = known & in_time & (read.data_octets > 0) & (read.flags & (SYN | RST) == 0)
        if data.any():
            self._handle_data(read, frames, which, data)
        # an end that nobody asked for is heard whenever it comes
        asked_for = self._account.client[which] & ENDING != 0
        ended = known & (in_time | ~asked_for) & (read.flags & FIN != 0)
        if ended.any():
            chosen = which[ended]
            self._account.client[chosen] |= ENDED
            self._reply(chosen, ACK, beyond=1)

    def _handle_data(self, read: SegmentFields, frames: U8, which: Connections, mine: Mask) -> None:
        """Check segments with data of objects."""
        place = (read.sequence - self._compute_server_isns(which) - np.uint32(1)).astype(np.int64)
        number = place // SEGMENT_OCTETS
        right = (number < len(self._parts)) & (place % SEGMENT_OCTETS == 0)
        right = self._check(NUMBERS, mine, right)
        for part, octets in enumerate(self._parts):
            rows = np.flatnonzero(right & (number == part))
            if len(rows):
                chosen = which[self._select_data(read, frames, rows, octets)]
                self._complete_part(chosen, part)

    def _complete_part(self, chosen: Connections, part: int) -> None:
        """Note a received part of objects; acknowledge complete ones."""
        client = self._account.client
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
