"""The expander: frames of a compiled stream, as TRex's field engine would emit them.

A NumPy interpreter of ``vm.instructions``. Frames can be asked for in any order (random access
by frame number), checksums are finished as the NIC finishes them. Written from TRex v3.08's
``trex_stl_stream_vm.{h,cpp}`` and compared octet by octet with its simulator where one is at hand.

Instead of running instructions frame by frame, each 16-bit word a program may change becomes one
array expression over a block of frames; checksums are sums over just these words.
"""

from __future__ import annotations

import base64
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from v6t.base.errors import UsageError
from v6t.packets.checksum import fold, sum_words
from v6t.packets.headers import PROTOCOL_TCP, PROTOCOL_UDP
from v6t.packets.unique import sort_unique
from v6t.packets.walker import Network, locate_headers
from v6t.profiles import lcg
from v6t.profiles.compiler import instructions as ins
from v6t.profiles.compiler.schedule import order_with_index
from v6t.profiles.streams import Stream, StreamSet

if TYPE_CHECKING:
    from numpy.typing import NDArray

BLOCK = 2048
"""Frames computed at a time: the working set stays in the cache."""

_U32 = 0xFFFFFFFF
_HIGH = "/high"
"""Suffix for the upper 32 bits of an 8-octet variable: what a masked write of it takes."""
Values = dict[str, "NDArray[np.uint32]"]


class Expander:
    """Frames of one stream on one core.

    Attributes:
        length: octets of a frame without FCS.
        layout: where the headers of its frames are.
        checksum: that covers their end.
    """

    def __init__(self, stream: Stream, core: int = 0, cores: int = 1) -> None:
        """Prepare all that does not depend on the frame number.

        Args:
            stream: compiled stream.
            core: TRex splits a stream over its data path cores; this is the one meant.
            cores: how many there are.

        Raises:
            UsageError: an instruction the compiler never makes.
        """
        packet = base64.b64decode(stream.trex["packet"]["binary"])
        self.length = len(packet)
        self.layout = locate_headers(packet)
        self.checksum = stream.checksum
        self._template = np.frombuffer(packet, dtype=np.uint8)
        instructions = stream.trex.get("vm", {}).get("instructions", [])
        variables = [i for i in instructions if i["type"] == "flow_var"]
        others = [i for i in instructions if i["type"] != "flow_var"]
        seed = int(stream.trex.get("random_seed", 0))
        self._draws = _Draws(variables, lcg.core_seed(seed, core))
        split = any(_splits(v) for v in variables)
        self._counters = {
            str(v["name"]): _counter(v, core, cores if split and _splits(v) else 1, split)
            for v in variables
            if v["op"] != "random" or v.get("value_list")
        }
        self._wide = {str(v["name"]) for v in variables if int(v["size"]) == 8}
        self._words = _word_programs(others, packet, {str(v["name"]): v for v in variables})
        self._sums = [s for i in _fixes(others) for s in _checksum(i, packet, self._words)]

    def frames(
        self, first: int, count: int, out: NDArray[np.uint8] | None = None
    ) -> NDArray[np.uint8]:
        """Frames ``first .. first + count - 1``, ``(count, length)`` uint8 without FCS.

        Args:
            first: number of the first frame, from 0.
            count: how many.
            out: where to write them; rows may be strided (a transmit ring), octets not.
        """
        if out is None:
            out = np.empty((count, self.length), dtype=np.uint8)
        for start in range(0, count, BLOCK):
            size = min(BLOCK, count - start)
            self._block(first + start, size, out[start : start + size])
        return out

    def _block(self, first: int, count: int, out: NDArray[np.uint8]) -> None:
        out[:] = self._template
        if not self._words:
            return
        values = self._draws.values(first, count)
        for name, counter in self._counters.items():
            place = counter(first, count)
            values[name] = (place & _U32).astype(np.uint32)
            if name in self._wide:
                values[name + _HIGH] = (place >> 32).astype(np.uint32)
        words = out[:, : out.shape[1] & ~1].view(">u2")
        computed: dict[int, NDArray[np.uint32]] = {}
        for word, program in self._words.items():
            value = program.value(values)
            computed[word] = value
            words[:, word] = value
        for checksum in self._sums:
            words[:, checksum.word] = checksum.value(computed, count)


