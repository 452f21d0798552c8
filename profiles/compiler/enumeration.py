"""Variables that take every value in turn: permutations, counters and lists.

A counter of TRex runs through ``minimum, minimum + step, ...`` and its server silently enlarges
the range to a multiple of the step, so every range here is one. Split over cores, core ``c`` of
``C`` sends values ``c, c + C, ...`` of the sequence: frame ``j`` of the whole stream holds value
``j`` whatever the number of cores, which is what makes enumerations exact on all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from v6t.base.errors import UsageError
from v6t.profiles.compiler.instructions import MAX_LIST, Op
from v6t.profiles.compiler.mixing import LISTED_BITS, mixed, spread
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
from v6t.profiles.model import Kind

if TYPE_CHECKING:
    import numpy as np

LEAST_SHUFFLED_BITS = 12
"""Below a slow counter at least so many bits have to be in pseudorandom order."""
ONE_STRIDE_BITS = 31
"""Up to here one counter of 4 octets takes all values at an odd stride below ``2^(32 - n)``."""


def permutation(demand: Demand) -> Supply:
    """Every value of ``low..high`` exactly once per cycle, in pseudorandom order.

    Up to 65,535 values are a shuffled list, ``2^n`` values are mixed from a list and counters (see
    :mod:`v6t.profiles.compiler.mixing`). ``odd * 2^k`` values are a list for the odd factor and a
    permutation of the low bits: together they take every pair once. Other multiples of ``2^k``
    count their high bits.

    Raises:
        UsageError: TRex has no such enumeration.
    """
    import numpy as np

    variable = demand.variable
    low, high = variable.low, variable.top
    count = high - low + 1
    if count <= MAX_LIST and not variable.apart:
        parts, constant = list_parts(variable.name, shuffled(low, high, demand.seed), demand)
        text = f"{variable.name}: a shuffled list of all {count} values"
        return Supply(parts, constant, (text,) if parts else ())
    bits, constant = fold(low, high, demand)
    low, high = low - constant, high - constant
    if low == 0 and count == 1 << bits:
        order = 1 if demand.carry < bits else 2
        return Supply(_low_bits(demand, bits), constant, (_note(demand, bits),), order)
    zeros = min(trailing_zeros(low, bits), trailing_zeros(count, bits))
    odd, name = count >> zeros, f"{variable.name}.{zeros}"
    if odd % 2 and odd <= MAX_LIST and bits - zeros <= 32 and 0 < zeros <= demand.carry:
        once = shuffled(low >> zeros, high >> zeros, demand.seed)
        values = spread(once, zeros, np.random.default_rng(demand.seed + 2))
        sizes = sizes_for(high >> zeros)
        above = Part(name, zeros, bits - zeros, "inc", values=values, sizes=sizes)
        text = f"{name}: a shuffled list of {odd} values, coprime to the 2^{zeros} of the low bits"
        below = _low_bits(demand, zeros)
        order = 2 if zeros > LISTED_BITS or len(values) > odd else 1
        return Supply((above, *below), constant, (text, _note(demand, zeros)), order)
    if LEAST_SHUFFLED_BITS <= zeros <= min(demand.carry, 32) and high >> zeros < 1 << 30:
        least, most = low >> zeros << 32, (((high >> zeros) + 1) << 32) - 1
        step = 1 << 32 - zeros
        above = Part(name, zeros, bits - zeros, "inc", least, most, step, sizes=(8,))
        text = f"{name}: counts up once per 2^{zeros} frames, only the bits below are shuffled"
        below = _low_bits(demand, zeros)
        order = 2 if zeros > LISTED_BITS else 1
        return Supply((above, *below), constant, (text, _note(demand, zeros)), order)
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
    """All values of the low ``bits``."""
    import numpy as np

    name, apart = demand.variable.name, demand.variable.apart
    if bits + apart <= LISTED_BITS:
        values = shuffled(0, (1 << bits) - 1, demand.seed + 1)
        return (Part(f"{name}.0", 0, bits, "inc", values=values, sizes=sizes_for(max(values))),)
    rng = np.random.default_rng(demand.seed)
    if demand.carry < bits:
        return _one_counter(demand, bits, rng)
    return mixed(name, bits, apart, demand.cuts, rng)


def _one_counter(demand: Demand, bits: int, rng: np.random.Generator) -> tuple[Part, ...]:
    """All values of the low ``bits`` where an addition has to carry through them.

    Raises:
        UsageError: a counter that can carry would repeat itself too soon.
    """
    if bits > ONE_STRIDE_BITS:
        raise UsageError(
            f"variable '{demand.variable.name}' enumerates 2^{bits} values and has a constant "
            f"added, which TRex carries through 2^{ONE_STRIDE_BITS} values",
            "bind it without 'add', or narrow it",
        )
    limit = 1 << 32 - bits
    stride = int(rng.integers(limit // 2, limit)) | 1
    most = (stride << bits) - 1
    return (Part(demand.variable.name, 0, bits, "inc", 0, most, stride, clean=False),)


def _note(demand: Demand, bits: int) -> str:
    name = demand.variable.name
    if bits <= LISTED_BITS:
        return f"{name}: a shuffled list of 2^{bits} values in the low bits"
    if demand.carry < bits:
        return f"{name}: each of 2^{bits} values once per cycle, at a fixed stride (it is added to)"
    return (
        f"{name}: each of 2^{bits} values once per cycle on any number of cores, mixed from a "
        "shuffled list and counters"
    )


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
