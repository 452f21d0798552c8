"""The compiler: traffic of named variables and fields to TRex's own stream JSON.

Pure: no TRex, no root, no files. What it decides is recorded in each stream's notes.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any

from v6t.base.errors import UsageError
from v6t.packets import trailer
from v6t.profiles.compiler import instructions as ins
from v6t.profiles.compiler.checksums import ChecksumPlan, plan_checksums
from v6t.profiles.compiler.enumeration import counter, listed, permutation
from v6t.profiles.compiler.lower import Piece, lower
from v6t.profiles.compiler.schedule import counts, first_positions
from v6t.profiles.compiler.uniform import uniform
from v6t.profiles.compiler.variables import (
    MAX_WIDTH,
    WORD,
    Demand,
    Part,
    Supply,
    demand_of,
    trailing_zeros,
    variable_bits,
)
from v6t.profiles.fields import bound_bits
from v6t.profiles.model import Binding, Kind, Traffic, TrafficClass, Variable
from v6t.profiles.streams import Stream, StreamSet
from v6t.profiles.template import Template, build, final_checksum

MAX_STREAMS = 128
"""Stream identifiers 0..127: they are TRex's latency packet groups."""
MAX_BURST = (1 << 32) - 1


def compile_traffic(
    traffic: Traffic,
    *,
    rate_fps: float = 1000.0,
    frames: int | None = None,
    first_stream_id: int = 0,
    cores: int = 1,
) -> StreamSet:
    """Streams of one direction, one per traffic class and in that order.

    Args:
        traffic: what to send.
        rate_fps: frames per second of all classes together, shared by weight.
        frames: how many frames in all, each class its exact share; None: without end.
        first_stream_id: identifier of the first stream, the others follow.
        cores: data path cores TRex will split the streams over.

    Raises:
        UsageError: the traffic cannot be sent as described; the message names the reason.
    """
    classes = traffic.classes
    if not classes or len({c.name for c in classes}) < len(classes):
        raise UsageError(
            "a traffic model needs classes with different names", code="invalid-traffic-model"
        )
    if first_stream_id < 0 or first_stream_id + len(classes) > MAX_STREAMS:
        raise UsageError(
            f"{len(classes)} streams from number {first_stream_id} on exceed TRex's {MAX_STREAMS} "
            "packet groups",
            "describe the traffic with fewer classes or MAP domains",
            code="beyond-trex",
        )
    if not rate_fps > 0:
        raise UsageError(
            f"a rate of {rate_fps} frames per second is not positive", code="out-of-range"
        )
    weights = [c.weight for c in classes]
    shares = None if frames is None else counts(weights, frames)
    streams = []
    drawn: dict[str, int] = {}
    for number, (traffic_class, position) in enumerate(
        zip(classes, first_positions(weights), strict=True)
    ):
        stream_id = first_stream_id + number
        seed = _seed(traffic.seed, stream_id)
        if traffic_class.draws:
            seed = drawn.setdefault(traffic_class.draws, seed)
        template, program, notes, order = _program(traffic_class, seed)
        share = None if shares is None else shares[number]
        mode = _mode(rate_fps * traffic_class.weight / sum(weights), share)
        notes += _core_notes(traffic_class, cores, share)
        trex = {
            "name": traffic_class.name,
            "flags": _mac_flags(traffic_class),
            "action_count": 0,
            "enabled": share != 0 and traffic_class.weight > 0,
            "self_start": True,
            "start_paused": False,
            "isg": 1e6 * position / rate_fps,
            "core_id": -1,
            "random_seed": seed,
            "mode": mode,
            "packet": {"binary": base64.b64encode(template.packet).decode(), "meta": ""},
            "vm": {"instructions": program},
            "flow_stats": {"enabled": False},
        }
        role, weight = traffic_class.role, traffic_class.weight
        checksum = final_checksum(template.layout)
        streams.append(
            Stream(traffic_class.name, role, stream_id, weight, trex, checksum, tuple(notes), order)
        )
    return StreamSet(traffic.direction, tuple(streams))


