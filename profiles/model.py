"""The traffic model: frames as header layers whose fields are expressions over variables.

Bits are counted as in the RFCs: bit 0 is the most significant one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Literal, NamedTuple

from v6t.base.errors import UsageError
from v6t.packets.bit_layout import BitCopy, BitLayout, follow_copies, join_copies
from v6t.packets.direction import Direction

Exchange = Literal["frames", "queries"]
"""What a tester and a device exchange: frames that are forwarded, or queries that are answered."""


def make_model_error(message: str, hint: str = "") -> UsageError:
    """Make the error for an inconsistent traffic model."""
    return UsageError(message, hint, code="invalid-traffic-model")


def make_limit_error(message: str, hint: str = "") -> UsageError:
    """Make the error for traffic that TRex's field engine cannot express."""
    return UsageError(message, hint, code="beyond-trex")


class Role(str, Enum):
    """Correct treatment of a traffic class by the device."""

    FOREGROUND = "foreground"  # translated
    BACKGROUND = "background"  # forwarded natively
    NEGATIVE = "negative"  # dropped; never counts as loss


class Kind(str, Enum):
    """How a variable takes its values from frame to frame."""

    UNIFORM = "uniform"  # independent pseudorandom draws
    PERMUTATION = "permutation"  # every value exactly once per cycle, in pseudorandom order
    INC = "inc"  # counts up
    DEC = "dec"  # counts down
    LIST = "list"  # the given values in the given order, repeated


@dataclass(frozen=True)
class Variable:
    """A number whose value changes from frame to frame."""

    name: str
    width: int  # bits
    kind: Kind = Kind.UNIFORM  # how values follow each other
    low: int = 0  # smallest value (all kinds but ``LIST``)
    high: int | None = None  # largest value (all kinds but ``LIST``); None: the whole width
    step: int = 1  # distance of neighboring values (``INC`` and ``DEC``)
    values: Sequence[int] = field(default=(), repr=False)
    """The values of a ``LIST``; any sequence of integers, NumPy arrays included."""
    apart: int = 0  # bits of the frame number
    """A ``PERMUTATION`` takes every value once in the frames that are equal modulo ``2^apart``."""

    @property
    def top(self) -> int:
        return (1 << self.width) - 1 if self.high is None else self.high

    @property
    def first(self) -> int:
        return int(self.values[0]) if self.kind is Kind.LIST else self.low

    def place(self, first_bit: int, base: object) -> Expression:
        """Return a field with the bits of ``base``, and this variable from ``first_bit`` on."""
        return Expression(base, (VariableBits(self, first_bit, self.width),))


class VariableBits(NamedTuple):
    """Copy of ``length`` bits of ``variable + add``, from bit ``source`` on, to a field."""

    variable: Variable
    destination: int
    length: int
    source: int = 0
    add: int = 0


@dataclass(frozen=True)
class Expression:
    """Value of a header field: a constant ``base``, as scapy takes it, overwritten by bits of variables."""

    base: object
    bits: tuple[VariableBits, ...]

    @classmethod
    def from_layout(
        cls, layout: BitLayout, base: object, **values: Variable | Expression | None
    ) -> Expression:
        """Return ``base`` overwritten by the bits that a layout copies from ``values`` (by variable name)."""
        bits: list[VariableBits] = []
        for copy in layout.copies:
            value = values.get(copy.variable)
            if isinstance(value, Variable):
                if value.width != (width := layout.variables[copy.variable]):
                    wrong = f"variable '{value.name}' has {value.width} bits"
                    raise make_model_error(f"{wrong}, '{copy.variable}' of the layout has {width}")
                value = value.place(0, 0)
            bits += follow_copies(value.bits, copy) if value else ()
        return cls(base, join_copies(bits))

    def add_constant(self, constant: int, variable: str, bits: range | None = None) -> Expression:
        """Add a constant to a variable in copies that begin at some, or all, bits of the field."""
        copies = list(self.bits)
        for place, copy in enumerate(copies):
            if copy.variable.name == variable and (bits is None or copy.destination in bits):
                copies[place] = copy._replace(add=copy.add + constant)
        return replace(self, bits=tuple(copies))


def list_ipv6_addresses(
    name: str, addresses: Sequence[bytes]
) -> tuple[tuple[Variable, ...], BitLayout]:
    """Return variables that together enumerate IPv6 addresses of 16 octets, and their layout."""
    numbers = [int.from_bytes(address, "big") for address in addresses]
    variables, copies = [], []
    for first, width in ((0, 48), (48, 48), (96, 32)):  # a variable has at most 48 bits
        below, mask = 128 - first - width, (1 << width) - 1
        values = tuple(number >> below & mask for number in numbers)
        variables.append(Variable(f"{name}_{first}", width, Kind.LIST, values=values))
        copies.append(BitCopy(f"{name}_{first}", first, width))
    return tuple(variables), BitLayout(128, {v.name: v.width for v in variables}, tuple(copies))


