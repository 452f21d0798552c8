"""Plans of ``--dry-run``, the estimate of the remaining time, and the state line."""

import io
import json
import random
import re
import socket
import subprocess
import time
from functools import partial
from itertools import product
from unittest.mock import Mock, create_autospec

import pytest
from rich.console import Console
from v6t.core.cli.progress import ProgressDisplay
from v6t.core.config.resolve import resolve_setup
from v6t.core.runs import runner, trials
from v6t.core.runs.bench import Bench
from v6t.core.runs.events import (
    CurrentTrial,
    Listener,
    RemainingTimeEstimator,
    describe_trial,
    format_duration,
)
from v6t.core.runs.plan import Stage, plan
from v6t.drivers.sim.kind import Sim
from v6t.drivers.sim.tester import SimTester
from v6t.procedures.search.binary import count_halvings
from v6t.procedures.trial_runner import FPS, Progress
from v6t.tests.core.support import SIM, read_dir, v6t
from v6t.trials.result import ClassCount, DeviceLoad, DirectionResult, TrialResult
from v6t.trials.trial import Trial

RESOLUTION_FPS = 10_000
MEDIA_104_FPS = 10_080_645


def plan_run(**flags):
    return plan(resolve_setup(**{"plugin": "mape-br", **flags}))


def test_verbose_dry_run_prints_points_streams_and_commands():
    done = v6t("run", "mape-br", "--dut", "vpp", "--dry-run", "-v")
    assert done.status == 0
    lines = done.out.splitlines()
    for mode in ("bidirectional", "forward", "reverse"):
        (line,) = [x for x in lines if x.startswith(f"     104/64 octets, {mode}")]
        assert "10,080,645 fps" in line
    assert any(line.startswith("  104/64 forward: fg ") and "100.0%" in line for line in lines)
    for word in ('"br_address": "2001:db8:6::1"', "ip link set dev left up"):
        assert word in done.out


