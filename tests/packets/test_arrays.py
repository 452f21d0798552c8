import numpy as np
import pytest
from v6t.packets.arrays import count_unique, sort_unique


@pytest.mark.parametrize("kind", [np.uint8, np.uint32, np.int64, np.uint64, np.float64])
@pytest.mark.parametrize("shape", [0, 1, 2, 1000, (7, 9)])
def test_sort_unique_equals_numpy(kind, shape):
    values = np.random.default_rng(1).integers(0, 50, shape).astype(kind)
    unique = sort_unique(values)
    assert unique.dtype == kind
    assert np.array_equal(unique, np.unique(values))


def test_count_unique_equals_numpy():
    values = np.random.default_rng(1).integers(0, 50, 1000)
    counted = zip(count_unique(values), np.unique(values, return_counts=True), strict=True)
    assert all(np.array_equal(result, expected) for result, expected in counted)