@dataclass(frozen=True)
class Layer:
    """One header: scapy's class name and its fields (``Layer("IP", {"ttl": 64})``).

    A field is a constant, an :class:`Expression`, or a :class:`Variable` that is the whole field.
    """

    name: str
    fields: Mapping[str, object] = field(default_factory=dict)

    @property
    def constants(self) -> dict[str, object]:
        """The fields with their constant values in the template frame."""
        fields = dict(self.fields)
        for name, value in fields.items():
            if isinstance(value, (Expression, Variable)):
                fields[name] = value.base if isinstance(value, Expression) else value.first
        return fields

    def replace(self, **fields: object) -> Layer:
        return Layer(self.name, {**self.fields, **fields})


@dataclass(frozen=True)
class TrafficClass:
    """Frames of one kind, which one stream sends."""

    name: str
    role: Role
    layers: tuple[Layer, ...]
    """Headers from Ethernet on; the compiler fills in lengths, checksums and zero payload."""
    frame_size: int  # octets on the wire including the 4 octets of FCS
    weight: int = 1  # share of the frames
    draw_group: str = ""  # classes of a group draw the same values in the same order; empty: none
    draw_order: tuple[str, ...] = ()  # names of variables that are drawn before all others

    def find_layer(self, name: str) -> Layer:
        return next(layer for layer in self.layers if layer.name == name)

    def replace_fields(self, layer: str, **fields: object) -> tuple[Layer, ...]:
        """Return the layers with some fields of the outermost layer of this name changed."""
        chosen = self.find_layer(layer)
        return tuple(each.replace(**fields) if each is chosen else each for each in self.layers)

    def list_drawn_variables(self) -> tuple[Variable, ...]:
        variables: dict[str, Variable] = {}
        for _, copy in self.copied_bits:
            if variables.setdefault(copy.variable.name, copy.variable) is not copy.variable:
                problem = f"class '{self.name}' has two variables named '{copy.variable.name}'"
                raise UsageError(problem, code="duplicate")
        first = [variables.pop(name) for name in self.draw_order if name in variables]
        return (*first, *variables.values())

    @cached_property
    def copied_bits(self) -> list[tuple[str, VariableBits]]:
        """All copied bits, each with the path of its field (``"IP:1.src"``)."""
        return [(path, bits) for _, path, value in self._list_expressions() for bits in value.bits]

    def map_variables(self, change: Callable[[Variable], Variable]) -> TrafficClass:
        """Return the class with other variables of the same names and widths."""
        changed = {v.name: change(v) for v in self.list_drawn_variables()}
        layers = list(self.layers)
        for number, path, value in self._list_expressions():
            bits = tuple(b._replace(variable=changed[b.variable.name]) for b in value.bits)
            name = path.rpartition(".")[2]
            layers[number] = layers[number].replace(**{name: replace(value, bits=bits)})
        return replace(self, layers=tuple(layers))

    def _list_expressions(self) -> Iterator[tuple[int, str, Expression]]:
        """Yield the layer number, path and value of every varying field."""
        seen: dict[str, int] = {}
        for number, layer in enumerate(self.layers):
            nth = seen[layer.name] = seen.get(layer.name, -1) + 1
            label = f"{layer.name}:{nth}" if nth else layer.name
            for name, value in layer.fields.items():
                if isinstance(value, Variable):
                    yield number, f"{label}.{name}", value.place(0, value.first)
                elif isinstance(value, Expression):
                    yield number, f"{label}.{name}", value


@dataclass(frozen=True)
class Traffic:
    """All classes sent in one direction; ``seed`` makes the pseudorandom numbers repeatable."""

    direction: Direction
    classes: tuple[TrafficClass, ...]
    seed: int = 1


@dataclass(frozen=True)
class FramePair:
    """Sizes of one packet on both sides of the device, FCS included."""

    ipv6: int
    ipv4: int

    @property
    def longest(self) -> int:
        """The larger size, which limits the frame rate on a medium."""
        return max(self.ipv6, self.ipv4)

    @property
    def label(self) -> str:
        """``"104/64"``: the IPv6 frame first."""
        return f"{self.ipv6}/{self.ipv4}"

    @property
    def mix(self) -> None:
        """None, as a single frame size is not a mix."""

    @property
    def pair_counts(self) -> tuple[tuple[FramePair, int], ...]:
        return ((self, 1),)
