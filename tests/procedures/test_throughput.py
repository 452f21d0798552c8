"""Throughput and its search methods."""

import importlib.util
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from v6t.benchmarks.throughput import make_search_record
from v6t.procedures import tester_rate
from v6t.procedures.repetition import AdaptiveLimits
from v6t.procedures.search.binary import FINE_SHARE, ROUGH_SHARE, binary_search, count_halvings
from v6t.procedures.throughput import SearchMethod, find_error_fps, measure_throughput
from v6t.trials.verdict import Verdict

from .support import Recorder, make_conditions, make_limited, make_sim, make_spec, make_tester

LIMIT = 3_141_592.0
RESOLUTION = 1000.0
SEARCHES = [
    s
    for s in get_args(SearchMethod)
    if s != "mlrsearch" or importlib.util.find_spec("MLRsearch") is not None
]
EVERY_SEARCH = pytest.mark.parametrize("search", SEARCHES)


def measure(spec, tester):
    """Measure a point; return its result and the recorded tester."""
    recorder = Recorder(getattr(tester, "measure", tester))
    return measure_throughput(spec, recorder), recorder


def make_record(result, recorder, capacity_fps=None):
    """Return the record of a point as JSON."""
    parts = {
        "tester_capacity": {"rate_fps": capacity_fps}, "procedure": {"selftest_margin": 0.1},
        "context": {"tester": SimpleNamespace(simulates=False)},
    }  # fmt: skip
    attributes = {name: SimpleNamespace(**values) for name, values in parts.items()}
    point = SimpleNamespace(find=recorder.find, run_conditions={}, **attributes)
    return make_search_record(point, result).to_json()


DEVICES = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"buffer_frames": st.integers(1, 20_000)}),
    st.fixed_dictionaries({"capacity_noise": st.floats(0.0001, 0.05)}),
    st.fixed_dictionaries({"bursts_per_s": st.floats(1 / 2000, 1 / 60)}),
    st.fixed_dictionaries({"loss_probability": st.floats(0.0, 0.5)}),
    st.fixed_dictionaries({"slow_probability": st.floats(0, 1), "slow_repetitions": st.booleans()}),
    st.fixed_dictionaries({"dead_zones": st.just(((1_000_000.0, 2_000_000.0),))}),
    st.just({"loss_curve": ((0.8, 0.0), (1.0, 1e-5), (1.2, 0.2))}),
)


@EVERY_SEARCH
@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), capacity=st.floats(2000.0, 12e6), device=DEVICES)
def test_reported_rate_has_passed_full_trial(search, seed, capacity, device):
    tester = make_sim(seed, capacity_fps=capacity, **device)
    result, recorder = measure(make_spec(search=search), tester)
    (repetition,) = result.repetitions
    trials = [attempt.trial for attempt in repetition.attempts if attempt.verdict.passed]
    passed = [trial.rate_fps for trial in trials if trial.duration_s >= 60.0]
    assert repetition.rate_fps in [0.0, *passed]
    assert len(recorder.trials) < 150


@EVERY_SEARCH
@settings(max_examples=40)
@given(capacity=st.floats(2000.0, 9.9e6), buffer=st.integers(0, 10_000))
def test_rate_of_steady_device_is_found_within_resolution(search, capacity, buffer):
    tester = make_sim(capacity_fps=capacity, buffer_frames=buffer)
    result, _ = measure(make_spec(search=search), tester)
    (repetition,) = result.repetitions
    expected_fps = capacity + (buffer + 1) / 60  # the buffer hides some overload of 60 s
    assert expected_fps - RESOLUTION - 1 <= repetition.rate_fps <= expected_fps + 1
    if search != "mlrsearch":
        assert repetition.search.first_failed_fps - repetition.rate_fps <= RESOLUTION + 1e-6
        assert not repetition.search.hit_upper_bound


