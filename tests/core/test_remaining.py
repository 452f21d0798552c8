"""The estimate of the remaining time of a run, and the state line."""

import io
import random
import re
from functools import partial
from itertools import product
from unittest.mock import create_autospec

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
    """Time that passes when a test advances it."""

    s = 0.0

    def __call__(self):
        return self.s


def make_listener(receive):
    """Return a listener that calls a function before each trial."""
    listener = Listener()
    listener.on_trial_start = receive
    return listener


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
    whole_s = len(OCTETS) * sum(seconds * factor for seconds, factor in kinds.values())
    errors = []
    for stage in planned:
        remaining.begin(stage)
        seconds, factor = kinds[stage.name]
        for repetition, step in product((1, 2, 3, 4), (1, 2, 3, 4, 5)):
            if stage.name == "throughput":
                remaining.record_progress(progress_of(repetition, step))
            remaining.start_trial(trial_of("t"), None)
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
    setup = resolve_setup(**flags, plugin="siit", tester="sim", tester_options=options)
    listener = make_listener(lambda trial: seen.append((clock.s, trial.remaining_s)))
    runner.execute(setup, tmp_path, listener)
    late = [
        (passed_s + remaining_s) / clock.s - 1
        for passed_s, remaining_s in seen
        if passed_s > clock.s / 2
    ]
    assert late
    assert max(map(abs, late)) < 1 / 3


def test_every_stage_of_a_run_was_planned(tmp_path, monkeypatch):
    """In a rehearsal as in a lab, every trial is announced: self-tests and retries, too."""
    seen, begin = [], create_autospec(RemainingTimeEstimator.begin)
    begin.side_effect = RemainingTimeEstimator.begin
    monkeypatch.setattr(RemainingTimeEstimator, "begin", begin)
    setup = resolve_setup(
        plugin="nat44",
        tester="sim",
        frame_sizes=(64, 512),
        modes=("forward", "reverse"),
        benchmarks=("connection-rate", "throughput", "latency"),
        procedure={"repetitions": 1, "connections": {"count": 1000}, "latency": {"tags": 100}},
    )
    outcome = runner.execute(setup, tmp_path, make_listener(seen.append))
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


def trial_of(key, **changes):
    values = {"rate_fps": 5e5, "duration_s": 60.0, "residual_wait_s": 2.0, "pause_s": 10.0}
    return Trial("throughput", key, 84, 64, "forward", **{**values, **changes})


def find_numbers(text):
    return re.findall(r"\d[\d,.]*\d|\d", text)


def test_state_line_describes_current_trial():
    stage = Stage("throughput", "84/64", "forward")
    load = DeviceLoad((1.0, 2.0), (90, 98), (50, 52))
    lossy = DirectionResult({"fg": ClassCount("foreground", 1000, 1000, 995)}, 1.0)
    last = TrialResult({"forward": lossy}, device_loads={"d": load})
    now = CurrentTrial(stage, trial_of("throughput/84/forward/r02/s03/a2"), last, 200.0)
    text = describe_trial(now, progress_of(2, 3), 12.0)
    numbers = "84 64 2 4 3 500,000 0 1,000,000 2 12 72 0.5000 94"
    assert find_numbers(text) == numbers.split()


def test_state_line_during_self_test_omits_search():
    stage = Stage("self-test", "84/64", "reverse")
    trial = trial_of("selftest/84/reverse/t03", duration_s=0.3, residual_wait_s=0.1, pause_s=0.0)
    text = describe_trial(CurrentTrial(stage, trial, None, 60.0), progress_of(2, 5), 0.0)
    assert find_numbers(text) == ["84", "64", "500,000"]


def test_the_state_line_advances_while_a_trial_runs():
    live = ProgressDisplay(Console(force_terminal=True, width=200, file=io.StringIO()))
    stage, trial = Stage("pdv", "84/64", "forward"), trial_of("pdv/84/forward/r01/a1")
    live.on_trial_start(CurrentTrial(stage, trial, None, 500.0, 500.0, 7, 13))
    first = str(live._render())
    live._trial_began -= 30
    later = str(live._render())
    live.close()
    assert re.search(r" 50%   trial 7 of ~20   8 min 20 s left\n.*\b0 of 72 s", first)
    assert re.search(r" 53%   trial 7 of ~20   7 min 50 s left\n.*\b30 of 72 s", later)
