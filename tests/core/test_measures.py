"""Runs of every benchmark: results, resumption after a kill, and rejected settings."""

import contextlib
import csv
import time
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
from pydantic import ValidationError
from v6t.analysis.sheet import NOT_COVERED_EXPLANATION, explain_marks
from v6t.analysis.warnings import list_warnings
from v6t.base.errors import EnvironmentLacking, TesterError
from v6t.benchmarks import registry
from v6t.benchmarks.registry import load_presentations
from v6t.core.config.checks import check_capabilities
from v6t.core.config.run_setup import make_setup
from v6t.core.runs import bench
from v6t.core.runs import device as device_module
from v6t.core.runs.bench import make_tester
from v6t.core.runs.device import measure_with_event, run_hook
from v6t.core.runs.events import Listener
from v6t.core.runs.plan import plan
from v6t.core.runs.results import load_run, read_results
from v6t.core.runs.runner import resume
from v6t.drivers.duts.options import Hook
from v6t.drivers.duts.reference import ReferenceOptions
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.sim.kind import Sim
from v6t.drivers.sim.tester import SimTester
from v6t.tests.core.support import (
    SIM,
    make_all_tables,
    measure_run,
    read_comparable,
    read_csv,
    read_trial_keys,
    simulate,
    v6t,
)
from v6t.tests.expect import expect_error, expect_refusal
from v6t.trials.result import TrialResult
from v6t.trials.trial import CAPABILITIES, DeviceEvent, Trial

pytestmark = pytest.mark.slow

SIX = ("throughput", "latency", "pdv", "ipdv", "frame-loss", "back-to-back")
ALL = (
    *SIX,
    *("throughput-frame-timeout", "frame-loss-frame-timeout", "system-recovery", "reset", "flows"),
)
QUICK = {"repetitions": 2, "resolution_fps": 20_000.0}
QUICK_ALL = {**QUICK, "frame_timeout": {"deadline_ms": 5.0}}
DEVICE = {
    **{"capacity_fps": 1_000_000, "buffer_frames": 2000, "delay_us": 200, "jitter_us": 100},
    **{"capacity_noise": 0.01, "recovery_s": 0.1, "reset_s": 0.5},
}


def wanted(*benchmarks, plugin="mape-br", device=None, modes=("bidirectional",), **procedure):
    return simulate(
        *benchmarks, plugin=plugin, device=device or DEVICE, modes=modes, procedure=procedure
    )


def by_benchmark(path):
    return {r["benchmark"]: r for r in read_results(path)["results"]}


def find_column(table, name):
    """Find the place of a column by its name."""
    return [column.name for column in table.columns].index(name)


def test_tester_without_loopback_is_created_once(tmp_path, monkeypatch):
    """A second tester for the delays would need the ports of the first: TRex on NICs."""
    made, make = [], bench.make_tester
    monkeypatch.setattr(Sim, "can_loop_back", False)
    monkeypatch.setattr(
        bench,
        "make_tester",
        lambda setup, **how: made.append(how["loopback"]) or make(setup, **how),
    )
    measure_run(wanted("throughput", "latency", device=DEVICE, **QUICK_ALL), tmp_path / "out")
    assert made == [False]
    found = by_benchmark(tmp_path / "out")
    assert found["latency"]["directions"]["forward"]["tl"]["median"] > 0
    assert not found["latency"]["loopback"]
    assert not any("loopback" in key for key in read_trial_keys(tmp_path / "out"))


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """Provide a run of all benchmarks on a device whose capacity does not vary."""
    out = tmp_path_factory.mktemp("everything") / "out"
    device, fine = {**DEVICE, "capacity_noise": 0.0}, {"resolution_frames": 64}
    measure_run(wanted(*ALL, device=device, back_to_back=fine, **QUICK_ALL), out)
    return out


