"""The client of connections of TCP, as a role of the embedded tester: it opens, asks and ends them."""

from __future__ import annotations

import heapq
import itertools
import time
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from v6t.drivers.embedded.played import TICK_S, Asking
from v6t.drivers.embedded.sender import Pace
from v6t.drivers.embedded.tcp_end import (
    ANSWERED,
    ASKED,
    CHECKSUM,
    CONTENT,
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
    first_of_each,
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
    from v6t.packets.arrays import U8
    from v6t.profiles.streams import Stream
    from v6t.trials.tcp import Tcp

    Connections = NDArray[np.int64]

Step = Literal["open", "ask", "rst", "fin"]
LOOK_S = 0.002
"""Between two looks at what the server knows."""


class TcpClient(Asking, TcpEnd):
    """Begins connections on one interface."""

    def __init__(self, interface: str, frame_octets: int) -> None:
        super().__init__(interface, frame_octets, None, self._is_own_segment)

    def load(self, *, stream: Stream) -> None:
        self._tuples = Expander(stream)
        self._layout = TcpLayout(self._tuples.frames(0, 1)[0])

    def arm(self, *, path: str, count: int, nonce: int, tcp: Tcp) -> None:
        """Begin a trial; see :meth:`TcpEnd._begin_trial`."""
        self._begin_trial(path, count, nonce, tcp)
        self._tcp = tcp
        self._got = np.zeros(count if len(self._parts) > 1 else 0, np.uint16)
        self._since = np.zeros(count, np.int64)
        """When the last request of each connection left, or its end [ns]."""
        self._again = 0
        self._waiting: list[tuple[float, int, int, Connections]] = []
        """SYNs to be sent again: when, in which order they came, how often they were, and which."""
        self._order = itertools.count()

    def run(self, *, step: Step, pace: Pace, start: float, wait_s: float) -> dict[str, Any]:
        """Do one thing in each connection, and wait for what comes of it.

        Args:
            step: what; an object is asked for in those that are established.
            pace: how many, and when each is due.
            start: when the first is due [s, CLOCK_MONOTONIC].
            wait_s: after the last one, for answers.

        Returns:
            How many were ``sent``, times, ``retransmitted``, what was ``wrong``, and health.
        """
        self._sent, self._step = 0, step
        self._queue = self._select_connections(step)
        lateness = self._send_all(pace, start)
        ended = time.monotonic()
        while time.monotonic() < ended + wait_s and not self._complete():
            until = time.monotonic() + LOOK_S
            while time.monotonic() < until:
                time.sleep(TICK_S if self._drain() else 5 * TICK_S)
            self._send_again()
        self._drain_all()
        if step == "open":
            self._account.close_opening(self._tcp.max_wait_s)
        return {
            "sent": self._sent,
            "sending_time_s": self._sent_by - start,
            "lateness_s": lateness,
            "retransmitted": self._again,
            **self._make_report(),
        }

    def _select_connections(self, step: Step) -> Connections | None:
        """Select the connections of a step; None: one after the other."""
        if step == "open":
            return None
        account = self._account
        if step == "rst":
            return np.flatnonzero(account.client & SENT)
        return np.flatnonzero(account.established())

    def _complete(self) -> bool:
        here, there = self._account.client, self._account.server
        if self._step == "open":
            undecided = np.count_nonzero((here & SENT != 0) & (here & DECIDED == 0))
            return not undecided and not np.count_nonzero(here & ~there & OPEN)
        if self._step == "ask":
            return not np.count_nonzero((here & ASKED != 0) & (here & (ANSWERED | RESET) == 0))
        return not np.count_nonzero(
            (here & ENDING != 0) & (there & OPEN != 0) & (there & ENDED == 0)
        )

    def _send(self, wanted: int) -> None:
        first, last = self._sent, self._sent + wanted
        account = self._account
        if self._queue is None:
            which = np.arange(first, last)
            self._ends[first:last] = self._segments.read_endpoints(
                self._tuples.frames(first, wanted)
            )
            account.client[first:last] |= SENT
            account.begun[first:last] = self._emit(which, SYN, self._client_number(which), 0, 0)
            self._send_again_later(which, 0)
        else:
            which = self._queue[first:last]
            if self._step == "ask":
                self._ask(which)
            else:
                self._end(which, self._step == "rst")
        self._sent = last

    def _do_due_work(self) -> None:
        self._send_again()

    def _ask(self, which: Connections) -> None:
        self._account.client[which] |= ASKED
        self._since[which] = self._emit(
            which, PSH | ACK, self._client_number(which) + np.uint32(1),
            self._server_number(which) + np.uint32(1), self._stamps(which), REQUEST,
        )  # fmt: skip

    def _end(self, which: Connections, by_reset: bool) -> None:
        self._account.client[which] |= ENDING
        self._since[which] = self._reply(which, (RST if by_reset else FIN) | ACK)

    def _send_again_later(self, which: Connections, tries: int) -> None:
        if tries < self._tcp.retransmissions:
            due = time.monotonic() + self._tcp.timeout_s * (1 << tries)
            heapq.heappush(self._waiting, (due, next(self._order), tries, which))

    def _send_again(self) -> None:
        """SYNs that were not answered; see :mod:`v6t.trials.tcp`."""
        while self._waiting and self._waiting[0][0] <= time.monotonic():
            _, _, tries, which = heapq.heappop(self._waiting)
            which = which[self._account.client[which] & DECIDED == 0]
            if len(which) and self._step == "open":
                self._again += len(which)
                self._emit(which, SYN, self._client_number(which), 0, 0)
                self._send_again_later(which, tries + 1)

    def _reply(self, which: Connections, flags: int, beyond: int = 0) -> NDArray[np.int64]:
        """Send a segment without data in each connection; return when each left [ns].

        Args:
            which: connections.
            flags: of the segment.
            beyond: so many octets of the server's more are acknowledged: a FIN.
        """
        known = self._account.client[which]
        said = (known & ASKED != 0) * np.uint32(len(REQUEST))
        ended = (known & ENDING != 0) * np.uint32(0 if flags & FIN or flags & RST else 1)
        heard = (known & ANSWERED != 0) * np.uint32(len(self._answer))
        return self._emit(
            which,
            flags,
            (self._client_number(which) + np.uint32(1) + said + ended).astype(np.uint32),
            (self._server_number(which) + np.uint32(1) + heard + np.uint32(beyond)).astype(
                np.uint32
            ),
            self._stamps(which),
        )

    def _handle_frames(self, frames: U8, times: NDArray[np.int64]) -> None:
        layout = self._segments
        read = layout.read(frames)
        which, known = self._which(read.echo)
        known &= read.has_timestamp
        # whoever refuses in the server's place knows no timestamps
        bare = (read.flags & RST != 0) & ~read.has_timestamp
        if bare.any():
            which[bare] = self._find_reset_connections(read, bare)
            known |= bare & (which < self._count)
            read.is_valid[bare] |= layout.has_partial_checksum(frames[bare])
        self._blame(UNKNOWN, ~known)
        which = np.where(known, which, 0)
        ours = (layout.read_reversed_endpoints(frames) == self._ends[which]).all(axis=1)
        self._blame(TUPLE, known & ~ours)
        known &= ours
        self._blame(CHECKSUM, known & ~read.is_valid)
        known &= read.is_valid
        waited = times - self._account.begun[which] <= 1e9 * self._tcp.max_wait_s
        self._handle_syn_acks(read, which, known & waited)
        self._reset(read, which, known)
        in_time = times - self._since[which] <= 1e9 * self._tcp.timeout_s
        self._handle_data_and_fins(read, frames, which, known, in_time)

    def _find_reset_connections(self, read: SegmentFields, bare: NDArray[np.bool_]) -> Connections:
        """Find the connections of resets without timestamps (RFC 9293, section 3.5.2), or the count.

        What answers a segment without ACK acknowledges it; what answers another has the number that it
        acknowledged.
        """
        asked, answer = np.uint32(len(REQUEST)), np.uint32(len(self._answer))
        acknowledged, number = read.acknowledgement[bare], read.sequence[bare]
        answers = read.flags[bare] & ACK != 0
        found = np.full(len(number), self._count, np.int64)
        for said, heard in ((0, 0), (asked, answer), (asked + 1, answer + 1)):
            by_client = self._client_of(acknowledged - np.uint32(1) - np.uint32(said))
            by_server = self._server_of(number - np.uint32(1) - np.uint32(heard))
            tried = np.where(answers, by_client, by_server)
            fits = (found == self._count) & self._has_begun(tried)
            found[fits] = tried[fits]
        return found

    def _has_begun(self, which: Connections) -> NDArray[np.bool_]:
        found = which < self._count
        found[found] = self._account.client[which[found]] & SENT != 0
        return found

    def _handle_syn_acks(
        self, read: SegmentFields, which: Connections, known: NDArray[np.bool_]
    ) -> None:
        mine = known & (read.flags & (SYN | ACK | RST | FIN) == SYN | ACK)
        right = read.acknowledgement == self._client_number(which) + np.uint32(1)
        right &= read.sequence == self._server_number(which)
        self._blame(NUMBERS, mine & ~right)
        mine &= right
        if mine.any():
            chosen = which[mine]
            self._account.client[chosen] |= OPEN
            self._reply(chosen, ACK)

    def _reset(self, read: SegmentFields, which: Connections, known: NDArray[np.bool_]) -> None:
        mine = known & (read.flags & RST != 0)
        if not mine.any():
            return
        client = self._account.client
        chosen = which[mine]
        was_open = client[chosen] & OPEN != 0
        if self._step == "open":
            client[chosen[~was_open]] |= REFUSED
        later = chosen[was_open]
        client[later[client[later] & ENDING == 0]] |= RESET

    def _handle_data_and_fins(
        self,
        read: SegmentFields,
        frames: U8,
        which: Connections,
        known: NDArray[np.bool_],
        in_time: NDArray[np.bool_],
    ) -> None:
        data = known & in_time & (read.data_octets > 0) & (read.flags & (SYN | RST) == 0)
        if data.any():
            self._data(read, frames, which, data)
        # an end that nobody asked for is heard whenever it comes
        answers = self._account.client[which] & ENDING != 0
        ended = known & (in_time | ~answers) & (read.flags & FIN != 0)
        if ended.any():
            chosen = which[ended]
            self._account.client[chosen] |= ENDED
            self._reply(chosen, ACK, beyond=1)

    def _data(
        self, read: SegmentFields, frames: U8, which: Connections, mine: NDArray[np.bool_]
    ) -> None:
        begun = self._server_number(which) + np.uint32(1)
        place = (read.sequence - begun).astype(np.int64)
        number = place // SEGMENT_OCTETS
        right = mine & (number < len(self._parts)) & (place % SEGMENT_OCTETS == 0)
        self._blame(NUMBERS, mine & ~right)
        for part, octets in enumerate(self._parts):
            rows = np.flatnonzero(right & (number == part))
            if not len(rows):
                continue
            first = int(read.data_start[rows[0]])
            content = frames[rows][:, first : first + len(octets)]
            same = (read.data_octets[rows] == len(octets)) & (read.data_start[rows] == first)
            if content.shape[1] == len(octets):
                same &= (content == np.frombuffer(octets, np.uint8)).all(axis=1)
            else:
                same[:] = False
            if not same.all():
                self._wrong[CONTENT] += int(np.count_nonzero(~same))
            self._complete_part(which[rows[same]], part)

    def _complete_part(self, chosen: Connections, part: int) -> None:
        client = self._account.client
        if len(self._parts) > 1:
            np.bitwise_or.at(self._got, chosen, np.uint16(1 << part))
            chosen = chosen[self._got[chosen] == (1 << len(self._parts)) - 1]
        chosen = chosen[first_of_each(chosen, client[chosen] & ANSWERED == 0)]
        if len(chosen):
            client[chosen] |= ANSWERED
            self._reply(chosen, ACK)

    def _handle_other_frames(self, frames: U8) -> None:
        for ports, numbers in (
            read_quoted_segments(self._segments.select_icmp(frames)) if self._count else ()
        ):
            self._mark_unreachable(self._find_quoted_connections(ports, numbers))
        super()._handle_other_frames(frames)

    def _mark_unreachable(self, refused: Connections) -> None:
        client = self._account.client
        was_open = client[refused] & OPEN != 0
        client[refused[was_open]] |= RESET
        if self._step == "open":
            client[refused[~was_open]] |= UNREACHABLE

    def _find_quoted_connections(self, ports: U8, numbers: NDArray[np.uint32]) -> Connections:
        said = 1 + len(REQUEST)
        found = np.full(len(numbers), self._count, np.int64)
        for beyond in (0, 1, said, said + 1):
            tried = self._client_of(numbers - np.uint32(beyond))
            fits = (found == self._count) & self._has_begun(tried)
            fits[fits] = (self._ends[tried[fits], -4:] == ports[fits]).all(axis=1)
            found[fits] = tried[fits]
        return found[found < self._count]
