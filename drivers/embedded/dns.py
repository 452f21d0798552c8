"""Trials of name resolution: a client asks and judges on the left, an authority answers on the right."""

import math
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np
from v6t.base.errors import TesterError
from v6t.drivers import clock
from v6t.drivers.delays import summarize_us
from v6t.drivers.embedded.port import TICK_S, ClientPort, ServerPort, summarize_exchange
from v6t.drivers.embedded.sender import LEAD_S
from v6t.drivers.embedded.timing import Pace
from v6t.drivers.lab.namespaces import LEFT, RIGHT
from v6t.drivers.lab.workers import DEADLINE_S, Worker
from v6t.intent.device import Links, make_host_arguments
from v6t.packets.arrays import I64, U8, Mask
from v6t.packets.headers import UDP, to_numbers, view
from v6t.profiles.dns import messages
from v6t.profiles.dns.envelope import DNS_PORT, DnsLayout
from v6t.profiles.dns.zone import Zone
from v6t.trials.result import Answers, ClassCount, DirectionResult, TrialResult
from v6t.trials.trial import Queries, Trial

PORT_BLOCKS = 128
"""Trials until ports are used again: an answer to an earlier trial is recognized by its port."""
_OPEN, _VALID, _WRONG = 0, 1, 2
CACHING_QPS, CACHING_ROUNDS, CACHING_TIMEOUT_S = 500.0, 5, 1.0
"""Rate of queries that fill the cache, which every server answers; number of queries for an
unanswered name; and time limit of an answer."""


class DnsAuthority(ServerPort):
    """Worker that answers all questions at port 53 of one interface."""

    def __init__(self, layout: DnsLayout, zone: Zone, **port: Any) -> None:
        self._layout, self._authority = layout, messages.Authority(zone)
        super().__init__(**port)

    def arm(self, *, own_share: float, cached: int) -> None:
        """Prepare for a trial; see :class:`Authority` for the answers."""
        self._drain_all()
        self._reset_counters()
        self._authority.native_share, self._authority.cached = own_share, cached
        self.reset_counts()

    def reset_counts(self) -> None:
        """Reset the counts of questions, and how long they waited."""
        self._authority.counts, self._wait_s = messages.QuestionCounts(), 0.0

    def report(self) -> dict[str, Any]:
        self._drain_all()
        return {**asdict(self._authority.counts), **self._read_health(), "wait_s": self._wait_s}

    def _select_exchange_frames(self, frames: U8) -> Mask:
        return self._layout.select_frames(frames)

    def _handle_frames(self, frames: U8, times: I64) -> None:
        at = self._layout.dns_offset
        frames = frames[view(frames, UDP, self._layout.udp_offset)["dport"] == DNS_PORT]
        if not len(frames):
            return
        # what follows a short datagram is padding of the frame
        octets = int(view(frames, UDP, self._layout.udp_offset)["len"][0]) - 8
        for rows, answers in self._authority.answer(frames[:, at : at + octets]):
            replies = self._layout.make_replies(frames[rows], answers.shape[1])
            replies[:, at:] = answers
            self._layout.write_lengths(replies)
            self._tx.send(replies)


@dataclass(frozen=True)
class QueryNames:
    """Indexes of the names that the queries of a trial ask for."""

    new: range  # Indexes of the new names, which are used again when all were
    used: int = 0  # New names that earlier trials queried
    cached: float = 0.0  # Share of the queries for names in the cache
    known: int = 0  # Names in the cache; 0: no query is for them

    def compute_name_indexes(self, queries: I64) -> I64:
        """Return, for each query, the index of the name that it asks for."""
        cached = self.cached if self.known else 0.0
        before = np.floor(queries * cached).astype(np.int64)
        again = np.floor((queries + 1) * cached).astype(np.int64) > before
        new = self.new.start + (self.used + queries - before) % len(self.new)
        return np.where(again, before % max(1, self.known), new)

    def count_fresh(self, queries: int) -> int:
        """Return the number of new names that a number of queries uses."""
        return queries - int(np.floor(queries * self.cached)) if self.known else queries


