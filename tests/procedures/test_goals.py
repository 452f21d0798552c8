"""Definitions of RFC 9971: the example of the RFC, and a second implementation of its algorithms."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from v6t.procedures.search.goals import (
    Goal,
    ObservedTrial,
    classify_load,
    compute_conditional_throughput,
    find_goal_result,
)

LOAD = 1_000_000.0


def make_goal(final_s, sum_s, loss_percent, exceed_percent, name="goal", width=0.005):
    return Goal(name, loss_percent / 100, exceed_percent / 100, width, final_s, final_s, sum_s)


def make_trials(*groups):
    """Make trials from groups of ``(number, duration in s, loss in %)``."""
    each = ((s, percent / 100) for number, s, percent in groups for _ in range(number))
    return [ObservedTrial(LOAD, *trial) for trial in each]


RFC9971 = yaml.safe_load((Path(__file__).parent / "vectors" / "rfc9971.yaml").read_text())
GOALS = {name: make_goal(*numbers) for name, (*numbers, _code) in RFC9971["goals"].items()}
U, L, N = "upper", "lower", "undecided"


def test_rfc_goals_have_their_codes():
    assert [g.code for g in GOALS.values()] == [code for *_, code in RFC9971["goals"].values()]


@pytest.mark.parametrize("point", RFC9971["points"].values(), ids=RFC9971["points"])
def test_rfc_example_search_has_its_results(point):
    groups, classes, *ratios = point
    measured = make_trials(*groups)
    for goal, expected, low, high in zip(GOALS.values(), classes, *ratios, strict=True):
        assert classify_load(goal, measured) == classify_load(goal, measured[::-1]) == expected
        outcome = compute_ratios(goal, measured)
        assert [round(float(100 * r), 3) for r in outcome] == [low, high]


def sum_durations(goal, measured):
    """Return the durations of full and short trials with loss up to and above the goal's ratio."""
    full_low = full_high = short_low = short_high = Fraction(0)
    for trial in measured:
        duration_s = Fraction(str(trial.duration_s))
        is_full = trial.duration_s >= goal.final_trial_s
        is_high = trial.loss_ratio > goal.loss_ratio
        full_low += duration_s * (is_full and not is_high)
        full_high += duration_s * (is_full and is_high)
        short_low += duration_s * (not is_full and not is_high)
        short_high += duration_s * (not is_full and is_high)
    return full_low, full_high, short_low, short_high


def compute_ratios(goal, measured):
    """Return the optimistic and the pessimistic exceed ratio."""
    full_low, full_high, short_low, short_high = sum_durations(goal, measured)
    exceed = Fraction(str(goal.exceed_ratio))
    coefficient = exceed / (1 - exceed)
    effective_high = full_high + max(Fraction(0), short_high - short_low * coefficient)
    total = max(full_low + effective_high, Fraction(str(goal.duration_sum_s)))
    return effective_high / total, (total - full_low) / total


def classify_by_ratios(goal, measured):
    exceed = Fraction(str(goal.exceed_ratio))
    is_lower = tuple(ratio <= exceed for ratio in compute_ratios(goal, measured))
    return {(True, True): L, (False, False): U, (True, False): N}[is_lower]


def compute_conditional(goal, measured):
    """Return the conditional throughput, the load less the loss that the exceed ratio allows."""
    full_low, full_high, *_ = sum_durations(goal, measured)
    total = max(Fraction(str(goal.duration_sum_s)), full_low + full_high)
    required = total * (1 - Fraction(str(goal.exceed_ratio)))
    full = [t for t in measured if t.duration_s >= goal.final_trial_s]
    for ratio in sorted({t.loss_ratio for t in full}):
        duration_s = sum(Fraction(str(t.duration_s)) for t in full if t.loss_ratio <= ratio)
        if duration_s >= required:
            return LOAD * (1 - ratio)
    return 0.0


