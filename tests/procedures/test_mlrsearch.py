"""MLRsearch with several goals: bounds from the same trials, irregular results and replays."""

from dataclasses import replace
from importlib.util import find_spec

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from v6t.procedures.mlrsearch import MlrSpec, measure_mlrsearch
from v6t.procedures.search.goals import Goal
from v6t.procedures.search.mlr import SUPPORTED_VERSION, TrialCounts, run_search

from .support import Recorder, make_conditions, make_limited, make_sim, make_tester

# the package is not imported during collection, because that takes a second
MISSING = find_spec("MLRsearch") is None
pytestmark = pytest.mark.skipif(MISSING, reason="needs the package MLRsearch")

LIMIT = 3_141_592.0
NDR = Goal("NDR", 0.0, 0.0, 0.005, 2.0, 60.0, 60.0)
PDR = replace(NDR, name="PDR", loss_ratio=0.005)
CSIT = Goal("CSIT", 0.005, 0.5, 0.005, 1.0, 1.0, 21.0)
TST009 = Goal("TST009", 0.0, 0.5, 0.005, 60.0, 60.0, 120.0)
GOALS = (NDR, PDR, CSIT, TST009)


def search(tester, *goals, mode="forward", **changes):
    fields = {
        "goals": goals, "min_load_fps": 1000.0, "max_load_fps": 10_000_000.0, "max_load_reason": "media",
        "repetitions": 1, **changes,
    }  # fmt: skip
    spec = MlrSpec(conditions=make_conditions(mode), **fields)
    return measure_mlrsearch(spec, tester).repetitions[0]


@settings(max_examples=30)
@given(capacity=st.floats(20_000.0, 9.9e6), seed=st.integers(0, 9999))
def test_results_of_a_steady_device_are_regular(capacity, seed):
    results = search(make_sim(seed, capacity_fps=capacity).measure, NDR, PDR).results
    for result, loss_ratio in zip(results, (0.0, 0.005), strict=True):
        assert result.irregular == ""
        expected_fps = capacity / (1 - loss_ratio)
        assert result.lower_fps <= expected_fps + 1 < result.upper_fps + 2
        assert result.upper_fps - result.lower_fps <= 0.005 * result.upper_fps * (1 + 1e-9)
        assert capacity * 0.99 <= result.conditional_fps <= expected_fps + 1
    assert results[0].lower_fps <= results[1].lower_fps


DEVICES = [
    {"capacity_noise": 0.01}, {"bursts_per_s": 1 / 60}, {"loss_probability": 0.001}, {"buffer_frames": 20_000},
    {"dead_zones": ((1_000_000.0, 2_000_000.0),)}, {"loss_curve": ((0.8, 0.0), (1.0, 1e-3), (1.2, 0.2))},
]  # fmt: skip


@settings(max_examples=25)
@given(seed=st.integers(0, 9999), device=st.sampled_from(DEVICES))
def test_bounds_equal_those_of_library(seed, device):
    repetition = search(make_sim(seed, **{"capacity_fps": LIMIT, **device}).measure, *GOALS)
    loads = {attempt.trial.rate_fps for attempt in repetition.attempts}
    library_results = search_with_library(repetition, GOALS)
    for result in repetition.results:
        assert loads >= {result.lower_fps, result.upper_fps} - {None}
        expected = library_results[result.goal.name]
        bounds = expected.relevant_lower_bound, expected.relevant_upper_bound
        assert (result.lower_fps, result.upper_fps) == tuple(b and float(b) for b in bounds)
        if result.conditional_fps:
            assert result.conditional_fps == pytest.approx(float(expected.conditional_throughput))


