"""How long a run will still take: learned from what it took so far."""

from __future__ import annotations

import re

import pytest
from v6t.core.cli.progress import Live, Silent
from v6t.core.config.bound import bind
from v6t.core.config.resolve import Flags, resolve
from v6t.core.runs import runner
from v6t.core.runs.forecast import Forecast, Now
from v6t.core.runs.plan import PlannedStage, Stage, plan, stages
from v6t.core.runs.wording import happening
from v6t.procedures.trial_runner import FPS, Progress
from v6t.trials.result import ClassCount, DirectionResult, TrialResult
from v6t.trials.timeline import DeviceLoad
from v6t.trials.trial import Trial

OCTETS = ("84/64", "512/492", "1518/1498")


class Clock:
    """Time that passes when told."""

    def __init__(self):
        self.s = 100.0

    def __call__(self):
        return self.s


def progress_of(repetition, step, *, point="throughput/84/forward", repetitions=4, steps=5):
    return Progress(point, repetition, repetitions, step, steps, 0.0, 1e6, 5e5, unit=FPS)


@pytest.mark.parametrize("pace", [0.25, 0.8, 1.0, 1.7, 4.0])
@pytest.mark.parametrize("selftest", [0.5, 1.0, 3.0])
def test_from_a_third_on_the_estimate_is_within_a_quarter(pace, selftest):
    """Searches and self-tests that take other times than planned, each by its own factor."""
    clock, kinds = Clock(), {"self-test": (8.0, selftest), "throughput": (60.0, pace)}
    planned = [
        PlannedStage(Stage(name, octets, "forward"), seconds)
        for octets in OCTETS
        for name, (seconds, _) in kinds.items()
    ]
    forecast = Forecast(planned, clock)
    whole = len(OCTETS) * sum(seconds * factor for seconds, factor in kinds.values())
    errors = []
    for stage in (p.stage for p in planned):
        forecast.begin(stage)
        seconds, factor = kinds[stage.name]
        for repetition in (1, 2, 3, 4):
            for step in (1, 2, 3, 4, 5):
                if stage.name == "throughput":
                    forecast.progress(progress_of(repetition, step))
                passed = clock.s - 100.0
                if passed >= whole / 3:
                    errors.append((passed + forecast.left_s() - whole) / whole)
                clock.s += seconds * factor / 20
    assert len(errors) > 50
    assert max(map(abs, errors)) < 0.25


def test_what_was_not_planned_and_what_takes_for_ever_do_no_harm():
    clock = Clock()
    forecast = Forecast([PlannedStage(Stage("pdv", "84/64", "forward"), 10.0)], clock)
    forecast.begin(Stage("self-test", "84/64", "connections"))
    clock.s += 5.0
    assert forecast.left_s() == pytest.approx(10.0)
    forecast.begin(Stage("pdv", "84/64", "forward"))
    clock.s += 100.0
    assert 0 < forecast.left_s() <= 10.0
    forecast.begin(Stage("the end", "", ""))
    assert forecast.left_s() == 0.0


def test_every_stage_of_a_run_was_planned(tmp_path, monkeypatch):
    """And in a rehearsal as in a lab every trial is announced: self-tests and retries, too."""
    begun, seen = [], []
    begin = Forecast.begin

    def noted(self, stage, sharper=None):
        begun.append(stage)
        begin(self, stage, sharper)

    class Watch(Silent):
        def now(self, now):
            seen.append(now)

    monkeypatch.setattr(Forecast, "begin", noted)
    flags = Flags(
        plugin="nat44", tester="sim", frame_sizes=(64, 512), modes=("forward", "reverse"),
        benchmarks=("connection-rate", "throughput", "latency"),
        procedure={"repetitions": 1, "connections": {"count": 1000}, "latency": {"tags": 100}},
    )  # fmt: skip
    bound = bind(resolve(flags=flags))
    outcome = runner.execute(bound, tmp_path / "run", Watch())
    named = {p.stage for p in stages(bound) if p.stage.mode != "connections"}
    assert named <= set(begun)
    assert len(seen) == outcome.measured
    assert {n.trial.benchmark for n in seen} >= {"selftest", "preflight", "throughput"}
    assert all(n.left_s >= 0 for n in seen)
    of_selftest = [n for n in seen if n.stage.name == "self-test"]
    assert {n.trial.benchmark for n in of_selftest} == {"selftest"}