def test_every_benchmark_reports_the_devices_truth(everything):
    found = by_benchmark(everything)
    assert set(found) == set(ALL)
    rate = found["throughput"]["median"]
    # a second of overload fits into the buffer below 2000 fps
    assert 980_000 <= rate <= 1_002_001
    assert found["throughput-frame-timeout"]["median"] == rate
    latency = found["latency"]["directions"]["forward"]
    assert latency["tl"]["median"] == pytest.approx(0.25, rel=0.02)
    assert found["latency"]["rate"] == rate
    assert found["latency"]["loopback"]["forward"]["tl"] == pytest.approx(0.002)
    assert found["pdv"]["directions"]["reverse"]["pdv"]["median"] == pytest.approx(0.1, rel=0.01)
    ipdv = found["ipdv"]["directions"]["forward"]
    assert ipdv["min"]["median"] < 0 < ipdv["max"]["median"]
    for row in found["frame-loss"]["rates"]:
        truth = max(0.0, 1 - 1_000_000 / row["rate"] - 2000 / (row["rate"] * 0.4))
        assert row["loss_percent"]["sum"]["median"] == pytest.approx(100 * truth, abs=1e-3)
    bursts = found["back-to-back"]
    buffer_s = 2000 / bursts["burst_rate"]
    assert bursts["corrected_buffer_s"] == pytest.approx(buffer_s, rel=0.06)
    recovery = found["system-recovery"]["directions"]["forward"]
    assert recovery["average"] == pytest.approx(0.1, abs=1e-5)
    assert found["reset"]["directions"]["reverse"]["average"] == pytest.approx(0.5, abs=1e-4)


def test_tables_name_counting_method(everything, tmp_path, monkeypatch):
    measure = SimTester.measure
    chosen = ("throughput", "frame-loss", "back-to-back", "latency", "pdv")

    def measured(self, trial):
        way = "trailer" if trial.benchmark == "latency" else "marks"
        return replace(measure(self, trial), tester={"counting": way})

    monkeypatch.setattr(SimTester, "measure", measured)
    told = measure_run(wanted(*chosen, **QUICK), tmp_path / "told").records
    plain = [r for r in load_run(everything).records if r.benchmark in chosen]
    for records, expected in ((plain, {None}), (told, {"marks", "trailer"})):
        assert {r.counted_by for r in records} == expected
        assert {r.benchmark for r in records} == set(chosen)
        for record in records:
            table = registry.load(record.benchmark).make_main_table([record])
            names = [column.name for column in table.columns]
            assert ("counted\nby" in names) is (record.counted_by is not None)
            for row in table.rows if record.counted_by else ():
                assert row[find_column(table, "counted\nby")] == record.counted_by


def test_every_number_comes_with_its_trials(everything):
    text = (everything / "results.json").read_text()
    assert "Infinity" not in text and "NaN" not in text
    keys = set(read_trial_keys(everything))
    for record in read_results(everything)["results"]:
        assert record["trials"]
        assert set(record["trials"]) <= keys
        assert record["convention"] == "per_direction"
        assert record["conditions"]["caveats"]


def test_raw_values_of_each_benchmark(everything):
    names = {p.name for p in everything.glob("*.csv")}
    assert names >= {f"{b}.csv" for b in SIX[1:]} | {"results.csv", "trials.csv"}
    rows = read_csv(everything / "latency.csv")
    assert [(row["No"], row["direction"]) for row in rows] == [
        ("1", "forward"), ("1", "reverse"), ("2", "forward"), ("2", "reverse")
    ]  # fmt: skip
    assert all(float(row["tl"]) > 0.19 for row in rows)


def test_one_table_per_benchmark(everything):
    shown = v6t("show", everything).out
    for title in ("Throughput", "Latency, mil", "PDV, mil", "IPDV, mil", "Frame loss", "Back-to"):
        assert any(line.startswith(title) for line in shown.splitlines()), title
    assert all(word in shown for word in ("TL", "WCL", "corrected"))


def test_missing_throughput_is_measured_for_latency(tmp_path):
    measure_run(wanted("latency", **QUICK), tmp_path / "out")
    assert list(by_benchmark(tmp_path / "out")) == ["throughput", "latency"]
    measure_run(
        wanted("latency", latency={"rate_fps": 50_000.0}, **QUICK_LATENCY), tmp_path / "given"
    )
    found = by_benchmark(tmp_path / "given")
    assert list(found) == ["latency"]
    assert (found["latency"]["rate"], found["latency"]["rate_source"]) == (50_000.0, "given")


