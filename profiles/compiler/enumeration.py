"""Variables that take every value in turn: permutations, counters and lists.

TRex's server silently enlarges a counter's range to a multiple of the step, so every range here is one.
Frame ``j`` of a stream holds value ``j`` on any number of cores.

Permutations of more than ``2^15`` values are mixed from a list and counters. The list supplies as many bits
of every field as it can. Bit t of ``stride * j`` is bit t of j, inverted or not depending on the bits
below, so counters of any strides supply the higher bits, each every second bit of a stretch.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from v6t.profiles.compiler.flow_variables import (
    FlowVariable,
    FrameVariable,
    Split,
    count_trailing_zeros,
    list_sizes,
    make_list_flow_var,
    shuffle_range,
)
from v6t.profiles.compiler.instructions import MAX_LIST, Op
from v6t.profiles.model import Kind, make_limit_error

if TYPE_CHECKING:
    import numpy as np

LISTED_BITS = 15  # a list of TRex has at most 2^15 values that fill these low bits
MIN_SHUFFLED_BITS = 12  # low bits that must be shuffled below a slow counter
ONE_STRIDE_BITS = 31  # of the widest permutation that one 4-octet counter supplies
MAX_MIXED_BITS = 48  # of the frame numbers that an 8-octet counter can multiply
_SHORT_COUNTERS = 2  # of 4 octets, for the bits just above the list; others change seldom
_STRIDE_CANDIDATES = 64  # random strides of which the best one is taken
_MAX_LONG_COUNTERS = 4  # of 8 octets: a stream of TRex has 64 octets of variables


def split_permutation(variable: FrameVariable) -> Split:
    """Split a variable that takes every value once per cycle, in pseudorandom order.

    Up to 65,535 values are a shuffled list, ``2^n`` values are mixed, ``odd * 2^k`` values are a list and a
    permutation of the low bits. Other multiples of ``2^k`` count their high bits.
    """
    model = variable.model
    low, high = model.low, model.top
    count = high - low + 1
    if count <= MAX_LIST and not model.apart:
        split = variable.split_list(shuffle_range(low, high, variable.seed))
        text = f"{model.name}: a shuffled list of all {count} values"
        return Split(split.flow_vars, split.constant, (text,) if split.flow_vars else ())
    bits, constant = variable.split_constant_bits(low, high)
    low, high = low - constant, high - constant
    if low == 0 and count == 1 << bits:
        flow_vars, text = _permute_low_bits(variable, bits)
        return Split(flow_vars, constant, (text,))
    zeros = min(count_trailing_zeros(low, bits), count_trailing_zeros(count, bits))
    # with values apart, a counter of the low bits may be named after the same bit
    label = "above" if model.apart and zeros >= LISTED_BITS else zeros
    odd, name = count >> zeros, f"{model.name}.{label}"
    if odd % 2 and odd <= MAX_LIST and bits - zeros <= 32 and 0 < zeros <= variable.max_cut:
        cycle = shuffle_range(low >> zeros, high >> zeros, variable.seed)
        values = _shuffle_passes(cycle, zeros, variable.seed + 2)
        above = make_list_flow_var(name, zeros, bits - zeros, values)
        text = f"{name}: a shuffled list of {odd} values, coprime to the 2^{zeros} of the low bits"
    elif MIN_SHUFFLED_BITS <= zeros <= min(variable.max_cut, 32) and high >> zeros < 1 << 30:
        least, most = low >> zeros << 32, (((high >> zeros) + 1) << 32) - 1
        step = 1 << 32 - zeros
        above = FlowVariable(name, zeros, bits - zeros, "inc", least, most, step, sizes=(8,))
        text = f"{name}: counts up once per 2^{zeros} frames, only the bits below are shuffled"
    else:
        problem = f"variable '{model.name}' cannot enumerate {count} values from {model.low} on"
        hint = f"choose 2^n values that begin at a multiple of 2^n, or at most {MAX_LIST}"
        raise make_limit_error(problem, hint)
    below, note = _permute_low_bits(variable, zeros)
    return Split((above, *below), constant, (text, note))


def split_counter(variable: FrameVariable) -> Split:
    """Split a variable that counts up (``INC``) or down (``DEC``) by its step."""
    model, name = variable.model, variable.model.name
    low, step = model.low, model.step
    op: Op = "inc" if model.kind is Kind.INC else "dec"
    count = (model.top - low) // step + 1
    top = low + (count - 1) * step
    if count == 1 and not variable.has_additions:
        return Split((), low)
    bits, constant = variable.split_constant_bits(low, top)
    least, most, add = low - constant, low - constant + count * step - 1, 0
    if op == "dec":
        least, most = least - step + 1, top - constant
    if least < 0 or most >> 32:
        # count from 0 instead and add the rest when writing
        least, most, add = 0, count * step - 1, least
    if most >> 32 == 0 and bits <= 32:
        sizes = list_sizes(most, step)
        counter = FlowVariable(name, 0, bits, op, least, most, step, sizes=sizes, add=add)
        return Split((counter,), constant)
    if count <= MAX_LIST:
        values = range(low, top + 1, step)
        return variable.split_list(values[::-1] if op == "dec" else values)
    if low == constant and count * step == 1 << bits and step & (step - 1) == 0:
        # the low word, and the high word of an 8-octet flow variable
        variable.choose_cuts([(32,)], "a counter")
        # downwards TRex starts at all ones, but the low bits below the step have to stay 0
        add, ones = 1 - step if op == "dec" else 0, (1 << 32) - 1
        bounds = 0, (1 << bits) - 1, step
        high = FlowVariable(f"{name}.32", 32, bits - 32, op, *bounds, sizes=(8,), exact=False)
        return Split((high, FlowVariable(f"{name}.0", 0, 32, op, 0, ones, step, add=add)), constant)
    problem = f"variable '{name}' cannot count {count} steps of {step}"
    hint = f"use at most {MAX_LIST} values, or 2^n values with a step of 2^k"
    raise make_limit_error(f"{problem}: a counter of TRex has 32 bits", hint)


def split_values(variable: FrameVariable) -> Split:
    """Split a variable that takes listed values in their order."""
    model = variable.model
    if len(model.values) > MAX_LIST:
        problem = f"variable '{model.name}' lists {len(model.values)} values"
        hint = "spread the values over several traffic classes, or draw them from a range"
        raise make_limit_error(f"{problem}, but TRex allows {MAX_LIST}", hint)
    return variable.split_list(model.values)


def _permute_low_bits(variable: FrameVariable, bits: int) -> tuple[tuple[FlowVariable, ...], str]:
    """Return flow variables that permute the low ``bits`` of a variable, and a note."""
    import numpy as np

    name, apart = variable.model.name, variable.model.apart
    note = f"{name}: each of 2^{bits} values once per cycle"
    if bits <= LISTED_BITS:
        note = f"{name}: a shuffled list of 2^{bits} values in the low bits"
    elif variable.max_cut < bits:
        note += ", at a fixed stride (it is added to)"
    else:
        note += " on any number of cores, mixed from a shuffled list and counters"
    if bits + apart <= LISTED_BITS:
        values = shuffle_range(0, (1 << bits) - 1, variable.seed + 1)
        return (make_list_flow_var(f"{name}.0", 0, bits, values),), note
    rng = np.random.default_rng(variable.seed)
    if variable.max_cut >= bits:
        return mix_permutation(name, bits, apart, variable.cuts, rng), note
    if bits > ONE_STRIDE_BITS:
        problem = f"variable '{name}' of {bits} bits has a constant added"
        hint = "copy it without a constant, or narrow it"
        raise make_limit_error(f"{problem}; TRex allows {ONE_STRIDE_BITS}", hint)
    limit = 1 << 32 - bits
    stride = int(rng.integers(limit // 2, limit)) | 1
    most = (stride << bits) - 1
    return (FlowVariable(name, 0, bits, "inc", 0, most, stride, exact=False),), note


def _shuffle_passes(values: Sequence[int], bits: int, seed: int) -> list[int]:
    """Repeat a list, whose length is odd, in a new order for each pass.

    Together with a permutation of ``2^bits`` values, every pair still comes exactly once.
    """
    import numpy as np

    doublings = min(bits, (MAX_LIST // len(values)).bit_length() - 1)
    passes = np.tile(np.asarray(values), (1 << doublings, 1))
    if doublings:
        passes = np.random.default_rng(seed).permuted(passes, axis=1)
    ordered: list[int] = passes.T.reshape(-1).tolist()
    return ordered


def mix_permutation(
    name: str, bits: int, apart: int, cuts: Sequence[int], rng: np.random.Generator
) -> tuple[FlowVariable, ...]:
    """Return flow variables that together take each of ``2^bits`` values once per cycle.

    Among the frames whose numbers are equal modulo ``2^apart``, every value comes once. The list supplies a
    part of each stretch between ``cuts``.
    """
    import numpy as np

    if bits + apart > MAX_MIXED_BITS:
        problem = f"variable '{name}' cannot enumerate 2^{bits} values"
        problem += f": TRex counts to 2^{MAX_MIXED_BITS}"
        raise make_limit_error(problem, "choose fewer values")
    listed = LISTED_BITS - apart
    # the list has the upper bits of each stretch between cuts, in proportion
    above, below, start = [], list[int](), 0
    for low, high in pairwise([0, *(c for c in cuts if c < bits), bits]):
        end = listed * high // bits
        width = end - start
        if width:
            above.append((high - width, start, width))
        below += range(low, high - width)
        start = end
    flow_vars = []
    if listed:
        passes = np.tile(np.arange(1 << listed), (1 << apart, 1))
        values = rng.permuted(passes, axis=1).T.reshape(-1).tolist()
        listing = FlowVariable(
            f"{name}.list", 0, bits, "inc", values=values, sizes=(2,), runs=tuple(above)
        )
        flow_vars.append(listing)
    places = dict(enumerate(below, LISTED_BITS))
    for octets, digits in _plan_counters(LISTED_BITS, bits + apart):
        raised, stride = _choose_stride(octets, digits, rng)
        step, word = stride << raised, 32 if octets == 8 else 0
        values = (0, (step << digits[-1] + 1) - 1, step)
        runs = tuple((places[t], t + raised - word, 1) for t in digits)
        layout: dict[str, Any] = {"sizes": (octets,), "runs": runs, "exact": False}
        flow_vars.append(FlowVariable(f"{name}.{digits[0]}", 0, bits, "inc", *values, **layout))
    return tuple(flow_vars)


def _plan_counters(first: int, end: int) -> list[tuple[int, list[int]]]:
    """Return each counter's size in octets and, ascending, the frame number's bits that it supplies."""
    short = min(first + _SHORT_COUNTERS, end)
    counters: list[list[int]] = []
    for slack in range(end):
        # stretches from the top on whose highest bit changes once in 2^(slack + 2) frames
        counters, top = [], end - 1
        while top >= short:
            low = top
            while low > short and _compute_max_stride_bits(8, [low - 1, top]) >= top - 1 - slack:
                low -= 1
            stretch = list(range(low, top + 1))
            counters += [bits for bits in (stretch[0::2], stretch[1::2]) if bits]
            top = low - 1
        if len(counters) <= _MAX_LONG_COUNTERS:
            break
    return [*((4, [t]) for t in range(first, short)), *((8, bits) for bits in counters)]


def _compute_max_stride_bits(octets: int, digits: Sequence[int]) -> int:
    """Return the width, in bits, of the largest stride that TRex can multiply without overflow."""
    if octets == 4:
        return 31 - digits[-1]
    return 61 - digits[-1] - max(0, 32 - digits[0])


def _choose_stride(octets: int, digits: Sequence[int], rng: np.random.Generator) -> tuple[int, int]:
    """Return the shift of a counter's bits, and the stride whose bits change most evenly.

    TRex reads a counter of 8 octets from bit 32 on.
    """
    raised = max(0, 32 - digits[0]) if octets == 8 else 0
    bits = max(1, min(_compute_max_stride_bits(octets, digits), digits[-1] + 1))
    drawn = rng.integers(1 << bits - 1, 1 << bits, size=_STRIDE_CANDIDATES)

    def measure_evenness(stride: int) -> float:
        turns = (stride / (2 << t) % 1 for t in digits)  # of a circle whose second half is a 1
        return min(min(a, 1 - a, abs(0.5 - a)) for a in turns)

    return raised, max((int(s) | 1 for s in drawn), key=measure_evenness)
