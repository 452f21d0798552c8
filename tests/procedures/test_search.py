"""Searches over classes of devices: none ever reports a rate that did not pass."""

import importlib.util
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from v6t.procedures.search.binary import NEAR, ROUGH, binary_search
from v6t.procedures.throughput import Search, measure_throughput
from v6t.tests.procedures.support import Recorded, at, limited, searching, sim
from v6t.trials.verdict import Verdict

LIMIT = 3_141_592.0
RESOLUTION = 1000.0

INSTALLED = [
    s
    for s in get_args(Search)
    if s != "mlrsearch" or importlib.util.find_spec("MLRsearch") is not None
]

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


@pytest.mark.parametrize("search", INSTALLED)
@settings(max_examples=60, derandomize=True, deadline=None)
@given(seed=st.integers(0, 10**6), capacity=st.floats(2000.0, 12e6), device=DEVICES)
def test_what_is_reported_has_passed_a_full_trial(search, seed, capacity, device):
    door = Recorded(sim(seed, capacity_fps=capacity, **device).measure)
    result = measure_throughput(searching(search=search), door).repetitions[0]
    passed = [
        a.trial.rate_fps for a in result.attempts if a.verdict.passed and a.trial.duration_s >= 60.0
    ]
    assert result.rate_fps in [0.0, *passed]
    assert len(door.trials) < 150


@pytest.mark.parametrize("search", INSTALLED)
@settings(max_examples=40, derandomize=True, deadline=None)
@given(capacity=st.floats(2000.0, 9.9e6), buffer=st.integers(0, 10_000))
def test_a_steady_device_is_found_within_the_resolution(search, capacity, buffer):
    tester = sim(capacity_fps=capacity, buffer_frames=buffer)
    result = measure_throughput(searching(search=search), tester.measure).repetitions[0]
    truth = capacity + (buffer + 1) / 60  # what sixty seconds can hide
    assert truth - RESOLUTION - 1 <= result.rate_fps <= truth + 1
    if search != "mlrsearch":
        assert result.search.first_failed_fps - result.rate_fps <= RESOLUTION + 1e-6
        assert not result.search.hit_upper_bound


@pytest.mark.skipif("mlrsearch" not in INSTALLED, reason="MLRsearch is not installed")
def test_short_trials_wait_as_long_as_the_rfc_asks():
    door = Recorded(limited(LIMIT))
    measure_throughput(searching(at(pause_s=10.0), search="mlrsearch"), door)
    assert {t.pause_s for t in door.trials if t.duration_s < 60.0} == {5.0}
    assert {t.pause_s for t in door.trials if t.duration_s >= 60.0} == {10.0}


def test_a_replay_asks_for_the_same_trials():
    for search in INSTALLED:
        first = Recorded(sim(7, capacity_fps=LIMIT, capacity_noise=0.01).measure)
        measure_throughput(searching(search=search, repetitions=3), first)
        answers = {}
        for trial in first.trials:
            answers[trial.key] = trial
        again = Recorded(sim(7, capacity_fps=LIMIT, capacity_noise=0.01).measure)
        measure_throughput(searching(search=search, repetitions=3), again)
        assert [t.key for t in again.trials] == [t.key for t in first.trials]
        assert all(answers[t.key] == t for t in again.trials)
        assert len(answers) == len(first.trials)


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0)])
def test_bounds_must_be_positive(bounds):
    upper, resolution = bounds
    with pytest.raises(ValueError, match="positive"):
        binary_search(lambda *_: Verdict(True, True), upper_fps=upper, resolution_fps=resolution)


@pytest.mark.parametrize("search", INSTALLED)
@settings(max_examples=40, derandomize=True, deadline=None)
@given(capacity=st.floats(RESOLUTION / 50, 10 * RESOLUTION))
def test_a_device_far_below_the_resolution_has_a_rate_all_the_same(search, capacity):
    """And one that says more of it than the resolution would."""
    result = measure_throughput(searching(search=search), sim(capacity_fps=capacity).measure)
    (found,) = result.repetitions
    failed = found.search.first_failed_fps
    assert found.rate_fps <= capacity + 1 <= failed + 2
    assert failed - found.rate_fps <= min(RESOLUTION, failed / 8) * 1.01
    assert result.error_fps <= capacity / 6


@pytest.mark.parametrize("share", [NEAR, ROUGH])
@pytest.mark.parametrize("limit", [0.0, 0.2, 2.0, 30.0, 63.0, 100.0, 999.0])
def test_further_steps_only_where_the_device_is_slow(limit, share):
    tried = []

    def attempt(rate, _name):
        tried.append(rate)
        return Verdict(rate <= limit, True)

    found = binary_search(attempt, upper_fps=1024.0, resolution_fps=64.0, share=share)
    assert len(tried) == len(set(tried)) <= 5 + 8 + 3
    low, high = found.rate_fps, found.first_failed_fps
    assert low <= limit < high
    assert high - low <= min(64.0, high * share) or (not low and high <= 64 / 256)
    usual = [1024.0 * n / 16 for n in range(17)]
    assert (len(tried) == 5) is (high * share >= 64)
    assert low in usual or len(tried) > 5


def test_a_search_ends_soon_where_nothing_passes():
    for search in INSTALLED:
        door = Recorded(limited(0))
        result = measure_throughput(searching(search=search), door).repetitions[0]
        assert result.rate_fps == 0.0
        assert len(door.trials) < 40
