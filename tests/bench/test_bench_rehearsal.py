"""The cost of a trial, including the report, does not grow with the length of a simulated run."""

import cProfile
import csv
import pstats
from itertools import count

import pytest
from v6t.core.config.resolve import resolve_setup
from v6t.core.reporting import write
from v6t.core.runs import results, rundir
from v6t.core.runs.events import Listener
from v6t.core.runs.runner import execute

pytestmark = pytest.mark.slow

ONE_SIZE, FOUR_SIZES = (84,), (84, 128, 256, 512)


def simulate_run(path, sizes):
    setup = resolve_setup(
        plugin="siit", preset="rfc", tester="sim", frame_sizes=sizes,
        benchmarks=("throughput", "frame-loss", "latency", "ipdv"),
        procedure={"repetitions": 1, "latency": {"tags": 100}},
    )  # fmt: skip
    execute(setup, path, Listener())
    # without figures, which would make three quarters of all calls
    write.write_run_report(path, figures="none")
    return len((path / rundir.JOURNAL).read_text().splitlines())


def count_calls_per_trial(path, sizes):
    """Count function calls per trial, which do not depend on the machine's load."""
    profile = cProfile.Profile()
    trials = profile.runcall(simulate_run, path, sizes)
    return pstats.Stats(profile).total_calls / trials


def test_cost_per_trial_does_not_grow_with_number_of_trials(tmp_path, monkeypatch):
    # results are written at intervals: let each call advance the clock by 1 ms
    monkeypatch.setattr("time.monotonic", count(0.0, 0.001).__next__)
    simulate_run(tmp_path / "warm", ONE_SIZE)
    few, many = (count_calls_per_trial(tmp_path / str(len(s)), s) for s in (ONE_SIZE, FOUR_SIZES))
    assert many < 1.1 * few


def test_trial_row_is_made_once_per_trial(tmp_path, monkeypatch):
    keys, list_rows = [], results.list_trial_rows

    def count_row(trial, result):
        keys.append(trial["key"])
        return list_rows(trial, result)

    monkeypatch.setattr(results, "list_trial_rows", count_row)
    # the clock advances so fast that results are written at every point
    monkeypatch.setattr("time.monotonic", iter(range(10**6)).__next__)
    trials = simulate_run(tmp_path / "run", ONE_SIZE)
    assert len(keys) == len(set(keys)) == trials
    with (tmp_path / "run" / rundir.TRIALS).open(newline="") as table:
        assert list(dict.fromkeys(row["key"] for row in csv.DictReader(table))) == keys
