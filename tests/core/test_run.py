"""Complete runs with the simulated tester or without a device: results, resume and faults."""

from contextlib import closing

import pytest
from v6t.analysis.warnings import list_run_warnings
from v6t.base.errors import BeyondTester
from v6t.benchmarks.registry import load_presentations
from v6t.core.runs.events import Listener
from v6t.core.runs.results import make_results_document, read_results
from v6t.core.runs.rundir import RunDir
from v6t.core.runs.runner import resume
from v6t.core.runs.tester_capacity import SHORT_SELFTEST_SOURCE
from v6t.core.runs.trials import find_steal_time
from v6t.drivers.sim.tester import SimTester
from v6t.tests.core.support import count_new_trials, measure_run, simulate, write_report
from v6t.tests.core.test_benchmarks import read_by_benchmark
from v6t.tests.expect import expect_error
from v6t.tests.needs import needs_lab
from v6t.tests.settings import resolve

pytestmark = pytest.mark.slow


def simulate_throughput(**options):
    return simulate(device=options, procedure={"repetitions": 3, "resolution_fps": 10_000.0})


def test_conditions_common_to_all_records_are_written_once():
    records = [{"conditions": {"seed": 1, "trials": [n]}} for n in (1, 2)]
    written = make_results_document({"results": records})
    assert written["conditions"] == {"seed": 1}
    assert [r["conditions"] for r in written["results"]] == [{"trials": [1]}, {"trials": [2]}]


def test_incorrect_device_is_not_measured(tmp_path):
    with expect_error("translation-incorrect") as caught:
        measure_run(simulate_throughput(mismatch=3), tmp_path / "out")
    assert "expected" in caught.value.message
    content = read_results(tmp_path / "out")
    assert content["status"] == "translation incorrect"
    assert content["finding"]["why"]
    assert content["results"] == []


def test_warnings_about_the_tester_are_among_those_of_the_results(tmp_path, monkeypatch):
    describe, other = SimTester.describe, {"other_cores": {"server": 1, "option": 4}}
    monkeypatch.setattr(SimTester, "describe", lambda self: {**describe(self), **other})
    outcome = measure_run(simulate_throughput(), tmp_path / "out")
    (text,) = [c for c in read_results(tmp_path / "out")["caveats"] if "not 4 as in" in c]
    warnings = list_run_warnings(outcome, load_presentations())
    assert [w.code for w in warnings if w.text == text] == ["condition"]


def test_rate_beyond_tester_skips_only_that_benchmark(tmp_path, monkeypatch):
    """IPDV at the measured throughput may exceed the capability of a tester."""
    measure = SimTester.measure

    def reject_fast_ipdv(self, trial):
        if trial.benchmark == "ipdv" and trial.rate_fps > 1000:
            raise BeyondTester("IPDV: 1,000 a second, not more", code="unsupported-by-tester")
        return measure(self, trial)

    monkeypatch.setattr(SimTester, "measure", reject_fast_ipdv)
    short = {"delay_variation": {"duration_s": 0.2}, "repetitions": 1, "resolution_fps": 1e5}
    run = simulate("throughput", "ipdv", "pdv", modes=("forward",), procedure=short)
    assert measure_run(run, tmp_path / "out").status == "complete"
    reasons = {n: r.get("not_measured") for n, r in read_by_benchmark(tmp_path / "out").items()}
    assert (reasons["throughput"], reasons["pdv"]) == (None, None)
    assert "1,000" in reasons["ipdv"]
    assert count_new_trials(tmp_path / "out") == 0


