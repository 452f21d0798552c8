"""Throughput: acceptance tests A1, A2, A25 and the rules TP-02 to TP-09."""

import math
from dataclasses import replace

import pytest
from v6t.benchmarks.throughput import throughput_record
from v6t.procedures.repetition import Adaptive
from v6t.procedures.search.binary import halvings
from v6t.procedures.tester_rate import CapacitySpec, usable_fps
from v6t.procedures.tester_rate import tester_capacity as capacity_of
from v6t.procedures.throughput import measure_throughput
from v6t.tests.procedures.support import Recorded, at, by_rule, limited, searching, sim
from v6t.trials.order_statistics import MedianInterval

LIMIT = 3_141_592.0


def record(result, find, capacity_fps=None):
    return throughput_record(
        result, find, capacity_fps=capacity_fps, selftest_margin=0.1, conditions={}
    ).to_json()


def test_a1_a_hard_limit_is_found_from_below():
    spec = searching()
    result = measure_throughput(spec, limited(LIMIT)).repetitions[0]
    assert LIMIT - spec.resolution_fps < result.rate_fps <= LIMIT
    passed = [s.rate_fps for s in result.search.steps if s.verdict.passed]
    assert result.rate_fps == max(passed)
    steps = math.ceil(math.log2(spec.upper_bound_fps / spec.resolution_fps))
    assert halvings(spec.upper_bound_fps, spec.resolution_fps) == steps
    assert len(result.search.steps) == steps + 1  # and the upper bound itself


def test_a1_nothing_passes():
    assert measure_throughput(searching(), limited(0)).repetitions[0].rate_fps == 0.0


def test_a2_a_device_that_carries_everything_is_not_the_limit():
    result = measure_throughput(searching(), by_rule(lambda _, t: t.frames))
    assert result.repetitions[0].rate_fps == 10_000_000.0
    assert result.repetitions[0].search.hit_upper_bound
    find = {a.trial.key: by_rule(lambda _, t: t.frames)(a.trial)
            for a in result.repetitions[0].attempts}  # fmt: skip
    assert record(result, find.__getitem__)["upper_bound_hit"] is True


def test_a25_close_to_the_testers_own_capacity_is_flagged():
    tester = sim(tester_fps=1e9)
    for share, flagged in ((0.95, True), (0.85, False)):
        result = measure_throughput(searching(), limited(share * 5_000_000.0))
        find = {a.trial.key: tester.measure(a.trial) for r in result.repetitions
                for a in r.attempts}  # fmt: skip
        entry = record(result, find.__getitem__, capacity_fps=5_000_000.0)
        assert entry["tester_limited"] is flagged
    assert usable_fps(5_000_000.0, 0.1) == 4_500_000.0


def test_a25_the_capacity_is_what_the_tester_does_without_a_device():
    tester = sim(tester_fps=1_000_000.0)
    spec = CapacitySpec(104, 64, "forward", media_fps=10_000_000.0, refinements=6)
    capacity = capacity_of(spec, tester.measure)
    assert 0.9e6 < capacity.rate_fps <= 1.02e6


def test_under_sending_is_repeated_and_never_loss():
    tester = sim(tester_fps=1_000_000.0, capacity_fps=1e12)
    result = measure_throughput(searching(), tester.measure).repetitions[0]
    assert 999_000 < result.rate_fps <= 1_000_010
    invalid = [a for a in result.attempts if not a.verdict.valid]
    assert invalid
    assert all("sending took" in a.verdict.reasons[0] for a in invalid)
    assert all(a.verdict.loss["forward"] == 0.0 for a in invalid)


def test_a25_a_rate_that_only_the_tester_bounded_is_flagged():
    """Far below the self-test's capacity, but no trial above it was a device's failure."""
    for tester, flagged in (
        (sim(tester_fps=1_000_000.0, capacity_fps=1e12), True),
        (sim(capacity_fps=1_000_000.0), False),
    ):
        result = measure_throughput(searching(), tester.measure)
        trials = {a.trial.key: a.trial for a in result.repetitions[0].attempts}
        entry = record(
            result, lambda key, t=tester, by=trials: t.measure(by[key]), capacity_fps=9_000_000.0
        )
        assert entry["tester_limited"] is flagged


