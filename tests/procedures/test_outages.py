"""Back-to-back frames, system recovery, reset."""

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
from v6t.tests.procedures.support import Recorded, at, by_rule, limited, one_way, sim

LINE = 10_000_000.0
BUFFERED = {"capacity_fps": 4e6, "buffer_frames": 4096}
WHOLE = by_rule(lambda _, trial: trial.frames)


def bursts(**changes):
    given = {
        "rate_fps": LINE, "rate_reason": "media", "throughput_fps": 4_000_000.0, "longest_s": 2.0,
        "resolution_frames": 1, "repetitions": 1, **changes,
    }  # fmt: skip
    return BurstSpec(at(residual_wait_s=2.0), **given)


def record_of_bursts(result):
    return BackToBack().make_measurement(result, None, {}).record.to_json()


@pytest.mark.parametrize("buffer", [1, 100, 4096, 1_000_000])
def test_corrected_buffer_time_equals_buffer(buffer):
    """The device has a buffer and a forwarding rate, as in the model of RFC 9004, section 3."""
    tester = sim(capacity_fps=4_000_000.0, buffer_frames=buffer)
    result = measure_back_to_back(bursts(repetitions=5), tester.measure)
    longest = buffer / (1 - 0.4)
    assert all(abs(r.frames - longest) < 3 for r in result.repetitions)
    time = result.buffer_time
    assert time.implied_s == pytest.approx(longest / LINE, abs=4 / LINE)
    assert time.corrected_s == pytest.approx(buffer / LINE, abs=3 / LINE)


@pytest.mark.parametrize(("frames", "rate_fps", "throughput_fps", "implied_s", "corrected_s"), [
    (26_000, 14_880_952, 7_440_476, 0.0017472, 0.0008736),
    (100, 10.0, 10.0, 10.0, 0.0),
    (100, 1000.0, 1500.0, 0.1, 0.0),  # a throughput above the burst rate, as rounding may have it
])  # fmt: skip
def test_buffer_time_follows_rfc_9004(frames, rate_fps, throughput_fps, implied_s, corrected_s):
    time = compute_buffer_time(frames, rate_fps, throughput_fps)
    assert time.implied_s == pytest.approx(implied_s, rel=1e-4)
    assert time.corrected_s == pytest.approx(corrected_s, rel=1e-4)


def test_deviation_is_sample_deviation():
    assert compute_deviation([2, 4, 4, 4, 5, 5, 7, 9]) == pytest.approx(2.13809, abs=1e-3)
    assert compute_deviation([5]) is None


def test_bursts_have_exact_numbers_of_frames():
    tester = Recorded(sim(**BUFFERED).measure)
    measure_back_to_back(bursts(), tester)
    lengths = [t.frames for t in tester.trials]
    for trial in tester.trials:
        assert trial.frames == round(trial.rate_fps * trial.duration_s)
        assert (trial.rate_fps, trial.residual_wait_s) == (LINE, 2.0)
    longest = bursts().max_frames
    assert lengths[0] == (longest + 1) // 2
    assert all(0 < frames <= longest for frames in lengths)


def test_burst_search_is_binary():
    """RFC 9004, section 6.2 with one verification: every burst halves the remaining range."""
    spec = bursts()
    tester = Recorded(by_rule(lambda _, t: t.frames - (t.frames > 123_456)))
    assert measure_back_to_back(spec, tester).repetitions[0].frames == 123_456
    lengths = list(dict.fromkeys(t.frames for t in tester.trials))
    low, high = 0, spec.max_frames + 1
    for frames in lengths:
        assert frames == (low + high) // 2
        low, high = (frames, high) if frames <= 123_456 else (low, frames)
    assert (low, high) == (123_456, 123_457)
    assert len(lengths) <= spec.steps + 1


def test_wait_is_as_long_as_long_burst():
    tester = Recorded(WHOLE)
    measure_back_to_back(bursts(longest_s=30.0, resolution_frames=10**6), tester)
    assert max(t.duration_s for t in tester.trials) > 20
    assert all(t.residual_wait_s == max(t.duration_s, 2.0) for t in tester.trials)


