"""The stream set: compiled traffic in TRex's stream JSON."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from v6t.packets.direction import Direction
from v6t.packets.trailer import Checksum
from v6t.profiles.model import Role


@dataclass(frozen=True)
class Stream:
    """One compiled traffic class."""

    name: str
    role: Role
    stream_id: int
    """0..127, unique over both directions; part of the trailer and TRex's latency ``pg_id``."""
    weight: int
    trex: Mapping[str, Any]
    """TRex's stream object (``packet``, ``vm``, ``mode``, ``isg``, ``flow_stats`` ...)."""
    checksum: Checksum | None  # the checksum that covers the end of the frames, if there is one
    notes: tuple[str, ...] = ()  # decisions of the compiler

    @property
    def program(self) -> list[dict[str, Any]]:
        instructions: list[dict[str, Any]] = self.trex.get("vm", {}).get("instructions", [])
        return instructions

    @property
    def packet(self) -> bytes:
        return base64.b64decode(self.trex["packet"]["binary"])

    def with_packet(self, packet: bytes) -> Stream:
        """Return a copy with another packet template."""
        template = {**self.trex["packet"], "binary": base64.b64encode(packet).decode()}
        return replace(self, trex={**self.trex, "packet": template})

    def with_program(self, program: list[dict[str, Any]], **trex: Any) -> Stream:
        """Return a copy with other instructions, and other keys of TRex's object."""
        vm = {**self.trex["vm"], "instructions": program}
        return replace(self, trex={**self.trex, **trex, "vm": vm})


@dataclass(frozen=True)
class StreamSet:
    """All streams of one direction, in the order of the traffic's classes."""

    direction: Direction
    streams: tuple[Stream, ...]

    @property
    def longest_packet(self) -> int:
        """Length of the longest packet template [octets]."""
        return max(len(stream.packet) for stream in self.streams)


def start_at_frame(stream: Stream, frame: int) -> Stream:
    """Return a copy that continues from a frame; its random draws start again."""
    return stream.with_program([_advance(instruction, frame) for instruction in stream.program])


def _advance(instruction: dict[str, Any], frame: int) -> dict[str, Any]:
    if instruction["type"] != "flow_var" or instruction["op"] == "random":
        return instruction
    move = frame * int(instruction["step"]) * (1 if instruction["op"] == "inc" else -1)
    if values := instruction.get("value_list"):
        at = move % len(values)
        return {**instruction, "value_list": [*values[at:], *values[:at]]}
    least, most = int(instruction["min_value"]), int(instruction["max_value"])
    begin = least + (int(instruction["init_value"]) - least + move) % (most - least + 1)
    return {**instruction, "init_value": begin}


def compute_period(stream: Stream) -> int | None:
    """Return the number of frames after which a stream repeats, or None if it draws random numbers."""
    multiple = 1
    for variable in stream.program:
        if variable["type"] != "flow_var":
            continue
        if variable["op"] == "random":
            return None
        step = int(variable["step"])
        if values := variable.get("value_list"):
            span = len(values)
        else:
            span = int(variable["max_value"]) - int(variable["min_value"]) + 1
            span += -span % step  # the server rounds ranges up to the step
        multiple = math.lcm(multiple, span // math.gcd(span, step))
    return multiple
