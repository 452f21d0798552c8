"""Variables that take every value in turn: permutations, counters and lists.

A counter of TRex runs through ``minimum, minimum + step, ...`` and its server silently enlarges
the range to a multiple of the step, so every range here is one. Split over cores, core ``c`` of
``C`` sends values ``c, c + C, ...`` of the sequence: frame ``j`` of the whole stream holds value
``j`` whatever the number of cores, which is what makes enumerations exact on all of them.
"""

from __future__ import annotations

from itertools import pairwise

from v6t.profiles.compiler.instructions import MAX_LIST, Op
from v6t.profiles.compiler.variables import (
    Demand,
    Part,
    Supply,
    fold,
    list_parts,
    shuffled,
    sizes_for,
    trailing_zeros,
)
from v6t.profiles.errors import UsageError
from v6t.profiles.model import Kind

LEAST_SHUFFLED_BITS = 12
"""Below a slow counter at least so many bits have to be in pseudorandom order."""
ONE_STRIDE_BITS = 20
"""Up to here the stride of a single counter (below ``2^(32 - n)``) still looks random."""


def permutation(demand: Demand) -> Supply:
    """Every value of ``low..high`` exactly once per cycle, in pseudorandom order.

    Up to 65,535 values are a shuffled list. ``2^n`` values are a Weyl sequence: the low n bits of
    ``stride * j`` for an odd stride (TRex counts in steps of ``stride`` modulo
    ``stride * 2^n``, a multiple of the step). More than 20 bits are cut: a part above bit ``c`` is
    ``floor(stride * j / 2^c)``, which for given low bits is a bijection of the high ones.
    ``odd * 2^k`` values are a list for the odd factor and a Weyl sequence for the other: the
    periods are coprime, so every pair comes once; other multiples of ``2^k`` count their high bits.

    Raises:
        UsageError: TRex has no such enumeration.
    """
    variable = demand.variable
    low, high = variable.low, variable.top
    count = high - low + 1
    if count <= MAX_LIST:
        parts, constant = list_parts(variable.name, shuffled(low, high, demand.seed), demand)
        text = f"{variable.name}: a shuffled list of all {count} values"
        return Supply(parts, constant, (text,) if parts else ())
    bits, constant = fold(low, high, demand)
    low, high = low - constant, high - constant
    if low == 0 and count == 1 << bits:
        return Supply(_weyl(demand, bits), constant, (_weyl_note(demand, bits),))
    zeros = min(trailing_zeros(low, bits), trailing_zeros(count, bits))
    odd, name = count >> zeros, f"{variable.name}.{zeros}"
    if odd % 2 and odd <= MAX_LIST and bits - zeros <= 32 and 0 < zeros <= demand.carry:
        values = shuffled(low >> zeros, high >> zeros, demand.seed)
        sizes = sizes_for(high >> zeros)
        above = Part(name, zeros, bits - zeros, "inc", values=values, sizes=sizes)
        text = f"{name}: a shuffled list of {odd} values, coprime to the 2^{zeros} of the low bits"
        below = _low_bits(demand, zeros)
        return Supply((above, *below), constant, (text, _weyl_note(demand, zeros)))
    if LEAST_SHUFFLED_BITS <= zeros <= min(demand.carry, 32) and high >> zeros < 1 << 30:
        least, most = low >> zeros << 32, (((high >> zeros) + 1) << 32) - 1
        step = 1 << 32 - zeros
        above = Part(name, zeros, bits - zeros, "inc", least, most, step, sizes=(8,))
        text = f"{name}: counts up once per 2^{zeros} frames, only the bits below are shuffled"
        below = _low_bits(demand, zeros)
        return Supply((above, *below), constant, (text, _weyl_note(demand, zeros)))
    raise UsageError(
        f"variable '{variable.name}' cannot enumerate {count} values from {variable.low} on: "
        f"a list of TRex ends at {MAX_LIST} entries and its counters enumerate 2^n values",
        "choose 2^n values that begin at a multiple of 2^n, or at most 65535",
    )


