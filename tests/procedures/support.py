"""Testers for tests of procedures: the simulated tester, and testers with computed results."""

from types import SimpleNamespace

from v6t.drivers.sim.tester import SimOptions, SimTester
from v6t.procedures.throughput import ThroughputSpec
from v6t.trials.conditions import Conditions
from v6t.trials.result import ClassCount, DirectionResult, TrialResult
from v6t.trials.trial import list_directions

FOREGROUND = SimpleNamespace(name="fg", weight=1, role=SimpleNamespace(value="foreground"))
BACKGROUND = SimpleNamespace(name="bg", weight=1, role=SimpleNamespace(value="background"))


def make_sim(seed=1, streams=(FOREGROUND,), **options):
    """Make a simulated tester whose own capacity does not limit results."""
    tester = SimTester(SimOptions(**{"tester_fps": 1e9, **options}), seed)
    loaded = SimpleNamespace(streams=tuple(streams))
    tester.load({"forward": loaded, "reverse": loaded}, None)
    return tester


def make_conditions(mode="forward", **changes):
    """Make conditions without waiting times."""
    fields = {"residual_wait_s": 0.0, "pause_s": 0.0, **changes}
    return Conditions(ipv6_frame_size=104, ipv4_frame_size=64, mode=mode, **fields)


def make_spec(conditions=None, **changes):
    """Make the specification of a throughput point on a medium that carries 10 Mfps."""
    fields = {
        "upper_bound_fps": 10_000_000.0, "upper_bound_reason": "media", "resolution_fps": 1000.0,
        "duration_s": 60.0, "repetitions": 1, **changes,
    }  # fmt: skip
    return ThroughputSpec(conditions=conditions or make_conditions(), **fields)


def make_count(sent, received, role="foreground"):
    return ClassCount(role, sent, sent, received)


def make_result(classes, duration_s=1.0, **more):
    """Make a result of the forward direction; a class is ``(sent, received)`` or a ClassCount."""
    counted = {n: make_count(*c) if isinstance(c, tuple) else c for n, c in classes.items()}
    return TrialResult({"forward": DirectionResult(counted, duration_s, **more)})


def make_tester(received):
    """Return a measure function that receives ``received(direction, trial)`` frames."""

    def measure(trial):
        classes = {
            direction: {"fg": make_count(trial.frames, received(direction, trial))}
            for direction in list_directions(trial.mode)
        }
        seconds = trial.total_duration_s
        return TrialResult({d: DirectionResult(c, seconds) for d, c in classes.items()})

    return measure


def make_limited(limit_fps, short_limit_fps=None):
    """Return a measure function that loses all frames above a limit; short trials may have another."""

    def received(_direction, trial):
        limit = limit_fps if trial.duration_s >= 60 else short_limit_fps or limit_fps
        return min(trial.frames, int(limit * trial.duration_s))

    return make_tester(received)


class Recorder:
    """Calls a measure function and records its trials and results."""

    def __init__(self, measure):
        self.measure_trial = measure
        self.trials = []
        self.results = {}

    def __call__(self, trial):
        self.trials.append(trial)
        self.results[trial.key] = self.measure_trial(trial)
        return self.results[trial.key]

    def find(self, key):
        return self.results[key]
