"""The receiving role: recognises, counts and samples the frames of one direction."""

from __future__ import annotations

import select
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from v6t.drivers.delays import summary_us
from v6t.drivers.embedded.connections import ReceiverConnections
from v6t.drivers.embedded.timing import (
    Arrivals,
    ClassTimes,
    Gap,
    Wanted,
    class_times,
    lost_between,
    unsent,
)
from v6t.drivers.lab.ring import RxRing
from v6t.drivers.neighbours import Hosts, asking
from v6t.drivers.oracle.compare import compare_samples, merge_comparisons, missing_example
from v6t.packets import trailer
from v6t.packets.direction import Direction
from v6t.profiles.model import Role
from v6t.profiles.streams import Stream, StreamSet

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.drivers.oracle.connection_oracle import TableAt
    from v6t.drivers.tester import Oracle

SAMPLES = 1000
"""Frames per stream and trial that are compared with the reference translation, about."""
DELAYS = 1 << 20
"""Delays kept per trial at most; above that, a regular sample."""
SHORTEST_TEST_FRAME = 14 + trailer.LENGTH
"""An Ethernet header and a mark, without FCS; whatever protocols are in between."""


@dataclass
class Tally:
    """What came back of one stream."""

    stream: Stream
    required: int
    stride: int
    seen: NDArray[np.bool_]
    total: int = 0
    highest: int = -1
    out_of_order: int = 0
    late: int = 0
    times: ClassTimes | None = None
    skipped: NDArray[np.bool_] | None = None
    samples: list[NDArray[np.uint8]] = field(default_factory=list)

    def gone(self) -> NDArray[np.intp]:
        """Sequence numbers of what was sent and did not come back."""
        there = self.seen if self.skipped is None else self.seen | self.skipped
        return np.nonzero(~there)[0]


