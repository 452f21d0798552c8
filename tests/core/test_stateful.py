"""Stateful devices in complete simulated runs: results, rejected settings and early ends."""

import pytest
from v6t.core.cli.results_commands import make_run_result
from v6t.core.config.resolve import resolve_setup
from v6t.core.config.run_setup import make_setup
from v6t.core.runs.plan import plan
from v6t.core.runs.results import load_run
from v6t.tests.core.support import measure_records, measure_run, read_journal, simulate
from v6t.tests.expect import expect_error

pytestmark = pytest.mark.slow

EVERYTHING = (
    *("connection-rate", "throughput", "frame-loss", "latency", "pdv", "ipdv"),
    *("teardown", "capacity"),
)


def resolve_run(*benchmarks, plugin="nat44", device=None, modes=("bidirectional",), **procedure):
    return simulate(*benchmarks, plugin=plugin, device=device, modes=modes, procedure=procedure)


def measure(tmp_path, *benchmarks, plugin="nat44", device=None, **procedure):
    """Measure a run and return its records by benchmark."""
    settings = {"plugin": plugin, "device": device, "procedure": procedure}
    return measure_records(tmp_path / "run", *benchmarks, modes=("bidirectional",), **settings)


@pytest.mark.parametrize("plugin", ["nat44", "nat64"])
def test_all_benchmarks_of_stateful_device_are_measured(tmp_path, plugin):
    device = {"insertion_cps": 200_000, "table_entries": 300_001, "teardown_cps": 50_000}
    connections = {"count": 100_000}
    records = measure(tmp_path, *EVERYTHING, plugin=plugin, device=device, connections=connections)
    assert list(records) == list(EVERYTHING)
    assert [r.get("not_measured") for r in records.values()] == [None] * len(records)
    rate = records["connection-rate"]
    assert 200_000 - rate["resolution_cps"] <= rate["median"] <= 200_000
    assert rate["validated"]
    assert rate["tolerance_connections"] == 0
    counts = rate["counts"]
    assert counts["connections"] == counts["learned"] == counts["sessions"] == 100_000
    assert counts["sessions_before"] == 0
    conditions = records["throughput"]["conditions"]["connections"]
    assert conditions["count"] == 100_000
    assert conditions["rate_cps"] == pytest.approx(rate["p1"] / 2)
    assert conditions["setup" if "setup" in conditions else "combinations"]
    assert records["throughput"]["loss"] == {"forward": 0.0, "reverse": 0.0}
    for name in ("connection-rate", "teardown", "capacity"):
        assert (tmp_path / "run" / f"{name}.csv").read_text().count("\n") > 1


def test_bursts_and_overloads_pass_through_connections(tmp_path):
    """RFC 8219 sections 7.5 and 7.6: each trial of a stateful device opens connections first."""
    device = {"capacity_fps": 300_000, "buffer_frames": 20_000, "insertion_cps": 200_000}
    names = ("throughput", "back-to-back", "system-recovery")
    records = measure(tmp_path, *names, device=device, connections={"count": 1000})
    assert [records[n].get("not_measured") for n in names] == [None] * 3
    assert {records[n]["conditions"]["connections"]["count"] for n in names} == {1000}
    assert records["back-to-back"]["average"] > 10_000
    for entry in read_journal(tmp_path / "run"):
        if entry["trial"]["benchmark"] in names[1:]:
            assert entry["trial"]["connections"]["count"] == 1000


def test_flows_of_stateful_device_are_connections(tmp_path):
    """RFC 8219 section 10.2: a stateful device has one connection for each flow, read in order."""
    run = resolve_run(
        "flows", device={"insertion_cps": 200_000}, connections={"count": 1000},
        flows={"counts": [1, 6]},
    )  # fmt: skip
    outcome = measure_run(run, tmp_path / "run")
    assert any("connection is a" in text for text in outcome.caveats)
    (record,) = [r.to_json() for r in outcome.records if r.benchmark == "flows"]
    points = [(p["flows"], p["start"]) for p in record["points"]]
    assert points == [(1, "together"), (6, "together"), (6, "successive")]
    counts = {}
    for trial in (entry["trial"] for entry in read_journal(tmp_path / "run")):
        if trial["key"].startswith(("flows", "successive")):
            name, connections = trial["key"].partition("-")[0], trial["connections"]
            assert connections["reading"] == "linear"
            counts.setdefault(name, set()).add(connections["count"])
    assert counts == {"flows1": {1}, "flows6": {6}, "successive6": {6}}


