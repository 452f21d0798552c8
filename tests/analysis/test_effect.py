"""Factors and differences: intervals that hold the truth as often as they say."""

import random

import pytest
from v6t.analysis.compare.effect import CONFIDENCE, MAX_REPETITIONS, estimate_factor, estimate_shift


def noisy(rng, count, middle):
    """Return repetitions with noise of no particular form."""
    return [
        middle * (1 + 0.01 * rng.choice((rng.gauss(0, 1), rng.expovariate(1))))
        for _ in range(count)
    ]


@pytest.mark.parametrize("counts", [(4, 4), (6, 6), (20, 20), (20, 6)])
def test_the_interval_holds_the_true_factor_as_often_as_it_says(counts):
    rng = random.Random(8)
    held = 0
    for _ in range(400):
        result = estimate_factor(noisy(rng, counts[0], 1e6), noisy(rng, counts[1], 5e5))
        assert result.coverage >= CONFIDENCE
        assert result.low <= result.estimate <= result.high
        held += result.low <= 0.5 <= result.high
    assert held / 400 > CONFIDENCE - 0.03


def test_few_repetitions_give_little_coverage():
    assert estimate_factor([1.0, 2.0], [1.0, 2.0]).coverage == pytest.approx(2 / 3)
    assert estimate_factor([1.0], [2.0]).coverage == 0.0
    assert not estimate_factor([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]).is_covered


def test_the_resolution_widens_the_interval():
    sharp = estimate_factor([100.0] * 6, [100.0] * 6)
    assert (sharp.low, sharp.high) == (1.0, 1.0)
    coarse = estimate_factor([100.0] * 6, [100.0] * 6, (5.0, 10.0))
    assert (coarse.low, coarse.high) == (pytest.approx(100 / 105), pytest.approx(1.1))


def test_without_positive_values_there_is_no_factor_but_a_difference():
    assert estimate_factor([0.0, 1.0], [1.0, 1.0]) is None
    assert estimate_shift([0.0, 1.0], [2.0, 3.0]).estimate == 2.0
    assert estimate_shift([], [1.0]) is None


def test_the_interval_of_a_difference_leaves_out_both_ends():
    """20 against 20: as many differences are outside above as below, and more than the extreme ones."""
    rng = random.Random(9)
    first = [rng.gauss(100, 1) for _ in range(20)]
    result = estimate_shift(first, [value + 5 for value in first])
    assert result.low == pytest.approx(10 - result.high)  # symmetric about 5
    assert result.high < 5 + max(first) - min(first)


def test_of_very_many_repetitions_the_first_take_part():
    many = [100.0] * MAX_REPETITIONS + [1e9] * MAX_REPETITIONS
    assert estimate_factor(many, [100.0] * 5).estimate == 1.0
    assert estimate_factor(many, [100.0] * 5) == estimate_factor(
        many[:MAX_REPETITIONS], [100.0] * 5
    )
