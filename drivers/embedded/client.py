"""The client of a trial of name resolution, as a role of the embedded tester: it asks and judges."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from v6t.drivers.delays import summary_us
from v6t.drivers.embedded.played import TICK_S, Asking
from v6t.drivers.embedded.sender import Pace
from v6t.packets.headers import UDP, to_numbers, view
from v6t.profiles.dns import verdicts
from v6t.profiles.dns.envelope import DNS_PORT, DnsLayout
from v6t.profiles.dns.messages import QUESTION_END, build_question, write_questions

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.packets.arrays import U8
    from v6t.profiles.dns.zone import Zone

BLOCKS = 128
"""Trials until ports are used again: an answer to an earlier trial is known by its port."""
_OPEN, _VALID, _WRONG = 0, 1, 2


@dataclass(frozen=True)
class Names:
    """Which name each query of a trial asks for.

    Attributes:
        base: number of the first name that was never asked before.
        cached: share of the queries for one of the first names of the zone.
        known: how many of these were asked before; of no share 0.
    """

    base: int
    cached: float = 0.0
    known: int = 0

    def numbers(self, queries: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of names by those of queries."""
        if not self.known:
            return self.base + queries
        before = np.floor(queries * self.cached).astype(np.int64)
        again = np.floor((queries + 1) * self.cached).astype(np.int64) > before
        found: NDArray[np.int64] = np.where(
            again, before % self.known, self.base + queries - before
        )
        return found

    def fresh(self, queries: int) -> int:
        """Names that so many queries use up."""
        return queries - int(np.floor(queries * self.cached)) if self.known else queries