@EVERY_SEARCH
@settings(max_examples=40)
@given(capacity=st.floats(RESOLUTION / 50, 10 * RESOLUTION))
def test_rate_far_below_resolution_is_found_more_exactly(search, capacity):
    result, _ = measure(make_spec(search=search), make_sim(capacity_fps=capacity))
    (repetition,) = result.repetitions
    failed = repetition.search.first_failed_fps
    assert repetition.rate_fps <= capacity + 1 <= failed + 2
    assert failed - repetition.rate_fps <= min(RESOLUTION, failed / 8) * 1.01
    assert find_error_fps(result) <= capacity / 6


@pytest.mark.skipif("mlrsearch" not in SEARCHES, reason="MLRsearch is not installed")
def test_short_trials_have_the_minimum_pause_of_rfc_2544():
    spec = make_spec(make_conditions(pause_s=10.0), search="mlrsearch")
    _, recorder = measure(spec, make_limited(LIMIT))
    assert {t.pause_s for t in recorder.trials if t.duration_s < 60.0} == {5.0}
    assert {t.pause_s for t in recorder.trials if t.duration_s >= 60.0} == {10.0}


@EVERY_SEARCH
def test_replayed_search_has_the_same_trials(search):
    spec, device = make_spec(search=search, repetitions=3), {"capacity_noise": 0.01}
    testers = [make_sim(7, capacity_fps=LIMIT, **device) for _ in range(2)]
    first, repeated = (measure(spec, tester)[1].trials for tester in testers)
    assert repeated == first
    assert len({t.key for t in first}) == len(first)


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0)])
def test_bounds_that_are_not_positive_are_refused(bounds):
    upper, resolution = bounds
    with pytest.raises(ValueError, match="positive"):
        binary_search(lambda *_: Verdict(True, True), upper_fps=upper, resolution_fps=resolution)
    result = binary_search(lambda *_: Verdict(True, True), upper_fps=2.0, resolution_fps=1.0)
    assert result.rate_fps == 2.0


@pytest.mark.parametrize("share", [FINE_SHARE, ROUGH_SHARE])
@pytest.mark.parametrize("limit", [0.0, 0.2, 2.0, 30.0, 63.0, 100.0, 999.0])
def test_binary_search_refines_low_rates_only(limit, share):
    tried = []

    def attempt(rate, _name):
        tried.append(rate)
        return Verdict(rate <= limit, True)

    outcome = binary_search(attempt, upper_fps=1024.0, resolution_fps=64.0, share=share)
    assert len(tried) == len(set(tried)) <= 5 + 8 + 3
    low, high = outcome.rate_fps, outcome.first_failed_fps
    assert low <= limit < high
    assert high - low <= min(64.0, high * share) or (not low and high <= 64 / 256)
    assert (len(tried) == 5) is (high * share >= 64)
    assert low in [1024.0 * n / 16 for n in range(17)] or len(tried) > 5


def test_hard_limit_is_found_within_resolution_in_few_steps():
    spec = make_spec()
    (repetition,) = measure(spec, make_limited(LIMIT))[0].repetitions
    assert LIMIT - spec.resolution_fps < repetition.rate_fps <= LIMIT
    passed = [step.rate_fps for step in repetition.search.steps if step.verdict.passed]
    assert repetition.rate_fps == max(passed)
    steps = math.ceil(math.log2(spec.upper_bound_fps / spec.resolution_fps))
    assert count_halvings(spec.upper_bound_fps, spec.resolution_fps) == steps
    assert len(repetition.search.steps) == steps + 1  # the halvings, and the upper bound


def test_device_without_loss_hits_the_upper_bound():
    result, recorder = measure(make_spec(), make_tester(lambda _, t: t.frames))
    assert result.repetitions[0].rate_fps == 10_000_000.0
    assert result.repetitions[0].search.hit_upper_bound
    assert make_record(result, recorder)["upper_bound_hit"] is True


