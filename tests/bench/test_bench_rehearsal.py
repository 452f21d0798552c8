"""A trial of a long rehearsal costs what one of a short one does, its report included."""

import cProfile
import csv
import pstats
from itertools import count

import pytest
from v6t.core.config.resolve import resolve
from v6t.core.config.run_setup import make_setup
from v6t.core.reporting import write
from v6t.core.runs import results, rundir
from v6t.core.runs.events import Listener
from v6t.core.runs.runner import execute

pytestmark = pytest.mark.slow

ONE, FOUR = (84,), (84, 128, 256, 512)


def rehearse(path, sizes):
    execute(
        make_setup(
            resolve(
                plugin="siit",
                preset="rfc",
                tester="sim",
                frame_sizes=sizes,
                benchmarks=("throughput", "frame-loss", "latency", "ipdv"),
                procedure={"repetitions": 1, "latency": {"tags": 100}},
            )
        ),
        path,
        Listener(),
    )
    # figures are as many as points, and would be three quarters of all calls
    write.write_run_report(path, figures="none")
    return len((path / rundir.JOURNAL).read_text().splitlines())


def calls_a_trial(path, sizes):
    """Count function calls in a trial, which do not depend on the machine's load."""
    profile = cProfile.Profile()
    trials = profile.runcall(rehearse, path, sizes)
    return pstats.Stats(profile).total_calls / trials


def test_a_trial_costs_the_same_in_a_campaign_of_four_times_as_many(tmp_path, monkeypatch):
    # how often results are written depends on the time that has passed: 1 ms for each look at it
    monkeypatch.setattr("time.monotonic", count(0.0, 0.001).__next__)
    rehearse(tmp_path / "warm", ONE)
    few, many = (calls_a_trial(tmp_path / str(len(s)), s) for s in (ONE, FOUR))
    assert many < 1.1 * few


def test_the_row_of_a_trial_is_made_once(tmp_path, monkeypatch):
    made = []
    of = results.list_trial_rows

    def counted(asked, result):
        made.append(asked["key"])
        return of(asked, result)

    monkeypatch.setattr(results, "list_trial_rows", counted)
    monkeypatch.setattr("time.monotonic", iter(range(10**6)).__next__)  # results at every point
    trials = rehearse(tmp_path / "run", ONE)
    assert len(made) == len(set(made)) == trials
    with (tmp_path / "run" / rundir.TRIALS).open(newline="") as table:
        assert list(dict.fromkeys(row["key"] for row in csv.DictReader(table))) == made
