"""Stateful devices in complete simulated runs: results, rejected settings and early ends."""

import json

import jsonschema
import pytest
from v6t.base.errors import DutError
from v6t.benchmarks.registry import make_results_schema
from v6t.core.cli.results_commands import make_run_result
from v6t.core.config.resolve import resolve, resolve_setup
from v6t.core.config.run_setup import make_setup
from v6t.core.config.warnings import list_result_warnings
from v6t.core.runs.plan import plan
from v6t.core.runs.results import load_run
from v6t.tests.core.support import measure_run, read_journal
from v6t.tests.expect import expect_error

pytestmark = pytest.mark.slow

EVERYTHING = (
    *("connection-rate", "throughput", "frame-loss", "latency", "pdv", "ipdv"),
    *("teardown", "capacity"),
)


def wanted(*benchmarks, plugin="nat44", device=None, modes=("bidirectional",), **connections):
    """Resolve a run; ``connections`` are the procedure's settings of that name."""
    capacity = connections.pop("capacity", {})
    texts = {f"connections.{k}": str(v) for k, v in connections.items()}
    texts |= {f"capacity.{k}": str(v) for k, v in capacity.items()}
    return resolve(
        plugin=plugin,
        tester="sim",
        tester_options={k: str(v).lower() for k, v in (device or {}).items()},
        benchmarks=benchmarks,
        modes=modes,
        procedure=texts,
    )


def measured(tmp_path, *benchmarks, **options):
    """Measure a run and return its records by benchmark."""
    outcome = measure_run(wanted(*benchmarks, **options), tmp_path / "run")
    assert outcome.status == "complete"
    return {r.benchmark: r.to_json() for r in outcome.records}


@pytest.mark.parametrize("plugin", ["nat44", "nat64"])
def test_everything_is_measured_and_reported(tmp_path, plugin):
    device = {"insertion_cps": 200_000, "table_entries": 300_001, "teardown_cps": 50_000}
    found = measured(tmp_path, *EVERYTHING, plugin=plugin, device=device, count=100_000)
    assert list(found) == list(EVERYTHING)
    assert [r.get("not_measured") for r in found.values()] == [None] * len(found)
    rate = found["connection-rate"]
    assert 200_000 - rate["resolution_cps"] <= rate["median"] <= 200_000
    assert rate["validated"]
    assert rate["tolerance_connections"] == 0
    counts = rate["counts"]
    assert counts["connections"] == counts["learned"] == counts["sessions"] == 100_000
    assert counts["sessions_before"] == 0
    conditions = found["throughput"]["conditions"]["connections"]
    assert conditions["count"] == 100_000
    assert conditions["rate_cps"] == pytest.approx(rate["p1"] / 2)
    assert conditions["setup" if "setup" in conditions else "combinations"]
    assert found["throughput"]["loss"] == {"forward": 0.0, "reverse": 0.0}
    content = json.loads((tmp_path / "run" / "results.json").read_text())
    jsonschema.Draft202012Validator(make_results_schema()).validate(content)
    for name in ("connection-rate", "teardown", "capacity"):
        assert (tmp_path / "run" / f"{name}.csv").read_text().count("\n") > 1


def test_bursts_and_overloads_pass_through_connections(tmp_path):
    """RFC 8219 sections 7.5 and 7.6 of a stateful device: each trial has its connections."""
    device = {"capacity_fps": 300_000, "buffer_frames": 20_000, "insertion_cps": 200_000}
    names = ("throughput", "back-to-back", "system-recovery")
    found = measured(tmp_path, *names, device=device, count=1000)
    assert [found[n].get("not_measured") for n in names] == [None] * 3
    assert {found[n]["conditions"]["connections"]["count"] for n in names} == {1000}
    assert found["back-to-back"]["average"] > 10_000
    for entry in read_journal(tmp_path / "run"):
        if entry["trial"]["benchmark"] in names[1:]:
            assert entry["trial"]["connections"]["count"] == 1000


def test_each_connection_is_a_flow(tmp_path):
    """RFC 8219 section 10.2 of a stateful device: as many connections as flows, in turn both ways."""
    run = wanted("flows", device={"insertion_cps": 200_000}, count=1000)
    procedure = run.procedure.model_copy(
        update={"flows": run.procedure.flows.model_copy(update={"counts": (1, 6)})}
    )
    outcome = measure_run(run.model_copy(update={"procedure": procedure}), tmp_path / "run")
    assert any("connection is a" in said for said in outcome.caveats)
    (record,) = [r.to_json() for r in outcome.records if r.benchmark == "flows"]
    points = [(p["flows"], p["start"]) for p in record["points"]]
    assert points == [(1, "together"), (6, "together"), (6, "successive")]
    seen = set()
    for asked in (entry["trial"] for entry in read_journal(tmp_path / "run")):
        if asked["key"].startswith(("flows", "successive")):
            flows = int("".join(filter(str.isdigit, asked["key"].partition("-")[0])))
            assert asked["connections"]["count"] == flows
            assert asked["connections"]["reading"] == "linear"
            seen.add(asked["key"].partition("-")[0])
    assert seen == {"flows1", "flows6", "successive6"}


