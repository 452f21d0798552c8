"""Captured test frames: which stream they are of, when they left, whether they are right."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from v6t.drivers.delays import compute_ipdv
from v6t.drivers.oracle.compare import Comparison, compare_samples, together
from v6t.drivers.trex.marking import FIRST, distance, is_marked, read
from v6t.drivers.trex.recording import is_current, latest_flows
from v6t.drivers.trex.stamping import readdressed
from v6t.packets import trailer
from v6t.profiles.model import Role
from v6t.profiles.streams import Stream, StreamSet
from v6t.trials.delays import Distribution

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.drivers.oracle.replay import FrameSource
    from v6t.drivers.tester import Oracle
    from v6t.drivers.trex.counting import Sent
    from v6t.packets.arrays import I64, U8

    Frames = list[tuple[float, bytes]]
    OracleOf = Callable[[Stream], Oracle | None]
    SourceOf = Callable[[Stream], FrameSource | None]

IPDV_FRAMES = 30_000
"""Frames per direction whose neighbours are captured for IPDV: the client fetches them singly."""
FIRST_SEQUENCE = (1 << 32) - 2
"""TRex's sequence numbers start so (``m_seq_num`` in bp_sim.h) "to catch wrap around early"."""
ROUNDS = 3
"""In which the frequency of the server's clock is found."""
FEW = 5
"""Frames of a number that tell which stream it is."""
_TRAILER = struct.Struct("<BBHIQ")


@dataclass(frozen=True)
class Mark:
    """Trailer of a captured frame.

    Attributes:
        arrived_s: server's clock [s].
        hardware_id: TRex's number of the stream, its own choice.
        seq: number of the frame within the stream.
        left_ticks: time stamp counter when it left.
    """

    arrived_s: float
    hardware_id: int
    seq: int
    left_ticks: int


def marks(frames: Frames) -> list[Mark]:
    """TRex's stamps of captured frames; what carries none is left out."""
    all_marks = []
    for arrived, frame in frames:
        if len(frame) < trailer.LENGTH:
            continue
        magic, _, number, seq, ticks = _TRAILER.unpack(frame[-trailer.LENGTH :])
        if magic == trailer.MAGIC and number < FIRST:
            all_marks.append(Mark(arrived, number, (seq - FIRST_SEQUENCE) % (1 << 32), ticks))
    return all_marks


def tick_rate_hz(marks: Sequence[Mark]) -> float | None:
    """Frequency of the time stamp counter, from departures and arrivals of one trial.

    The fastest frames of the first and of the last third say it best: queues only add delay.
    None if the frames are too few or too close.
    """
    if len(marks) < 6:
        return None
    ordered = sorted(marks, key=lambda m: m.left_ticks)
    first, last = ordered[0], ordered[-1]
    if last.arrived_s - first.arrived_s < 0.05:
        return None
    hertz = (last.left_ticks - first.left_ticks) / (last.arrived_s - first.arrived_s)
    third = len(ordered) // 3

    def delay(m: Mark) -> float:
        return m.arrived_s - (m.left_ticks - first.left_ticks) / hertz

    for _ in range(ROUNDS):  # by a wrong frequency others seem to be the fastest
        early = min(ordered[:third], key=delay)
        late = min(ordered[-third:], key=delay)
        hertz = (late.left_ticks - early.left_ticks) / (late.arrived_s - early.arrived_s)
    return hertz


def with_macs(
    frame: bytes, macs: tuple[str, str], others: tuple[str, str], vlans: tuple[int, int] | None
) -> bytes:
    """A frame that came to another pair of ports as it would have come to the first.

    Args:
        frame: as received.
        macs: destination and source it has on the port it came to.
        others: what they would be on the first pair.
        vlans: identifier on the port it came to, and on the first pair; None: both are the same.
    """
    if readdressed(frame, macs, vlans and vlans[0]) != frame:
        return frame
    return readdressed(frame, others, vlans and vlans[1])


def current(frames: Frames, nonce: int) -> Frames:
    """Return captured frames without those of earlier trials.

    Args:
        frames: captured on one port.
        nonce: octet of the trial in the trailers of marked frames.
    """
    by_length: dict[int, list[int]] = {}
    for place, (_, frame) in enumerate(frames):
        by_length.setdefault(len(frame), []).append(place)
    groups = [
        (places, np.frombuffer(b"".join(frames[p][1] for p in places), np.uint8))
        for places in by_length.values()
    ]
    arrays = [octets.reshape(len(places), -1) for places, octets in groups]
    flows = latest_flows(arrays)
    mine = np.zeros(len(frames), dtype=bool)
    for (places, _), rows in zip(groups, arrays, strict=True):
        mine[places] = is_current(rows, flows, nonce)
    return [one for one, ours in zip(frames, mine.tolist(), strict=True) if ours]


def as_compiled(stream: Stream) -> None:
    """What most streams send: see ``source`` of :func:`compare`."""
    del stream