def test_the_plan_counts_what_the_tester_needs_itself():
    flags = {"plugin": "siit", "modes": ("forward",)}
    lab = plan(bind(resolve(flags=Flags(**flags, tester="embedded"))))
    sim = plan(bind(resolve(flags=Flags(**flags, tester="sim"))))
    assert lab.trials == sim.trials
    assert lab.duration_s > sim.duration_s + 3.0 + 0.1 * lab.trials
    total = sum(p.seconds for p in stages(bind(resolve(flags=Flags(**flags, tester="embedded")))))
    assert lab.duration_s == pytest.approx(total)


def trial_of(key, **changes):
    values = {"rate_fps": 5e5, "duration_s": 60.0, "residual_wait_s": 2.0, "pause_s": 10.0}
    return Trial("throughput", key, 84, 64, "forward", **{**values, **changes})


def lost(share, device=()):
    counted = DirectionResult({"fg": ClassCount("foreground", 1000, 1000, 1000 - share)}, 1.0)
    return TrialResult({"forward": counted}, device_loads=dict(device))


def test_the_live_line_says_what_happens_now():
    stage = Stage("throughput", "84/64", "forward")
    load = DeviceLoad((1.0, 2.0), (90, 98), (50, 52))
    now = Now(
        stage, trial_of("throughput/84/forward/r02/s03/a2"), 2, lost(5, {"d": load}.items()), 200.0
    )
    said = happening(now, progress_of(2, 3), 12.0)
    numbers = "84 64 2 4 3 500,000 0 1,000,000 2 12 72 0.5000 94 3 08"
    assert re.findall(r"\d[\d,.]*\d|\d", said) == numbers.split()


def test_during_a_self_test_it_says_nothing_of_the_search_before():
    stage = Stage("self-test", "84/64", "reverse")
    trial = trial_of("selftest/84/reverse/t03", duration_s=0.3, residual_wait_s=0.1, pause_s=0.0)
    said = happening(Now(stage, trial, 1, None, 60.0), progress_of(2, 5), 0.0)
    assert re.findall(r"\d[\d,.]*\d|\d", said) == ["84", "64", "500,000", "1", "00"]


def test_the_live_line_is_drawn_anew_while_a_trial_runs():
    from rich.console import Console

    live = Live(Console(force_terminal=True, width=200, file=open("/dev/null", "w")))  # noqa: SIM115
    assert str(live.__rich__()) == ""
    live.now(
        Now(Stage("pdv", "84/64", "forward"), trial_of("pdv/84/forward/r01/a1"), 1, None, 500.0)
    )
    first = str(live.__rich__())
    live._since -= 30
    later = str(live.__rich__())
    live.close()
    assert re.search(r"\b0 of 72 s", first)
    assert re.search(r"\b30 of 72 s", later)
    assert ("8 min 20 s left" in first) and ("7 min 50 s left" in later)


def test_repeated_selftest_counts_with_the_search_after_it():
    bound = bind(
        resolve(
            flags=Flags(plugin="siit", tester="embedded", frame_sizes=(84,), modes=("forward",))
        )
    )
    clock = [0.0]
    forecast = Forecast(stages(bound), lambda: clock[0])
    selftest, search = (
        Stage("self-test", "84/64", "forward"),
        Stage("throughput", "84/64", "forward"),
    )
    for stage in (Stage("set-up", "84/64", ""), selftest, search, selftest):
        forecast.begin(stage)
    assert forecast.left_s() == 0
    forecast.repeated(search=True)
    planned = {p.stage: p for p in stages(bound)}
    assert forecast.left_s() > planned[selftest].seconds + planned[search].least_s / 2
    forecast.begin(search)
    forecast.begin(Stage("", "", ""))
    assert forecast.left_s() == 0
