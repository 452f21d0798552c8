"""Frame loss rate: acceptance tests A12 and A13, deadlines (FLR-06), adaptive repetition (TP-09)."""

from itertools import pairwise

import pytest
from v6t.benchmarks.frame_loss import FrameLoss, frame_loss_record, frame_loss_rows
from v6t.procedures.frame_loss import DirectionLoss, FrameLossSpec, measure_frame_loss
from v6t.procedures.repetition import Adaptive
from v6t.tests.procedures.support import Recorded, at, limited, sim
from v6t.trials.result import ClassCount, DirectionResult, TrialResult


def point(mode="forward", **changes):
    given = {
        **{"maximum_fps": 1000.0, "maximum_reason": "media", "duration_s": 60.0},
        **{"repetitions": 1},
        **changes,
    }
    conditions = given.pop("conditions", at(mode))
    return FrameLossSpec(conditions, **given)


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
    entry = frame_loss_record(result, media_fps=1000.0, conditions={}).to_json()
    assert entry["restricted_range"] is True
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
    entry = frame_loss_record(
        measure_frame_loss(spec, door), media_fps=2000.0, conditions={}
    ).to_json()
    (row,) = entry["rates"]
    losses = {name: loss["median"] for name, loss in row["loss_percent"].items()}
    assert losses == {
        "forward": pytest.approx(1.0), "reverse": 0.0, "sum": pytest.approx(0.5)
    }  # fmt: skip
    assert row["media_percent"] == 50.0
    assert row["frames"]["forward"] == {"required": [1000], "sent": [1000], "received": [990]}


@pytest.mark.parametrize(("background", "fairness"), [(200, 1.0), (250, 0.9375), (1000, 0.0)])
def test_overload_is_divided_between_foreground_and_background(background, fairness):
    """MIX-06: 200 of 1,000 lost of the one, so many of the other."""

    def door(trial):
        classes = {
            "fg": ClassCount("foreground", 1000, 1000, 800),
            "bg": ClassCount("background", 1000, 1000, 1000 - background),
            "odd": ClassCount("negative", 1000, 1000, 0),
        }
        return TrialResult({"forward": DirectionResult(classes, trial.duration_s)})

    result = measure_frame_loss(point(rates_fps=(1000.0,)), door)
    record = frame_loss_record(result, media_fps=2000.0, conditions={})
    (row,) = record.rates
    lost = {role: summary.median for role, summary in row.by_role.items()}
    assert lost == pytest.approx({"foreground": 20.0, "background": background / 10})
    assert row.fairness == pytest.approx(fairness)
    whole, divided = FrameLoss().tables([record])
    assert whole.title != divided.title
    assert divided.rows[0][-1] == f"{fairness:.4f}"


def test_where_no_foreground_came_through_nothing_is_divided():
    def door(trial):
        classes = {
            "fg": ClassCount("foreground", 1000, 1000, 0),
            "bg": ClassCount("background", 1000, 1000, 500),
        }
        return TrialResult({"forward": DirectionResult(classes, trial.duration_s)})

    result = measure_frame_loss(point(rates_fps=(1000.0,)), door)
    record = frame_loss_record(result, media_fps=2000.0, conditions={})
    assert record.rates[0].fairness is None


def test_one_kind_of_frames_is_not_divided():
    result = measure_frame_loss(point(rates_fps=(1000.0,)), sim(capacity_fps=500.0).measure)
    record = frame_loss_record(result, media_fps=2000.0, conditions={})
    assert (record.rates[0].by_role, record.rates[0].fairness) == ({}, None)
    assert len(list(FrameLoss().tables([record]))) == 1


def test_more_received_than_sent_is_an_error():
    result = measure_frame_loss(point(), sim(capacity_fps=1e9, surplus=5).measure)
    assert all("5 frames more" in o.error for o in result.offered)
    assert all(o.loss() is None for o in result.offered)
    entry = frame_loss_record(result, media_fps=1000.0, conditions={}).to_json()
    assert entry["rates"][0]["loss_percent"]["forward"]["median"] is None
    assert entry["rates"][0]["errors"]
    assert {row["loss_percent"] for row in frame_loss_rows(result)} == {""}


