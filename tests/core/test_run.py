"""Complete runs with the simulated tester: results, resume and faults."""

import pytest
from v6t.analysis.warnings import list_run_warnings
from v6t.base.errors import BeyondTester
from v6t.benchmarks.registry import load_presentations
from v6t.core.config.resolve import resolve
from v6t.core.runs.events import Listener
from v6t.core.runs.results import make_results_document, read_results
from v6t.core.runs.runner import resume
from v6t.drivers.sim.tester import SimTester
from v6t.tests.core.support import count_new_trials, measure_run, simulate
from v6t.tests.expect import expect_error

pytestmark = pytest.mark.slow

KEYS = [
    *("benchmark", "direction", "convention", "frame_sizes", "repetitions", "median", "p1", "p99"),
    *("dispersion", "loss", "matched", "tester_limited", "trials", "invalid_trials"),
    *("upper_bound", "upper_bound_reason", "duration_s", "conditions"),
]


def simulated(**options):
    return simulate(device=options, procedure={"repetitions": 3, "resolution_fps": 10_000.0})


def test_records_have_key_fields(tmp_path):
    outcome = measure_run(simulated(capacity_fps=1_000_000), tmp_path / "out")
    assert outcome.status == "complete"
    records = read_results(tmp_path / "out")["results"]
    assert {r["direction"] for r in records} == {"bidirectional", "forward", "reverse"}
    for record in records:
        assert set(KEYS) <= set(record)
        assert record["convention"] == "per_direction"
        assert record["frame_sizes"] == {"ipv6": 104, "ipv4": 64}
        assert 990_000 < record["p1"] <= record["median"] <= record["p99"] <= 1_000_000
        assert set(record["loss"].values()) == {0.0}
        assert record["matched"] is None  # nothing is compared in a simulation
        assert record["conditions"]["demonstration"] is True
        assert len(record["trials"]) >= 3


def test_conditions_that_all_records_share_are_written_once():
    records = [{"conditions": {"seed": 1, "trials": [n]}} for n in (1, 2)]
    written = make_results_document({"results": records})
    assert written["conditions"] == {"seed": 1}
    assert [r["conditions"] for r in written["results"]] == [{"trials": [1]}, {"trials": [2]}]


def test_incorrect_device_is_not_measured(tmp_path):
    with expect_error("translation-incorrect") as caught:
        measure_run(simulated(mismatch=3), tmp_path / "out")
    assert "expected" in caught.value.message
    content = read_results(tmp_path / "out")
    assert content["status"] == "translation incorrect"
    assert content["finding"]["why"]
    assert content["results"] == []


def test_warnings_about_the_tester_are_among_those_of_the_results(tmp_path, monkeypatch):
    describe, cores = SimTester.describe, {"server": 1, "option": 4}
    monkeypatch.setattr(
        SimTester, "describe", lambda self: {**describe(self), "other_cores": cores}
    )
    outcome = measure_run(simulated(), tmp_path / "out")
    (text,) = [c for c in read_results(tmp_path / "out")["caveats"] if "not 4 as in" in c]
    warnings = list_run_warnings(outcome, load_presentations())
    assert [w.code for w in warnings if w.text == text] == ["condition"]


def test_rate_beyond_tester_skips_only_that_benchmark(tmp_path, monkeypatch):
    """IPDV at the rate that was found may be more than a tester can give: no run ends for it."""
    measure = SimTester.measure

    def refusing(self, trial):
        if trial.benchmark == "ipdv" and trial.rate_fps > 1000:
            raise BeyondTester("IPDV: 1,000 a second, not more", code="unsupported-by-tester")
        return measure(self, trial)

    monkeypatch.setattr(SimTester, "measure", refusing)
    own = {"delay_variation": {"duration_s": 0.2}, "repetitions": 1, "resolution_fps": 1e5}
    wanted = {"benchmarks": ("throughput", "ipdv", "pdv"), "modes": ("forward",)}
    run = resolve(plugin="mape-br", tester="sim", procedure=own, **wanted)
    outcome = measure_run(run, tmp_path / "out")
    assert outcome.status == "complete"
    found = {
        r["benchmark"]: r.get("not_measured") for r in read_results(tmp_path / "out")["results"]
    }
    assert (found["throughput"], found["pdv"]) == (None, None)
    assert "1,000" in found["ipdv"]
    assert count_new_trials(tmp_path / "out") == 0


def test_run_killed_at_start_can_be_repeated(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    for name in (".lock", "manifest.json", ".config.json.part"):
        (out / name).touch()
    assert measure_run(simulated(), out).status == "complete"


def test_two_runs_do_not_share_a_directory(tmp_path):
    from v6t.core.runs.rundir import RunDir

    measure_run(simulated(), tmp_path / "out")
    holder = RunDir(tmp_path / "out", new=False)
    try:
        with expect_error("directory-locked"):
            resume(tmp_path / "out", Listener())
    finally:
        holder.close()
