"""Summaries, notes, and JSON without infinities."""

import json
import math

import pytest
from v6t.analysis.statistics import describe_repetitions, find_outliers, find_two_modes, summarize


def test_p99_of_many_is_not_the_largest():
    summary = summarize([float(n) for n in range(1, 201)])
    assert (summary["p1"], summary["p99"], summary["min"], summary["max"]) == (2, 198, 1, 200)


def test_dispersion():
    assert summarize([90.0, 100.0, 110.0])["dispersion"] == pytest.approx(20.0)
    assert summarize([0.0, 0.0])["dispersion"] is None


def test_undefined_is_none_in_json():
    summary = summarize([1.0, math.inf, math.inf])
    assert summary["median"] is None
    assert summary["min"] == 1.0
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert summarize([])["median"] is None
    interval = summarize([float(n) for n in range(20)])["median_interval"]
    assert interval["ranks"] == [6, 15]
    assert (interval["low"], interval["high"]) == (5.0, 14.0)


def test_two_modes_are_told():
    values = [100.0, 101, 99, 100, 102, 60, 61, 59, 60, 60]
    low, high = find_two_modes(values)
    assert max(low) == 61
    assert min(high) == 99
    assert any(
        "5 repetitions around 60 fps" in note for note in describe_repetitions(values, "fps")
    )


def test_one_mode_is_not_two():
    assert find_two_modes([100.0, 101, 99, 100, 102, 98]) is None
    assert find_two_modes([1.0, 1, 1, 1, 1, 1]) is None
    assert find_two_modes([100.0] * 19 + [50]) is None


def test_outliers_are_told():
    values = [100.0, 101, 99, 100, 102, 98, 150]
    assert find_outliers(values) == [150]
    assert any(note.endswith(": 150") for note in describe_repetitions(values))
    assert find_outliers([100.0] * 10 + [100.5]) == []
    assert find_outliers([100.0] * 10 + [90.0]) == [90.0]


def test_a_wide_spread_is_told():
    assert "20.0 %" in describe_repetitions([90.0, 95, 100, 100, 105, 110])[0]
    assert describe_repetitions([99.0, 100, 101, 100, 99, 101]) == []


def test_one_of_two_hundred_is_no_dispersion():
    """P99 and not the largest."""
    assert not any("dispersion" in note for note in describe_repetitions([100.0] * 199 + [150.0]))
    assert any("dispersion" in note for note in describe_repetitions([100.0] * 197 + [150.0] * 3))


def test_undefined_repetitions_are_counted():
    for values, share in (([math.inf, 1.0, 1.0], "1 of 3 "), ([math.inf], "1 of 1 ")):
        (note,) = describe_repetitions(values)
        assert note.startswith(share)