def expand_set(streams: StreamSet, first: int, count: int) -> Iterator[bytes]:
    """Frames of all streams of a set in sending order, one core (for captures and tests)."""
    expanders = [Expander(s) for s in streams.streams]
    weights = [s.weight for s in streams.streams]
    for start in range(first, first + count, BLOCK):
        size = min(BLOCK, first + count - start)
        which, index = order_with_index(weights, start, size)
        batches = {}
        for stream in sort_unique(which):
            numbers = index[which == stream]
            low, high = int(numbers.min()), int(numbers.max())
            batches[int(stream)] = (expanders[stream].frames(low, high - low + 1), low)
        for stream, number in zip(which.tolist(), index.tolist(), strict=True):
            frames, low = batches[stream]
            yield frames[number - low].tobytes()


class _Draws:
    """Values of the random variables: one generator per stream, drawn in program order."""

    def __init__(self, variables: list[Mapping[str, Any]], state: int) -> None:
        self._state = state
        self._plans: list[tuple[str, list[int], int, int, NDArray[np.uint32] | None]] = []
        draws = 0
        for v in variables:
            if v["op"] != "random":
                continue
            listed = v.get("value_list")
            if int(v["size"]) > 4:
                raise UsageError(
                    "the expander does not draw 8-octet random variables",
                    code="expander-unsupported",
                )
            need = 1 if int(v["size"]) <= 2 or listed else 2
            columns = list(range(draws, draws + need))
            draws += need
            if listed:
                table = np.array(listed, dtype=np.uint32)
                self._plans.append((v["name"], columns, 0, len(table), table))
            else:
                low, high = int(v["min_value"]), int(v["max_value"])
                self._plans.append((v["name"], columns, low, high - low + 1, None))
        self._per_frame = draws
        self._multipliers, self._increments = lcg.tables(draws, BLOCK)

    def values(self, first: int, count: int) -> Values:
        """Values of frames ``first ..``, ``(count,)`` uint32 by variable name."""
        if not self._plans:
            return {}
        state = np.uint32(lcg.advance(self._state, first * self._per_frame))
        drawn = self._multipliers[:, :count] * state
        drawn += self._increments[:, :count]
        drawn >>= np.uint32(16)
        drawn &= np.uint32(0x7FFF)
        out: Values = {}
        for name, columns, low, span, table in self._plans:
            value = drawn[columns[0]]
            if len(columns) == 2:
                value = (value << np.uint32(16)) + drawn[columns[1]]
            if span & (span - 1) == 0:
                value = value & np.uint32(min(span - 1, 0xFFFFFFFF))
            else:
                value = value % np.uint32(span)
            if table is not None:
                value = table[value]
            elif low:
                value = value + np.uint32(low)
            out[name] = value
        return out


def _splits(variable: Mapping[str, Any]) -> bool:
    """Whether TRex divides the values of a variable among cores."""
    return bool(variable.get("split_to_cores", True)) and variable["op"] != "random"


def _counter(
    variable: Mapping[str, Any], core: int, cores: int, split: bool
) -> Callable[[int, int], NDArray[np.int64]]:
    """Values of an ``inc``, ``dec`` or list variable as a function of frame number and count."""
    phase = core if split and cores > 1 else 0
    sign = -1 if variable["op"] == "dec" else 1
    listed = variable.get("value_list")
    if listed:
        # bits matter, not the sign; an array is filled from a list faster than one of NumPy
        table = np.frombuffer(array("Q", listed), dtype=np.int64)
        low, span = 0, len(table)
        start = span - 1 if sign < 0 else 0
        step = int(variable["step"]) % span
    else:
        table = None
        step = int(variable["step"])
        low, high = int(variable["min_value"]), int(variable["max_value"])
        pad = -(high - low + 1) % step  # the server silently rounds the range up to the step
        low, high = (low - pad, high) if sign < 0 else (low, high + pad)
        span = high - low + 1
        default = high if sign < 0 else low
        start = int(variable.get("init_value", default)) - low
    stride = sign * step * cores % span
    # steps of eight octets would not fit 64 bits when multiplied
    numbers = np.arange(BLOCK, dtype=np.int64 if stride < 1 << 50 else object)
    ramp = (numbers * stride % span).astype(np.int64)

    def values(first: int, count: int) -> NDArray[np.int64]:
        base = (start + sign * step * (phase + first * cores)) % span
        place = ramp[:count] + base
        place[place >= span] -= span
        if table is not None:
            return table[place]
        place += low
        return place

    return values


