"""The expander, which computes the frames that TRex's field engine emits for a compiled stream.

A NumPy interpreter of ``vm.instructions`` with random access by frame number, written from TRex v3.08's
``trex_stl_stream_vm.{h,cpp}`` and compared with its simulator. Each 16-bit word that a program may
change is one array expression over a block of frames; checksums are sums over these words only.
"""

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from v6t.base.errors import UsageError
from v6t.packets.arrays import I64, U8, U32, sort_unique
from v6t.packets.checksum import fold, sum_words
from v6t.packets.headers import PROTOCOL_TCP, PROTOCOL_UDP
from v6t.packets.walker import Network, locate_headers
from v6t.profiles.compiler.instructions import L4_TCP, L4_UDP
from v6t.profiles.compiler.schedule import list_classes_with_index
from v6t.profiles.streams import Stream, StreamSet

Values = dict[str, U32]
Instruction = Mapping[str, Any]

BLOCK_FRAMES = 2048  # computed at a time: the working set stays in the cache
MULTIPLIER, INCREMENT = 214013, 2531011  # of TRex's linear congruential generator, ``fastrand``
CORE_SEED_FACTOR = 514229  # seeds of cores differ by this factor (``generate_random_seed``)
_U32 = 0xFFFFFFFF  # mask of 32 bits
_HIGH = "/high"  # suffix for the upper 32 bits of an 8-octet variable, for masked writes


class Expander:
    """Generator of the frames of one stream on one core, ``length`` octets each without FCS."""

    def __init__(self, stream: Stream, core: int = 0, cores: int = 1) -> None:
        """Prepare the computation for one of TRex's data path cores.

        Args:
            core: number of the core in its server, on which random draws depend.
            cores: cores that send on one pair of ports; counters are split among them.
        """
        packet = stream.packet
        self.length = len(packet)
        self.layout = locate_headers(packet)
        self.checksum = stream.checksum
        self._template = np.frombuffer(packet, dtype=np.uint8)
        variables = {str(i["name"]): i for i in stream.program if i["type"] == "flow_var"}
        state = seed_core(int(stream.trex.get("random_seed", 0)), core)
        self._draws = _RandomValues(variables, state)
        self._counters = {
            # all cores send the same values of a variable that is not split
            name: _build_counter(v, core % cores, cores)
            if v.get("split_to_cores", True)
            else _build_counter(v, 0, 1)
            for name, v in variables.items()
            if v["op"] != "random"
        }
        self._wide = {name for name, v in variables.items() if int(v["size"]) == 8}
        self._words, fixes = _compile_words(stream.program, packet, variables)
        self._sums = [s for i in fixes for s in _compile_checksums(i, packet, self._words)]

    def compute_frames(self, first: int, count: int, out: U8 | None = None) -> U8:
        """Compute ``count`` frames, ``(count, length)`` without FCS, into ``out`` if given."""
        if out is None:
            out = np.empty((count, self.length), dtype=np.uint8)
        for start in range(0, count, BLOCK_FRAMES):
            size = min(BLOCK_FRAMES, count - start)
            self._write_block(first + start, size, out[start : start + size])
        return out

    def _write_block(self, first: int, count: int, out: U8) -> None:
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
        computed: dict[int, U32] = {}
        for number, word in self._words.items():
            words[:, number] = computed[number] = word.value(values)
        for checksum in self._sums:
            words[:, checksum.word] = checksum.value(computed, count)


def expand_set(streams: StreamSet, first: int, count: int) -> Iterator[bytes]:
    """Yield frames of all streams of a set in sending order, as one core sends them."""
    expanders = [Expander(s) for s in streams.streams]
    weights = [s.weight for s in streams.streams]
    for start in range(first, first + count, BLOCK_FRAMES):
        size = min(BLOCK_FRAMES, first + count - start)
        which, index = list_classes_with_index(weights, start, size)
        batches = {}
        for stream in sort_unique(which):
            numbers = index[which == stream]
            low, high = int(numbers.min()), int(numbers.max())
            batches[int(stream)] = (expanders[stream].compute_frames(low, high - low + 1), low)
        for stream, number in zip(which.tolist(), index.tolist(), strict=True):
            frames, low = batches[stream]
            yield frames[number - low].tobytes()


def seed_core(seed: int, core: int) -> int:
    """Return the initial generator state of a core for a stream's ``random_seed``."""
    return seed * (core + 1) * CORE_SEED_FACTOR & _U32


def advance_state(state: int, draws: int) -> int:
    """Return the generator state after a number of draws, in O(log draws)."""
    multiplier, increment = 1, 0
    m, c = MULTIPLIER, INCREMENT
    while draws:
        if draws & 1:
            multiplier, increment = multiplier * m & _U32, (increment * m + c) & _U32
        m, c = m * m & _U32, (m + 1) * c & _U32
        draws >>= 1
    return (multiplier * state + increment) & _U32


