"""Enumeration of four-tuples: every combination exactly once, on any number of cores (GEN-13).

A field of ``2^k * odd`` values takes its low k bits from one variable over the bits of all fields
and the rest from a list. A list may serve several fields, and lengths of lists are coprime to each
other; the bits have a power of two as their period. So the frame number modulo each period gives
every combination once (Chinese remainder theorem), and frame j holds combination j whatever the
number of cores. Lists and bits are in pseudorandom order.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING

import numpy as np
from v6t.base.errors import UsageError
from v6t.profiles.compiler.instructions import MAX_LIST
from v6t.profiles.compiler.mixing import LISTED_BITS
from v6t.profiles.model import Binding, Kind, Variable

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class TupleField:
    """Consecutive values of one header field.

    Attributes:
        name: of the field, in messages and variables.
        field: in scapy's names, for example ``UDP.sport``.
        last: bit of the field that is the least significant one of the value.
        first: smallest value.
        count: how many.
        address: the first address, where the values are the last bits of addresses.
    """

    name: str
    field: str
    last: int
    first: int
    count: int
    address: str = ""

    @property
    def top(self) -> int:
        """Largest value."""
        return self.first + self.count - 1

    @property
    def bits(self) -> int:
        """Low bits that differ between the values."""
        return (self.first ^ self.top).bit_length()


LOW_BITS = 32
"""Addresses of a range differ within these bits: an enumerated field is not wider."""


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


def consecutive(name: str, field: str, first: IPv4Address | IPv6Address, count: int) -> TupleField:
    """Return consecutive addresses as values of a field; of IPv6 addresses the last 32 bits vary.

    Raises:
        UsageError: the addresses do not lie within these bits.
    """
    last_address(name, first, count)
    return TupleField(
        name, field, first.max_prefixlen - 1, int(first) & 0xFFFFFFFF, count, str(first)
    )


Varied = tuple[list[Variable], list[Binding]]


def combinations(fields: Sequence[TupleField]) -> int:
    """Number of combinations, exact however large."""
    return math.prod(f.count for f in fields)


def shuffled_tuples(fields: Sequence[TupleField], seed: int) -> Varied:
    """All combinations in pseudorandom order.

    Raises:
        UsageError: a list would be too long for TRex.
    """
    varying = [_Split.of(f) for f in fields if f.count > 1]
    even = sum(s.even for s in varying)
    bits = even + sum(s.low for s in varying)
    variables, bindings = _bits([s for s in varying if s.low], even, seed)
    for number, group in enumerate(_groups([s for s in varying if s.rest > 1])):
        more, bound = _listed(group, bits, f"{seed}/{number}")
        variables += more
        bindings += bound
    return variables, bindings


def linear_tuples(fields: Sequence[TupleField], down: bool) -> Varied:
    """All combinations in order, the first field's values changing slowest.

    Raises:
        UsageError: a counter of TRex cannot carry from field to field.
    """
    varying = [f for f in fields if f.count > 1]
    if not varying:
        return [], []
    for f in varying[1:] if len(varying) > 1 else ():
        if f.count & (f.count - 1) or f.first % f.count:
            raise UsageError(
                f"counting up or down needs 2^k values from a multiple of 2^k on in every field "
                f"but the slowest: {f.name} has {f.count} from {f.address or f.first} on",
                "enumerate in pseudorandom order (3), or choose such a range",
                code="beyond-trex",
            )
    top = varying[0]
    below = sum(f.bits for f in varying[1:])
    width = top.bits + below
    base = top.first % (1 << top.bits) << below
    variable = Variable(
        "tuple",
        width,
        Kind.DEC if down else Kind.INC,
        low=base,
        high=base + (top.count << below) - 1,
    )
    bindings, used = [], 0
    for f in varying:
        bindings.append(
            Binding("tuple", f.field, f.last - f.bits + 1, f.last, used, used + f.bits - 1)
        )
        used += f.bits
    return [variable], bindings


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


def _bits(splits: Sequence[_Split], even: int, seed: int) -> Varied:
    """The low bits of all fields; ``even`` further bits tell the place in the even list."""
    width = sum(s.low for s in splits)
    if not width:
        return [], []
    period = width + even
    if period > LISTED_BITS:
        variable = Variable("tuple_bits", width, Kind.PERMUTATION, apart=even, order=2)
    else:
        variable = Variable("tuple_bits", width, Kind.LIST, values=_shuffled(width, even, seed))
    bindings, used = [], 0
    for s in splits:
        f = s.field
        bindings.append(
            Binding(variable.name, f.field, f.last - s.low + 1, f.last, used, used + s.low - 1)
        )
        used += s.low
    return [variable], bindings


@lru_cache(maxsize=8)  # every frame size and every direction has the same
def _shuffled(width: int, even: int, seed: int) -> tuple[int, ...]:
    chance = random.Random(f"{seed}/bits")  # noqa: S311
    orders = [chance.sample(range(1 << width), 1 << width) for _ in range(1 << even)]
    return tuple(orders[j % (1 << even)][j >> even] for j in range(1 << width + even))


def _groups(splits: Sequence[_Split]) -> list[list[_Split]]:
    """Fields whose lists must be one: those with a common factor, and all with an even one."""
    groups: list[list[_Split]] = []
    for s in splits:
        related = [
            g for g in groups if any(math.gcd(s.odd, o.odd) > 1 or (s.even and o.even) for o in g)
        ]
        merged = [s, *(o for g in related for o in g)]
        groups = [g for g in groups if g not in related] + [merged]
    return groups


@lru_cache(maxsize=8)  # every frame size and both phases ask for the same order
def _rows(
    counts: tuple[int, ...], even: int, doublings: int, seed: str
) -> tuple[NDArray[np.int64], ...]:
    """Places of each field's values in their list, one a combination."""
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


def _listed(group: Sequence[_Split], bits: int, seed: str) -> Varied:
    """Generate the values of a group.

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
    variables, bindings = [], []
    for place, s in enumerate(group):
        f = s.field
        first = f.first >> s.low
        width = (first ^ (first + s.rest - 1)).bit_length()
        ones = (1 << width) - 1
        name = f"tuple_{f.name}"
        values = tuple(((first + rows[place]) & ones).tolist())
        variables.append(Variable(name, width, Kind.LIST, values=values, order=order))
        low = f.last - s.low
        bindings.append(Binding(name, f.field, low - width + 1, low, 0, width - 1))
    return variables, bindings