def _program(
    traffic_class: TrafficClass, seed: int
) -> tuple[Template, list[ins.Instruction], list[str], int]:
    """Template, instructions, notes and order of one class."""
    template = build(traffic_class.layers, traffic_class.frame_size)
    _check(traffic_class)
    _check_room(traffic_class, template)
    parts: list[Part] = []
    pieces: list[Piece] = []
    constants: list[tuple[int, int, int]] = []
    notes: list[str] = []
    taken: dict[int, Binding] = {}
    order = 1
    all_bindings = traffic_class.all_bindings()
    for variable in traffic_class.drawn_variables():
        bindings = [b for b in all_bindings if b.variable == variable.name]
        if not bindings:
            continue
        spans = [bound_bits(template.layout, b) for b in bindings]
        for binding, (first, last) in zip(bindings, spans, strict=True):
            _claim(taken, binding, first, last)
        demand = demand_of(variable, bindings, _seed(seed, zlib.crc32(variable.name.encode())))
        supply = _supply(demand)
        parts += supply.parts
        notes += supply.notes
        order = max(order, variable.order, supply.order)
        for binding, (_, last) in zip(bindings, spans, strict=True):
            _place(supply, variable, binding, last, pieces, constants)
    template = template.with_bits(constants)
    plan = plan_checksums(template, parts, pieces) if pieces else ChecksumPlan()
    template = template.with_bits(plan.constants)
    body, _ = lower([*parts, *plan.parts], [*pieces, *plan.pieces], template.packet)
    program = [*body, *plan.instructions]
    _check_limits(traffic_class, template, program)
    if not program:
        notes.append("every frame is the same")
    return template, program, [*notes, *plan.notes], order


def _supply(demand: Demand) -> Supply:
    kind = demand.variable.kind
    if kind is Kind.UNIFORM:
        return uniform(demand)
    if kind is Kind.PERMUTATION:
        return permutation(demand)
    return listed(demand) if kind is Kind.LIST else counter(demand)


def _place(
    supply: Supply,
    variable: Variable,
    binding: Binding,
    last: int,
    pieces: list[Piece],
    constants: list[tuple[int, int, int]],
) -> None:
    """Bits of the frame that a binding takes from each part, and the constant others."""
    low, high = variable_bits(variable, binding)
    carry = trailing_zeros(binding.add, variable.width)
    free = set(range(low, high))
    for part in supply.parts:
        add = part.add + (binding.add >> part.low if carry < part.high else 0)
        add <<= part.raised
        for at, place, width in part.supplied:
            start, end = max(low, at), min(high, at + width)
            if start < end:
                free.difference_update(range(start, end))
                first = last - (end - 1 - low)
                pieces.append(Piece(part.name, first, end - start, start - at + place, add))
    constants += [(last - (bit - low), 1, supply.constant >> bit & 1) for bit in free]


def _claim(taken: dict[int, Binding], binding: Binding, first: int, last: int) -> None:
    for bit in range(first, last + 1):
        other = taken.setdefault(bit, binding)
        if other is not binding:
            raise UsageError(
                f"variables '{other.variable}' and '{binding.variable}' are both bound to the "
                f"same bits of {binding.field}",
                code="invalid-traffic-model",
            )


def _check(traffic_class: TrafficClass) -> None:
    """What the model's types cannot exclude."""
    import numpy as np

    drawn = traffic_class.drawn_variables()
    variables = {v.name: v for v in drawn}
    if len(variables) < len(drawn):
        raise UsageError(
            f"class '{traffic_class.name}' has two variables of one name", code="duplicate"
        )
    for v in variables.values():
        if not v.name or "." in v.name:
            raise UsageError(
                f"'{v.name}' cannot name a variable: its parts are named with a dot",
                code="invalid-traffic-model",
            )
        limit = 1 << v.width if 1 <= v.width <= MAX_WIDTH else 0
        if not limit:
            raise UsageError(
                f"variable '{v.name}' has {v.width} bits, but 1 to {MAX_WIDTH} can be",
                code="invalid-traffic-model",
            )
        if v.kind is Kind.LIST:
            values = np.asarray(v.values)
            outside = not len(values) or not 0 <= values.min() <= values.max() < limit
        else:
            outside = not 0 <= v.low <= v.top < limit
        if outside or v.step < 1:
            raise UsageError(
                f"variable '{v.name}': values must be a non-empty list of {v.width}-bit integers",
                code="invalid-traffic-model",
            )
    for b in traffic_class.all_bindings():
        if b.variable not in variables:
            raise UsageError(
                f"{b.field} is bound to an unknown variable '{b.variable}'",
                code="invalid-traffic-model",
            )
        variable = variables[b.variable]
        low, high = variable_bits(variable, b)
        if not 0 <= low < high <= variable.width or high - low != b.last - b.first + 1:
            raise UsageError(
                f"bits of variable '{b.variable}' do not fit bits {b.first}..{b.last} of {b.field}",
                code="invalid-traffic-model",
            )
        if b.add and variable.width > WORD:
            raise UsageError(
                f"TRex adds to {WORD} bits, but variable '{b.variable}' has {variable.width}",
                code="beyond-trex",
            )