class DnsClient(ClientPort):
    """Worker that sends queries and judges the answers; ``header`` precedes the DNS message in a frame."""

    def __init__(self, layout: DnsLayout, zone: Zone, header: bytes, **port: Any) -> None:
        self._layout = layout
        self._zone = zone
        self._template = np.frombuffer(header + messages.build_question(), np.uint8)
        self._run = 0
        self._expect(0, QueryNames(range(zone.count)), 0.0, 1.0)
        super().__init__(**port)

    def ask(
        self,
        *,
        pace: Pace,
        start: float,
        names: QueryNames,
        own_share: float,
        timeout_s: float,
        wait_s: float,
    ) -> dict[str, Any]:
        """Run one trial.

        Args:
            start: time at which the first query is due [s, CLOCK_MONOTONIC].
            own_share: share of the names that have an AAAA record in the zone.
            timeout_s: longest time to a valid answer [s].
            wait_s: time to wait for answers after the last query [s].

        Returns:
            Counts, ``reasons``, the first ``wrong`` answer, times, and health of the port.
        """
        self._drain_all()
        self._reset_counters()
        self._expect(pace.frames, names, own_share, timeout_s)
        lateness = self._send_all(pace, start)
        ended = time.monotonic()
        while self._answered_queries < self._sent and time.monotonic() < ended + wait_s:
            time.sleep(TICK_S if self._drain() else 5 * TICK_S)
        self._drain_all()
        open_ones = int(np.count_nonzero(self._state[: self._sent] == _OPEN))
        reasons = {messages.LATE: self._late, messages.MISSING: open_ones, **self._reasons}
        health = self._read_health()
        return {
            "sent": self._sent - health["unsent"],
            "received": int(np.count_nonzero(self._state == _VALID)),
            "late": self._late,
            "surplus": self._surplus,
            "open": open_ones,
            "reasons": {reason: count for reason, count in reasons.items() if count},
            "wrong": self._wrong,
            "delay_us": summarize_us(self._delays),
            "unanswered": np.nonzero(self._state != _VALID)[0][:1].tolist(),
            **health,
            "sending_time_s": self._sent_by - start,
            "lateness_s": lateness,
        }

    def _expect(self, queries: int, names: QueryNames, own_share: float, timeout_s: float) -> None:
        """Reset the state for a trial."""
        self._run += 1
        low, count = self._zone.ports
        self._ports = low + self._run % PORT_BLOCKS * count, count
        self._names, self._own_share = names, own_share
        self._timeout_ns = round(timeout_s * 1e9)
        self._sent = self._answered_queries = self._late = self._surplus = 0
        self._times = np.zeros(queries, np.int64)
        self._state = np.zeros(queries, np.uint8)
        self._reasons: Counter[str] = Counter()
        self._wrong: dict[str, str] | None = None
        self._delays: list[I64] = []

    def _select_exchange_frames(self, frames: U8) -> Mask:
        return self._layout.select_frames(frames)

    def _send(self, wanted: int) -> None:
        room = self._tx.get_free_slots(wanted)
        count, length = len(room), len(self._template)
        self._write(room[:, :length], np.arange(self._sent, self._sent + count))
        self._times[self._sent : self._sent + count] = time.time_ns()
        self._tx.commit(count, length)
        self._sent += count

    def _write(self, rows: U8, queries: I64) -> None:
        low, ports = self._ports
        rows[:] = self._template
        addresses = self._zone.list_addresses(self._names.compute_name_indexes(queries))
        messages.write_questions(
            rows[:, self._layout.dns_offset :], queries // ports & 0xFFFF, addresses
        )
        header = view(rows, UDP, self._layout.udp_offset)
        header["sport"], header["dport"] = low + queries % ports, DNS_PORT
        self._layout.write_lengths(rows)

    def _handle_frames(self, frames: U8, times: I64) -> None:
        low, ports = self._ports
        at = self._layout.dns_offset
        header = view(frames, UDP, self._layout.udp_offset)
        port = header["dport"].astype(np.int64) - low
        ours = (header["sport"] == DNS_PORT) & (port >= 0) & (port < ports)
        # the youngest query with this port and identifier
        rest = to_numbers(frames[:, at : at + 2]).astype(np.int64) * ports + port
        period = ports << 16
        queries = rest + (self._sent - 1 - rest) // period * period
        ours &= queries >= 0
        if not ours.all():
            self._reasons[messages.STRAY] += int(np.count_nonzero(~ours))
            frames, times, queries = frames[ours], times[ours], queries[ours]
        if not len(queries):
            return
        addresses = self._zone.list_addresses(self._names.compute_name_indexes(queries))
        expected = self._zone.list_expected_records(addresses, self._own_share)
        judged = messages.judge_answers(frames[:, at:], addresses, expected)
        for row, reason in judged.reasons.items():
            if self._wrong is None and reason in messages.WRONG_ANSWERS:
                query = int(queries[row])
                self._wrong = self._describe_wrong_answer(frames[row], query, expected[row], reason)
        self._count(queries, times - self._times[queries], judged)

    def _count(self, queries: I64, delays: I64, verdicts: messages.AnswerVerdicts) -> None:
        first = np.zeros(len(queries), bool)
        first[np.unique(queries, return_index=True)[1]] = True
        first &= self._state[queries] == _OPEN
        self._surplus += int(np.count_nonzero(~first))
        self._answered_queries += int(np.count_nonzero(first))
        in_time = delays <= self._timeout_ns
        good = first & verdicts.valid & in_time
        self._state[queries[first]] = _WRONG
        self._state[queries[good]] = _VALID
        self._late += int(np.count_nonzero(first & verdicts.valid & ~in_time))
        for row, reason in verdicts.reasons.items():
            self._reasons[reason] += int(first[row])
        self._delays.append(delays[good])

    def _describe_wrong_answer(
        self, frame: U8, query: int, expected: U8, reason: str
    ) -> dict[str, str]:
        sent = np.empty((1, len(self._template)), np.uint8)
        self._write(sent, np.array([query]))
        right = frame.copy()[None, :]
        data = self._layout.dns_offset + messages.QUESTION_END + 12
        has_record = reason == messages.WRONG and right.shape[1] >= data + 16
        if has_record:
            right[0, data : data + 16] = expected
            self._layout.write_lengths(right)
        return {
            "class": "queries",
            "sent": sent.tobytes().hex(),
            "expected": right.tobytes().hex() if has_record else "",
            "received": frame.tobytes().hex(),
            "why": reason,
        }


