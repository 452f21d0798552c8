"""Enumeration of four-tuples: every combination exactly once, on any number of cores.

A field of ``2^k * odd`` values takes its low k bits from one variable over the bits of all fields
and the rest from a list. A list may serve several fields, and lengths of lists are coprime to each
other; the bits have a power of two as their period. So the frame number modulo each period gives
every combination once (Chinese remainder theorem), and frame j holds combination j whatever the
number of cores. Lists and bits are in pseudorandom order.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING

import numpy as np
from v6t.base.errors import UsageError
from v6t.profiles.compiler.enumeration import LISTED_BITS
from v6t.profiles.compiler.instructions import MAX_LIST
from v6t.profiles.model import Expression, Kind, Layer, Variable, VariableBits

if TYPE_CHECKING:
    from numpy.typing import NDArray

LOW_BITS = 32
"""Addresses of a range differ within these bits: an enumerated field is not wider."""


@dataclass(frozen=True)
class TupleField:
    """Consecutive values of one header field.

    Attributes:
        name: in messages and variables.
        field: in scapy's names, for example ``UDP.sport``.
        last: bit of the field that is the least significant one of the value.
        first: smallest value.
        count: number of values.
        address: the first address, where the values are the last bits of addresses.
    """

    name: str
    field: str
    last: int
    first: int
    count: int
    address: str = ""

    @property
    def bits(self) -> int:
        """Low bits that differ between the values."""
        return (self.first ^ self.first + self.count - 1).bit_length()


@dataclass
class FourTuples:
    """Variables that take all combinations of fields together.

    Attributes:
        variables: in the order in which they are drawn.
        bits: of each field.
    """

    variables: list[Variable] = field(default_factory=list)
    bits: dict[str, list[VariableBits]] = field(default_factory=dict)

    def copy(self, to: TupleField, variable: Variable, above: int, length: int, end: int) -> None:
        """Copy ``length`` bits before bit ``end`` of a variable to a field, ``above`` its lowest bits."""
        copies = self.bits.setdefault(to.field, [])
        copies.append(VariableBits(variable, to.last - above - length + 1, length, end - length))

    @property
    def draw_order(self) -> tuple[str, ...]:
        """Names of the variables."""
        return tuple(variable.name for variable in self.variables)

    def vary(self, layers: Iterable[Layer]) -> tuple[Layer, ...]:
        """Return layers whose enumerated fields take all combinations."""
        layers = list(layers)
        for path, bits in self.bits.items():
            name, _, value = path.partition(".")
            place = next(n for n, layer in enumerate(layers) if layer.name == name)
            varied = Expression(layers[place].fields[value], tuple(bits))
            layers[place] = layers[place].replace(**{value: varied})
        return tuple(layers)


def last_address(
    name: str, first: IPv4Address | IPv6Address, count: int
) -> IPv4Address | IPv6Address:
    """Return the last of consecutive addresses.

    Args:
        name: of the range, in the message.
        first: address.
        count: of addresses.

    Raises:
        UsageError: more than the last 32 bits differ, or there is no such address.
    """
    room = (1 << LOW_BITS) - (int(first) & (1 << LOW_BITS) - 1)
    if count > room:
        where = "IPv4" if first.version == 4 else f"a /{128 - LOW_BITS}"
        raise UsageError(
            f"{name}: {count} addresses from {first} on do not lie within {where}; {room} are left",
            "choose a lower first address, or fewer addresses",
            path=(name,),
            code="out-of-range",
        )
    return first + (count - 1)


def consecutive(name: str, path: str, first: IPv4Address | IPv6Address, count: int) -> TupleField:
    """Return consecutive addresses as values of a field; of IPv6 addresses the last 32 bits vary.

    Raises:
        UsageError: the addresses do not lie within these bits.
    """
    last_address(name, first, count)
    low = int(first) & 0xFFFFFFFF
    return TupleField(name, path, first.max_prefixlen - 1, low, count, str(first))


def combinations(fields: Sequence[TupleField]) -> int:
    """Count the combinations, exactly however many there are."""
    return math.prod(f.count for f in fields)


def shuffled_tuples(fields: Sequence[TupleField], seed: int) -> FourTuples:
    """Return all combinations in pseudorandom order.

    Raises:
        UsageError: a list would be too long for TRex.
    """
    splits = [_Split.of(f) for f in fields if f.count > 1]
    bits = sum(s.even + s.low for s in splits)
    tuples = FourTuples()
    _add_bits(tuples, [s for s in splits if s.low], sum(s.even for s in splits), seed)
    for number, group in enumerate(_groups([s for s in splits if s.rest > 1])):
        _add_list(tuples, group, bits, f"{seed}/{number}")
    return tuples


def linear_tuples(fields: Sequence[TupleField], down: bool) -> FourTuples:
    """Return all combinations in order, the first field's values changing slowest.

    Raises:
        UsageError: a counter of TRex cannot carry from field to field.
    """
    varying = [f for f in fields if f.count > 1]
    for f in varying[1:]:
        if f.count & (f.count - 1) or f.first % f.count:
            raise UsageError(
                f"counting up or down needs 2^k values from a multiple of 2^k on in every field "
                f"but the slowest: {f.name} has {f.count} from {f.address or f.first} on",
                "enumerate in pseudorandom order (3), or choose such a range",
                code="beyond-trex",
            )
    tuples = FourTuples()
    if not varying:
        return tuples
    top, below = varying[0], sum(f.bits for f in varying[1:])
    base = top.first % (1 << top.bits) << below
    kind, high = Kind.DEC if down else Kind.INC, base + (top.count << below) - 1
    variable = Variable("tuple", top.bits + below, kind, low=base, high=high)
    tuples.variables.append(variable)
    end = 0
    for f in varying:
        end += f.bits
        tuples.copy(f, variable, 0, f.bits, end)
    return tuples


@dataclass(frozen=True)
class _Split:
    """A field cut into ``low`` bits of the common variable and the ``rest``, ``2^even * odd``."""

    field: TupleField
    low: int
    rest: int

    @classmethod
    def of(cls, field: TupleField) -> _Split:
        low = min(_zeros(field.count), _zeros(field.first) if field.first else 64)
        return cls(field, low, field.count >> low)

    @property
    def even(self) -> int:
        return _zeros(self.rest)

    @property
    def odd(self) -> int:
        return self.rest >> self.even


def _zeros(value: int) -> int:
    return (value & -value).bit_length() - 1


def _add_bits(tuples: FourTuples, splits: Sequence[_Split], even: int, seed: int) -> None:
    """Enumerate the low bits of all fields; ``even`` further bits select a place in the even list."""
    width = sum(s.low for s in splits)
    if not width:
        return
    if width + even > LISTED_BITS:
        variable = Variable("tuple_bits", width, Kind.PERMUTATION, apart=even, order=2)
    else:
        variable = Variable("tuple_bits", width, Kind.LIST, values=_shuffled(width, even, seed))
    tuples.variables.append(variable)
    end = 0
    for s in splits:
        end += s.low
        tuples.copy(s.field, variable, 0, s.low, end)


@lru_cache(maxsize=8)  # every frame size and every direction has the same
def _shuffled(width: int, even: int, seed: int) -> tuple[int, ...]:
    chance = random.Random(f"{seed}/bits")  # noqa: S311
    orders = [chance.sample(range(1 << width), 1 << width) for _ in range(1 << even)]
    return tuple(orders[j % (1 << even)][j >> even] for j in range(1 << width + even))


def _groups(splits: Sequence[_Split]) -> list[list[_Split]]:
    """Group fields whose lists must be one: those with a common factor, and all with an even one."""
    groups: list[list[_Split]] = []
    for s in splits:
        related = [
            g for g in groups if any(math.gcd(s.odd, o.odd) > 1 or (s.even and o.even) for o in g)
        ]
        merged = [s, *(o for g in related for o in g)]
        groups = [g for g in groups if g not in related] + [merged]
    return groups


@lru_cache(maxsize=8)  # every frame size and both phases use the same order
def _rows(
    counts: tuple[int, ...], even: int, doublings: int, seed: str
) -> tuple[NDArray[np.int64], ...]:
    """Return the place of each field's value in its list, for each combination."""
    rows = list(range(math.prod(counts)))  # numbers of combinations, the last field's fastest
    random.Random(f"{seed}/list").shuffle(rows)  # noqa: S311
    if doublings > even:
        chance = random.Random(f"{seed}/passes")  # noqa: S311
        passes = [rows[r % (1 << even) :: 1 << even] for r in range(1 << doublings)]
        shuffled = (chance.sample(p, len(p)) for p in passes)
        rows = [row for place in zip(*shuffled, strict=True) for row in place]
    positions = tuple(places.astype(np.int64) for places in np.unravel_index(rows, counts))
    for places in positions:
        places.setflags(write=False)
    return positions