QUICK_LATENCY = {"repetitions": 2}


def test_latency_without_throughput_is_not_measured(tmp_path):
    device = {**DEVICE, "dead_zones": "[[1500, 1e12]]"}
    # a 256th of it, where a search ends in which nothing passed, is in that zone
    coarse = {**QUICK, "resolution_fps": 800_000.0}
    measure_run(wanted("latency", "reset", device=device, **coarse), tmp_path / "out")
    found = by_benchmark(tmp_path / "out")
    assert found["throughput"]["median"] == 0.0
    assert "no rate passed" in found["latency"]["not_measured"]
    assert "no rate passed" in found["reset"]["not_measured"]


def test_searches_and_repetition_rules_are_named(tmp_path):
    run = wanted("throughput", search="mlrsearch", adaptive={"most": 8}, resolution_fps=20_000.0)
    measure_run(run, tmp_path / "out")
    record = by_benchmark(tmp_path / "out")["throughput"]
    assert record["search"] == "mlrsearch"
    assert "loss ratio 0" in record["search_label"]
    assert record["title"].startswith("Throughput (MLRsearch, RFC 2544 goal) (adaptive, n=")
    caveats = read_results(tmp_path / "out")["caveats"]
    assert all(any(words in c for c in caveats) for words in ("MLRsearch", "6 to 8"))


BURSTS = {"bursts_per_s": 0.2, "burst_frames": 7}
RANDOM_LOSS = {"loss_curve": "[[0.7, 1e-6], [0.9, 2e-3], [1.2, 0.18]]", "random_loss": "true"}
SOAK = {"duration_s": 40, "stretch_s": 1, "rate_fps": 5000}
CRITICAL_LOAD = {"target": 1e-3, "search_s": 30, "first_s": 1.0}


@pytest.mark.parametrize(
    ("plugin", "benchmarks", "crash_at", "device", "procedure"),
    [
        ("mape-br", ALL, 25, {}, QUICK_ALL),
        ("ipv4-router", ("rss-probe",), 20, {}, QUICK),
        ("ipv4-router", ("flows",), 10, {}, QUICK),
        ("nat44", ("tcp-rate", "tcp-capacity"), 10, {}, QUICK),
        ("nat44", ("connection-rate", "throughput", "teardown"), 10, {}, QUICK),
        ("siit", ("throughput",), 9, {}, {**QUICK, "search": "mlrsearch"}),
        ("siit", ("soak",), 30, BURSTS, {"soak": SOAK}),
        ("siit", ("critical-load",), 20, RANDOM_LOSS, {"critical_load": CRITICAL_LOAD}),
    ],
)
def test_resumes_in_the_middle_of_any_benchmark(
    tmp_path, plugin, benchmarks, crash_at, device, procedure
):
    """The tester fails again and again, until the run is complete."""
    whole, cut, device = tmp_path / "whole", tmp_path / "cut", {**DEVICE, **device}
    measure_run(wanted(*benchmarks, plugin=plugin, device=device, **procedure), whole)
    device["crash_at"] = crash_at
    with pytest.raises(TesterError):
        measure_run(wanted(*benchmarks, plugin=plugin, device=device, **procedure), cut)
    for _ in read_trial_keys(whole):
        with contextlib.suppress(TesterError):
            resume(cut, Listener())
            break
    assert read_comparable(cut) == read_comparable(whole)
    assert read_trial_keys(cut) == read_trial_keys(whole)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--measure", "latncy"], "unknown-name"),
        (["--measure", "latency,latency"], "duplicate"),
        (["--measure", "latency,"], "not-name-and-value"),
        (["--measure", "latency", "--tags", "0"], "out-of-range"),
        (["--measure", "latency", "--tags", "5000", "--set-procedure", "latency.duration_s=0.3004"],
            "trial-too-short"),
        (["--measure", "latency", "--rate", "100", "--tags", "500"], "trial-too-short"),
        (["--measure", "latency", "--rate", "1e9"], "above-line-rate"),
        (["--rate", "1000"], "setting-without-effect"),
        (["--measure", "latency", "--set-procedure", "latency.first_tag_s=5"], "trial-too-short"),
        (["--measure", "latency", "--set-procedure", "latency.duration_s=0"], "out-of-range"),
        (["--measure", "latency", "--set-procedure", "latency.length=5"], "unknown-setting"),
        (["--measure", "pdv", "--set-procedure", "delay_variation.duration_s=-3"], "out-of-range"),
        (["--measure", "frame-loss", "--set-procedure", "frame_loss.step=0.2"], "out-of-range"),
        (["--measure", "frame-loss", "--set-procedure", "frame_loss.rates_fps=[]"], "wrong-length"),
        (["--adaptive", "--measure", "throughput,pdv"], "conflict"),
        (["--measure", "frame-loss-frame-timeout"], "missing-setting"),
        (["--measure", "frame-loss-frame-timeout", "--frame-timeout", "700"], "trial-too-short"),
        (["--measure", "throughput-frame-timeout"], "missing-setting"),
        (["--measure", "throughput-frame-timeout", "--frame-timeout", "5000"], "trial-too-short"),
        (["--frame-timeout", "10"], "setting-without-effect"),
        (["--search", "quick"], "unknown-name"),
        (["--measure", "reset", "--set-procedure", "reset.at_s=9"], "trial-too-short"),
        (["--measure", "reset", "--set-procedure", "reset.hook=kick"], "unknown-name"),
    ],
)  # fmt: skip
def test_invalid_input_is_rejected_before_traffic(tmp_path, arguments, code):
    done = v6t(*SIM, *arguments, "-o", tmp_path / "out")
    expect_refusal(done, code)
    assert not (tmp_path / "out").exists()


