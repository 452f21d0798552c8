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


def test_one_lost_frame_of_many_fails_without_tolerance():
    result = TrialResult({"forward": make_direction(120_000_000, 119_999_999)})
    verdict = assess_trial(FORWARD, result)
    assert (verdict.valid, verdict.passed) == (True, False)
    assert assess_trial(FORWARD, result, loss_tolerance=0.0001).passed


def test_loss_tolerance_applies_to_each_direction():
    result = TrialResult(
        {
            "forward": make_direction(1_000_000, 999_800),
            "reverse": make_direction(1_000_000, 1_000_000),
        }
    )
    verdict = assess_trial(BOTH, result, loss_tolerance=0.0001)
    assert not verdict.passed
    assert verdict.loss == {"forward": pytest.approx(0.0002), "reverse": 0.0}


def test_duplicate_frames_fail_the_trial():
    count = ClassCount("foreground", 1000, 1000, 1000, surplus=1)
    verdict = assess_trial(FORWARD, TrialResult({"forward": DirectionResult({"fg": count}, 60.0)}))
    assert (verdict.valid, verdict.passed) == (True, False)
    assert verdict.reasons == ("forward: surplus of 1 frames of fg",)


def test_more_frames_than_required_are_surplus_and_not_negative_loss():
    verdict = assess_trial(FORWARD, TrialResult({"forward": make_direction(1000, 1003)}))
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
    verdict = assess_trial(FORWARD, TrialResult({"forward": DirectionResult(counts, 60.0)}))
    assert (verdict.valid, verdict.passed) == (True, passed)


def test_lost_background_frames_count_as_loss():
    counts = {
        "fg": ClassCount("foreground", 500, 500, 250),
        "bg": ClassCount("background", 500, 500, 250),
    }
    result = TrialResult({"forward": DirectionResult(counts, 60.0)})
    assert assess_trial(FORWARD, result).loss == {"forward": 0.5}


@pytest.mark.parametrize(("sending_time_s", "valid"), [(60.0006, True), (60.0007, False)])
def test_sending_that_took_too_long_is_invalid(sending_time_s, valid):
    result = TrialResult({"forward": make_direction(sending_time_s=sending_time_s)})
    verdict = assess_trial(FORWARD, result)
    assert (verdict.valid, verdict.passed) == (valid, valid)


def test_sending_fewer_frames_than_required_is_invalid_and_not_loss():
    verdict = assess_trial(
        FORWARD, TrialResult({"forward": make_direction(received=900, sent=999)})
    )
    assert not verdict.valid
    assert verdict.reasons == ("forward: the tester sent 999 of 1,000 frames of fg",)


def test_missing_direction_is_invalid():
    assert not assess_trial(BOTH, TrialResult({"forward": make_direction()})).valid


def test_sending_time_covers_both_segments():
    assert TWO_RATES.frames == 400
    result = TrialResult({"forward": make_direction(400, 400, sending_time_s=6.0)})
    assert assess_trial(TWO_RATES, result).valid


@pytest.mark.parametrize(
    ("error_s", "valid"),
    [(None, True), (0.0, True), (5.9e-5, True), (-5.9e-5, True), (6.1e-5, False), (-6.1e-5, False)],
)
def test_second_rate_that_starts_late_or_early_is_invalid(error_s, valid):
    counted = make_direction(400, 400, sending_time_s=6.0, rate_change_error_s=error_s)
    assert assess_trial(TWO_RATES, TrialResult({"forward": counted})).valid is valid


def test_control_frames_do_not_change_the_verdict():
    quiet = assess_trial(FORWARD, TrialResult({"forward": make_direction()}))
    assert quiet == assess_trial(FORWARD, TrialResult({"forward": make_direction(control=12_345)}))
