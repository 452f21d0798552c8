"""Comparison of a quantity of two runs: factor, difference, interval and verdict."""

import random

import pytest
from v6t.analysis.compare.comparison import RunComparison, _compare_result, summarize_comparison
from v6t.analysis.compare.effect import CONFIDENCE, MAX_REPETITIONS, estimate_factor, estimate_shift
from v6t.analysis.compare.likeness import _is_close, compare_records, compare_runs
from v6t.analysis.presentation import Quantity
from v6t.analysis.record import Record
from v6t.analysis.rundata import RunData
from v6t.benchmarks.flows import FlowsRecord

from .test_records import RATES

HUNDREDS = [100.0 + n for n in range(8)]


def compare(first, second, loads=("", ""), limited=(False, False), **options):
    options = {"more_is_better": True, **options}
    quantities = [
        Quantity("rate", "fps", values, load=load, limited=is_limited, **options)
        for values, load, is_limited in zip((first, second), loads, limited, strict=True)
    ]
    return _compare_result("other", ("throughput", "84/64", "forward"), *quantities, ())


@pytest.mark.parametrize("more_is_better", [True, False])
@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_improvement_follows_more_is_better(more_is_better, factor):
    result = compare(HUNDREDS, [factor * v for v in HUNDREDS], more_is_better=more_is_better)
    assert result.verdict == ("more" if factor > 1 else "less")
    assert result.improved is ((factor > 1) == more_is_better)
    assert ("better" if result.improved else "worse") in result.words
    assert result.words.startswith(f"{factor:.3g} times (")


@pytest.mark.parametrize(("factor", "limited", "improved"), [
    (0.5, (False, True), None), (0.5, (True, False), False),
    (2.0, (True, False), None), (2.0, (False, True), True),
])  # fmt: skip
def test_limited_run_is_not_worse(factor, limited, improved):
    """The result of a limited run is a lower bound of the device's rate."""
    result = compare(HUNDREDS, [factor * v for v in HUNDREDS], limited=limited)
    assert result.improved is improved and (result.verdict == "undecided") is (improved is None)


RECORD = {
    **{"benchmark": "throughput", "direction": "forward", "frame_sizes": {"ipv6": 84, "ipv4": 64}},
    **{"repetitions": 1, "trials": [], "invalid_trials": [], "conditions": {}},
}
THOUSAND, TWO_THOUSAND = ({"connections": {"count": count}} for count in (1000, 2000))


@pytest.mark.parametrize(("name", "values", "differing"), [
    ("conditions", [THOUSAND, THOUSAND], []),
    ("conditions", [THOUSAND, TWO_THOUSAND], ["connections"]),
    ("conditions", [THOUSAND, {}], ["connections"]),
    ("exchange", [{"object_octets": 64}, {"object_octets": 9000}], ["exchange"]),
    ("timeout_s", [1.0, 0.1], ["timeout s"]),
    ("title", ["Loss (adaptive, n=6)", "Loss (adaptive, n=47)"], []),
    ("title", ["Loss (adaptive, n=6)", "Loss"], ["title"]),
])  # fmt: skip
def test_records_with_different_settings_are_unlike(name, values, differing):
    differences = compare_records(*(Record(**{**RECORD, name: value}) for value in values))
    assert [d.what for d in differences] == differing


def test_flows_with_different_durations_are_unlike():
    flows = {"start": "together", "degradation_percent": None, "resolution_fps": 1.0}
    record = {"convention": "per_direction", "interval_s": 1.0}
    point = {**RATES, **flows, "flows": 1, "matched": None, "decisive_trials": []}
    records = (FlowsRecord(**RATES, **record, points=[{**point, "duration_s": s}]) for s in (60, 2))
    assert [d.what for d in compare_records(*records)] == ["duration s"]


def test_shares_are_compared_by_difference():
    first = [10.0 + n / 10 for n in range(8)]
    assert compare(first, [v + 5 for v in first], is_share=True).words.startswith("+5 fps (")


@pytest.mark.parametrize("lower", [True, False])
def test_no_difference_states_largest_possible_difference(lower):
    first, second = [100.0] * 4 + [101.0] * 4, [90.0] * 3 + [100.5] * 5
    result = compare(first, second) if lower else compare(second, first)
    assert result.verdict == "no difference" and result.improved is None
    least, most = 1 - result.effect.low, result.effect.high - 1
    assert (least > most) is lower
    assert f"no difference above {max(least, most):.1%}" in result.words


