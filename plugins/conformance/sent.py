"""What a plugin sends: frames that exist, are valid, as long as it says, and always the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from v6t.packets.headers import to_numbers
from v6t.packets.walker import find_problems, walk
from v6t.plugins.conformance.cases import FRAMES, SEED, Case
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander
from v6t.profiles.export.stl import from_stl_json, to_stl_json
from v6t.profiles.model import Role, TrafficClass
from v6t.profiles.template import build
from v6t.profiles.wire import FCS_OCTETS

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.packets.arrays import U8
    from v6t.plugins.base import Link

IPS = {"IPv4": 4, "IPv6": 6}


def sent(case: Case) -> Iterator[str]:
    """What is wrong with the traffic of one case."""
    roles = {c.role for c in case.traffic.classes}
    if Role.FOREGROUND not in roles:
        yield "traffic() has no foreground class"
    if case.traffic.direction != case.direction:
        yield f"traffic() is of direction {case.traffic.direction}"
    for described, stream in zip(case.traffic.classes, case.streams.streams, strict=True):
        frames = case.marked(stream)
        who = f"class '{stream.name}'"
        yield from (
            f"{who}: {problem}" for problem in link_problems(frames, case.here, sending=True)
        )
        if stream.role is not Role.NEGATIVE:
            yield from (f"{who}: frame {k}: {problem}" for k, problem in first_problem(frames))
        if stream.role is Role.FOREGROUND:
            octets = frames.shape[1] + FCS_OCTETS
            if octets not in case.octets:
                sizes = " or ".join(map(str, case.octets))
                yield f"{who}: frames have {octets} octets, frame_pair says {sizes}"
            version = outer_version(frames[0])
            if version != case.versions[0]:
                yield f"{who}: frames are IPv{version}, ip_versions says {case.versions[0]}"
        yield from (f"{who}: {problem}" for problem in _as_described(described, frames))
    yield from _the_same_again(case)


def first_problem(frames: U8) -> Iterator[tuple[int, str]]:
    """The first frame with a wrong length or checksum, and the first thing that is wrong."""
    for number, frame in enumerate(frames):
        problems = find_problems(frame.tobytes())
        if problems:
            yield number, problems[0]
            return


def outer_version(frame: U8) -> int:
    """IP version of a frame; 0: it carries none."""
    versions = (IPS[h.name] for h in walk(frame.tobytes()) if h.name in IPS)
    return next(versions, 0)


def link_problems(frames: U8, link: Link, *, sending: bool) -> Iterator[str]:
    """Ethernet addresses and VLAN tag that are not the link's."""
    ends = (link.dut_mac, link.tester_mac) if sending else (link.tester_mac, link.dut_mac)
    macs = np.frombuffer(bytes.fromhex("".join(ends).replace(":", "")), dtype=np.uint8)
    if (frames[:, :12] != macs).any():
        yield "MAC addresses are not those of the link"
    tagged = frames[:, 12:14] == (0x81, 0x00)
    if link.vlan is None:
        if tagged.all(axis=1).any():
            yield "frames have a VLAN tag, the link has none"
    elif not tagged.all() or (to_numbers(frames[:, 14:16]) & 0x0FFF != link.vlan).any():
        yield f"frames are not tagged with VLAN {link.vlan}"


def _as_described(described: TrafficClass, frames: U8) -> Iterator[str]:
    """Every bound field holds the variable's value, within its bounds."""
    layout = build(described.layers, described.frame_size).layout
    copied = described.copied_bits()
    for variable in described.drawn_variables():
        known: dict[int, NDArray[np.uint8]] = {}
        for path, copy in copied:
            if copy.variable is not variable or copy.add:
                continue  # bits of a sum are not bits of the variable
            first = layout.locate(path, copy)
            last = first + copy.length - 1
            bits = np.unpackbits(frames[:, first // 8 : last // 8 + 1], axis=1)
            bits = bits[:, first % 8 : first % 8 + copy.length]
            for place in range(copy.length):
                seen = known.setdefault(copy.source + place, bits[:, place])
                if (seen != bits[:, place]).any():
                    yield f"{path} does not hold the bits of variable '{variable.name}'"
                    break
        if known.keys() == set(range(variable.width)) and not len(variable.values):
            values = np.zeros(len(frames), dtype=np.uint64)  # the widest variable has 48 bits
            for place in range(variable.width):
                values = values << np.uint64(1) | known[place]
            outside = (values < variable.low) | (values > variable.top)
            if outside.any():
                yield f"variable '{variable.name}' takes the value {values[outside][0]}"


def _the_same_again(case: Case) -> Iterator[str]:
    """One seed is one traffic; single frames, all at once, and of a file are the same."""
    again = compile_traffic(
        case.plugin.sized_traffic(case.direction, case.sizes, SEED),
        first_stream_id=case.streams.streams[0].stream_id,
    )
    if again != case.streams:
        yield "traffic() with one seed is not the same twice"
    read = from_stl_json(to_stl_json(case.streams))
    for stream, other in zip(case.streams.streams, read.streams, strict=True):
        reader = Expander(other)
        single = np.concatenate([reader.frames(k, 1) for k in range(0, FRAMES, 7)])
        if (case.first(stream)[::7] != single).any():
            yield f"class '{stream.name}': frames of the exported stream are others"