def test_settings_of_the_capacity_search_reach_it_and_its_record(tmp_path):
    found = measured(
        tmp_path, "capacity", device={"table_entries": 1_000_003},
        capacity={"first": 1000, "error": 50, "most": 4_000_000, "beta": 0.1},
    )["capacity"]  # fmt: skip
    assert 1_000_003 - 50 <= found["capacity"] <= 1_000_003
    assert found["first_failed"] - found["capacity"] <= 50
    assert (found["c0"], found["alpha"], found["beta"], found["gamma"]) == (1000, 1.0, 0.1, 0.5)
    phases = [s["phase"] for s in found["steps"]]
    assert phases == sorted(phases, key=["first", "exponential", "binary"].index)
    assert len([p for p in phases if p == "exponential"]) == 10  # 2000 ... 1,024,000


def test_capacity_of_replacing_table_is_exact(tmp_path):
    for tells in (True, False):
        device = {"table_entries": 50_021, "table_replaces": True, "table_tells": tells}
        found = measured(
            tmp_path / str(tells), "capacity", device=device,
            capacity={"first": 10_000, "error": 1, "most": 400_000},
        )["capacity"]  # fmt: skip
        assert found["capacity"] == 50_021


def test_capacity_beyond_all_four_tuples_is_a_lower_bound(tmp_path):
    found = measured(tmp_path, "capacity", capacity={"first": 1000, "most": 70_000})["capacity"]
    assert found["at_least"]
    assert found["capacity"] == 70_000


def test_tear_down_rate_excludes_flush_time_of_empty_table(tmp_path):
    device = {"teardown_cps": 40_000, "teardown_s": 0.7}
    found = measured(tmp_path, "teardown", device=device, count=20_000)["teardown"]
    assert found["rates"] == [pytest.approx(40_000), pytest.approx(40_000)]
    assert found["full_s"][0] == pytest.approx(1.2)
    assert found["idle_s"][0] == pytest.approx(0.7)
    assert found["method"] == "simulated"


def test_instant_flush_has_no_tear_down_rate(tmp_path):
    found = measured(tmp_path, "teardown", count=20_000)["teardown"]
    assert "no longer than" in found["not_measured"]


def test_too_short_idle_timeout_is_rejected():
    with expect_error("idle-timeout", path=["procedure"]) as caught:
        wanted("throughput", device={"table_timeout_s": 5}, count=10_000, rate_cps=1000)
    assert "timeout_s" in caught.value.hint
    wanted("throughput", device={"table_timeout_s": 12}, count=10_000, rate_cps=1000)


def test_zero_connection_rate_skips_other_benchmarks(tmp_path, capsys):
    outcome = measure_run(
        wanted("throughput", "latency", "teardown", device={"table_entries": 999}, count=1000),
        tmp_path / "run",
    )
    found = {r.benchmark: r.to_json() for r in outcome.records}
    assert found["connection-rate"]["median"] == 0
    for name in ("throughput", "latency", "teardown"):
        assert found[name]["not_measured"]
    data = load_run(tmp_path / "run")
    make_run_result(data, tmp_path / "run", all_warnings=True).print(as_json=False)
    assert capsys.readouterr().out.count("not measured") == 3


LOSING = {"phase_one_loss": 1, "phase_one_loss_trials": 1000}


@pytest.mark.parametrize(
    ("benchmark", "device", "given", "code", "mentions"),
    [
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
    ],
)  # fmt: skip
def test_faulty_connection_table_ends_the_run(benchmark, device, given, code, mentions, tmp_path):
    with expect_error(code, mentions=mentions) as caught:
        measured(tmp_path, benchmark, device=device, **{"count": 10_000, **given})
    assert caught.value.hint


REFUSED = [
    ("throughput", {"count": 4_000_001}, "not-enough-addresses"),
    ("throughput", {"count": 10, "entries": 11}, "out-of-range"),
    ("throughput", {"entries": 1}, "conflict"),
    ("capacity", {"capacity": {"beta": 0.9, "gamma": 0.5}}, "out-of-range"),
    ("capacity", {"capacity": {"first": 5_000_000}}, "empty-range"),
    ("rss-probe", {}, "unsuitable-benchmark"),
    ("connection-rate", {"alpha": 1.5}, "out-of-range"),
    ("throughput", {"rate_share": 0.95}, "out-of-range"),
    ("throughput", {"count": 1 << 29}, "out-of-range"),
]


