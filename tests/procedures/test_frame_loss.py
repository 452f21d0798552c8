"""Frame loss rate: acceptance tests A12 and A13, deadlines (FLR-06), adaptive repetition (TP-09)."""

from itertools import pairwise

import pytest
from v6t.benchmarks.frame_loss import FrameLoss, frame_loss_record, frame_loss_rows
from v6t.procedures.frame_loss import DirectionLoss, FrameLossSpec, measure_frame_loss
from v6t.procedures.repetition import Adaptive
from v6t.tests.procedures.support import Recorded, at, count, limited, one_way, sim
from v6t.trials.result import DirectionResult, TrialResult

ONE_RATE = {"rates_fps": (1000.0,)}


def point(mode="forward", **changes):
    given = {
        "maximum_fps": 1000.0, "maximum_reason": "media", "duration_s": 60.0, "repetitions": 1,
        **changes,
    }  # fmt: skip
    return FrameLossSpec(given.pop("conditions", at(mode)), **given)


def record_of(result, media_fps=1000.0):
    return frame_loss_record(result, media_fps=media_fps, conditions={})


def measured(spec, tester):
    """Return the record of a point as JSON."""
    return record_of(measure_frame_loss(spec, getattr(tester, "measure", tester))).to_json()


def rates_of(spec, limit_fps):
    tester = Recorded(limited(limit_fps))
    measure_frame_loss(spec, tester)
    return [t.rate_fps for t in tester.trials]


def test_a12_stops_after_the_second_lossless_trial():
    rates = rates_of(point(), 555.0)
    assert rates == [pytest.approx(r) for r in (1000, 900, 800, 700, 600, 500, 400)]
    assert all(a > b >= a - 100.000001 for a, b in pairwise(rates))


def test_a12_two_lossless_trials_must_follow_each_other():
    def measure(trial):
        whole = any(abs(trial.rate_fps - r) < 1e-6 for r in (1000.0, 800.0, 500.0, 400.0))
        return one_way({"fg": (trial.frames, trial.frames - (not whole))}, trial.duration_s)

    tester = Recorded(measure)
    measure_frame_loss(point(), tester)
    assert len(tester.trials) == 7


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
    tester = Recorded(limited(1e9))
    entry = measured(spec, tester)
    assert [t.rate_fps for t in tester.trials] == [400.0, 300.0, 200.0] * 3
    assert entry["restricted_range"] is True
    assert [r["trials"] for r in entry["rates"]] == [3, 3, 3]


def test_a13_one_per_cent():
    assert DirectionLoss(1000, 1000, 990, 0).rate * 100 == pytest.approx(1.0)


def test_a13_each_direction_and_the_sum():
    ways = {
        way: DirectionResult({"fg": count(1000, received)}, 60.0)
        for way, received in (("forward", 990), ("reverse", 1000))
    }
    result = measure_frame_loss(point("bidirectional", **ONE_RATE), lambda _: TrialResult(ways))
    (row,) = record_of(result, 2000.0).to_json()["rates"]
    losses = {name: loss["median"] for name, loss in row["loss_percent"].items()}
    wanted = {"forward": 1.0, "reverse": 0.0, "sum": 0.5}
    assert losses == pytest.approx(wanted)
    assert row["media_percent"] == 50.0
    assert row["frames"]["forward"] == {"required": [1000], "sent": [1000], "received": [990]}


def divided(foreground, background):
    """Measure one overload of foreground and background that lose so many of 1,000 frames."""
    classes = {
        "fg": (1000, 1000 - foreground),
        "bg": count(1000, 1000 - background, "background"),
        "odd": count(1000, 0, "negative"),
    }
    return record_of(measure_frame_loss(point(**ONE_RATE), lambda _: one_way(classes)), 2000.0)


@pytest.mark.parametrize(("background", "fairness"), [(200, 1.0), (250, 0.9375), (1000, 0.0)])
def test_overload_is_divided_between_foreground_and_background(background, fairness):
    """MIX-06: 200 of 1,000 lost of the one, so many of the other."""
    record = divided(200, background)
    (row,) = record.rates
    lost = {role: summary.median for role, summary in row.by_role.items()}
    assert lost == pytest.approx({"foreground": 20.0, "background": background / 10})
    assert row.fairness == pytest.approx(fairness)
    whole, by_class = FrameLoss().tables([record])
    assert whole.title != by_class.title
    assert by_class.rows[0][-1] == f"{fairness:.4f}"


def test_overload_without_any_foreground_has_no_fairness():
    assert divided(1000, 500).rates[0].fairness is None


