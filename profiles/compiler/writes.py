"""Write bits of flow variables to the frame with the fewest and cheapest instructions.

All writes of one flow variable with the same shift and constant form a group: as many masked writes as
windows of 4 octets cover it, or one cheaper plain write if the bits stand as in memory and the others
that it overwrites are constants or written again later.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from v6t.profiles.compiler.flow_variables import FlowVariable
from v6t.profiles.compiler.instructions import Instruction, write, write_mask

PLAIN_WRITE_NS = 3.5  # measured time of an instruction
MASKED_WRITE_NS = 5.5  # measured time of an instruction


class Write(NamedTuple):
    """Copy of ``width`` bits of ``flow_var + add``, from bit ``low`` up, to frame bits from ``first`` on."""

    flow_var: str
    first: int
    width: int
    low: int
    add: int = 0

    @property
    def bits(self) -> range:
        return range(self.first, self.first + self.width)


@dataclass(frozen=True)
class _WriteGroup:
    """Writes with the same ``diagonal``: the sum of a frame bit and its bit of the flow variable."""

    flow_var: FlowVariable
    add: int
    diagonal: int
    bits: frozenset[int]


class _PlainWrite(NamedTuple):
    """A store of the whole flow variable, which also overwrites the bits ``overwritten`` of other groups."""

    group: _WriteGroup
    offset: int  # octet of the frame
    addend: int
    overwritten: frozenset[int]


def encode_writes(
    flow_vars: Sequence[FlowVariable], writes: Iterable[Write], packet: bytes
) -> tuple[list[Instruction], float]:
    """Return the instructions that declare and write flow variables, and their cost in ns per frame.

    ``writes`` are disjoint, ``packet`` is the template frame.
    """
    by_name = {v.name: v for v in flow_vars}
    bits: dict[tuple[str, int, int], set[int]] = {}
    for w in writes:
        key = (w.flow_var, w.add % (1 << 32), w.first + w.width - 1 + w.low)
        bits.setdefault(key, set()).update(w.bits)
    groups = [_WriteGroup(by_name[n], add, d, frozenset(b)) for (n, add, d), b in bits.items()]
    groups.sort(key=lambda g: min(g.bits))
    sizes, plain = _choose_plain_writes(flow_vars, groups, packet)
    used = [v for v in flow_vars if any(g.flow_var is v for g in groups)]
    stored = [write(p.group.flow_var.name, p.offset, p.addend) for p in plain]
    rest = [group for group in groups if not any(p.group is group for p in plain)]
    masked = [instruction for group in rest for instruction in _encode_masked(group, len(packet))]
    masked.sort(key=lambda i: (i["pkt_offset"], i["mask"]))
    cost_ns = sum(v.cost_ns for v in used)
    cost_ns += PLAIN_WRITE_NS * len(stored) + MASKED_WRITE_NS * len(masked)
    return [*(v.declare(sizes[v.name]) for v in used), *stored, *masked], cost_ns


def _choose_plain_writes(
    flow_vars: Sequence[FlowVariable], groups: Sequence[_WriteGroup], packet: bytes
) -> tuple[dict[str, int], list[_PlainWrite]]:
    """Return the size of each flow variable that allows the most plain writes, and these writes."""
    owner = {bit: group for group in groups for bit in group.bits}
    sizes: dict[str, int] = {}
    accepted: list[_PlainWrite] = []
    for flow_var in flow_vars:
        best = accepted
        sizes[flow_var.name] = flow_var.sizes[0]
        for size in flow_var.sizes:
            trial = accepted
            for group in (g for g in groups if g.flow_var is flow_var):
                plain = _make_plain_write(group, size, owner, packet)
                if plain and _sort_writes([*trial, plain]):
                    trial = [*trial, plain]
            if len(trial) > len(best):
                best, sizes[flow_var.name] = trial, size
        accepted = best
    return sizes, _sort_writes(accepted)


def _make_plain_write(
    group: _WriteGroup, size: int, owner: Mapping[int, _WriteGroup], packet: bytes
) -> _PlainWrite | None:
    """Return the plain write that replaces all writes of a group, or None if this size prevents it."""
    flow_var = group.flow_var
    end, misaligned = divmod(group.diagonal + 1, 8)
    offset = end - size
    if misaligned or size == 8 or offset < 0 or end > len(packet) or min(group.bits) < 8 * offset:
        return None
    window = range(8 * offset, 8 * end)
    # bits the variable may set; a constant next to them can be added, one among them is lost
    settable = flow_var.width if flow_var.exact else 8 * size
    constants = [bit for bit in window if bit not in owner]
    if any(group.diagonal - bit < settable for bit in constants):
        return None
    if flow_var.exact and group.add != flow_var.add % (1 << 32):
        return None  # the constant of a copy may carry into the bits above
    constant = sum((packet[b // 8] >> (7 - b % 8) & 1) << group.diagonal - b for b in constants)
    overwritten = frozenset(b for b in window if owner.get(b, group) is not group)
    return _PlainWrite(group, offset, group.add + constant, overwritten)


def _sort_writes(plain: Sequence[_PlainWrite]) -> list[_PlainWrite]:
    """Order writes so that none overwrites an earlier one; return an empty list if that is impossible."""
    pending, ordered = list(plain), []
    while pending:
        for candidate in pending:
            others = (p for p in pending if p is not candidate)
            if not any(p.overwritten & candidate.group.bits for p in others):
                break
        else:
            return []
        pending.remove(candidate)
        ordered.append(candidate)
    return ordered


def _encode_masked(group: _WriteGroup, length: int) -> Iterator[Instruction]:
    """Yield the masked writes that cover a group."""
    octets = sorted({bit // 8 for bit in group.bits})
    while octets:
        start = octets[0]
        window = [octet for octet in octets if octet < start + 4]
        octets = octets[len(window) :]
        span = window[-1] - start + 1
        size = 4 if span == 3 else span
        if span == 3 and start % 4:
            start -= 1
        start = min(start, length - size)
        base = 8 * (start + size) - 1
        mask = sum(1 << base - bit for bit in group.bits if bit // 8 in window)
        yield write_mask(group.flow_var.name, start, size, mask, base - group.diagonal, group.add)
