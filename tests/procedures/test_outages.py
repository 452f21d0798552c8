"""Back-to-back frames, system recovery and reset."""

import json
import math
from dataclasses import replace

import pytest
from v6t.benchmarks.back_to_back import BackToBack
from v6t.benchmarks.outages import Reset, SystemRecovery
from v6t.procedures.back_to_back import (
    BurstSpec,
    compute_buffer_time,
    compute_deviation,
    measure_back_to_back,
)
from v6t.procedures.recovery import RecoverySpec, measure_recovery
from v6t.procedures.reset import ResetSpec, measure_reset

from .support import Recorder, make_conditions, make_limited, make_result, make_sim, make_tester

LINE = 10_000_000.0
BUFFERED = {"capacity_fps": 4e6, "buffer_frames": 4096}
LOSSLESS = make_tester(lambda _, trial: trial.frames)


def make_burst_spec(**changes):
    fields = {
        "rate_fps": LINE, "rate_reason": "media", "throughput_fps": 4_000_000.0, "longest_s": 2.0,
        "resolution_frames": 1, "repetitions": 1, **changes,
    }  # fmt: skip
    return BurstSpec(make_conditions(residual_wait_s=2.0), **fields)


def make_burst_record(result):
    return BackToBack().make_measurement(result, None, {}).record.to_json()


@pytest.mark.parametrize("buffer", [1, 100, 4096, 1_000_000])
def test_corrected_buffer_time_equals_buffer(buffer):
    """The device has a buffer and a forwarding rate, as in the model of RFC 9004, section 3."""
    tester = make_sim(capacity_fps=4_000_000.0, buffer_frames=buffer)
    result = measure_back_to_back(make_burst_spec(repetitions=5), tester.measure)
    longest = buffer / (1 - 0.4)
    assert all(abs(r.frames - longest) < 3 for r in result.repetitions)
    time = result.buffer_time
    assert time.implied_s == pytest.approx(longest / LINE, abs=4 / LINE)
    assert time.corrected_s == pytest.approx(buffer / LINE, abs=3 / LINE)


@pytest.mark.parametrize(("frames", "rate_fps", "throughput_fps", "implied_s", "corrected_s"), [
    (26_000, 14_880_952, 7_440_476, 0.0017472, 0.0008736),
    (100, 10.0, 10.0, 10.0, 0.0),
    (100, 1000.0, 1500.0, 0.1, 0.0),  # a throughput above the burst rate, which rounding can cause
])  # fmt: skip
def test_buffer_time_follows_rfc_9004(frames, rate_fps, throughput_fps, implied_s, corrected_s):
    time = compute_buffer_time(frames, rate_fps, throughput_fps)
    assert time.implied_s == pytest.approx(implied_s, rel=1e-4)
    assert time.corrected_s == pytest.approx(corrected_s, rel=1e-4)


def test_deviation_is_that_of_a_sample():
    assert compute_deviation([2, 4, 4, 4, 5, 5, 7, 9]) == pytest.approx(2.13809, abs=1e-3)
    assert compute_deviation([5]) is None


def test_bursts_have_exact_numbers_of_frames():
    tester = Recorder(make_sim(**BUFFERED).measure)
    measure_back_to_back(make_burst_spec(), tester)
    lengths = [t.frames for t in tester.trials]
    for trial in tester.trials:
        assert trial.frames == round(trial.rate_fps * trial.duration_s)
        assert (trial.rate_fps, trial.residual_wait_s) == (LINE, 2.0)
    longest = make_burst_spec().max_frames
    assert lengths[0] == (longest + 1) // 2
    assert all(0 < frames <= longest for frames in lengths)


def test_burst_search_is_binary():
    """RFC 9004, section 6.2, with one verification: each burst halves the remaining range."""
    spec = make_burst_spec()
    tester = Recorder(make_tester(lambda _, t: t.frames - (t.frames > 123_456)))
    assert measure_back_to_back(spec, tester).repetitions[0].frames == 123_456
    lengths = list(dict.fromkeys(t.frames for t in tester.trials))
    low, high = 0, spec.max_frames + 1
    for frames in lengths:
        assert frames == (low + high) // 2
        low, high = (frames, high) if frames <= 123_456 else (low, frames)
    assert (low, high) == (123_456, 123_457)
    assert len(lengths) <= spec.steps + 1