class Client(Asking):
    """Asks on one interface, and judges what comes back."""

    def __init__(
        self,
        interface: str,
        frame_octets: int,
        hosts: Mapping[str, Any] | None,
        layout: DnsLayout,
        zone: Zone,
        header: bytes,
    ) -> None:
        """See the base class.

        Args:
            interface, frame_octets, hosts, layout: of the port.
            zone: whose names are asked.
            header: all before a question; see :meth:`DnsLayout.header`.
        """
        super().__init__(interface, frame_octets, hosts, layout.is_ours)
        self._layout = layout
        self._zone = zone
        self._template = np.frombuffer(header + build_question(), np.uint8)
        self._run = 0
        self._expect(0, Names(0), 0.0, 1.0)

    def ask(
        self,
        *,
        pace: Pace,
        start: float,
        names: Names,
        own_share: float,
        timeout_s: float,
        wait_s: float,
    ) -> dict[str, Any]:
        """Run one trial.

        Args:
            pace: how many queries, and when each is due.
            start: when the first is due [s, CLOCK_MONOTONIC].
            names: that are asked.
            own_share: so many of them have an AAAA record of their own.
            timeout_s: an answer that takes longer is late.
            wait_s: after the last query, for answers.

        Returns:
            Counts ``sent``, ``received``, ``late``, ``surplus`` and ``reasons``; ``wrong``, the first
            answer that no device may give; times, and health.
        """
        self._begin()
        self._expect(pace.frames, names, own_share, timeout_s)
        lateness = self._send_all(pace, start)
        ended = time.monotonic()
        while self._answered < self._sent and time.monotonic() < ended + wait_s:
            time.sleep(TICK_S if self._drain() else 5 * TICK_S)
        self._drain_all()
        return {**self._report(), "sending_time_s": self._sent_by - start, "lateness_s": lateness}

    def _expect(self, queries: int, names: Names, own_share: float, timeout_s: float) -> None:
        self._run += 1
        low, count = self._zone.ports
        self._ports = low + self._run % BLOCKS * count, count
        self._names, self._own_share = names, own_share
        self._timeout_ns = round(timeout_s * 1e9)
        self._sent = self._answered = self._late = self._surplus = 0
        self._times = np.zeros(queries, np.int64)
        self._state = np.zeros(queries, np.uint8)
        self._reasons: Counter[str] = Counter()
        self._wrong: dict[str, str] | None = None
        self._delays: list[NDArray[np.int64]] = []

    def _send(self, wanted: int) -> None:
        room = self._tx.room(wanted)
        count, length = len(room), len(self._template)
        queries = np.arange(self._sent, self._sent + count)
        rows = room[:, :length]
        self._write(rows, queries)
        self._times[self._sent : self._sent + count] = time.time_ns()
        self._tx.commit(count, length)
        self._sent += count

    def _write(self, rows: U8, queries: NDArray[np.int64]) -> None:
        """Queries by their numbers within the trial: frames."""
        low, ports = self._ports
        udp = self._layout.udp
        rows[:] = self._template
        addresses = self._zone.list_addresses(self._names.numbers(queries))
        write_questions(rows[:, self._layout.message :], queries // ports & 0xFFFF, addresses)
        sources = low + queries % ports
        header = view(rows, UDP, udp)
        header["sport"], header["dport"] = sources, DNS_PORT
        self._layout.finish(rows)

    def _took(self, frames: U8, times: NDArray[np.int64]) -> None:
        low, ports = self._ports
        udp, at = self._layout.udp, self._layout.message
        header = view(frames, UDP, udp)
        port = header["dport"].astype(np.int64) - low
        ours = (header["sport"] == DNS_PORT) & (port >= 0) & (port < ports)
        # the youngest query with this port and identifier
        rest = to_numbers(frames[:, at : at + 2]).astype(np.int64) * ports + port
        period = ports << 16
        queries = rest + (self._sent - 1 - rest) // period * period
        ours &= queries >= 0
        if not ours.all():
            self._reasons[verdicts.STRAY] += int(np.count_nonzero(~ours))
            frames, times, queries = frames[ours], times[ours], queries[ours]
        if not len(queries):
            return
        addresses = self._zone.list_addresses(self._names.numbers(queries))
        expected = self._zone.list_expected_records(addresses, self._own_share)
        judged = verdicts.judge_answers(frames[:, at:], addresses, expected)
        for row, reason in judged.reasons.items():
            if self._wrong is None and reason in verdicts.DIFFERS:
                self._wrong = self._shown(frames[row], int(queries[row]), expected[row], reason)
        self._count(queries, times - self._times[queries], judged)

    def _count(
        self, queries: NDArray[np.int64], delays: NDArray[np.int64], judged: verdicts.AnswerVerdicts
    ) -> None:
        first = np.zeros(len(queries), bool)
        first[np.unique(queries, return_index=True)[1]] = True
        first &= self._state[queries] == _OPEN
        self._surplus += int(np.count_nonzero(~first))
        self._answered += int(np.count_nonzero(first))
        in_time = delays <= self._timeout_ns
        good = first & judged.valid & in_time
        self._state[queries[first]] = _WRONG
        self._state[queries[good]] = _VALID
        self._late += int(np.count_nonzero(first & judged.valid & ~in_time))
        for row, reason in judged.reasons.items():
            self._reasons[reason] += int(first[row])
        self._delays.append(delays[good])

    def _shown(
        self, frame: U8, query: int, expected: NDArray[np.uint8], reason: str
    ) -> dict[str, str]:
        """An answer beside its query and, where it has the usual form, what it should have been."""
        sent = np.empty((1, len(self._template)), np.uint8)
        self._write(sent, np.array([query]))
        right = frame.copy()[None, :]
        data = self._layout.message + QUESTION_END + 12
        usual = reason == verdicts.WRONG and right.shape[1] >= data + 16
        if usual:
            right[0, data : data + 16] = expected
            self._layout.finish(right)
        return {
            "class": "queries",
            "sent": sent.tobytes().hex(),
            "expected": right.tobytes().hex() if usual else "",
            "received": frame.tobytes().hex(),
            "why": reason,
        }

    def _report(self) -> dict[str, Any]:
        received = int(np.count_nonzero(self._state == _VALID))
        open_ones = int(np.count_nonzero(self._state[: self._sent] == _OPEN))
        found = {verdicts.LATE: self._late, verdicts.MISSING: open_ones, **self._reasons}
        health = self._health()
        return {
            "sent": self._sent - health["unsent"],
            "received": received,
            "late": self._late,
            "surplus": self._surplus,
            "open": open_ones,
            "reasons": {reason: count for reason, count in found.items() if count},
            "wrong": self._wrong,
            "delay_us": summary_us(self._delays),
            "unanswered": np.nonzero(self._state != _VALID)[0][:1].tolist(),
            **health,
        }
