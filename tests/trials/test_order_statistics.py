"""Order statistics (RFC 2330, section 11.3)."""

import pytest
from v6t.trials.order_statistics import compute_median_interval, find_nearest_rank, percentile


@pytest.mark.parametrize(("percent", "count", "rank"), [
    (0, 3, 1), (1, 20, 1), (99, 20, 20), (1, 200, 2), (99, 200, 198), (100, 3, 3),
    (99.9, 50_000, 49_950),
])  # fmt: skip
def test_nearest_rank_of_percentile(percent, count, rank):
    assert find_nearest_rank(percent, count) == rank


def test_percentile_sorts_its_values():
    assert [percentile([3.0, 1.0, 2.0], p) for p in (0, 50, 100)] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(("values", "percent"), [([], 1), ([1.0], 101)])
def test_missing_values_and_wrong_percentages_are_rejected(values, percent):
    with pytest.raises(ValueError, match="percentile"):
        percentile(values, percent)


@pytest.mark.parametrize(("count", "ranks", "coverage"), [
    (6, (1, 6), 0.96875), (10, (2, 9), 0.9785), (20, (6, 15), 0.9586),
])  # fmt: skip
def test_median_interval_ranks_and_coverage(count, ranks, coverage):
    interval = compute_median_interval([float(n) for n in range(1, count + 1)])
    assert interval.ranks == ranks
    assert (interval.low, interval.high) == ranks
    assert interval.coverage == pytest.approx(coverage, abs=1e-4)


def test_median_interval_of_few_values_does_not_exist():
    assert compute_median_interval([1.0] * 5) is None
