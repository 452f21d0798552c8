"""Runs of every benchmark: results, resumption after a kill, and rejected settings."""

import contextlib
import os
import time
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from pydantic import ValidationError
from v6t.analysis.sheet import NOT_COVERED_EXPLANATION, explain_marks
from v6t.analysis.warnings import list_warnings
from v6t.base.errors import EnvironmentLacking, TesterError
from v6t.benchmarks import registry
from v6t.benchmarks.registry import load_presentations
from v6t.core.cli.stopping import handle_signals
from v6t.core.config.checks import check_capabilities
from v6t.core.config.run_setup import make_setup
from v6t.core.runs import bench
from v6t.core.runs import device as device_module
from v6t.core.runs.device import measure_with_event, run_hook
from v6t.core.runs.events import Listener
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
from v6t.tests.expect import expect_error
from v6t.trials.result import TrialResult
from v6t.trials.trial import CAPABILITIES, DeviceEvent, Trial

pytestmark = pytest.mark.slow

SIX = ("throughput", "latency", "pdv", "ipdv", "frame-loss", "back-to-back")
ALL = (
    *SIX,
    *("throughput-frame-timeout", "frame-loss-frame-timeout", "system-recovery", "reset", "flows"),
)
TWICE = {"repetitions": 2}
QUICK = {**TWICE, "resolution_fps": 20_000.0}
QUICK_ALL = {**QUICK, "frame_timeout": {"deadline_ms": 5.0}}
DEVICE = {
    **{"capacity_fps": 1_000_000, "buffer_frames": 2000, "delay_us": 200, "jitter_us": 100},
    **{"capacity_noise": 0.01, "recovery_s": 0.1, "reset_s": 0.5},
}


def resolve_run(*benchmarks, plugin="mape-br", device=None, modes=("bidirectional",), **procedure):
    settings = {"device": device or DEVICE, "modes": modes, "procedure": procedure}
    return simulate(*benchmarks, plugin=plugin, **settings)


def read_by_benchmark(path):
    return {r["benchmark"]: r for r in read_results(path)["results"]}


def measure(path, *benchmarks, **settings):
    """Measure benchmarks on a simulated device; return their results by name."""
    measure_run(resolve_run(*benchmarks, **settings), path)
    return read_by_benchmark(path)


def read_column(table, name):
    place = [column.name for column in table.columns].index(name)
    return [row[place] for row in table.rows]


def test_tester_without_loopback_is_created_once(tmp_path, monkeypatch):
    """A second tester for the delays would need the ports of the first: TRex on NICs."""
    make = Mock(wraps=bench.make_tester)
    monkeypatch.setattr(Sim, "can_loop_back", False)
    monkeypatch.setattr(bench, "make_tester", make)
    latency = measure(tmp_path, "throughput", "latency", **QUICK_ALL)["latency"]
    assert [call.kwargs["loopback"] for call in make.call_args_list] == [False]
    assert latency["directions"]["forward"]["tl"]["median"] > 0 and not latency["loopback"]
    assert not any("loopback" in key for key in read_trial_keys(tmp_path))


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """Provide a run of all benchmarks on a device whose capacity does not vary."""
    out = tmp_path_factory.mktemp("everything") / "out"
    device, fine = {**DEVICE, "capacity_noise": 0.0}, {"resolution_frames": 64}
    measure_run(resolve_run(*ALL, device=device, back_to_back=fine, **QUICK_ALL), out)
    return out


def test_results_equal_parameters_of_the_simulated_device(everything):
    results = read_by_benchmark(everything)
    assert set(results) == set(ALL)
    rate = results["throughput"]["median"]
    # a second of overload fits into the buffer below 2000 fps
    assert 980_000 <= rate <= 1_002_001
    assert results["throughput-frame-timeout"]["median"] == rate
    latency = results["latency"]["directions"]["forward"]
    assert latency["tl"]["median"] == pytest.approx(0.25, rel=0.02)
    assert results["latency"]["rate"] == rate
    assert results["latency"]["loopback"]["forward"]["tl"] == pytest.approx(0.002)
    assert results["pdv"]["directions"]["reverse"]["pdv"]["median"] == pytest.approx(0.1, rel=0.01)
    ipdv = results["ipdv"]["directions"]["forward"]
    assert ipdv["min"]["median"] < 0 < ipdv["max"]["median"]
    for row in results["frame-loss"]["rates"]:
        truth = max(0.0, 1 - 1_000_000 / row["rate"] - 2000 / (row["rate"] * 0.4))
        assert row["loss_percent"]["sum"]["median"] == pytest.approx(100 * truth, abs=1e-3)
    bursts = results["back-to-back"]
    buffer_s = 2000 / bursts["burst_rate"]
    assert bursts["corrected_buffer_s"] == pytest.approx(buffer_s, rel=0.06)
    recovery = results["system-recovery"]["directions"]["forward"]
    assert recovery["average"] == pytest.approx(0.1, abs=1e-5)
    assert results["reset"]["directions"]["reverse"]["average"] == pytest.approx(0.5, abs=1e-4)