def test_burst_with_loss_is_repeated():
    seen = {}

    def unlucky_once(_, trial):
        seen[trial.frames] = seen.get(trial.frames, 0) + 1
        return trial.frames - (trial.frames > 5000 or seen[trial.frames] == 1)

    result = measure_back_to_back(bursts(), by_rule(unlucky_once))
    assert result.repetitions[0].frames == 5000


def test_record_of_bursts_has_average_and_deviation():
    tester = sim(**BUFFERED, capacity_noise=0.05)
    result = measure_back_to_back(bursts(repetitions=10), tester.measure)
    values = [r.frames for r in result.repetitions]
    entry = record_of_bursts(result)
    assert entry["average"] == sum(values) / 10
    assert entry["deviation"] == pytest.approx(compute_deviation(values))
    assert (entry["min"], entry["max"]) == (min(values), max(values))
    assert len(BackToBack().make_measurement(result, None, {}).rows) == 10
    json.dumps(entry, allow_nan=False)


def test_device_at_line_rate_has_no_burst_result():
    tester = Recorded(limited(LINE))
    entry = record_of_bursts(measure_back_to_back(bursts(throughput_fps=LINE), tester))
    assert tester.trials == []
    assert "no burst fills" in entry["not_measured"]
    assert entry["average"] is None


@pytest.mark.parametrize(("lost", "longest", "frames"), [(0, True, 10_000), (1, False, 0)])
def test_buffer_above_longest_burst_is_flagged(lost, longest, frames):
    tester = by_rule(lambda _, t: t.frames - lost)
    (repetition,) = measure_back_to_back(bursts(longest_s=0.001), tester).repetitions
    assert (repetition.hit_longest, repetition.frames) == (longest, frames)


def test_burst_that_the_tester_cannot_send_is_invalid():
    tester = sim(**BUFFERED, tester_fps=5e6)
    result = measure_back_to_back(bursts(repetitions=2), tester.measure)
    assert [(r.valid, r.hit_longest) for r in result.repetitions] == [(False, False)] * 2
    assert result.average_frames is None
    entry = record_of_bursts(result)
    assert "could not send" in entry["not_measured"]
    assert entry["invalid_repetitions"] == 2
    assert len(entry["invalid_trials"]) == len(entry["trials"]) == 2 * 2 * 3


@pytest.mark.parametrize("step", ["b001", "b002"])
def test_loss_without_valid_verification_decides_nothing(step):
    def falter(trial):
        result = one_way({"fg": (trial.frames, trial.frames - 1)})
        return replace(result, faults=("late",) if step in trial.key else ())

    result = measure_back_to_back(bursts(), falter)
    assert sorted(a.verdict.valid for a in result.attempts) == [False, False, False, True]
    assert result.bursts == ()


@pytest.mark.parametrize(("shortest", "found"), [(1, 300), (256, 300), (301, None), (2000, None)])
def test_bursts_have_at_least_the_shortest_provable_length(shortest, found):
    tester = Recorded(by_rule(lambda _, t: min(t.frames, 300)))
    result = measure_back_to_back(bursts(shortest_frames=shortest), tester)
    assert min(t.frames for t in tester.trials) >= shortest
    assert result.bursts == (() if found is None else (found,))
    if found is None:
        assert not result.repetitions[0].hit_longest
        assert f"{shortest:,}" in record_of_bursts(result)["not_measured"]


def recovery(**changes):
    given = {
        "throughput_fps": 1_000_000.0, "limit_fps": 1e7, "overload_s": 60.0, "afterwards_s": 60.0,
        "repetitions": 3, **changes,
    }  # fmt: skip
    return RecoverySpec(at("bidirectional"), **given)


def test_overload_is_followed_by_half_its_rate():
    """RFC 2544, section 26.5: a tenth above the throughput, and half of that afterwards."""
    tester = Recorded(sim(capacity_fps=1e6).measure)
    measure_recovery(recovery(repetitions=1), tester)
    (trial,) = tester.trials
    assert trial.rate_fps == pytest.approx(1.1e6)
    assert trial.second_segment.rate_fps == pytest.approx(0.55e6)
    assert trial.required_capabilities == {"two-rates", "loss-times"}