def test_one_kind_of_frames_is_not_divided():
    result = measure_frame_loss(point(**ONE_RATE), sim(capacity_fps=500.0).measure)
    record = record_of(result)
    assert (record.rates[0].by_role, record.rates[0].fairness) == ({}, None)
    assert len(list(FrameLoss().tables([record]))) == 1


def test_more_received_than_sent_is_an_error():
    result = measure_frame_loss(point(), sim(capacity_fps=1e9, surplus=5).measure)
    assert all("5 frames more" in o.error for o in result.offered)
    assert all(o.loss() is None for o in result.offered)
    first = record_of(result).to_json()["rates"][0]
    assert first["loss_percent"]["forward"]["median"] is None
    assert first["errors"]
    assert {row["loss_percent"] for row in frame_loss_rows(result)} == {""}


def test_rate_that_the_tester_cannot_send_is_invalid():
    result = measure_frame_loss(point(), sim(capacity_fps=1e9, tester_fps=500.0).measure)
    high = [o for o in result.offered if o.rate_fps > 510]
    assert high
    assert {(o.valid, len(o.attempts)) for o in high} == {(False, 3)}
    entry = record_of(result).to_json()
    assert entry["rates"][0]["loss_percent"]["forward"]["median"] is None
    assert len(entry["invalid_trials"]) == 3 * len(high)


def test_the_simulated_devices_loss_is_found():
    spec = point("bidirectional", maximum_fps=1_000_000.0, repetitions=3)
    entry = measured(spec, sim(capacity_fps=400_000.0))
    for row in entry["rates"]:
        truth = max(0.0, 100 * (1 - 400_000.0 / row["rate"]))
        for loss in row["loss_percent"].values():
            assert loss["median"] == pytest.approx(truth, abs=1e-4)
    # a stable device forwards as much under overload as at its limit (FLR-05)
    assert entry["rates"][0]["forwarded"]["median"] == pytest.approx(800_000, rel=1e-4)


@pytest.mark.parametrize(("timeout_s", "loss"), [(None, 0.0), (0.1, 0.0), (0.01, 10.0)])
def test_a_deadline_for_frames_is_another_benchmark(timeout_s, loss):
    """One frame in ten takes 50 ms longer: with a deadline below that it is lost (FLR-06)."""
    tester = sim(capacity_fps=1e9, tail_share=0.1, tail_us=50_000.0)
    entry = measured(point(conditions=at(frame_timeout_s=timeout_s), **ONE_RATE), tester)
    median = entry["rates"][0]["loss_percent"]["forward"]["median"]
    assert median == pytest.approx(loss, abs=0.1 if loss else 0)
    name = "frame-loss-frame-timeout" if timeout_s else "frame-loss"
    assert entry["benchmark"] == name
    assert entry["trials"] == [f"{name}/104/forward/r01/l001/a1"]
    assert timeout_s is None or f"{1000 * timeout_s:.0f} ms" in entry["title"]


@pytest.mark.parametrize(("mode", "adaptive", "device", "fewest", "most"), [
    ("bidirectional", Adaptive(), {"capacity_fps": 4e5}, 6, 6),
    ("bidirectional", Adaptive(), {"capacity_fps": 4e5, "capacity_noise": 0.002}, 6, 6),
    ("forward", Adaptive(), {"capacity_fps": 0.0}, 6, 6),
    ("forward", Adaptive(most=15, width=0.001),
     {"capacity_fps": 4e5, "capacity_noise": 0.05}, 15, 15),
    ("forward", Adaptive(most=50, width=0.03),
     {"capacity_fps": 4e5, "capacity_noise": 0.03}, 7, 49),
])  # fmt: skip
def test_adaptive_repetition_stops_when_the_medians_are_known(mode, adaptive, device, fewest, most):
    spec = point(mode, maximum_fps=1e6, adaptive=adaptive)
    offered = measure_frame_loss(spec, sim(**device).measure).offered
    assert fewest <= max(o.repetition for o in offered) <= most


def test_adaptive_repetition_where_little_passes_goes_on():
    """TP-09: what came through is judged, where it is little every frame of it counts."""
    trials = iter(range(100))
    spec = FrameLossSpec(at(), 1000.0, "given", 1.0, 1, **ONE_RATE,
                         adaptive=Adaptive(fewest=6, most=20, width=0.01))  # fmt: skip
    result = measure_frame_loss(spec, lambda _: one_way({"fg": (1000, 1 + 3 * (next(trials) % 2))}))
    assert len(result.offered) == 20


def test_adaptive_repetition_is_part_of_the_title():
    entry = measured(point(adaptive=Adaptive()), sim(capacity_fps=1e9))
    assert "n=6" in entry["title"]
    assert entry["repetitions"] == 6