def compare(
    frames: Frames, streams: StreamSet, oracle: OracleOf, source: SourceOf = as_compiled
) -> Comparison:
    """Captured frames of one direction against the reference translation.

    TRex numbers streams as it likes: a few frames of one number are compared with each stream, and
    all belong to the one these fit best.

    Args:
        frames: captured.
        streams: that were sent.
        oracle: who knows the frames of a stream; None in loopback.
        source: gives the frames of a stream, where another than the first core sends them.
    """
    groups: dict[int, list[bytes]] = {}
    for _, frame in frames:
        if len(frame) >= trailer.LENGTH and frame[-trailer.LENGTH] == trailer.MAGIC:
            number = int.from_bytes(frame[-14:-12], "little")
            groups.setdefault(number, []).append(frame)
    known = _coming_back(streams, oracle)
    by_mark = {s.stream_id: s for s in known if is_marked(s)}
    stamped = [s for s in known if not is_marked(s)]
    comparisons = []
    for number, group in sorted(groups.items()):
        few = group[:: max(1, len(group) // FEW)]
        which = by_mark.get(number) or _fitting(
            stamped, partial(_against, group=few, streams=streams, oracle=oracle, source=source)
        )
        if which.role is not Role.NEGATIVE:
            comparisons.append(_against(which, group, streams, oracle, source))
    return together(comparisons)


def _fitting(known: list[Stream], compare_with: Callable[[Stream], Comparison]) -> Stream:
    """The stream a few frames fit best; the one that fitted moves to the end: no other number is its.

    TRex numbers streams in their order where nothing else has a say, so the first one mostly fits.
    """
    best, matched = known[0], -1
    for stream in known:
        tried = compare_with(stream)
        if tried.matched > matched:
            best, matched = stream, tried.matched
        if tried.matched == tried.checked:
            break
    known.remove(best)
    known.append(best)
    return best


def _coming_back(streams: StreamSet, oracle: OracleOf) -> list[Stream]:
    """Streams whose frames may be received; in loopback those to be dropped as well, at the end."""
    back = [s for s in streams.streams if s.role is not Role.NEGATIVE]
    dropped = [s for s in streams.streams if s.role is Role.NEGATIVE and oracle(s) is None]
    return [*back, *dropped]


def _against(
    stream: Stream,
    group: list[bytes],
    streams: StreamSet,
    oracle: OracleOf,
    source: SourceOf,
) -> Comparison:
    by_length: dict[int, list[bytes]] = {}
    for frame in group:
        by_length.setdefault(len(frame), []).append(frame)
    samples = [
        np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), length)
        for length, rows in by_length.items()
    ]
    frames = source(stream)
    return compare_samples(
        stream,
        samples,
        None,
        streams.direction,
        oracle(stream),
        first_sequence=FIRST_SEQUENCE,
        source=frames,
        numbered=None if not is_marked(stream) else _marked_as(frames),
    )


def _marked_as(frames: FrameSource | None) -> Callable[[U8], I64]:
    far = distance(0 if frames is None else frames.length)

    def numbered(received: U8) -> I64:
        return read(received, far)[2]

    return numbered


def ipdv(
    frames: Frames,
    sent: Sent,
    ticks_hz: float,
    oracle: OracleOf,
    source: SourceOf = as_compiled,
) -> dict[str, Distribution]:
    """Differences of the delays of neighbours, by class (IPDV-01).

    Of long streams TRex captured runs of 256 neighbours only: then there are fewer pairs than the
    class has frames, and the procedure calls the result sampled. A pair of which one frame was
    captured and the other should have been is lost.

    Args:
        frames: captured frames of one direction.
        sent: what was sent.
        ticks_hz: frequency of the time stamp counter.
        oracle: who knows the frames of a stream; None in loopback.
        source: see :func:`compare`.
    """
    all_marks = marks(frames)
    named = streams_of(frames, sent.streams, oracle, source)
    result = {}
    for number, stream in enumerate(sent.streams.streams):
        if stream.role is Role.NEGATIVE:
            continue
        count = next(b.frames for b in sent.bursts if b.index == number)
        mine = [m for m in all_marks if named.get(m.hardware_id) is stream]
        start = min((m.left_ticks for m in mine), default=0)
        first = min((m.arrived_s for m in mine), default=0.0)
        seq = np.array([m.seq for m in mine], dtype=np.int64)
        delays = np.array(
            [
                round(((m.arrived_s - first) - (m.left_ticks - start) / ticks_hz) * 1e9)
                for m in mine
            ],
            dtype=np.int64,
        )
        mask = _passing(count, sent.frames)
        pairs = compute_ipdv(seq, delays, count)
        expected = int(np.count_nonzero(mask[1:] & mask[:-1]))
        result[stream.name] = Distribution(
            pairs.values_ns, pairs.counts, max(0, expected - pairs.frames)
        )
    return result


def _passing(count: int, total: int) -> NDArray[np.bool_]:
    """Which frames of a stream the filter lets through."""
    bits = 0
    while total >> (bits + 1) >= IPDV_FRAMES:
        bits += 1
    sequence = (np.arange(count, dtype=np.uint64) + np.uint64(FIRST_SEQUENCE)) & 0xFFFFFFFF
    mask: NDArray[np.bool_] = (sequence >> np.uint64(8)) & np.uint64((1 << bits) - 1) == 0
    return mask


def streams_of(
    frames: Frames, streams: StreamSet, oracle: OracleOf, source: SourceOf = as_compiled
) -> dict[int, Stream]:
    """Which stream each number in trailers means: the one whose translation fits best, or its mark."""
    few: dict[int, list[bytes]] = {}
    for _, frame in frames:
        number = int.from_bytes(frame[-14:-12], "little")
        group = few.setdefault(number, [])
        if len(group) < 20:
            group.append(frame)
    known = _coming_back(streams, oracle)
    by_mark = {s.stream_id: s for s in known if is_marked(s)}
    stamped = [s for s in known if not is_marked(s)]
    return {
        number: by_mark.get(number)
        or _fitting(
            stamped,
            partial(_against, group=group, streams=streams, oracle=oracle, source=source),
        )
        for number, group in sorted(few.items())
    }
