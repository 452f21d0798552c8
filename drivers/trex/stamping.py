"""Streams as TRex sends them when it stamps every frame (its latency streams).

When such a stream starts, TRex sets the lowest bit of TOS or traffic class in its template, an ECN
bit, and writes 0xFFFF into the identification or flow label (``CFlowStatRuleMgr::start_stream``,
v3.08). NICs that filter need that. In software mode, which is the only one where v6t counts by
trailers, nobody looks at it: TRex tells frames by their last 16 octets
(``RXLatency::handle_flow_latency_stats``). The stream's program runs on each frame after that, so
a write of it puts the header's first octets back as they were asked for, and frames are those
of the RFCs. Stamps change the payload of every frame, so that each needs
the checksum that covers it computed.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from v6t.base.errors import BeyondTester, UsageError
from v6t.drivers.trex.marking import is_marked
from v6t.packets.checksum import compute_checksum
from v6t.packets.walker import FrameLayout, locate_headers
from v6t.profiles.compiler import instructions as ins
from v6t.profiles.compiler.schedule import count_frames, find_first_positions
from v6t.profiles.streams import Stream, StreamSet
from v6t.trials.trial import Capability, Mode, Trial, list_directions

MARK = 0xFFFF
HEADER = "trex-header"
"""The variable that holds the header's first octets."""
_FIRST_OCTETS = {4: 8, 6: 4}
"""Version to identification, version to flow label."""
MAX_STAMPED_FPS = 5e6
"""TRex's documented limit of stamped frames per second, all streams together."""
STAMPED_FPS = 10_000.0
"""So many frames of a direction are stamped even where that is dear: stamps tell order, marks do not."""
OF_EVERY_FRAME: Mapping[Capability, str] = {
    "ipdv": "IPDV",
    "frame-timeout": "a timeout for every frame",
    "loss-times": "to know when frames were lost",
}
"""What takes a stamp in every frame."""
BESIDE: frozenset[Capability] = frozenset({"tags", "every-frame"})
"""What the stamped frames of one core among several can be timed for."""
MAX_FRAMES = (1 << 32) - 1
"""TRex reads the number of frames of a burst as 32 bits."""
GROUPS_PER_DIRECTION = 64
MAX_TIMED_CLASSES = 21
"""TRex has 128 latency groups, 64 for each direction: three for a class with tags."""
_BETWEEN, _TAGS = MAX_TIMED_CLASSES, 2 * MAX_TIMED_CLASSES
"""Frames between tags, and the tags, use latency groups so far above their stream's."""


@dataclass(frozen=True)
class Burst:
    """How much of one stream a trial sends.

    Attributes:
        index: place of the stream in its set.
        pps: frames per second.
        frames: how many, exactly.
        isg: start after the others [µs].
        pg_id: TRex's latency group; None: the frames are not stamped.
        tags: these are the tagged frames of a latency trial (LAT-02).
        times: they come in so many equal groups.
        gap_us: between the last frame of a group and the first of the next [µs].
    """

    index: int
    pps: float
    frames: int
    isg: float
    pg_id: int | None
    tags: bool = False
    times: int = 1
    gap_us: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """As the worker reads it."""
        return dict(self.__dict__)


def stamped_fps(mode: Mode) -> float:
    """Stamped frames per second in each direction, at most."""
    return MAX_STAMPED_FPS / len(list_directions(mode))


def check_stamps(trial: Trial) -> None:
    """Refuse what takes a stamp in every frame where TRex cannot stamp so many.

    Raises:
        BeyondTester: naming the limit.
    """
    limit_fps = stamped_fps(trial.mode)
    needs = [words for need, words in OF_EVERY_FRAME.items() if need in trial.required_capabilities]
    if needs and trial.max_rate_fps > limit_fps:
        raise BeyondTester(
            f"{' and '.join(needs)}: that takes a stamp in every frame, which TRex can give "
            f"{limit_fps:,.0f} a second and direction, not {trial.max_rate_fps:,.0f}",
            "ask for it at a lower rate, or bound the search by the line_rate of the testbed",
            code="unsupported-by-tester",
        )