class Receiver:
    """Receives on one interface.

    Args:
        interface: where to listen.
        frame_octets: longest frame, without FCS.
        hosts: who is played there, and answered for.
    """

    def __init__(
        self, interface: str, frame_octets: int, hosts: Mapping[str, Any] | None = None
    ) -> None:
        self._ring = RxRing(interface, frame_octets)
        self._hosts = None if hosts is None else Hosts(**hosts)
        self._answered = 0
        self._tallies: dict[int, Tally] = {}
        self._nonce = -1
        self._reset()
        self._streams: StreamSet | None = None
        self._oracle: Oracle | None = None
        self._direction: Direction = "forward"
        self._connections = ReceiverConnections()
        self._ids = np.zeros(1 << 16, dtype=bool)

    def _reset(self) -> None:
        self._control = 0
        self._answered = 0
        self._stale = self._misnumbered = 0
        self._gap = Gap()
        self._timeout_ns: int | None = None
        self._delays: list[NDArray[np.int64]] = []

    def idle(self, pipe: Connection) -> None:
        """Take frames until a request waits."""
        poll = select.poll()
        poll.register(pipe.fileno(), select.POLLIN)
        poll.register(self._ring.socket, select.POLLIN | select.POLLERR)
        while not pipe.poll(0):
            if not self._drain():
                poll.poll(200)

    def load(
        self,
        streams: StreamSet,
        oracle: Oracle | None,
        direction: Direction,
        connections: ReceiverConnections | None = None,
    ) -> None:
        """Tell what will arrive.

        Args:
            streams: of the other end.
            oracle: None means unchanged frames (loopback).
            direction: they come in.
            connections: what is known of connections; None: the device is stateless.
        """
        self._streams, self._oracle, self._direction = streams, oracle, direction
        self._ids[:] = False
        self._ids[[stream.stream_id for stream in streams.streams]] = True
        self._connections = connections or ReceiverConnections()

    def introduce(self) -> None:
        """Have the hosts ask for the device, so that it learns them."""
        for frame in () if self._hosts is None else self._hosts.introductions():
            self._ring.send(frame)

    def arm(
        self,
        *,
        required: dict[str, int],
        nonce: int,
        wanted: Wanted,
        table: TableAt | None = None,
        learn: bool = False,
    ) -> None:
        """Forget what was counted and expect a new trial.

        Args:
            required: frames by stream name.
            nonce: the trial's number.
            wanted: the trial, for what it asks to be timed.
            table: connections the foreground belongs to.
            learn: this is phase 1: remember the four-tuples that come.
        """
        if self._streams is None:
            raise ValueError("nothing is loaded")
        self._drain()
        self._reset()
        self._ring.drops()
        self._dropped_before = self._interface_drops()
        self._nonce = nonce
        self._delay_stride = max(1, -(-wanted.trial.frames // DELAYS))
        limit = wanted.trial.frame_timeout_s
        self._timeout_ns = None if limit is None else round(limit * 1e9)
        self._oracle = self._connections.arm(self._oracle, table, self._streams, learn)
        self._wanted = wanted
        self._arrivals = Arrivals(wanted)
        self._tallies = {}
        streams = self._streams.streams
        turns = [required[s.name] for s in streams]
        skipped = [unsent(wanted, number, count) for number, count in enumerate(turns)]
        times = class_times(wanted, turns, skipped)
        for number, stream in enumerate(streams):
            count = required[stream.name]
            self._tallies[stream.stream_id] = Tally(
                stream,
                count,
                max(1, count // SAMPLES),
                np.zeros(count, dtype=bool),
                times=times[number] if times else None,
                skipped=skipped[number],
            )

    def report(self) -> dict[str, Any]:
        """Return counts, comparison and health of the trial since :meth:`arm`."""
        self._drain()
        streams = {}
        found = []
        missing = None
        gone: dict[int, NDArray[np.intp]] = {}
        for number, tally in enumerate(self._tallies.values()):
            received = int(np.count_nonzero(tally.seen))
            streams[tally.stream.name] = {
                "received": received,
                "surplus": tally.total - received - tally.late,
                "out_of_order": tally.out_of_order,
                "late": tally.late,
            }
            if tally.stream.role is Role.NEGATIVE:
                continue
            source = self._connections.source(tally.stream)
            found.append(
                compare_samples(
                    tally.stream,
                    tally.samples,
                    self._nonce,
                    self._direction,
                    self._oracle,
                    source=source,
                )
            )
            gone[number] = tally.gone()
            if len(gone[number]) and missing is None and not self._connections.learning:
                missing = missing_example(
                    tally.stream, int(gone[number][0]), self._direction, self._oracle, source
                )
        compared = merge_comparisons(found)
        self._nonce = -1
        back = [t for t in self._tallies.values() if t.stream.role is not Role.NEGATIVE]
        first_lost, last_lost = lost_between(self._wanted, gone)
        asked = self._wanted.trial.delays
        return {
            "streams": streams,
            "delays": {t.stream.name: t.times.delays() for t in back if t.times} or None,
            "ipdv": {t.stream.name: t.times.ipdv() for t in back if t.times}
            if asked is not None and asked.ipdv
            else None,
            "first_lost_s": first_lost,
            "last_lost_s": last_lost,
            "longest_gap_s": self._gap.longest_s,
            "timeline": self._arrivals.course(gone),
            "control": self._control,
            "stale": self._stale,
            "misnumbered": self._misnumbered,
            "answered": self._answered,
            "checked": compared.checked,
            "matched": compared.matched,
            "mismatch": compared.mismatch,
            "behaviour": compared.seen or None,
            "missing": missing,
            "ring_drops": self._ring.drops(),
            "interface_drops": self._interface_drops() - self._dropped_before,
            "delay_us": summary_us(self._delays),
            **self._connections.report(),
        }

    def _drain(self) -> bool:
        """Take what is there; False if there was nothing."""
        groups = self._ring.take()
        for frames, times in groups:
            self._count(frames, times)
        self._ring.release()
        return bool(groups)

    def _count(self, frames: NDArray[np.uint8], times: NDArray[np.int64]) -> None:
        if frames.shape[1] < SHORTEST_TEST_FRAME:
            self._handle_control_frames(frames)
            return
        marks = trailer.read(frames)
        ours = marks.magic_ok & self._ids[marks.stream_id]
        current = ours & (marks.nonce == self._nonce)
        if not current.all():
            self._handle_control_frames(frames[~ours])
            self._stale += int(np.count_nonzero(ours & ~current))
        known = np.zeros(len(frames), dtype=bool)
        for place, (number, tally) in enumerate(self._tallies.items()):
            mine = current & (marks.stream_id == number) & (marks.seq < tally.required)
            if not mine.any():
                continue
            known |= mine
            if tally.stream.role is not Role.NEGATIVE:
                first = int(mine.argmax())
                self._arrivals.add(
                    times[mine], place, int(marks.seq[first]), int(marks.time_ns[first])
                )
            delays = (times - marks.time_ns.astype(np.int64))[mine]
            if self._connections.learning:
                self._connections.learn(
                    tally.stream, frames, marks.seq, mine & ~_seen(tally, marks.seq)
                )
            _tally(tally, frames, marks.seq, mine, delays, self._timeout_ns)
        self._misnumbered += int(np.count_nonzero(current & ~known))
        if known.any():
            self._gap.add(times[known])
            delays = (times - marks.time_ns.astype(np.int64))[known]
            self._delays.append(delays[:: self._delay_stride])

    def _handle_control_frames(self, frames: NDArray[np.uint8]) -> None:
        """Control frames; who asks for a host is answered."""
        self._control += len(frames)
        for answer in () if self._hosts is None else self._hosts.answers_to(asking(frames)):
            self._ring.send(answer)
            self._answered += 1

    def _interface_drops(self) -> int:
        return interface_drops(self._ring.interface)


def interface_drops(interface: str) -> int:
    """Frames the kernel dropped before any ring, from this namespace's counters."""
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name.strip() == interface:
            figures = rest.split()
            return int(figures[2]) + int(figures[3])
    return 0


def _seen(tally: Tally, numbers: NDArray[np.uint32]) -> NDArray[np.bool_]:
    within = numbers < tally.required
    seen = np.zeros(len(numbers), dtype=bool)
    seen[within] = tally.seen[numbers[within]]
    return seen


def _tally(
    tally: Tally,
    frames: NDArray[np.uint8],
    numbers: NDArray[np.uint32],
    mine: NDArray[np.bool_],
    delays_ns: NDArray[np.int64],
    timeout_ns: int | None,
) -> None:
    seq = numbers[mine].astype(np.int64)
    tally.total += len(seq)
    high = np.maximum.accumulate(seq)
    tally.out_of_order += int(np.count_nonzero(seq[1:] < high[:-1]))
    tally.out_of_order += int(seq[0] < tally.highest)
    tally.highest = max(tally.highest, int(high[-1]))
    sampled = mine.copy()
    sampled[mine] = seq % tally.stride == 0
    if sampled.any():
        tally.samples.append(frames[sampled])
    if timeout_ns is not None:
        in_time = delays_ns <= timeout_ns
        tally.late += int(np.count_nonzero(~in_time))
        seq, delays_ns = seq[in_time], delays_ns[in_time]
    if tally.times is not None:
        new, first = np.unique(seq, return_index=True)  # of duplicates the first counts
        fresh = ~tally.seen[new]
        tally.times.add(new[fresh], delays_ns[first[fresh]])
    tally.seen[seq] = True
