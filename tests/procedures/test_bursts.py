"""Back-to-back frames, system recovery, reset."""

import json
import math

import pytest
from v6t.benchmarks.back_to_back import burst_record, burst_rows
from v6t.benchmarks.outages import recovery_record, reset_record
from v6t.procedures.back_to_back import BurstSpec, buffer_time, deviation, measure_back_to_back
from v6t.procedures.recovery import RecoverySpec, measure_recovery
from v6t.procedures.reset import ResetSpec, measure_reset
from v6t.tests.procedures.support import Recorded, at, by_rule, limited, sim

LINE = 10_000_000.0


def bursts(**changes):
    given = {
        **{"rate_fps": LINE, "rate_reason": "media", "throughput_fps": 4_000_000.0},
        **{"longest_s": 2.0, "resolution_frames": 1, "repetitions": 5},
        **changes,
    }
    return BurstSpec(at(residual_wait_s=2.0), **given)


@pytest.mark.parametrize("buffer", [1, 100, 4096, 1_000_000])
def test_the_corrected_buffer_time_is_the_buffer(buffer):
    """A device of a buffer and a forwarding rate: the model of RFC 9004 section 3."""
    tester = sim(capacity_fps=4_000_000.0, buffer_frames=buffer)
    result = measure_back_to_back(bursts(), tester.measure)
    longest = buffer / (1 - 0.4)
    assert all(abs(r.frames - longest) < 3 for r in result.repetitions)
    time = result.buffer_time
    assert time.implied_s == pytest.approx(longest / LINE, abs=4 / LINE)
    assert time.corrected_s == pytest.approx(buffer / LINE, abs=3 / LINE)


def test_formula_of_rfc_9004():
    time = buffer_time(26_000, 14_880_952, 7_440_476)
    assert time.implied_s == pytest.approx(0.0017472, rel=1e-4)
    assert time.corrected_s == pytest.approx(time.implied_s / 2)
    assert buffer_time(100, 10.0, 10.0).corrected_s == 0.0


def test_no_buffer_is_negative():
    """A throughput above the burst rate, as rounding may have it."""
    assert buffer_time(100, 1000.0, 1500.0).corrected_s == 0.0


def test_deviation_is_that_of_a_sample():
    assert deviation([2, 4, 4, 4, 5, 5, 7, 9]) == pytest.approx(2.138, abs=1e-3)
    assert deviation([5]) is None


def test_bursts_have_exactly_so_many_frames():
    door = Recorded(sim(capacity_fps=4e6, buffer_frames=4096).measure)
    measure_back_to_back(bursts(repetitions=1), door)
    for trial in door.trials:
        assert trial.frames == round(trial.rate_fps * trial.duration_s)
        assert trial.rate_fps == LINE
        assert trial.residual_wait_s == 2.0
    lengths = [t.frames for t in door.trials]
    longest = bursts().most_frames
    assert lengths[0] == (longest + 1) // 2
    assert all(0 < frames <= longest for frames in lengths)


def test_the_search_is_binary():
    """RFC 9004 section 6.2 with one verification: every burst halves what is left."""
    spec = bursts(repetitions=1)
    told = Recorded(by_rule(lambda _, t: t.frames - (t.frames > 123_456)))
    assert measure_back_to_back(spec, told).repetitions[0].frames == 123_456
    low, high = 0, spec.most_frames + 1
    for frames in dict.fromkeys(t.frames for t in told.trials):
        assert frames == (low + high) // 2
        low, high = (frames, high) if frames <= 123_456 else (low, frames)
    assert (low, high) == (123_456, 123_457)
    assert len(dict.fromkeys(t.frames for t in told.trials)) <= spec.steps + 1


def test_long_bursts_are_waited_for_as_long():
    told = Recorded(by_rule(lambda _, t: t.frames))
    measure_back_to_back(bursts(longest_s=30.0, repetitions=1, resolution_frames=10**6), told)
    assert max(t.duration_s for t in told.trials) > 20
    assert all(
        t.residual_wait_s == (t.duration_s if t.duration_s > 2 else 2.0) for t in told.trials
    )


def test_a_burst_that_loses_is_offered_again():
    seen = {}

    def unlucky_once(way, trial):
        seen[trial.frames] = seen.get(trial.frames, 0) + 1
        lost = trial.frames > 5000 or seen[trial.frames] == 1
        return trial.frames - lost

    result = measure_back_to_back(bursts(repetitions=1), by_rule(unlucky_once))
    assert result.repetitions[0].frames == 5000


def test_the_average_is_reported():
    tester = sim(capacity_fps=4e6, buffer_frames=4096, capacity_noise=0.05)
    result = measure_back_to_back(bursts(repetitions=10), tester.measure)
    values = [r.frames for r in result.repetitions]
    entry = burst_record(result, refused=None, conditions={}).to_json()
    assert entry["average"] == sum(values) / 10
    assert entry["deviation"] == pytest.approx(deviation(values))
    assert (entry["min"], entry["max"]) == (min(values), max(values))
    assert len(burst_rows(result)) == 10
    json.dumps(entry, allow_nan=False)


def test_a_device_at_line_rate_has_no_such_result():
    door = Recorded(limited(LINE))
    result = measure_back_to_back(bursts(throughput_fps=LINE), door)
    assert door.trials == []
    entry = burst_record(result, refused=None, conditions={}).to_json()
    assert "no burst fills" in entry["not_measured"]
    assert entry["average"] is None


def test_a_buffer_larger_than_searched_is_said():
    result = measure_back_to_back(
        bursts(longest_s=0.001, repetitions=1), by_rule(lambda _, t: t.frames)
    )
    assert result.repetitions[0].hit_longest
    assert result.repetitions[0].frames == 10_000


