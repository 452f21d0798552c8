"""Shares of a trial and of its flows: no flow belongs to two testers."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from v6t.base.errors import UsageError
from v6t.profiles.expand import Expander
from v6t.profiles.rows import MAX_EXACT_ROWS, list_frames, list_values
from v6t.profiles.streams import Stream, StreamSet, compute_period, start_at_frame
from v6t.trials.connections import Connections
from v6t.trials.trial import Trial, divide

EVEN_DRAW_BITS = 15
"""A range that is a multiple of a higher power of two meets the bit that TRex never draws."""
_SEED_STEP = 0x9E3779B1  # Difference of the random seeds of two parts


def divide_trial(trial: Trial, part: int, parts: int) -> Trial | None:
    """Return one tester's part of a trial that several share; None if it has no frames."""
    if not (frames := divide(trial.first_segment_frames, part, parts)):
        return None
    delays, second, connections = trial.delays, trial.second_segment, trial.connections
    if delays is not None and delays.tags:
        delays = replace(delays, tags=max(1, divide(delays.tags, part, parts)))
    if second is not None:
        more = divide(trial.frames - trial.first_segment_frames, part, parts)
        second = replace(second, rate_fps=more / second.duration_s)
    limit_fps = trial.search_limit_fps
    return replace(
        trial,
        rate_fps=trial.rate_fps * frames / trial.first_segment_frames,
        delays=delays,
        second_segment=second,
        connections=connections and divide_connections(connections, part, parts),
        search_limit_fps=limit_fps and limit_fps / parts,
    )


def divide_connections(connections: Connections, part: int, parts: int) -> Connections:
    """Return the connections of one of several testers; all phases keep their length."""
    entries, least = connections.entries, min(connections.count, connections.entries or math.inf)
    if least < parts:
        problem = f"{least} connections cannot be divided among {parts} servers"
        hint = "use more connections, or fewer servers"
        raise UsageError(problem, hint, code="flows-not-divisible")
    count = divide(connections.count, part, parts)
    rate_cps = connections.rate_cps * count / connections.count
    entries = entries and min(count, divide(entries, part, parts))
    return replace(connections, count=count, rate_cps=rate_cps, entries=entries)


def divide_enumeration(streams: StreamSet, count: int, part: int, parts: int) -> StreamSet:
    """Start the streams of ``count`` connections at the first one of a part."""
    first = count * part // parts
    return replace(streams, streams=tuple(start_at_frame(s, first) for s in streams.streams))


def divide_streams(streams: StreamSet, part: int, parts: int) -> StreamSet:
    """Return streams with a part's share of the flows."""
    return replace(streams, streams=tuple(_divide_flows(s, part, parts) for s in streams.streams))


def _divide_flows(stream: Stream, part: int, parts: int) -> Stream:
    """Return a stream with a part's share of the flows, or raise UsageError."""
    period = compute_period(stream)
    divided = None
    if period is None:
        divided = _divide_draws(stream, part, parts)
    elif parts <= period <= MAX_EXACT_ROWS:
        first = period * part // parts
        frames = Expander(stream).compute_frames(first, divide(period, part, parts))
        return list_frames(stream, frames, list_values, "use fewer flows or one server")[0]
    elif period % parts == 0:
        divided = _interleave(stream, part, parts)
    if divided is None:
        flows = "random" if period is None else f"{period:,}"
        problem = f"the {flows} flows of '{stream.name}' cannot be divided among {parts} servers"
        hint = "use more flows, or a number of servers that divides their number"
        raise UsageError(problem, hint, code="flows-not-divisible")
    return divided


def _divide_draws(stream: Stream, part: int, parts: int) -> Stream | None:
    """Divide the range of the first random variable that can be divided; None without one."""
    for place, variable in enumerate(stream.program):
        if variable["type"] != "flow_var" or variable["op"] != "random":
            continue
        low, end = int(variable["min_value"]), int(variable["max_value"]) + 1
        unit = _find_unit(stream, variable)
        if unit is None or unit >> EVEN_DRAW_BITS or low % unit or end % unit:
            continue
        if (values := (end - low) // unit) < parts:
            continue
        first, own = values * part // parts, divide(values, part, parts)
        while own * unit % (2 << EVEN_DRAW_BITS) == 0:
            own -= 1
        low += first * unit
        limits = {"init_value": low, "min_value": low, "max_value": low + own * unit - 1}
        program = list(stream.program)
        program[place] = {**variable, **limits}
        seed = int(stream.trex.get("random_seed", 0)) + part * _SEED_STEP & 0xFFFFFFFF
        return stream.with_program(program, random_seed=seed or 1)
    return None


def _find_unit(stream: Stream, variable: Mapping[str, Any]) -> int | None:
    """Return how many consecutive values write the same bits; None if high bits are not written.

    The variable's lowest bits may only even out its draws.
    """
    written = 0
    for one in stream.program:
        if one.get("name") != variable["name"] or one is variable:
            continue
        if one.get("add_value"):
            return None
        if one["type"] == "write_flow_var":
            return 1
        octets, shift = int(one["pkt_cast_size"]), int(one["shift"])
        mask = int(one["mask"]) & (1 << 8 * octets) - 1
        written |= mask >> shift if shift >= 0 else mask << -shift
    top = int(variable["max_value"]).bit_length()
    written &= (1 << top) - 1
    unit = written & -written
    return unit if written and written + unit == 1 << top else None


def _interleave(stream: Stream, part: int, parts: int) -> Stream | None:
    """Return a stream with frames ``part``, ``part + parts`` ...; None if TRex cannot count them."""
    program = []
    for one in stream.program:
        variable = dict(one)
        if one["type"] == "flow_var":
            step = int(one["step"])
            if values := one.get("value_list"):
                count = len(values) // math.gcd(len(values), parts * step)
                numbers = (part + parts * n for n in range(count))
                variable["value_list"] = [values[n * step % len(values)] for n in numbers]
                variable["step"] = 1
            else:
                if (int(one["max_value"]) - int(one["min_value"]) + 1) // step % parts:
                    return None
                variable = dict(start_at_frame(stream.with_program([variable]), part).program[0])
                variable["step"] = parts * step
        program.append(variable)
    return stream.with_program(program)