def test_summary_states_largest_possible_difference():
    same = compare(HUNDREDS, HUNDREDS)
    most = max(same.effect.high - 1, 1 - same.effect.low)
    summary = summarize_comparison(RunComparison(("one", "other"), (same,), (), {}))
    assert f"{most:.1%}" in summary
    in_units = compare(HUNDREDS, HUNDREDS, is_share=True)
    summary = summarize_comparison(RunComparison(("one", "other"), (same, in_units), (), {}))
    assert "above" not in summary


def test_words_agree_in_number_and_name_different_loads():
    assert compare([5.0], [5.0]).words.startswith("undecided: 1.00 times")
    assert "but one repetition per run" in compare([5.0], [2.5]).words
    assert "1 repetition" in compare([5.0], [None]).words
    assert "2 repetitions" in compare([None], [None]).words
    assert "5 fps and 6 fps" in compare(HUNDREDS, HUNDREDS, loads=("5 fps", "6 fps")).words
    assert "measured" not in compare(HUNDREDS, HUNDREDS, loads=("5 fps", "5 fps")).words


def test_conditions_within_one_percent_are_close():
    assert _is_close(1000.0, 1009.0)
    assert not _is_close(1000.0, 1020.0)
    assert not _is_close(1020.0, 1000)


def test_runs_over_different_media_are_unlike():
    config = {"plugin": "siit", "tester": {"kind": "embedded"}}
    runs = [RunData("run", {}, (), {**config, "line_rate_bps": r}, {}) for r in (1e9, 10e9)]
    (warning,) = compare_runs(*runs)
    assert str(warning).endswith(": 1000000000.0 and 10000000000.0")
    assert compare_runs(runs[0], runs[0]) == []


def draw_values(rng, count, middle):
    """Return values with a mixture of Gaussian and exponential noise."""
    noise = [rng.choice((rng.gauss(0, 1), rng.expovariate(1))) for _ in range(count)]
    return [middle * (1 + 0.01 * n) for n in noise]


@pytest.mark.parametrize("counts", [(4, 4), (6, 6), (20, 20), (20, 6)])
def test_interval_contains_true_factor_at_stated_confidence(counts):
    rng, contained = random.Random(8), 0
    for _ in range(400):
        first, second = (draw_values(rng, n, m) for n, m in zip(counts, (1e6, 5e5), strict=True))
        result = estimate_factor(first, second)
        assert result.coverage >= CONFIDENCE and result.low <= result.estimate <= result.high
        contained += result.low <= 0.5 <= result.high
    assert contained / 400 > CONFIDENCE - 0.03


def test_few_repetitions_give_little_coverage():
    assert estimate_factor([1.0, 2.0], [1.0, 2.0]).coverage == pytest.approx(2 / 3)
    assert estimate_factor([1.0], [2.0]).coverage == 0.0
    assert not estimate_factor([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]).is_covered


@pytest.mark.parametrize(("estimate", "middles", "resolutions", "interval"), [
    (estimate_factor, (100.0, 100.0), (), (1.0, 1.0, 1.0)),
    (estimate_factor, (100.0, 100.0), ((5.0, 10.0),), pytest.approx((1.0, 100 / 105, 1.1))),
    (estimate_shift, (0.0, 50.0), ((60.0, 10.0),), (50.0, -10.0, 60.0)),
])  # fmt: skip
def test_resolution_widens_interval(estimate, middles, resolutions, interval):
    result = estimate(*([middle] * 6 for middle in middles), *resolutions)
    assert (result.estimate, result.low, result.high) == interval


def test_values_without_positive_center_have_difference_instead_of_factor():
    assert estimate_factor([0.0, 1.0], [1.0, 1.0]) is None
    assert estimate_shift([0.0, 1.0], [2.0, 3.0]).estimate == 2.0
    assert estimate_shift([], [1.0]) is None


def test_difference_interval_excludes_extremes():
    """With 20 values in each run, the interval is symmetric and excludes the extreme differences."""
    rng = random.Random(9)
    first = [rng.gauss(100, 1) for _ in range(20)]
    result = estimate_shift(first, [value + 5 for value in first])
    assert result.low == pytest.approx(10 - result.high)  # symmetric about 5
    assert result.high < 5 + max(first) - min(first)


def test_comparison_of_many_repetitions_uses_the_first():
    first, second = [100.0] * MAX_REPETITIONS, [100.0] * 5
    result = estimate_factor([*first, *[1e9] * MAX_REPETITIONS], second)
    assert result.estimate == 1.0 and result == estimate_factor(first, second)
