"""A stream that begins at a later frame of its sequence: because ports or rates share a class.

So several pairs of ports send one enumeration without sending a frame twice, and a second rate
goes on where the first ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from v6t.profiles.streams import Stream


def beginning_at(stream: Stream, frame: int) -> Stream:
    """The stream as it goes on from one of its frames.

    Args:
        stream: compiled.
        frame: number of its first frame. Draws are another matter: they begin anew, but TRex gives
            each of its cores other ones.
    """
    vm = stream.trex["vm"]
    program = [_later(instruction, frame) for instruction in vm["instructions"]]
    trex: dict[str, Any] = {**stream.trex, "vm": {**vm, "instructions": program}}
    return replace(stream, trex=trex)


def _later(instruction: Mapping[str, Any], frame: int) -> Mapping[str, Any]:
    if instruction["type"] != "flow_var" or instruction["op"] == "random":
        return instruction
    values = instruction.get("value_list")
    if values:
        step = int(instruction["step"]) * (1 if instruction["op"] == "inc" else -1)
        at = frame * step % len(values)
        turned = [*values[at:], *values[:at]]
        return {**instruction, "value_list": turned}
    least, most = int(instruction["min_value"]), int(instruction["max_value"])
    step, span = int(instruction["step"]), most - least + 1
    sign = 1 if instruction["op"] == "inc" else -1
    begin = least + (int(instruction["init_value"]) - least + sign * step * frame) % span
    return {**instruction, "init_value": begin}