def test_unsupported_benchmark_is_rejected_before_traffic(tmp_path, monkeypatch):
    monkeypatch.setattr(SimTester, "capabilities", frozenset({"tags"}))
    setup = make_setup(wanted("latency", **QUICK_LATENCY))
    check_capabilities(setup, lambda: make_tester(setup))
    with expect_error("unsupported-by-tester", kind=EnvironmentLacking):
        measure_run(wanted("pdv", **QUICK_LATENCY), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("plugin", "benchmark", "ability"),
    [
        ("dns64", "resolution", "queries"),
        ("nat44", "tcp-rate", "tcp"),
        ("nat44", "connection-rate", "connections"),
        ("ipv4-router", "flows", "flow-starts"),
    ],
)
def test_tester_without_an_ability_is_rejected(plugin, benchmark, ability):
    setup = make_setup(simulate(benchmark, plugin=plugin))
    tester = SimpleNamespace(capabilities=frozenset(CAPABILITIES) - {ability})
    with expect_error("unsupported-by-tester", kind=EnvironmentLacking):
        check_capabilities(setup, lambda: tester)


def test_flows_that_start_together_need_no_ability(monkeypatch):
    monkeypatch.setattr(SimTester, "capabilities", frozenset())
    setup = make_setup(
        simulate("flows", plugin="siit", procedure={"flows": {"starts": ["together"]}})
    )
    check_capabilities(setup, lambda: make_tester(setup))


