"""Uniform draws with TRex's 15-bit generator.

``vm_rand16`` gives 15 bits, ``vm_rand32`` two of them, and a variable is ``min + random % range``
(trex_stl_stream_vm.h). The low bits repeat early and depend on each other. Therefore up to 15 bits are the
top bits of one draw; 16 bits are the low half of a variable with :data:`FILLED_RANGE`; ``odd * 2^k``
values are top bits, too; in other ranges the modulo mixes the bits, and its bias is computed. Where the bias
is too large, up to 65,535 values are a shuffled list.
"""

from bisect import bisect_left
from functools import lru_cache
from itertools import pairwise
from typing import Any

from v6t.profiles.compiler.flow_variables import (
    WORD,
    FlowVariable,
    FrameVariable,
    Split,
    count_trailing_zeros,
    make_list_flow_var,
    shuffle_range,
)
from v6t.profiles.compiler.instructions import MAX_LIST
from v6t.profiles.model import make_limit_error

DRAW_BITS = 15  # of one draw
FILLED_RANGE = (1 << 30) + (1 << 15)  # range of two draws whose low 16 bits are nearly uniform
FILLED_BITS = 16  # low bits used of a variable with this range
FILLED_BIAS = 2.0**-14  # relative deviation of the probability of each of their values
MAX_BIAS = 0.01  # largest accepted relative deviation of a value's probability
MAX_SHIFTED_BIAS = 0.002  # the same for draws whose low bits are dropped

_Draws = tuple[list[FlowVariable], list[str]]  # flow variables, highest bits first, and notes


def split_uniform(variable: FrameVariable) -> Split:
    """Split a variable that is drawn at random (``UNIFORM``)."""
    low, high = variable.model.low, variable.model.top
    if low == high and not variable.has_additions:
        return Split((), low)
    bits, constant = variable.split_constant_bits(low, high)
    flow_vars, notes = _draw_range(variable, low - constant, high - constant, 0, bits)
    return Split(tuple(flow_vars), constant, tuple(notes))


@lru_cache(maxsize=4096)
def compute_bias(span: int, dropped: int = 0) -> float:
    """Return the largest relative deviation from the probability ``1/span``, if low bits are dropped."""
    import numpy as np

    # all 2^30 outcomes are blocks of 2^15 neighbors that start at multiples of 2^16
    block, full_range = 1 << DRAW_BITS, span << dropped
    laps, rest = divmod(block, full_range)
    starts = (np.arange(block, dtype=np.int64) << 16) % full_range
    ends = starts + rest
    # how often each residue lies in [start, start + rest) modulo the range: a step function; the
    # lowest bit distinguishes steps up and down, because sorting numbers is faster than ordering
    # them
    steps = np.concatenate([[0], starts << 1 | 1, ends % full_range << 1])
    steps.sort()
    at, level = steps >> 1, np.cumsum((steps & 1) * 2 - 1)
    # the leading zero is not a step but was counted as one down
    level += laps * block + int((ends >= full_range).sum()) + 1
    last = np.append(at[1:] != at[:-1], True)
    at, level = at[last], level[last]
    mean = float(block) * block / span
    counts = level.astype(np.float64)
    if dropped:
        total = np.append(0, np.cumsum(np.diff(np.append(at, full_range)) * level))
        groups = np.arange(span + 1, dtype=np.int64) << dropped
        counts = np.diff(np.interp(groups, np.append(at, full_range), total))
    return float(np.abs(counts - mean).max() / mean)


def _choose_dropped_bits(span: int, most: int) -> int | None:
    """Return how many low bits to draw and drop, as many as the bias allows; None if even 0 is biased."""
    if most < 0:
        return None

    def is_biased(dropped: int) -> bool:
        return compute_bias(span, dropped) > (MAX_SHIFTED_BIAS if dropped else MAX_BIAS)

    if not is_biased(most):
        return most
    # the bias grows with the number of dropped bits
    dropped = bisect_left(range(1, most), True, key=is_biased)
    return dropped if dropped or not is_biased(0) else None