RATIOS = st.sampled_from([0.0, 0.001, 0.005, 0.0051, 0.5, 0.999, 1.0])
EXCEEDS = st.sampled_from([0.0, 0.1, 0.2, 0.25, 1 / 3, 0.5, 0.75, 0.9, 0.99])
DURATIONS = st.sampled_from([0.1, 0.3, 0.7, 1.0, 2.0, 3.0, 20.0, 60.0, 120.0])


@st.composite
def goals(draw):
    final, loss = draw(DURATIONS), draw(st.sampled_from([0.0, 0.001, 0.005, 0.5]))
    duration_sum_s = final * draw(st.sampled_from([1, 2, 3, 10]))
    return Goal("drawn", loss, draw(EXCEEDS), 0.005, final, final, duration_sum_s)


MEASURED = st.lists(st.builds(ObservedTrial, st.just(LOAD), DURATIONS, RATIOS), max_size=30)


@pytest.mark.slow
@settings(max_examples=200)
@given(goal=goals(), measured=MEASURED)
# three of six tenths of a second are exactly half, regardless of rounding
@example(goal=make_goal(0.1, 0.6, 0, 50), measured=make_trials((3, 0.1, 0), (3, 0.1, 1)))
@example(goal=make_goal(1, 10, 0, 10), measured=make_trials((9, 1, 0), (1, 1, 1)))
@example(goal=make_goal(1, 10, 0, 10), measured=make_trials((8, 1, 0), (2, 1, 1)))
@example(goal=make_goal(60, 60, 0, 0), measured=[])
def test_classification_follows_rfc(goal, measured):
    assert classify_load(goal, measured) == classify_by_ratios(goal, measured)


@pytest.mark.slow
@settings(max_examples=200)
@given(goal=goals(), measured=MEASURED.filter(bool))
def test_conditional_throughput_follows_rfc(goal, measured):
    expected = compute_conditional(goal, measured)
    assert compute_conditional_throughput(goal, LOAD, measured) == expected


RFC2544 = GOALS["RFC2544"]


@pytest.mark.parametrize(("goal", "trials", "lower", "upper", "conditional", "is_regular"), [
    (RFC2544, [(1000, 0.1), (900, 0), (904, 0.01), (800, 0)], 900, 904, 900, True),
    # loss inversion: the largest load without loss is above an upper bound
    (RFC2544, [(1000, 0.1), (900, 0), (804, 0.01), (800, 0)], 800, 804, 800, True),
    (RFC2544, [(1000, 0), (900, 0)], 1000, None, 1000, False),
    (RFC2544, [(1000, 0.1), (1, 0.1)], None, 1, None, False),
    (RFC2544, [(900, 0)], 900, None, 900, False),
    # bounds that are too far apart, except for a goal with a larger width
    (RFC2544, [(1000, 0.1), (900, 0)], 900, 1000, 900, False),
    (replace(RFC2544, width=0.1), [(1000, 0.1), (900, 0)], 900, 1000, 900, True),
], ids=["regular", "inversion", "max load", "no lower", "no upper", "wide", "wide allowed"])  # fmt: skip
def test_result_of_full_trials_has_the_relevant_bounds(
    goal, trials, lower, upper, conditional, is_regular
):
    observed = [ObservedTrial(float(load), goal.final_trial_s, loss) for load, loss in trials]
    result = find_goal_result(goal, observed, 1000.0)
    assert (result.lower_fps, result.upper_fps) == (lower, upper)
    assert result.conditional_fps == conditional
    assert result.rate_fps == (conditional or 0.0)
    assert (result.irregular == "") is is_regular


@pytest.mark.parametrize(("goal", "like"), [
    (make_goal(60, 60, 0, 0), "unconditionally"), (make_goal(59, 60, 0, 0), "conditionally"),
    (make_goal(60, 120, 0, 50), "not"), (make_goal(60, 60, 0.5, 0), "not"),
])  # fmt: skip
def test_compliance_of_goal_with_rfc_2544_is_classified(goal, like):
    assert goal.like_rfc2544 == like
