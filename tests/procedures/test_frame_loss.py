"""Frame loss rate: offered rates, directions, frame timeouts and adaptive repetition."""

from dataclasses import replace

import pytest
from v6t.benchmarks.frame_loss import FrameLoss
from v6t.procedures.frame_loss import FrameLossSpec, measure_frame_loss
from v6t.procedures.repetition import AdaptiveLimits
from v6t.trials.result import DirectionResult, TrialResult

from .support import Recorder, make_conditions, make_count, make_limited, make_result, make_sim

ONE_RATE = {"rates_fps": (1000.0,)}


def make_point(mode="forward", **changes):
    fields = {"conditions": make_conditions(mode), "maximum_fps": 1000.0, "maximum_reason": "media"}
    return FrameLossSpec(**{**fields, "duration_s": 60.0, "repetitions": 1, **changes})


def measure(spec, tester, media_fps=1000.0):
    """Return the result of a point, its record, and the offered rates."""
    recorder = Recorder(getattr(tester, "measure", tester))
    result = measure_frame_loss(spec, recorder)
    record = FrameLoss().make_measurement(result, media_fps, {}).record
    return result, record, [t.rate_fps for t in recorder.trials]


@pytest.mark.parametrize(("limit_fps", "rates"), [
    (555.0, (1000, 900, 800, 700, 600, 500, 400)), (0.0, range(1000, 0, -100)),
])  # fmt: skip
def test_rates_end_at_second_lossless_trial_or_at_the_lowest(limit_fps, rates):
    assert measure(make_point(), make_limited(limit_fps))[2] == pytest.approx(rates)


def test_lossless_trials_must_be_consecutive():
    def lose_at_some_rates(trial):
        is_lossless = round(trial.rate_fps) in (1000, 800, 500, 400)
        received = trial.frames - (not is_lossless)
        return make_result({"fg": (trial.frames, received)}, trial.duration_s)

    assert len(measure(make_point(), lose_at_some_rates)[2]) == 7


def test_finer_steps_are_accepted_and_coarser_ones_rejected():
    assert len(measure(make_point(step=0.02), make_limited(555.0))[2]) == 25
    for wrong in ({"step": 0.11}, {"rates_fps": (100.0, 0.0)}):
        with pytest.raises(ValueError, match="step|positive"):
            make_point(**wrong)


def test_listed_rates_are_all_measured():
    spec = make_point(rates_fps=(200.0, 400.0, 300.0), maximum_reason="given", repetitions=3)
    _, record, rates = measure(spec, make_limited(1e9))
    assert rates == [400.0, 300.0, 200.0] * 3
    assert record.to_json()["restricted_range"] is True
    assert [r["trials"] for r in record.to_json()["rates"]] == [3, 3, 3]


def test_record_has_each_direction_and_their_sum():
    directions = {
        direction: DirectionResult({"fg": make_count(1000, received)}, 60.0)
        for direction, received in (("forward", 990), ("reverse", 1000))
    }
    spec = make_point("bidirectional", **ONE_RATE)
    _, record, _ = measure(spec, lambda _: TrialResult(directions), 2000.0)
    (row,) = record.to_json()["rates"]
    losses = {name: loss["median"] for name, loss in row["loss_percent"].items()}
    assert losses == pytest.approx({"forward": 1.0, "reverse": 0.0, "sum": 0.5})
    assert row["media_percent"] == 50.0
    assert row["frames"]["forward"] == {"required": [1000], "sent": [1000], "received": [990]}


@pytest.mark.parametrize(("foreground", "background", "fairness"), [
    (200, 200, 1.0), (200, 250, 0.9375), (200, 1000, 0.0), (1000, 500, None),
])  # fmt: skip
def test_loss_by_role_is_recorded_with_fairness(foreground, background, fairness):
    classes = {
        "fg": (1000, 1000 - foreground),
        "bg": make_count(1000, 1000 - background, "background"),
        "negative": make_count(1000, 0, "negative"),
    }
    _, record, _ = measure(make_point(**ONE_RATE), lambda _: make_result(classes), 2000.0)
    (row,) = record.rates
    lost = {role: summary.median for role, summary in row.by_role.items()}
    assert lost == pytest.approx({"foreground": foreground / 10, "background": background / 10})
    assert row.fairness == (None if fairness is None else pytest.approx(fairness))
    total, by_class = FrameLoss().make_tables([record])
    assert total.title != by_class.title
    assert fairness is None or by_class.rows[0][-1] == f"{fairness:.4f}"


