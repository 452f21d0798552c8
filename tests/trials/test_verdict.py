"""Verdicts: received against required frames, and faults of the tester."""

import pytest
from v6t.trials.result import ClassCount, DirectionResult, TrialResult
from v6t.trials.trial import Segment, Trial
from v6t.trials.verdict import assess_trial

FORWARD = Trial("throughput", "k", 104, 64, "forward", 1000 / 60, 60.0)
BOTH = Trial("throughput", "k", 104, 64, "bidirectional", 1000 / 60, 60.0)
TWO_RATES = Trial(
    "system-recovery", "k", 104, 64, "forward", 100.0, 2.0, second_segment=Segment(50.0, 4.0)
)


def make_direction(required=1000, received=1000, sending_time_s=60.0, sent=None, **more):
    count = ClassCount("foreground", required, required if sent is None else sent, received)
    return DirectionResult({"fg": count}, sending_time_s, **more)


def assess(trial, *directions, **options):
    names = ("forward", "reverse")[: len(directions)]
    return assess_trial(trial, TrialResult(dict(zip(names, directions, strict=True))), **options)


def test_one_lost_frame_of_many_fails_without_tolerance():
    counted = make_direction(120_000_000, 119_999_999)
    verdict = assess(FORWARD, counted)
    assert (verdict.valid, verdict.passed) == (True, False)
    assert assess(FORWARD, counted, loss_tolerance=0.0001).passed


def test_loss_tolerance_applies_to_each_direction():
    counted = make_direction(1_000_000, 999_800), make_direction(1_000_000, 1_000_000)
    verdict = assess(BOTH, *counted, loss_tolerance=0.0001)
    assert not verdict.passed
    assert verdict.loss == {"forward": pytest.approx(0.0002), "reverse": 0.0}


def test_duplicate_frames_fail_the_trial():
    count = ClassCount("foreground", 1000, 1000, 1000, surplus=1)
    verdict = assess(FORWARD, DirectionResult({"fg": count}, 60.0))
    assert (verdict.valid, verdict.passed) == (True, False)
    assert verdict.reasons == ("forward: surplus of 1 frames of fg",)


def test_more_frames_than_required_are_surplus_and_not_negative_loss():
    verdict = assess(FORWARD, make_direction(1000, 1003))
    (reason,) = verdict.reasons
    assert reason.startswith("forward: surplus of 3 ")
    assert verdict.loss == {"forward": 0.0}


@pytest.mark.parametrize(
    ("received", "surplus", "passed"), [(0, 0, True), (2, 0, False), (0, 1, False)]
)
def test_negative_traffic_must_not_return(received, surplus, passed):
    counts = {
        "fg": ClassCount("foreground", 900, 900, 900),
        "spoofed": ClassCount("negative", 100, 100, received, surplus),
    }
    verdict = assess(FORWARD, DirectionResult(counts, 60.0))
    assert (verdict.valid, verdict.passed) == (True, passed)


def test_lost_background_frames_count_as_loss():
    names = {"fg": "foreground", "bg": "background"}
    counts = {name: ClassCount(role, 500, 500, 250) for name, role in names.items()}
    assert assess(FORWARD, DirectionResult(counts, 60.0)).loss == {"forward": 0.5}


def test_sending_fewer_frames_than_required_is_invalid_and_not_loss():
    verdict = assess(FORWARD, make_direction(received=900, sent=999))
    assert not verdict.valid
    assert verdict.reasons == ("forward: the tester sent 999 of 1,000 frames of fg",)


def test_missing_direction_is_invalid():
    assert not assess(BOTH, make_direction()).valid


@pytest.mark.parametrize(("trial", "sending_time_s", "error_s", "valid"), [
    (FORWARD, 60.0006, None, True), (FORWARD, 60.0007, None, False),
    (TWO_RATES, 6.0, None, True), (TWO_RATES, 6.0, 0.0, True),
    (TWO_RATES, 6.0, 5.9e-5, True), (TWO_RATES, 6.0, -5.9e-5, True),
    (TWO_RATES, 6.0, 6.1e-5, False), (TWO_RATES, 6.0, -6.1e-5, False),
])  # fmt: skip
def test_sending_that_took_too_long_is_invalid(trial, sending_time_s, error_s, valid):
    """Also if the second rate began too early or too late."""
    frames = round(trial.frames)
    assert frames == {FORWARD: 1000, TWO_RATES: 400}[trial]
    counted = make_direction(frames, frames, sending_time_s, rate_change_error_s=error_s)
    verdict = assess(trial, counted)
    assert (verdict.valid, verdict.passed) == (valid, valid)


def test_control_frames_do_not_change_the_verdict():
    assert assess(FORWARD, make_direction()) == assess(FORWARD, make_direction(control=12_345))
