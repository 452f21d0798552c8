"""The sending role: one direction's streams at a constant rate into a transmit ring."""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import numpy as np
from v6t.drivers.embedded.timing import begun
from v6t.drivers.lab.ring import TxRing
from v6t.drivers.oracle.connection_oracle import (
    TableAt,
    connection_source,
    foreground,
    foregrounds,
)
from v6t.drivers.oracle.replay import FrameSource
from v6t.drivers.oracle.state_table import StateTable
from v6t.packets import trailer
from v6t.profiles.compiler.schedule import count_frames, list_classes_with_index
from v6t.profiles.expand import Expander
from v6t.profiles.streams import Stream, StreamSet
from v6t.trials.trial import FlowStarts, Trial

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.packets.arrays import U8

BATCH = 512
"""Frames per system call at most: the granularity of a busy sender's clock."""
TIMED_BATCH = 32
"""The same where frames are timed: those of a batch are stamped before the first of them leaves."""
LONGEST_SLEEP_S = 0.05
SHORTEST_SLEEP_S = 0.00008
GIVE_UP = 1.5
"""A trial that takes this many times its duration (and half a second) ends unfinished."""


@dataclass(frozen=True)
class Pace:
    """When frames are due: one constant rate, or a second one after the first frames.

    Attributes:
        segments: frames and frames per second of each stretch, one after the other.
        second_s: when the second stretch begins [s after the start].
        starts: flows that begin one after the other; None: all at once.
    """

    segments: tuple[tuple[int, float], ...]
    second_s: float = 0.0
    starts: FlowStarts | None = None

    @classmethod
    def of(cls, trial: Trial) -> Pace:
        """Make the pace of a trial."""
        first = (trial.first_segment_frames, trial.rate_fps)
        if trial.second_segment is None:
            return cls((first,), starts=trial.flow_starts)
        rest = trial.frames - trial.first_segment_frames
        return cls(
            (first, (rest, trial.second_segment.rate_fps)), trial.duration_s, trial.flow_starts
        )

    @property
    def frames(self) -> int:
        """Frames in all."""
        return sum(count for count, _ in self.segments)

    def due(self, elapsed_s: float) -> int:
        """Frames that should have been sent by then."""
        count, rate = self.segments[0]
        done = min(count, int(elapsed_s * rate) + 1)
        if len(self.segments) > 1 and elapsed_s >= self.second_s:
            more, rate = self.segments[1]
            done = count + min(more, int((elapsed_s - self.second_s) * rate) + 1)
        return done

    def time_of(self, number: int) -> float:
        """When a frame is due [s after the start]."""
        count, rate = self.segments[0]
        if number < count or len(self.segments) == 1:
            return number / rate
        return self.second_s + (number - count) / self.segments[1][1]

    def turns(self, first: int, index: NDArray[np.integer]) -> NDArray[np.bool_] | None:
        """Which frames of a batch are sent; None: all.

        Args:
            first: place of the batch's first frame in the stream of its direction.
            index: numbers of its frames within their classes.
        """
        if self.starts is None:
            return None
        rate = self.segments[0][1]
        if first / rate >= self.starts.last_start_s:
            return None
        return begun(self.starts, rate, np.arange(first, first + len(index)), index)


@dataclass
class _Source:
    stream: Stream
    expander: FrameSource


