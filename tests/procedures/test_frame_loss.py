"""Frame loss rate: acceptance tests A12 and A13."""

from itertools import pairwise

import pytest
from v6t.analysis.loss_results import frame_loss_record, frame_loss_rows
from v6t.procedures.frame_loss import DirectionLoss, FrameLossSpec, measure_frame_loss
from v6t.procedures.trial import ClassCount, DirectionResult, TrialResult
from v6t.tests.procedures.support import Recorded, at, limited, sim


def point(mode="forward", **changes):
    given = {
        **{"maximum_fps": 1000.0, "maximum_reason": "media", "duration_s": 60.0},
        **{"repetitions": 1},
        **changes,
    }
    return FrameLossSpec(at(mode), **given)


def rates_of(spec, limit_fps):
    door = Recorded(limited(limit_fps))
    measure_frame_loss(spec, door)
    return [t.rate_fps for t in door.trials]


def test_a12_stops_after_the_second_lossless_trial():
    rates = rates_of(point(), 555.0)
    assert rates == [pytest.approx(r) for r in (1000, 900, 800, 700, 600, 500, 400)]
    assert all(b < a for a, b in pairwise(rates))
    assert all(a - b <= 100.000001 for a, b in pairwise(rates))


def test_a12_two_lossless_trials_must_follow_each_other():
    lossless = {1000.0, 800.0, 500.0, 400.0}

    def door(trial):
        whole = any(abs(trial.rate_fps - r) < 1e-6 for r in lossless)
        count = ClassCount(
            "foreground", trial.frames, trial.frames, trial.frames if whole else trial.frames - 1
        )
        return TrialResult({"forward": DirectionResult({"fg": count}, trial.duration_s)})

    recorded = Recorded(door)
    measure_frame_loss(point(), recorded)
    assert len(recorded.trials) == 7


def test_a12_ends_at_the_bottom_where_nothing_is_lossless():
    assert rates_of(point(), 0.0)[-1] == pytest.approx(100.0)


def test_finer_steps_are_encouraged_and_coarser_ones_refused():
    assert len(rates_of(point(step=0.02), 555.0)) == 25
    with pytest.raises(ValueError, match="steps of 11%"):
        point(step=0.11)
    with pytest.raises(ValueError, match="positive"):
        point(rates_fps=(100.0, 0.0))


def test_listed_rates_are_all_measured():
    spec = point(rates_fps=(200.0, 400.0, 300.0), maximum_reason="given", repetitions=3)
    door = Recorded(limited(1e9))
    result = measure_frame_loss(spec, door)
    assert [t.rate_fps for t in door.trials] == [400.0, 300.0, 200.0] * 3
    entry = frame_loss_record(result, media_fps=1000.0, conditions={})
    assert entry["restricted_range"] is True
    assert entry["title"] == "Frame loss rate (restricted range)"
    assert [r["trials"] for r in entry["rates"]] == [3, 3, 3]


def test_a13_one_per_cent():
    assert DirectionLoss(1000, 1000, 990, 0).rate * 100 == pytest.approx(1.0)


def test_a13_each_direction_and_the_sum():
    def door(trial):
        directions = {
            way: DirectionResult(
                {"fg": ClassCount("foreground", 1000, 1000, received)}, trial.duration_s
            )
            for way, received in (("forward", 990), ("reverse", 1000))
        }
        return TrialResult(directions)

    spec = point("bidirectional", rates_fps=(1000.0,))
    entry = frame_loss_record(measure_frame_loss(spec, door), media_fps=2000.0, conditions={})
    (row,) = entry["rates"]
    losses = {name: loss["median"] for name, loss in row["loss_percent"].items()}
    assert losses == {
        "forward": pytest.approx(1.0), "reverse": 0.0, "sum": pytest.approx(0.5)
    }  # fmt: skip
    assert row["media_percent"] == 50.0
    assert row["frames"]["forward"] == {"required": [1000], "sent": [1000], "received": [990]}


def test_more_received_than_sent_is_an_error():
    result = measure_frame_loss(point(), sim(capacity_fps=1e9, surplus=5).measure)
    assert all("5 frames more" in o.error for o in result.offered)
    assert all(o.loss() is None for o in result.offered)
    entry = frame_loss_record(result, media_fps=1000.0, conditions={})
    assert entry["rates"][0]["loss_percent"]["forward"]["median"] is None
    assert entry["rates"][0]["errors"]
    assert {row["loss_percent"] for row in frame_loss_rows(result)} == {""}


def test_what_the_tester_could_not_send_is_no_loss():
    result = measure_frame_loss(point(), sim(capacity_fps=1e9, tester_fps=500.0).measure)
    high = [o for o in result.offered if o.rate_fps > 510]
    assert high
    assert not any(o.valid for o in high)
    assert all(len(o.attempts) == 3 for o in high)
    entry = frame_loss_record(result, media_fps=1000.0, conditions={})
    assert entry["rates"][0]["loss_percent"]["forward"]["median"] is None
    assert len(entry["invalid_trials"]) == 3 * len(high)


def test_the_simulated_devices_loss_is_found():
    tester = sim(capacity_fps=400_000.0)
    spec = point("bidirectional", maximum_fps=1_000_000.0, repetitions=3)
    entry = frame_loss_record(
        measure_frame_loss(spec, tester.measure), media_fps=1e6, conditions={}
    )
    for row in entry["rates"]:
        truth = max(0.0, 100 * (1 - 400_000.0 / row["rate"]))
        for loss in row["loss_percent"].values():
            assert loss["median"] == pytest.approx(truth, abs=1e-4)
    # a stable device forwards as much under overload as at its limit (FLR-05)
    assert entry["rates"][0]["forwarded"]["median"] == pytest.approx(800_000, rel=1e-4)