@lru_cache(maxsize=32)  # all streams with this number of draws share them
def make_draw_tables(draws: int, block: int) -> tuple[U32, U32]:
    """Return the generator's multipliers and increments, each of shape ``(draws, block)``.

    From a block's first state, draw ``d`` of frame ``i`` is ``multiplier[d, i] * state + increment[d, i]``.
    """
    powers = np.full(draws * block, MULTIPLIER, dtype=np.uint32).cumprod(dtype=np.uint32)
    sums = np.ones_like(powers)
    sums[1:] += powers[:-1].cumsum(dtype=np.uint32)
    tables = (powers, sums * np.uint32(INCREMENT))
    arrays = [np.ascontiguousarray(table.reshape(block, draws).T) for table in tables]
    for table in arrays:
        table.setflags(write=False)
    return arrays[0], arrays[1]


class _RandomValues:
    """Values of the random variables: one generator per stream, drawn in program order."""

    def __init__(self, variables: Mapping[str, Instruction], state: int) -> None:
        self._state = state
        self._plans: list[tuple[str, range, int, int]] = []
        draws = 0
        for name, v in variables.items():
            if v["op"] != "random":
                continue
            size = int(v["size"])
            if size > 4 or v.get("value_list"):
                raise _make_unsupported_error("8-octet random variables and random lists")
            columns = range(draws, draws + (1 if size <= 2 else 2))
            draws = columns.stop
            low, high = int(v["min_value"]), int(v["max_value"])
            self._plans.append((name, columns, low, high - low + 1))
        self._per_frame = draws
        self._multipliers, self._increments = make_draw_tables(draws, BLOCK_FRAMES)

    def values(self, first: int, count: int) -> Values:
        if not self._plans:
            return {}
        state = np.uint32(advance_state(self._state, first * self._per_frame))
        drawn = self._multipliers[:, :count] * state
        drawn += self._increments[:, :count]
        drawn >>= np.uint32(16)
        drawn &= np.uint32(0x7FFF)
        out: Values = {}
        for name, columns, low, span in self._plans:
            value = drawn[columns.start]
            if len(columns) == 2:
                value = (value << np.uint32(16)) + drawn[columns.start + 1]
            if span & (span - 1) == 0:
                value = value & np.uint32(min(span - 1, _U32))
            else:
                value = value % np.uint32(span)
            out[name] = value + np.uint32(low) if low else value
        return out


def _make_unsupported_error(subject: str) -> UsageError:
    return UsageError(f"the expander does not support {subject}", code="expander-unsupported")


def _build_counter(variable: Instruction, core: int, cores: int) -> Callable[[int, int], I64]:
    """Return a function that computes ``count`` values of a variable from a frame number on."""
    sign = -1 if variable["op"] == "dec" else 1
    step = int(variable["step"])
    table = None
    if listed := variable.get("value_list"):
        # bits matter, not the sign; an array is filled from a list faster than one of NumPy
        table = np.frombuffer(array("Q", listed), dtype=np.int64)
        low, span = 0, len(table)
        start = span - 1 if sign < 0 else 0
    else:
        low, high = int(variable["min_value"]), int(variable["max_value"])
        pad = -(high - low + 1) % step  # the server silently rounds the range up to the step
        low, high = (low - pad, high) if sign < 0 else (low, high + pad)
        span = high - low + 1
        start = int(variable.get("init_value", high if sign < 0 else low)) - low
    stride = sign * step * cores % span
    # steps of eight octets would not fit 64 bits when multiplied
    numbers = np.arange(BLOCK_FRAMES, dtype=np.int64 if stride < 1 << 50 else object)
    ramp = (numbers * stride % span).astype(np.int64)

    def values(first: int, count: int) -> I64:
        place = ramp[:count] + (start + sign * step * (core + first * cores)) % span
        place[place >= span] -= span
        if table is not None:
            return table[place]
        place += low
        return place

    return values


class _Term(NamedTuple):
    """Contribution of one write to one word: ``((variable + add) << or >> shift) & mask``."""

    variable: str
    add: int
    shift: int
    mask: int

    def value(self, values: Values) -> U32:
        value = values[self.variable]
        if abs(self.shift) >= 32:
            return np.zeros_like(value)
        if self.add:
            value = value + np.uint32(self.add & _U32)
        if self.shift > 0:
            value = value << np.uint32(self.shift)
        elif self.shift < 0:
            value = value >> np.uint32(-self.shift)
        return value & np.uint32(self.mask)


class _Word(NamedTuple):
    """A 16-bit word of the frame: constant bits and the terms of writes."""

    constant: int
    terms: tuple[_Term, ...]

    def value(self, values: Values) -> U32:
        total = self.terms[0].value(values)
        for term in self.terms[1:]:
            total |= term.value(values)
        if self.constant:
            total |= np.uint32(self.constant)
        return total


