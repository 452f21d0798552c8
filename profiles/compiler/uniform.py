"""Uniform draws in spite of TRex's 15-bit generator.

``vm_rand16`` gives 15 bits ``r``, the top of a 31-bit linear congruential state; ``vm_rand32``
gives ``(r << 16) + r'``, so bits 15 and 31 are always 0; a variable is ``min + random % range``
(trex_stl_stream_vm.h). Two weaknesses follow:

* ``2^n`` values wider than 15 bits lack a bit;
* the low bits of draws repeat early (bit k of a draw after ``2^(k + 17)`` draws) and those of three
  draws in a row are far from independent, so variables made of low bits depend on each other.

Therefore

* up to 15 bits are the *top* bits of one draw: exactly uniform;
* 16 bits are the low half of a 4-octet variable with range :data:`FILLED`: half of the draws wrap,
  which flips bit 15 of a draw, and the top bit of the first draw decides which half;
* more bits are several such variables;
* ``odd * 2^k`` values are the top bits of a 4-octet variable too, as long as they fit;
* of any other range the modulo itself mixes the bits. What bias it leaves is computed;
* where it is too much (the range is next to a multiple of 2^16, as 1..65535 is) and a factor 2^k
  cannot be split off, up to 65,535 values are a shuffled list: each comes once per cycle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

from v6t.base.errors import UsageError
from v6t.profiles.compiler.instructions import MAX_LIST
from v6t.profiles.compiler.variables import (
    WORD,
    Demand,
    Part,
    Supply,
    fold,
    shuffled,
    sizes_for,
    trailing_zeros,
)

DRAW_BITS = 15
DRAW_MASK = (1 << DRAW_BITS) - 1
FILLED = (1 << 30) + (1 << 15)
FILLED_BITS = 16
FILLED_BIAS = 2.0**-14
MAX_BIAS = 0.01
"""Largest relative deviation of a value's probability that is accepted."""
RAISED_BIAS = 0.002
"""The same where dropping fewer low bits remains as an alternative."""


def uniform(demand: Demand) -> Supply:
    """Parts of a ``UNIFORM`` variable.

    Raises:
        UsageError: TRex cannot draw from this range without visible bias.
    """
    variable = demand.variable
    low, high = variable.low, variable.top
    if low == high and not demand.adds:
        return Supply((), low)
    bits, constant = fold(low, high, demand)
    parts, notes = _range(demand, low - constant, high - constant, 0, bits)
    return Supply(tuple(parts), constant, tuple(notes))


@lru_cache(maxsize=4096)
def bias(span: int, below: int = 0) -> float:
    """Largest relative deviation from ``1/span`` of a value of ``vm_rand32() % (span << below)``.

    The lowest ``below`` bits are dropped. All 2^30 outcomes count: they are blocks of 2^15
    neighbours that start at multiples of 2^16.
    """
    import numpy as np

    block, whole = 1 << DRAW_BITS, span << below
    laps, rest = divmod(block, whole)
    starts = (np.arange(block, dtype=np.int64) << 16) % whole
    ends = starts + rest
    # how often each residue lies in [start, start + rest) modulo the range: a step function; the
    # lowest bit tells steps up from steps down: numbers are sorted faster than they are ordered
    steps = np.concatenate([[0], starts << 1 | 1, ends % whole << 1])
    steps.sort()
    at, level = steps >> 1, np.cumsum((steps & 1) * 2 - 1)
    # one zero, which is no step, was counted as one down
    level += laps * block + int((ends >= whole).sum()) + 1
    last = np.append(at[1:] != at[:-1], True)
    at, level = at[last], level[last]
    mean = float(block) * block / span
    if below == 0:
        counts = level.astype(np.float64)
    else:
        edges = np.append(at, whole)
        total = np.append(0, np.cumsum(np.diff(edges) * level))
        groups = np.arange(span + 1, dtype=np.int64) << below
        counts = np.diff(np.interp(groups, edges, total))
    return float(np.abs(counts - mean).max() / mean)


