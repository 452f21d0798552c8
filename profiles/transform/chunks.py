"""One traffic class as several streams: because a list of TRex ends, or because ports share it.

Frames k, k + B, k + 2B ... of the class make block k of B, so that blocks which send in turn send
the frames in their order. A stream that begins at a later frame of its sequence lets several pairs
of ports send one enumeration without sending a frame twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from v6t.profiles.compiler.instructions import MAX_LIST
from v6t.profiles.streams import Stream
from v6t.profiles.transform.precompute import listing

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

MOST_ROWS = 32_768
"""Frames of a block: their lists have to fit into one request to TRex's server."""


def block_count(frames: int, rows: int = MOST_ROWS) -> int:
    """Blocks that hold so many frames."""
    return max(1, -(-frames // min(rows, MAX_LIST)))


def blocks(
    stream: Stream,
    count: int,
    frames: Callable[[NDArray[np.int64]], NDArray[np.uint8]],
    first_id: int,
    rows: int = MOST_ROWS,
) -> tuple[Stream, ...]:
    """A stream as blocks of listed frames.

    Args:
        stream: whose frames they are.
        count: how many there are.
        frames: gives ``(n, length)`` frames by number ``(n,)``.
        first_id: stream identifier of the first block; the others follow.
        rows: largest block.

    Raises:
        UsageError: the changing octets do not fit TRex's variables.
    """
    import numpy as np

    number = block_count(count, rows)
    found = []
    for at in range(number):
        mine = frames(np.arange(at, count, number, dtype=np.int64))
        note = f"frames {at}, {at + number} .. of {count}: {len(mine)} ready frames"
        made = listing(stream, mine, note)
        name = f"{stream.name}.{at}" if number > 1 else stream.name
        trex = {**made.trex, "name": name} if "name" in made.trex else made.trex
        found.append(replace(made, stream_id=first_id + at, trex=trex))
    return tuple(found)


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