@pytest.mark.parametrize(("benchmark", "given", "code"), REFUSED)
def test_impossible_stateful_settings_are_rejected(benchmark, given, code):
    with expect_error(code):
        wanted(benchmark, **given)


def test_stateless_technology_rejects_connection_benchmarks():
    with expect_error("unsuitable-benchmark", path=["procedure"]):
        wanted("connection-rate", plugin="mape-br")


def test_loss_tolerance_does_not_apply_to_phase_one(tmp_path):
    run = resolve(
        plugin="nat44",
        tester="sim",
        benchmarks=("connection-rate",),
        tester_options={"phase_one_loss": "1", "phase_one_loss_trials": "100"},
        procedure={"loss_tolerance": 0.01, "connections.count": "100000"},
    )
    # the look at the translation needs its 200 connections, too
    with expect_error("phase-one-lost", mentions="199", kind=DutError):
        measure_run(run, tmp_path / "run")


def test_departures_from_rfc_9693_give_warnings():
    quick = wanted("throughput")
    assert [c for c in list_result_warnings(make_setup(quick)) if "phase 1" in c]
    assert not [c for c in list_result_warnings(make_setup(quick)) if "not validated" in c]
    assert not [c for c in list_result_warnings(make_setup(wanted("capacity"))) if "phase 1" in c]
    loose = wanted("connection-rate", validate_connections=False, keep=False)
    assert [c for c in list_result_warnings(make_setup(loose)) if "not validated" in c]
    assert not [c for c in list_result_warnings(make_setup(loose)) if "phase 1" in c]


def test_plan_lists_connection_benchmarks_once():
    run = wanted(*EVERYTHING, modes=("forward", "reverse"), count=100_000, upper_cps=200_000)
    planned = plan(make_setup(run))
    found = [(p.mode, p.benchmark) for p in planned.points]
    for name in ("connection-rate", "teardown", "capacity"):
        assert [mode for mode, benchmark in found if benchmark == name] == ["connections"]
    assert [mode for mode, benchmark in found if benchmark == "latency"] == ["forward", "reverse"]
    cost = {p.benchmark: p for p in planned.points}
    # 5 steps of 2 searches: 100,000 connections and their validation
    assert cost["connection-rate"].trials == 10
    made = {s.name: s.seconds for s in planned.stages if s.mode == "connections"}
    steps = sum(2 * 100_000 / rate + 2 * 0.15 + 0.05 for rate in (2e5, 1e5, 1.5e5, 1.25e5, 1.125e5))
    assert made["connection-rate"] == pytest.approx(2 * steps)
    # the tester's own capacity goes before
    assert cost["connection-rate"].duration_s == pytest.approx(
        made["connection-rate"] + made["self-test"]
    )
    assert cost["teardown"].trials == 2
    assert cost["capacity"].trials > 20
    assert planned.duration_s > sum(cost[n].duration_s for n in ("connection-rate", "capacity"))
    longer = plan(make_setup(wanted(*EVERYTHING, count=100_000, upper_cps=200_000, keep=False)))
    kept = plan(make_setup(wanted(*EVERYTHING, count=100_000, upper_cps=200_000)))
    assert longer.duration_s > kept.duration_s + 10


def test_plan_includes_flush_and_overhead_of_connections():
    """Emptying the table, the tester's own pace, and trials that are made again: none of a model."""
    setup = resolve_setup(plugin="nat44", tester="embedded", benchmarks=("connection-rate",))
    (real,) = [s for s in plan(setup).stages if s.name == "connection-rate"]
    # 100,000 connections at half of what the embedded tester makes, or more, and tried at the same rate
    fixed_s = 2 * 0.15 + 0.05 + 0.1 + 1.2
    assert 1.3 * real.trials * fixed_s < real.seconds < 1.3 * real.trials * (fixed_s + 0.5 + 0.5)


def test_kept_connections_are_made_once():
    seconds = {}
    for keep in (True, False):
        setup = resolve_setup(plugin="nat44", tester="embedded", benchmarks=("throughput",),
                              modes=("forward",), procedure={"connections": {"keep": keep}})  # fmt: skip
        (seconds[keep],) = [s.seconds for s in plan(setup).stages if s.name == "throughput"]
    assert seconds[False] > seconds[True] + 5


def test_plan_includes_expected_retries_of_searches():
    names = ("connection-rate", "throughput", "latency", "teardown", "capacity")
    seconds = []
    for retries in (0.0, 1.0):
        setup = resolve_setup(
            plugin="nat44", tester="embedded", modes=("forward",), benchmarks=names
        )
        setup.tester.usual_retries = retries
        seconds.append({s.name: s.seconds for s in plan(setup).stages if s.trials})
    again = [name for name in names if seconds[1][name] > seconds[0][name]]
    assert again == ["connection-rate", "throughput", "capacity"]