def test_a_confirmed_rate_has_passed_again():
    door = Recorded(sim(capacity_fps=LIMIT, bursts_per_s=1 / 600).measure)
    result = measure_throughput(searching(confirmations=2), door).repetitions[0]
    passes = [a for a in result.attempts
              if a.verdict.passed and a.trial.rate_fps == result.rate_fps]  # fmt: skip
    assert len(passes) >= 3


def test_a_final_trial_is_as_long_as_asked():
    spec = searching(duration_s=2.0, final_duration_s=60.0)
    result = measure_throughput(spec, sim(capacity_fps=LIMIT, buffer_frames=2500).measure)
    repetition = result.repetitions[0]
    decisive = repetition.attempts[-1]
    assert decisive.trial.duration_s == 60.0
    assert decisive.verdict.passed
    # two seconds hide 1250 fps of overload in the buffer, sixty seconds only 42
    assert repetition.rate_fps <= LIMIT + 42
    assert repetition.rate_fps > LIMIT - 10_000


def test_a_final_trial_a_little_longer_is_made_too():
    spec = searching(duration_s=40.0, final_duration_s=60.0)
    (repetition,) = measure_throughput(spec, limited(LIMIT)).repetitions
    assert repetition.attempts[-1].trial.duration_s == 60.0
    same = searching(duration_s=60.0, final_duration_s=60.0)
    (repetition,) = measure_throughput(same, limited(LIMIT)).repetitions
    assert len(repetition.attempts) == same.steps


def test_where_no_passed_rate_stands_lower_ones_are_tried_each_under_its_own_key():
    """A device that hides overload from short trials: only far below does a long one pass."""

    def received(_way, trial):
        limit = 33_000 if trial.duration_s < 60 else 28_000
        return min(trial.frames, int(limit * trial.duration_s))

    door = Recorded(by_rule(received))
    spec = searching(upper_bound_fps=64_000.0, duration_s=2.0, final_duration_s=60.0)
    (repetition,) = measure_throughput(spec, door).repetitions
    keys = [t.key for t in door.trials]
    assert len(set(keys)) == len(keys)
    descent = [(t.key.split("/")[4], t.rate_fps) for t in door.trials if "/d" in t.key]
    assert descent == [("d01-final", 31_000), ("d02-final", 29_000), ("d03-final", 25_000)]
    between = [(t.key.split("/")[4], t.rate_fps) for t in door.trials if "/e" in t.key]
    assert between == [("e01-final", 27_000), ("e02-final", 28_000)]
    assert repetition.rate_fps == 28_000
    assert repetition.error_fps(spec.resolution_fps) == 1_000


def test_the_descent_does_not_step_over_what_is_left():
    """Queues hide a tenfold overload from short trials: the long one passes far below, and not nowhere."""

    def received(_way, trial):
        limit = 33_000 if trial.duration_s < 60 else 3_000
        return min(trial.frames, int(limit * trial.duration_s))

    spec = searching(
        upper_bound_fps=64_000.0, resolution_fps=4_000.0, duration_s=2.0, final_duration_s=60.0
    )
    result = measure_throughput(spec, by_rule(received))
    (repetition,) = result.repetitions
    assert 2_500 < repetition.rate_fps <= 3_000
    assert result.error_fps < 500


def test_who_watches_is_told_how_the_last_attempt_ended():
    said = []
    tries = iter([True, False])

    def falters(trial):
        result = limited(1e9)(trial)
        return replace(result, faults=("its ring overflowed",)) if next(tries) else result

    at_once = searching(upper_bound_fps=1000.0)
    measure_throughput(at_once, falters, said.append)
    before, after = said
    assert before.verdict is None
    assert after.verdict.passed
    assert after.step == 1


