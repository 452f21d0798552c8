"""How long TRex was sending, from looks at its port counters, and what may pass for proven."""

from __future__ import annotations

import pytest
from v6t.drivers.trex.counting import measure_sending_time
from v6t.drivers.trex.stats import CounterLook
from v6t.trials.result import ClassCount, DirectionResult, TrialResult
from v6t.trials.trial import Trial
from v6t.trials.verdict import assess_trial

WIDTH_S = 5e-5


def seen(sent_at, *times):
    """Looks at port 0, each as wide as measured, of traffic that had sent so much at a time.

    The first is before the start is ordered.
    """
    return [CounterLook(at, {0: sent_at(at)}, at + WIDTH_S) for at in (-0.2, *times)]


def evenly(frames, begin_s, end_s):
    def sent(at):
        return max(
            0, min(frames, int(frames * (at - begin_s) / (end_s - begin_s)) + (at > begin_s))
        )

    return sent


def verdict(took, frames, duration_s, tolerance=1.00001):
    count = ClassCount("foreground", frames, frames, frames)
    asked = Trial("throughput", "k", 104, 64, "forward", frames / duration_s, duration_s)
    counted = DirectionResult({"fg": count}, took.time_s, sending_time_error_s=took.error_s)
    return assess_trial(asked, TrialResult({"forward": counted}), sending_time_tolerance=tolerance)


@pytest.mark.parametrize(("late_s", "valid"), [(0.0, True), (0.0003, True), (0.0007, False)])
def test_a_minute_is_right_within_ten_millionths(late_s, valid):
    sent = evenly(6_000_000, 0.0, 60.0 + late_s)
    took = measure_sending_time(
        seen(sent, 0.0, 0.0004, 59.9999, 60.0002, 60.0004, 60.0008), 0, 6_000_000, 60.0
    )
    assert took.time_s - took.error_s <= 60.0 + late_s <= took.max_s + 1e-9
    assert verdict(took, 6_000_000, 60.0).valid is valid


def test_what_twenty_milliseconds_of_slack_let_pass():
    """60 s that took 20 ms more, and a burst at 2 % of the line's rate."""
    late = measure_sending_time(
        seen(evenly(10**6, 0, 60.0206), 0.0, 0.0005, 60.0, 60.0207), 0, 10**6, 60.0
    )
    assert "sending took 60.0" in verdict(late, 10**6, 60.0).reasons[0]
    burst = measure_sending_time(
        seen(evenly(4096, 0.0, 0.0203), 0.0, 0.0005, 0.0101, 0.0204), 0, 4096, 0.000406
    )
    for tolerance in (1.00001, 3.0):
        found = verdict(burst, 4096, 0.000406, tolerance)
        assert not found.valid
        assert "sending took" in found.reasons[0]


def test_what_looks_too_far_apart_cannot_prove_is_invalid():
    """Sent in time, for all anybody knows; or not."""
    took = measure_sending_time(seen(evenly(10**6, 0, 60.0), 0.0, 30.0, 60.02), 0, 10**6, 60.0)
    assert took.time_s - took.error_s == pytest.approx(60.0)
    found = verdict(took, 10**6, 60.0)
    assert not found.valid
    assert "not proven" in found.reasons[0]
    assert verdict(took, 10**6, 60.0, 1.02).valid


def test_the_wait_for_the_first_frame_is_no_sending_time():
    sent = evenly(1000, 0.05, 1.05)
    waited = measure_sending_time(seen(sent, 0.0, 0.049, 0.051, 1.0, 1.0501), 0, 1000, 1.0)
    assert waited.max_s < 1.005
    unseen = measure_sending_time(seen(sent, 1.0501), 0, 1000, 1.0)
    assert unseen.max_s > 1.25


def test_a_start_before_its_time_hides_nothing():
    """TRex's sleeping scheduler wakes too early; it has sent for longer than since the start."""
    early = measure_sending_time(
        seen(evenly(1000, -0.02, 1.0), -0.0205, -0.01, 1.0001), 0, 1000, 1.0
    )
    assert early.max_s == pytest.approx(1.0217, abs=1e-3)
    assert not verdict(early, 1000, 1.0, 1.01).valid


def test_frames_that_never_left_have_no_time():
    assert measure_sending_time(seen(evenly(1000, 0, 1.0), 0.5), 0, 1000, 1.0) is None
