"""Distributions of delays: ranks over frames, buckets, JSON."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from v6t.analysis.statistics import median, percentile
from v6t.drivers import delays
from v6t.trials.delays import Distribution, bucket_ns, differences
from v6t.trials.trial import (
    ClassCount,
    DirectionResult,
    TrialResult,
    result_from_json,
    result_to_json,
)

VALUES = st.lists(st.integers(-10, 2**45), min_size=1, max_size=200)
SEQUENCES = st.lists(st.one_of(st.none(), st.integers(0, 10**7)), min_size=2, max_size=200)


@given(st.integers(-(2**50), 2**50))
def test_a_bucket_is_close_to_its_values(value):
    assert abs(bucket_ns(value) - value) <= abs(value) / 2**11
    assert bucket_ns(-value) == -bucket_ns(value)


@given(st.integers(0, 2**11 - 1))
def test_small_values_are_exact(value):
    assert bucket_ns(value) == value


@given(VALUES, st.sampled_from([0, 1, 50, 99, 99.9, 100]))
def test_ranks_are_those_of_the_values(values, percent):
    whole = Distribution.of(values)
    assert whole.frames == len(values)
    assert whole.percentile_ns(percent) == percentile(values, percent)
    assert whole.median_ns() == median(values)
    assert (whole.minimum_ns, whole.maximum_ns) == (min(values), max(values))


@given(VALUES, st.integers(0, 50))
def test_lost_frames_rank_as_infinitely_late(values, lost):
    whole = Distribution.of(values, lost=lost)
    ranked = [*values, *[math.inf] * lost]
    assert whole.median_ns() == median(ranked)
    assert whole.percentile_ns(99.9) == percentile(ranked, 99.9)
    assert whole.percentile_ns(99.9, with_lost=False) == percentile(values, 99.9)


def test_nothing_measured_is_undefined():
    empty = Distribution((), (), lost=3)
    assert math.isinf(empty.median_ns())
    assert math.isinf(empty.minimum_ns)
    with pytest.raises(ValueError, match="percentage"):
        empty.percentile_ns(101)


@given(VALUES, VALUES)
def test_merging_is_counting_together(first, second):
    merged = Distribution.of(first, lost=1, clamped=2).merged(Distribution.of(second, lost=4))
    assert merged == Distribution.of([*first, *second], lost=5, clamped=2)


@given(VALUES)
def test_arrays_give_the_same_buckets(values):
    ours = delays.distribution(np.array(values, dtype=np.int64), lost=2)
    clamped = [max(0, v) for v in values]
    theirs = Distribution.of(map(bucket_ns, clamped), lost=2, clamped=sum(v < 0 for v in values))
    assert ours == theirs


@given(SEQUENCES, st.randoms(use_true_random=False))
def test_differences_do_not_depend_on_the_order_of_arrival(sequence, chance):
    arrived = [i for i, delay in enumerate(sequence) if delay is not None]
    chance.shuffle(arrived)
    ours = delays.differences(
        np.array(arrived, dtype=np.int64),
        np.array([sequence[i] for i in arrived], dtype=np.int64),
        len(sequence),
    )
    assert ours == differences(sequence)
    assert ours.frames + ours.lost == len(sequence) - 1


def test_of_a_duplicate_the_first_arrival_counts():
    seq, times = np.array([0, 1, 1, 2]), np.array([5, 7, 100, 6])
    assert delays.differences(seq, times, 3) == differences([5, 7, 6])


def test_merge_of_no_parts_is_empty():
    assert delays.merge([]) == Distribution((), ())
    parts = [Distribution.of([1, 2]), Distribution.of([2, 3], lost=1)]
    assert delays.merge(parts) == Distribution.of([1, 2, 2, 3], lost=1)


def test_memory_does_not_grow_with_frames():
    chance = np.random.default_rng(1)
    few = delays.distribution(chance.integers(20_000, 1_000_000, 100_000))
    more = delays.distribution(chance.integers(20_000, 1_000_000, 1_000_000))
    assert len(more.values_ns) < 1.1 * len(few.values_ns)
    assert len(more.values_ns) < 6 * 1024


def test_json_round_trip():
    times = Distribution.of([5, 5, 7], lost=1, clamped=1)
    counted = DirectionResult(
        {"fg": ClassCount("foreground", 4, 4, 3)},
        1.0,
        delays={"fg": times},
        ipdv={"fg": differences([5, 5, None, 7])},
        first_lost_s=0.5,
        last_lost_s=0.5,
        longest_gap_s=0.25,
        behaviour={"outer ECN: zero": 3},
    )
    result = TrialResult({"forward": counted})
    assert result_from_json(result_to_json(result)) == result


def test_results_without_delays_are_written_as_before():
    counted = DirectionResult({"fg": ClassCount("foreground", 4, 4, 3)}, 1.0)
    written = result_to_json(TrialResult({"forward": counted}))["directions"]["forward"]
    assert not {
        "behaviour",
        "delays",
        "ipdv",
        "first_lost_s",
        "last_lost_s",
        "longest_gap_s",
    } & set(written)
