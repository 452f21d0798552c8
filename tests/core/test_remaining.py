"""The estimate of the remaining time of a run, and the state line."""

import io
import random
import re
from functools import partial

import pytest
from rich.console import Console
from v6t.core.cli.progress import ProgressDisplay
from v6t.core.config.resolve import resolve_setup
from v6t.core.runs import runner, trials
from v6t.core.runs.bench import Bench
from v6t.core.runs.events import CurrentTrial, Listener, RemainingTimeEstimator, describe_trial
from v6t.core.runs.plan import Stage, plan
from v6t.drivers.sim.kind import Sim
from v6t.procedures.trial_runner import FPS, Progress
from v6t.trials.result import ClassCount, DeviceLoad, DirectionResult, TrialResult
from v6t.trials.trial import Trial

OCTETS = ("84/64", "512/492", "1518/1498")
THREE = ("bidirectional", "forward", "reverse")
RUNS = {
    "carried at once": (
        {"frame_sizes": (84, 512), "modes": THREE, "benchmarks": ("throughput",)},
        {"tester_fps": 200_000, "capacity_fps": 900_000},
        {"overhead_s": 0.3},
    ),
    "never carried": (
        {"frame_sizes": (84, 512), "modes": THREE, "benchmarks": ("throughput", "latency")},
        {"tester_fps": 900_000, "capacity_fps": 70_000, "capacity_noise": 0.01},
        {"setup_s": 6.0, "overhead_s": 0.3},
    ),
    "losses are part of it": (
        {"frame_sizes": (84, 512), "modes": ("forward",),
         "benchmarks": ("throughput", "frame-loss", "back-to-back")},
        {"tester_fps": 400_000, "capacity_fps": 150_000},
        {"overhead_s": 0.2},
    ),
    "a search that adapts": (
        {"frame_sizes": (84,), "modes": ("forward",), "benchmarks": ("throughput",),
         "procedure": {"search": "mlrsearch", "repetitions": 8}},
        {"tester_fps": 500_000, "capacity_fps": 300_000, "capacity_noise": 0.02},
        {},
    ),
}  # fmt: skip


class Clock:
    """Time that passes when told."""

    def __init__(self):
        self.s = 100.0

    def __call__(self):
        return self.s


def progress_of(repetition, step, *, point="throughput/84/forward", repetitions=4, steps=5):
    return Progress(point, repetition, repetitions, step, steps, 0.0, 1e6, 5e5, unit=FPS)