def test_capacity_search_uses_and_records_its_settings(tmp_path):
    record = measure(
        tmp_path, "capacity", device={"table_entries": 1_000_003},
        capacity={"first": 1000, "error": 50, "most": 4_000_000, "beta": 0.1},
    )["capacity"]  # fmt: skip
    assert 1_000_003 - 50 <= record["capacity"] <= 1_000_003
    assert record["first_failed"] - record["capacity"] <= 50
    assert (record["c0"], record["alpha"], record["beta"], record["gamma"]) == (1000, 1.0, 0.1, 0.5)
    phases = [s["phase"] for s in record["steps"]]
    assert phases == sorted(phases, key=["first", "exponential", "binary"].index)
    assert phases.count("exponential") == 10  # 2000 ... 1,024,000


@pytest.mark.parametrize("tells", [True, False])
def test_capacity_of_replacing_table_is_exact(tmp_path, tells):
    device = {"table_entries": 50_021, "table_replaces": True, "table_tells": tells}
    capacity = {"first": 10_000, "error": 1, "most": 400_000}
    records = measure(tmp_path, "capacity", device=device, capacity=capacity)
    assert records["capacity"]["capacity"] == 50_021


def test_capacity_limited_by_four_tuples_is_a_lower_bound(tmp_path):
    record = measure(tmp_path, "capacity", capacity={"first": 1000, "most": 70_000})["capacity"]
    assert record["at_least"]
    assert record["capacity"] == 70_000


def test_tear_down_rate_excludes_flush_time_of_empty_table(tmp_path):
    device, connections = {"teardown_cps": 40_000, "teardown_s": 0.7}, {"count": 20_000}
    record = measure(tmp_path, "teardown", device=device, connections=connections)["teardown"]
    assert record["rates"] == [pytest.approx(40_000), pytest.approx(40_000)]
    assert record["full_s"][0] == pytest.approx(1.2)
    assert record["idle_s"][0] == pytest.approx(0.7) and record["method"] == "simulated"
    instant = measure(tmp_path / "instant", "teardown", connections=connections)["teardown"]
    assert "no longer than" in instant["not_measured"]


def test_too_short_idle_timeout_is_rejected():
    connections = {"count": 10_000, "rate_cps": 1000}
    with expect_error("idle-timeout", path=["procedure"]) as error:
        resolve_run("throughput", device={"table_timeout_s": 5}, connections=connections)
    assert "timeout_s" in error.value.hint
    resolve_run("throughput", device={"table_timeout_s": 12}, connections=connections)


def test_zero_connection_rate_skips_other_benchmarks(tmp_path, capsys):
    names = ("throughput", "latency", "teardown")
    records = measure(tmp_path, *names, device={"table_entries": 999}, connections={"count": 1000})
    assert records["connection-rate"]["median"] == 0
    assert all(records[name]["not_measured"] for name in names)
    data = load_run(tmp_path / "run")
    make_run_result(data, tmp_path / "run", all_warnings=True).print(as_json=False)
    assert capsys.readouterr().out.count("not measured") == 3


LOSING = {"phase_one_loss": 1, "phase_one_loss_trials": 1000}