class Sender:
    """Sends on one interface.

    Args:
        interface: where to send.
        frame_octets: longest frame, without FCS.
    """

    def __init__(self, interface: str, frame_octets: int) -> None:
        self._ring = TxRing(interface, frame_octets)
        self._streams: StreamSet | None = None
        self._loaded: list[_Source] = []
        self._sources: list[_Source] = []

    def idle(self, pipe: Connection) -> None:
        """Nothing to do between trials."""
        pipe.poll(None)

    def load(self, streams: StreamSet) -> None:
        """Prepare streams; what was loaded before is forgotten."""
        self._streams = streams
        self._loaded = [_Source(s, Expander(s)) for s in streams.streams]
        self._sources = self._loaded

    def connect(self, *, table: TableAt | None, alone: bool = False) -> None:
        """Choose what the next trials send.

        Args:
            table: the foreground belongs to these connections; None: as compiled.
            alone: nothing but the foreground.
        """
        if self._streams is None:
            raise ValueError("nothing is loaded")
        chosen: tuple[Stream, ...] = ()
        if alone:
            chosen = (foreground(self._streams),)
        elif table is not None:
            chosen = foregrounds(self._streams)
        self._sources = []
        for source in self._loaded:
            mine = source.stream in chosen
            if mine and table is not None:
                rows = StateTable(table.path, table.count, table.version)
                made = connection_source(self._streams.direction, source.stream, table, rows)
                self._sources.append(_Source(source.stream, made))
            elif mine or not alone:
                self._sources.append(source)

    def send(self, *, pace: Pace, start: float, nonce: int, timed: bool = False) -> dict[str, Any]:
        """Run one trial.

        Args:
            pace: how many frames over all streams, and when each is due.
            start: when the first is due [s, CLOCK_MONOTONIC].
            nonce: the trial's number in every trailer.
            timed: delays are asked for: the first frame of a batch must not wait for many.

        Returns:
            ``sent`` and ``required`` by stream name, ``sending_time_s`` from the start to the
            moment the last frame had left, ``lateness_s`` of the latest batch.
        """
        weights = [s.stream.weight for s in self._sources]
        frames, most = pace.frames, TIMED_BATCH if timed else BATCH
        lateness = 0.0
        done = 0
        skipped = [0] * len(weights)
        before = self._ring.refused
        give_up = start + pace.time_of(frames) * GIVE_UP + 0.5
        while (now := time.monotonic()) < start:
            time.sleep(min(start - now, LONGEST_SLEEP_S))
        while done < frames:
            now = time.monotonic()
            due = pace.due(now - start)
            if due <= done:
                wait = start + pace.time_of(done) - now
                time.sleep(min(max(wait, SHORTEST_SLEEP_S), LONGEST_SLEEP_S))
                continue
            if now > give_up:
                break
            lateness = max(lateness, now - start - pace.time_of(done))
            room = self._ring.room(min(due - done, most))
            count = len(room)
            lengths: int | NDArray[np.uint32]
            if len(weights) == 1:
                lengths = self._fill_one(room, done, nonce)
            else:
                lengths = self._fill_mixed(room, weights, done, nonce)
            if pace.starts is None:
                self._ring.commit(count, lengths)
            else:
                self._commit_begun(pace, room, lengths, done, skipped)
            done += count
        sending_time_s = time.monotonic() - start
        unsent = self._ring.unsent() - before
        names = [s.stream.name for s in self._sources]
        sent = [n - s for n, s in zip(count_frames(weights, done), skipped, strict=True)]
        sent[0] -= unsent
        required = [n - s for n, s in zip(count_frames(weights, frames), skipped, strict=True)]
        return {
            "required": dict(zip(names, required, strict=True)),
            "sent": dict(zip(names, sent, strict=True)),
            "sending_time_s": sending_time_s,
            "lateness_s": lateness,
        }

    def _commit_begun(
        self,
        pace: Pace,
        room: U8,
        lengths: int | NDArray[np.uint32],
        first: int,
        skipped: list[int],
    ) -> None:
        """Send those frames of a batch whose flows have begun; count the others by class."""
        which, index = list_classes_with_index(
            [s.stream.weight for s in self._sources], first, len(room)
        )
        sent = pace.turns(first, index)
        if sent is None or sent.all():
            self._ring.commit(len(room), lengths)
            return
        for number in range(len(skipped)):
            skipped[number] += int(np.count_nonzero(~sent & (which == number)))
        count = int(np.count_nonzero(sent))
        room[:count] = room[sent]
        self._ring.commit(count, lengths if isinstance(lengths, int) else lengths[sent])

    def _fill_one(self, room: U8, first: int, nonce: int) -> int:
        source = self._sources[0]
        count, length = len(room), source.expander.length
        rows = room[:, :length]
        source.expander.frames(first, count, rows)
        self._stamp(source, rows, np.arange(first, first + count, dtype=np.uint32), nonce)
        return length

    def _fill_mixed(
        self,
        room: U8,
        weights: list[int],
        first: int,
        nonce: int,
    ) -> NDArray[np.uint32]:
        which, index = list_classes_with_index(weights, first, len(room))
        lengths = np.empty(len(room), dtype=np.uint32)
        for number, source in enumerate(self._sources):
            places = np.nonzero(which == number)[0]
            if not len(places):
                continue
            length = source.expander.length
            # the frames of one stream within a batch are neighbours in that stream
            rows = source.expander.frames(int(index[places[0]]), len(places))
            self._stamp(source, rows, index[places].astype(np.uint32), nonce)
            room[places, :length] = rows
            lengths[places] = length
        return lengths

    @staticmethod
    def _stamp(source: _Source, rows: U8, seq: NDArray[np.uint32], nonce: int) -> None:
        trailer.stamp(
            rows,
            source.expander.checksum,
            seq=seq,
            stream_id=source.stream.stream_id,
            nonce=nonce,
            time_ns=np.fromiter((time.time_ns() for _ in rows), np.int64, len(rows)),
        )


def longest_frame(streams: StreamSet) -> int:
    """Octets of the longest frame of a set, without FCS."""
    return max(len(base64.b64decode(s.trex["packet"]["binary"])) for s in streams.streams)
