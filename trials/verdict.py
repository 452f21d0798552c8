"""Verdict on a trial: passed, failed or invalid."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from v6t.trials.result import DirectionResult, TrialResult
from v6t.trials.trial import Trial, list_directions


@dataclass(frozen=True)
class Verdict:
    """Verdict on one trial."""

    passed: bool  # every active direction forwarded all required frames, and the trial is valid
    valid: bool
    """the tester worked correctly. A search treats an invalid trial as failed; reports do not count it as
    loss of the device."""
    reasons: tuple[str, ...] = ()  # why the trial did not pass
    loss: Mapping[str, float] = field(default_factory=dict)
    """lost share of the required foreground and background frames by direction."""
    mismatch: Mapping[str, str] | None = None
    """first frame that differs from the reference translation, with its ``direction``; None: no
    mismatch."""

    @property
    def device_failed(self) -> bool:
        """Whether the device, and not the tester, failed the trial."""
        return self.valid and not self.passed


@dataclass(frozen=True)
class Attempt:
    """A trial with its verdict."""

    trial: Trial
    verdict: Verdict


def assess_trial(
    trial: Trial,
    result: TrialResult,
    *,
    loss_tolerance: float = 0.0,
    sending_time_tolerance: float = 1.00001,
) -> Verdict:
    """Compare received with required frames in each direction and class.

    Args:
        loss_tolerance: accepted share of lost frames, in every direction and class.
        sending_time_tolerance: longest sending time as a multiple of the duration.
    """
    faults, failures = list(result.faults), list[str]()
    loss: dict[str, float] = {}
    mismatch: Mapping[str, str] | None = None
    for direction in list_directions(trial.mode):
        counted = result.directions.get(direction)
        if counted is None:
            faults.append(f"{direction}: the tester reported no counters")
            continue
        direction_faults = _find_faults(trial, counted, sending_time_tolerance)
        faults += [f"{direction}: {fault}" for fault in direction_faults]
        failed = _find_failures(counted, loss_tolerance)
        failures += [f"{direction}: {failure}" for failure in failed]
        required = counted.count_frames("required")
        missing = max(0, required - counted.count_frames("received"))
        loss[direction] = missing / required if required else 0.0
        if counted.mismatch is not None and mismatch is None:
            mismatch = {"direction": direction, **counted.mismatch}
    passed = not faults and not failures
    return Verdict(passed, not faults, tuple(faults or failures), loss, mismatch)


def _find_faults(trial: Trial, counted: DirectionResult, tolerance: float) -> Iterator[str]:
    limit_s = trial.total_duration_s * tolerance
    took_s, error_s = counted.sending_time_s, counted.sending_time_error_s
    if counted.max_sending_time_s > limit_s:
        if error_s is None or took_s - error_s > limit_s:
            yield f"sending took {took_s:.6f} s, allowed {limit_s:.6f} s"
        else:
            yield (
                f"sending took {took_s:.6f} s ± {error_s:.6f} s: "
                f"it is not proven that it took the allowed {limit_s:.6f} s"
            )
    change_error_s, error_limit_s = (
        counted.rate_change_error_s or 0,
        limit_s - trial.total_duration_s,
    )
    if abs(change_error_s) > error_limit_s:
        yield (
            f"the second rate began {change_error_s:+.6f} s from the end of the first, allowed "
            f"{error_limit_s:.6f} s"
        )
    for name, count in counted.classes.items():
        if count.sent < count.required:
            yield f"the tester sent {count.sent:,} of {count.required:,} frames of {name}"


def _find_failures(counted: DirectionResult, tolerance: float) -> Iterator[str]:
    for name, count in counted.classes.items():
        # compare whole frames, not shares, so that rounding has no influence
        lost = count.required - count.received
        if count.role == "negative":
            if forwarded := count.received + count.surplus:
                yield f"{forwarded:,} frames of {name} were forwarded but must be dropped"
            continue
        if lost > tolerance * count.required:
            yield f"lost {lost:,} of {count.required:,} frames of {name}"
        if count.surplus or lost < 0:
            yield f"surplus of {count.surplus or -lost:,} frames of {name}"
    if counted.mismatch is not None:
        yield "a frame differs from the reference translation"