def stamped(streams: StreamSet) -> StreamSet:
    """The set with each stream as TRex will really send it when it stamps.

    Raises:
        UsageError: a frame cannot carry a stamp.
    """
    return StreamSet(streams.direction, tuple(_stamped(s) for s in streams.streams))


def _stamped(stream: Stream) -> Stream:
    packet = bytearray(base64.b64decode(stream.trex["packet"]["binary"]))
    layout = locate_headers(bytes(packet))
    if layout.end + 16 > len(packet):
        raise UsageError(
            f"a frame of '{stream.name}' has {len(packet) - layout.end} octets of payload, "
            "but TRex's time stamp needs 16",
            "choose a larger frame size",
            code="frame-too-small",
        )
    program = list(stream.trex["vm"]["instructions"])
    if any(i["type"] == "flow_var" and i["name"] == HEADER for i in program):
        return stream
    version, l3 = layout.networks[0] if layout.networks else (0, 0)
    octets = _FIRST_OCTETS.get(version, 0)
    if ins.count_variable_octets(program) + octets > ins.MAX_VARIABLE_OCTETS:
        _mark(packet, version, l3)
    elif octets:
        value = int.from_bytes(packet[l3 : l3 + octets], "big")
        first = [ins.flow_var(HEADER, octets, "inc", value, value), ins.write(HEADER, l3)]
        program = first + program
    program += _fix(stream, layout, program)
    trex = {
        **stream.trex,
        "packet": {**stream.trex["packet"], "binary": base64.b64encode(packet).decode()},
        "vm": {**stream.trex["vm"], "instructions": program},
    }
    return replace(stream, trex=trex)


def mended(stream: Stream) -> Stream:
    """The stream with instructions for the checksums over what TRex or its program writes."""
    layout = locate_headers(base64.b64decode(stream.trex["packet"]["binary"]))
    program = list(stream.trex["vm"]["instructions"])
    program += _fix(stream, layout, program)
    return replace(
        stream, trex={**stream.trex, "vm": {**stream.trex["vm"], "instructions": program}}
    )


def _mark(packet: bytearray, version: int, l3: int) -> None:
    """Change the template as TRex does, where a program has no room to undo it."""
    if version == 4:
        packet[l3 + 1] |= 1
        packet[l3 + 4 : l3 + 6] = MARK.to_bytes(2, "big")
        packet[l3 + 10 : l3 + 12] = b"\0\0"
        packet[l3 + 10 : l3 + 12] = compute_checksum(bytes(packet[l3 : l3 + 20])).to_bytes(2, "big")
    else:
        packet[l3 + 1] = packet[l3 + 1] & 0xF0 | 0x10
        packet[l3 + 2 : l3 + 4] = MARK.to_bytes(2, "big")


def _fix(
    stream: Stream, layout: FrameLayout, program: list[ins.Instruction]
) -> list[ins.Instruction]:
    """Instructions that mend what stamp and mark break, unless the program has them.

    That is the checksum that covers the stamp, and the one of an outer IPv4 header.
    """
    mended = {i["pkt_offset"] for i in program if i["type"] == "fix_checksum_ipv4"}
    mended |= {i["l2_len"] for i in program if i["type"] == "fix_checksum_hw"}
    checksum, instructions = stream.checksum, list[ins.Instruction]()
    if checksum is not None and not any(i["type"] == "fix_checksum_hw" for i in program):
        kind, below = ins.L4_TYPES.get(checksum.protocol), checksum.network
        if kind is None or below is None:
            raise UsageError(
                f"TRex's stamp changes the {checksum.protocol} checksum of '{stream.name}', and "
                "TRex has no instruction that mends it",
                "count by ports, or send frames without that checksum",
                code="beyond-trex",
            )
        if below > ins.MAX_L2_OCTETS:
            raise UsageError(
                f"the {checksum.protocol} header's network header begins at octet {below}, but "
                f"TRex fixes checksums only up to octet {ins.MAX_L2_OCTETS}",
                code="beyond-trex",
            )
        instructions.append(ins.fix_hardware(below, checksum.header - below, kind))
        mended.add(below)
    outer = layout.networks[0] if layout.networks else None
    if outer is not None and outer.version == 4 and outer.start not in mended:
        instructions.insert(0, ins.fix_ipv4(outer.start))
    return instructions


