"""Timelines of trials."""

import pytest
from v6t.trials.result import MAX_SENDING_SLOTS, choose_slot_s


@pytest.mark.parametrize(
    ("duration_s", "slot_s"), [(0.2, 0.01), (0.7, 0.02), (1, 0.02), (5, 0.1), (60, 1), (120, 2)]
)
def test_slot_length_is_round_and_limits_the_number_of_slots(duration_s, slot_s):
    assert choose_slot_s(duration_s) == slot_s
    assert duration_s / slot_s <= MAX_SENDING_SLOTS