def test_wait_after_burst_is_at_least_as_long_as_the_burst():
    tester = Recorder(LOSSLESS)
    measure_back_to_back(make_burst_spec(longest_s=30.0, resolution_frames=10**6), tester)
    assert max(t.duration_s for t in tester.trials) > 20
    assert all(t.residual_wait_s == max(t.duration_s, 2.0) for t in tester.trials)


def test_burst_with_loss_is_repeated():
    tries = {}

    def lose_first(_, trial):
        tries[trial.frames] = tries.get(trial.frames, 0) + 1
        return trial.frames - (trial.frames > 5000 or tries[trial.frames] == 1)

    result = measure_back_to_back(make_burst_spec(), make_tester(lose_first))
    assert result.repetitions[0].frames == 5000


def test_record_of_bursts_has_average_and_deviation():
    tester = make_sim(**BUFFERED, capacity_noise=0.05)
    result = measure_back_to_back(make_burst_spec(repetitions=10), tester.measure)
    values = [r.frames for r in result.repetitions]
    entry = make_burst_record(result)
    assert entry["average"] == sum(values) / 10
    assert entry["deviation"] == pytest.approx(compute_deviation(values))
    assert (entry["min"], entry["max"]) == (min(values), max(values))
    assert len(BackToBack().make_measurement(result, None, {}).rows) == 10
    json.dumps(entry, allow_nan=False)


def test_device_at_line_rate_has_no_burst_result():
    tester = Recorder(make_limited(LINE))
    entry = make_burst_record(measure_back_to_back(make_burst_spec(throughput_fps=LINE), tester))
    assert tester.trials == []
    assert "no burst fills" in entry["not_measured"] and entry["average"] is None


@pytest.mark.parametrize(("lost", "longest", "frames"), [(0, True, 10_000), (1, False, 0)])
def test_buffer_above_longest_burst_is_flagged(lost, longest, frames):
    tester = make_tester(lambda _, t: t.frames - lost)
    (repetition,) = measure_back_to_back(make_burst_spec(longest_s=0.001), tester).repetitions
    assert (repetition.hit_longest, repetition.frames) == (longest, frames)


def test_burst_that_the_tester_cannot_send_is_invalid():
    tester = make_sim(**BUFFERED, tester_fps=5e6)
    result = measure_back_to_back(make_burst_spec(repetitions=2), tester.measure)
    assert [(r.valid, r.hit_longest) for r in result.repetitions] == [(False, False)] * 2
    assert result.average_frames is None
    entry = make_burst_record(result)
    assert "could not send" in entry["not_measured"] and entry["invalid_repetitions"] == 2
    assert len(entry["invalid_trials"]) == len(entry["trials"]) == 2 * 2 * 3


@pytest.mark.parametrize("step", ["b001", "b002"])
def test_loss_without_valid_verification_decides_nothing(step):
    def fail(trial):
        result = make_result({"fg": (trial.frames, trial.frames - 1)})
        return replace(result, faults=("late",) if step in trial.key else ())

    result = measure_back_to_back(make_burst_spec(), fail)
    assert sorted(a.verdict.valid for a in result.attempts) == [False, False, False, True]
    assert result.bursts == ()


@pytest.mark.parametrize(("shortest", "longest"), [(1, 300), (256, 300), (301, None), (2000, None)])
def test_bursts_have_at_least_the_shortest_measurable_length(shortest, longest):
    tester = Recorder(make_tester(lambda _, t: min(t.frames, 300)))
    result = measure_back_to_back(make_burst_spec(shortest_frames=shortest), tester)
    assert min(t.frames for t in tester.trials) >= shortest
    assert result.bursts == (() if longest is None else (longest,))
    if longest is None:
        assert not result.repetitions[0].hit_longest
        assert f"{shortest:,}" in make_burst_record(result)["not_measured"]


def make_recovery_spec(**changes):
    fields = {
        "throughput_fps": 1_000_000.0, "limit_fps": 1e7, "overload_s": 60.0, "afterwards_s": 60.0,
        "repetitions": 3, **changes,
    }  # fmt: skip
    return RecoverySpec(make_conditions("bidirectional"), **fields)


