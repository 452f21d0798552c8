"""How long sending took and how a trial went: port counters, timed by the server's clock.

A look at the port counters stands between two readings of the server's clock, so neither the way to
the server nor the client's own delays blur it: between the last look that saw no frame and the
first that saw all of them lies the whole sending. How close the looks were is the error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from v6t.drivers.trex.bursts import OfferedLoad
from v6t.drivers.trex.stats import CounterLook, TrialStats
from v6t.profiles.model import Role
from v6t.trials.timeline import Timeline, choose_slot_s
from v6t.trials.trial import Trial

LOOK_S = 0.002
"""Between two looks, with the way there and back: measured 0.5 to 2 ms on the same machine, and
up to 5.5 ms at 1,000 fps (docs/accuracy.md)."""
_READING_S = 0.5  # Between two readings of a trial's course: no slot is shorter
_MIN_READINGS = 3


@dataclass(frozen=True)
class SendingTime:
    """A time that lies within ``error_s`` around ``time_s`` [s]."""

    time_s: float
    error_s: float

    @property
    def most_s(self) -> float:
        return self.time_s + self.error_s


def measure_sending_time(
    looks: Iterable[CounterLook], port: int, frames: int, duration_s: float
) -> SendingTime | None:
    """Measure from the first frame to the end of the last one's slot; None if some never left.

    TRex does not outrun its schedule, so sending took ``duration_s`` at least.
    """
    idle = first = busy = None
    for look in looks:
        count = look.sent[port]
        if count == 0:
            idle = look.before_s
        elif first is None:
            first = look.after_s
        if count < frames or idle is None:
            busy = look.before_s
            continue
        most = look.after_s - idle + duration_s / frames
        least = min(duration_s, most)
        if first is not None and busy is not None:
            least = min(most, max(least, busy - first))
        return SendingTime((most + least) / 2, (most - least) / 2)
    return None


def make_timeline(stats: TrialStats, loads: Sequence[OfferedLoad], trial: Trial) -> Timeline | None:
    """Make the timeline of one direction from readings of port counters; even between two of them.

    A frame that was not back at the end of a slot counts as lost in it if it never arrived. Control
    frames count like others here: the sums of the trial are more exact.

    Returns:
        None where the trial was too short to be read often, flows began one after the other, or
        frames that must be dropped were among the others.
    """
    negative = any(s.role is Role.NEGATIVE for load in loads for s in load.streams.streams)
    if len(stats.readings) < _MIN_READINGS or negative or trial.flow_starts is not None:
        return None
    tx_ports, rx_ports = {o.tx_port for o in loads}, {o.rx_port for o in loads}
    end_s = max(trial.total_duration_s, stats.readings[-1][0]) + 1e-6
    last = end_s, {port: (counted.sent, counted.received) for port, counted in stats.ports.items()}
    points = [(0.0, 0, 0)]
    for when, ports in (*stats.readings, last):
        if when > points[-1][0]:
            sent, received = sum(ports[p][0] for p in tx_ports), sum(ports[p][1] for p in rx_ports)
            points.append((when, sent, received))
    times, sent_frames, arrived = np.array(points, dtype=float).T
    width = max(_READING_S, choose_slot_s(trial.total_duration_s))
    ends = np.append(np.arange(-(-trial.total_duration_s // width)) * width, times[-1])
    arrivals = np.rint(np.interp(ends, times, arrived)).astype(int)
    missing = np.interp(ends, times, sent_frames) - np.interp(ends, times, arrived)
    # a frame under way at a reading is not lost: the loss never falls
    missing = np.minimum.accumulate(missing[::-1])[::-1]
    lost = np.maximum(0, np.rint(missing)).astype(int)
    return Timeline(
        width,
        tuple(np.maximum(0, np.diff(arrivals)).tolist()),
        tuple(np.diff(lost).tolist()),
    )
