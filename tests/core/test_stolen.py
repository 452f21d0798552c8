"""CPU steal time of the machine of the tester, read around each trial."""

import re

import pytest
from v6t.core.runs import trials
from v6t.core.runs.trials import find_steal_time, list_steal_time_warnings, with_steal_time
from v6t.trials.result import TrialResult

BEFORE = "cpu  100 0 100 700 50 0 50 1000 7 7\ncpu0 1 2 3 4 5 6 7 8 9 10\n"
AFTER = "cpu  130 0 120 720 50 0 60 1020 99 99\n"
EMPTY = TrialResult(directions={}, tester={"forward": {"ring_drops": 3}})


@pytest.fixture
def measure(monkeypatch, tmp_path):
    """Provide a function that measures a trial during which the file changes."""
    stat = tmp_path / "stat"
    monkeypatch.setattr(trials, "PROC_STAT", stat)

    def measured(before, after, **options):
        if before is not None:
            stat.write_text(before)

        def tester(trial):
            if after is not None:
                stat.write_text(after)
            return EMPTY

        return with_steal_time(tester, **options)(None)

    return measured


def test_steal_time_is_a_share_of_all_time_without_guests(measure):
    result = measure(BEFORE, AFTER)
    assert result.tester == {"forward": {"ring_drops": 3}, "stolen": 0.2}
    assert find_steal_time(result) == 0.2


@pytest.mark.parametrize(
    ("before", "after"), [(BEFORE, BEFORE), (BEFORE, ""), (BEFORE, "cpu 1 2 3\n"), (None, None)]
)
def test_steal_time_that_the_kernel_does_not_report_is_left_out(measure, before, after):
    assert measure(before, after) is EMPTY
    assert find_steal_time(EMPTY) is None


def test_steal_time_of_another_machine_is_not_read(measure):
    assert measure(BEFORE, AFTER, in_lab=False) is EMPTY


@pytest.mark.parametrize(
    ("shares", "percents"),
    [
        ([], []),
        ([0.0, 0.04, 0.005], []),
        ([0.02, 0.02, 0.03], ["2%", "3%"]),
        ([0.0, 0.0, 0.75], ["0%", "75%"]),
    ],
)
def test_considerable_steal_time_is_a_warning(shares, percents):
    assert re.findall(r"\d+%", " ".join(list_steal_time_warnings(shares))) == percents
