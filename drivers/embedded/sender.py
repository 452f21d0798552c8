"""The sending role: the streams of one direction at a constant rate into a transmit ring."""

import time
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from v6t.drivers.embedded.timing import Pace, select_started
from v6t.drivers.lab.ring import TxRing
from v6t.drivers.oracle.connection_oracle import (
    TableLocation,
    find_foreground,
    list_foregrounds,
    make_connection_source,
)
from v6t.drivers.oracle.replay import FrameSource
from v6t.packets import trailer
from v6t.packets.arrays import U8, U32
from v6t.profiles.compiler.schedule import count_frames, list_classes_with_index
from v6t.profiles.expand import Expander
from v6t.profiles.streams import Stream, StreamSet

LEAD_S = 0.05  # Time between the start request and the first frame, in which workers get ready
BATCH = 512  # Largest number of frames per system call
TIMED_BATCH = 32  # The same in timed trials: all frames of a batch are stamped at once
LONGEST_SLEEP_S = 0.05
SHORTEST_SLEEP_S = 0.00008
MAX_OVERTIME = 1.5  # Multiple of a trial's duration after which sending is given up
MAX_BURST_S = 0.05  # Longest delay that is caught up: wake-ups on a busy machine are that late


class SendingSchedule:
    """Schedule for sending a trial's frames, beginning at a time [s, CLOCK_MONOTONIC].

    Frames that are due leave at once. After a stall these are the frames of ``MAX_BURST_S``: a longer burst
    would test the device at another rate. All later frames are postponed, which lengthens the sending.
    """

    def __init__(self, pace: Pace, start: float) -> None:
        self._pace, self._start = pace, start
        self._give_up: float = start + pace.compute_due_s(pace.frames) * MAX_OVERTIME + 0.5
        self.lateness_s = 0.0  # Longest stall
        time.sleep(max(0.0, start - time.monotonic()))

    @property
    def is_overdue(self) -> bool:
        """Whether sending takes so long that it is given up."""
        return time.monotonic() > self._give_up

    def count_due(self, sent: int) -> int:
        """Return the number of frames that are due but not yet sent."""
        now = time.monotonic()
        late_s = now - self._start - self._pace.compute_due_s(sent)
        self.lateness_s = max(self.lateness_s, late_s)
        self._start += max(0.0, late_s - MAX_BURST_S)
        return self._pace.count_due(now - self._start) - sent

    def sleep(self, sent: int, shortest_s: float, longest_s: float) -> None:
        """Sleep until the next frame is due, within limits."""
        wait_s = self._start + self._pace.compute_due_s(sent) - time.monotonic()
        time.sleep(min(max(wait_s, shortest_s), longest_s))