def test_run_killed_at_start_can_be_repeated(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    for name in (".lock", "manifest.json", ".config.json.part"):
        (out / name).touch()
    assert measure_run(simulate_throughput(), out).status == "complete"


def test_two_runs_do_not_share_a_directory(tmp_path):
    measure_run(simulate_throughput(), tmp_path / "out")
    with closing(RunDir(tmp_path / "out", new=False)), expect_error("directory-locked"):
        resume(tmp_path / "out", Listener())


def test_direct_connection_measures_the_tester(tmp_path):
    limits = {"tester_fps": 700_000, "capacity_fps": 1000, "delay_us": 500, "tester_delay_us": 3}
    run = simulate(
        "throughput", "latency", plugin="ipv4-router", dut="cable", device=limits,
        modes=("bidirectional",), procedure={"repetitions": 2},
    )  # fmt: skip
    measure_run(run, tmp_path / "out")
    records = read_by_benchmark(tmp_path / "out")
    throughput, latency = records["throughput"], records["latency"]
    assert 600_000 < throughput["median"] <= 714_000  # sending may take 1.02 times as long
    assert throughput["upper_bound"] > 1_200_000
    assert throughput["conditions"]["ceiling"] == SHORT_SELFTEST_SOURCE
    assert latency["directions"]["forward"]["tl"]["median"] == pytest.approx(0.003, rel=0.01)
    assert any("no device" in c for c in read_results(tmp_path / "out")["caveats"])


def test_connections_are_made_without_a_device(tmp_path):
    connections = {"count": 5000, "validate_connections": False}
    run = simulate(
        "connection-rate", plugin="nat44", dut="cable", device={"tester_fps": 90_000},
        modes=("bidirectional",), procedure={"repetitions": 2, "connections": connections},
    )  # fmt: skip
    (record,) = measure_run(run, tmp_path / "out").records
    assert 60_000 < record.median <= 92_000
    assert record.conditions["device"] == "cable"


@pytest.mark.lab
def test_frames_return_unchanged_through_cable_in_the_lab(tmp_path):
    (tmp_path / "bed.yaml").write_text("tester: {kind: embedded}\nline_rate: 1M\n")
    quick = {"trial_duration_s": 0.3, "repetitions": 1, "sending_time_tolerance": 2.0}
    run = resolve(
        None, tmp_path / "bed.yaml", plugin="mape-br", dut="cable", modes=("bidirectional",),
        procedure=quick,
    )  # fmt: skip
    outcome = measure_run(run, tmp_path / "out")
    (record,) = outcome.records
    assert record.median > 0 and record.matched == 1.0
    for trial in outcome.trials:
        assert 0 <= find_steal_time(trial.result) < 1
        assert "stolen" in trial.result.tester


KNOWN_BUFFER_BED = """\
tester: {kind: embedded}
line_rate: 4M
dut:
  driver: command
  options:
    steps:
      - command: tc qdisc replace dev $RIGHT root tbf rate 2mbit burst 1600 limit 40000
        why: a known buffer
        undo: tc qdisc del dev $RIGHT root
        check: {command: tc qdisc show dev $RIGHT root, contains: tbf}
"""


@pytest.mark.lab
@needs_lab
def test_buffer_of_known_size_is_measured_and_reported(tmp_path):
    """The buffer holds 322 frames of 124 octets and drains 2,016/s while 3,378/s arrive.

    Bursts of 799 to 832 frames pass.
    """
    (tmp_path / "bed.yaml").write_text(KNOWN_BUFFER_BED)
    bursts = {
        "longest_s": 0.5, "resolution_frames": 64, "repetitions": 1, "residual_wait_s": 0.4,
        "at": "media", "sending_time_tolerance": 1.1,
    }  # fmt: skip
    procedure = {
        "back_to_back": bursts, "repetitions": 1, "resolution_fps": 500, "invalid_retries": 9,
        "trial_duration_s": 0.5, "sending_time_tolerance": 1.1,
    }  # fmt: skip
    run = resolve(
        None, tmp_path / "bed.yaml", plugin="ipv4-router", benchmarks=("back-to-back",),
        modes=("forward",), frame_sizes=(128,), procedure=procedure,
    )  # fmt: skip
    records = {r.benchmark: r for r in measure_run(run, tmp_path / "out").records}
    # sending may take 10 % longer, in which time more frames leave the buffer
    assert 700 < records["back-to-back"].average < 1150
    lines = write_report(tmp_path / "out").splitlines()
    (heading,) = [x for x in lines if "longest frames" in x and "verifications" in x]
    rows = [heading, lines[lines.index(heading) + 2]]
    names, cells = ([cell.strip() for cell in row.split("|")] for row in rows)
    reported = dict(zip(names, cells, strict=True))
    assert reported["longest frames"] == "1,689"
    assert (reported["step frames"], reported["verifications"]) == ("64", "1")
    assert "follows" in next(x for x in lines if "the search of TST009" in x)
