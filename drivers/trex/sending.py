"""How long sending took and how a trial went: port counters, timed by the server's clock.

A look at the port counters stands between two readings of the server's clock, so neither the way to
the server nor the client's own delays blur it: between the last look that saw no frame and the
first that saw all of them lies the whole sending. That holds for stamped frames and others, and for
any number of cores; how close the looks were is the error. Traffic starts at a moment of that clock
which the client names, so that it knows when to look.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from v6t.drivers.trex.bursts import OfferedLoad
from v6t.drivers.trex.stats import CounterLook, TrialStats
from v6t.profiles.model import Role
from v6t.trials.timeline import Timeline, choose_slot_s
from v6t.trials.trial import Trial

LOOK_S = 0.002
"""Between two looks, with the way there and back: measured 0.5 to 2 ms on the same machine, and
up to 5.5 ms at 1,000 fps (docs/accuracy.md)."""
_READING_S = 0.5
"""Between two readings of a trial's course: slots are no shorter."""
_MIN_READINGS = 3


@dataclass(frozen=True)
class SendingTime:
    """A time that lies within ``error_s`` around ``time_s`` [s]."""

    time_s: float
    error_s: float

    @property
    def most_s(self) -> float:
        """Upper limit of the time."""
        return self.time_s + self.error_s


def measure_sending_time(
    looks: Iterable[CounterLook], port: int, frames: int, duration_s: float
) -> SendingTime | None:
    """Measure from the first frame to the end of the last one's slot; None if some never left.

    Args:
        looks: in order.
        port: that sent.
        frames: how many.
        duration_s: asked for; TRex does not outrun its schedule.
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
    times, sent, received = [0.0], [0.0], [0.0]
    end_s = max(trial.total_duration_s, stats.readings[-1][0]) + 1e-6
    for when, ports in (*stats.readings, (end_s, stats.ports)):
        if when > times[-1]:
            times.append(when)
            sent.append(sum(ports[port].sent for port in tx_ports))
            received.append(sum(ports[port].received for port in rx_ports))
    width = max(_READING_S, choose_slot_s(trial.total_duration_s))
    ends = [n * width for n in range(int(-(-trial.total_duration_s // width)))] + [times[-1]]
    arrivals = [round(_interpolate(end, times, received)) for end in ends]
    # a frame under way at a reading is not lost: the loss never falls
    missing = [_interpolate(t, times, sent) - _interpolate(t, times, received) for t in ends]
    for place in reversed(range(len(missing) - 1)):
        missing[place] = min(missing[place], missing[place + 1])
    lost = [max(0, round(value)) for value in missing]
    return Timeline(
        width,
        tuple(max(0, after - before) for before, after in pairwise(arrivals)),
        tuple(after - before for before, after in pairwise(lost)),
    )


def _interpolate(when: float, times: Sequence[float], values: Sequence[float]) -> float:
    place = min(len(times) - 1, max(1, bisect_left(times, when)))
    before, after = times[place - 1], times[place]
    share = min(1.0, (when - before) / (after - before))
    return values[place - 1] + share * (values[place] - values[place - 1])
