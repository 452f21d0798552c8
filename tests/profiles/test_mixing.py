from math import gcd

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from v6t.profiles.compiler import schedule
from v6t.tests.expect import expect_error

WEIGHTS = st.lists(st.integers(0, 60), min_size=1, max_size=5).filter(any)


def test_weights_of_nine_to_one_are_exact_over_a_million_frames():
    assert schedule.count_frames([9, 1], 10**6) == [900_000, 100_000]
    assert np.bincount(schedule.list_classes([9, 1], 0, 10**6)).tolist() == [900_000, 100_000]
    assert schedule.find_starts([9, 1]) == [0, 5] and schedule.find_starts([1, 1, 1]) == [0, 1, 2]
    assert schedule.find_starts([0, 1]) == [0, 0]


@pytest.mark.parametrize("weights", [[7, 4, 1], [5, 3, 1], [3, 2], [8, 5], [30, 17]])
def test_classes_sent_at_constant_rates_have_the_order(weights):
    starts = schedule.find_starts(weights)
    sent = [(starts[c] + k * sum(weights) / w, c) for c, w in enumerate(weights) for k in range(w)]
    assert [c for _, c in sorted(sent)] == schedule.list_classes(weights, 0, sum(weights)).tolist()


@pytest.mark.parametrize(("weights", "distances"), [([9, 1], {10}), ([3, 2], {2, 3})])
def test_background_frames_are_evenly_spaced(weights, distances):
    places = np.flatnonzero(schedule.list_classes(weights, 0, 1000) == 1)
    assert set(np.diff(places)) == distances


@given(WEIGHTS, st.integers(0, 500))
def test_every_prefix_of_the_order_has_the_shares(weights, total):
    share = np.asarray(weights) * total / sum(weights)
    assert np.all(np.abs(np.asarray(schedule.count_frames(weights, total)) - share) <= len(weights))
    assert sum(schedule.count_frames(weights, total)) == total


@given(WEIGHTS, st.integers(0, 400), st.integers(0, 100))
def test_part_of_the_order_equals_that_part_of_the_whole(weights, first, count):
    classes, index = schedule.list_classes_with_index(weights, first, count)
    order = schedule.list_classes(weights, 0, first + count)
    assert classes.tolist() == order[first:].tolist()
    for place, (c, k) in enumerate(zip(classes, index, strict=True)):
        assert k == np.count_nonzero(order[: first + place] == c)
    counts = np.bincount(order, minlength=len(weights)).tolist()
    assert counts == schedule.count_frames(weights, first + count)


@given(WEIGHTS, st.integers(1, 9))
def test_order_repeats_and_depends_on_proportions_only(weights, factor):
    period = sum(weights) // gcd(*weights)
    order = schedule.list_classes(weights, 0, period).tolist()
    assert schedule.list_classes(weights, 7 * period, period).tolist() == order
    assert schedule.list_classes([w * factor for w in weights], 0, period).tolist() == order


@pytest.mark.parametrize(("weights", "frames", "code"), [
    ([], 1, "invalid-traffic-model"),
    ([0, 0], 1, "invalid-traffic-model"),
    ([-1, 2], 1, "invalid-traffic-model"),
    ([10**9 + 7, 1], 10, "out-of-range"),  # too long a period for the memory
    ([1], -1, "out-of-range"),
])  # fmt: skip
def test_invalid_shares_and_numbers_are_rejected(weights, frames, code):
    with expect_error(code):
        schedule.count_frames(weights, frames)