@pytest.mark.parametrize(("tester", "capacity_fps", "flagged"), [
    (make_limited(4_750_000.0), 5_000_000.0, True),
    (make_limited(4_250_000.0), 5_000_000.0, False),
    # far below the tester capacity, but the device failed in no trial above the rate
    (make_sim(tester_fps=1e6, capacity_fps=1e12), 9_000_000.0, True),
    (make_sim(capacity_fps=1e6), 9_000_000.0, False),
])  # fmt: skip
def test_rate_limited_by_tester_is_flagged(tester, capacity_fps, flagged):
    result, recorder = measure(make_spec(), tester)
    assert make_record(result, recorder, capacity_fps=capacity_fps)["tester_limited"] is flagged
    assert tester_rate.compute_usable_rate(5_000_000.0, 0.1) == 4_500_000.0


def test_confirmation_failed_by_tester_only_is_flagged():
    def fail(trial):
        faults = ("late",) if "/c00-1/" in trial.key else ()
        return replace(make_limited(LIMIT)(trial), faults=faults)

    result, recorder = measure(make_spec(confirmations=1), fail)
    (repetition,) = result.repetitions
    assert repetition.rate_fps < repetition.search.rate_fps
    assert make_record(result, recorder, capacity_fps=1e9)["tester_limited"]


@pytest.mark.parametrize(("tester_fps", "low", "high"), [
    (1_000_000.0, 0.9e6, 1.02e6), (6_000.0, 5_000, 6_150), (10.0, -1, 0),
])  # fmt: skip
def test_tester_capacity_is_its_rate_without_device(tester_fps, low, high):
    spec = tester_rate.SelfTestSpec(104, 64, "forward", media_fps=10_000_000.0, refinements=6)
    capacity = tester_rate.measure_tester_capacity(spec, make_sim(tester_fps=tester_fps).measure)
    assert low < capacity.rate_fps <= high
    assert capacity.faults


def test_trial_with_missing_sent_frames_is_repeated_and_not_loss():
    (repetition,) = measure(make_spec(), make_sim(tester_fps=1e6, capacity_fps=1e12))[0].repetitions
    assert 999_000 < repetition.rate_fps <= 1_000_010
    invalid = [a for a in repetition.attempts if not a.verdict.valid]
    assert invalid
    assert all("sending took" in a.verdict.reasons[0] for a in invalid)
    assert all(a.verdict.loss["forward"] == 0.0 for a in invalid)


def test_confirmed_rate_has_passed_twice():
    spec = make_spec(confirmations=2)
    (repetition,) = measure(spec, make_sim(capacity_fps=LIMIT, bursts_per_s=1 / 600))[0].repetitions
    passed = [a for a in repetition.attempts if a.verdict.passed]
    assert sum(a.trial.rate_fps == repetition.rate_fps for a in passed) >= 3


def test_search_with_refuted_rates_descends_to_rate_that_passes_twice():
    def measure_worse(trial):  # the device is slower after the search
        is_search = trial.key.split("/")[4].startswith("s")
        return make_limited(50_000.0 if is_search else 20_000.0)(trial)

    spec = make_spec(upper_bound_fps=64_000.0, confirmations=1)
    (repetition,) = measure(spec, measure_worse)[0].repetitions
    assert repetition.search.rate_fps == 50_000.0
    assert repetition.rate_fps == 17_000.0  # 1, 3, 7 and 15 kfps below the lowest searched rate


@pytest.mark.parametrize(("duration_s", "further"), [(2.0, True), (40.0, True), (60.0, False)])
def test_final_trial_has_configured_duration(duration_s, further):
    spec = make_spec(duration_s=duration_s, final_duration_s=60.0)
    (repetition,) = measure(spec, make_sim(capacity_fps=LIMIT, buffer_frames=2500))[0].repetitions
    last = repetition.attempts[-1]
    assert last.trial.duration_s == 60.0
    assert (len(repetition.attempts) > spec.steps) is further
    assert last.verdict.passed or not further
    # the buffer hides 1250 fps of overload in 2 s, but only 42 fps in 60 s
    assert LIMIT - 10_000 < repetition.rate_fps <= LIMIT + 42


