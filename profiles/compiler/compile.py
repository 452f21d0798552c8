"""The compiler, which translates the traffic model to TRex's stream JSON.

Pure: no TRex, no root, no files. Each stream's notes record its decisions.
"""

import base64
import zlib
from collections.abc import Sequence
from typing import Any

from v6t.base.errors import UsageError
from v6t.packets import trailer
from v6t.profiles.compiler import flow_variables
from v6t.profiles.compiler import instructions as ins
from v6t.profiles.compiler.checksums import plan_checksums
from v6t.profiles.compiler.enumeration import split_counter, split_permutation, split_values
from v6t.profiles.compiler.flow_variables import WORD, FlowVariable, FrameBits, FrameVariable, Split
from v6t.profiles.compiler.random_draws import split_uniform
from v6t.profiles.compiler.schedule import count_frames, find_starts
from v6t.profiles.compiler.writes import Write, encode_writes
from v6t.profiles.model import (
    Kind,
    Traffic,
    TrafficClass,
    Variable,
    make_limit_error,
    make_model_error,
)
from v6t.profiles.streams import Stream, StreamSet
from v6t.profiles.template import Template, build_template, find_final_checksum

MAX_STREAMS = 128  # identifiers 0..127 are TRex's latency packet groups
MAX_BURST = (1 << 32) - 1  # frames
_SPLITTERS = {
    Kind.UNIFORM: split_uniform,
    Kind.PERMUTATION: split_permutation,
    Kind.LIST: split_values,
    Kind.INC: split_counter,
    Kind.DEC: split_counter,
}


def compile_traffic(
    traffic: Traffic,
    *,
    rate_fps: float = 1000.0,
    frames: int | None = None,
    first_stream_id: int = 0,
    cores: int = 1,
) -> StreamSet:
    """Compile one stream for each traffic class of a direction, in the order of the classes.

    Args:
        traffic: traffic classes of one direction.
        rate_fps: frames per second of all classes together, shared by weight.
        frames: total number of frames, divided exactly by weight; None for an endless stream.
        first_stream_id: identifier of the first stream, the others follow.
        cores: number of data path cores over which TRex splits the streams.
    """
    classes, count = traffic.classes, len(traffic.classes)
    if not classes or len({c.name for c in classes}) < count:
        raise make_model_error("the traffic needs classes with different names")
    if first_stream_id < 0 or first_stream_id + count > MAX_STREAMS:
        problem = f"{count} streams from {first_stream_id} on exceed TRex's {MAX_STREAMS} groups"
        hint = "describe the traffic with fewer classes or MAP domains"
        raise UsageError(problem, hint, code="too-many-for-trex")
    if not rate_fps > 0:
        problem = f"a rate of {rate_fps} frames per second is not positive"
        raise UsageError(problem, code="out-of-range")
    weights = [c.weight for c in classes]
    shares = [None] * count if frames is None else count_frames(weights, frames)
    streams = []
    drawn: dict[str, int] = {}
    numbered = zip(classes, find_starts(weights), shares, strict=True)
    for stream_id, (traffic_class, begin, share) in enumerate(numbered, first_stream_id):
        name, weight = traffic_class.name, traffic_class.weight
        seed = _derive_seed(traffic.seed, stream_id)
        if traffic_class.draw_group:
            seed = drawn.setdefault(traffic_class.draw_group, seed)
        template, program, notes = _compile_class(traffic_class, seed)
        variables = traffic_class.list_drawn_variables() if share and share % cores else ()
        if any(v.kind is Kind.PERMUTATION for v in variables):
            notes.append(
                f"{share} frames are not a multiple of {cores} cores: the last values of the "
                "enumeration are not sent exactly once"
            )
        trex = {
            "name": name,
            # bits 0 and 1: TRex keeps the template's own source and destination MAC address
            "flags": 3 if traffic_class.layers[0].name == "Ether" else 0,
            "action_count": 0,
            "enabled": share != 0 and weight > 0,
            "self_start": True,
            "start_paused": False,
            "isg": 1e6 * begin / rate_fps,
            "core_id": -1,
            "random_seed": seed,
            "mode": _make_stream_mode(rate_fps * weight / sum(weights), share),
            "packet": {"binary": base64.b64encode(template.packet).decode(), "meta": ""},
            "vm": {"instructions": program},
            "flow_stats": {"enabled": False},
        }
        checksum = find_final_checksum(template.layout)
        role = traffic_class.role
        streams.append(Stream(name, role, stream_id, weight, trex, checksum, tuple(notes)))
    return StreamSet(traffic.direction, tuple(streams))


def _compile_class(
    traffic_class: TrafficClass, seed: int
) -> tuple[Template, list[ins.Instruction], list[str]]:
    template = build_template(traffic_class.layers, traffic_class.frame_size)
    variables = traffic_class.list_drawn_variables()
    for variable in variables:
        _check_variable(variable)
    room = len(template.packet) - template.layout.payload
    if room < trailer.LENGTH:
        where = f"{room} octets behind {template.layout.names}"
        problem = f"a frame of '{traffic_class.name}' has {where}, too few for the tester's trailer"
        hint = f"choose a frame size larger by {trailer.LENGTH - room} or more"
        raise make_model_error(problem, hint)
    copies = _locate_copies(template, traffic_class)
    flow_vars: list[FlowVariable] = []
    writes: list[Write] = []
    constants: list[tuple[int, int, int]] = []
    notes: list[str] = []
    for variable in variables:
        own_seed = _derive_seed(seed, zlib.crc32(variable.name.encode()))
        placed = FrameVariable(variable, tuple(copies.get(variable.name, ())), own_seed)
        if not placed.copies:
            continue
        split = _SPLITTERS[variable.kind](placed)
        flow_vars += split.flow_vars
        notes += split.notes
        for copy in placed.copies:
            more, fixed = _make_writes(split, variable.width, copy)
            writes += more
            constants += fixed
    template = template.with_bits(constants)
    plan = plan_checksums(template, flow_vars, writes)
    template = template.with_bits(plan.constants)
    body, _ = encode_writes([*flow_vars, *plan.flow_vars], [*writes, *plan.writes], template.packet)
    program = [*body, *plan.instructions]
    _check_limits(traffic_class, template, program)
    if not program:
        notes.append("every frame is the same")
    return template, program, [*notes, *plan.notes]


