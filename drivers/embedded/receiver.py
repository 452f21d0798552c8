"""The receiving role: recognises, counts and samples the frames of one direction."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from v6t.drivers.delays import summarize_us
from v6t.drivers.embedded.port import HostPort
from v6t.drivers.embedded.timing import Arrivals, ClassDelays, TimedTrial
from v6t.drivers.oracle.compare import compare_samples, describe_missing_frame, merge_comparisons
from v6t.drivers.oracle.connection_oracle import (
    ConnectionOracle,
    TableLocation,
    find_foreground,
    list_foregrounds,
    make_connection_source,
)
from v6t.drivers.oracle.replay import FrameSource
from v6t.drivers.oracle.state_table import StateTable, count_inside_endpoints, describe_duplicates
from v6t.drivers.tester import Oracle
from v6t.packets import trailer
from v6t.packets.arrays import I64, U8, U32, Mask
from v6t.packets.direction import Direction
from v6t.packets.walker import locate_endpoints
from v6t.profiles.model import Role
from v6t.profiles.streams import Stream, StreamSet

SAMPLES_PER_STREAM = 1000  # Frames per trial that are compared, about
MAX_DELAYS = 1 << 20  # Delays kept per trial; of more, a regular sample
SHORTEST_TEST_FRAME = 14 + trailer.LENGTH  # Ethernet header and trailer, without FCS [octets]


@dataclass
class ReceiverConnections:
    """The connections to which a receiver's frames belong."""

    oracle: Oracle | None = None  # Oracle of their frames; None in loopback or if stateless
    inner: ConnectionOracle | None = None  # Part of the oracle that is bound to a table
    learning: bool = False  # Whether this is a trial of phase 1
    _table: StateTable | None = None
    _initial: Stream | None = None
    sources: Mapping[int, FrameSource] = field(default_factory=dict)
    """Sources by stream number; the frames of other streams are sent as compiled."""
    _inside: tuple[int, int | None] = (0, None)

    def arm(
        self, oracle: Oracle | None, at: TableLocation | None, streams: StreamSet, learn: bool
    ) -> Oracle | None:
        """Prepare for a trial, with or without connections; return the oracle of its frames."""
        self.learning = learn
        self._table = self._initial = None
        self.sources = {}
        if at is None:
            return oracle
        self._initial = find_foreground(streams)
        self._table = at.map()
        if self.inner is not None:
            self.inner.bind(at)
        if not learn:
            direction, known = streams.direction, list_foregrounds(streams)
            self.sources = {s.stream_id: make_connection_source(direction, s, at) for s in known}
        return self.oracle or oracle

    def learn(self, stream: Stream, frames: U8, numbers: U32, fresh: Mask) -> None:
        """Store the four-tuples of the ``fresh`` frames, received for the first time, in the table."""
        rows = np.flatnonzero(fresh)
        if self._table is None or self._initial is None or not len(rows):
            return
        if stream.stream_id == self._initial.stream_id:
            where = locate_endpoints(frames[rows[0]]).row
            self._table.learn(numbers[rows].astype(np.int64), frames[:, where][rows])

    def report(self) -> dict[str, Any]:
        """Return the fields of PhaseCounts for learned connections; empty except in phase 1."""
        table = self._table
        if not self.learning or table is None or self._initial is None:
            return {}
        if self._inside[0] != table.count:  # counted once for each number of connections
            self._inside = table.count, count_inside_endpoints(self._initial, table.count)
        return {**describe_duplicates(table), "inside_endpoints": self._inside[1]}