class Sender:
    """Worker that sends the streams of one direction on one interface."""

    _streams: StreamSet

    def __init__(self, interface: str, frame_octets: int) -> None:
        self._ring = TxRing(interface, frame_octets)
        self._loaded: list[tuple[Stream, Expander]] = []
        self._sources: list[tuple[Stream, FrameSource]] = []

    def idle(self, pipe: Connection) -> None:
        pipe.poll(None)

    def load(self, streams: StreamSet) -> None:
        self._streams = streams
        self._loaded = [(stream, Expander(stream)) for stream in streams.streams]
        self._sources = list(self._loaded)

    def connect(self, *, table: TableLocation | None, alone: bool = False) -> None:
        """Set the frame sources of the next trial; ``alone`` sends the foreground only."""
        chosen = [find_foreground(self._streams)] if alone else list_foregrounds(self._streams)
        self._sources = []
        for stream, source in self._loaded:
            if table is not None and stream in chosen:
                connection_source = make_connection_source(self._streams.direction, stream, table)
                self._sources.append((stream, connection_source))
            elif not alone or stream in chosen:
                self._sources.append((stream, source))

    def send(self, *, pace: Pace, start: float, nonce: int, timed: bool = False) -> dict[str, Any]:
        """Send the frames of one trial.

        Args:
            pace: times at which frames are due.
            start: time at which the first frame is due [s, CLOCK_MONOTONIC].
            nonce: number of the trial in every trailer.
            timed: whether delays count; batches are then small, so that no frame waits long.

        Returns:
            ``sent`` and ``required`` by stream name, ``sending_time_s`` from the start to the
            moment the last frame had left, ``lateness_s``, the longest stall.
        """
        weights = [stream.weight for stream, _ in self._sources]
        frames, most = pace.frames, TIMED_BATCH if timed else BATCH
        done = 0
        skipped = np.zeros(len(weights), np.int64)
        before = self._ring.refused
        schedule = SendingSchedule(pace, start)
        while done < frames and not schedule.is_overdue:
            if (due := schedule.count_due(done)) <= 0:
                schedule.sleep(done, SHORTEST_SLEEP_S, LONGEST_SLEEP_S)
                continue
            room = self._ring.get_free_slots(min(due, most))
            if len(weights) == 1:
                lengths: int | U32 = self._fill_single_stream(room, done, nonce)
            else:
                lengths = self._fill_mixed_streams(room, weights, done, nonce)
            if (starts := pace.starts) is None or done / pace.segments[0][1] >= starts.last_start_s:
                self._ring.commit(len(room), lengths)
            else:  # only frames whose flows have begun
                which, index = list_classes_with_index(weights, done, len(room))
                places = np.arange(done, done + len(room))
                begun = select_started(starts, pace.segments[0][1], places, index)
                skipped += np.bincount(which[~begun], minlength=len(skipped))
                count = int(np.count_nonzero(begun))
                room[:count] = room[begun]
                self._ring.commit(count, lengths if isinstance(lengths, int) else lengths[begun])
            done += len(room)
        sending_time_s = time.monotonic() - start
        names = [stream.name for stream, _ in self._sources]
        sent = np.array(count_frames(weights, done)) - skipped
        sent[0] -= self._ring.count_unsent() - before
        required = np.array(count_frames(weights, frames)) - skipped
        return {
            "required": dict(zip(names, required.tolist(), strict=True)),
            "sent": dict(zip(names, sent.tolist(), strict=True)),
            "sending_time_s": sending_time_s,
            "lateness_s": schedule.lateness_s,
        }

    def _fill_single_stream(self, slots: U8, first: int, nonce: int) -> int:
        """Write frames of a single stream into ring slots; return the frame length."""
        stream, source = self._sources[0]
        rows = slots[:, : source.length]
        source.compute_frames(first, len(rows), rows)
        numbers = np.arange(first, first + len(rows), dtype=np.uint32)
        _write_trailers(stream, source, rows, numbers, nonce)
        return source.length

    def _fill_mixed_streams(self, slots: U8, weights: list[int], first: int, nonce: int) -> U32:
        """Write frames of several streams, in order, into ring slots; return their lengths."""
        classes, index = list_classes_with_index(weights, first, len(slots))
        lengths = np.empty(len(slots), dtype=np.uint32)
        for number, (stream, source) in enumerate(self._sources):
            places = np.nonzero(classes == number)[0]
            if not len(places):
                continue
            # the frames of one stream within a batch are neighbors in that stream
            rows = source.compute_frames(int(index[places[0]]), len(places))
            _write_trailers(stream, source, rows, index[places].astype(np.uint32), nonce)
            slots[places, : source.length] = rows
            lengths[places] = source.length
        return lengths


def _write_trailers(stream: Stream, source: FrameSource, rows: U8, seq: U32, nonce: int) -> None:
    """Write sequence number, nonce and current time into the trailers of the frames in ``rows``."""
    number = stream.stream_id
    time_ns = np.fromiter((time.time_ns() for _ in rows), np.int64, len(rows))
    trailer.stamp(rows, source.checksum, seq=seq, stream_id=number, nonce=nonce, time_ns=time_ns)
