"""Enumeration of four-tuples: every combination exactly once, on any number of cores.

A field of ``2^k * odd`` values takes its low k bits from one variable over the bits of all fields, and the
rest from a list. Lengths of lists are coprime, and the bits have a power of two as their period: the
frame number modulo each period gives every combination once (Chinese remainder theorem).
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd, prod

import numpy as np
from numpy.typing import NDArray
from v6t.base.errors import UsageError
from v6t.intent.device import Address
from v6t.profiles.compiler.enumeration import LISTED_BITS
from v6t.profiles.compiler.flow_variables import count_trailing_zeros
from v6t.profiles.compiler.instructions import MAX_LIST
from v6t.profiles.model import Expression, Kind, Layer, Variable, VariableBits

VARYING_ADDRESS_BITS = 32  # low bits in which the addresses of a range may differ


@dataclass(frozen=True)
class TupleField:
    """Consecutive values of one header field."""

    name: str
    field: str  # in scapy's notation, for example ``UDP.sport``
    last_bit: int  # number of the least significant bit
    first: int  # lowest value
    count: int  # number of values
    address: str = ""  # first address, for messages

    @property
    def varying_bits(self) -> int:
        return (self.first ^ self.first + self.count - 1).bit_length()

    @property
    def common_bits(self) -> int:
        """Number of low bits that the variable common to all fields enumerates."""
        return min(count_trailing_zeros(self.count, 64), count_trailing_zeros(self.first, 64))

    @property
    def listed_count(self) -> int:
        """Number of values of the remaining bits, which a list enumerates."""
        return self.count >> self.common_bits


@dataclass
class FourTuples:
    """Variables that together enumerate all four-tuples, and their bits in each header field."""

    variables: list[Variable] = field(default_factory=list)
    bits: dict[str, list[VariableBits]] = field(default_factory=dict)  # by header field

    def add_variable(self, variable: Variable, *copies: tuple[TupleField, int, int]) -> None:
        """Copy successive bits of a variable to the given (field, lowest bit, number of bits)."""
        self.variables.append(variable)
        source = 0
        for to, lowest, width in copies:
            copy = VariableBits(variable, to.last_bit - lowest - width + 1, width, source)
            self.bits.setdefault(to.field, []).append(copy)
            source += width

    @property
    def draw_order(self) -> tuple[str, ...]:
        return tuple(variable.name for variable in self.variables)

    def vary_layers(self, layers: Iterable[Layer]) -> tuple[Layer, ...]:
        """Return layers whose fields hold the bits of the variables."""
        layers = list(layers)
        for path, bits in self.bits.items():
            name, _, value = path.partition(".")
            place = next(n for n, layer in enumerate(layers) if layer.name == name)
            varied = Expression(layers[place].fields[value], tuple(bits))
            layers[place] = layers[place].replace(**{value: varied})
        return tuple(layers)


def find_last_address(name: str, first: Address, count: int) -> Address:
    """Return the last of ``count`` addresses, or raise UsageError if more than their last 32 bits differ."""
    room = (1 << VARYING_ADDRESS_BITS) - (int(first) & (1 << VARYING_ADDRESS_BITS) - 1)
    if count > room:
        where = "IPv4" if first.version == 4 else f"a /{128 - VARYING_ADDRESS_BITS}"
        problem = f"{name}: {count} addresses from {first} on exceed {where} by {count - room}"
        hint = "choose a lower first address, or fewer addresses"
        raise UsageError(problem, hint, path=(name,), code="out-of-range")
    return first + (count - 1)


def describe_addresses(name: str, path: str, first: Address, count: int) -> TupleField:
    """Describe consecutive addresses as a field that varies in its last 32 bits."""
    find_last_address(name, first, count)
    low = int(first) & (1 << VARYING_ADDRESS_BITS) - 1
    return TupleField(name, path, first.max_prefixlen - 1, low, count, str(first))


def shuffle_tuples(fields: Sequence[TupleField], seed: int) -> FourTuples:
    """Enumerate all four-tuples in pseudorandom order; raise UsageError if a list is too long for TRex."""
    fields, tuples = [f for f in fields if f.count > 1], FourTuples()
    order_bits = sum(count_trailing_zeros(f.listed_count, 64) for f in fields)
    if common := sum(f.common_bits for f in fields):
        if common + order_bits > LISTED_BITS:
            bits = Variable("tuple_bits", common, Kind.PERMUTATION, apart=order_bits)
        else:
            values = _shuffle_bits(common, order_bits, seed)
            bits = Variable("tuple_bits", common, Kind.LIST, values=values)
        tuples.add_variable(bits, *((f, 0, f.common_bits) for f in fields if f.common_bits))
    for number, group in enumerate(_group_fields([f for f in fields if f.listed_count > 1])):
        _add_list(tuples, group, order_bits + common, f"{seed}/{number}")
    return tuples


def enumerate_linearly(fields: Sequence[TupleField], down: bool) -> FourTuples:
    """Enumerate all four-tuples in counting order, the first field slowest, or raise UsageError."""
    varying, tuples = [f for f in fields if f.count > 1], FourTuples()
    for f in varying[1:]:
        if f.count & (f.count - 1) or f.first % f.count:
            problem = f"counting needs 2^k {f.name} from a multiple of 2^k on, not {f.count} from "
            hint = "enumerate in pseudorandom order (3), or choose such a range"
            problem += str(f.address or f.first)
            ips = 3 if any(f.address for f in varying) else 0
            params = {"enumerate_ports": 3, "enumerate_ips": ips}
            raise UsageError(problem, hint, params=params, code="beyond-trex")
    if varying:
        top, below = varying[0], sum(f.varying_bits for f in varying[1:])
        base = top.first % (1 << top.varying_bits) << below
        kind, high = Kind.DEC if down else Kind.INC, base + (top.count << below) - 1
        counter = Variable("tuple", top.varying_bits + below, kind, low=base, high=high)
        tuples.add_variable(counter, *((f, 0, f.varying_bits) for f in varying))
    return tuples


@lru_cache(maxsize=8)  # every frame size and every direction has the same
def _shuffle_bits(width: int, order_bits: int, seed: int) -> array[int]:
    """Interleave ``2**order_bits`` random orders of all values of ``width`` bits."""
    chance = random.Random(f"{seed}/bits")  # noqa: S311
    orders = [chance.sample(range(1 << width), 1 << width) for _ in range(1 << order_bits)]
    return array("q", (order[j] for j in range(1 << width) for order in orders))


def _group_fields(fields: Sequence[TupleField]) -> list[list[TupleField]]:
    """Group the fields that need a common list, because their list lengths have a common divisor."""
    groups: list[list[TupleField]] = []
    for f in fields:
        related = [g for g in groups if any(gcd(f.listed_count, o.listed_count) > 1 for o in g)]
        groups = [g for g in groups if g not in related] + [[f, *(o for g in related for o in g)]]
    return groups


@lru_cache(maxsize=8)  # every frame size and both phases use the same order
def _order_rows(
    counts: tuple[int, ...], order_bits: int, doublings: int, seed: str
) -> tuple[NDArray[np.int64], ...]:
    """Return each field's value numbers in random order, repeated in ``2**doublings`` passes."""
    rows = list(range(prod(counts)))  # numbers of combinations, the last field's fastest
    random.Random(f"{seed}/list").shuffle(rows)  # noqa: S311
    if doublings > order_bits:
        chance = random.Random(f"{seed}/passes")  # noqa: S311
        passes = [rows[r % (1 << order_bits) :: 1 << order_bits] for r in range(1 << doublings)]
        shuffled = (chance.sample(p, len(p)) for p in passes)
        rows = [row for place in zip(*shuffled, strict=True) for row in place]
    positions = tuple(places.astype(np.int64) for places in np.unravel_index(rows, counts))
    for places in positions:
        places.setflags(write=False)
    return positions


