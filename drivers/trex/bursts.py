"""What TRex sends in a trial: exact bursts of streams, their tags, second rates and flow starts."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from v6t.base.errors import BeyondTester, UsageError
from v6t.drivers.tester import Oracle
from v6t.drivers.trex import streams as trex_streams
from v6t.drivers.trex.streams import MARK_IDS, MARKED_CLASSES, MARKS_PER_CLASS, is_marked
from v6t.packets.direction import Direction
from v6t.profiles.compiler.schedule import count_frames, find_positions, find_starts
from v6t.profiles.expand import Expander
from v6t.profiles.streams import Stream, StreamSet, compute_period, start_at_frame
from v6t.trials.trial import Capability, FlowStarts, Mode, Segment, Trial, divide, list_directions

MAX_STAMPED_FPS = 5e6  # TRex's documented limit of stamped frames per second, all streams together
ALWAYS_STAMPED_FPS = 10_000.0  # Rate per direction up to which frames are never marked instead
ALL_STAMPED_CAPABILITIES: Mapping[Capability, str] = {
    "ipdv": "IPDV",
    "frame-timeout": "a timeout for every frame",
    "loss-times": "the times of lost frames",
}
"""Capabilities that need a stamp in every frame, and what they measure."""
SAMPLED_CAPABILITIES: frozenset[Capability] = frozenset({"tags", "every-frame"})
"""Capabilities where only one of several cores stamps frames."""
MAX_BURST_FRAMES = (1 << 32) - 1  # TRex reads the number of frames of a burst as 32 bits
GROUPS_PER_DIRECTION = 64  # TRex's latency groups that one direction may use
IDS_PER_DIRECTION = 21  # Streams that are stamped; one with tags takes three latency groups
_BETWEEN_TAGS_OFFSET, _TAGS_OFFSET = IDS_PER_DIRECTION, 2 * IDS_PER_DIRECTION
"""Distances of the latency groups of frames between tags, and of tags, from their stream's group."""


@dataclass(frozen=True)
class Burst:
    """Frames of one stream that a trial sends at one rate."""

    index: int  # Position of the stream in its set
    pps: float
    frames: int
    isg: float  # Time from the start of the trial to the first frame [us]
    pg_id: int | None  # TRex's latency group; None if the frames are not stamped
    is_tagged: bool = False  # Whether these are the tagged frames of a latency trial
    times: int = 1  # Number of equal groups in which the frames leave
    gap_us: float = 0.0  # Time between two groups [us]


@dataclass(frozen=True)
class OfferedLoad:
    """Traffic of a direction that one pair of ports sends in a trial."""

    streams: StreamSet
    bursts: Sequence[Burst]
    tx_port: int  # TRex's number of the sending port
    rx_ports: tuple[int, ...]  # ports to which frames may come back
    nonce: int = 0  # Octet of this trial in the trailers of marked frames
    find_oracle: Callable[[Stream], Oracle | None] = lambda stream: None
    """Returns the oracle for a stream's frames, or None in loopback."""

    @property
    def direction(self) -> Direction:
        return self.streams.direction

    @property
    def frames(self) -> int:
        return sum(b.frames for b in self.bursts)

    @property
    def stamped_bursts(self) -> tuple[Burst, ...]:
        return tuple(b for b in self.bursts if b.pg_id is not None)

    @property
    def marked_bursts(self) -> tuple[Burst, ...]:
        return tuple(b for b in self.bursts if is_marked(self.find_stream(b)))

    @property
    def has_identified_frames(self) -> bool:
        """Whether every frame carries TRex's stamp or a mark."""
        return len(self.stamped_bursts) + len(self.marked_bursts) == len(self.bursts)

    @property
    def mark_distance(self) -> int:
        """Distance of the number from the end of marked frames [octets]; 0 if none is marked."""
        return max(map(trex_streams.find_number_distance, self.streams.streams))

    @property
    def marked_classes(self) -> dict[int, list[Burst]]:
        """Marked bursts by class number."""
        by_class: dict[int, list[Burst]] = {}
        for burst in self.marked_bursts:
            number = (self.find_stream(burst).stream_id - MARK_IDS) // MARKS_PER_CLASS
            by_class.setdefault(number, []).append(burst)
        return by_class

    def find_stream(self, burst: Burst) -> Stream:
        return self.streams.streams[burst.index]

    def make_requests(self) -> list[dict[str, Any]]:
        """Return the bursts as arguments of the worker's ``run_trial``."""
        marked = self.marked_bursts
        return [{**asdict(b), "nonce": self.nonce if b in marked else None} for b in self.bursts]


def compute_stamp_limit_fps(mode: Mode) -> float:
    """Return how many frames per second TRex can stamp in each direction [fps]."""
    return MAX_STAMPED_FPS / len(list_directions(mode))