@dataclass
class StreamTally:
    """Counts of the received frames of one stream."""

    stream: Stream
    required: int  # Number of scheduled frames
    stride: int  # Every ``stride``-th frame is kept for comparison
    seen: Mask  # Mask of sequence numbers received in time
    total: int = 0
    highest: int = -1  # Highest sequence number so far
    out_of_order: int = 0
    late: Mask | None = None  # Mask of sequence numbers received after the timeout
    delays: ClassDelays | None = None
    unsent: Mask | None = None  # Mask of scheduled frames that are skipped
    samples: list[U8] = field(default_factory=list)

    @property
    def is_negative(self) -> bool:
        return self.stream.role is Role.NEGATIVE

    def list_lost(self) -> NDArray[np.intp]:
        """Return the sequence numbers of lost frames."""
        return np.nonzero(~(self.seen if self.unsent is None else self.seen | self.unsent))[0]

    def add(
        self, frames: U8, numbers: U32, mine: Mask, delays_ns: I64, timeout_ns: int | None
    ) -> None:
        """Count the stream's frames, the rows ``mine`` of a batch; only these have ``delays_ns``."""
        seq = numbers[mine].astype(np.int64)
        self.total += len(seq)
        high = np.maximum.accumulate(seq)
        self.out_of_order += int(np.count_nonzero(seq[1:] < high[:-1]))
        self.out_of_order += int(seq[0] < self.highest)
        self.highest = max(self.highest, int(high[-1]))
        sampled = mine.copy()
        sampled[mine] = seq % self.stride == 0
        if sampled.any():
            self.samples.append(frames[sampled])
        if timeout_ns is not None:
            in_time = delays_ns <= timeout_ns
            if self.late is None:
                self.late = np.zeros(self.required, dtype=bool)
            self.late[seq[~in_time]] = True
            seq, delays_ns = seq[in_time], delays_ns[in_time]
        if self.delays is not None:
            new, first = np.unique(seq, return_index=True)  # the first of duplicates counts
            fresh = ~self.seen[new]
            self.delays.add(new[fresh], delays_ns[first[fresh]])
        self.seen[seq] = True