def _locate_copies(template: Template, traffic_class: TrafficClass) -> dict[str, list[FrameBits]]:
    """Return the frame bits to which each variable is copied, by variable name."""
    copies: dict[str, list[FrameBits]] = {}
    owners: dict[int, str] = {}
    for path, bits in traffic_class.copied_bits:
        name, width = bits.variable.name, bits.variable.width
        if not 0 <= bits.source < bits.source + bits.length <= width:
            last = bits.source + bits.length - 1
            problem = f"variable '{name}' has {width} bits"
            raise make_model_error(f"{problem}, but {path} takes bits {bits.source} to {last}")
        if bits.add and width > WORD:
            raise make_limit_error(f"TRex adds to {WORD} bits, but variable '{name}' has {width}")
        first = template.layout.locate_bits(path, bits)
        frame_bits = range(first, first + bits.length)
        if clashes := [owners[bit] for bit in frame_bits if bit in owners]:
            problem = f"variables '{clashes[0]}' and '{name}' are copied to the same bits of {path}"
            raise make_model_error(problem)
        owners |= dict.fromkeys(frame_bits, name)
        high = width - bits.source
        copy = FrameBits(high - bits.length, high, first + bits.length - 1, bits.add)
        copies.setdefault(name, []).append(copy)
    return copies


def _make_writes(
    split: Split, variable_width: int, copy: FrameBits
) -> tuple[list[Write], list[tuple[int, int, int]]]:
    """Return the writes of a copy, and the constant bits that no flow variable supplies."""
    carry, writes = flow_variables.count_trailing_zeros(copy.add, variable_width), []
    constant_bits = set(range(copy.low, copy.high))
    for flow_var in split.flow_vars:
        add = flow_var.add + (copy.add >> flow_var.low if carry < flow_var.high else 0)
        add <<= flow_var.shift
        for at, place, width in flow_var.supplied_bits:
            low, high = max(copy.low, at), min(copy.high, at + width)
            if low < high:
                constant_bits.difference_update(range(low, high))
                first = copy.last - (high - 1 - copy.low)
                writes.append(Write(flow_var.name, first, high - low, low - at + place, add))
    last = copy.last + copy.low
    return writes, [(last - bit, 1, split.constant >> bit & 1) for bit in constant_bits]


def _check_variable(variable: Variable) -> None:
    """Refuse a variable with an invalid name, width or range."""
    import numpy as np

    name, width = variable.name, variable.width
    least, most = variable.low, variable.top
    if variable.kind is Kind.LIST:
        values = np.asarray(variable.values)
        least, most = (values.min(), values.max()) if len(values) else (0, -1)
    if not name or "." in name:
        problem = f"'{name}' cannot name a variable: flow variables are named with a dot"
    elif not 1 <= width <= flow_variables.MAX_WIDTH:
        problem = (
            f"variable '{name}' has {width} bits, but must have 1 to {flow_variables.MAX_WIDTH}"
        )
    elif not 0 <= least <= most < 1 << width or variable.step < 1:
        problem = f"variable '{name}': values must be a non-empty list of {width}-bit integers"
    else:
        return
    raise make_model_error(problem)


def _check_limits(
    traffic_class: TrafficClass, template: Template, program: Sequence[ins.Instruction]
) -> None:
    octets = ins.count_variable_octets(program)
    if octets > ins.MAX_VARIABLE_OCTETS:
        problem = f"the variables of class '{traffic_class.name}' take {octets} octets"
        hint = "vary fewer independent variables, or spread them over several classes"
        raise make_limit_error(f"{problem}, but TRex has {ins.MAX_VARIABLE_OCTETS}", hint)
    sizes = {i["name"]: int(i["size"]) for i in program if i["type"] == "flow_var"}
    for instruction in program:
        offset, size = ins.locate_change(instruction, sizes.get(instruction.get("name", ""), 0))
        if offset + size > ins.MAX_OFFSET:
            fields = template.layout.describe_bits(8 * offset, 8 * (offset + size) - 1)
            problem = f"class '{traffic_class.name}' changes octet {offset + size - 1} ({fields})"
            problem += f", but TRex can change only the first {ins.MAX_OFFSET}"
            raise make_limit_error(problem)


def _make_stream_mode(pps: float, share: int | None) -> dict[str, Any]:
    rate = {"type": "pps", "value": pps}
    if share is None:
        return {"type": "continuous", "rate": rate}
    if share > MAX_BURST:
        problem = f"{share} frames of one class exceed the {MAX_BURST} of a TRex burst"
        raise UsageError(problem, "shorten the trial", code="trial-too-long")
    # TRex refuses empty bursts; a class without a frame is disabled instead
    return {"type": "single_burst", "rate": rate, "total_pkts": max(share, 1)}


def _derive_seed(seed: int, number: int) -> int:
    """Derive a 32-bit seed from a seed and a number; never 0, for which TRex would use the time."""
    mixed = (seed * 0x9E3779B97F4A7C15 + number * 0xD1B54A32D192ED03 + 1) % (1 << 64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ mixed >> shift) * factor % (1 << 64)
    return (mixed >> 32) or 1
