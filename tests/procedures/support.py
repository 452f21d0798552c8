"""Doors for procedures: the simulated tester, and ones that answer by a rule."""

from types import SimpleNamespace

from v6t.drivers.sim.tester import SimOptions, SimTester
from v6t.procedures.throughput import ThroughputSpec
from v6t.trials.conditions import Conditions
from v6t.trials.result import ClassCount, DirectionResult, TrialResult
from v6t.trials.trial import list_directions

FOREGROUND = SimpleNamespace(name="fg", weight=1, role=SimpleNamespace(value="foreground"))
BACKGROUND = SimpleNamespace(name="bg", weight=1, role=SimpleNamespace(value="background"))


def sim(seed=1, streams=(FOREGROUND,), **options):
    """A simulated tester with its own capacity out of the way."""
    tester = SimTester(SimOptions(**{"tester_fps": 1e9, **options}), seed)
    loaded = SimpleNamespace(streams=tuple(streams))
    tester.load({"forward": loaded, "reverse": loaded}, None)
    return tester


def at(mode="forward", **changes):
    """Conditions without waiting."""
    given = {"residual_wait_s": 0.0, "pause_s": 0.0, **changes}
    return Conditions(ipv6_frame_size=104, ipv4_frame_size=64, mode=mode, **given)


def searching(conditions=None, **changes):
    """A throughput point on a medium of 10 Mfps."""
    given = {
        "upper_bound_fps": 10_000_000.0,
        "upper_bound_reason": "media",
        "resolution_fps": 1000.0,
        "duration_s": 60.0,
        "repetitions": 1,
        **changes,
    }
    return ThroughputSpec(conditions=conditions or at(), **given)


def by_rule(received, **direction):
    """A door: ``received(way, trial)`` frames of the required come back, nothing else is wrong."""

    def measure(trial):
        return TrialResult(
            {
                way: DirectionResult(
                    {
                        "fg": ClassCount(
                            "foreground", trial.frames, trial.frames, received(way, trial)
                        )
                    },
                    trial.total_duration_s,
                    **direction,
                )
                for way in list_directions(trial.mode)
            }
        )

    return measure


def limited(limit_fps):
    """A device that forwards everything up to a limit and loses the rest."""

    def received(_way, trial):
        return min(trial.frames, int(limit_fps * trial.duration_s))

    return by_rule(received)


class Recorded:
    """A door that remembers the trials that went through it."""

    def __init__(self, measure):
        self.measure = measure
        self.trials = []

    def __call__(self, trial):
        self.trials.append(trial)
        return self.measure(trial)