def test_tables_state_counting_method(everything, tmp_path, monkeypatch):
    measure_trial = SimTester.measure
    chosen = ("throughput", "frame-loss", "back-to-back", "latency", "pdv")

    def measure_with_method(self, trial):
        method = "trailer" if trial.benchmark == "latency" else "marks"
        return replace(measure_trial(self, trial), tester={"counting": method})

    monkeypatch.setattr(SimTester, "measure", measure_with_method)
    counted = measure_run(resolve_run(*chosen, **QUICK), tmp_path / "out").records
    plain = [r for r in load_run(everything).records if r.benchmark in chosen]
    for records, methods in ((plain, {None}), (counted, {"marks", "trailer"})):
        assert {r.counted_by for r in records} == methods
        assert {r.benchmark for r in records} == set(chosen)
        for record in records:
            table = registry.load(record.benchmark).make_main_table([record])
            if record.counted_by:
                assert set(read_column(table, "counted\nby")) == {record.counted_by}
            else:
                assert "counted\nby" not in [column.name for column in table.columns]


def test_every_record_lists_its_trials(everything):
    text = (everything / "results.json").read_text()
    assert "Infinity" not in text and "NaN" not in text
    keys = set(read_trial_keys(everything))
    for record in read_results(everything)["results"]:
        assert record["trials"]
        assert set(record["trials"]) <= keys
        assert record["convention"] == "per_direction"
        assert record["conditions"]["caveats"]


def test_each_benchmark_has_a_csv_file_of_its_values(everything):
    names = {p.name for p in everything.glob("*.csv")}
    assert names >= {f"{b}.csv" for b in SIX[1:]} | {"results.csv", "trials.csv"}
    rows = read_csv(everything / "latency.csv")
    expected = [(number, direction) for number in "12" for direction in ("forward", "reverse")]
    assert [(row["No"], row["direction"]) for row in rows] == expected
    assert all(float(row["tl"]) > 0.19 for row in rows)


def test_missing_throughput_is_measured_for_latency(tmp_path):
    assert list(measure(tmp_path / "out", "latency", **QUICK)) == ["throughput", "latency"]
    given = measure(tmp_path / "given", "latency", latency={"rate_fps": 50_000.0}, **TWICE)
    assert list(given) == ["latency"]
    assert (given["latency"]["rate"], given["latency"]["rate_source"]) == (50_000.0, "given")


def test_latency_without_throughput_is_not_measured(tmp_path):
    device = {**DEVICE, "dead_zones": "[[1500, 1e12]]"}
    # a search in which no rate passes ends at a 256th of this resolution, inside that zone
    coarse = {**QUICK, "resolution_fps": 800_000.0}
    results = measure(tmp_path, "latency", "reset", device=device, **coarse)
    assert results["throughput"]["median"] == 0.0
    for benchmark in ("latency", "reset"):
        assert "no rate passed" in results[benchmark]["not_measured"]


def test_record_states_search_and_repetition_rule(tmp_path):
    adaptive = {"search": "mlrsearch", "adaptive": {"most": 8}, "resolution_fps": 20_000.0}
    record = measure(tmp_path, "throughput", **adaptive)["throughput"]
    assert record["search"] == "mlrsearch" and "loss ratio 0" in record["search_label"]
    assert record["title"].startswith("Throughput (MLRsearch, RFC 2544 goal) (adaptive, n=")
    caveats = read_results(tmp_path)["caveats"]
    assert all(any(words in c for c in caveats) for words in ("MLRsearch", "6 to 8"))


RANDOM_LOSS = {"loss_curve": "[[0.7, 1e-6], [0.9, 2e-3], [1.2, 0.18]]", "random_loss": "true"}
SOAK = {"duration_s": 40, "stretch_s": 1, "rate_fps": 5000}
CRITICAL_LOAD = {"target": 1e-3, "search_s": 30, "first_s": 2.0}


