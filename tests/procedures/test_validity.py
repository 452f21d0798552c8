"""What makes a trial pass: acceptance tests A3 to A6, A26 and A28."""

import numpy as np
import pytest
from v6t.profiles.compiler.schedule import counts, order
from v6t.tests.expect import expect_error
from v6t.tests.procedures.support import BACKGROUND, FOREGROUND, sim
from v6t.trials.trial import ClassCount, DirectionResult, Segment, Trial, TrialResult
from v6t.trials.verdict import assess_trial

KEY = "throughput/104/forward/r01/s00/a1"


def trial(frames=1000, mode="forward", duration_s=60.0):
    return Trial("throughput", "k", 104, 64, mode, frames / duration_s, duration_s)


def counted(required, received, surplus=0, sending_s=60.0, **more):
    count = ClassCount("foreground", required, required, received, surplus)
    return DirectionResult({"fg": count}, sending_s, **more)


def test_a3_one_frame_of_many_lost():
    asked = trial(120_000_000)
    result = TrialResult({"forward": counted(120_000_000, 119_999_999)})
    assert not assess_trial(asked, result).passed
    assert assess_trial(asked, result, loss_tolerance=0.0001).passed


def test_a4_tolerance_holds_for_each_direction():
    asked = trial(1_000_000, "bidirectional")
    result = TrialResult({"forward": counted(10**6, 999_800), "reverse": counted(10**6, 10**6)})
    verdict = assess_trial(asked, result, loss_tolerance=0.0001)
    assert not verdict.passed
    assert verdict.loss == {"forward": pytest.approx(0.0002), "reverse": 0.0}


def test_a5_duplicates_fail_with_their_reason():
    verdict = assess_trial(trial(), TrialResult({"forward": counted(1000, 1000, surplus=1)}))
    assert verdict.valid
    assert not verdict.passed
    assert "surplus" in verdict.reasons[0]


def test_more_than_required_is_surplus_in_frames_and_no_negative_loss():
    verdict = assess_trial(trial(), TrialResult({"forward": counted(1000, 1003)}))
    (reason,) = verdict.reasons
    assert reason.startswith("forward: surplus of 3 ")
    assert verdict.loss == {"forward": 0.0}


@pytest.mark.parametrize(("received", "surplus"), [(0, 0), (2, 0), (0, 1)])
def test_frames_that_must_be_dropped_pass_only_if_none_came(received, surplus):
    negative = ClassCount("negative", 100, 100, received, surplus)
    counts_of_both = {"fg": ClassCount("foreground", 900, 900, 900), "spoofed": negative}
    result = TrialResult({"forward": DirectionResult(counts_of_both, 60.0)})
    verdict = assess_trial(trial(), result)
    assert verdict.valid
    assert verdict.passed is (received + surplus == 0)
    if not verdict.passed:
        assert verdict.reasons[0].startswith(f"forward: {received + surplus} frames of spoofed")


@pytest.mark.parametrize(("took_s", "valid"), [(60.0006, True), (60.0007, False)])
def test_a6_sending_that_took_too_long_is_invalid(took_s, valid):
    verdict = assess_trial(trial(), TrialResult({"forward": counted(1000, 1000, sending_s=took_s)}))
    assert verdict.valid is valid
    assert verdict.passed is valid


def test_sending_time_covers_both_rates():
    asked = Trial("system-recovery", "k", 104, 64, "forward", 100.0, 2.0, then=Segment(50.0, 4.0))
    assert asked.frames == 400
    result = TrialResult({"forward": counted(400, 400, sending_s=6.0)})
    assert assess_trial(asked, result).valid


@pytest.mark.parametrize(
    ("late_s", "valid"),
    [(None, True), (0.0, True), (5.9e-5, True), (-5.9e-5, True), (6.1e-5, False), (-6.1e-5, False)],
)
def test_a_second_rate_that_begins_late_or_early_is_invalid(late_s, valid):
    """The device would rest, or not, as nobody asked for."""
    asked = Trial("system-recovery", "k", 104, 64, "forward", 100.0, 2.0, then=Segment(50.0, 4.0))
    result = TrialResult({"forward": counted(400, 400, sending_s=6.0, change_late_s=late_s)})
    verdict = assess_trial(asked, result)
    assert verdict.valid is valid
    if not valid:
        assert verdict.reasons[0].startswith("forward: ")


def test_a26_nine_of_ten_frames_are_foreground():
    assert counts([9, 1], 10**6) == [900_000, 100_000]
    # spread evenly, not in bursts: every stretch of ten frames has one background frame
    kinds = order([9, 1], 0, 10_000)
    assert np.all(kinds.reshape(-1, 10).sum(axis=1) == 1)


def test_a26_shares_that_are_no_shares():
    with expect_error("invalid-traffic-model"):
        counts([0, 0], 10)


def test_a26_background_counts_like_foreground():
    tester = sim(streams=(FOREGROUND, BACKGROUND), capacity_fps=500.0)
    asked = Trial("throughput", KEY, 104, 64, "forward", 1000.0, 1.0)
    result = tester.measure(asked)
    assert {n: c.required for n, c in result.directions["forward"].classes.items()} == {
        "fg": 500,
        "bg": 500,
    }
    assert assess_trial(asked, result).loss["forward"] == pytest.approx(0.5)


def test_a28_control_frames_change_nothing():
    quiet = assess_trial(trial(), TrialResult({"forward": counted(1000, 1000)}))
    busy = assess_trial(trial(), TrialResult({"forward": counted(1000, 1000, control=12_345)}))
    assert quiet == busy
    asked = Trial("throughput", KEY, 104, 64, "forward", 1000.0, 1.0)
    result = sim(control=7).measure(asked)
    assert result.directions["forward"].control == 7
    assert assess_trial(asked, result).passed