def _compile_words(
    program: Sequence[Instruction], packet: bytes, variables: Mapping[str, Instruction]
) -> tuple[dict[int, _Word], list[Instruction]]:
    """Return the 16-bit words that writes change, by ascending number, and the checksum instructions."""
    words: dict[int, _Word] = {}
    fixes: list[Instruction] = []
    for i in program:
        if i["type"].startswith("fix_checksum"):
            fixes.append(i)
        elif i["type"] in ("write_flow_var", "write_mask_flow_var"):
            if fixes:
                raise _make_unsupported_error("writes after a checksum instruction")
            for number, term in _cut_write(i, variables[str(i["name"])]):
                if 2 * number + 2 > len(packet):
                    raise _make_unsupported_error("writes past the end of the frame")
                constant = int.from_bytes(packet[2 * number : 2 * number + 2], "big")
                before = words.get(number, _Word(constant, ()))
                older = (t._replace(mask=t.mask & ~term.mask) for t in before.terms)
                terms = (*(t for t in older if t.mask), term)
                words[number] = _Word(before.constant & ~term.mask & 0xFFFF, terms)
        elif i["type"] != "flow_var":
            raise _make_unsupported_error(f"'{i['type']}' instructions")
    return dict(sorted(words.items())), fixes


def _cut_write(i: Instruction, variable: Instruction) -> Iterator[tuple[int, _Term]]:
    """Yield the terms of a write, split at word boundaries, each with its word number."""
    name, size = str(i["name"]), int(variable["size"])
    if not i.get("is_big_endian", True) or variable.get("next_var"):
        raise _make_unsupported_error("little-endian writes and dependent variables")
    add, offset = int(i.get("add_value", 0)), int(i["pkt_offset"])
    if i["type"] == "write_mask_flow_var":
        cast = int(i["pkt_cast_size"])
        source = name + _HIGH if size == 8 else name
        stores = [(source, offset, cast, int(i["shift"]), int(i["mask"]) & (1 << 8 * cast) - 1)]
    elif size <= 4:
        stores = [(name, offset, size, 0, (1 << 8 * size) - 1)]
    else:
        if add:
            raise _make_unsupported_error("additions to 8-octet variables")
        stores = [(name + _HIGH, offset, 4, 0, _U32), (name, offset + 4, 4, 0, _U32)]
    for source, at, cast, shift, mask in stores:
        for word in range(at // 2, (at + cast + 1) // 2):
            down = 8 * (at + cast - 2 * (word + 1))  # bits of the cast below this word
            if bits := (mask >> down if down >= 0 else mask << -down) & 0xFFFF:
                yield word, _Term(source, add, shift - down, bits)


class _ChecksumWord(NamedTuple):
    """A checksum as a constant sum and the words that the program changes."""

    word: int
    constant: int
    parts: tuple[int, ...]
    udp: bool

    def value(self, computed: Mapping[int, U32], count: int) -> U32:
        total = np.full(count, self.constant, dtype=np.uint32)
        for word in self.parts:
            total += computed[word]
        total = fold(total)
        total ^= np.uint32(0xFFFF)
        if self.udp:
            total[total == 0] = 0xFFFF
        return total


def _compile_checksums(
    i: Instruction, packet: bytes, words: Mapping[int, _Word]
) -> Iterator[_ChecksumWord]:
    """Yield the checksums that one instruction (and the NIC) computes."""

    def cover(at: int, covered: Sequence[int], extra: int = 0, udp: bool = False) -> _ChecksumWord:
        if at % 2 or any(octet % 2 for octet in covered):
            raise _make_unsupported_error("headers at odd offsets")
        octets = [octet for octet in covered if octet != at]
        fixed = b"".join(padded[octet : octet + 2] for octet in octets if octet // 2 not in words)
        parts = tuple(octet // 2 for octet in octets if octet // 2 in words)
        return _ChecksumWord(at // 2, fold(extra + sum_words(fixed)), parts, udp)

    padded, is_hardware = packet, i["type"] == "fix_checksum_hw"
    if i["type"] != "fix_checksum_ipv4" and i.get("l4_type") not in (L4_UDP, L4_TCP):
        raise _make_unsupported_error("checksums other than IPv4's, UDP's and TCP's")
    l3 = int(i["l2_len"] if is_hardware else i["pkt_offset"])
    version = packet[l3] >> 4
    if version == 4 or not is_hardware:
        yield cover(l3 + 10, range(l3, l3 + 4 * (packet[l3] & 15), 2))
    if is_hardware:
        l4, udp = l3 + int(i["l3_len"]), i["l4_type"] == L4_UDP
        at = l4 + 4 if udp else l3 + (2 if version == 4 else 4)
        end = int.from_bytes(packet[at : at + 2], "big")
        end += l4 if udp else l3 if version == 4 else l3 + 40
        padded = packet[:end] + b"\0" * (end % 2) + packet[end:]
        addresses = Network(version, l3).addresses
        covered = [*range(addresses.start, addresses.stop, 2), *range(l4, end, 2)]
        extra = end - l4 + (PROTOCOL_UDP if udp else PROTOCOL_TCP)
        yield cover(l4 + (6 if udp else 16), covered, extra, udp)
