"""Variables of the model as TRex variables ("parts"), and what each kind has in common.

Bits are counted here from the least significant one, 0, because that is what shifts do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from v6t.base.errors import UsageError
from v6t.profiles.compiler.instructions import Instruction, Op, flow_var, list_var

if TYPE_CHECKING:
    from v6t.profiles.model import Binding, Variable

MAX_WIDTH = 48
"""Widest variable of the model (EA bits, RFC 7597 section 5.2)."""
WORD = 32
"""Bits a TRex write can read of a variable."""


@dataclass(frozen=True)
class Part:
    """One TRex variable that supplies bits ``low..low + width - 1`` of a model's variable.

    Attributes:
        name: unique in the stream.
        low, width: the bits it supplies.
        op, minimum, maximum, step: as TRex takes them; the range is a multiple of the step.
        values: entries of a list instead of a range.
        sizes: octets it may have, best first. Of 8 octets TRex's masked writes read the upper
            four, of the others everything.
        raised: bit of the TRex variable at which the part's lowest bit stands.
        runs: where it supplies only some of those bits: (bit of the model's variable, bit of the
            TRex variable, how many) each.
        add: constant that makes the TRex value (without the bits below) the variable's.
        clean: no other bits in value + add, so it may be stored as a whole.
    """

    name: str
    low: int
    width: int
    op: Op
    minimum: int = 0
    maximum: int = 0
    step: int = 1
    values: Sequence[int] = field(default=(), repr=False)
    sizes: tuple[int, ...] = (4,)
    raised: int = 0
    add: int = 0
    clean: bool = True
    runs: tuple[tuple[int, int, int], ...] = ()

    @property
    def supplied(self) -> tuple[tuple[int, int, int], ...]:
        """Its runs, one if it supplies all its bits."""
        return self.runs or ((self.low, self.raised, self.width),)

    @property
    def high(self) -> int:
        """Bit above the highest one supplied."""
        return self.low + self.width

    @property
    def cost_ns(self) -> float:
        """About what TRex needs per frame to advance it (two draws for more than 2 octets)."""
        return 8.0 if self.op == "random" and self.sizes[0] > 2 else 6.0

    def instruction(self, size: int) -> Instruction:
        """The JSON object that declares it."""
        if len(self.values):
            return list_var(self.name, size, self.values)
        return flow_var(self.name, size, self.op, self.minimum, self.maximum, self.step)


@dataclass(frozen=True)
class Supply:
    """How all bits of a variable come about.

    Attributes:
        parts: TRex variables, most significant bits first, disjoint.
        constant: value of the bits no part supplies.
        notes: what the user should know about it, in words.
        order: see :class:`~v6t.profiles.model.Variable`.
    """

    parts: tuple[Part, ...]
    constant: int = 0
    notes: tuple[str, ...] = ()
    order: int = 1


@dataclass(frozen=True)
class Demand:
    """What the bindings ask of a variable.

    Attributes:
        variable: the variable.
        cuts: bits (counted from the least significant) between which bindings begin or end.
        cost: about how many ns per frame the writes take if the variable is cut at these bits.
        adds: constants the bindings add.
        seed: of the orders and strides drawn for this variable.
    """

    variable: Variable
    cuts: tuple[int, ...]
    cost: Callable[[Sequence[int]], float]
    adds: tuple[int, ...] = ()
    seed: int = 1

    @property
    def carry(self) -> int:
        """No cut may be above this bit: additions carry from it upwards."""
        width = self.variable.width
        return min((trailing_zeros(a, width) for a in self.adds), default=width)

    def best_cut(self, candidates: Iterable[Sequence[int]], what: str) -> Sequence[int]:
        """The cheapest of several ways to cut, the first of equals.

        Raises:
            UsageError: an addition would have to carry over every one of them.
        """
        usable = [c for c in candidates if max(c, default=0) <= self.carry]
        if not usable:
            raise UsageError(
                f"variable '{self.variable.name}' ({what}) must be made of several TRex "
                "variables, and TRex cannot carry the constant added to it from one to the next",
                "bind it without 'add', or narrow it",
            )
        return min(usable, key=self.cost)


def demand_of(variable: Variable, bindings: Sequence[Binding], seed: int = 1) -> Demand:
    """What ``bindings`` (all of this variable) ask of it."""
    spans = [variable_bits(variable, b) for b in bindings]
    cuts = {bit for low, high in spans for bit in (low, high)} - {0, variable.width}

    def cost(chosen: Sequence[int]) -> float:
        edges = [0, *sorted(chosen), variable.width]
        writes = 0
        for binding, (low, high) in zip(bindings, spans, strict=True):
            for start, end in pairwise(edges):
                a, b = max(low, start), min(high, end)
                if a < b:
                    # bits of the field this piece covers, most significant bit 0
                    first, last = binding.last - (b - 1 - low), binding.last - (a - low)
                    writes += -(-(last // 8 - first // 8 + 1) // 4)
        return 6.0 * (len(edges) - 1) + 5.5 * writes

    adds = tuple({b.add for b in bindings if b.add})
    return Demand(variable, tuple(sorted(cuts)), cost, adds, seed)


def variable_bits(variable: Variable, binding: Binding) -> tuple[int, int]:
    """Lowest bit and bit above the highest one of the variable that a binding takes."""
    first = 0 if binding.var_first is None else binding.var_first
    last = variable.width - 1 if binding.var_last is None else binding.var_last
    return variable.width - 1 - last, variable.width - first


def fold(low: int, high: int, demand: Demand) -> tuple[int, int]:
    """Number of low bits that differ within ``low..high`` and the constant of those above.

    Where a binding adds to the variable all bits count as varying, because of the carry.
    """
    if demand.adds:
        return demand.variable.width, 0
    bits = (low ^ high).bit_length()
    return bits, low >> bits << bits


def sizes_for(*values: int) -> tuple[int, ...]:
    """Sizes (of 1, 2 and 4 octets) that hold all of ``values``, smallest first."""
    return tuple(s for s in (1, 2, 4) if max(values) < 1 << 8 * s)


def trailing_zeros(value: int, limit: int) -> int:
    """Number of zero bits at the low end of ``value``, at most ``limit``."""
    return min((value & -value).bit_length() - 1 if value else limit, limit)


def list_parts(name: str, values: Sequence[int], demand: Demand) -> tuple[tuple[Part, ...], int]:
    """Parts (and the constant) of a variable whose values are listed, in that order."""
    import numpy as np

    array = np.asarray(values, dtype=np.uint64)
    low, high = int(array.min()), int(array.max())
    if demand.adds:
        bits, constant = demand.variable.width, 0
    else:
        bits = int(np.bitwise_or.reduce(array ^ array[0])).bit_length()
        constant = low >> bits << bits
    if bits == 0:
        return (), constant
    cuts: Sequence[int] = ()
    if max(high - constant, 0).bit_length() > WORD:
        cuts = demand.best_cut([(c,) for c in range(bits - WORD, WORD + 1)], "a list")
    edges = [0, *cuts, bits]
    parts = []
    for start, end in pairwise(edges):
        width = end - start
        column = (array >> np.uint64(start)) & np.uint64((1 << width) - 1)
        part = Part(
            name if len(edges) == 2 else f"{name}.{start}",
            start,
            width,
            "inc",
            values=column.tolist(),
            sizes=sizes_for(int(column.max())),
        )
        parts.append(part)
    return tuple(reversed(parts)), constant


def shuffled(low: int, high: int, seed: int) -> list[int]:
    """``low..high`` in an order that depends on the seed only."""
    import numpy as np

    order = np.random.default_rng(seed).permutation(high - low + 1)
    return [int(v) + low for v in order]


def complement(part: Part, name: str) -> Part | None:
    """A part that always holds the bits of ``part`` inverted; None if TRex cannot make it."""
    ones = (1 << max(place + width for _, place, width in part.supplied)) - 1
    if len(part.values):
        import numpy as np

        values = (ones - np.asarray(part.values)).tolist()
        return replace(part, name=name, values=values, sizes=sizes_for(ones))
    if part.op == "random" or part.sizes[0] == 8:
        return None
    op: Op = "dec" if part.op == "inc" else "inc"
    add = ones - part.minimum - part.maximum - part.add
    return replace(part, name=name, op=op, add=add)