def test_loss_of_single_class_is_recorded_without_fairness():
    _, record, _ = measure(make_point(**ONE_RATE), make_sim(capacity_fps=500.0))
    assert (record.rates[0].by_role, record.rates[0].fairness) == ({}, None)
    assert len(list(FrameLoss().make_tables([record]))) == 1


def test_more_received_than_sent_is_an_error():
    result, record, _ = measure(make_point(), make_sim(capacity_fps=1e9, surplus=5))
    assert all(o.error and o.compute_loss() is None for o in result.offered)
    first = record.to_json()["rates"][0]
    assert first["loss_percent"]["forward"]["median"] is None
    assert first["errors"]
    rows = FrameLoss().make_measurement(result, 1000.0, {}).rows
    assert {row["loss_percent"] for row in rows} == {""}


def test_rate_that_the_tester_cannot_send_is_invalid():
    result, record, _ = measure(make_point(), make_sim(capacity_fps=1e9, tester_fps=500.0))
    high = [o for o in result.offered if o.rate_fps > 510]
    assert {(o.valid, len(o.attempts)) for o in high} == {(False, 3)}
    entry = record.to_json()
    assert entry["rates"][0]["loss_percent"]["forward"]["median"] is None
    assert len(entry["invalid_trials"]) == 3 * len(high)


@pytest.mark.parametrize(("timeout_s", "loss"), [(None, 0.0), (0.1, 0.0), (0.01, 10.0)])
def test_frame_timeout_selects_separate_benchmark(timeout_s, loss):
    tester = make_sim(capacity_fps=1e9, tail_share=0.1, tail_us=50_000.0)
    spec = make_point(conditions=make_conditions(frame_timeout_s=timeout_s), **ONE_RATE)
    entry = measure(spec, tester)[1].to_json()
    median = entry["rates"][0]["loss_percent"]["forward"]["median"]
    assert median == pytest.approx(loss, abs=0.1 if loss else 0)
    name = "frame-loss-frame-timeout" if timeout_s else "frame-loss"
    assert (entry["benchmark"], entry["trials"]) == (name, [f"{name}/104/forward/r01/l001/a1"])
    assert timeout_s is None or f"{1000 * timeout_s:.0f} ms" in entry["title"]


@pytest.mark.parametrize(("mode", "adaptive", "device", "fewest", "most"), [
    ("bidirectional", AdaptiveLimits(), {"capacity_fps": 4e5}, 6, 6),
    ("bidirectional", AdaptiveLimits(), {"capacity_fps": 4e5, "capacity_noise": 0.002}, 6, 6),
    ("forward", AdaptiveLimits(), {"capacity_fps": 0.0}, 6, 6),
    ("forward", AdaptiveLimits(most=15, width=0.001), {"capacity_fps": 4e5, "capacity_noise": 0.05}, 15, 15),
    ("forward", AdaptiveLimits(most=50, width=0.03), {"capacity_fps": 4e5, "capacity_noise": 0.03}, 7, 49),
])  # fmt: skip
def test_adaptive_repetition_stops_at_known_medians(mode, adaptive, device, fewest, most):
    spec = make_point(mode, maximum_fps=1e6, adaptive=adaptive)
    result, record, _ = measure(spec, make_sim(**device))
    assert fewest <= max(o.repetition for o in result.offered) <= most
    entry = record.to_json()
    assert ("n=6" in entry["title"]) is (adaptive.fewest == entry["repetitions"])


def test_adaptive_repetition_continues_until_each_rate_has_enough_valid_trials():
    def fail_once(trial):
        faults = ("late",) if trial.rate_fps == 1000.0 and "/r01/" in trial.key else ()
        return replace(make_limited(500.0)(trial), faults=faults)

    spec = make_point(rates_fps=(1000.0, 400.0), adaptive=AdaptiveLimits())
    result, record, _ = measure(spec, fail_once)
    assert max(o.repetition for o in result.offered) == 7
    assert [row.valid for row in record.rates] == [6, 7]
    (trials,) = (c for c in FrameLoss.columns if c.name == "trials")
    assert [trials.format_cell(row) for row in FrameLoss().list_rows([record])] == ["6", "7"]


def test_adaptive_repetition_continues_if_few_frames_pass():
    received = iter([1, 4] * 50)
    spec = FrameLossSpec(make_conditions(), 1000.0, "given", 1.0, 1, **ONE_RATE,
                         adaptive=AdaptiveLimits(fewest=6, most=20, width=0.01))  # fmt: skip
    result = measure_frame_loss(spec, lambda _: make_result({"fg": (1000, next(received))}))
    assert len(result.offered) == 20