class DnsTrials:
    """Runs trials with a client and an authority as workers.

    Args:
        place: namespace of the workers, and their longest frame.
        loopback: whether the ports are joined, so that queries reach the authority directly.
    """

    def __init__(
        self, links: Links, zone: Zone, place: Mapping[str, Any], *, loopback: bool
    ) -> None:
        self.zone = zone
        self._used = 0
        left, right = links.get_link(LEFT), links.get_link(RIGHT)
        behind = DnsLayout(zone.server.version, right.vlan)
        before = behind if loopback else DnsLayout(6, left.vlan)
        ends = (zone.egress, zone.server) if loopback else (zone.client, zone.resolver)
        header = before.build_header((left.tester_mac, left.dut_mac), *ends)
        hosts = [None if loopback else make_host_arguments(link) for link in (left, right)]
        client: dict[str, Any] = {"interface": LEFT, "hosts": hosts[0], "zone": zone, **place}
        server: dict[str, Any] = {"interface": RIGHT, "hosts": hosts[1], "zone": zone, **place}
        self._client = Worker("client", DnsClient, layout=before, header=header, **client)
        self._server = Worker("authority", DnsAuthority, layout=behind, **server)
        for worker in (self._client, self._server):
            worker.answer()

    def measure(self, trial: Trial) -> TrialResult:
        if (queries := trial.queries) is None:
            raise TesterError("a name resolver does not forward frames", code="no-frames")
        for worker in (self._client, self._server):
            worker.ask("introduce_hosts")
        time.sleep(trial.pause_s)
        own_share = 1.0 if queries.is_selftest else queries.native_aaaa_share
        self._server.ask("arm", own_share=own_share, cached=queries.cached_names)
        known = self._fill_cache(queries) if queries.cached_share else 0
        self._server.ask("reset_counts")
        clocks = clock.read()
        started = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        new = range(queries.cached_names, self.zone.count)  # the first names are for the cache
        names = QueryNames(new, self._used, queries.cached_share, known)
        pace, wait_s = Pace.from_trial(trial), trial.residual_wait_s
        sent = self._ask(pace, names, own_share, queries.timeout_s, wait_s)
        self._used += names.count_fresh(trial.frames)
        heard = self._server.ask("report")
        faults, health = summarize_exchange(sent, heard, queries.timeout_s, clocks)
        reasons = sent["reasons"]
        counts = {name: sent[name] for name in ("sent", "received", "surplus", "late")}
        result = DirectionResult(
            classes={"queries": ClassCount("foreground", trial.frames, **counts)},
            sending_time_s=sent["sending_time_s"],
            control=sent["control"] + heard["control"],
            checked=sent["received"] + sum(reasons.values()) - sent["late"] - sent["open"],
            matched=sent["received"],
            mismatch=sent["wrong"],
            delay_us=sent["delay_us"],
            answers=Answers(
                reasons, heard["aaaa"], heard["a"], heard["repeated"], heard["other"], known
            ),
        )
        return TrialResult({"forward": result}, faults=faults, started=started, tester=health)

    def _fill_cache(self, queries: Queries) -> int:
        """Query the names to be cached until all are answered; return the number of cached names."""
        pace, wait = Pace(((queries.cached_names, CACHING_QPS),)), CACHING_TIMEOUT_S
        names = QueryNames(range(queries.cached_names))
        unanswered: list[int] = []
        for _ in range(CACHING_ROUNDS):
            report = self._ask(pace, names, queries.native_aaaa_share, wait, wait)
            if not (unanswered := report["unanswered"]):
                return queries.cached_names
        return unanswered[0]

    def _ask(
        self, pace: Pace, names: QueryNames, own_share: float, timeout_s: float, wait_s: float
    ) -> dict[str, Any]:
        deadline_s = math.ceil(2 * pace.compute_due_s(pace.frames) + wait_s + DEADLINE_S)
        when = {"start": time.monotonic() + LEAD_S, "timeout_s": timeout_s, "wait_s": wait_s}
        queries = {"pace": pace, "names": names, "own_share": own_share}
        report: dict[str, Any] = self._client.ask("ask", deadline_s, **queries, **when)
        return report

    def close(self) -> None:
        self._client.close()
        self._server.close()