def test_descent_to_rate_of_long_trial_has_separate_keys():
    spec = make_spec(upper_bound_fps=64_000.0, duration_s=2.0, final_duration_s=60.0)
    result, recorder = measure(spec, make_limited(28_000, 33_000))
    (repetition,) = result.repetitions
    keys = [t.key for t in recorder.trials]
    assert len(set(keys)) == len(keys)
    final = [(t.key.split("/")[4], t.rate_fps) for t in recorder.trials if t.duration_s == 60.0]
    assert final[-5:] == [
        ("d01-final", 31_000), ("d02-final", 29_000), ("d03-final", 25_000),
        ("e01-final", 27_000), ("e02-final", 28_000),
    ]  # fmt: skip
    assert repetition.rate_fps == 28_000
    assert repetition.compute_error_fps(spec.resolution_fps) == 1_000


def test_progress_of_repeated_trial_has_its_verdict():
    progress, tries = [], iter([True, False])

    def fail_first(trial):
        result = make_limited(1e9)(trial)
        return replace(result, faults=("its ring overflowed",)) if next(tries) else result

    measure_throughput(make_spec(upper_bound_fps=1000.0), fail_first, progress.append)
    before, after = progress
    assert before.verdict is None
    assert after.verdict.passed and after.step == 1


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_rate_above_failed_rate_is_noted(noise):
    spec = make_spec(repetitions=20, confirmations=3)
    result, recorder = measure(spec, make_sim(capacity_fps=LIMIT, capacity_noise=noise))
    noted = [r for r in result.repetitions if r.passed_above_failure]
    assert bool(noted) is bool(noise)
    for repetition in noted:
        attempts = repetition.attempts
        passed_fps = max(a.trial.rate_fps for a in attempts if a.verdict.passed)
        assert any(a.trial.rate_fps <= passed_fps for a in attempts if not a.verdict.passed)
    assert make_record(result, recorder)["non_monotonic"] == len(noted)


@pytest.mark.parametrize(("width_fps", "unresolved"), [(1000.0, 0), (5000.0, 1)])
def test_unfinished_search_is_unresolved_in_record(width_fps, unresolved):
    result, recorder = measure(make_spec(), make_sim(capacity_fps=LIMIT))
    (repetition,) = result.repetitions
    search = replace(repetition.search, first_failed_fps=repetition.rate_fps + width_fps)
    result = replace(result, repetitions=(replace(repetition, search=search),))
    assert make_record(result, recorder)["unresolved"] == unresolved


def test_frame_timeout_selects_separate_benchmark():
    tester = {"capacity_fps": LIMIT, "tail_share": 0.05, "tail_us": 50_000.0}
    relaxed, recorder = measure(make_spec(make_conditions(frame_timeout_s=0.1)), make_sim(**tester))
    strict, _ = measure(make_spec(make_conditions(frame_timeout_s=0.01)), make_sim(**tester))
    assert relaxed.repetitions[0].rate_fps > LIMIT - 1000
    assert strict.repetitions[0].rate_fps == 0.0
    assert relaxed.spec.key_prefix == "throughput-frame-timeout/104/forward"
    entry = make_record(relaxed, recorder)
    assert entry["benchmark"] == "throughput-frame-timeout" and "100 ms" in entry["title"]


@pytest.mark.parametrize(("adaptive", "noise", "repetitions"), [
    (AdaptiveLimits(), 0.0, 6), (AdaptiveLimits(most=15, width=0.001), 0.05, 15),
])  # fmt: skip
def test_adaptive_repetition_stops_at_known_median(adaptive, noise, repetitions):
    spec = make_spec(adaptive=adaptive)
    result, _ = measure(spec, make_sim(capacity_fps=LIMIT, capacity_noise=noise))
    assert len(result.repetitions) == repetitions


def test_adaptive_repetition_has_at_least_six_repetitions():
    with pytest.raises(ValueError, match="at least 6"):
        AdaptiveLimits(fewest=5)
    assert not AdaptiveLimits().can_stop([1.0] * 5)
    assert AdaptiveLimits().can_stop([1.0] * 6)