@pytest.mark.parametrize(("plugin", "benchmarks", "crash_at", "device", "procedure"), [
    ("mape-br", ALL, 25, {}, QUICK_ALL),
    ("ipv4-router", ("rss-probe",), 20, {}, QUICK),
    ("ipv4-router", ("flows",), 30, {}, QUICK),
    ("nat44", ("tcp-rate", "tcp-capacity"), 10, {}, QUICK),
    ("nat44", ("connection-rate", "throughput", "teardown"), 10, {}, QUICK),
    ("siit", ("throughput",), 9, {}, {**QUICK, "search": "mlrsearch"}),
    ("siit", ("soak",), 30, {"bursts_per_s": 0.2, "burst_frames": 7}, {"soak": SOAK}),
    ("siit", ("critical-load",), 12, RANDOM_LOSS, {"critical_load": CRITICAL_LOAD}),
])  # fmt: skip
def test_run_resumes_in_any_benchmark(tmp_path, plugin, benchmarks, crash_at, device, procedure):
    """The tester fails again and again, until the run is complete."""
    complete, resumed, device = tmp_path / "complete", tmp_path / "resumed", {**DEVICE, **device}
    measure_run(resolve_run(*benchmarks, plugin=plugin, device=device, **procedure), complete)
    device["crash_at"] = crash_at
    with pytest.raises(TesterError):
        measure_run(resolve_run(*benchmarks, plugin=plugin, device=device, **procedure), resumed)
    for _ in read_trial_keys(complete):
        with contextlib.suppress(TesterError):
            resume(resumed, Listener())
            break
    assert read_comparable(resumed) == read_comparable(complete)
    assert read_trial_keys(resumed) == read_trial_keys(complete)


