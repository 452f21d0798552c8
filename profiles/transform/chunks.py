"""Streams that begin at a later frame, because several ports or rates share their frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from v6t.profiles.streams import Stream


def beginning_at(stream: Stream, frame: int) -> Stream:
    """Return a stream that goes on from one of its frames.

    Args:
        stream: compiled.
        frame: number of its first frame. Random draws begin again.
    """
    vm = stream.trex["vm"]
    program = [_advance(instruction, frame) for instruction in vm["instructions"]]
    return replace(stream, trex={**stream.trex, "vm": {**vm, "instructions": program}})


def _advance(instruction: Mapping[str, Any], frame: int) -> Mapping[str, Any]:
    if instruction["type"] != "flow_var" or instruction["op"] == "random":
        return instruction
    move = frame * int(instruction["step"]) * (1 if instruction["op"] == "inc" else -1)
    if values := instruction.get("value_list"):
        at = move % len(values)
        return {**instruction, "value_list": [*values[at:], *values[:at]]}
    least, most = int(instruction["min_value"]), int(instruction["max_value"])
    begin = least + (int(instruction["init_value"]) - least + move) % (most - least + 1)
    return {**instruction, "init_value": begin}