@pytest.mark.parametrize(("benchmark", "device", "connections", "code", "mentions"), [
    ("connection-rate", {"table_stores": False, "table_tells": True}, {"count": 5000},
     "phase-one-lost", ""),
    ("connection-rate", {"table_stores": False, "table_tells": False}, {"count": 5000},
     "translation-incorrect", ""),
    ("connection-rate", {"table_off_by": 7}, {}, "phase-one-lost", "207"),
    ("connection-rate", {"table_stuck": 40}, {}, "table-not-emptied", "40"),
    ("throughput", {"table_timeout_s": 5, "insertion_cps": 20_000},
     {"count": 100_000, "upper_cps": 30_000}, "idle-timeout", ""),
    ("throughput", {"table_reuses": 2}, {"rate_cps": 50_000}, "phase-one-lost", ""),
    ("throughput", LOSING, {"rate_cps": 50_000}, "phase-one-lost", "199"),
    ("throughput", LOSING, {"rate_cps": 50_000, "retakes": 1}, "phase-one-lost", "199"),
])  # fmt: skip
def test_faulty_table_ends_the_run(benchmark, device, connections, code, mentions, tmp_path):
    with expect_error(code, mentions=mentions) as error:
        measure(tmp_path, benchmark, device=device, connections={"count": 10_000, **connections},
                loss_tolerance=0.01)  # fmt: skip
    assert error.value.hint


def test_plan_lists_connection_benchmarks_once():
    run = resolve_run(*EVERYTHING, modes=("forward", "reverse"),
                      connections={"count": 100_000, "upper_cps": 200_000})  # fmt: skip
    planned = plan(make_setup(run))
    modes = {name: [p.mode for p in planned.points if p.benchmark == name] for name in EVERYTHING}
    for name in ("connection-rate", "teardown", "capacity"):
        assert modes[name] == ["connections"]
    assert modes["latency"] == ["forward", "reverse"]
    points = {p.benchmark: p for p in planned.points}
    # 5 steps of 2 searches: 100,000 connections and their validation
    assert points["connection-rate"].trials == 10
    seconds = {s.name: s.seconds for s in planned.stages if s.mode == "connections"}
    steps = sum(2 * 100_000 / rate + 2 * 0.15 + 0.05 for rate in (2e5, 1e5, 1.5e5, 1.25e5, 1.125e5))
    assert seconds["connection-rate"] == pytest.approx(2 * steps)
    # the self-test comes first
    whole_s = seconds["connection-rate"] + seconds["self-test"]
    assert points["connection-rate"].duration_s == pytest.approx(whole_s)
    assert points["teardown"].trials == 2 and points["capacity"].trials > 20
    assert planned.duration_s > sum(points[n].duration_s for n in ("connection-rate", "capacity"))


def test_plan_includes_flush_and_overhead_of_connections():
    """The plan includes emptying the table, the tester's overhead and repeated trials."""
    setup = resolve_setup(plugin="nat44", tester="embedded", benchmarks=("connection-rate",))
    (stage,) = [s for s in plan(setup).stages if s.name == "connection-rate"]
    # opening 100,000 connections at half of the embedded tester's rate, and validating them
    fixed_s = 2 * 0.15 + 0.05 + 0.1 + 1.2
    assert 1.3 * stage.trials * fixed_s < stage.seconds < 1.3 * stage.trials * (fixed_s + 0.5 + 0.5)


def predict_stages(*benchmarks, usual_retries=None, **connections):
    """Return the planned seconds of each stage with the embedded tester."""
    setup = resolve_setup(
        plugin="nat44", tester="embedded", modes=("forward",), benchmarks=benchmarks,
        procedure={"connections": connections},
    )  # fmt: skip
    if usual_retries is not None:
        setup.tester.usual_retries = usual_retries
    return {s.name: s.seconds for s in plan(setup).stages if s.trials}


def test_kept_connections_are_made_once():
    again, kept = (predict_stages("throughput", keep=keep)["throughput"] for keep in (False, True))
    assert again > kept + 5


def test_plan_includes_expected_retries_of_searches():
    names = ("connection-rate", "throughput", "latency", "teardown", "capacity")
    none, one = (predict_stages(*names, usual_retries=retries) for retries in (0.0, 1.0))
    longer = [name for name in names if one[name] > none[name]]
    assert longer == ["connection-rate", "throughput", "capacity"]
