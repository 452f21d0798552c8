"""Whether a trial passed, failed, or says nothing because the tester faltered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from v6t.trials.trial import DirectionResult, Trial, TrialResult, directions_of


@dataclass(frozen=True)
class Verdict:
    """Judgement of one trial.

    Attributes:
        passed: every active direction forwarded what was required; only valid trials pass.
        valid: the tester did its part. An invalid trial counts as failed in a search and is
            reported apart from device loss (GEN-23).
        reasons: why it did not pass, one short phrase each.
        loss: lost share of the required frames by direction, foreground and background together.
        mismatch: first frame that differs from the reference translation, if any, with its
            ``direction``.
    """

    passed: bool
    valid: bool
    reasons: tuple[str, ...] = ()
    loss: Mapping[str, float] = field(default_factory=dict)
    mismatch: Mapping[str, str] | None = None


def assess_trial(
    trial: Trial,
    result: TrialResult,
    *,
    loss_tolerance: float = 0.0,
    sending_time_tolerance: float = 1.00001,
) -> Verdict:
    """Oracle by received against required frames (GEN-21), each direction and class for itself.

    Args:
        trial: what was asked.
        result: what was counted.
        loss_tolerance: accepted lost share, in every direction and class separately (GEN-22).
        sending_time_tolerance: longest sending time as a multiple of the duration (GEN-23).
    """
    faults = list(result.faults)
    failures: list[str] = []
    loss: dict[str, float] = {}
    mismatch: Mapping[str, str] | None = None
    for direction in directions_of(trial.mode):
        counted = result.directions.get(direction)
        if counted is None:
            faults.append(f"{direction}: the tester reported nothing")
            continue
        faults += _tester_faults(direction, trial, counted, sending_time_tolerance)
        failures += _failures(direction, counted, loss_tolerance)
        required = counted.total("required")
        missing = max(0, required - counted.total("received"))
        loss[direction] = missing / required if required else 0.0
        if counted.mismatch is not None and mismatch is None:
            mismatch = {"direction": direction, **counted.mismatch}
    valid = not faults
    return Verdict(
        passed=valid and not failures,
        valid=valid,
        reasons=tuple(faults or failures),
        loss=loss,
        mismatch=mismatch,
    )


def _tester_faults(
    direction: str, trial: Trial, counted: DirectionResult, tolerance: float
) -> list[str]:
    faults = []
    limit = trial.sending_s * tolerance
    if counted.sending_at_most_s > limit:
        faults.append(f"{direction}: {took_too_long(counted, limit)}")
    late_s, late_limit_s = counted.change_late_s or 0.0, limit - trial.sending_s
    if abs(late_s) > late_limit_s:
        faults.append(
            f"{direction}: the second rate began {late_s:+.6f} s from the end of the first, allowed "
            f"{late_limit_s:.6f} s"
        )
    for name, count in counted.classes.items():
        if count.sent < count.required:
            faults.append(
                f"{direction}: the tester sent {count.sent} of {count.required} frames of {name}"
            )
    return faults


def took_too_long(counted: DirectionResult, limit_s: float) -> str:
    """Why a sending time is not accepted: it was longer, or nobody can prove that it was not."""
    took_s, error_s = counted.sending_time_s, counted.sending_error_s
    if error_s is None or took_s - error_s > limit_s:
        return f"sending took {took_s:.6f} s, allowed {limit_s:.6f} s"
    return (
        f"sending took {took_s:.6f} s ± {error_s:.6f} s: "
        f"it is not proven that it took the allowed {limit_s:.6f} s"
    )


def _failures(direction: str, counted: DirectionResult, tolerance: float) -> list[str]:
    failures = []
    for name, count in counted.classes.items():
        if count.role == "negative":
            if count.received or count.surplus:
                failures.append(
                    f"{direction}: {count.received + count.surplus} frames of {name} were "
                    "forwarded but must be dropped"
                )
            continue
        # whole frames, so that no rounding decides
        if count.required - count.received > tolerance * count.required:
            failures.append(
                f"{direction}: lost {count.required - count.received} of {count.required} "
                f"frames of {name}"
            )
        if count.surplus or count.received > count.required:
            extra = count.surplus or count.received - count.required
            failures.append(f"{direction}: surplus of {extra} frames of {name}")
    if counted.mismatch is not None:
        failures.append(f"{direction}: a frame differs from the reference translation")
    return failures