def test_nothing_passes():
    result = measure_back_to_back(bursts(repetitions=1), by_rule(lambda _, t: t.frames - 1))
    assert result.repetitions[0].frames == 0


def test_bursts_the_tester_could_not_send_say_nothing_about_the_device():
    tester = sim(capacity_fps=4e6, buffer_frames=4096, tester_fps=5e6)
    result = measure_back_to_back(bursts(repetitions=2), tester.measure)
    assert [(r.valid, r.hit_longest) for r in result.repetitions] == [(False, False)] * 2
    assert result.average_frames is None
    entry = burst_record(result, refused=None, conditions={}).to_json()
    assert "could not send" in entry["not_measured"]
    assert entry["invalid_repetitions"] == 2
    assert len(entry["invalid_trials"]) == len(entry["trials"]) == 2 * 2 * 3


@pytest.mark.parametrize(("shortest", "found"), [(1, 300), (256, 300), (301, None), (2000, None)])
def test_no_burst_is_shorter_than_what_can_be_proven(shortest, found):
    """A buffer of 300 frames."""
    seen = []

    def buffer(_, trial):
        seen.append(trial.frames)
        return min(trial.frames, 300)

    spec = bursts(repetitions=1, shortest_frames=shortest)
    result = measure_back_to_back(spec, by_rule(buffer))
    assert min(seen) >= shortest
    assert result.bursts == (() if found is None else (found,))
    if found is None:
        assert not result.repetitions[0].hit_longest
        entry = burst_record(result, refused=None, conditions={}).to_json()
        assert f"{shortest:,}" in entry["not_measured"]


def recovery(**changes):
    given = {
        **{"throughput_fps": 1_000_000.0, "limit_fps": 1e7, "overload_s": 60.0},
        **{"afterwards_s": 60.0, "repetitions": 3},
        **changes,
    }
    return RecoverySpec(at("bidirectional"), **given)


def test_the_simulated_devices_recovery_is_found():
    spec = recovery()
    tester = sim(capacity_fps=1_000_000.0, recovery_s=0.25)
    result = measure_recovery(spec, tester.measure)
    for repetition in result.repetitions:
        for way in ("forward", "reverse"):
            assert repetition.recovery_s[way] == pytest.approx(0.25, abs=1.01 * spec.resolution_s)
            assert repetition.overloaded[way]
    entry = recovery_record(result, conditions={}).to_json()
    assert entry["directions"]["forward"]["average"] == pytest.approx(0.25, abs=1e-4)
    assert entry["overload"] == pytest.approx(1_100_000.0)


def test_the_overload_is_followed_by_half_of_it():
    door = Recorded(sim(capacity_fps=1e6).measure)
    measure_recovery(recovery(repetitions=1), door)
    (trial,) = door.trials
    assert trial.rate_fps == pytest.approx(1.1e6)
    assert trial.second_segment.rate_fps == pytest.approx(0.55e6)
    assert trial.required_capabilities == {"two-rates", "loss-times"}


def test_an_overload_the_medium_does_not_carry_is_said():
    spec = recovery(limit_fps=1_050_000.0)
    assert spec.limited
    assert spec.overload_fps == 1_050_000.0
    result = measure_recovery(spec, sim(capacity_fps=1e6).measure)
    assert recovery_record(result, conditions={}).to_json()["overload_limited"] is True


def test_a_device_that_recovers_at_once_and_one_that_never_does():
    at_once = measure_recovery(recovery(), sim(capacity_fps=1e6).measure)
    assert at_once.average_s("forward") == 0.0
    never = measure_recovery(recovery(), sim(capacity_fps=1e6, recovery_s=1e6).measure)
    assert math.isinf(never.average_s("forward"))
    entry = recovery_record(never, conditions={}).to_json()
    assert entry["directions"]["forward"]["average"] is None
    json.dumps(entry, allow_nan=False)


def test_without_loss_there_was_no_overload():
    result = measure_recovery(recovery(), sim(capacity_fps=2e6).measure)
    assert not any(r.overloaded["forward"] for r in result.repetitions)


def reset(**changes):
    given = {
        **{"hook": "software-reset", "rate_fps": 100_000.0, "duration_s": 60.0, "at_s": 20.0},
        **{"repetitions": 3},
        **changes,
    }
    return ResetSpec(at(), **given)


def test_the_simulated_devices_reset_is_found():
    result = measure_reset(reset(), sim(capacity_fps=1e6, reset_s=3.5).measure)
    for repetition in result.repetitions:
        outage = repetition.outages["forward"]
        assert outage.by_loss_s == pytest.approx(3.5, abs=1e-4)
        assert outage.by_silence_s == pytest.approx(3.5, abs=1e-4)
    entry = reset_record(result, conditions={}).to_json()
    assert entry["directions"]["forward"]["average"] == pytest.approx(3.5, abs=1e-4)


def test_a_device_that_does_not_come_back():
    result = measure_reset(reset(), sim(capacity_fps=1e6, reset_s=1e6).measure)
    assert result.by_loss_s("forward") == (math.inf,) * 3
    assert reset_record(result, conditions={}).to_json()["directions"]["forward"]["average"] is None


def test_each_kind_of_reset_is_a_benchmark_of_its_own():
    door = Recorded(sim(capacity_fps=1e6, reset_s=1.0).measure)
    measure_reset(reset(hook="power-cycle", repetitions=1), door)
    assert door.trials[0].device_event.hook == "power-cycle"
    assert door.trials[0].key == "reset/104/forward/power-cycle/r01/a1"
    with pytest.raises(ValueError, match="unknown reset"):
        reset(hook="kick")
    with pytest.raises(ValueError, match="not within"):
        reset(at_s=60.0)
