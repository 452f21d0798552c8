"""Bits of TRex variables to bits of the frame, in the fewest and cheapest writes.

A write of TRex covers up to 4 octets anywhere, selects bits by a mask and shifts the variable; so
all pieces of one variable that need the same shift and constant form a *class*, and a class takes
as many masked writes as windows of 4 octets cover its octets. A whole class whose bits stand as in
memory is stored by a plain write instead, which is cheaper (trex.md section 9): the other bits it
overwrites have to be constants (added to the variable) or written again afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from v6t.profiles.compiler.instructions import Instruction, write, write_mask
from v6t.profiles.compiler.variables import Part

PLAIN_NS = 3.5
MASKED_NS = 5.5


@dataclass(frozen=True)
class Piece:
    """Bits ``first .. first + width - 1`` of the frame are bits of a part.

    Attributes:
        part: name of the part.
        first, width: bits of the frame, from its first bit on.
        low: bit of the TRex variable that goes to the last of them.
        add: constant added to the TRex variable first.
    """

    part: str
    first: int
    width: int
    low: int
    add: int = 0

    @property
    def diagonal(self) -> int:
        """Frame bit + variable bit, the same for all bits of the piece."""
        return self.first + self.width - 1 + self.low

    def bits(self) -> range:
        """The frame's bits."""
        return range(self.first, self.first + self.width)


@dataclass(frozen=True)
class _Class:
    part: Part
    add: int
    diagonal: int
    bits: frozenset[int]

    @property
    def octets(self) -> list[int]:
        return sorted({bit // 8 for bit in self.bits})


@dataclass(frozen=True)
class _Plain:
    """A store of the whole variable: what it covers and what it spoils."""

    owner: _Class
    offset: int
    add: int
    spoils: frozenset[int]


def lower(
    parts: Sequence[Part], pieces: Iterable[Piece], packet: bytes
) -> tuple[list[Instruction], float]:
    """Instructions that declare the parts and write the pieces, and their cost in ns per frame.

    Args:
        parts: the TRex variables.
        pieces: disjoint bits of the frame.
        packet: the template, without FCS: the constants around the pieces.
    """
    classes = _classify(parts, pieces)
    owner = {bit: index for index, c in enumerate(classes) for bit in c.bits}
    sizes, plains = _choose(parts, classes, owner, packet)
    declared, masked = [], []
    cost = 0.0
    for part in parts:
        own = [c for c in classes if c.part.name == part.name]
        if not own:
            continue
        declared.append(part.instruction(sizes[part.name]))
        cost += part.cost_ns
        for c in own:
            if not any(p.owner is c for p in plains):
                masked += _masked(c, len(packet))
    writes = [write(p.owner.part.name, p.offset, p.add) for p in plains]
    masked.sort(key=lambda i: (i["pkt_offset"], i["mask"]))
    cost += PLAIN_NS * len(writes) + MASKED_NS * len(masked)
    return declared + writes + masked, cost


def _classify(parts: Sequence[Part], pieces: Iterable[Piece]) -> list[_Class]:
    by_name = {p.name: p for p in parts}
    bits: dict[tuple[str, int, int], set[int]] = {}
    for piece in pieces:
        key = (piece.part, piece.add % (1 << 32), piece.diagonal)
        bits.setdefault(key, set()).update(piece.bits())
    classes = [_Class(by_name[n], add, d, frozenset(b)) for (n, add, d), b in bits.items()]
    return sorted(classes, key=lambda c: min(c.bits))


def _choose(
    parts: Sequence[Part], classes: list[_Class], owner: Mapping[int, int], packet: bytes
) -> tuple[dict[str, int], list[_Plain]]:
    """Size of each part such that most of its classes are plain writes; those, in order."""
    sizes: dict[str, int] = {}
    accepted: list[_Plain] = []
    for part in parts:
        own = [(i, c) for i, c in enumerate(classes) if c.part.name == part.name]
        best: list[_Plain] = []
        sizes[part.name] = part.sizes[0]
        for size in part.sizes:
            trial = list(accepted)
            for index, c in own:
                plain = _plain(c, index, size, owner, packet)
                if plain and _ordered([*trial, plain]) is not None:
                    trial.append(plain)
            if len(trial) - len(accepted) > len(best):
                best, sizes[part.name] = trial[len(accepted) :], size
        accepted += best
    return sizes, _ordered(accepted) or []


def _plain(
    c: _Class, index: int, size: int, owner: Mapping[int, int], packet: bytes
) -> _Plain | None:
    """The plain write that does all of a class, if there is one for this size."""
    end, odd = divmod(c.diagonal + 1, 8)
    offset = end - size
    if odd or size == 8 or offset < 0 or end > len(packet) or min(c.bits) < 8 * offset:
        return None
    window = range(8 * offset, 8 * end)
    spoils = frozenset(b for b in window if owner.get(b, index) != index)
    # bits the variable may set; a constant beside them can be added, one among them is lost
    ours = c.part.width if c.part.clean else 8 * size
    constants = [b for b in window if b not in owner]
    if any(c.diagonal - b < ours for b in constants):
        return None
    if c.part.clean and c.add != c.part.add % (1 << 32):
        return None  # a binding's own constant may carry into the bits above
    beside = sum((packet[b // 8] >> (7 - b % 8) & 1) << (c.diagonal - b) for b in constants)
    return _Plain(c, offset, c.add + beside, spoils)


def _ordered(plains: list[_Plain]) -> list[_Plain] | None:
    """The writes in an order in which none spoils an earlier one; None if there is none."""
    left, done = list(plains), []
    while left:
        for plain in left:
            # first comes what no other of the remaining ones has to precede
            if not any(o is not plain and o.spoils & plain.owner.bits for o in left):
                break
        else:
            return None
        left.remove(plain)
        done.append(plain)
    return done


def _masked(c: _Class, length: int) -> list[Instruction]:
    """Masked writes that cover a class."""
    instructions = []
    left = c.octets
    while left:
        start = left[0]
        window = [o for o in left if o < start + 4]
        left = left[len(window) :]
        span = window[-1] - start + 1
        size = 4 if span == 3 else span
        if span == 3 and start % 4:
            start -= 1
        start = min(start, length - size)
        base = 8 * (start + size) - 1
        mask = sum(1 << base - b for b in c.bits if b // 8 in window)
        shift = base - c.diagonal
        instructions.append(write_mask(c.part.name, start, size, mask, shift, c.add))
    return instructions
