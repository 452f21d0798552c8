"""The tester's own capacity: the highest rate it sends and receives without loss (SELF-01, 02).

Measured in loopback, without a device, with the streams the device will see. A geometric climb
brackets the capacity, a few halvings narrow it: a capacity is a limit, not a result, and need not be
known to the frame. The rate that counts passed in a trial.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from v6t.procedures.trial import Measure, Mode, Trial, TrialResult
from v6t.procedures.validity import assess_trial

BENCHMARK = "selftest"


@dataclass(frozen=True)
class CapacitySpec:
    """How to look for the capacity.

    Attributes:
        ipv6_frame_size, ipv4_frame_size: octets with FCS, as the device will see.
        mode: directions under load.
        media_fps: what the medium carries; never exceeded.
        start_fps: first rate offered.
        growth: factor while trials pass.
        refinements: halvings of the bracket afterwards.
        duration_s, residual_wait_s, pause_s: of each trial.
        sending_time_tolerance: as for measurements.
        attempts: times a failing rate is offered before it counts: in loopback a hiccup of the
            machine is no limit of the tester.
        variant: begins the keys of the trials; see :class:`~v6t.procedures.conditions.Conditions`.
    """

    ipv6_frame_size: int
    ipv4_frame_size: int
    mode: Mode
    media_fps: float
    start_fps: float = 20_000.0
    growth: float = 2.0
    refinements: int = 2
    duration_s: float = 0.4
    residual_wait_s: float = 0.1
    pause_s: float = 0.0
    sending_time_tolerance: float = 1.02
    attempts: int = 2
    variant: str = ""


@dataclass(frozen=True)
class TesterCapacity:
    """The outcome: highest lossless rate per direction [fps], and the trials behind it."""

    mode: Mode
    rate_fps: float
    keys: tuple[str, ...]
    faults: tuple[str, ...]


def tester_capacity(spec: CapacitySpec, measure: Measure) -> TesterCapacity:
    """Climb, then narrow; 0.0 if not even the tenth part of the first rate passes."""
    keys: list[str] = []
    faults: list[str] = []

    def passes(rate_fps: float) -> bool:
        for _ in range(spec.attempts):
            trial = Trial(
                benchmark=BENCHMARK,
                key=f"{spec.variant}{BENCHMARK}/{spec.ipv6_frame_size}/{spec.mode}/t{len(keys) + 1:02d}",
                ipv6_frame_size=spec.ipv6_frame_size,
                ipv4_frame_size=spec.ipv4_frame_size,
                mode=spec.mode,
                rate_fps=rate_fps,
                duration_s=spec.duration_s,
                residual_wait_s=spec.residual_wait_s,
                pause_s=spec.pause_s,
            )
            keys.append(trial.key)
            verdict = assess_trial(
                trial,
                _without_device(measure(trial)),
                sending_time_tolerance=spec.sending_time_tolerance,
            )
            if verdict.passed:
                return True
            faults[:] = verdict.reasons
        return False

    rate = min(spec.start_fps, spec.media_fps)
    low, high = 0.0, rate
    if not passes(rate):
        for _ in range(3):
            rate /= spec.growth
            high = rate * spec.growth
            if passes(rate):
                low = rate
                break
    else:
        low = rate
        while low < spec.media_fps:
            high = min(low * spec.growth, spec.media_fps)
            if not passes(high):
                break
            low = high
        else:
            return TesterCapacity(spec.mode, low, tuple(keys), ())
    for _ in range(spec.refinements if low else 0):
        middle = (low + high) / 2
        if passes(middle):
            low = middle
        else:
            high = middle
    return TesterCapacity(spec.mode, low, tuple(keys), tuple(faults))


def _without_device(result: TrialResult) -> TrialResult:
    """The same counts with nothing to be dropped: in loopback every frame must come back."""
    return replace(
        result,
        directions={
            way: replace(
                counted,
                classes={
                    name: replace(count, role="background") if count.role == "negative" else count
                    for name, count in counted.classes.items()
                },
            )
            for way, counted in result.directions.items()
        },
    )


def usable_fps(capacity_fps: float, margin: float) -> float:
    """The part of a capacity below which a result is the device's own (SELF-02)."""
    return capacity_fps * (1 - margin)
