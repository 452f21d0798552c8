"""Cheaper programs: rows of ready pieces instead of drawing, shifting and summing per frame.

A field-engine program draws variables, writes them masked and has a checksum computed for every
frame. The same frames can be had from lists: each group of octets that changes becomes one variable
whose value list holds what the program would have written there, checksums included, and one plain
write. Measured on one data path core that is about half the time per frame (``tests/bench``), at a
price that has to be said: only as many distinct frames as rows, at most 65,535, then from the start
again. Where a program's frames repeat that soon anyway the price is nothing, and rows are chosen
unasked. Unlike TRex's own packet cache the frames need no more memory than their changing octets,
and latency streams may use them.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from v6t.base.errors import UsageError
from v6t.profiles.compiler import instructions as ins
from v6t.profiles.expand import Expander
from v6t.profiles.streams import Stream, StreamSet

if TYPE_CHECKING:
    from v6t.packets.arrays import U8

SIZES = (1, 2, 4, 8)


EXACT_ROWS = 8192
"""Programs whose frames repeat after so many are always replaced: the frames are the same."""


def with_rows(streams: StreamSet, rows: int) -> StreamSet:
    """The set with every program replaced by lists of its first ``rows`` frames' pieces.

    Streams without a program stay as they are.

    Args:
        streams: compiled.
        rows: distinct frames; 0: only where that changes no frame.

    Raises:
        UsageError: the rows are too many, or the changing octets do not fit TRex's variables.
    """
    if not rows:
        return StreamSet(streams.direction, tuple(_exactly_listed(s) for s in streams.streams))
    if not 1 <= rows <= ins.MAX_LIST:
        raise UsageError(
            f"{rows} rows cannot be: TRex lists hold 1 to {ins.MAX_LIST} values",
            code="too-many-for-trex",
        )
    return StreamSet(streams.direction, tuple(_listed(s, rows) for s in streams.streams))


def period(stream: Stream) -> int | None:
    """Frames after which a stream begins again; None: it draws pseudorandom numbers."""
    multiple = 1
    for variable in stream.trex["vm"]["instructions"]:
        if variable["type"] != "flow_var":
            continue
        if variable["op"] == "random":
            return None
        values = variable.get("value_list")
        step = int(variable["step"])
        if values:
            span = len(values)
        else:
            span = int(variable["max_value"]) - int(variable["min_value"]) + 1
            span += -span % step  # the server rounds ranges up to the step
        multiple = math.lcm(multiple, span // math.gcd(span, step))
    return multiple


def _exactly_listed(stream: Stream) -> Stream:
    frames = period(stream)
    if frames is None or frames > EXACT_ROWS:
        return stream
    try:
        return _listed(stream, frames)
    except UsageError:  # too many octets change
        return stream


def _listed(stream: Stream, rows: int) -> Stream:
    if not stream.trex["vm"]["instructions"]:
        return stream
    listed, lists = in_lists(
        stream, Expander(stream).frames(0, rows), list_of, "use the plain program (rows: 0)"
    )
    text = f"rows: {rows} ready frames in {lists} lists, then from the start again"
    return replace(listed, notes=(*stream.notes, text))


def in_lists(
    stream: Stream, frames: U8, list_of: Callable[[U8, int, int], ins.Instruction], hint: str = ""
) -> tuple[Stream, int]:
    """A stream that sends the given frames in turn, again and again, and its number of lists.

    Args:
        stream: whose program is replaced.
        frames: ``(n, length)``, n from 1 to 65,535.
        list_of: makes the list of some octets: frames, the first octet, how many.
        hint: what helps where they do not fit.

    Raises:
        UsageError: the changing octets do not fit TRex's variables.
    """
    import numpy as np

    changing = np.nonzero((frames != frames[0]).any(axis=0))[0].tolist()
    spans = pieces(changing, frames.shape[1])
    needed = sum(size for _, size in spans)
    if needed > ins.MAX_VARIABLE_OCTETS:
        raise UsageError(
            f"the frames of '{stream.name}' change in {needed} octets, but TRex's variables hold "
            f"{ins.MAX_VARIABLE_OCTETS} in all",
            hint,
            code="beyond-trex",
        )
    program = [list_of(frames, at, size) for at, size in spans]
    program += [ins.write(f"at{at}", at) for at, _ in spans]
    trex = {
        **stream.trex,
        "packet": {
            **stream.trex["packet"],
            "binary": base64.b64encode(frames[0].tobytes()).decode(),
        },
        "vm": {**stream.trex["vm"], "instructions": program},
    }
    return replace(stream, trex=trex), len(spans)


def pieces(changing: list[int], length: int) -> list[tuple[int, int]]:
    """Fewest aligned-size windows (offset, octets) that cover the changing octets.

    A window costs one variable and one write whatever its size, so each reaches as far as eight
    octets; it is no larger than what it has to cover, and stays within the frame.
    """
    spans = []
    at = 0
    while at < len(changing):
        first = changing[at]
        end = at
        while end < len(changing) and changing[end] < first + SIZES[-1]:
            end += 1
        span = changing[end - 1] - first + 1
        size = next(s for s in SIZES if s >= span)
        spans.append((min(first, length - size), size))
        at = end
    return spans


def list_of(frames: U8, at: int, size: int) -> ins.Instruction:
    """Values of some octets of each frame, as a list of TRex's."""
    octets = frames[:, at : at + size].tobytes()
    values = [int.from_bytes(octets[i : i + size], "big") for i in range(0, len(octets), size)]
    return ins.list_var(f"at{at}", size, values)