def test_what_the_tester_could_not_send_is_no_loss():
    result = measure_frame_loss(point(), sim(capacity_fps=1e9, tester_fps=500.0).measure)
    high = [o for o in result.offered if o.rate_fps > 510]
    assert high
    assert not any(o.valid for o in high)
    assert all(len(o.attempts) == 3 for o in high)
    entry = frame_loss_record(result, media_fps=1000.0, conditions={}).to_json()
    assert entry["rates"][0]["loss_percent"]["forward"]["median"] is None
    assert len(entry["invalid_trials"]) == 3 * len(high)


def test_the_simulated_devices_loss_is_found():
    tester = sim(capacity_fps=400_000.0)
    spec = point("bidirectional", maximum_fps=1_000_000.0, repetitions=3)
    entry = frame_loss_record(
        measure_frame_loss(spec, tester.measure), media_fps=1e6, conditions={}
    ).to_json()
    for row in entry["rates"]:
        truth = max(0.0, 100 * (1 - 400_000.0 / row["rate"]))
        for loss in row["loss_percent"].values():
            assert loss["median"] == pytest.approx(truth, abs=1e-4)
    # a stable device forwards as much under overload as at its limit (FLR-05)
    assert entry["rates"][0]["forwarded"]["median"] == pytest.approx(800_000, rel=1e-4)


def test_a_deadline_for_frames_is_another_benchmark():
    """One frame in ten takes 50 ms longer: with a deadline below that it is lost (FLR-06)."""
    tester = sim(capacity_fps=1e9, tail_share=0.1, tail_us=50_000.0)
    entries = {}
    for timeout_s in (None, 0.1, 0.01):
        spec = point(conditions=at(frame_timeout_s=timeout_s), rates_fps=(1000.0,))
        result = measure_frame_loss(spec, tester.measure)
        entries[timeout_s] = frame_loss_record(result, media_fps=1000.0, conditions={}).to_json()
    losses = {t: e["rates"][0]["loss_percent"]["forward"]["median"] for t, e in entries.items()}
    assert losses == {None: 0.0, 0.1: 0.0, 0.01: pytest.approx(10.0, abs=0.1)}
    assert entries[None]["benchmark"] == "frame-loss"
    assert entries[0.01]["benchmark"] == "frame-loss-frame-timeout"
    assert "10 ms" in entries[0.01]["title"]
    assert entries[0.01]["trials"] == ["frame-loss-frame-timeout/104/forward/r01/l001/a1"]


def repetitions_of(spec, tester):
    return max(o.repetition for o in measure_frame_loss(spec, tester.measure).offered)


def test_adaptive_repetition_stops_when_the_medians_are_known():
    steady = point("bidirectional", maximum_fps=1e6, adaptive=Adaptive())
    assert repetitions_of(steady, sim(capacity_fps=4e5)) == 6
    assert repetitions_of(steady, sim(capacity_fps=4e5, capacity_noise=0.002)) == 6
    noisy = point(maximum_fps=1e6, adaptive=Adaptive(most=15, width=0.001))
    assert repetitions_of(noisy, sim(capacity_fps=4e5, capacity_noise=0.05)) == 15
    some = point(maximum_fps=1e6, adaptive=Adaptive(most=50, width=0.03))
    assert 6 < repetitions_of(some, sim(capacity_fps=4e5, capacity_noise=0.03)) < 50


def test_adaptive_repetition_of_a_device_that_forwards_nothing():
    assert repetitions_of(point(adaptive=Adaptive()), sim(capacity_fps=0.0)) == 6


def test_adaptive_repetition_is_part_of_the_title():
    result = measure_frame_loss(point(adaptive=Adaptive()), sim(capacity_fps=1e9).measure)
    entry = frame_loss_record(result, media_fps=1000.0, conditions={}).to_json()
    assert "n=6" in entry["title"]
    assert entry["repetitions"] == 6