def test_dry_run_json_has_settings_points_and_intent(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = v6t(*SIM, "--dry-run", "--json", "--seed", 77, "-o", "out")
    assert (done.status, done.err) == (0, "")
    content = json.loads(done.out)
    assert (content["run"]["seed"], content["run"]["tester"]["kind"]) == (77, "sim")
    assert content["trials"] == sum(p["trials"] for p in content["points"]) > 0
    assert content["duration_s"] == pytest.approx(sum(p["duration_s"] for p in content["points"]))
    assert [p["mode"] for p in content["points"]] == ["bidirectional", "forward", "reverse"]
    assert {p["media_fps"] for p in content["points"]} == {MEDIA_104_FPS}
    device = content["device_must_be"]
    assert (device["technology"], device["configuration"]["rules"][0]["ea_len"]) == ("mape-br", 13)
    assert device["left"]["routes"] == {"2001:db8:ce::/51": "2001:db8:6::2"}
    assert device["links"]["left"]["dut_mac"] == "02:00:00:00:01:01"
    assert read_dir(tmp_path) == {}


def test_dry_run_opens_nothing(monkeypatch):
    """A dry run opens no socket, starts no program, sends no frames and does not wait."""
    refuse = Mock(side_effect=AssertionError("a dry run touched the machine"))
    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(SimTester, "measure", refuse)
    monkeypatch.setattr(time, "sleep", refuse)
    for tester in ("sim", "embedded", "trex"):
        done = v6t("run", "--plugin", "mape-br", "--tester", tester, "--dry-run")
        assert done.status == 0, done.err
        assert f", {tester} tester" in done.out


def test_planned_trials_follow_from_search_repetitions_and_confirmations():
    procedure = {"repetitions": 7, "resolution_fps": RESOLUTION_FPS, "confirmations": 2}
    planned = plan_run(modes=["forward"], procedure=procedure)
    (point,) = planned.points
    steps = 1 + count_halvings(MEDIA_104_FPS / 2, RESOLUTION_FPS)
    assert planned.trial_count == point.trials == 7 * (steps + 2)


def test_planned_time_follows_from_trials():
    quick, rfc = plan_run(), plan_run(preset="rfc")
    assert rfc.duration_s > 20 * 60 * len(rfc.points)
    assert quick.duration_s < 300
    twice = plan_run(procedure={"repetitions": 4})
    assert twice.trial_count == 2 * quick.trial_count and twice.duration_s > quick.duration_s


def test_plan_has_a_point_for_every_size_and_mode():
    planned = plan_run(frame_sizes=[104, 1518], modes=["reverse", "forward"])
    points = [(p.frame_sizes["ipv6"], p.mode) for p in planned.points]
    assert points == [(n, mode) for n in (104, 1518) for mode in ("reverse", "forward")]


def test_plan_describes_streams_with_their_shares():
    planned = plan_run(params={"n": "3", "m": "2", "negative_percent": "10"})
    shares = dict(line.split(", ") for line in planned.stream_descriptions)
    forward = [float(v.split("%")[0]) for name, v in shares.items() if "forward" in name]
    assert sum(forward) == pytest.approx(100, abs=0.2)
    assert any("negative" in name for name in shares)
    assert any("background" in name for name in shares)


def test_simulation_needs_the_planned_trials(tmp_path):
    """The capacity of the simulated device is below the upper bound, so no step is skipped."""
    shape = ["--mode", "forward", "--reps", 3, "--resolution", RESOLUTION_FPS]
    expected = json.loads(v6t(*SIM, *shape, "--dry-run", "--json").out)["trials"]
    (record,) = json.loads(v6t(*SIM, *shape, "--json", "-o", tmp_path / "out").out)["results"]
    steps = [count_halvings(fps, RESOLUTION_FPS) for fps in (MEDIA_104_FPS, record["upper_bound"])]
    assert len(record["trials"]) == expected - 3 * (steps[0] - steps[1])


@pytest.mark.parametrize(("seconds", "text"), [
    (0, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (200, "3 min 20 s"), (3600, "1 h 00 min"),
    (90061, "25 h 01 min"),
])  # fmt: skip
def test_durations_are_formatted(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize("mode", ["reverse", "bidirectional"])
def test_benchmark_without_directions_is_planned_in_any_mode(mode):
    done = v6t("run", "dns64", "--tester", "sim", "--mode", mode, "--dry-run", "--json")
    assert [p["benchmark"] for p in json.loads(done.out)["points"]] == ["resolution"]


OCTETS = ("84/64", "512/492", "1518/1498")


class Clock:
    s = 0.0

    def __call__(self):
        return self.s


def make_progress(repetition, step, *, point="throughput/84/forward", repetitions=4, steps=5):
    return Progress(point, repetition, repetitions, step, steps, 0.0, 1e6, 5e5, unit=FPS)


@pytest.mark.parametrize("pace", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("selftest", [0.5, 3.0])
def test_remaining_time_after_a_third_is_within_a_quarter(pace, selftest):
    """Searches and self-tests differ from the planned time by different factors."""
    clock, kinds = Clock(), {"self-test": (8.0, selftest), "throughput": (60.0, pace)}
    planned = [
        Stage(name, octets, "forward", seconds, seconds)
        for octets in OCTETS
        for name, (seconds, _) in kinds.items()
    ]
    remaining = RemainingTimeEstimator(planned, clock)
    whole_s = len(OCTETS) * sum(seconds * factor for seconds, factor in kinds.values())
    errors = []
    for stage in planned:
        remaining.begin(stage)
        seconds, factor = kinds[stage.name]
        for repetition, step in product((1, 2, 3, 4), (1, 2, 3, 4, 5)):
            if stage.name == "throughput":
                remaining.record_progress(make_progress(repetition, step))
            remaining.start_trial(make_trial("t"), None)
            if clock.s >= whole_s / 3:
                errors.append((clock.s + remaining.estimate_remaining_s()) / whole_s - 1)
            clock.s += seconds * factor / 20
    assert len(errors) > 50
    assert max(map(abs, errors)) < 0.25


def test_remaining_time_ignores_an_unplanned_stage_and_never_becomes_negative():
    clock = Clock()
    remaining = RemainingTimeEstimator([Stage("pdv", "84/64", "forward", 10.0, 10.0)], clock)
    remaining.begin(Stage("self-test", "84/64", "connections"))
    clock.s += 5.0
    assert remaining.estimate_remaining_s() == pytest.approx(10.0)
    remaining.begin(Stage("pdv", "84/64", "forward"))
    clock.s += 100.0
    assert remaining.estimate_remaining_s() == 0.0
    remaining.begin(Stage("the end", "", ""))
    assert remaining.estimate_remaining_s() == 0.0


def test_interrupted_stage_keeps_its_planned_time():
    clock, search = Clock(), Stage("throughput", "84/64", "forward", 10.0, 10.0)
    selftest = Stage("self-test", "84/64", "", 2.0, 2.0)
    remaining = RemainingTimeEstimator([search, selftest], clock)
    remaining.begin(search)
    clock.s += 1.0
    remaining.begin(selftest)
    clock.s += 2.0
    remaining.begin(search)
    assert remaining.estimate_remaining_s() == pytest.approx(9.0)


@pytest.mark.slow
@pytest.mark.parametrize(("benchmarks", "procedure", "device", "machine"), [
    (("throughput", "frame-loss", "back-to-back", "latency"), {},
     {"tester_fps": 900_000, "capacity_fps": 70_000, "capacity_noise": 0.01},
     {"setup_s": 6.0, "overhead_s": 0.3}),
    (("throughput",), {}, {"tester_fps": 200_000, "capacity_fps": 900_000}, {"overhead_s": 0.3}),
    (("throughput",), {"search": "mlrsearch", "repetitions": 8},
     {"tester_fps": 500_000, "capacity_fps": 300_000, "capacity_noise": 0.02}, {}),
], ids=["halving", "carried", "MLRsearch"])  # fmt: skip
def test_remaining_time_of_a_simulated_run_after_half_is_within_a_third(
    benchmarks, procedure, device, machine, monkeypatch, tmp_path
):
    """Runs with a simulated clock, on a machine that differs from the plan's assumptions."""
    chance, clock, seen = random.Random(7), Clock(), []
    measure, load = Bench.measure, Bench.load

    def draw_s(name, usual_s):
        return machine.get(name, usual_s) * chance.lognormvariate(0.0, 0.3)

    def measure_on_clock(self, trial):
        clock.s += trial.pause_s + trial.total_duration_s + trial.residual_wait_s
        clock.s += draw_s("overhead_s", 0.1)
        return measure(self, trial)

    def load_on_clock(self, streams):
        clock.s += draw_s("setup_s", 3.0) / 2
        load(self, streams)

    for key, value in {"setup_s": 3.0, "load_s": 1.0, "overhead_s": 0.1}.items():
        monkeypatch.setattr(Sim, key, value)
    monkeypatch.setattr(Bench, "measure", measure_on_clock)
    monkeypatch.setattr(Bench, "load", load_on_clock)
    estimator = partial(RemainingTimeEstimator, clock=clock)
    monkeypatch.setattr(trials, "RemainingTimeEstimator", estimator)
    options = {key: str(value) for key, value in device.items()}
    setup = resolve_setup(
        plugin="siit", tester="sim", tester_options=options, benchmarks=benchmarks,
        procedure=procedure, frame_sizes=(84, 512), modes=("forward", "reverse"),
    )  # fmt: skip
    listener = Mock(Listener, on_trial_start=lambda t: seen.append((clock.s, t.remaining_s)))
    runner.execute(setup, tmp_path, listener)
    late = [(passed + left) / clock.s - 1 for passed, left in seen if passed > clock.s / 2]
    assert late
    assert max(map(abs, late)) < 1 / 3


def test_every_stage_of_a_run_was_planned(tmp_path, monkeypatch):
    """Every trial is announced to listeners, including self-tests and retries."""
    seen, begin = [], create_autospec(RemainingTimeEstimator.begin)
    begin.side_effect = RemainingTimeEstimator.begin
    monkeypatch.setattr(RemainingTimeEstimator, "begin", begin)
    setup = resolve_setup(
        plugin="nat44", tester="sim", frame_sizes=(64, 512), modes=("forward", "reverse"),
        benchmarks=("connection-rate", "throughput", "latency"),
        procedure={"repetitions": 1, "connections": {"count": 1000}, "latency": {"tags": 100}},
    )  # fmt: skip
    outcome = runner.execute(setup, tmp_path, Mock(Listener, on_trial_start=seen.append))
    named = {stage for stage in plan(setup).stages if stage.mode != "connections"}
    assert named <= {call.args[1] for call in begin.call_args_list}
    assert len(seen) == len(outcome.trials)
    assert {n.trial.benchmark for n in seen} >= {"selftest", "preflight", "throughput"}
    assert all(n.remaining_s >= 0 for n in seen)
    assert {n.trial.benchmark for n in seen if n.stage.name == "self-test"} == {"selftest"}


def test_plan_includes_overhead_of_tester():
    flags = {"plugin": "siit", "modes": ("forward",)}
    lab = plan(resolve_setup(**flags, tester="embedded"))
    sim = plan(resolve_setup(**flags, tester="sim"))
    assert lab.trial_count == sim.trial_count
    assert lab.duration_s > sim.duration_s + 3.0 + 0.1 * lab.trial_count
    assert lab.duration_s == pytest.approx(sum(p.seconds for p in lab.stages))


def make_trial(key, **changes):
    values = {"rate_fps": 5e5, "duration_s": 60.0, "residual_wait_s": 2.0, "pause_s": 10.0}
    return Trial("throughput", key, 84, 64, "forward", **{**values, **changes})


def find_numbers(text):
    return re.findall(r"\d[\d,.]*\d|\d", text)


def test_state_line_describes_current_trial():
    stage = Stage("throughput", "84/64", "forward")
    load = DeviceLoad((1.0, 2.0), (90, 98), (50, 52))
    lossy = DirectionResult({"fg": ClassCount("foreground", 1000, 1000, 995)}, 1.0)
    last = TrialResult({"forward": lossy}, device_loads={"d": load})
    current = CurrentTrial(stage, make_trial("throughput/84/forward/r02/s03/a2"), last, 200.0)
    text = describe_trial(current, make_progress(2, 3), 12.0)
    numbers = "84 64 2 4 3 500,000 0 1,000,000 2 12 72 0.5000 94"
    assert find_numbers(text) == numbers.split()


def test_state_line_during_self_test_omits_search():
    stage = Stage("self-test", "84/64", "reverse")
    trial = make_trial("selftest/84/reverse/t03", duration_s=0.3, residual_wait_s=0.1, pause_s=0.0)
    text = describe_trial(CurrentTrial(stage, trial, None, 60.0), make_progress(2, 5), 0.0)
    assert find_numbers(text) == ["84", "64", "500,000"]


def test_state_line_advances_while_a_trial_runs():
    live = ProgressDisplay(Console(force_terminal=True, width=200, file=io.StringIO()))
    stage, trial = Stage("pdv", "84/64", "forward"), make_trial("pdv/84/forward/r01/a1")
    live.on_trial_start(CurrentTrial(stage, trial, None, 500.0, 500.0, 7, 13))
    first = str(live._render())
    live._trial_began -= 30
    later = str(live._render())
    live.close()
    assert re.search(r" 50%   trial 7 of ~20   8 min 20 s left\n.*\b0 of 72 s", first)
    assert re.search(r" 53%   trial 7 of ~20   7 min 50 s left\n.*\b30 of 72 s", later)