@dataclass(frozen=True)
class _Term:
    """Contribution of one write to one word: ``((variable + add) << or >> shift) & mask``."""

    variable: str
    add: int
    shift: int
    mask: int

    def value(self, values: Values) -> NDArray[np.uint32]:
        value = values[self.variable]
        if abs(self.shift) >= 32:
            return np.zeros_like(value)
        if self.add:
            value = value + np.uint32(self.add & 0xFFFFFFFF)
        if self.shift > 0:
            value = value << np.uint32(self.shift)
        elif self.shift < 0:
            value = value >> np.uint32(-self.shift)
        return value & np.uint32(self.mask)


@dataclass(frozen=True)
class _Word:
    """A 16-bit word as constant bits and terms."""

    constant: int
    terms: tuple[_Term, ...]

    def value(self, values: Values) -> NDArray[np.uint32]:
        total = self.terms[0].value(values)
        for term in self.terms[1:]:
            total |= term.value(values)
        if self.constant:
            total |= np.uint32(self.constant)
        return total


def _word_programs(
    instructions: list[Mapping[str, Any]],
    packet: bytes,
    variables: Mapping[str, Mapping[str, Any]],
) -> dict[int, _Word]:
    """Writes by the 16-bit word they change, in ascending order of words."""
    programs: dict[int, _Word] = {}
    fixed = False
    for instruction in instructions:
        kind = instruction["type"]
        if kind.startswith("fix_checksum"):
            fixed = True
            continue
        if kind not in ("write_flow_var", "write_mask_flow_var"):
            raise UsageError(
                f"the expander does not interpret '{kind}' instructions",
                code="expander-unsupported",
            )
        if fixed:
            raise UsageError(
                "a write after a checksum instruction would leave it stale",
                code="expander-unsupported",
            )
        for word, term in _terms(instruction, variables):
            if 2 * word + 2 > len(packet):
                raise UsageError(
                    "a program writes past the end of its frame", code="expander-unsupported"
                )
            constant = int.from_bytes(packet[2 * word : 2 * word + 2], "big")
            before = programs.get(word, _Word(constant, ()))
            others = tuple(
                _Term(t.variable, t.add, t.shift, t.mask & ~term.mask)
                for t in before.terms
                if t.mask & ~term.mask
            )
            programs[word] = _Word(before.constant & ~term.mask & 0xFFFF, (*others, term))
    return dict(sorted(programs.items()))


def _terms(
    instruction: Mapping[str, Any], variables: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[int, _Term]]:
    """A write cut at word boundaries: (word number, term) each."""
    name = str(instruction["name"])
    size = int(variables[name]["size"])
    if not instruction.get("is_big_endian", True) or variables[name].get("next_var"):
        raise UsageError(
            "the expander interprets big-endian writes of independent variables",
            code="expander-unsupported",
        )
    add = int(instruction.get("add_value", 0))
    at = int(instruction["pkt_offset"])
    if instruction["type"] == "write_mask_flow_var":
        cast = int(instruction["pkt_cast_size"])
        mask = int(instruction["mask"]) & ((1 << 8 * cast) - 1)
        source = name + _HIGH if size == 8 else name
        yield from _cut(_Term(source, add, int(instruction["shift"]), mask), at, cast)
    elif size <= 4:
        yield from _cut(_Term(name, add, 0, (1 << 8 * size) - 1), at, size)
    elif add:
        raise UsageError(
            "the expander does not add to 8-octet variables", code="expander-unsupported"
        )
    else:
        yield from _cut(_Term(name + _HIGH, 0, 0, _U32), at, 4)
        yield from _cut(_Term(name, 0, 0, _U32), at + 4, 4)


