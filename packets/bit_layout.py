"""Bits of variables in a field: one table for integers, for NumPy arrays and for TRex writes.

Bit 0 is the most significant one, as in RFCs, of fields and of variables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from v6t.packets.arrays import U8, U64

Copy = TypeVar("Copy", bound=Any)  # a named tuple with the fields of :class:`BitCopy` or more
_FIELD = "field"  # variable of a layout that :meth:`BitLayout.invert` returns
_WORD_BITS = 64  # of NumPy's largest integers


class BitCopy(NamedTuple):
    """Bits ``source`` and following of a variable, copied to ``destination`` and following."""

    variable: str
    destination: int
    length: int
    source: int = 0


class _WordCopy(NamedTuple):
    """Copy of bits of a variable's 64-bit word; mask and shifts of 0 are not applied."""

    variable: str
    word: int
    mask: np.uint64
    left: np.uint64  # shift
    right: np.uint64  # shift


@dataclass(frozen=True)
class BitLayout:
    """A field of ``width`` bits: copies of variables' bits, and a constant for all others.

    A variable may be copied several times; copies of no bits are ignored.
    """

    width: int  # bits
    variables: Mapping[str, int]  # widths in bits, by name
    copies: tuple[BitCopy, ...]
    constant: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "copies", tuple(c for c in self.copies if c.length))

    def encode(self, **values: int) -> int:
        """Compute the field from the variables' values, which must fit their widths."""
        field = self.constant
        for variable, right, mask, left in self._terms:
            field |= (values[variable] >> right & mask) << left
        return field

    def decode(self, field: int) -> dict[str, int]:
        """Read the variables; if bits are copied twice, the last copy counts."""
        return {name: self.invert(name).encode(field=field) for name in self.variables}

    def encode_words(self, **values: U64 | Sequence[U64]) -> list[U64]:
        """Compute the field for arrays of values, as 64-bit words, highest first.

        A value is ``(n,)``, or all words of a variable wider than 64 bits. Words may share their memory.
        """
        import numpy as np

        columns = {
            name: (value,) if isinstance(value, np.ndarray) else value
            for name, value in values.items()
        }
        words = []
        for constant, copies in self._word_copies:
            word: U64 | None = None
            for variable, index, mask, left, right in copies:
                bits = columns[variable][index]
                if mask:
                    bits = bits & mask
                if left:
                    bits = bits << left
                elif right:
                    bits = bits >> right
                word = bits if word is None else word | bits
            if word is None:
                rows = len(next(iter(columns.values()))[0])
                word = np.full(rows, constant, dtype=np.uint64)
            elif constant:
                word = word | constant
            words.append(word)
        return words

    def encode_octets(self, **values: U64 | Sequence[U64]) -> U8:
        """Compute the field for arrays as big-endian octets ``(n, width / 8)``."""
        import numpy as np

        words = self.encode_words(**values)
        octets = [word.astype(">u8").view(np.uint8).reshape(-1, 8) for word in words]
        return np.concatenate(octets, axis=1)[:, 8 * len(words) - self.width // 8 :]

    def locate_octets(self, variable: str) -> list[int]:
        """Return the octets of the field that hold a variable; copies must be octet-aligned."""
        return [
            copy.source // 8 + octet
            for copy in self.invert(variable).copies
            for octet in range(copy.length // 8)
        ]

    def decode_words(self, field: U64 | Sequence[U64]) -> dict[str, U64]:
        """Read variables of up to 64 bits from an array of fields or from its 64-bit words."""
        return {name: self.invert(name).encode_words(field=field)[0] for name in self.variables}

    def invert(self, variable: str) -> BitLayout:
        """Return the layout that computes a variable from the variable ``field``."""
        return self._inverses[variable]

    def compose(self, **layouts: BitLayout) -> BitLayout:
        """Replace variables by what layouts of their widths compute from other variables."""
        variables = {n: w for n, w in self.variables.items() if n not in layouts}
        constant = self.constant
        copies: list[BitCopy] = []
        for copy in self.copies:
            name, width = copy.variable, self.variables[copy.variable]
            inner = layouts.get(name) or BitLayout(width, {name: width}, (BitCopy(name, 0, width),))
            variables |= inner.variables
            above = inner.width - copy.source - copy.length
            value = inner.constant >> above & (1 << copy.length) - 1
            constant |= value << self.width - copy.destination - copy.length
            copies += follow_copies(inner.copies, copy)
        return BitLayout(self.width, variables, join_copies(copies), constant)

    def make_mask(self, variable: str) -> int:
        """Return a mask of the field's bits that hold a variable."""
        copies = (c for c in self.copies if c.variable == variable)
        return sum((1 << c.length) - 1 << self.width - c.destination - c.length for c in copies)

    @cached_property
    def _terms(self) -> list[tuple[str, int, int, int]]:
        return [
            (
                c.variable,
                self.variables[c.variable] - c.source - c.length,
                (1 << c.length) - 1,
                self.width - c.destination - c.length,
            )
            for c in self.copies
        ]

    @cached_property
    def _word_copies(self) -> list[tuple[np.uint64, list[_WordCopy]]]:
        import numpy as np

        count = -(-self.width // _WORD_BITS) or 1
        words: list[list[_WordCopy]] = [[] for _ in range(count)]
        for variable, right, mask, left in self._terms:
            width, done = self.variables[variable], 0
            while done < mask.bit_length():
                source, low = divmod(right + done, _WORD_BITS)
                destination, at = divmod(left + done, _WORD_BITS)
                size = min(mask.bit_length() - done, _WORD_BITS - low, _WORD_BITS - at)
                bits = 0 if size == min(width, _WORD_BITS) else (1 << size) - 1 << low
                shifts = np.uint64(max(0, at - low)), np.uint64(max(0, low - at))
                index = (width - 1) // _WORD_BITS - source
                copy = _WordCopy(variable, index, np.uint64(bits), *shifts)
                words[count - 1 - destination].append(copy)
                done += size
        ones = (1 << _WORD_BITS) - 1
        constants = [np.uint64(self.constant >> _WORD_BITS * n & ones) for n in range(count)]
        return list(zip(reversed(constants), words, strict=True))

    @cached_property
    def _inverses(self) -> dict[str, BitLayout]:
        inverses = {}
        for name, width in self.variables.items():
            origin: dict[int, int] = {}
            for copy in self.copies:
                if copy.variable == name:
                    bits = range(copy.length)
                    origin |= {copy.source + bit: copy.destination + bit for bit in bits}
            copies = join_copies(BitCopy(_FIELD, bit, 1, origin[bit]) for bit in sorted(origin))
            inverses[name] = BitLayout(width, {_FIELD: self.width}, copies)
        return inverses


def follow_copies(inner: Iterable[Copy], outer: BitCopy) -> Iterator[Copy]:
    """Yield the parts of ``inner`` copies that ``outer`` copies on, as copies to its destination."""
    for part in inner:
        first = max(part.destination, outer.source)
        length = min(part.destination + part.length, outer.source + outer.length) - first
        if length > 0:
            destination = outer.destination + first - outer.source
            source = part.source + first - part.destination
            yield part._replace(destination=destination, length=length, source=source)


def join_copies(copies: Iterable[Copy]) -> tuple[Copy, ...]:
    """Join copies of adjacent bits to adjacent bits."""
    joined: list[Copy] = []
    for copy in copies:
        last = joined[-1] if joined else None
        if last is not None and copy == last._replace(
            destination=last.destination + last.length,
            length=copy.length,
            source=last.source + last.length,
        ):
            joined[-1] = last._replace(length=last.length + copy.length)
        else:
            joined.append(copy)
    return tuple(joined)
