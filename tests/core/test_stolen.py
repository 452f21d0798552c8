"""CPU time that a hypervisor kept from the tester's machine: read around a trial, said beside the numbers."""

from __future__ import annotations

import re

import pytest
from v6t.core.runs import stolen
from v6t.core.runs.stolen import Stolen, share_of, words_on
from v6t.trials.result import TrialResult

BEFORE = "cpu  100 0 100 700 50 0 50 1000 7 7\ncpu0 1 2 3 4 5 6 7 8 9 10\n"
EMPTY = TrialResult(directions={}, tester={"forward": {"ring_drops": 3}})


def looked(monkeypatch, tmp_path, after, before=BEFORE):
    monkeypatch.setattr(stolen, "STAT", tmp_path / "stat")
    stolen.STAT.write_text(before)
    with Stolen() as kept:
        stolen.STAT.write_text(after)
    return kept


def test_a_share_of_all_time_guests_not_counted_twice(monkeypatch, tmp_path):
    kept = looked(monkeypatch, tmp_path, "cpu  130 0 120 720 50 0 60 1020 99 99\n")
    result = kept.added_to(EMPTY)
    assert result.tester == {"forward": {"ring_drops": 3}, "stolen": 0.2}
    assert share_of(result) == 0.2


@pytest.mark.parametrize("after", [BEFORE, "", "cpu 1 2 3\n"])
def test_nothing_is_said_where_the_kernel_says_nothing(monkeypatch, tmp_path, after):
    kept = looked(monkeypatch, tmp_path, after)
    assert kept.added_to(EMPTY) is EMPTY
    assert share_of(EMPTY) is None


def test_a_kernel_without_the_file(monkeypatch, tmp_path):
    monkeypatch.setattr(stolen, "STAT", tmp_path / "none")
    with Stolen() as kept:
        pass
    assert kept.share is None


def test_it_is_said_where_it_was_much():
    assert words_on([]) == words_on([0.0, 0.04, 0.005]) == []
    (usual,) = words_on([0.02, 0.02, 0.03])
    assert re.findall(r"\d+%", usual) == ["2%", "3%"]
    (moment,) = words_on([0.0, 0.0, 0.75])
    assert re.findall(r"\d+%", moment)[-1] == "75%"


def test_another_machines_time_is_not_looked_at(monkeypatch, tmp_path):
    monkeypatch.setattr(stolen, "STAT", tmp_path / "stat")
    stolen.STAT.write_text(BEFORE)
    with Stolen(look=False) as kept:
        stolen.STAT.write_text("cpu  130 0 120 720 50 0 60 1020 99 99\n")
    assert kept.added_to(EMPTY) is EMPTY
