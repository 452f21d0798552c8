"""Trial results: what a tester counted, and the call that runs a trial."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import product
from typing import Any, Literal

from v6t.trials.connections import PhaseOneResult
from v6t.trials.delays import Distribution
from v6t.trials.trial import Trial

FORWARDED_ROLES = ("foreground", "background")  # roles of the traffic that a device must forward
MAX_SENDING_SLOTS = 60
"""Limit for the slots in which a trial sends, because a journal holds tens of thousands of trials."""
_SLOT_LENGTHS_S = [round(step * 10**decade, 2) for decade, step in product(range(-2, 8), (1, 2, 5))]


@dataclass(frozen=True)
class ClassCount:
    """Frames of one traffic class in one direction."""

    role: str  #: ``foreground``, ``background`` or ``negative``
    required: int  #: frames that the trial has to send
    sent: int  #: frames that left the tester
    received: int  #: distinct frames that returned in time
    surplus: int = 0  #: duplicates received
    out_of_order: int | None = 0
    """frames received after a frame with a higher sequence number; None: the tester saw no order."""
    late: int = 0  #: frames received after the residual wait or the timeout of a frame


def sum_classes(counts: Iterable[tuple[str, ClassCount]]) -> dict[str, ClassCount]:
    """Add up counts by the name of their class."""
    totals: dict[str, ClassCount] = {}
    for name, count in counts:
        before = totals.get(name, ClassCount(count.role, 0, 0, 0))
        pairs = {n: (getattr(before, n), getattr(count, n)) for n in _COUNT_NAMES}
        sums: dict[str, Any] = {n: None if None in p else sum(p) for n, p in pairs.items()}
        totals[name] = ClassCount(count.role, **sums)
    return totals


_COUNT_NAMES = [f.name for f in fields(ClassCount) if f.name != "role"]


def choose_slot_s(sending_s: float) -> float:
    """Choose the shortest slot of 0.01, 0.02, 0.05, 0.1 ... s of which few enough cover a trial."""
    return next(s for s in _SLOT_LENGTHS_S if sending_s <= MAX_SENDING_SLOTS * s * (1 + 1e-9))


@dataclass(frozen=True)
class Timeline:
    """Frames of one direction of a trial by time slot, without negative traffic."""

    slot_s: float  #: length of a slot [s]
    received: tuple[int, ...]
    """frames that arrived in each slot, counted from the first frame sent."""
    lost: tuple[int, ...]  #: frames due in each slot that did not arrive in time


@dataclass(frozen=True)
class DeviceLoad:
    """Load of a device's processor cores during a trial, second by second."""

    end_times_s: tuple[float, ...]
    """ends of the seconds that were observed, counted from the first frame [s]."""
    max_percent: tuple[int, ...]  #: load of the busiest core in each of them [%]
    mean_percent: tuple[int, ...]  #: mean load of all cores [%]


@dataclass(frozen=True)
class Answers:
    """Answers of a trial, and the queries of the device that they needed."""

    reasons: Mapping[str, int] = field(default_factory=dict)
    """queries without a correct answer in time, by reason."""
    aaaa_queries: int = 0  #: queries of the device for AAAA records
    a_queries: int = 0  #: queries of the device for A records
    repeated_queries: int = 0  #: queries for AAAA records that should have been cached
    other_queries: int = 0  #: other queries of the device
    cached_names: int = 0  #: names that were answered before the trial


@dataclass(frozen=True)
class TrafficInterval:
    """Frames due and lost in ``length_s`` from ``begins_s`` on, in seconds of traffic."""

    begins_s: float
    length_s: float
    frames: int
    lost: int


