"""Streams as TRex sends them when it stamps every frame (its latency streams).

TRex sets the lowest bit of the outer TOS or traffic class and writes 0xFFFF into the outer IPv4
identification or IPv6 flow label of such streams (``trex_stl_fs.cpp``, v3.08). Doing the same to
the template first keeps one description of a frame: what is loaded, expanded and compared.
Stamps change the payload of every frame, so that each needs its UDP checksum computed.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from typing import Any

from v6t.procedures.trial import Trial
from v6t.profiles import instructions as ins
from v6t.profiles.errors import UsageError
from v6t.profiles.inet import Headers, headers_of
from v6t.profiles.mixing import counts, first_positions
from v6t.profiles.streams import Stream, StreamSet

MARK = 0xFFFF
MAX_STAMPED_FPS = 5e6
"""TRex's documented limit of stamped frames per second, all streams together."""
TAG_GROUPS = 32
"""Tagged frames use latency groups this far above their stream's."""


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
    """

    index: int
    pps: float
    frames: int
    isg: float
    pg_id: int | None
    tags: bool = False

    def to_json(self) -> dict[str, Any]:
        """As the worker reads it."""
        return dict(self.__dict__)


def stamped(streams: StreamSet) -> StreamSet:
    """The set with each stream as TRex will really send it when it stamps.

    Raises:
        UsageError: a frame cannot carry a stamp.
    """
    return StreamSet(streams.direction, tuple(_stamped(s) for s in streams.streams))


def _stamped(stream: Stream) -> Stream:
    packet = bytearray(base64.b64decode(stream.trex["packet"]["binary"]))
    headers = headers_of(bytes(packet))
    if headers.payload + 16 > len(packet):
        raise UsageError(
            f"a frame of '{stream.name}' has {len(packet) - headers.payload} octets of payload, "
            "but TRex's time stamp needs 16",
            "choose a larger frame size",
        )
    l3 = headers.l3
    if headers.version == 4:
        packet[l3 + 1] |= 1
        packet[l3 + 4 : l3 + 6] = MARK.to_bytes(2, "big")
        packet[l3 + 10 : l3 + 12] = b"\0\0"
        packet[l3 + 10 : l3 + 12] = _checksum(packet[l3 : l3 + 20]).to_bytes(2, "big")
    elif headers.version == 6:
        packet[l3 + 1] = packet[l3 + 1] & 0xF0 | 0x10
        packet[l3 + 2 : l3 + 4] = MARK.to_bytes(2, "big")
    program = list(stream.trex["vm"]["instructions"])
    program += _fix(headers, program)
    trex = {
        **stream.trex,
        "packet": {**stream.trex["packet"], "binary": base64.b64encode(packet).decode()},
        "vm": {**stream.trex["vm"], "instructions": program},
    }
    return replace(stream, trex=trex)


def _fix(headers: Headers, program: list[ins.Instruction]) -> list[ins.Instruction]:
    if headers.udp is None or any(i["type"] == "fix_checksum_hw" for i in program):
        return []
    below = headers.inner if headers.inner is not None else headers.l3
    if below > ins.MAX_L2_OCTETS:
        raise UsageError(
            f"the UDP header's network header begins at octet {below}, but TRex fixes checksums "
            f"only up to octet {ins.MAX_L2_OCTETS}"
        )
    return [ins.fix_hardware(below, headers.udp - below, ins.L4_UDP)]


def _checksum(header: bytes | bytearray) -> int:
    total = sum(int.from_bytes(header[i : i + 2], "big") for i in range(0, len(header), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def bursts(streams: StreamSet, trial: Trial, *, stamp: bool) -> list[Burst]:
    """Exact bursts of one trial: each class its share of rate and frames (GEN-14).

    Tagged frames are streams of their own, clones of the class they belong to, whose frames are
    taken from the class's main stream (LAT-06): tags and main stream together are the load.

    Raises:
        UsageError: the stamped rate is more than TRex can do, or the tags are more than the frames.
    """
    weights = [s.weight for s in streams.streams]
    shares = counts(weights, trial.frames)
    if stamp and trial.rate_fps > MAX_STAMPED_FPS:
        raise UsageError(
            f"TRex stamps at most {MAX_STAMPED_FPS:.0f} frames per second, "
            f"not {trial.rate_fps:.0f}",
            "use counting: ports with several cores for higher rates",
        )
    asked = trial.delays
    tags = counts(weights, asked.tags) if asked is not None else [0] * len(weights)
    found = []
    for index, (stream, share, position, tagged) in enumerate(
        zip(streams.streams, shares, first_positions(weights), tags, strict=True)
    ):
        if tagged > share:
            raise UsageError(f"{tagged} tags do not fit into {share} frames of '{stream.name}'")
        main = share - tagged
        rate = trial.rate_fps * stream.weight / sum(weights)
        found.append(
            Burst(
                index,
                rate * main / share if share else rate,
                main,
                1e6 * position / trial.rate_fps,
                stream.stream_id if stamp else None,
            )
        )
        if tagged and asked is not None:
            rest_s = trial.duration_s - asked.first_tag_s
            first_us = 1e6 * asked.first_tag_s
            group = stream.stream_id + TAG_GROUPS
            found.append(Burst(index, tagged / rest_s, tagged, first_us, group, tags=True))
    return found


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