def _add_list(tuples: FourTuples, group: Sequence[TupleField], limit: int, seed: str) -> None:
    """Add lists of a group's values, in up to ``2**limit`` passes, each in another order."""
    if (length := prod(f.listed_count for f in group)) > MAX_LIST:
        names = " and ".join(f"{f.count} values of {f.name}" for f in group)
        problem = f"{names} cannot be enumerated together: a list in a TRex stream, which the "
        problem += f"embedded tester sends too, has at most {MAX_LIST} entries"
        hint = "choose 2^k values from a multiple of 2^k on, or numbers without a common divisor"
        raise UsageError(problem, hint, code="beyond-trex")
    order_bits = sum(count_trailing_zeros(f.listed_count, 64) for f in group)
    doublings = min(limit, order_bits + (MAX_LIST // length).bit_length() - 1)
    rows = _order_rows(tuple(f.listed_count for f in group), order_bits, doublings, seed)
    for places, f in zip(rows, group, strict=True):
        first = f.first >> f.common_bits
        width = (first ^ (first + f.listed_count - 1)).bit_length()
        values = array("q", (first + places & (1 << width) - 1).tobytes())
        variable = Variable(f"tuple_{f.name}", width, Kind.LIST, values=values)
        tuples.add_variable(variable, (f, f.common_bits, width))