def test_overload_is_followed_by_half_its_rate():
    """RFC 2544, section 26.5: 110 % of the throughput, followed by half of that rate."""
    tester = Recorder(make_sim(capacity_fps=1e6).measure)
    measure_recovery(make_recovery_spec(repetitions=1), tester)
    (trial,) = tester.trials
    assert trial.rate_fps == pytest.approx(1.1e6)
    assert trial.second_segment.rate_fps == pytest.approx(0.55e6)
    assert trial.required_capabilities == {"two-rates", "loss-times"}


@pytest.mark.parametrize(("limit_fps", "overload_fps", "is_limited"), [
    (1_050_000.0, 1_050_000.0, True), (1_099_999.0, 1_099_999.0, True), (5e6, 1_100_000.0, False),
])  # fmt: skip
def test_overload_that_the_medium_does_not_carry_is_limited(limit_fps, overload_fps, is_limited):
    spec = make_recovery_spec(limit_fps=limit_fps)
    assert spec.is_limited is is_limited and spec.overload_fps == pytest.approx(overload_fps)
    result = measure_recovery(spec, make_sim(capacity_fps=1e6).measure)
    record = SystemRecovery().make_record(result, {})
    assert record.overload_limited is is_limited
    codes = [code for code, _ in SystemRecovery().find_warnings(record)]
    assert codes == ["limited-overload"] * is_limited


@pytest.mark.parametrize(("device", "average_s"), [({}, 0.0), ({"recovery_s": 1e6}, math.inf)])
def test_recovery_at_once_and_never_is_recorded(device, average_s):
    result = measure_recovery(make_recovery_spec(), make_sim(capacity_fps=1e6, **device).measure)
    assert {r.recovery_s["forward"] for r in result.repetitions} == {average_s}
    entry = SystemRecovery().make_record(result, {}).to_json()
    assert entry["directions"]["forward"]["average"] == (None if average_s else 0.0)
    json.dumps(entry, allow_nan=False)


def test_device_without_loss_was_not_overloaded():
    result = measure_recovery(make_recovery_spec(), make_sim(capacity_fps=2e6).measure)
    assert not any(r.overloaded["forward"] for r in result.repetitions)
    record = SystemRecovery().make_record(result, {})
    assert [code for code, _ in SystemRecovery().find_warnings(record)] == ["no-overload"] * 2


def make_reset_spec(**changes):
    fields = {
        "hook": "software-reset", "rate_fps": 100_000.0, "duration_s": 60.0, "at_s": 20.0,
        "repetitions": 3, **changes,
    }  # fmt: skip
    return ResetSpec(make_conditions(), **fields)


def test_device_that_does_not_recover_has_infinite_outage():
    result = measure_reset(make_reset_spec(), make_sim(capacity_fps=1e6, reset_s=1e6).measure)
    assert [outages["forward"].by_loss_s for outages in result.repetitions] == [math.inf] * 3
    assert Reset().make_record(result, {}).to_json()["directions"]["forward"]["average"] is None


@pytest.mark.parametrize(("invalid", "valid"), [((2,), 2), ((1, 2, 3), 0)])
def test_repetitions_with_tester_faults_do_not_count(invalid, valid):
    def tester(trial):
        is_late = int(trial.key.split("/r")[-1][:2]) in invalid
        return replace(LOSSLESS(trial), faults=("late",) if is_late else ())

    for record in (
        Reset().make_record(measure_reset(make_reset_spec(), tester), {}),
        SystemRecovery().make_record(measure_recovery(make_recovery_spec(), tester), {}),
    ):
        assert record.repetitions == valid == record.directions["forward"].count
        assert record.measured is (valid > 0)


def test_reset_table_has_longest_gap_without_frames():
    result = measure_reset(make_reset_spec(), make_sim(capacity_fps=1e6, reset_s=1.5).measure)
    (row,) = Reset().make_main_table([Reset().make_record(result, {})]).rows
    assert float(row[-2]) == pytest.approx(1.5, abs=0.01)


def test_each_kind_of_reset_is_separate_benchmark():
    tester = Recorder(make_sim(capacity_fps=1e6, reset_s=1.0).measure)
    measure_reset(make_reset_spec(hook="power-cycle", repetitions=1), tester)
    (trial,) = tester.trials
    assert trial.device_event.hook == "power-cycle"
    assert trial.key == "reset/104/forward/power-cycle/r01/a1"


def test_impossible_reset_is_refused():
    for changes in ({"hook": "kick"}, {"at_s": 60.0}):
        with pytest.raises(ValueError, match="unknown reset|not within"):
            make_reset_spec(**changes)