def _range(
    demand: Demand, low: int, high: int, shift: int, bits: int
) -> tuple[list[Part], list[str]]:
    """Parts for ``low..high`` in bits ``shift..shift + bits - 1`` of the variable."""
    span = high - low + 1
    if low == 0 and span == 1 << bits:
        return _bits(demand, shift, bits)
    name = demand.variable.name if shift == 0 else f"{demand.variable.name}.{shift}"
    for raised in _raises(high, span):
        off = bias(span, raised)
        if off <= (RAISED_BIAS if raised else MAX_BIAS):
            part = Part(
                name,
                shift,
                bits,
                "random",
                low << raised,
                ((high + 1) << raised) - 1,
                raised=raised,
                clean=raised == 0,
            )
            return [part], [f"{name}: each of {span} values within {off:.2%} of equally likely"]
    zeros = min(trailing_zeros(low, bits), trailing_zeros(high + 1, bits), demand.carry - shift)
    if 0 < zeros < bits:
        above, notes = _range(
            demand, low >> zeros, ((high + 1) >> zeros) - 1, shift + zeros, bits - zeros
        )
        below, more = _bits(demand, shift, zeros)
        return above + below, notes + more
    if bits <= WORD and span <= MAX_LIST:
        values = shuffled(low, high, demand.seed)
        text = (
            f"{name}: TRex's 15-bit random numbers cannot draw evenly from {span} values, so a "
            f"shuffled list gives each exactly once per {span} frames"
        )
        return [Part(name, shift, bits, "inc", values=values, sizes=sizes_for(high))], [text]
    raise UsageError(
        f"variable '{demand.variable.name}' cannot be drawn uniformly from {span} values: "
        "TRex's random numbers have 15 or 30 bits",
        "choose a range of 2^n values that begins at a multiple of 2^n, or a smaller one",
    )


def _raises(high: int, span: int) -> Iterator[int]:
    """How many bits to draw below the value and to drop, best first."""
    # more than this and blocks of 2^15 neighbours would leave every second one out
    most = max(DRAW_BITS - trailing_zeros(span, WORD), 0) if span <= 1 << 16 else 0
    for raised in range(most, -1, -1):
        if (high + 1) << raised <= 1 << WORD:
            yield raised


def _bits(demand: Demand, shift: int, bits: int) -> tuple[list[Part], list[str]]:
    """Parts for all ``2^bits`` values of bits ``shift..shift + bits - 1``."""
    top, most = shift + bits, FILLED_BITS
    ways: list[tuple[int, ...]]
    if bits <= most:
        ways = [()]
    elif bits <= 2 * most:
        ways = [(c,) for c in range(top - most, shift + most + 1)]
    else:
        ways = [
            (a, b)
            for a in range(max(shift + 1, top - 2 * most), shift + most + 1)
            for b in range(max(a + 1, top - most), min(a + most, top - 1) + 1)
        ]
    # of equally cheap ways take one of exact draws only
    ways.sort(key=lambda w: any(b - a > DRAW_BITS for a, b in pairwise([shift, *w, top])))
    edges = [shift, *demand.best_cut(ways, f"{bits} random bits"), top]
    parts, notes = [], []
    for start, end in pairwise(edges):
        alone = len(edges) == 2 and shift == 0
        name = demand.variable.name if alone else f"{demand.variable.name}.{start}"
        width = end - start
        if width <= DRAW_BITS:
            raised = DRAW_BITS - width
            part = Part(name, start, width, "random", 0, DRAW_MASK, sizes=(2,), raised=raised)
            parts.append(part if raised == 0 else replace(part, clean=False))
        else:
            parts.append(Part(name, start, width, "random", 0, FILLED - 1, clean=False))
            notes.append(
                f"{name}: 16 bits of one 30-bit draw, each value within {FILLED_BIAS:.2%} of "
                "equally likely"
            )
    return parts[::-1], notes
