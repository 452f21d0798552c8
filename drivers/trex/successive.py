"""Flows that begin one after the other (SC-04): each a stream of its own that waits for its turn.

Frame k of a class belongs to flow k mod n, and traffic of n flows repeats after n frames at most: so
a flow is one frame again and again. The first flow of each class is stamped, which proves how long
sending took; the others, more than TRex's identifiers, carry marks that tell their class.
"""

from __future__ import annotations

import base64
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from v6t.base.errors import UsageError
from v6t.drivers.trex import marking
from v6t.drivers.trex.listed import Cycling
from v6t.drivers.trex.stamping import Burst, mended, stamped
from v6t.profiles.compiler.schedule import count_frames, find_positions
from v6t.profiles.expand import Expander
from v6t.profiles.streams import Stream, StreamSet, compute_period

if TYPE_CHECKING:
    from v6t.drivers.oracle.replay import FrameSource
    from v6t.trials.trial import FlowStarts, Trial


def successive(
    streams: StreamSet, trial: Trial, starts: FlowStarts
) -> tuple[StreamSet, list[Burst], dict[int, FrameSource]]:
    """Streams and bursts of a trial, and the frames of each stream by its identifier.

    Args:
        streams: of one direction.
        trial: what is asked of it.
        starts: when its flows begin.

    Raises:
        UsageError: the flows are more than there are marks, or differ within themselves.
    """
    if starts.flows > marking.CLASS:
        raise UsageError(
            f"TRex starts at most {marking.CLASS:,} flows one after the other, not {starts.flows:,}",
            "lower flows.counts, or leave 'successive' out of flows.starts",
            code="too-many-for-trex",
        )
    weights = [s.weight for s in streams.streams]
    sent_streams: list[Stream] = []
    bursts: list[Burst] = []
    sources: dict[int, FrameSource] = {}
    for number, (stream, frames) in enumerate(
        zip(streams.streams, count_frames(weights, trial.frames), strict=True)
    ):
        again = compute_period(stream)
        if again is None or starts.flows % again:
            raise UsageError(
                f"the frames of '{stream.name}' do not repeat after {starts.flows} flows: they "
                "cannot begin one after the other",
                code="beyond-trex",
            )
        pps = trial.rate_fps * stream.weight / sum(weights) / starts.flows
        for flow in range(starts.flows):
            first = _first(weights, number, flow, trial, starts)
            mine = len(range(first, frames, starts.flows))
            if not mine:
                continue
            one = _constant(stream, flow)
            if flow:
                one = replace(one, stream_id=marking.FIRST + number * marking.CLASS + flow)
                sources[one.stream_id] = Cycling(Expander(one), 1, marked=True)
                sent = mended(marking.marked(one))
            else:
                sent = stamped(replace(streams, streams=(one,))).streams[0]
            place = int(find_positions(weights, number, np.array([first]))[0])
            group = None if flow else one.stream_id
            bursts.append(Burst(len(sent_streams), pps, mine, 1e6 * place / trial.rate_fps, group))
            sent_streams.append(sent)
    return replace(streams, streams=tuple(sent_streams)), bursts, sources


def _first(weights: list[int], number: int, flow: int, trial: Trial, starts: FlowStarts) -> int:
    """Number within the class of a flow's first frame: whose turn comes when the flow has begun."""
    due = flow * starts.interval_s * trial.rate_fps
    share = weights[number] / sum(weights)
    first = max(0, math.floor(due * share) - 2 * starts.flows)
    first += (flow - first) % starts.flows
    while int(find_positions(weights, number, np.array([first]))[0]) < due:
        first += starts.flows
    return first


def _constant(stream: Stream, flow: int) -> Stream:
    """A stream of the frame of one flow."""
    packet = Expander(stream).frames(flow, 1)[0].tobytes()
    binary = base64.b64encode(packet).decode()
    trex = {
        **stream.trex,
        "name": f"{stream.name}.{flow}",
        "packet": {**stream.trex["packet"], "binary": binary},
        "vm": {**stream.trex["vm"], "instructions": []},
    }
    return replace(stream, trex=trex)