def test_unsupported_benchmark_is_rejected_before_traffic(tmp_path, monkeypatch):
    monkeypatch.setattr(SimTester, "capabilities", frozenset({"tags"}))
    check_capabilities(make_setup(resolve_run("latency")))
    with expect_error("unsupported-by-tester", kind=EnvironmentLacking):
        measure_run(resolve_run("pdv"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("plugin", "benchmark", "capability"), [
    ("dns64", "resolution", "queries"), ("nat44", "tcp-rate", "tcp"),
    ("nat44", "connection-rate", "connections"), ("ipv4-router", "flows", "flow-starts"),
])  # fmt: skip
def test_tester_without_a_capability_is_rejected(plugin, benchmark, capability):
    setup = make_setup(simulate(benchmark, plugin=plugin))
    tester = SimpleNamespace(capabilities=frozenset(CAPABILITIES) - {capability})
    with expect_error("unsupported-by-tester", kind=EnvironmentLacking):
        check_capabilities(setup, tester)


def test_flows_that_start_together_need_no_capability(monkeypatch):
    monkeypatch.setattr(SimTester, "capabilities", frozenset())
    setup = make_setup(resolve_run("flows", plugin="siit", flows={"starts": ["together"]}))
    check_capabilities(setup)


def test_plan_lists_classes_that_each_have_the_number_of_flows():
    plan = ("run", "--plugin", "ipv4-router", "--tester", "sim", "--measure", "flows", "--dry-run")
    mixed = ("--frame-size", 128, "--set", "n=2", "--set", "m=1")
    outputs = [v6t(*plan, *more).out for more in ((), mixed)]
    assert ["flows: fg and bg" in out for out in outputs] == [False, True]


def test_run_that_cannot_start_leaves_no_directory(tmp_path, monkeypatch):
    error = EnvironmentLacking("no interfaces", code="missing-interface")
    monkeypatch.setattr(SimTester, "open", Mock(side_effect=error))
    with expect_error("missing-interface", kind=EnvironmentLacking):
        measure_run(resolve_run("latency"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_missing_library_is_refused_before_anything_is_measured(tmp_path, monkeypatch):
    monkeypatch.setattr("v6t.procedures.search.mlr.SUPPORTED_VERSION", "0.9")
    campaign, out = tmp_path / "c.yaml", tmp_path / "out"
    campaign.write_text(
        "{name: c, title: C, run: {plugin: mape-br, benchmarks: [mlrsearch]}, experiments: [{name: e}],"
        " testbeds: {t: {tester: {kind: sim}}}}"
    )
    for command in (
        ("campaign", campaign),
        (*SIM, "--measure", "mlrsearch"),
        (*SIM, "--search", "mlrsearch"),
    ):
        done = v6t(*command, "-o", out)
        assert (done.status, done.code, out.exists()) == (3, "missing-package", False), done.err


def test_bursts_below_media_rate_are_not_measured(tmp_path):
    slow = {"device": {**DEVICE, "tester_fps": 3_000_000}, **TWICE}
    media = measure(tmp_path / "media", "back-to-back", back_to_back={"at": "media"}, **slow)
    record = media["back-to-back"]
    assert record["not_measured"]
    assert (record["average"], record["trials"]) == (None, [])
    record = measure(tmp_path / "tester", "back-to-back", **slow)["back-to-back"]
    assert record["title"] != "Back-to-back frames" and record["average"] > 0


@pytest.mark.parametrize(
    ("verifications", "search"), [(0, "binary search"), (3, "binary search with loss verification")]
)
def test_back_to_back_reports_search_parameters(tmp_path, verifications, search):
    """RFC 9004 section 6.2: the algorithm and its input parameters MUST be reported."""
    parameters = {"repetitions": 2, "longest_s": 0.5, "resolution_frames": 333,
                  "residual_wait_s": 0.25, "verifications": verifications, "at": "tester"}  # fmt: skip
    measure(tmp_path, "back-to-back", back_to_back=parameters, **TWICE)
    (record,) = (r for r in load_run(tmp_path).records if r.benchmark == "back-to-back")
    results, searched = make_all_tables(load_presentations(), [record])
    assert results.title == record.title
    (row,) = searched.rows
    shown = dict(zip([c.name.replace("\n", " ") for c in searched.columns], row, strict=True))
    assert shown["search"] == search and shown["verifications"] == str(verifications)
    assert (shown["longest s"], shown["step frames"], shown["wait s"]) == ("0.5", "333", "0.25")
    assert shown["longest frames"] == f"{int(record.burst_rate * 0.5):,}"
    assert shown["shortest frames"] == f"{record.shortest_frames:,}"
    assert (shown["loss tolerance"], shown["repetitions"]) == ("0", "2")
    assert shown["throughput fps"] == f"{record.throughput:,.0f}"


RESET_TRIAL = Trial("reset", "k", 104, 64, "forward", 10.0, 1.0, pause_s=0.0,
                    device_event=DeviceEvent("software-reset", 0.01))  # fmt: skip


def test_hook_runs_during_the_trial(tmp_path):
    file, result = tmp_path / "file", TrialResult({})
    hook = partial(run_hook, "software-reset", Hook(command=f"touch {file}"))

    def measure_trial(trial):
        assert not file.exists()
        deadline = time.monotonic() + 30
        while not file.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        return result

    assert measure_with_event(RESET_TRIAL, measure_trial, hook) is result
    assert file.exists()


@pytest.mark.parametrize(("started_s", "valid"), [(-0.1, True), (-5.0, False), (5.0, False)])
def test_event_outside_the_stream_makes_trial_invalid(started_s, valid):
    """A tester may be ready to send only after the event, or may have finished before it."""

    def measure_trial(trial):
        started = datetime.now(timezone.utc) + timedelta(seconds=started_s)
        return TrialResult({}, started=started.isoformat(timespec="milliseconds"))

    assert bool(measure_with_event(RESET_TRIAL, measure_trial, lambda: None).faults) is not valid


def test_ctrl_c_does_not_reach_hook():
    """The terminal sends it to the process group of v6t."""
    output = run_hook("power-cycle", Hook(command="sh -c 'cut -d\" \" -f5 /proc/self/stat'"))
    assert int(output) != os.getpgrp()


def test_ctrl_c_waits_for_hook(tmp_path):
    """Half a power cycle would leave the device off."""
    file = tmp_path / "file"
    command = f"sh -c 'kill -INT {os.getpid()}; sleep 0.2; touch {file}'"
    with pytest.raises(KeyboardInterrupt), handle_signals(None):
        run_hook("power-cycle", Hook(command=command))
    assert file.exists()


@pytest.mark.parametrize("command", ["false", "/nowhere/at-all", "'"])
def test_failing_or_hanging_hook_is_an_error(command):
    hook = partial(run_hook, "software-reset", Hook(command=command))
    with expect_error("hook-failed"):
        hook()
    with expect_error("hook-failed"):
        measure_with_event(RESET_TRIAL, lambda trial: time.sleep(0.05), hook)
    with expect_error("timeout") as caught:
        run_hook("software-reset", Hook(command="sleep 60", timeout_s=0.05))
    assert "sleep" not in str(caught.value)  # a command may contain a password


def test_error_of_hook_has_the_last_line_of_its_output_if_any():
    with expect_error("hook-failed") as caught:
        run_hook("flush", Hook(command="false"))
    assert "status 1:" not in str(caught.value)
    with expect_error("hook-failed", mentions="status 1: b"):
        run_hook("flush", Hook(command="sh -c 'echo a; echo b; exit 1'"))


@pytest.mark.parametrize("error", [EnvironmentLacking("x", code="missing-program"), OSError()])
def test_error_of_an_event_is_raised_after_the_trial(error):
    with pytest.raises(type(error)):
        measure_with_event(RESET_TRIAL, lambda trial: time.sleep(0.1), Mock(side_effect=error))


def test_failing_hook_is_retried(tmp_path, monkeypatch):
    monkeypatch.setattr(device_module, "RETRY_PAUSE_S", 0.0)
    script, tries = tmp_path / "third.sh", tmp_path / "tries"
    script.write_text(f"echo x >> {tries}; test $(wc -l < {tries}) = 3\n")
    with expect_error("hook-failed"):
        run_hook("flush", Hook(command=f"sh {script}", tries=2))
    tries.unlink()
    run_hook("flush", Hook(command=f"sh {script}", tries=5))
    assert tries.read_text() == "x\n" * 3


def test_testbed_describes_a_hook_by_its_command_or_with_limits():
    hooks = {"flush": "ssh dut flush", "reset": {"command": "reboot", "timeout_s": 300, "tries": 2}}
    assert ReferenceOptions.model_validate({"hooks": hooks}).hooks == {
        "flush": Hook(command="ssh dut flush", timeout_s=120.0, tries=1),
        "reset": Hook(command="reboot", timeout_s=300.0, tries=2),
    }
    for invalid in (" ", {"command": "x", "tries": 0}, 7):
        with pytest.raises(ValidationError):
            ReferenceOptions.model_validate({"hooks": {"flush": invalid}})


def test_configured_device_accepts_reset_hooks_only():
    hooks = {"software-reset": "ssh dut systemctl restart tayga"}
    driver = make_driver("tayga", {"hooks": hooks})
    assert driver.hooks == {"software-reset": Hook(command=hooks["software-reset"])}
    with expect_error("conflict", path=["hooks"]):
        make_driver("tayga", {"hooks": {"flush": "ssh dut flush"}})


def test_loss_without_valid_trial_is_unknown(tmp_path):
    """The tester cannot send at the rate: no delay, and no count of lost frames either."""
    rate = {"latency": {"rate_fps": 100_000.0}, **TWICE}
    measure(tmp_path, "latency", device={"tester_fps": 40_000}, **rate)
    (record,) = [r for r in load_run(tmp_path).records if r.benchmark == "latency"]
    assert (record.measured, record.repetitions) == (True, 0)
    assert len(record.trials) == len(record.invalid_trials)
    (table,) = make_all_tables(load_presentations(), [record])
    assert set(read_column(table, "lost")) == {"undefined"}


def test_rates_above_tester_capacity_give_warnings(tmp_path):
    known = load_presentations()

    def make_warnings(result):
        return " ".join(map(str, list_warnings([known.read_record(result)], known)))

    device = {**DEVICE, "capacity_fps": 700_000, "tester_fps": 1_050_000}
    both = {"frame_loss": {"step": 0.05}, **QUICK}
    results = measure(tmp_path / "out", "frame-loss", "latency", device=device, **both)
    usable_fps = pytest.approx(0.9 * results["throughput"]["tester_ceiling"])
    loss = results["frame-loss"]
    assert loss["usable_fps"] == usable_fps
    offered = [row["rate"] for row in loss["rates"]]
    above = [rate for rate in offered if rate > loss["usable_fps"]]
    assert loss["above_usable"] == above
    assert 0 < len(above) < len(offered)
    assert "self-test covers only" in make_warnings(loss)
    rows = read_csv(tmp_path / "out" / "frame-loss.csv")
    marked = {(rate, "yes" if rate in above else "no") for rate in offered}
    assert {(float(row["rate"]), row["Limited"]) for row in rows} == marked
    records = [r for r in load_run(tmp_path / "out").records if r.benchmark != "throughput"]
    assert explain_marks(records) == [f"* {NOT_COVERED_EXPLANATION}"]
    tables = make_all_tables(known, [r for r in records if r.benchmark == "frame-loss"])
    rates = {rate for table in tables for rate in read_column(table, "fps per\ndirection")}
    assert rates == {f"{rate:,.0f}" + " *" * (rate in above) for rate in offered}
    slow = {"latency": {"rate_fps": 50_000.0}, **TWICE}
    latency = measure(tmp_path / "slow", "latency", device=device, **slow)["latency"]
    assert latency["above_usable"] == []
    assert "self-test" not in make_warnings(latency)