def bursts(
    streams: StreamSet,
    trial: Trial,
    *,
    stamp: bool,
    all_of: bool = True,
    part: int = 0,
    parts: int = 1,
    marks: int = 0,
    apart: int = 1,
) -> list[Burst]:
    """Exact bursts of one trial: each class its share of rate and frames (GEN-14).

    A tagged frame is one of its class's at the time it would have left anyway, so that the load
    is the same before the first tag and after it (LAT-02, LAT-06); see :func:`_timed`. At rates
    at which TRex cannot stamp every frame only the tagged ones are stamped, and where every frame
    was to be timed, every second, third ... is tagged instead (PDV-03).

    Args:
        streams: of one direction.
        trial: what is asked of the direction.
        stamp: frames carry TRex's trailer as far as TRex can.
        all_of: not only some that are to be compared.
        part, parts: which of several pairs of ports this is, and how many there are.
        marks: so many frames of each class are tagged where TRex cannot stamp every frame and
            nothing is to be timed, so that some can be compared.
        apart: at most one of so many frames is tagged where not all are stamped.

    Raises:
        UsageError: more tags than frames.
    """
    weights = [s.weight for s in streams.streams]
    frames = _share(trial.frames, part, parts)
    rate_fps = trial.rate_fps * frames / trial.frames
    shares = count_frames(weights, frames)
    delays = trial.delays
    limit_fps = stamped_fps(trial.mode)
    # one way of counting within a search: its highest rate decides for all of its trials
    every = stamp and all_of and trial.max_rate_fps <= limit_fps
    reached = [0 if is_marked(s) else w for s, w in zip(streams.streams, weights, strict=True)]
    tags = [0] * len(weights)
    if delays is not None and delays.tags:
        wanted = _share(delays.tags, part, parts)
        tags = count_frames(reached, wanted) if wanted else tags
    elif stamp and not every:
        most = frames if delays is not None else _share(marks, part, parts)
        tags = [
            min(most, share // max(apart, math.ceil(trial.rate_fps / limit_fps))) if weight else 0
            for share, weight in zip(shares, reached, strict=True)
        ]
    all_bursts = []
    for index, (stream, share, position, tagged) in enumerate(
        zip(streams.streams, shares, find_first_positions(weights), tags, strict=True)
    ):
        rate = rate_fps * stream.weight / sum(weights)
        group = stream.stream_id if every and not is_marked(stream) else None
        whole = Burst(index, rate, share, 1e6 * position / rate_fps, group)
        if tagged:
            first_s = 0.0 if delays is None else delays.first_tag_s
            all_bursts += _timed(whole, stream, tagged, math.ceil(first_s * rate))
        else:
            all_bursts.append(whole)
    return [part for burst in all_bursts for part in _within(burst)]


def _within(burst: Burst) -> list[Burst]:
    """A burst of more frames than TRex takes, as equal groups without a pause, and the rest.

    100 Gbit/s make that of a trial of 60 s.
    """
    if burst.frames // burst.times <= MAX_FRAMES:
        return [burst]
    if burst.pg_id is not None:
        raise UsageError(
            f"TRex stamps at most {MAX_FRAMES:,} frames of a stream in a trial, not "
            f"{burst.frames:,}",
            "choose shorter trials or a lower rate",
            code="trial-too-long",
        )
    groups = -(-burst.frames // MAX_FRAMES)
    frames, slot_us = burst.frames // groups * groups, 1e6 / burst.pps
    whole = replace(burst, frames=frames, times=groups, gap_us=slot_us)
    rest = replace(burst, frames=burst.frames - frames, isg=burst.isg + frames * slot_us)
    return [whole, rest] if rest.frames else [whole]


def _timed(whole: Burst, stream: Stream, tags: int, first: int) -> list[Burst]:
    """A class of which some frames are tagged, each at its own time.

    Of the frames from ``first`` on, every k-th is tagged: the main stream ends before the first
    tag, groups of k - 1 frames leave room for one frame after each group, and tags fill the rooms.
    Each of the three begins the sequence of the class's frames anew.
    """
    if tags > whole.frames - first:
        raise UsageError(
            f"{tags} tags do not fit into {whole.frames - first} frames of '{stream.name}'",
            code="trial-too-short",
        )
    every = whole.pg_id is not None
    if every and stream.stream_id % GROUPS_PER_DIRECTION >= MAX_TIMED_CLASSES:
        raise UsageError(
            f"TRex has latency groups for the tags of {MAX_TIMED_CLASSES} classes in each direction",
            code="too-many-for-trex",
        )
    period = (whole.frames - first) // tags
    before = whole.frames - tags * period
    slot_us = 1e6 / whole.pps
    tag_us = whole.isg + before * slot_us
    main = replace(whole, frames=before)
    between = replace(
        whole,
        frames=tags * (period - 1),
        isg=tag_us + slot_us,
        pg_id=stream.stream_id + _BETWEEN if every else None,
        times=tags,
        gap_us=2 * slot_us,
    )
    tagged = replace(
        whole,
        pps=whole.pps / period,
        frames=tags,
        isg=tag_us,
        pg_id=stream.stream_id + (_TAGS if every else 0),
        tags=True,
    )
    return [b for b in (main, between, tagged) if b.frames]


def _share(whole: int, part: int, parts: int) -> int:
    return whole * (part + 1) // parts - whole * part // parts


def first_frames(streams: StreamSet, trial: Trial, part: int, parts: int) -> list[int]:
    """Number of the first frame of each stream that a pair of ports sends, within the whole."""
    weights = [s.weight for s in streams.streams]
    firsts = [0] * len(weights)
    for before in range(part):
        mine = count_frames(weights, _share(trial.frames, before, parts))
        firsts = [a + b for a, b in zip(firsts, mine, strict=True)]
    return firsts


_TAG = b"\x81\x00"
"""TPID of IEEE 802.1Q."""


def readdressed(frame: bytes, macs: tuple[str, str], vlan: int | None) -> bytes:
    """A frame with another destination, source and VLAN identifier.

    Args:
        frame: tagged, if ``vlan`` is given.
        macs: destination and source.
        vlan: the identifier; None: it stays.
    """
    head = bytes.fromhex("".join(macs).replace(":", ""))
    if vlan is None or frame[12:14] != _TAG:
        return head + frame[12:]
    priority = frame[14] & 0xF0
    return head + _TAG + bytes([priority | vlan >> 8, vlan & 0xFF]) + frame[16:]


def with_macs(
    streams: StreamSet, tester_mac: str, dut_mac: str, vlan: int | None = None
) -> StreamSet:
    """The set as another pair of ports sends it.

    Args:
        streams: of the first pair.
        tester_mac, dut_mac: source and destination.
        vlan: its identifier; None: that of the first pair.
    """
    addressed = []
    for stream in streams.streams:
        compiled = base64.b64decode(stream.trex["packet"]["binary"])
        packet = readdressed(compiled, (dut_mac, tester_mac), vlan)
        binary = base64.b64encode(packet).decode()
        trex = {**stream.trex, "packet": {**stream.trex["packet"], "binary": binary}}
        addressed.append(replace(stream, trex=trex))
    return StreamSet(streams.direction, tuple(addressed))


def with_cache(streams: StreamSet, size: int) -> StreamSet:
    """The set with TRex's cache of ready frames: faster, but only ``size`` distinct frames."""
    if not size:
        return streams
    return StreamSet(
        streams.direction,
        tuple(
            replace(s, trex={**s.trex, "vm": {**s.trex["vm"], "cache": size}})
            for s in streams.streams
        ),
    )