def check_stamps(trial: Trial) -> None:
    """Refuse a trial that needs a stamp in more frames than TRex can stamp."""
    limit_fps, required = compute_stamp_limit_fps(trial.mode), trial.required_capabilities
    needs = [ALL_STAMPED_CAPABILITIES[n] for n in ALL_STAMPED_CAPABILITIES if n in required]
    if needs and trial.max_rate_fps > limit_fps:
        raise BeyondTester(
            f"a time stamp in every frame is needed for {' and '.join(needs)}; TRex stamps at most "
            f"{limit_fps:,.0f} frames per second and direction, not {trial.max_rate_fps:,.0f}",
            "use a lower rate, or bound the search by the line_rate of the testbed",
            code="unsupported-by-tester",
        )


def make_bursts(
    streams: StreamSet,
    trial: Trial,
    *,
    stamp: bool,
    stamp_all: bool = True,
    part: int = 0,
    parts: int = 1,
    samples: int = 0,
    interval: int = 1,
) -> list[Burst]:
    """Divide a trial's rate and frames exactly into the bursts of each stream.

    A tagged frame is one of its class's at the time it would have left anyway, so that the load
    is the same before the first tag and after it. At rates at which TRex cannot stamp every frame
    only the tagged ones are stamped, and where every frame was to be timed, every second, third ...
    is tagged instead.

    Args:
        stamp: whether TRex stamps frames, as many as it can.
        stamp_all: whether TRex stamps every frame if it can, not only some.
        part, parts: number of this pair of ports, and number of all pairs.
        samples: number of frames of each class to tag for comparison, if TRex cannot stamp every
            frame and the trial measures no delays.
        interval: smallest distance of two tagged frames, if not all are stamped.
    """
    weights = [s.weight for s in streams.streams]
    frames = divide(trial.frames, part, parts)
    rate_fps = trial.rate_fps * frames / trial.frames
    shares = count_frames(weights, frames)
    delays, limit_fps = trial.delays, compute_stamp_limit_fps(trial.mode)
    # all trials of a search are counted alike: its highest rate decides
    every = stamp and stamp_all and trial.max_rate_fps <= limit_fps
    taggable = [0 if is_marked(s) else s.weight for s in streams.streams]
    tags = [0] * len(weights)
    if delays is not None and delays.tags:
        total = divide(delays.tags, part, parts)
        tags = count_frames(taggable, total) if total else tags
    elif stamp and not every:
        most = frames if delays is not None else divide(samples, part, parts)
        step = max(interval, math.ceil(trial.rate_fps / limit_fps))
        tags = [min(most, n // step) if w else 0 for n, w in zip(shares, taggable, strict=True)]
    bursts: list[Burst] = []
    for index, (stream, share, begin, tagged) in enumerate(
        zip(streams.streams, shares, find_starts(weights), tags, strict=True)
    ):
        rate = rate_fps * stream.weight / sum(weights)
        group = stream.stream_id if every and not is_marked(stream) else None
        whole = Burst(index, rate, share, 1e6 * begin / rate_fps, group)
        if tagged:
            first_s = 0.0 if delays is None else delays.first_tag_s
            bursts += _split_into_tags(whole, stream, tagged, math.ceil(first_s * rate))
        else:
            bursts.append(whole)
    return [one for burst in bursts for one in _split_by_limit(burst)]


def _split_by_limit(burst: Burst) -> list[Burst]:
    """Split a burst with more frames than TRex can count."""
    if burst.frames // burst.times <= MAX_BURST_FRAMES:
        return [burst]
    if burst.pg_id is not None:
        problem = f"TRex stamps up to {MAX_BURST_FRAMES:,} frames of a stream, not {burst.frames:,}"
        raise UsageError(problem, "choose shorter trials or a lower rate", code="trial-too-long")
    groups = -(-burst.frames // MAX_BURST_FRAMES)
    frames, slot_us = burst.frames // groups * groups, 1e6 / burst.pps
    whole = replace(burst, frames=frames, times=groups, gap_us=slot_us)
    rest = replace(burst, frames=burst.frames - frames, isg=burst.isg + frames * slot_us)
    return [whole, rest] if rest.frames else [whole]


def _split_into_tags(whole: Burst, stream: Stream, tags: int, first: int) -> list[Burst]:
    """Tag every k-th of the frames from ``first`` on, each at its own time.

    The main stream ends before the first tag, groups of k - 1 frames leave room for one frame after
    each group, and tags fill the rooms. Each of the three begins the sequence of frames again.
    """
    if tags > whole.frames - first:
        problem = f"{tags} tags do not fit into {whole.frames - first} frames of '{stream.name}'"
        raise UsageError(problem, code="trial-too-short")
    every = whole.pg_id is not None
    period = (whole.frames - first) // tags
    before = whole.frames - tags * period
    slot_us = 1e6 / whole.pps
    tag_us = whole.isg + before * slot_us
    main = replace(whole, frames=before)
    between = replace(
        whole,
        frames=tags * (period - 1),
        isg=tag_us + slot_us,
        pg_id=stream.stream_id + _BETWEEN_TAGS_OFFSET if every else None,
        times=tags,
        gap_us=2 * slot_us,
    )
    tagged = replace(
        whole,
        pps=whole.pps / period,
        frames=tags,
        isg=tag_us,
        pg_id=stream.stream_id + (_TAGS_OFFSET if every else 0),
        is_tagged=True,
    )
    return [b for b in (main, between, tagged) if b.frames]


def select_part(streams: StreamSet, trial: Trial, part: int, parts: int, core: int) -> StreamSet:
    """Return the streams of one of several pairs of ports, which begin where the pair before ends.

    Each further pair has a separate core, whose random draws differ.
    """
    if not (part or core):
        return streams
    weights = [s.weight for s in streams.streams]
    before = [count_frames(weights, divide(trial.frames, n, parts)) for n in range(part)]
    own = []
    for number, stream in enumerate(streams.streams):
        started = start_at_frame(stream, sum(shares[number] for shares in before))
        started = replace(started, stream_id=stream.stream_id + part * len(weights))
        if core:
            source = partial(Expander, started, core)
            started = trex_streams.SentStream(**vars(started), make_source=source)
        own.append(started)
    return replace(streams, streams=tuple(own))


def add_second_rate(
    streams: StreamSet, trial: Trial, segment: Segment
) -> tuple[StreamSet, list[Burst]]:
    """Make streams and bursts of a trial whose rate changes without a gap.

    A burst of TRex's begins when its inter-stream gap is over, by the data path's own clock. So the
    second rate is a second set of streams that waits for the first to end and goes on where that
    ended: the change is as exact as the pace of frames.
    """
    first_trial = replace(trial, second_segment=None)
    second_trial = replace(first_trial, rate_fps=segment.rate_fps, duration_s=segment.duration_s)
    sent = count_frames([s.weight for s in streams.streams], trial.first_segment_frames)
    started = (start_at_frame(s, n) for s, n in zip(streams.streams, sent, strict=True))
    later = tuple(replace(s, stream_id=s.stream_id + GROUPS_PER_DIRECTION // 2) for s in started)
    second = [
        replace(b, index=b.index + len(later), isg=b.isg + 1e6 * trial.duration_s)
        for b in make_bursts(replace(streams, streams=later), second_trial, stamp=True)
    ]
    both = replace(streams, streams=(*streams.streams, *later))
    return both, [*make_bursts(streams, first_trial, stamp=True), *second]


def make_sequential_flows(
    streams: StreamSet, trial: Trial, starts: FlowStarts
) -> tuple[StreamSet, list[Burst]]:
    """Make streams and bursts of flows that begin one after the other.

    Frame k of a class belongs to flow k mod n, and the traffic of n flows repeats after at most n frames.
    Each flow therefore repeats a single frame, and has a separate stream that starts when its turn comes.
    The first flow of each class is stamped, which proves how long sending took. TRex has too few
    identifiers to stamp the others; they carry marks that tell their class.
    """
    if starts.flows > MARKS_PER_CLASS or len(streams.streams) > MARKED_CLASSES:
        problem = (
            f"TRex starts up to {MARKS_PER_CLASS:,} flows of {MARKED_CLASSES} traffic classes "
        )
        problem += f"in turn, not {starts.flows:,} of {len(streams.streams)}"
        hint = "lower flows.counts, or leave 'successive' out of flows.starts"
        raise UsageError(problem, hint, code="too-many-for-trex")
    weights = [s.weight for s in streams.streams]
    shares = count_frames(weights, trial.frames)
    flows: list[Stream] = []
    bursts: list[Burst] = []
    for number, (stream, frames) in enumerate(zip(streams.streams, shares, strict=True)):
        if (period := compute_period(stream)) is None or starts.flows % period:
            problem = f"the frames of '{stream.name}' do not repeat after {starts.flows} flows"
            raise UsageError(f"{problem}: these cannot start in turn", code="beyond-trex")
        pps = trial.rate_fps * stream.weight / sum(weights) / starts.flows
        for flow in range(starts.flows):
            first, place = _find_first_turn(weights, number, flow, trial, starts)
            if not (own := len(range(first, frames, starts.flows))):
                continue
            constant = _make_constant(stream, flow)
            if flow:
                constant = replace(constant, stream_id=MARK_IDS + number * MARKS_PER_CLASS + flow)
                flows.append(trex_streams.mark_stream(constant, rows=1))
            else:
                flows.append(trex_streams.with_stamp(constant))
            group = None if flow else constant.stream_id
            bursts.append(Burst(len(flows) - 1, pps, own, 1e6 * place / trial.rate_fps, group))
    return replace(streams, streams=tuple(flows)), bursts


def _find_first_turn(
    weights: list[int], number: int, flow: int, trial: Trial, starts: FlowStarts
) -> tuple[int, int]:
    """Find the first frame of a flow that is due, by its number in the class and its place in the load."""
    due = flow * starts.interval_s * trial.rate_fps
    first = max(0, math.floor(due * weights[number] / sum(weights)) - 2 * starts.flows)
    first += (flow - first) % starts.flows
    while (place := int(find_positions(weights, number, np.array([first]))[0])) < due:
        first += starts.flows
    return first, place


def _make_constant(stream: Stream, flow: int) -> Stream:
    """Make the stream that repeats the first frame of a flow."""
    packet = Expander(stream).compute_frames(flow, 1)[0].tobytes()
    return stream.with_packet(packet).with_program([], name=f"{stream.name}.{flow}")