def search_with_library(repetition, goals):
    """Return the results of the MLRsearch package for the same trials."""
    import MLRsearch

    answers = iter(repetition.attempts)

    class Replay(MLRsearch.AbstractMeasurer):
        def measure(self, intended_duration, intended_load):
            attempt = next(answers)
            trial = attempt.trial
            assert (trial.duration_s, trial.rate_fps) == (intended_duration, intended_load)
            lost = round(sum(attempt.verdict.loss.values()) * trial.frames)
            return MLRsearch.MeasurementResult(
                intended_duration, intended_load, offered_count=trial.frames, loss_count=lost
            )

    config = MLRsearch.Config()
    config.goals = requested = [
        MLRsearch.SearchGoal(
            g.loss_ratio, g.exceed_ratio, g.width, g.initial_trial_s, g.final_trial_s,
            g.duration_sum_s, fail_fast=False,
        )
        for g in goals
    ]  # fmt: skip
    config.min_load, config.max_load = 1000.0, 10_000_000.0
    config.warmup_duration = None
    outcome = MLRsearch.MultipleLossRatioSearch(config=config).search(Replay())
    assert next(answers, None) is None
    return {g.name: outcome[a] for g, a in zip(goals, requested, strict=True)}


@pytest.mark.parametrize(("limit", "choose", "bound"), [(LIMIT, max, 5e6), (0, min, 2e4)])
def test_no_load_outside_limits_is_offered(limit, choose, bound):
    tester = Recorder(make_limited(limit))
    search(tester, *GOALS, min_load_fps=20_000.0, max_load_fps=5_000_000.0)
    assert choose(t.rate_fps for t in tester.trials) == bound
    assert len(tester.trials) < 60 or limit


@pytest.mark.parametrize(("limit", "bounds"), [(2e7, (1e7, None, 1e7)), (0, (None, 1000.0, None))])
def test_results_outside_load_limits_are_irregular(limit, bounds):
    results = search(make_limited(limit), *GOALS).results
    assert all(r.irregular for r in results)
    assert {(r.lower_fps, r.upper_fps, r.conditional_fps) for r in results} == {bounds}


@pytest.mark.parametrize("cause", ["fault", "surplus"])
def test_invalid_trial_fails_for_every_goal(cause):
    def measure(trial):
        result = make_limited(1e9)(trial)
        if trial.rate_fps <= 2e6:
            return result
        if cause == "fault":
            return replace(result, faults=("the tester's rings dropped frames",))
        directions = {
            name: replace(d, classes={"fg": replace(d.classes["fg"], surplus=1)})
            for name, d in result.directions.items()
        }
        return replace(result, directions=directions)

    for result in search(measure, *GOALS).results:
        assert result.lower_fps <= 2e6 < result.upper_fps and result.irregular == ""


def test_loss_ratio_covers_both_directions():
    """RFC 9971, section 4.5.6: loss of 0.8 % in one direction is 0.4 % of all frames."""

    def received(direction, trial):
        return trial.frames - (trial.frames // 125 if direction == "reverse" else 0)

    both = search(make_tester(received), PDR, mode="bidirectional").results[0]
    assert (both.lower_fps, both.upper_fps) == (1e7, None)
    assert search(make_tester(received), PDR, mode="reverse").results[0].lower_fps is None


def test_surplus_of_one_direction_does_not_hide_loss_of_the_other():
    def received(direction, trial):
        surplus = trial.frames // 2
        return trial.frames + (surplus if direction == "forward" else -surplus)

    assert search(make_tester(received), PDR, mode="bidirectional").results[0].lower_fps is None


def test_goals_with_the_same_attributes_have_the_same_result():
    single, double = (Recorder(make_sim(3, capacity_fps=LIMIT).measure) for _ in range(2))
    search(single, NDR)
    first, second = search(double, NDR, replace(NDR, name="again")).results
    assert len(double.trials) == len(single.trials)
    assert replace(second, goal=NDR) == first


@pytest.mark.parametrize("loads", [(0.0, 1.0), (2.0, 1.0), (1.0, 1.0)])
def test_impossible_loads_are_refused(loads):
    low, high = loads
    with pytest.raises(ValueError, match="below the largest"):
        run_search(lambda *_: TrialCounts(1, 0, True), [NDR], min_load_fps=low, max_load_fps=high)


def test_library_version_is_that_of_rfc():
    import importlib.metadata

    assert importlib.metadata.version("MLRsearch") == SUPPORTED_VERSION == "1.2.1"
