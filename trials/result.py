"""Trial results: what a tester counted, and the call that runs a trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from v6t.trials.connections import PhaseOneResult
from v6t.trials.delays import Distribution
from v6t.trials.queries import Answers
from v6t.trials.timeline import DeviceLoad, Timeline
from v6t.trials.trial import Trial

FORWARDED_ROLES = ("foreground", "background")
"""Roles of the traffic that a device must forward."""


@dataclass(frozen=True)
class ClassCount:
    """Frames of one traffic class in one direction.

    Attributes:
        role: ``foreground``, ``background`` or ``negative``.
        required: frames that the trial has to send.
        sent: frames that left the tester.
        received: distinct frames that returned in time.
        surplus: duplicates received.
        out_of_order: frames received after a frame with a higher sequence number.
        late: frames received after the residual wait or the timeout of a frame.
    """

    role: str
    required: int
    sent: int
    received: int
    surplus: int = 0
    out_of_order: int = 0
    late: int = 0


@dataclass(frozen=True)
class DirectionResult:
    """Counters of one direction.

    Attributes:
        classes: counts by name of the traffic class.
        sending_time_s: time from the first frame to the end of the last frame's slot [s].
        control: received frames that are not test frames (ARP, ND, RA, LLDP, ICMP errors).
        checked: received frames compared with the reference translation.
        matched: frames that are equal to the reference translation.
        mismatch: first mismatch: ``{"class", "sent", "expected", "received", "why"}``, frames in
            hexadecimal; None: no mismatch.
        behaviour: compared frames by behaviour that the RFCs leave to the device, for example
            ``"outer ECN: copied from the inner header"``; None: no such behaviour.
        missing: an example of a lost frame in the form of ``mismatch``; None: no example.
        delay_us: ``{"min", "p50", "p99_9", "max"}`` of one-way delays [µs]; None: not measured.
        delays: requested one-way delays by class, without negative traffic. ``frames + lost`` of a
            class is the number of its tags, or of its required frames if every frame was timed, or
            less if the tester could time only a sample. None: not requested.
        ipdv: differences of the delays of consecutive frames by class; None: not requested.
        first_lost_s, last_lost_s: sending times of the first and the last lost frame, after the
            first frame of the direction [s]; None: no loss, or unknown. A trial with a second
            segment or a device event requires them.
        longest_gap_s: longest time between two received frames [s]; None: not measured.
        sending_time_error_s: uncertainty of the sending time in either direction [s]; None: the
            sender measured the time itself.
        timed_share: share of the connections, or of the load, whose frames could be timed; None:
            all frames.
        timed_of: "load": the timed frames are a separate stream and ``timed_share`` is its share of
            all frames; None: ``timed_share`` is a share of the connections.
        timeline: frames received and lost by time slot; None: not measured.
        answers: answers to DNS queries; None: frames are forwarded.
        rate_change_error_s: delay of the second segment after the end of the first; negative if it
            started too early [s]; None: no second segment, or the tester's own schedule.
    """

    classes: Mapping[str, ClassCount]
    sending_time_s: float
    control: int = 0
    checked: int = 0
    matched: int = 0
    mismatch: Mapping[str, str] | None = None
    behaviour: Mapping[str, int] | None = None
    missing: Mapping[str, str] | None = None
    delay_us: Mapping[str, float] | None = None
    delays: Mapping[str, Distribution] | None = None
    ipdv: Mapping[str, Distribution] | None = None
    first_lost_s: float | None = None
    last_lost_s: float | None = None
    longest_gap_s: float | None = None
    sending_time_error_s: float | None = None
    timed_share: float | None = None
    timed_of: Literal["load"] | None = None
    timeline: Timeline | None = None
    answers: Answers | None = None
    rate_change_error_s: float | None = None

    @property
    def max_sending_time_s(self) -> float:
        """Upper bound of the sending time [s]."""
        return self.sending_time_s + (self.sending_time_error_s or 0.0)

    def count_frames(self, count: str) -> int:
        """Return the sum of a count, such as ``"received"``, over foreground and background."""
        return sum(int(getattr(c, count)) for c in self.classes.values() if c.role != "negative")


@dataclass(frozen=True)
class TrialResult:
    """Counters of one trial.

    Attributes:
        directions: results by active direction; empty if phase 1 did not establish all connections.
        faults: faults of the *tester*: drops in its own rings, late sending, a worker that died. A
            trial with faults is invalid and never counts as loss of the device.
        started: wall clock time of the first frame, ISO 8601, UTC.
        tester: health counters of the tester.
        connections: result of phase 1; None: the trial has no connections.
        device_loads: processor load of each observed device, by its name.
        modifier: what a modifier did during the trial and how often it succeeded.
        is_disturbed: the faults do not depend on the rate, for example a clock that was stepped, and
            prove nothing about the tester's capacity.
    """

    directions: Mapping[str, DirectionResult]
    faults: tuple[str, ...] = ()
    started: str = ""
    tester: Mapping[str, Any] = field(default_factory=dict)
    connections: PhaseOneResult | None = None
    device_loads: Mapping[str, DeviceLoad] = field(default_factory=dict)
    modifier: Mapping[str, Any] = field(default_factory=dict)
    is_disturbed: bool = False


class Measure(Protocol):
    """The call by which a procedure has a tester run a trial."""

    def __call__(self, trial: Trial) -> TrialResult:
        """Run one trial and return its counters."""
