"""Check before a run that the device translates frames correctly."""

from collections.abc import Mapping
from dataclasses import dataclass

from v6t.trials.result import DirectionResult, Measure, TrialResult
from v6t.trials.trial import Mode, Trial, list_directions, make_sizes_key
from v6t.trials.verdict import assess_trial

BENCHMARK = "preflight"
PREFLIGHT_FRAMES = 200
PREFLIGHT_FPS = 1000.0
MAX_ATTEMPTS = 3


@dataclass(frozen=True)
class TranslationCheckFailure:
    """Reason why a check of the translation failed."""

    tester: bool  # the tester failed, so nothing is known about the device
    direction: str  # direction that failed; empty: all
    why: str  # cause of the failure, in a few words
    frames: Mapping[str, str] | None = None  # hexadecimal texts by kind


def check_translation(
    measure: Measure,
    *,
    ipv6_frame_size: float,
    ipv4_frame_size: float,
    mix: str | None = None,
    mode: Mode = "bidirectional",
    rate_fps: float = PREFLIGHT_FPS,
) -> TranslationCheckFailure | None:
    """Send 200 frames at a low rate, and compare them with the reference translation.

    A trial that lost frames is repeated; a wrong frame is not. Without a fault the result is None.
    """
    failure: TranslationCheckFailure | None = None
    for attempt in range(1, MAX_ATTEMPTS + 1):
        trial = Trial(
            benchmark=BENCHMARK,
            key=f"{BENCHMARK}/{make_sizes_key(ipv6_frame_size, mix)}/{mode}/a{attempt}",
            ipv6_frame_size=ipv6_frame_size,
            ipv4_frame_size=ipv4_frame_size,
            mode=mode,
            rate_fps=rate_fps,
            duration_s=PREFLIGHT_FRAMES / rate_fps,
            residual_wait_s=0.3,
            pause_s=0.0,
            mix=mix,
        )
        failure = _find_fault(trial, measure(trial))
        if failure is None or (failure.frames and failure.frames.get("received")):
            return failure
    return failure


def find_mismatch(result: TrialResult) -> TranslationCheckFailure | None:
    """Return the first wrong frame of a trial, or None."""
    for direction, counted in result.directions.items():
        if (frames := counted.mismatch) is not None:
            return TranslationCheckFailure(False, direction, frames.get("why", ""), frames)
    return None


def _find_fault(trial: Trial, result: TrialResult) -> TranslationCheckFailure | None:
    if (mismatch := find_mismatch(result)) is not None:
        return mismatch
    # even at this rate, sending may stutter on a busy machine, which is no reason to stop
    verdict = assess_trial(trial, result, sending_time_tolerance=10.0)
    if not verdict.valid:
        return TranslationCheckFailure(True, "", verdict.reasons[0])
    for direction in list_directions(trial.mode):
        counted = result.directions[direction]
        if why := _describe_missing(direction, counted):
            return TranslationCheckFailure(False, direction, why, counted.missing)
    if not verdict.passed:
        return TranslationCheckFailure(False, "", verdict.reasons[0])
    return None


def _describe_missing(direction: str, counted: DirectionResult) -> str:
    for name, count in counted.classes.items():
        if count.role != "negative" and not count.received:
            return f"the device forwarded none of {count.required} {direction} frames of {name}"
    if not counted.checked:
        return f"no {direction} frame could be compared with the reference translation"
    return ""
