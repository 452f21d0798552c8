"""Where the named header fields of a frame are, in bits from its first octet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from v6t.base.errors import UsageError

if TYPE_CHECKING:
    from v6t.profiles.model import Binding


COMPUTED = frozenset({"chksum", "cksum", "len", "plen"})
"""Fields the compiler fills in, unless the template gives them."""


@dataclass(frozen=True)
class Field:
    """One field: ``width`` bits from bit ``first`` of the frame."""

    name: str
    first: int
    width: int


@dataclass(frozen=True)
class Header:
    """One header of the frame, ``length`` octets from ``offset``.

    Attributes:
        name: scapy's class name.
        label: how fields of it are named: ``name``, or ``name:1`` for the second of its name.
        given: fields the caller set; the others hold defaults or were computed.
    """

    name: str
    label: str
    offset: int
    length: int
    fields: tuple[Field, ...]
    given: frozenset[str] = frozenset()

    @property
    def end(self) -> int:
        """Offset of the first octet after the header."""
        return self.offset + self.length

    def field(self, name: str) -> Field:
        """The field called ``name`` (scapy's name)."""
        return next(f for f in self.fields if f.name == name)


@dataclass(frozen=True)
class Layout:
    """All headers of a frame, outermost first; the payload starts where the last one ends."""

    headers: tuple[Header, ...]

    @property
    def payload(self) -> int:
        """Offset of the first payload octet."""
        return self.headers[-1].end if self.headers else 0

    def find(self, path: str) -> tuple[Header, Field]:
        """The field a binding means by ``"Layer.field"`` or ``"Layer:1.field"``.

        Raises:
            UsageError: no such layer or field in this frame.
        """
        label, _, name = path.partition(".")
        label = label.removesuffix(":0")
        for header in self.headers:
            if header.label == label:
                for field in header.fields:
                    if field.name == name:
                        return header, field
                raise UsageError(
                    f"layer {label} has no field '{name}'",
                    "its fields: " + ", ".join(f.name for f in header.fields),
                )
        raise UsageError(
            f"the frame has no layer '{label}' for the field '{path}'",
            "its layers: " + ", ".join(h.label for h in self.headers),
        )

    def describe(self, first: int, last: int) -> str:
        """Names of the fields that bits ``first..last`` of the frame belong to."""
        names = []
        for header in self.headers:
            for field in header.fields:
                low, high = max(first, field.first), min(last, field.first + field.width - 1)
                if low <= high:
                    bits = f"[{low - field.first}..{high - field.first}]"
                    whole = high - low + 1 == field.width
                    names.append(f"{header.label}.{field.name}{'' if whole else bits}")
        low = max(first, 8 * self.payload)
        if low <= last:
            start, end = low // 8 - self.payload, last // 8 - self.payload
            names.append(f"payload octet {start}" + (f"..{end}" if end > start else ""))
        return ", ".join(names)


def bound_bits(layout: Layout, binding: Binding) -> tuple[int, int]:
    """First and last bit, counted from the frame's first, that a binding writes.

    Raises:
        UsageError: no such field, bits outside it, or a field the compiler fills in.
    """
    header, field = layout.find(binding.field)
    if not 0 <= binding.first <= binding.last < field.width:
        raise UsageError(
            f"bits {binding.first}..{binding.last} are not within {binding.field} "
            f"(bits 0..{field.width - 1})"
        )
    if field.name in COMPUTED and field.name not in header.given:
        raise UsageError(
            f"{binding.field} cannot be bound: the compiler itself keeps lengths and checksums"
        )
    return field.first + binding.first, field.first + binding.last


def layout_of(packet: Any, explicit: Mapping[int, frozenset[str]] | None = None) -> Layout:
    """Positions of all fields of a scapy packet, down to its payload.

    Args:
        packet: outermost layer.
        explicit: by layer number, the fields its maker set.
    """
    from scapy.fields import ConditionalField

    headers: list[Header] = []
    offset, seen = 0, dict[str, int]()
    for number, layer in enumerate(_layers(packet)):
        name = type(layer).__name__
        nth = seen.get(name, 0)
        seen[name] = nth + 1
        fields, bit = [], 8 * offset
        for desc in layer.fields_desc:
            if isinstance(desc, ConditionalField) and not desc._evalcond(layer):
                continue
            octets = desc.i2len(layer, layer.getfieldval(desc.name))
            width = round(8 * octets)
            if width:
                fields.append(Field(desc.name, bit, width))
            bit += width
        length = len(layer.self_build())
        label = name if nth == 0 else f"{name}:{nth}"
        touched = (explicit or {}).get(number, frozenset())
        headers.append(Header(name, label, offset, length, tuple(fields), touched))
        offset += length
    return Layout(tuple(headers))


def _layers(packet: Any) -> Iterator[Any]:
    from scapy.packet import NoPayload, Raw

    while not isinstance(packet, (Raw, NoPayload)) and type(packet).__name__ != "Padding":
        yield packet
        packet = packet.payload
