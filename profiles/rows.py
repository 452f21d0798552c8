"""Cheaper programs: lists of precomputed octets instead of draws, shifts and sums per frame.

That takes about half the time per frame, but the frames repeat after as many as there are rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from v6t.base.errors import UsageError
from v6t.profiles.compiler import instructions as ins
from v6t.profiles.expand import Expander
from v6t.profiles.streams import Stream, StreamSet, compute_period

if TYPE_CHECKING:
    from v6t.packets.arrays import U8

WINDOW_SIZES = (1, 2, 4, 8)  # octets of a list's values
MAX_EXACT_ROWS = 8192  # programs with a period of up to this are always replaced


def convert_to_rows(streams: StreamSet, rows: int) -> StreamSet:
    """Replace every program by lists of the changing octets of its first frames, or raise UsageError.

    ``rows`` is the number of distinct frames; 0: only where that changes no frame.
    """
    if not 0 <= rows <= ins.MAX_LIST:
        problem = f"{rows} rows are not possible: TRex lists hold 1 to {ins.MAX_LIST} values"
        raise UsageError(problem, code="too-many-for-trex")
    return StreamSet(streams.direction, tuple(_list_rows(s, rows) for s in streams.streams))


def _list_rows(stream: Stream, rows: int) -> Stream:
    count = rows or compute_period(stream)
    if not stream.program or count is None or (not rows and count > MAX_EXACT_ROWS):
        return stream
    frames = Expander(stream).compute_frames(0, count)
    try:
        listed, lists = list_frames(stream, frames, list_values, "use the plain program (rows: 0)")
    except UsageError:  # too many octets change
        if rows:
            raise
        return stream
    text = f"rows: {count} precomputed frames in {lists} lists, repeated in a cycle"
    return replace(listed, notes=(*stream.notes, text))


def list_frames(
    stream: Stream, frames: U8, make_list: Callable[[U8, int, int], ins.Instruction], hint: str = ""
) -> tuple[Stream, int]:
    """Return a stream that repeats frames ``(n, length)`` in turn, and its number of lists.

    ``make_list`` declares the list for octets of frames: frames, first octet, number of octets.
    """
    import numpy as np

    changing = np.nonzero((frames != frames[0]).any(axis=0))[0].tolist()
    spans = cover_octets(changing, frames.shape[1])
    needed = sum(size for _, size in spans)
    if needed > ins.MAX_VARIABLE_OCTETS:
        problem = f"the frames of '{stream.name}' change in {needed} octets, more than TRex's "
        raise UsageError(f"{problem}{ins.MAX_VARIABLE_OCTETS}", hint, code="too-many-for-trex")
    program = [make_list(frames, at, size) for at, size in spans]
    program += [ins.write(f"at{at}", at) for at, _ in spans]
    return stream.with_packet(frames[0].tobytes()).with_program(program), len(spans)


def cover_octets(changing: list[int], length: int) -> list[tuple[int, int]]:
    """Return the fewest windows (offset, size) of TRex's sizes that cover the changing octets."""
    spans = []
    while changing:
        first = changing[0]
        window = [octet for octet in changing if octet < first + WINDOW_SIZES[-1]]
        changing = changing[len(window) :]
        size = next(s for s in WINDOW_SIZES if s > window[-1] - first)
        spans.append((min(first, length - size), size))
    return spans


def list_values(frames: U8, offset: int, size: int) -> ins.Instruction:
    """Return the instruction that declares a list of the values of ``size`` octets in each frame."""
    octets = frames[:, offset : offset + size].tobytes()
    values = [int.from_bytes(octets[i : i + size], "big") for i in range(0, len(octets), size)]
    return ins.declare_list(f"at{offset}", size, values)