@pytest.mark.parametrize(
    ("limit_fps", "overload_fps", "is_limited"),
    [(1_050_000.0, 1_050_000.0, True), (1_099_999.0, 1_099_999.0, True), (5e6, 1_100_000.0, False)],
)
def test_overload_that_the_medium_does_not_carry_is_limited(limit_fps, overload_fps, is_limited):
    spec = recovery(limit_fps=limit_fps)
    assert spec.is_limited is is_limited
    assert spec.overload_fps == pytest.approx(overload_fps)
    result = measure_recovery(spec, sim(capacity_fps=1e6).measure)
    record = SystemRecovery().make_record(result, {})
    assert record.overload_limited is is_limited
    codes = [code for code, _ in SystemRecovery().find_warnings(record)]
    assert codes == ["limited-overload"] * is_limited


@pytest.mark.parametrize(("device", "average_s"), [({}, 0.0), ({"recovery_s": 1e6}, math.inf)])
def test_recovery_at_once_and_never_is_recorded(device, average_s):
    result = measure_recovery(recovery(), sim(capacity_fps=1e6, **device).measure)
    assert {r.recovery_s["forward"] for r in result.repetitions} == {average_s}
    entry = SystemRecovery().make_record(result, {}).to_json()
    assert entry["directions"]["forward"]["average"] == (None if average_s else 0.0)
    json.dumps(entry, allow_nan=False)


def test_device_without_loss_was_not_overloaded():
    result = measure_recovery(recovery(), sim(capacity_fps=2e6).measure)
    assert not any(r.overloaded["forward"] for r in result.repetitions)
    record = SystemRecovery().make_record(result, {})
    assert [code for code, _ in SystemRecovery().find_warnings(record)] == ["no-overload"] * 2


def reset(**changes):
    given = {
        "hook": "software-reset", "rate_fps": 100_000.0, "duration_s": 60.0, "at_s": 20.0,
        "repetitions": 3, **changes,
    }  # fmt: skip
    return ResetSpec(at(), **given)


def test_device_that_does_not_recover_has_infinite_outage():
    result = measure_reset(reset(), sim(capacity_fps=1e6, reset_s=1e6).measure)
    assert [outages["forward"].by_loss_s for outages in result.repetitions] == [math.inf] * 3
    entry = Reset().make_record(result, {}).to_json()
    assert entry["directions"]["forward"]["average"] is None


def fail_in_repetitions(*repetitions):
    """Make a tester that is late in these repetitions of one trial."""

    def measure(trial):
        is_late = int(trial.key.split("/r")[-1][:2]) in repetitions
        return replace(WHOLE(trial), faults=("late",) if is_late else ())

    return measure


@pytest.mark.parametrize(("invalid", "valid"), [((2,), 2), ((1, 2, 3), 0)])
def test_repetitions_with_tester_faults_do_not_count(invalid, valid):
    tester = fail_in_repetitions(*invalid)
    for record in (
        Reset().make_record(measure_reset(reset(), tester), {}),
        SystemRecovery().make_record(measure_recovery(recovery(), tester), {}),
    ):
        assert record.repetitions == valid == record.directions["forward"].count
        assert record.measured is (valid > 0)


def test_reset_table_shows_longest_silence():
    result = measure_reset(reset(), sim(capacity_fps=1e6, reset_s=1.5).measure)
    (row,) = Reset().make_main_table([Reset().make_record(result, {})]).rows
    assert float(row[-2]) == pytest.approx(1.5, abs=0.01)


def test_each_kind_of_reset_is_separate_benchmark():
    tester = Recorded(sim(capacity_fps=1e6, reset_s=1.0).measure)
    measure_reset(reset(hook="power-cycle", repetitions=1), tester)
    (trial,) = tester.trials
    assert trial.device_event.hook == "power-cycle"
    assert trial.key == "reset/104/forward/power-cycle/r01/a1"


def test_impossible_reset_is_refused():
    for changes in ({"hook": "kick"}, {"at_s": 60.0}):
        with pytest.raises(ValueError, match="unknown reset|not within"):
            reset(**changes)