def test_run_that_cannot_start_leaves_no_directory(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise EnvironmentLacking("no interfaces", code="missing-interface")

    monkeypatch.setattr(SimTester, "open", refuse)
    with expect_error("missing-interface", kind=EnvironmentLacking):
        measure_run(wanted("latency", **QUICK_LATENCY), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_missing_library_is_reported(monkeypatch):
    monkeypatch.setattr("v6t.procedures.search.mlr.is_available", lambda: False)
    setup = make_setup(wanted("throughput", search="mlrsearch"))
    with expect_error("missing-package"):
        check_capabilities(setup, lambda: make_tester(setup))


def test_plan_contains_every_benchmark():
    planned = plan(make_setup(wanted(*ALL, **QUICK_ALL)))
    assert {p.benchmark for p in planned.points} == set(ALL)
    assert all(p.trials > 0 and p.duration_s > 0 for p in planned.points)


def test_bursts_below_media_rate_are_not_measured(tmp_path):
    device = {**DEVICE, "tester_fps": 3_000_000}
    run = wanted("back-to-back", device=device, back_to_back={"at": "media"}, **QUICK_LATENCY)
    measure_run(run, tmp_path / "out")
    record = by_benchmark(tmp_path / "out")["back-to-back"]
    assert record["not_measured"]
    assert record["average"] is None
    assert record["trials"] == []
    run = wanted("back-to-back", device=device, **QUICK_LATENCY)
    measure_run(run, tmp_path / "tester")
    record = by_benchmark(tmp_path / "tester")["back-to-back"]
    assert record["title"] != "Back-to-back frames"
    assert record["average"] > 0


@pytest.mark.parametrize(
    ("verifications", "search"), [(0, "binary search"), (3, "binary search with loss verification")]
)
def test_back_to_back_reports_search_parameters(tmp_path, verifications, search):
    """RFC 9004 section 6.2: the algorithm and its input parameters MUST be reported."""
    told = {"repetitions": 2, "longest_s": 0.5, "resolution_frames": 333, "residual_wait_s": 0.25,
            "verifications": verifications, "at": "tester"}  # fmt: skip
    run = wanted("back-to-back", device=DEVICE, back_to_back=told, **QUICK_LATENCY)
    measure_run(run, tmp_path / "out")
    (record,) = (r for r in load_run(tmp_path / "out").records if r.benchmark == "back-to-back")
    results, searched = make_all_tables(load_presentations(), [record])
    assert results.title == record.title
    (row,) = searched.rows
    shown = dict(zip([c.name.replace("\n", " ") for c in searched.columns], row, strict=True))
    assert shown["search"] == search
    assert shown["verifications"] == str(verifications)
    assert (shown["longest s"], shown["step frames"], shown["wait s"]) == ("0.5", "333", "0.25")
    assert shown["longest frames"] == f"{int(record.burst_rate * 0.5):,}"
    assert shown["shortest frames"] == f"{record.shortest_frames:,}"
    assert (shown["loss tolerance"], shown["repetitions"]) == ("0", "2")
    assert shown["throughput fps"] == f"{record.throughput:,.0f}"


RESET_TRIAL = Trial("reset", "k", 104, 64, "forward", 10.0, 1.0, pause_s=0.0,
                    device_event=DeviceEvent("software-reset", 0.01))  # fmt: skip


def test_hooks_run_during_the_trial(tmp_path):
    done, result = tmp_path / "done", TrialResult({})
    hook = partial(run_hook, "software-reset", Hook(command=f"touch {done}"))

    def measure(trial):
        assert not done.exists()
        deadline = time.monotonic() + 30
        while not done.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        return result

    assert measure_with_event(RESET_TRIAL, measure, hook) is result
    assert done.exists()


@pytest.mark.parametrize("command", ["false", "/nowhere/at-all", "'"])
def test_hooks_that_fail(command):
    with expect_error("hook-failed"):
        run_hook("software-reset", Hook(command=command))
    hook = partial(run_hook, "software-reset", Hook(command=command))
    with expect_error("hook-failed"):
        measure_with_event(RESET_TRIAL, lambda trial: time.sleep(0.05), hook)


def test_hanging_hook_is_stopped():
    with expect_error("timeout"):
        run_hook("software-reset", Hook(command="sleep 60", timeout_s=0.05))


def test_failing_hook_is_retried(tmp_path, monkeypatch):
    monkeypatch.setattr(device_module, "RETRY_PAUSE_S", 0.0)
    script = tmp_path / "third.sh"
    script.write_text(f"echo x >> {tmp_path / 'tries'}; test $(wc -l < {tmp_path / 'tries'}) = 3\n")
    with expect_error("hook-failed"):
        run_hook("flush", Hook(command=f"sh {script}", tries=2))
    (tmp_path / "tries").unlink()
    run_hook("flush", Hook(command=f"sh {script}", tries=5))
    assert (tmp_path / "tries").read_text() == "x\n" * 3


def test_a_testbed_names_a_hook_by_its_command_or_with_limits():
    given = {"flush": "ssh dut flush", "reset": {"command": "reboot", "timeout_s": 300, "tries": 2}}
    read = ReferenceOptions.model_validate({"hooks": given}).hooks
    assert read == {
        "flush": Hook(command="ssh dut flush", timeout_s=120.0, tries=1),
        "reset": Hook(command="reboot", timeout_s=300.0, tries=2),
    }
    for wrong in ({"flush": " "}, {"flush": {"command": "x", "tries": 0}}, {"flush": 7}):
        with pytest.raises(ValidationError):
            ReferenceOptions.model_validate({"hooks": wrong})


def test_configured_device_accepts_reset_hooks_only():
    hooks = {"software-reset": "ssh dut systemctl restart tayga"}
    driver = make_driver("tayga", {"hooks": hooks})
    assert driver.hooks == {"software-reset": Hook(command=hooks["software-reset"])}
    with expect_error("conflict", path=["hooks"]):
        make_driver("tayga", {"hooks": {"flush": "ssh dut flush"}})


def said_of(values):
    known = load_presentations()
    return [str(w) for w in list_warnings([known.read_record(values)], known)]


def test_loss_without_valid_trial_is_unknown(tmp_path):
    """The tester carries less than was asked for: no delay, and no count of lost frames either."""
    run = wanted(
        "latency", device={"tester_fps": 40_000}, latency={"rate_fps": 100_000.0}, **QUICK_LATENCY
    )
    measure_run(run, tmp_path / "out")
    (record,) = [r for r in load_run(tmp_path / "out").records if r.benchmark == "latency"]
    assert (record.measured, record.repetitions) == (True, 0)
    assert len(record.trials) == len(record.invalid_trials)
    (table,) = make_all_tables(load_presentations(), [record])
    assert {row[find_column(table, "lost")] for row in table.rows} == {"undefined"}


def test_rates_above_tester_capacity_give_warnings(tmp_path):
    device = {**DEVICE, "capacity_fps": 700_000, "tester_fps": 1_050_000}
    run = wanted("frame-loss", "latency", device=device, frame_loss={"step": 0.05}, **QUICK)
    measure_run(run, tmp_path / "out")
    found = by_benchmark(tmp_path / "out")
    capacity = found["throughput"]["tester_ceiling"]
    loss = found["frame-loss"]
    assert loss["usable_fps"] == pytest.approx(0.9 * capacity)
    offered = [row["rate"] for row in loss["rates"]]
    assert loss["above_usable"] == [rate for rate in offered if rate > 0.9 * capacity]
    assert 0 < len(loss["above_usable"]) < len(offered)
    assert any("self-test covers only" in said for said in said_of(loss))
    with (tmp_path / "out" / "frame-loss.csv").open() as file:
        marks = {(float(row["rate"]), row["Limited"]) for row in csv.DictReader(file)}
    assert marks == {(r, "yes" if r in loss["above_usable"] else "no") for r in offered}
    shown = [r for r in load_run(tmp_path / "out").records if r.benchmark != "throughput"]
    assert explain_marks(shown) == [f"* {NOT_COVERED_EXPLANATION}"]
    losses = [r for r in shown if r.benchmark == "frame-loss"]
    rates = {
        row[find_column(table, "fps per\ndirection")]
        for table in make_all_tables(load_presentations(), losses)
        for row in table.rows
    }
    assert rates == {f"{r:,.0f}" + " *" * (r in loss["above_usable"]) for r in offered}
    slow = wanted("latency", device=device, latency={"rate_fps": 50_000.0}, **QUICK_LATENCY)
    measure_run(slow, tmp_path / "slow")
    latency = by_benchmark(tmp_path / "slow")["latency"]
    assert latency["above_usable"] == []
    assert not any("self-test" in said for said in said_of(latency))
