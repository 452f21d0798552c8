"""A trial over its time, as TRex's port counters show it about twice a second."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from v6t.drivers.trex.counting import Sent
from v6t.profiles.model import Role
from v6t.trials.timeline import Timeline, choose_slot_s
from v6t.trials.trial import Trial

BETWEEN_S = 0.5
"""Time between two readings: slots are no shorter."""
FEWEST = 3
"""With fewer readings there is no course."""


def course(raw: Mapping[str, Any], sent: Sequence[Sent], trial: Trial) -> Timeline | None:
    """Frames that came and went between readings; between two of them, evenly.

    A frame that was not back at the end of a slot counts as lost in it if it never came. Control
    frames count like others here: the sums of the trial are more exact.

    Args:
        raw: the worker's answer.
        sent: what the pairs of ports of one direction were asked for.
        trial: the trial.

    Returns:
        None where the trial was too short to be read often, flows began one after the other, or
        frames that must be dropped were among the others.
    """
    readings = raw.get("readings", ())
    negative = any(s.role is Role.NEGATIVE for one in sent for s in one.streams.streams)
    if len(readings) < FEWEST or negative or trial.flow_starts is not None:
        return None
    out, back = {o.tx_port for o in sent}, {o.rx_port for o in sent}
    at, left, came = [0.0], [0.0], [0.0]
    last = {port: (c["opackets"], c["ipackets"]) for port, c in raw["ports"].items()}
    for when, ports in (*readings, (max(trial.total_duration_s, readings[-1][0]) + 1e-6, last)):
        if when <= at[-1]:
            continue
        at.append(when)
        left.append(sum(ports[str(port)][0] for port in out))
        came.append(sum(ports[str(port)][1] for port in back))
    width = max(BETWEEN_S, choose_slot_s(trial.total_duration_s))
    ends = [n * width for n in range(int(-(-trial.total_duration_s // width)))] + [at[-1]]
    received = [round(_at(end, at, came)) for end in ends]
    # what is under way at a reading is no loss: the loss never falls
    open_now = [_at(end, at, left) - _at(end, at, came) for end in ends]
    for place in reversed(range(len(open_now) - 1)):
        open_now[place] = min(open_now[place], open_now[place + 1])
    lost = [max(0, round(value)) for value in open_now]
    return Timeline(
        width,
        tuple(max(0, b - a) for a, b in pairwise(received)),
        tuple(b - a for a, b in pairwise(lost)),
    )


def _at(when: float, times: Sequence[float], values: Sequence[float]) -> float:
    """A counter between its readings."""
    place = min(len(times) - 1, max(1, bisect_left(times, when)))
    before, after = times[place - 1], times[place]
    share = min(1.0, (when - before) / (after - before))
    return values[place - 1] + share * (values[place] - values[place - 1])