def _draw_range(variable: FrameVariable, low: int, high: int, shift: int, bits: int) -> _Draws:
    """Return draws of ``low..high`` for bits ``shift..shift + bits - 1`` of the variable."""
    span = high - low + 1
    if low == 0 and span == 1 << bits:
        return _draw_bits(variable, shift, bits)
    name = f"{variable.model.name}.{shift}" if shift else variable.model.name
    # bits to draw below the value and to drop; more than this and blocks of 2^15 neighbors would
    # leave every second one out; all bits of the variable stay in the word, as a sum fills them
    most = max(DRAW_BITS - count_trailing_zeros(span, WORD), 0) if span <= 1 << 16 else 0
    most = min(most, WORD - bits)
    if (dropped := _choose_dropped_bits(span, most)) is not None:
        bounds = low << dropped, ((high + 1) << dropped) - 1
        drawn = FlowVariable(name, shift, bits, "random", *bounds, shift=dropped, exact=not dropped)
        bias = compute_bias(span, dropped)
        return [drawn], [f"{name}: each of {span} values within {bias:.2%} of equally likely"]
    zeros = min(count_trailing_zeros(low | high + 1, bits), variable.max_cut - shift)
    if 0 < zeros < bits:
        top = ((high + 1) >> zeros) - 1
        above, notes = _draw_range(variable, low >> zeros, top, shift + zeros, bits - zeros)
        below, more = _draw_bits(variable, shift, zeros)
        return above + below, notes + more
    if bits <= WORD and span <= MAX_LIST:
        text = (
            f"{name}: TRex's 15-bit random numbers cannot draw evenly from {span} values, so a "
            f"shuffled list gives each exactly once per {span} frames"
        )
        values = shuffle_range(low, high, variable.seed)
        return [make_list_flow_var(name, shift, bits, values)], [text]
    problem = f"variable '{variable.model.name}' cannot be drawn uniformly from {span} values"
    hint = "choose a range of 2^n values that begins at a multiple of 2^n, or a smaller one"
    raise make_limit_error(problem, hint)


def _draw_bits(variable: FrameVariable, shift: int, bits: int) -> _Draws:
    """Return draws of all ``2^bits`` values for bits ``shift..shift + bits - 1``."""
    top, most = shift + bits, FILLED_BITS
    candidates: list[tuple[int, ...]] = [()]
    if bits > 2 * most:
        candidates = [
            (a, b)
            for a in range(max(shift + 1, top - 2 * most), shift + most + 1)
            for b in range(max(a + 1, top - most), min(a + most, top - 1) + 1)
        ]
    elif bits > most:
        candidates = [(c,) for c in range(top - most, shift + most + 1)]
    # of equally cheap cuts take one of exact draws only
    candidates.sort(key=lambda c: any(b - a > DRAW_BITS for a, b in pairwise([shift, *c, top])))
    cuts = variable.choose_cuts(candidates, f"{bits} random bits")
    flow_vars, notes = [], []
    for low, high in pairwise([shift, *cuts, top]):
        name = f"{variable.model.name}.{low}" if cuts or shift else variable.model.name
        width, is_exact = high - low, high - low <= DRAW_BITS
        draw: dict[str, Any] = {"maximum": FILLED_RANGE - 1, "sizes": (4,), "shift": 0}
        if is_exact:
            draw = {"maximum": (1 << DRAW_BITS) - 1, "sizes": (2,), "shift": DRAW_BITS - width}
        else:
            likely = f"each value within {FILLED_BIAS:.2%} of equally likely"
            notes.append(f"{name}: 16 bits of one 30-bit draw, {likely}")
        flow_vars.append(FlowVariable(name, low, width, "random", **draw, exact=width == DRAW_BITS))
    return flow_vars[::-1], notes
