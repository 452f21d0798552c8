"""TRex's flow variables, and how a variable of the model is split over them; bit 0 is the lowest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from typing import NamedTuple

from v6t.profiles.compiler.instructions import Instruction, Op, declare_list, declare_range
from v6t.profiles.model import Variable, make_limit_error

MAX_WIDTH = 48  # bits of a model variable (EA bits, RFC 7597, section 5.2)
WORD = 32  # bits of a flow variable that a masked write can read


@dataclass(frozen=True)
class FlowVariable:
    """A flow variable that supplies bits ``low..high - 1`` of a variable."""

    name: str
    low: int  # bit of the variable
    width: int  # bits
    op: Op  # TRex's operation
    minimum: int = 0  # TRex's ``min_value``
    maximum: int = 0  # TRex's ``max_value``
    step: int = 1  # TRex's ``step``, which divides the range
    values: Sequence[int] = field(default=(), repr=False)  # entries of a list instead of a range
    sizes: tuple[int, ...] = (4,)
    """Possible sizes in octets, best first. Masked writes read the upper four of 8 octets."""
    shift: int = 0  # bit of the flow variable that supplies bit ``low``
    add: int = 0  # constant to add to the flow variable, without its bits below ``shift``
    exact: bool = True  # value + ``add`` has only supplied bits, so that a plain write may store it
    runs: tuple[tuple[int, int, int], ...] = ()
    """(bit of the variable, bit of the flow variable, width) of each run of supplied bits."""

    @property
    def supplied_bits(self) -> tuple[tuple[int, int, int], ...]:
        return self.runs or ((self.low, self.shift, self.width),)

    @property
    def high(self) -> int:
        return self.low + self.width

    @property
    def cost_ns(self) -> float:
        """Time per frame to advance the flow variable; more than 2 random octets take two draws."""
        return 8.0 if self.op == "random" and self.sizes[0] > 2 else 6.0

    def declare(self, size: int) -> Instruction:
        if len(self.values):
            return declare_list(self.name, size, self.values)
        return declare_range(self.name, size, self.op, self.minimum, self.maximum, self.step)

    def make_complement(self, name: str) -> FlowVariable | None:
        """Return a flow variable with all bits inverted, or None if TRex has none."""
        ones = (1 << max(place + width for _, place, width in self.supplied_bits)) - 1
        if len(self.values):
            values = [ones - value for value in self.values]
            return replace(self, name=name, values=values, sizes=list_sizes(ones))
        if self.op == "random" or self.sizes[0] == 8:
            return None
        op: Op = "dec" if self.op == "inc" else "inc"
        return replace(self, name=name, op=op, add=ones - self.minimum - self.maximum - self.add)


class Split(NamedTuple):
    """Flow variables that supply disjoint bits of a variable, highest first, and a constant for the rest."""

    flow_vars: tuple[FlowVariable, ...]
    constant: int = 0
    notes: tuple[str, ...] = ()


class FrameBits(NamedTuple):
    """Copy of bits ``low..high - 1`` of ``variable + add``, whose lowest bit is bit ``last`` of the frame."""

    low: int
    high: int
    last: int
    add: int


@dataclass(frozen=True)
class FrameVariable:
    """A variable with its copies in the frame, and the seed of its pseudorandom order."""

    model: Variable
    copies: tuple[FrameBits, ...]
    seed: int = 1

    @property
    def cuts(self) -> list[int]:
        """Bits of the variable at which copies begin or end."""
        edges = {bit for copy in self.copies for bit in (copy.low, copy.high)}
        return sorted(edges - {0, self.model.width})

    @property
    def has_additions(self) -> bool:
        return any(copy.add for copy in self.copies)

    @property
    def max_cut(self) -> int:
        """Highest bit at which the variable may be cut; additions carry through the bits above it."""
        return min(count_trailing_zeros(copy.add, self.model.width) for copy in self.copies)

    def choose_cuts(self, candidates: Iterable[Sequence[int]], purpose: str) -> Sequence[int]:
        """Return the cheapest usable cuts, the first of equally cheap ones."""
        max_cut = self.max_cut
        usable = [c for c in candidates if max(c, default=0) <= max_cut]
        if not usable:
            problem = f"TRex cannot carry a constant through variable '{self.model.name}'"
            hint = "copy it without a constant, or narrow it"
            raise make_limit_error(f"{problem} ({purpose})", hint)
        return min(usable, key=self._estimate_cost_ns)

    def _estimate_cost_ns(self, cuts: Sequence[int]) -> float:
        """Estimate the time per frame of all writes if the variable is cut at these bits."""
        pieces, writes = list(pairwise([0, *sorted(cuts), self.model.width])), 0
        for copy, (start, end) in product(self.copies, pieces):
            low, high = max(copy.low, start), min(copy.high, end)
            if low < high:
                first, last = copy.last - (high - 1 - copy.low), copy.last - (low - copy.low)
                writes += -(-(last // 8 - first // 8 + 1) // 4)
        return 6.0 * len(pieces) + 5.5 * writes

    def split_constant_bits(self, low: int, high: int) -> tuple[int, int]:
        """Return the number of low bits that vary within ``low..high``, and the constant bits above.

        If a copy adds a constant, all bits differ because of the carry.
        """
        if self.has_additions:
            return self.model.width, 0
        bits = (low ^ high).bit_length()
        return bits, low >> bits << bits

    def split_list(self, values: Sequence[int]) -> Split:
        import numpy as np

        array = np.asarray(values, dtype=np.uint64)
        low, high = int(array.min()), int(array.max())
        bits, constant = self.model.width, 0
        if not self.has_additions:
            bits = int(np.bitwise_or.reduce(array ^ array[0])).bit_length()
            constant = low >> bits << bits
        if bits == 0:
            return Split((), constant)
        cuts: Sequence[int] = ()
        if (high - constant).bit_length() > WORD:
            cuts = self.choose_cuts([(c,) for c in range(bits - WORD, WORD + 1)], "a list")
        flow_vars = []
        for start, end in pairwise([0, *cuts, bits]):
            column = (array >> np.uint64(start)) & np.uint64((1 << end - start) - 1)
            name = f"{self.model.name}.{start}" if cuts else self.model.name
            flow_vars.append(make_list_flow_var(name, start, end - start, column.tolist()))
        return Split(tuple(reversed(flow_vars)), constant)


def list_sizes(*values: int) -> tuple[int, ...]:
    """Return the sizes of 1, 2 and 4 octets that hold all values, smallest first."""
    return tuple(s for s in (1, 2, 4) if max(values) < 1 << 8 * s)


def count_trailing_zeros(value: int, limit: int) -> int:
    """Count the zero bits at the low end of a number, at most ``limit``."""
    return min((value & -value).bit_length() - 1 if value else limit, limit)


def make_list_flow_var(name: str, low: int, width: int, values: Sequence[int]) -> FlowVariable:
    """Return a flow variable that takes listed values in turn."""
    return FlowVariable(name, low, width, "inc", values=values, sizes=list_sizes(max(values)))


def shuffle_range(low: int, high: int, seed: int) -> list[int]:
    """Return ``low..high`` in an order that depends on the seed only."""
    import numpy as np

    values: list[int] = np.random.default_rng(seed).permutation(high - low + 1).tolist()
    return [low + value for value in values]
