"""Delay distributions: ranks over frames, buckets, IPDV."""

import math
from itertools import pairwise
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from v6t.drivers.delays import compute_ipdv, make_distribution, round_to_buckets
from v6t.trials.delays import Distribution
from v6t.trials.order_statistics import percentile

VALUES = st.lists(st.integers(-10, 2**45), min_size=1, max_size=200)
SEQUENCES = st.lists(st.one_of(st.none(), st.integers(0, 10**7)), min_size=2, max_size=200)


def round_all(values):
    return round_to_buckets(np.array(values, dtype=np.int64)).tolist()


@given(st.integers(-(2**50), 2**50))
def test_bucket_is_close_to_the_value(value):
    bucket, mirrored = round_all([value, -value])
    assert abs(bucket - value) <= abs(value) / 2**11
    assert mirrored == -bucket


@given(st.integers(0, 2**11 - 1))
def test_bucket_of_small_value_is_exact(value):
    assert round_all([value]) == [value]


@given(VALUES, st.sampled_from([0, 1, 50, 99, 99.9, 100]))
def test_ranks_equal_those_of_values(values, percent):
    delays = Distribution.from_values(values)
    assert delays.frames == len(values)
    assert delays.percentile_ns(percent) == percentile(values, percent)
    assert delays.median_ns() == median(values)
    assert (delays.minimum_ns, delays.maximum_ns) == (min(values), max(values))


@given(VALUES, st.integers(0, 50))
def test_lost_frames_rank_as_infinitely_late(values, lost):
    delays = Distribution.from_values(values, lost=lost)
    ranked = [*values, *[math.inf] * lost]
    assert delays.median_ns() == median(ranked)
    assert delays.percentile_ns(99.9) == percentile(ranked, 99.9)
    assert delays.percentile_ns(99.9, include_lost=False) == percentile(values, 99.9)


def test_median_of_even_number_is_mean_of_the_middle_values():
    assert Distribution((1, 2, 4, 10), (1, 1, 1, 1)).median_ns() == 3.0


def test_empty_distribution_is_undefined():
    empty = Distribution((), (), lost=3)
    assert math.isinf(empty.median_ns())
    assert math.isinf(empty.minimum_ns)
    with pytest.raises(ValueError, match="percentile 101"):
        empty.percentile_ns(101)


def test_merge_adds_counts():
    parts = Distribution((1, 2), (1, 1), lost=1, clamped=2), Distribution((2, 3), (1, 1), lost=4)
    merged = Distribution.merge(parts)
    assert merged == Distribution((1, 2, 3), (1, 2, 1), lost=5, clamped=2)


def test_merge_without_parts_is_empty():
    assert Distribution.merge([]) == Distribution((), ())


@given(VALUES)
def test_arrays_give_the_same_buckets(values):
    clamped = [max(0, v) for v in values]
    assert make_distribution(np.array(values, dtype=np.int64), lost=2) == Distribution.from_values(
        round_all(clamped), lost=2, clamped=sum(v < 0 for v in values)
    )


@given(SEQUENCES, st.randoms(use_true_random=False))
def test_ipdv_does_not_depend_on_the_order_of_arrival(sequence, chance):
    arrived = [i for i, delay in enumerate(sequence) if delay is not None]
    chance.shuffle(arrived)
    delays = [sequence[i] for i in arrived]
    pairs = [(a, b) for a, b in pairwise(sequence) if a is not None and b is not None]
    lost = len(sequence) - 1 - len(pairs)
    assert compute_ipdv(
        np.array(arrived, dtype=np.int64), np.array(delays, dtype=np.int64), len(sequence)
    ) == Distribution.from_values(round_all([b - a for a, b in pairs]), lost=lost)


def test_ipdv_uses_the_first_of_duplicates():
    seq, times = np.array([0, 1, 1, 2]), np.array([5, 7, 100, 6])
    assert compute_ipdv(seq, times, 3) == Distribution((-1, 2), (1, 1))


def test_number_of_values_does_not_grow_with_frames():
    chance = np.random.default_rng(1)
    few = make_distribution(chance.integers(20_000, 1_000_000, 100_000))
    more = make_distribution(chance.integers(20_000, 1_000_000, 1_000_000))
    assert len(more.values_ns) < 1.1 * len(few.values_ns)
    assert len(more.values_ns) < 6 * 1024
