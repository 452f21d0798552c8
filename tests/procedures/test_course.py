"""Trials over their time: how they are kept."""

from __future__ import annotations

import json

import pytest
from v6t.trials.course import SLOTS, Course, DeviceLoad, slot_s
from v6t.trials.trial import (
    ClassCount,
    DirectionResult,
    TrialResult,
    result_from_json,
    result_to_json,
)


@pytest.mark.parametrize(
    ("sending_s", "slot"), [(0.2, 0.01), (0.7, 0.02), (1, 0.02), (5, 0.1), (60, 1), (120, 2)]
)
def test_slots_are_few_and_round(sending_s, slot):
    assert slot_s(sending_s) == slot
    assert sending_s / slot <= SLOTS


def test_a_course_is_kept_exactly_and_in_little_room():
    received = (1000, 1001) * 20 + (400, 0, 1600) + (1000, 1001) * 8 + (1000,)
    lost = (0,) * 41 + (600, 1000) + (0,) * 17
    course = Course(1.0, received, lost)
    written = json.dumps(course.to_json(), separators=(",", ":"))
    assert Course.from_json(json.loads(written)) == course
    assert len(written) < 300
    even = Course(1.0, (1000,) * 60, (0,) * 60).to_json()
    assert even == {"slot_s": 1.0, "received": [60, 1000], "lost": [60, 0]}
    assert Course.from_json(Course(1.0, (), ()).to_json()) == Course(1.0, (), ())
    # a loss in a slot after the last arrival is not cut off
    dead = Course(0.1, (5, 5), (0, 0, 5, 5))
    assert Course.from_json(dead.to_json()) == dead


@pytest.mark.parametrize("packed", [[2, 5, 1, 1, 1], [-1, 0], [10**9, 0], [3]])
def test_a_damaged_course_is_none(packed):
    with pytest.raises(ValueError, match="slots|unpack"):
        Course.from_json({"slot_s": 1.0, "received": packed, "lost": [0, 0]})


def test_a_result_keeps_courses_and_load_and_does_without():
    counted = DirectionResult({"fg": ClassCount("foreground", 9, 9, 8)}, 1.0)
    plain = TrialResult({"forward": counted})
    assert "course" not in json.dumps(result_to_json(plain))
    assert "device" not in result_to_json(plain)
    assert result_from_json(result_to_json(plain)) == plain
    told = TrialResult(
        {"forward": DirectionResult(counted.classes, 1.0, course=Course(0.5, (4, 4), (0, 1)))},
        device={"router": DeviceLoad((1.0, 2.1), (97, 100), (50, 51))},
    )
    assert result_from_json(json.loads(json.dumps(result_to_json(told)))) == told