class Receiver(HostPort):
    """Receives the streams of one direction on one interface; see :class:`HostPort`."""

    _streams: StreamSet

    def __init__(
        self, interface: str, frame_octets: int, hosts: Mapping[str, Any] | None = None
    ) -> None:
        self._tallies: dict[int, StreamTally] = {}
        self._nonce = -1
        self._oracle: Oracle | None = None
        self._direction: Direction = "forward"
        self._connections = ReceiverConnections()
        self._ids = np.zeros(1 << 16, dtype=bool)
        super().__init__(interface, frame_octets, hosts)

    def _reset_counters(self) -> None:
        super()._reset_counters()
        self._stale = self._misnumbered = 0
        self._last_ns: int | None = None
        self._came_ns: list[I64] = []
        self._longest_gap_ns = 0
        self._delays: list[I64] = []

    def load(
        self,
        streams: StreamSet,
        oracle: Oracle | None,
        direction: Direction,
        connections: ReceiverConnections | None = None,
    ) -> None:
        """Set the expected streams; without an oracle (loopback), frames must return unchanged."""
        self._streams, self._oracle, self._direction = streams, oracle, direction
        self._ids[:] = False
        self._ids[[stream.stream_id for stream in streams.streams]] = True
        self._connections = connections or ReceiverConnections()

    def arm(
        self,
        *,
        required: dict[str, int],
        nonce: int,
        timed: TimedTrial,
        table: TableLocation | None = None,
        learn: bool = False,
    ) -> None:
        """Prepare for a trial with ``required`` frames by stream; phase 1 (``learn``) fills the table."""
        self._drain_all()
        self._reset_counters()
        self._nonce = nonce
        self._delay_stride = max(1, -(-timed.trial.frames // MAX_DELAYS))
        self._delay_skip = 0  # Frames before the next one whose delay is kept
        limit = timed.trial.frame_timeout_s
        self._timeout_ns = None if limit is None else round(limit * 1e9)
        self._oracle = self._connections.arm(self._oracle, table, self._streams, learn)
        self._timed = timed
        self._arrivals = Arrivals(timed)
        streams = self._streams.streams
        turns = [required[s.name] for s in streams]
        unsent = [timed.find_unsent(number, count) for number, count in enumerate(turns)]
        delays = timed.make_class_delays(turns, unsent)
        self._tallies = {}
        for stream, count, collector, gone in zip(streams, turns, delays, unsent, strict=True):
            stride, seen = max(1, count // SAMPLES_PER_STREAM), np.zeros(count, dtype=bool)
            tally = StreamTally(stream, count, stride, seen, delays=collector, unsent=gone)
            self._tallies[stream.stream_id] = tally

    def report(self) -> dict[str, Any]:
        """Return the counts since :meth:`arm`.

        Returns:
            ``classes``: counts by stream name; ``result``: fields of a DirectionResult; ``health``:
            figures of the receiver; ``learned``: fields of PhaseCounts from phase 1.
        """
        self._drain_all()
        compared = []
        missing = None
        lost: dict[int, NDArray[np.intp]] = {}
        nonce, self._nonce = self._nonce, -1
        for number, tally in enumerate(self._tallies.values()):
            if tally.is_negative:
                continue
            stream, judges = tally.stream, (self._direction, self._oracle)
            source = self._connections.sources.get(stream.stream_id)
            compared.append(compare_samples(stream, tally.samples, nonce, *judges, source=source))
            lost[number] = tally.list_lost()
            if len(lost[number]) and missing is None and not self._connections.learning:
                missing = describe_missing_frame(stream, int(lost[number][0]), *judges, source)
        comparison = merge_comparisons(compared)
        lost_s = self._timed.list_due_s(lost)
        asked = self._timed.trial.delays
        timed = {t.stream.name: t.delays for t in self._tallies.values() if not t.is_negative}
        return {
            "classes": {t.stream.name: _count_frames(t) for t in self._tallies.values()},
            "result": {
                "delays": {n: t.make_distribution() for n, t in timed.items() if t} or None,
                "ipdv": {n: t.make_ipdv() for n, t in timed.items() if t}
                if asked is not None and asked.ipdv
                else None,
                "first_lost_s": float(lost_s.min()) if len(lost_s) else None,
                "last_lost_s": float(lost_s.max()) if len(lost_s) else None,
                "longest_gap_s": None if self._last_ns is None else self._longest_gap_ns / 1e9,
                "timeline": self._arrivals.make_timeline(lost_s),
                "control": self._control,
                "checked": comparison.checked,
                "matched": comparison.matched,
                "mismatch": comparison.mismatch,
                "behaviour": comparison.seen or None,
                "missing": missing,
                "delay_us": summarize_us(self._delays),
            },
            "health": {
                **self._read_losses(),
                "stale": self._stale,
                "misnumbered": self._misnumbered,
                "answered": self._answered,
            },
            "learned": self._connections.report(),
        }

    def _drain(self) -> int:
        taken = super()._drain()
        if self._came_ns:  # the groups of different lengths together
            came = np.sort(np.concatenate(self._came_ns))
            before = came[0] if self._last_ns is None else self._last_ns
            gap = int(np.diff(came, prepend=before).max())
            self._longest_gap_ns = max(self._longest_gap_ns, gap)
            self._last_ns, self._came_ns = int(came[-1]), []
        return taken

    def _receive(self, frames: U8, times: I64) -> None:
        if frames.shape[1] < SHORTEST_TEST_FRAME:
            self._handle_control_frames(frames)
            return
        marks = trailer.read(frames)
        ours = marks.magic_ok & self._ids[marks.stream_id]
        current = ours & (marks.nonce == self._nonce)
        if not current.all():
            self._handle_control_frames(frames[~ours])
            self._stale += int(np.count_nonzero(ours & ~current))
        delays = times - marks.time_ns.astype(np.int64)
        known = np.zeros(len(frames), dtype=bool)
        for place, (number, tally) in enumerate(self._tallies.items()):
            mine = current & (marks.stream_id == number) & (marks.seq < tally.required)
            if not mine.any():
                continue
            known |= mine
            if not tally.is_negative:
                first = int(mine.argmax())
                seq, sent_ns = int(marks.seq[first]), int(marks.time_ns[first])
                self._arrivals.add_batch(times[mine], place, seq, sent_ns)
            if self._connections.learning:
                fresh = mine.copy()
                fresh[mine] = ~tally.seen[marks.seq[mine]]
                self._connections.learn(tally.stream, frames, marks.seq, fresh)
            tally.add(frames, marks.seq, mine, delays[mine], self._timeout_ns)
        self._misnumbered += int(np.count_nonzero(current & ~known))
        if known.any():
            self._came_ns.append(times[known])
            self._delays.append(delays[known][self._delay_skip :: self._delay_stride])
            self._delay_skip = (self._delay_skip - len(self._came_ns[-1])) % self._delay_stride


def _count_frames(tally: StreamTally) -> dict[str, int]:
    received = int(np.count_nonzero(tally.seen))
    late = 0 if tally.late is None else int(np.count_nonzero(tally.late & ~tally.seen))
    return {
        "received": received,
        "surplus": tally.total - received - late,
        "out_of_order": tally.out_of_order,
        "late": late,
    }