def _add_list(tuples: FourTuples, group: Sequence[_Split], bits: int, seed: str) -> None:
    """List the values of a group.

    If ``bits`` of the frame number follow from the rest, the values are repeated as often as they fit,
    each time in another order. Otherwise a few values would only rotate.
    """
    length = math.prod(s.rest for s in group)
    if length > MAX_LIST:
        names = " and ".join(f"{s.field.count} values of {s.field.name}" for s in group)
        raise UsageError(
            f"{names} cannot be enumerated together: a list of {length} entries is longer than "
            f"the {MAX_LIST} of TRex",
            "choose 2^k values from a multiple of 2^k on for one of them, or numbers without a "
            "common divisor",
            code="beyond-trex",
        )
    even = sum(s.even for s in group)
    doublings = min(bits, even + (MAX_LIST // length).bit_length() - 1)
    order = 2 if doublings > even else 1
    rows = _rows(tuple(s.rest for s in group), even, doublings, seed)
    for places, s in zip(rows, group, strict=True):
        first = s.field.first >> s.low
        width = (first ^ (first + s.rest - 1)).bit_length()
        values = tuple((first + places & (1 << width) - 1).tolist())
        variable = Variable(f"tuple_{s.field.name}", width, Kind.LIST, values=values, order=order)
        tuples.variables.append(variable)
        tuples.copy(s.field, variable, s.low, width, width)