def _check_room(traffic_class: TrafficClass, template: Template) -> None:
    """A mark written over a header would make another frame."""
    room = len(template.packet) - template.layout.payload
    if room < trailer.LENGTH:
        names = "/".join(h.name for h in template.layout.headers)
        raise UsageError(
            f"a frame of '{traffic_class.name}' has {room} octets behind {names}, but the tester "
            f"writes a mark of {trailer.LENGTH} there",
            f"choose a frame size larger by {trailer.LENGTH - room} or more",
            code="invalid-traffic-model",
        )


def _check_limits(
    traffic_class: TrafficClass, template: Template, program: Sequence[ins.Instruction]
) -> None:
    octets = ins.variable_octets(program)
    if octets > ins.MAX_VARIABLE_OCTETS:
        raise UsageError(
            f"the variables of class '{traffic_class.name}' take {octets} octets, but a stream of "
            f"TRex has {ins.MAX_VARIABLE_OCTETS}",
            "bind fewer independent variables, or spread them over several classes",
            code="beyond-trex",
        )
    sizes = {i["name"]: int(i["size"]) for i in program if i["type"] == "flow_var"}
    for instruction in program:
        offset, size = ins.touched(instruction, sizes.get(instruction.get("name", ""), 0))
        if offset + size > ins.MAX_OFFSET:
            what = template.layout.describe(8 * offset, 8 * (offset + size) - 1)
            raise UsageError(
                f"class '{traffic_class.name}' changes octet {offset + size - 1} of its frame "
                f"({what}), but TRex changes only the first {ins.MAX_OFFSET}",
                code="beyond-trex",
            )


def _core_notes(traffic_class: TrafficClass, cores: int, share: int | None) -> list[str]:
    enumerates = any(v.kind is Kind.PERMUTATION for v in traffic_class.drawn_variables())
    if cores < 2 or not enumerates or not share or share % cores == 0:
        return []
    return [
        f"{share} frames are no multiple of {cores} cores: the last values of the enumeration are "
        "not exactly once"
    ]


def _mode(pps: float, share: int | None) -> dict[str, Any]:
    rate = {"type": "pps", "value": pps}
    if share is None:
        return {"type": "continuous", "rate": rate}
    if share > MAX_BURST:
        raise UsageError(
            f"{share} frames of one class exceed the {MAX_BURST} of a TRex burst",
            "shorten the trial",
            code="beyond-trex",
        )
    # TRex refuses empty bursts; a class without a frame is disabled instead
    return {"type": "single_burst", "rate": rate, "total_pkts": max(share, 1)}


def _mac_flags(traffic_class: TrafficClass) -> int:
    """TRex keeps the template's own source (bit 0) and destination (bit 1) address."""
    return 3 if traffic_class.layers[0].name == "Ether" else 0


def _seed(seed: int, number: int) -> int:
    """A 32-bit seed, never 0 (TRex would take the time), unrelated for neighbouring numbers."""
    mixed = (seed * 0x9E3779B97F4A7C15 + number * 0xD1B54A32D192ED03 + 1) % (1 << 64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ mixed >> shift) * factor % (1 << 64)
    return (mixed >> 32) or 1