def test_a_middle_of_nothing_has_no_relative_width():
    assert MedianInterval(-1.0, 1.0, 0.95, (1, 6)).relative_width is None
    assert MedianInterval(1.0, float("inf"), 0.95, (1, 6)).relative_width is None
    assert MedianInterval(9.0, 11.0, 0.95, (1, 6)).relative_width == pytest.approx(0.2)


def test_a_tester_slower_than_the_first_rate_has_its_capacity():
    spec = CapacitySpec(104, 64, "forward", media_fps=10_000_000.0, refinements=6)
    capacity = capacity_of(spec, sim(tester_fps=6_000.0).measure)
    assert 5_000 < capacity.rate_fps <= 6_150
    assert capacity.faults
    assert capacity_of(spec, sim(tester_fps=10.0).measure).rate_fps == 0.0


def test_a_rate_above_a_failed_one_is_noted():
    spec = searching(repetitions=20, confirmations=3)
    steady = measure_throughput(spec, sim(capacity_fps=LIMIT).measure)
    assert not any(r.non_monotonic for r in steady.repetitions)
    varying = sim(capacity_fps=LIMIT, capacity_noise=0.05)
    result = measure_throughput(spec, varying.measure)
    noted = [r for r in result.repetitions if r.non_monotonic]
    assert noted
    for r in noted:
        passed = max(a.trial.rate_fps for a in r.attempts if a.verdict.passed)
        assert any(a.trial.rate_fps <= passed for a in r.attempts if not a.verdict.passed)
    find = {a.trial.key: varying.measure(a.trial) for r in result.repetitions for a in r.attempts}
    assert record(result, find.__getitem__)["non_monotonic"] == len(noted)


def test_a_search_that_gave_up_is_said():
    tester = sim(capacity_fps=LIMIT)
    result = measure_throughput(searching(), tester.measure)
    (whole,) = result.repetitions
    wide = replace(whole.search, first_failed_fps=whole.rate_fps + 5000)
    find = {a.trial.key: tester.measure(a.trial) for a in whole.attempts}
    assert record(result, find.__getitem__)["unresolved"] == 0
    given_up = replace(result, repetitions=(replace(whole, search=wide),))
    assert record(given_up, find.__getitem__)["unresolved"] == 1


def test_a_deadline_for_frames_is_another_benchmark():
    tester = sim(capacity_fps=LIMIT, tail_share=0.05, tail_us=50_000.0)
    relaxed = measure_throughput(searching(at(frame_timeout_s=0.1)), tester.measure)
    strict = measure_throughput(searching(at(frame_timeout_s=0.01)), tester.measure)
    assert relaxed.repetitions[0].rate_fps > LIMIT - 1000
    assert strict.repetitions[0].rate_fps == 0.0
    assert relaxed.spec.key_prefix == "throughput-frame-timeout/104/forward"
    find = {a.trial.key: tester.measure(a.trial) for a in relaxed.repetitions[0].attempts}
    entry = record(relaxed, find.__getitem__)
    assert entry["benchmark"] == "throughput-frame-timeout"
    assert "100 ms" in entry["title"]


def test_adaptive_repetition_stops_when_the_median_is_known():
    steady = measure_throughput(searching(adaptive=Adaptive()), sim(capacity_fps=LIMIT).measure)
    assert len(steady.repetitions) == 6
    noisy = measure_throughput(
        searching(adaptive=Adaptive(most=15, width=0.001)),
        sim(capacity_fps=LIMIT, capacity_noise=0.05).measure,
    )
    assert len(noisy.repetitions) == 15


def test_adaptive_repetition_is_never_fewer_than_six():
    with pytest.raises(ValueError, match="at least 6"):
        Adaptive(fewest=5)
    assert not Adaptive().can_stop([1.0] * 5)
    assert Adaptive().can_stop([1.0] * 6)