@dataclass(frozen=True)
class DirectionResult:
    """Counters of one direction; None stands for what was not measured or did not occur."""

    classes: Mapping[str, ClassCount]  #: counts by name of the traffic class
    sending_time_s: float  #: time from the first frame to the end of the last frame's slot [s]
    control: int = 0  #: received frames that are not test frames (ARP, ND, RA, LLDP, ICMP errors)
    checked: int = 0  #: received frames compared with the reference translation
    matched: int = 0  #: received frames equal to the reference translation
    mismatch: Mapping[str, str] | None = None
    """first mismatch: ``{"class", "sent", "expected", "received", "why"}``, frames in hexadecimal."""
    behaviour: Mapping[str, int] | None = None
    """compared frames by behaviour that the RFCs leave to the device, for example ``"outer ECN: copied from
    the inner header"``."""
    missing: Mapping[str, str] | None = None
    """an example of a lost frame in the form of ``mismatch``."""
    delay_us: Mapping[str, float] | None = None
    """``{"min", "p50", "p99_9", "max"}`` of one-way delays [µs]."""
    delays: Mapping[str, Distribution] | None = None
    """requested one-way delays by class, without negative traffic. ``frames + lost`` of a class is the
    number of its tags, or of its required frames if every frame was timed, or less if the tester could time
    only a sample."""
    ipdv: Mapping[str, Distribution] | None = None
    """requested differences of the delays of consecutive frames by class."""
    first_lost_s: float | None = None
    last_lost_s: float | None = None
    """sending times of the first and the last lost frame, after the first frame of the direction [s]. A
    trial with a second segment or a device event requires them."""
    longest_gap_s: float | None = None  #: longest time between two received frames [s]
    sending_time_error_s: float | None = None
    """uncertainty of the sending time in either direction [s]; None: the sender measured the time
    itself."""
    timed_share: float | None = None
    """share of the connections, or of the load, whose frames could be timed; None: all frames."""
    timed_of: Literal["load"] | None = None
    """"load": the timed frames are a separate stream and ``timed_share`` is its share of all frames; None:
    ``timed_share`` is a share of the connections."""
    timeline: Timeline | None = None  #: frames received and lost by time slot
    answers: Answers | None = None  #: answers to DNS queries; None: frames are forwarded
    rate_change_error_s: float | None = None
    """delay of the second segment after the end of the first; negative if it started too early [s]; None:
    no second segment, or the tester's own schedule."""

    @property
    def max_sending_time_s(self) -> float:
        """Upper bound of the sending time [s]."""
        return self.sending_time_s + (self.sending_time_error_s or 0.0)

    def count_frames(self, count: str) -> int:
        """Return the sum of a count, such as ``"received"``, over foreground and background."""
        return sum(int(getattr(c, count)) for c in self.classes.values() if c.role != "negative")

    def split_into_intervals(self, begins_s: float, length_s: float) -> Sequence[TrafficInterval]:
        """Split a trial of ``length_s`` into the slots of its timeline; without one it is whole."""
        frames = self.count_frames("required")
        lost = frames - self.count_frames("received")
        if self.timeline is None or sum(self.timeline.lost) != lost:
            return [TrafficInterval(begins_s, length_s, frames, lost)]
        slot_s, lost_by_slot = self.timeline.slot_s, self.timeline.lost
        intervals = []
        for number in range(math.ceil(length_s / slot_s - 1e-9)):
            begin, end = (min(length_s, n * slot_s) for n in (number, number + 1))
            due = round(frames * end / length_s) - round(frames * begin / length_s)
            # slots without loss at the end may be missing
            slot_lost = lost_by_slot[number] if number < len(lost_by_slot) else 0
            intervals.append(TrafficInterval(begins_s + begin, end - begin, due, slot_lost))
        return intervals


@dataclass
class ModifierCounts:
    """Actions of a modifier during a trial."""

    times: int  #: number of actions
    right: int  #: actions to which the device reacted correctly
    slowest_s: float  #: longest action [s]
    what: str  #: the last action
    why: str  #: the first error

    def __post_init__(self) -> None:
        """Refuse values of other types, which a damaged journal may have."""
        numbers = isinstance(self.times, int) and isinstance(self.right, int)
        texts = isinstance(self.what, str) and isinstance(self.why, str)
        if not (numbers and texts and isinstance(self.slowest_s, (int, float))):
            raise TypeError("counts of a modifier have the wrong type")


@dataclass(frozen=True)
class TrialResult:
    """Counters of one trial."""

    directions: Mapping[str, DirectionResult]
    """results by active direction; empty if phase 1 did not establish all connections."""
    faults: tuple[str, ...] = ()
    """faults of the *tester*: drops in its own rings, late sending, a worker that died. A trial with faults
    is invalid and never counts as loss of the device."""
    started: str = ""  #: wall clock time of the first frame, ISO 8601, UTC
    tester: Mapping[str, Any] = field(default_factory=dict)  #: health counters of the tester
    connections: PhaseOneResult | None = None
    """result of phase 1; None: the trial has no connections."""
    device_loads: Mapping[str, DeviceLoad] = field(default_factory=dict)
    """processor load of each observed device, by its name."""
    modifier: ModifierCounts | None = None
    """actions of a modifier during the trial; None: no actions."""
    is_disturbed: bool = False
    """the faults do not depend on the rate, for example a clock that was stepped, and prove nothing about
    the tester's capacity."""


Measure = Callable[[Trial], TrialResult]  # the call by which a procedure has a tester run a trial
