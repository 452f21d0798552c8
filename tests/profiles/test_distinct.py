"""What is distinct in an array."""

from __future__ import annotations

import numpy as np
import pytest
from v6t.packets.distinct import distinct


@pytest.mark.parametrize("kind", [np.uint8, np.uint32, np.int64, np.uint64, np.float64])
@pytest.mark.parametrize("shape", [0, 1, 2, 1000, (7, 9)])
def test_as_numpy_says(kind, shape):
    values = np.random.default_rng(1).integers(0, 50, shape).astype(kind)
    found = distinct(values)
    assert found.dtype == kind
    assert np.array_equal(found, np.unique(values))


def test_equal_ones_are_one():
    assert distinct(np.full(5, 3)).tolist() == [3]
