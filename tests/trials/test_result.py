"""Timelines and counts of trials."""

from dataclasses import replace

import pytest
from v6t.analysis.csv_rows import list_trial_rows
from v6t.trials.result import (
    MAX_SENDING_SLOTS,
    ClassCount,
    DirectionResult,
    TrialResult,
    choose_slot_s,
    sum_classes,
)


@pytest.mark.parametrize(
    ("duration_s", "slot_s"), [(0.2, 0.01), (0.7, 0.02), (1, 0.02), (5, 0.1), (60, 1), (120, 2)]
)
def test_slot_length_is_round_and_limits_the_number_of_slots(duration_s, slot_s):
    assert choose_slot_s(duration_s) == slot_s
    assert duration_s / slot_s <= MAX_SENDING_SLOTS


def test_frames_whose_order_was_not_seen_have_no_count_of_it():
    seen = ClassCount("foreground", 5, 5, 4, out_of_order=2)
    unseen = replace(seen, out_of_order=None)
    sums = sum_classes([("a", seen), ("a", seen), ("b", seen), ("b", unseen)])
    assert [(c.received, c.out_of_order) for c in sums.values()] == [(8, 4), (8, None)]
    result = TrialResult({"forward": DirectionResult(sums, 1.0)})
    rows = list_trial_rows({"key": "k", "rate_fps": 10, "duration_s": 1}, result)
    assert [row["out_of_order"] for row in rows] == [4, ""]