def counter(demand: Demand) -> Supply:
    """``low, low + step, ...`` up to ``high`` and again (``INC``), or downwards (``DEC``).

    Raises:
        UsageError: TRex cannot count like that.
    """
    variable = demand.variable
    low, step, down = variable.low, variable.step, variable.kind is Kind.DEC
    count = (variable.top - low) // step + 1
    top = low + (count - 1) * step
    if count == 1 and not demand.adds:
        return Supply((), low)
    bits, constant = fold(low, top, demand)
    least, most, add = low - constant, low - constant + count * step - 1, 0
    if down:
        least, most = least - step + 1, top - constant
    if least < 0 or most >> 32:
        # count from 0 instead and add the rest when writing
        least, most, add = 0, count * step - 1, least
    if most >> 32 == 0 and bits <= 32:
        sizes = sizes_for(most, step)
        op: Op = "dec" if down else "inc"
        return Supply(
            (Part(variable.name, 0, bits, op, least, most, step, sizes=sizes, add=add),), constant
        )
    if count <= MAX_LIST:
        values = range(low, top + 1, step)
        parts, constant = list_parts(variable.name, values[::-1] if down else values, demand)
        return Supply(parts, constant)
    if low == constant and count * step == 1 << bits and step & (step - 1) == 0:
        return Supply(_wide_counter(demand, bits), constant)
    raise UsageError(
        f"variable '{variable.name}' cannot count {count} steps of {step}: a counter TRex can "
        "write has 32 bits and must hold a multiple of the step",
        f"use at most {MAX_LIST} values, or 2^n values with a step of 2^k",
    )


def listed(demand: Demand) -> Supply:
    """The given values in the given order.

    Raises:
        UsageError: no values, or more than TRex takes.
    """
    variable = demand.variable
    if len(variable.values) > MAX_LIST:
        raise UsageError(
            f"variable '{variable.name}' lists {len(variable.values)} values, but a list of TRex "
            f"ends at {MAX_LIST} entries",
            "spread the values over several traffic classes, or draw them from a range",
        )
    parts, constant = list_parts(variable.name, variable.values, demand)
    return Supply(parts, constant)


def _low_bits(demand: Demand, bits: int) -> tuple[Part, ...]:
    """All values of the low ``bits``, below a list."""
    if bits < 16:
        name = f"{demand.variable.name}.0"
        values = shuffled(0, (1 << bits) - 1, demand.seed + 1)
        return (Part(name, 0, bits, "inc", values=values, sizes=sizes_for(max(values))),)
    return _weyl(demand, bits)


def _weyl(demand: Demand, bits: int) -> tuple[Part, ...]:
    """Parts whose bits together take all ``2^bits`` values once."""
    import numpy as np

    rng = np.random.default_rng(demand.seed)
    edges = [0, *_weyl_cuts(demand, bits), bits]
    parts = []
    for start, end in pairwise(edges):
        # TRex writes 32 bits of a variable: those of the low word, or of an 8-octet one's high
        # word, whose low word then holds the fraction of stride * j / 2^start; the range stays
        # below 2^62 so that its server's products of step and cores do not overflow
        word = 64 if start else 32
        limit = 1 << (30 - (end - start) if start else 32 - end)
        stride = int(rng.integers(limit // 2, limit)) | 1
        step = stride << (32 - start if start else 0)
        most = (step << end) - 1
        name = demand.variable.name if len(edges) == 2 else f"{demand.variable.name}.{start}"
        part = Part(name, start, end - start, "inc", 0, most, step, sizes=(word // 8,), clean=False)
        parts.append(part)
    return tuple(reversed(parts))


def _weyl_cuts(demand: Demand, bits: int) -> tuple[int, ...]:
    if bits <= ONE_STRIDE_BITS:
        return ()
    if bits <= 2 * ONE_STRIDE_BITS:
        least, most = max(8, bits - ONE_STRIDE_BITS), min(ONE_STRIDE_BITS, bits - 4)
        ways = sorted(range(least, most + 1), key=lambda cut: abs(cut - 16))
        return tuple(demand.best_cut([(cut,) for cut in ways], "a permutation"))
    return tuple(demand.best_cut([(16, 32)], "a permutation"))


def _weyl_note(demand: Demand, bits: int) -> str:
    name = demand.variable.name
    if bits < 16:
        return f"{name}: a shuffled list of 2^{bits} values in the low bits"
    return f"{name}: a Weyl sequence, each of 2^{bits} values once per cycle on any number of cores"


def _wide_counter(demand: Demand, bits: int) -> tuple[Part, ...]:
    """Counter of more than 32 bits: its low word, and the high word of an 8-octet variable."""
    variable = demand.variable
    op: Op = "dec" if variable.kind is Kind.DEC else "inc"
    demand.best_cut([(32,)], "a counter")
    step, name = variable.step, variable.name
    # downwards TRex starts at all ones, but the low bits below the step have to stay 0
    add = 1 - step if op == "dec" else 0
    return (
        Part(f"{name}.32", 32, bits - 32, op, 0, (1 << bits) - 1, step, sizes=(8,), clean=False),
        Part(f"{name}.0", 0, 32, op, 0, (1 << 32) - 1, step, sizes=(4,), add=add),
    )
