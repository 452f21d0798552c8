"""The traffic model: what a technology sends, in the words of its own arithmetic.

A plugin describes each traffic class by a template (header layers), by variables and by
bindings ``bits of a variable -> bits of a named header field``. It never sees an offset: the
compiler turns this into field-engine programs, and everything else reads the compiled streams.

Bits are counted as in the RFCs: bit 0 is the most significant one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from v6t.packets.bit_layout import BitCopy, BitLayout
from v6t.packets.direction import Direction


class Role(str, Enum):
    """What a traffic class is for.

    ``FOREGROUND`` is translated, ``BACKGROUND`` is forwarded natively (GEN-14); ``NEGATIVE``
    must be dropped by the device (MAP-09) and never counts as loss.
    """

    FOREGROUND = "foreground"
    BACKGROUND = "background"
    NEGATIVE = "negative"


class Kind(str, Enum):
    """How a variable takes its values from frame to frame."""

    UNIFORM = "uniform"
    """Independent pseudorandom draws."""
    PERMUTATION = "permutation"
    """Every value exactly once per cycle, in pseudorandom order."""
    INC = "inc"
    DEC = "dec"
    LIST = "list"
    """The given values in the given order, repeated."""


@dataclass(frozen=True)
class Variable:
    """A number drawn anew for each frame.

    Attributes:
        name: unique within its traffic class.
        width: number of bits; bit 0 is the most significant, bit ``width - 1`` the least.
        kind: how values follow each other.
        low, high: inclusive bounds (all kinds but ``LIST``); default: the whole width.
        step: distance of neighbouring values (``INC`` and ``DEC``). The values are
            ``low, low+step, ...`` up to ``high``, then again from the start.
        values: the values of a ``LIST``; any sequence of integers, NumPy arrays included.
        apart: of a ``PERMUTATION`` of ``2^n`` values: every value comes exactly once in the
            frames whose numbers are equal modulo ``2^apart``, whatever they are.
        order: 2 if an earlier version took the same values in another order, else 1.
    """

    name: str
    width: int
    kind: Kind = Kind.UNIFORM
    low: int = 0
    high: int | None = None
    step: int = 1
    values: Sequence[int] = field(default=(), repr=False)
    apart: int = 0
    order: int = 1

    @property
    def top(self) -> int:
        """Largest value, inclusive."""
        return (1 << self.width) - 1 if self.high is None else self.high


@dataclass(frozen=True)
class Binding:
    """Bits ``var_first..var_last`` of a variable go to bits ``first..last`` of a header field.

    Attributes:
        variable: name of the variable.
        field: ``"Layer.field"`` in scapy's names, for example ``"IPv6.src"``, ``"IP.src"``,
            ``"UDP.sport"``; a second layer of the same name is ``"IP:1.src"``.
        first, last: bits of the field, inclusive, bit 0 most significant.
        var_first, var_last: bits of the variable, same length; default: the whole variable.
        add: constant added to the variable's value (before its bits are taken).
    """

    variable: str
    field: str
    first: int
    last: int
    var_first: int | None = None
    var_last: int | None = None
    add: int = 0


def bind_layout(layout: BitLayout, field: str) -> list[Binding]:
    """Bind the variables of a bit layout to a header field."""
    return [
        Binding(
            copy.variable,
            field,
            copy.destination,
            copy.destination + copy.length - 1,
            copy.source,
            copy.source + copy.length - 1,
        )
        for copy in layout.copies
    ]


_LISTED_BITS = ((0, 48), (48, 48), (96, 32))
"""First bit and length of the parts of an IPv6 address that a variable can hold."""


def list_ipv6_addresses(
    name: str, addresses: Sequence[bytes]
) -> tuple[tuple[Variable, ...], BitLayout]:
    """Return variables that take listed IPv6 addresses together, and the address made of them.

    Args:
        name: of the variables, which get the number of their first bit as well.
        addresses: 16 octets each.
    """
    numbers = [int.from_bytes(address, "big") for address in addresses]
    variables, copies = [], []
    for first, width in _LISTED_BITS:
        below, mask = 128 - first - width, (1 << width) - 1
        values = tuple(number >> below & mask for number in numbers)
        variables.append(Variable(f"{name}_{first}", width, Kind.LIST, values=values))
        copies.append(BitCopy(f"{name}_{first}", first, width))
    widths = {variable.name: variable.width for variable in variables}
    return tuple(variables), BitLayout(128, widths, tuple(copies))


@dataclass(frozen=True)
class Layer:
    """One header: scapy's class name and its fields (``Layer("IP", {"ttl": 64})``)."""

    name: str
    fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class TrafficClass:
    """Frames of one kind.

    Attributes:
        name: unique within the traffic, short (``"fg"``, ``"fg-domain1"``, ``"bg"``, ``"spoof"``).
        role: see :class:`Role`.
        layers: headers from Ethernet on; lengths and checksums are filled in by the compiler,
            zero payload fills the frame up to ``frame_size``.
        frame_size: octets on the wire including the 4 octets of FCS (GEN-04, TRX-01).
        weight: share of the frames; the shares of a traffic are spread evenly over time.
        draws: classes that have the same take the same values in the same order; empty: its own.
    """

    name: str
    role: Role
    layers: tuple[Layer, ...]
    frame_size: int
    variables: tuple[Variable, ...] = ()
    bindings: tuple[Binding, ...] = ()
    weight: int = 1
    draws: str = ""


@dataclass(frozen=True)
class Traffic:
    """All classes sent in one direction; ``seed`` makes the pseudorandom numbers repeatable."""

    direction: Direction
    classes: tuple[TrafficClass, ...]
    seed: int = 1


@dataclass(frozen=True)
class FramePair:
    """Sizes of one packet on both sides of the device, FCS included (GEN-05)."""

    ipv6: int
    ipv4: int

    @property
    def longest(self) -> int:
        """The larger one: how many of them a medium carries follows from it."""
        return max(self.ipv6, self.ipv4)

    @property
    def label(self) -> str:
        """``"104/64"``: the IPv6 frame first."""
        return f"{self.ipv6}/{self.ipv4}"

    @property
    def mix(self) -> None:
        """It is no mixture of sizes."""

    @property
    def pairs(self) -> tuple[tuple[FramePair, int], ...]:
        """All frames have it."""
        return ((self, 1),)
