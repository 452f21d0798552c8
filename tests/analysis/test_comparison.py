"""Comparison of one quantity of two runs: direction, uncertainty and undecided cases."""

import pytest
from v6t.analysis.compare.comparison import RunComparison, _compare_result, summarize_comparison
from v6t.analysis.compare.likeness import _is_close, compare_runs
from v6t.analysis.presentation import Quantity
from v6t.analysis.rundata import RunData

KEY = ("throughput", "84/64", "forward")


def line(first, second, **given):
    made = [Quantity("rate", "fps", values, given.get("more_is_better", True),
                     load=load, is_share=given.get("share", False))
            for values, load in zip((first, second), given.get("at", ("", "")), strict=True)]  # fmt: skip
    return _compare_result("other", KEY, *made, ())


@pytest.mark.parametrize("more_is_better", [True, False])
@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_more_is_an_improvement_where_more_is_better(more_is_better, factor):
    first = [100.0 + n for n in range(8)]
    result = line(first, [factor * v for v in first], more_is_better=more_is_better)
    assert result.verdict == ("more" if factor > 1 else "less")
    assert result.improved is ((factor > 1) == more_is_better)
    assert ("better" if result.improved else "worse") in result.words
    assert result.words.startswith(f"{factor:.3g} times (")


def test_a_share_differs_by_so_much_and_not_by_a_factor():
    first = [10.0 + n / 10 for n in range(8)]
    result = line(first, [v + 5 for v in first], share=True)
    assert result.words.startswith("+5 fps (")


@pytest.mark.parametrize("lower", [True, False])
def test_no_difference_says_how_much_there_could_be_either_way(lower):
    first, second = [100.0] * 4 + [101.0] * 4, [90.0] * 3 + [100.5] * 5
    result = line(first, second) if lower else line(second, first)
    assert result.verdict == "no difference"
    assert result.improved is None
    least, most = 1 - result.effect.low, result.effect.high - 1
    assert (least > most) is lower
    assert f"none above {max(least, most):.1%}" in result.words


def test_the_first_line_says_how_large_a_difference_could_be():
    values = [100.0 + n for n in range(8)]
    same = line(values, values)
    text = summarize_comparison(RunComparison(("one", "other"), (same,), (), {}))
    most = max(same.effect.high - 1, 1 - same.effect.low)
    assert f"{most:.1%}" in text
    in_units = line(values, values, share=True)
    assert "none above" not in summarize_comparison(
        RunComparison(("one", "other"), (same, in_units), (), {})
    )


def test_numbers_agree_with_their_nouns():
    assert line([5.0], [5.0]).words.startswith("undecided: 1.00 times")
    assert "1 repetition" in line([5.0], [None]).words
    assert "2 repetitions" in line([None], [None]).words


def test_loads_that_differ_are_said():
    values = [100.0 + n for n in range(8)]
    assert "5 fps and 6 fps" in line(values, values, at=("5 fps", "6 fps")).words
    assert "measured" not in line(values, values, at=("5 fps", "5 fps")).words


def test_one_per_cent_is_the_same_and_two_are_not():
    assert _is_close(1000.0, 1009.0)
    assert not _is_close(1000.0, 1020.0)
    assert not _is_close(1020.0, 1000)


def test_two_media_are_unlike():
    tester = {"kind": "embedded"}
    runs = [
        RunData("run", {}, (), {"plugin": "siit", "line_rate_bps": rate, "tester": tester}, {})
        for rate in (1e9, 10e9)
    ]
    (odd,) = compare_runs(*runs)
    assert str(odd).endswith(": 1000000000.0 and 10000000000.0")
    assert compare_runs(runs[0], runs[0]) == []
