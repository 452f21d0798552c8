"""Permutations of ``2^n`` values whose steps look random, from lists and counters of TRex.

Frame j is looked at as the bits of j. A list that TRex repeats can be any function of its lowest 15
bits, so it supplies the most of every field that is bound. A higher bit t can come from a counter
only: bit t of ``stride * j`` is bit t of j, inverted or not depending on the bits below, so all of
them together are a permutation whatever the strides. Each counter supplies every second bit of a
stretch, with a stride of its own, so that neighbouring bits of a value move independently.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from v6t.base.errors import UsageError
from v6t.profiles.compiler.instructions import MAX_LIST
from v6t.profiles.compiler.variables import Part

if TYPE_CHECKING:
    import numpy as np

LISTED_BITS = 15
"""A list of so many bits is the longest that TRex takes."""
MAX_BITS = 48
"""Bits of frame numbers an 8-octet counter can be multiplied with."""
_SHORT_BITS = 2
"""Bits above the list that a counter of 4 octets supplies each: others would change seldom."""
_TRIES = 64
"""Strides among which the best is taken."""
_LONG_COUNTERS = 4
"""Counters of 8 octets at most: a stream of TRex has 64 octets of variables."""


def mixed(
    name: str, bits: int, apart: int, cuts: Iterable[int], rng: np.random.Generator
) -> tuple[Part, ...]:
    """Parts that together take all ``2^bits`` values, each once per ``2^(bits + apart)`` frames.

    Args:
        name: of the variable.
        bits: of its values.
        apart: every value comes once in the frames that are equal modulo ``2^apart``.
        cuts: bits between which bindings begin or end; each stretch has its share of the list.
        rng: of the order.

    Raises:
        UsageError: the values are too many.
    """
    if bits + apart > MAX_BITS:
        raise UsageError(
            f"variable '{name}' cannot enumerate 2^{bits} values: TRex counts 2^{MAX_BITS} frames",
            "choose fewer values",
        )
    listed = LISTED_BITS - apart
    above, below = _share(listed, [0, *sorted(c for c in set(cuts) if 0 < c < bits), bits])
    parts = []
    if listed:
        orders = rng.permuted(_rows(1 << listed, 1 << apart), axis=1)
        values = orders.T.reshape(-1).tolist()
        parts.append(Part(f"{name}.list", 0, bits, "inc", values=values, sizes=(2,), runs=above))
    places = dict(enumerate(below, LISTED_BITS))
    for octets, times in _counters(LISTED_BITS, bits + apart):
        raised, stride = _stride(octets, times, rng)
        step = stride << raised
        word = 32 if octets == 8 else 0
        runs = tuple((places[t], t + raised - word, 1) for t in times)
        label = f"{name}.{times[0]}"
        most = (step << times[-1] + 1) - 1
        parts.append(
            Part(label, 0, bits, "inc", 0, most, step, sizes=(octets,), clean=False, runs=runs)
        )
    return tuple(parts)


def spread(values: Sequence[int], bits: int, rng: np.random.Generator) -> list[int]:
    """A list of an odd number of values, lengthened: their order differs from pass to pass.

    Beside a permutation of ``2^bits`` values it still gives every pair once: those frames that show
    the same value of the permutation are apart by a multiple of ``2^bits``, and the list holds
    every value once in places that are equal modulo any power of two up to that.
    """
    import numpy as np

    doublings = min(bits, (MAX_LIST // len(values)).bit_length() - 1)
    rows = np.tile(np.asarray(values), (1 << doublings, 1))
    if doublings:
        rows = rng.permuted(rows, axis=1)
    return [int(v) for v in rows.T.reshape(-1)]


def _rows(length: int, count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    import numpy as np

    return np.tile(np.arange(length), (count, 1))


def _share(listed: int, edges: Sequence[int]) -> tuple[tuple[tuple[int, int, int], ...], list[int]]:
    """The upper bits of each stretch come from the list, evenly shared; the bits that do not."""
    bits, start, runs = edges[-1], 0, []
    rest: list[int] = []
    for low, high in pairwise(edges):
        upto = listed * high // bits
        width = upto - start
        if width:
            runs.append((high - width, start, width))
        rest += range(low, high - width)
        start = upto
    return tuple(runs), rest


def _counters(first: int, end: int) -> Iterator[tuple[int, list[int]]]:
    """Octets of each counter and the bits of the frame number it supplies, in ascending order."""
    short = min(first + _SHORT_BITS, end)
    yield from ((4, [t]) for t in range(first, short))
    for slack in range(end):
        groups = list(_groups(short, end, slack))
        counters = [part for g in groups for part in (g[0::2], g[1::2]) if part]
        if len(counters) <= _LONG_COUNTERS:
            break
    for times in counters:
        yield 8, times


def _groups(first: int, end: int, slack: int) -> Iterator[list[int]]:
    """Stretches from the top on whose highest bit changes once in ``2^(slack + 2)`` frames."""
    top = end - 1
    while top >= first:
        low = top
        while low > first and _room(8, [low - 1, top]) >= top - 1 - slack:
            low -= 1
        yield list(range(low, top + 1))
        top = low - 1


def _room(octets: int, times: Sequence[int]) -> int:
    """Bits the stride may have so that TRex's server multiplies without overflow."""
    if octets == 4:
        return 31 - times[-1]
    return 61 - times[-1] - max(0, 32 - times[0])


def _stride(octets: int, times: Sequence[int], rng: np.random.Generator) -> tuple[int, int]:
    """How far a counter's bits are raised (TRex reads an 8-octet one from bit 32 on), its stride.

    Of some strides the one whose bits change most nearly in every second frame.
    """
    raised = max(0, 32 - times[0]) if octets == 8 else 0
    room = max(1, min(_room(octets, times), times[-1] + 1))
    drawn = rng.integers(1 << room - 1, 1 << room, size=_TRIES)
    strides = [int(s) | 1 for s in drawn]

    def evenness(stride: int) -> float:
        turns = (stride / (2 << t) % 1 for t in times)  # of the circle whose second half is a 1
        return min(min(a, 1 - a, abs(0.5 - a)) for a in turns)

    return raised, max(strides, key=evenness)
