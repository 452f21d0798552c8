"""Uniform draws in spite of TRex's 15-bit generator.

``vm_rand16`` gives 15 bits ``r``, ``vm_rand32`` gives ``(r << 16) + r'``: bits 15 and 31 are
always 0, and a variable is ``min + random % range`` (trex_stl_stream_vm.h). So

* up to 15 bits are one 2-octet variable with range ``2^n``: exactly uniform;
* 16 to 23 bits are the low bits of one 4-octet variable with range :data:`FILLED`. A draw of at
  least that range wraps, which flips its bit 15, and that happens to half of the draws: the low
  n bits are uniform to within ``2^(n - 30)``;
* more bits are several such variables;
* any other range is one 4-octet variable if the modulo leaves little bias, which is computed;
* where it does not (the range is near a divisor or multiple of 2^16, as 1..65535 is) and a factor
  2^k cannot be split off, up to 65,535 values are a shuffled list: each comes once per cycle.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

from v6t.profiles.errors import UsageError
from v6t.profiles.instructions import MAX_LIST
from v6t.profiles.parts import Demand, Part, Supply, fold, shuffled, sizes_for, trailing_zeros

EXACT_BITS = 15
FILLED = (1 << 30) + (1 << 15)
FILLED_BITS = 23
MAX_BIAS = 0.01
"""Largest relative deviation of a value's probability that is accepted."""


def uniform(demand: Demand) -> Supply:
    """Parts of a ``UNIFORM`` variable.

    Raises:
        UsageError: TRex cannot draw from this range without visible bias.
    """
    variable = demand.variable
    low, high = variable.low, variable.top
    bits, constant = fold(low, high, demand)
    if low == high and not demand.adds:
        return Supply((), low)
    parts, notes = _range(demand, low - constant, high - constant, 0, bits)
    return Supply(tuple(parts), constant, tuple(notes))


@lru_cache(maxsize=64)
def bias(span: int) -> float:
    """Largest relative deviation from ``1/span`` of a value of ``vm_rand32() % span``.

    All 2^30 outcomes count: blocks of 2^15 neighbours that start at multiples of 2^16.
    """
    import numpy as np

    block = 1 << EXACT_BITS
    whole, rest = divmod(block, span)
    starts = (np.arange(block, dtype=np.int64) << 16) % span
    ends = starts + rest
    # how often each residue lies in [start, start + rest) modulo span, as steps
    wraps = int((ends > span).sum())
    at = np.concatenate([[0], starts, ends % span])
    step = np.concatenate([[wraps], np.ones(block, np.int64), -np.ones(block, np.int64)])
    step[1 + block :][ends == span] = 0
    by_place = np.argsort(at, kind="stable")
    at, level = at[by_place], np.cumsum(step[by_place])
    last = np.append(at[1:] != at[:-1], True)  # levels that hold for at least one residue
    level = level[last] + block * whole
    mean = block * block / span
    return float(max(level.max() - mean, mean - level.min()) / mean)


def _range(
    demand: Demand, low: int, high: int, shift: int, bits: int
) -> tuple[list[Part], list[str]]:
    """Parts for ``low..high`` in bits ``shift..shift + bits - 1`` of the variable."""
    name = demand.variable.name if shift == 0 else f"{demand.variable.name}.{shift}"
    span = high - low + 1
    if low == 0 and span == 1 << bits:
        return _bits(demand, shift, bits)
    if bits <= 16 and span <= 1 << EXACT_BITS and span & (span - 1) == 0:
        part = Part(name, shift, bits, "random", low, high, sizes=sizes_for(high)[:1])
        return [part], []
    if bits <= 32 and bias(span) <= MAX_BIAS:
        text = f"{name}: {span} values, each within {bias(span):.2%} of equally likely"
        return [Part(name, shift, bits, "random", low, high, sizes=(4,))], [text]
    zeros = min(trailing_zeros(low, bits), trailing_zeros(high + 1, bits), demand.carry - shift)
    if (zeros <= 0 or bits <= zeros) and bits <= 32 and span <= MAX_LIST:
        values = shuffled(low, high, demand.seed)
        text = (
            f"{name}: TRex's 15-bit random numbers cannot draw evenly from {span} values, so a "
            f"shuffled list gives each exactly once per {span} frames"
        )
        return [Part(name, shift, bits, "inc", values=values, sizes=sizes_for(high))], [text]
    if zeros <= 0 or bits <= zeros:
        raise UsageError(
            f"variable '{demand.variable.name}' cannot be drawn uniformly from {span} values: "
            "TRex's random numbers have 15 or 30 bits",
            "choose a range of 2^n values that begins at a multiple of 2^n, or a smaller one",
        )
    above, notes = _range(
        demand, low >> zeros, ((high + 1) >> zeros) - 1, shift + zeros, bits - zeros
    )
    below, more = _bits(demand, shift, zeros)
    return above + below, notes + more


def _bits(demand: Demand, shift: int, bits: int) -> tuple[list[Part], list[str]]:
    """Parts for all ``2^bits`` values of bits ``shift..shift + bits - 1``."""
    top = shift + bits
    pieces = -(-bits // FILLED_BITS)
    ways: list[tuple[int, ...]]
    if pieces == 1:
        ways = [()]
        if bits > EXACT_BITS:
            ways += [(c,) for c in range(top - EXACT_BITS, shift + EXACT_BITS + 1)]
            ways = [w for w in ways if not w or w[0] <= demand.carry]
    elif pieces == 2:
        ways = [(c,) for c in range(top - FILLED_BITS, shift + FILLED_BITS + 1)]
        exact = [w for w in ways if w[0] - shift <= EXACT_BITS and top - w[0] <= EXACT_BITS]
        ways = exact + ways
    else:
        marks = sorted({*demand.cuts, *range(0, top, 8), top - FILLED_BITS, shift + FILLED_BITS})
        ways = [
            (a, b)
            for a in marks
            for b in marks
            if shift < a < b < top and max(a - shift, b - a, top - b) <= FILLED_BITS
        ]
    edges = [shift, *demand.best_cut(ways, f"{bits} random bits"), top]
    parts, notes = [], []
    for start, end in pairwise(edges):
        whole = len(edges) == 2 and shift == 0
        name = demand.variable.name if whole else f"{demand.variable.name}.{start}"
        width = end - start
        if width <= EXACT_BITS:
            high = (1 << width) - 1
            parts.append(
                Part(name, start, width, "random", 0, high, sizes=(1, 2) if width <= 8 else (2,))
            )
        else:
            part = Part(name, start, width, "random", 0, FILLED - 1, sizes=(4,), clean=False)
            parts.append(part)
            notes.append(
                f"{name}: the low {width} bits of one 30-bit draw, each value within "
                f"{2.0 ** (width - 30):.2%} of equally likely"
            )
    return parts[::-1], notes
