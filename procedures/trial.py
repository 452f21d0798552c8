"""A trial, its result, and the one door between procedures and testers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

Mode = Literal["forward", "reverse", "bidirectional"]
"""Which directions carry traffic; bidirectional trials offer the same rate in both (GEN-02)."""

MODES: tuple[Mode, ...] = ("bidirectional", "forward", "reverse")


def directions_of(mode: Mode) -> tuple[str, ...]:
    """Directions that carry traffic in a mode."""
    return ("forward", "reverse") if mode == "bidirectional" else (mode,)


@dataclass(frozen=True)
class Trial:
    """One run of traffic at a constant rate (RFC 2544 section 23, GEN-15).

    Attributes:
        benchmark: name of the procedure that asks (``throughput``, ``selftest``, ``preflight``).
        key: identity within the run, for example ``throughput/104/bidirectional/r03/s07``.
        ipv6_frame_size, ipv4_frame_size: octets with FCS on either side.
        mode: directions under load.
        rate_fps: frames per second offered in each active direction (``per_direction``).
        duration_s: length of the stream [s].
        residual_wait_s: wait for late frames before counters are read [s].
        pause_s: pause before the trial, for the device to settle [s].
    """

    benchmark: str
    key: str
    ipv6_frame_size: int
    ipv4_frame_size: int
    mode: Mode
    rate_fps: float
    duration_s: float
    residual_wait_s: float = 2.0
    pause_s: float = 10.0

    @property
    def frames(self) -> int:
        """Frames required in each active direction: rate times duration, at least one."""
        return max(1, round(self.rate_fps * self.duration_s))


@dataclass(frozen=True)
class ClassCount:
    """Frames of one traffic class in one direction.

    Attributes:
        role: ``foreground``, ``background`` or ``negative``.
        required: frames the trial asked for.
        sent: frames that left the tester.
        received: distinct frames that came back in time.
        surplus: received beyond once: duplicates.
        out_of_order: received after a frame with a higher sequence number.
        late: came back after the residual wait or after the per-frame timeout.
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
    """What happened in one direction.

    Attributes:
        classes: counts per traffic class name.
        sending_time_s: from the first frame to the end of the last frame's slot [s].
        control: frames that are no test frames (ARP, ND, RA, LLDP, ICMP errors; GEN-24).
        checked: received frames compared with the reference translation.
        matched: those that were equal.
        mismatch: first difference: ``{"class", "sent", "expected", "received", "why"}``, frames
            in hexadecimal; None when all compared frames matched.
        missing: an example of a frame that was sent and never came back, in the same form with
            ``received`` empty; None when nothing was lost or the tester keeps no example.
        delay_us: ``{"min", "p50", "p99_9", "max"}`` one-way delays [µs] where measured.
    """

    classes: Mapping[str, ClassCount]
    sending_time_s: float
    control: int = 0
    checked: int = 0
    matched: int = 0
    mismatch: Mapping[str, str] | None = None
    missing: Mapping[str, str] | None = None
    delay_us: Mapping[str, float] | None = None

    def total(self, what: str) -> int:
        """Sum of a count over foreground and background (negative frames are not for return)."""
        return sum(int(getattr(c, what)) for c in self.classes.values() if c.role != "negative")


@dataclass(frozen=True)
class TrialResult:
    """Counters of one trial.

    Attributes:
        directions: result per active direction.
        faults: what was wrong with the *tester* (its own ring drops, sending too slow, a worker
            that died). A trial with faults is invalid, never device loss (GEN-23, SELF-05).
        started: wall clock time of the first frame, ISO 8601, UTC.
        tester: health figures of the tester, free form.
    """

    directions: Mapping[str, DirectionResult]
    faults: tuple[str, ...] = ()
    started: str = ""
    tester: Mapping[str, Any] = field(default_factory=dict)


class Measure(Protocol):
    """The door: run one trial, return what was counted. Time passes on the other side."""

    def __call__(self, trial: Trial) -> TrialResult:
        """Run one trial."""


def trial_to_json(trial: Trial) -> dict[str, Any]:
    """A trial as JSON-like values."""
    return asdict(trial)


def result_to_json(result: TrialResult) -> dict[str, Any]:
    """A result as JSON-like values, the inverse of :func:`result_from_json`."""
    return asdict(result)


def result_from_json(data: Mapping[str, Any]) -> TrialResult:
    """Read back what :func:`result_to_json` wrote."""
    directions = {
        name: DirectionResult(
            **{
                **d,
                "classes": {n: ClassCount(**c) for n, c in d["classes"].items()},
            }
        )
        for name, d in data["directions"].items()
    }
    return TrialResult(
        directions=directions,
        faults=tuple(data.get("faults", ())),
        started=data.get("started", ""),
        tester=data.get("tester", {}),
    )
