"""Figures and warnings of a run use the right trials and the settings that apply."""

from contextlib import nullcontext

import pytest
from v6t.analysis.record import Record
from v6t.analysis.rundata import RunData, RunTrial
from v6t.core.config.run_setup import make_setup
from v6t.core.config.warnings import list_result_warnings, list_setting_warnings
from v6t.tests.core.support import measure_run, simulate
from v6t.tests.expect import expect_error
from v6t.trials.connections import PhaseOneResult
from v6t.trials.result import ClassCount, DirectionResult, TrialResult


def test_trial_with_repeated_phase_one_is_the_last_of_its_trials():
    failed = TrialResult({}, connections=PhaseOneResult(100, 100, 99))
    passed = TrialResult({"forward": DirectionResult({"fg": ClassCount("foreground", 9, 9, 9)}, 1)})
    results = {"r01/s05/a1": failed, "r01/s05/a1/p2": passed}
    trials = [RunTrial({"key": key}, result) for key, result in results.items()]
    record = Record(
        benchmark="throughput", direction="forward", frame_sizes={"ipv6": 84, "ipv4": 64},
        repetitions=1, trials=["r01/s05/a1"], invalid_trials=[], conditions={},
    )  # fmt: skip
    (trial,) = RunData("run", {}, [record], {}, {}, trials=trials).list_valid_trials([record])
    assert (trial.key, trial.result) == ("r01/s05/a1", passed)


@pytest.mark.parametrize(("plugin", "device", "settings"), [
    ("mape-br", {"capacity_fps": 812}, {"frame_sizes": [1518], "line_rate": "10M"}),
    ("nat44", {"insertion_cps": 1500}, {"procedure": {"connections.rate_cps": 500}}),
    ("nat44", {"insertion_cps": 1500}, {"procedure": {"connections.upper_cps": 500}}),
])  # fmt: skip
def test_preflight_rate_is_limited_by_medium_and_connections(tmp_path, plugin, device, settings):
    connections = {"connections.count": 100, "frame_loss.rates_fps": [100]}
    settings["procedure"] = {**connections, **settings.get("procedure", {})}
    run = simulate("frame-loss", plugin=plugin, device=device, modes=["forward"], **settings)
    assert measure_run(run, tmp_path / "run").status == "complete"


@pytest.mark.parametrize(("benchmark", "procedure", "lengths"), [
    ("throughput", {"final_duration_s": 60}, []), ("latency", {"final_duration_s": 60}, []),
    ("latency", {}, ["0.7 s"]), ("latency", {"latency.rate_fps": 10_000}, ["0.7 s"]),
    ("frame-loss", {"final_duration_s": 60}, ["0.4 s"]),
    ("frame-loss", {"trial_duration_s": 60}, ["0.4 s"]),
    ("frame-loss", {"trial_duration_s": 60, "frame_loss.duration_s": 60}, []),
    ("mlrsearch", {"trial_duration_s": 60}, []),
])  # fmt: skip
def test_results_of_short_trials_are_demonstrations(benchmark, procedure, lengths):
    warnings = list_result_warnings(make_setup(simulate(benchmark, procedure=procedure)))
    words = [text.split(", not the")[0] for text in warnings if "DEMONSTRATION" in text]
    assert words == [f"DEMONSTRATION: trials of {length}" for length in lengths]


ADAPTIVE = "adaptive repetition: 6 to 50"


@pytest.mark.parametrize(("benchmarks", "procedure", "starts"), [
    (["throughput"], {}, ["2 repetitions,"]),
    (["frame-loss"], {}, ["1 repetition,"]),
    (["throughput", "frame-loss"], {}, ["1 or 2 repetitions,"]),
    (["throughput", "frame-loss"], {"repetitions": 20}, ["frame-loss: 1 repetition,"]),
    (["throughput"], {"repetitions": 20}, []),
    (["throughput", "frame-loss"], {"adaptive": {}}, [ADAPTIVE]),
    (["mlrsearch"], {"adaptive": {}}, ["2 repetitions,"]),
    (["system-recovery"], {"adaptive": {}},
     [f"throughput: {ADAPTIVE}", "system-recovery: 2 repetitions,"]),
])  # fmt: skip
def test_repetition_warnings_state_repetitions_of_benchmarks(benchmarks, procedure, starts):
    run = simulate(*benchmarks, procedure=procedure)
    warnings = [t for t in list_result_warnings(make_setup(run)) if "repetition" in t]
    assert [w.startswith(s) for w, s in zip(warnings, starts, strict=True)] == [True] * len(starts)


@pytest.mark.parametrize(("benchmark", "options", "unused"), [
    ("throughput", {"procedure": {"final_duration_s": 0.7}}, "final_duration_s"),
    ("throughput", {"procedure": {"final_duration_s": 2}}, None),
    ("throughput", {"procedure": {"connections.count": 5}}, "connections"),
    ("throughput", {"procedure": {"connections.count": 5}, "plugin": "nat44"}, None),
    ("throughput", {"procedure": {"resolution_ratio": 0.1}}, None),
    ("throughput", {"procedure": {"resolution_ratio": 0.1}, "preset": "rfc"}, "resolution_ratio"),
    ("throughput", {"procedure": {"confirmations": 2, "loss_tolerance": 0.001}}, None),
    ("back-to-back", {"procedure": {"loss_tolerance": 0.001}}, None),
    *(("frame-loss", {"procedure": {name: value}}, name)
      for name, value in {"confirmations": 2, "search": "mlrsearch", "loss_tolerance": 0.001,
                          "final_duration_s": 60, "resolution_fps": 10}.items()),
])  # fmt: skip
def test_setting_without_effect_gives_a_warning(benchmark, options, unused):
    setup = make_setup(simulate(benchmark, **options))
    warnings = [text for text in list_setting_warnings(setup) if "no effect" in text]
    assert [text.split()[0] for text in warnings] == [f"procedure.{unused}"] * bool(unused)
    if benchmark == "frame-loss":
        assert not any("MLR" in t or "tolerance" in t for t in list_result_warnings(setup))


@pytest.mark.parametrize(("benchmark", "rates"), [
    ("frame-loss", "frame_loss.rates_fps"), ("soak", "soak.rate_fps"),
    ("reconfiguration", "reconfiguration.rate_fps"),
])  # fmt: skip
def test_rate_setting_above_the_line_rate_is_rejected(benchmark, rates):
    def resolve_rate(rate_fps):
        value = [10, rate_fps] if rates.endswith("rates_fps") else rate_fps
        simulate(benchmark, frame_sizes=[1518], line_rate="10M", procedure={rates: value})

    resolve_rate(812)
    with expect_error("above-line-rate", path=["procedure"]):
        resolve_rate(813)


@pytest.mark.parametrize(("search_s", "is_enough"), [(2.1, True), (2.0, False)])
def test_critical_load_search_needs_time_for_two_trials(search_s, is_enough):
    lengths = {"search_s": search_s, "first_s": 1, "longer_s": 0.1}
    with nullcontext() if is_enough else expect_error("trial-too-short", path=["procedure"]):
        simulate("critical-load", procedure={"critical_load": lengths})


def test_mixes_raised_to_the_same_sizes_are_one_frame_size():
    simulate("throughput", frame_sizes=["imix:84x1,1518x1", "imix:84x1,1280x1"])
    with expect_error("duplicate", path=["frame_sizes"]):
        simulate("throughput", frame_sizes=["imix:64x1,1518x1", "imix:70x1,1518x1"])