@pytest.mark.parametrize("pace", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("selftest", [0.5, 3.0])
def test_remaining_time_after_a_third_is_within_a_quarter(pace, selftest):
    """Searches and self-tests that take other times than planned, each by its own factor."""
    clock, kinds = Clock(), {"self-test": (8.0, selftest), "throughput": (60.0, pace)}
    planned = [
        Stage(name, octets, "forward", seconds, seconds)
        for octets in OCTETS
        for name, (seconds, _) in kinds.items()
    ]
    remaining = RemainingTimeEstimator(planned, clock)
    whole = len(OCTETS) * sum(seconds * factor for seconds, factor in kinds.values())
    errors = []
    for stage in planned:
        remaining.begin(stage)
        seconds, factor = kinds[stage.name]
        for repetition in (1, 2, 3, 4):
            for step in (1, 2, 3, 4, 5):
                if stage.name == "throughput":
                    remaining.record_progress(progress_of(repetition, step))
                passed = clock.s - 100.0
                if passed >= whole / 3:
                    errors.append((passed + remaining.estimate_remaining_s() - whole) / whole)
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


def test_a_stage_that_goes_on_after_another_keeps_its_plan():
    clock = Clock()
    search = Stage("throughput", "84/64", "forward", 10.0, 10.0)
    selftest = Stage("self-test", "84/64", "", 2.0, 2.0)
    remaining = RemainingTimeEstimator([search, selftest], clock)
    remaining.begin(search)
    clock.s += 1.0
    remaining.begin(selftest)
    clock.s += 2.0
    remaining.begin(search)
    assert remaining.estimate_remaining_s() == pytest.approx(9.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_remaining_time_of_a_simulated_run_after_half_is_within_a_third(
    name, monkeypatch, tmp_path
):
    """Runs with a simulated clock, on a machine that differs from the plan's assumptions."""
    flags, device, machine = RUNS[name]
    chance, clock, seen = random.Random(7), Clock(), []
    measure, load = Bench.measure, Bench.load

    def measure_on_clock(self, trial):
        clock.s += trial.pause_s + trial.total_duration_s + trial.residual_wait_s
        clock.s += machine.get("overhead_s", 0.1) * chance.lognormvariate(0.0, 0.3)
        return measure(self, trial)

    def load_on_clock(self, streams):
        clock.s += machine.get("setup_s", 3.0) * chance.lognormvariate(0.0, 0.3) / 2
        load(self, streams)

    class Watch(Listener):
        def on_trial_start(self, now):
            seen.append((clock.s - 100.0, now.remaining_s))

    for key, value in {"setup_s": 3.0, "load_s": 1.0, "overhead_s": 0.1}.items():
        monkeypatch.setattr(Sim, key, value)
    monkeypatch.setattr(Bench, "measure", measure_on_clock)
    monkeypatch.setattr(Bench, "load", load_on_clock)
    monkeypatch.setattr(
        trials, "RemainingTimeEstimator", partial(RemainingTimeEstimator, clock=clock)
    )
    options = {key: str(value) for key, value in device.items()}
    runner.execute(
        resolve_setup(**flags, plugin="siit", tester="sim", tester_options=options),
        tmp_path / "run",
        Watch(),
    )
    whole_s = clock.s - 100.0
    late = [
        (passed_s + remaining_s) / whole_s - 1
        for passed_s, remaining_s in seen
        if passed_s > whole_s / 2
    ]
    assert late
    assert max(map(abs, late)) < 1 / 3


def test_every_stage_of_a_run_was_planned(tmp_path, monkeypatch):
    """And in a rehearsal as in a lab every trial is announced: self-tests and retries, too."""
    begun, seen = [], []
    begin = RemainingTimeEstimator.begin

    def note(self, stage):
        begun.append(stage)
        begin(self, stage)

    class Watch(Listener):
        def on_trial_start(self, now):
            seen.append(now)

    monkeypatch.setattr(RemainingTimeEstimator, "begin", note)
    setup = resolve_setup(
        plugin="nat44",
        tester="sim",
        frame_sizes=(64, 512),
        modes=("forward", "reverse"),
        benchmarks=("connection-rate", "throughput", "latency"),
        procedure={"repetitions": 1, "connections": {"count": 1000}, "latency": {"tags": 100}},
    )
    outcome = runner.execute(setup, tmp_path / "run", Watch())
    named = {stage for stage in plan(setup).stages if stage.mode != "connections"}
    assert named <= set(begun)
    assert len(seen) == len(outcome.trials)
    assert {n.trial.benchmark for n in seen} >= {"selftest", "preflight", "throughput"}
    assert all(n.remaining_s >= 0 for n in seen)
    of_selftest = [n for n in seen if n.stage.name == "self-test"]
    assert {n.trial.benchmark for n in of_selftest} == {"selftest"}


def test_plan_includes_overhead_of_tester():
    flags = {"plugin": "siit", "modes": ("forward",)}
    lab = plan(resolve_setup(**flags, tester="embedded"))
    sim = plan(resolve_setup(**flags, tester="sim"))
    assert lab.trial_count == sim.trial_count
    assert lab.duration_s > sim.duration_s + 3.0 + 0.1 * lab.trial_count
    assert lab.duration_s == pytest.approx(sum(p.seconds for p in lab.stages))


def trial_of(key, **changes):
    values = {"rate_fps": 5e5, "duration_s": 60.0, "residual_wait_s": 2.0, "pause_s": 10.0}
    return Trial("throughput", key, 84, 64, "forward", **{**values, **changes})


def lost(share, device=()):
    counted = DirectionResult({"fg": ClassCount("foreground", 1000, 1000, 1000 - share)}, 1.0)
    return TrialResult({"forward": counted}, device_loads=dict(device))


def test_state_line_describes_current_trial():
    stage = Stage("throughput", "84/64", "forward")
    load = DeviceLoad((1.0, 2.0), (90, 98), (50, 52))
    now = CurrentTrial(
        stage, trial_of("throughput/84/forward/r02/s03/a2"), lost(5, {"d": load}.items()), 200.0
    )
    said = describe_trial(now, progress_of(2, 3), 12.0)
    numbers = "84 64 2 4 3 500,000 0 1,000,000 2 12 72 0.5000 94"
    assert re.findall(r"\d[\d,.]*\d|\d", said) == numbers.split()


def test_state_line_during_self_test_omits_search():
    stage = Stage("self-test", "84/64", "reverse")
    trial = trial_of("selftest/84/reverse/t03", duration_s=0.3, residual_wait_s=0.1, pause_s=0.0)
    said = describe_trial(CurrentTrial(stage, trial, None, 60.0), progress_of(2, 5), 0.0)
    assert re.findall(r"\d[\d,.]*\d|\d", said) == ["84", "64", "500,000"]


def test_the_state_line_advances_while_a_trial_runs():
    live = ProgressDisplay(Console(force_terminal=True, width=200, file=io.StringIO()))
    stage = Stage("pdv", "84/64", "forward")
    live.on_trial_start(
        CurrentTrial(stage, trial_of("pdv/84/forward/r01/a1"), None, 500.0, 500.0, 7, 13)
    )
    first = str(live._render())
    live._trial_began -= 30
    later = str(live._render())
    live.close()
    assert re.search(r" 50%   trial 7 of ~20   8 min 20 s left\n.*\b0 of 72 s", first)
    assert re.search(r" 53%   trial 7 of ~20   7 min 50 s left\n.*\b30 of 72 s", later)