def _cut(term: _Term, at: int, cast: int) -> Iterator[tuple[int, _Term]]:
    """A write of ``cast`` octets at offset ``at``, cut at word boundaries."""
    for word in range(at // 2, (at + cast + 1) // 2):
        down = 8 * (at + cast - 2 * (word + 1))  # bits of the cast below this word
        part = (term.mask >> down if down >= 0 else term.mask << -down) & 0xFFFF
        if part:
            yield word, _Term(term.variable, term.add, term.shift - down, part)


def _fixes(instructions: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [i for i in instructions if i["type"].startswith("fix_checksum")]


@dataclass(frozen=True)
class _Checksum:
    """A checksum word as a constant plus the words the program changes."""

    word: int
    constant: int
    parts: tuple[int, ...]
    udp: bool

    def value(self, computed: Mapping[int, NDArray[np.uint32]], count: int) -> NDArray[np.uint32]:
        total = np.full(count, self.constant, dtype=np.uint32)
        for word in self.parts:
            total += computed[word]
        total = fold(total)
        total ^= np.uint32(0xFFFF)
        if self.udp:
            total[total == 0] = 0xFFFF
        return total


def _checksum(
    instruction: Mapping[str, Any], packet: bytes, words: Mapping[int, _Word]
) -> list[_Checksum]:
    """The checksums one instruction (and the NIC) computes."""
    if instruction["type"] == "fix_checksum_ipv4":
        return [_ipv4_checksum(int(instruction["pkt_offset"]), packet, words)]
    if instruction["type"] != "fix_checksum_hw":
        raise UsageError(
            f"the expander does not interpret '{instruction['type']}'", code="expander-unsupported"
        )
    l3 = int(instruction["l2_len"])
    l4 = l3 + int(instruction["l3_len"])
    kind = int(instruction["l4_type"])
    if kind not in (ins.L4_UDP, ins.L4_TCP):
        raise UsageError(
            "the expander finishes UDP and TCP checksums only", code="expander-unsupported"
        )
    out = []
    if packet[l3] >> 4 == 4:
        out.append(_ipv4_checksum(l3, packet, words))
        end = l3 + int.from_bytes(packet[l3 + 2 : l3 + 4], "big")
    else:
        end = l3 + 40 + int.from_bytes(packet[l3 + 4 : l3 + 6], "big")
    udp = kind == ins.L4_UDP
    if udp:
        end = l4 + int.from_bytes(packet[l4 + 4 : l4 + 6], "big")
    extra = end - l4 + (PROTOCOL_UDP if udp else PROTOCOL_TCP)
    padded = packet[:end] + b"\0" * (end % 2) + packet[end:]
    addresses = Network(packet[l3] >> 4, l3).addresses
    covered = [*range(addresses.start, addresses.stop, 2), *range(l4, end, 2)]
    field = l4 + (6 if udp else 16)
    out.append(_sum_of(field, covered, padded, words, extra=extra, udp=udp))
    return out


def _ipv4_checksum(l3: int, packet: bytes, words: Mapping[int, _Word]) -> _Checksum:
    covered = list(range(l3, l3 + 4 * (packet[l3] & 15), 2))
    return _sum_of(l3 + 10, covered, packet, words, extra=0, udp=False)


def _sum_of(
    field: int,
    covered: list[int],
    packet: bytes,
    words: Mapping[int, _Word],
    *,
    extra: int,
    udp: bool,
) -> _Checksum:
    if field % 2 or any(at % 2 for at in covered):
        raise UsageError(
            "the expander sums headers at even offsets only", code="expander-unsupported"
        )
    parts = [at // 2 for at in covered if at != field and at // 2 in words]
    fixed = [at for at in covered if at != field and at // 2 not in words]
    constant = fold(extra + sum_words(b"".join(packet[at : at + 2] for at in fixed)))
    return _Checksum(field // 2, constant, tuple(parts), udp)
