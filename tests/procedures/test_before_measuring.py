"""What goes before a measurement, and the numbers procedures begin with: self-test, preflight, defaults."""

from dataclasses import replace

import pytest
from v6t.procedures import tester_rate
from v6t.procedures.frame_loss import FrameLossSpec, measure_frame_loss
from v6t.procedures.preflight import ATTEMPTS, check_translation
from v6t.procedures.recovery import RecoverySpec
from v6t.procedures.repetition import Adaptive
from v6t.procedures.stateful.capacity import CapacitySpec as TableSpec
from v6t.procedures.tester_rate import CONFIRMING, CapacitySpec, Rules
from v6t.tests.procedures.support import Recorded, at
from v6t.trials.result import ClassCount, DirectionResult, TrialResult

LONG = Rules(60.0, 2.0, 1.00001)


def counted(trial, received, *, role="foreground", checked=1, sent=None, **more):
    sent = trial.frames if sent is None else sent
    classes = {"fg": ClassCount(role, sent, sent, received), **more}
    way = DirectionResult(classes, trial.duration_s, checked=checked)
    return TrialResult({"forward": way})


def passing(short_fps, long_fps):
    def door(trial):
        limit = long_fps if trial.duration_s > 1 else short_fps
        return counted(trial, trial.frames - (trial.rate_fps > limit))

    return Recorded(door)


def looking(**changes):
    given = {"media_fps": 1e9, "start_fps": 20_000.0, "rules": LONG, **changes}
    return CapacitySpec(84, 64, "forward", **given)


@pytest.mark.parametrize("tenths", [1, 2, 5])
def test_a_rate_that_short_trials_flatter_is_lowered_until_a_whole_one_passes(tenths):
    """SELF-01: each rate under the rules of the results is nine tenths of the one before."""
    short = tester_rate.tester_capacity(looking(rules=None), passing(100_000, 0)).rate_fps
    assert 75_000 <= short <= 100_000
    door = passing(100_000, short * CONFIRMING**tenths * 1.001)
    found = tester_rate.tester_capacity(looking(), door)
    assert found.rate_fps == pytest.approx(short * CONFIRMING**tenths)
    whole = [t.rate_fps for t in door.trials if t.duration_s == LONG.duration_s]
    assert whole == pytest.approx([short * CONFIRMING**n for n in range(tenths + 1)])


def test_where_no_short_trial_is_valid_long_ones_look_for_the_rate():
    """Looks at the tester's counters may lie so far apart that they prove nothing about a short trial."""

    def door(trial):
        result = counted(trial, trial.frames - (trial.rate_fps > 50_000))
        blurred = replace(result.directions["forward"], sending_time_error_s=0.02)
        return TrialResult({"forward": blurred})

    spec, told, recorded = looking(rules=Rules(3.0, 0.1, 1.02), media_fps=1e6), [], Recorded(door)
    found = tester_rate.tester_capacity(spec, recorded, 0, told.append)
    assert 35_000 <= found.rate_fps <= 50_000
    long = [trial for trial in recorded.trials if trial.duration_s == 3.0]
    assert len(long) == 5
    (note,) = told
    assert "3.1 s" in note
    spec = looking(rules=Rules(0.4, 0.1, 1.02))
    short = tester_rate.tester_capacity(spec, Recorded(door), 0, told.append)
    assert (short.rate_fps, len(told)) == (0, 1)
    assert short.faults


def test_a_tester_that_loses_everything_is_not_asked_at_length():
    door = Recorded(lambda trial: counted(trial, 0))
    assert tester_rate.tester_capacity(looking(), door).rate_fps == 0
    assert {t.duration_s for t in door.trials} == {looking().duration_s}


def test_what_a_confirmation_takes():
    assert looking().confirmation_s == 62.0
    assert looking(rules=None).confirmation_s == 0.0
    laxer = Rules(0.1, 5.0, 1.5)
    assert looking(rules=laxer).confirmation_s == 0.0


def test_shares_that_a_capacity_search_begins_with():
    """ST-12: beta ends the climb, gamma the bisection."""
    spec = TableSpec(at(), 1000, 10_000, 1e6, "media", 1000.0)
    assert (spec.beta, spec.gamma, spec.error) == (0.1, 0.5, 1)


def test_overload_is_a_tenth_above_the_throughput():
    """RFC 2544 section 26.5, and half of that afterwards."""
    spec = RecoverySpec(at(), 1000.0, 5000.0, 60.0, 60.0, 1)
    assert spec.overload_fps == pytest.approx(1100.0)
    assert spec.afterwards_fps == pytest.approx(550.0)
    assert not spec.limited
    assert RecoverySpec(at(), 1000.0, 1099.0, 60.0, 60.0, 1).limited


def test_losses_that_differ_little_beside_what_passes_much_are_repeated():
    """TP-09: what came through is judged, where it is little every frame of it counts."""
    trials = iter(range(100))

    def door(trial):
        return counted(trial, 1 + 3 * (next(trials) % 2), sent=1000)

    spec = FrameLossSpec(at(), 1000.0, "given", 1.0, 1, rates_fps=(1000.0,),
                         adaptive=Adaptive(fewest=6, most=20, width=0.01))  # fmt: skip
    assert len(measure_frame_loss(spec, door).offered) == 20


def shown(trial, received, **example):
    way = counted(trial, received).directions["forward"]
    return TrialResult({"forward": replace(way, **example)})


def preflight(door):
    recorded = Recorded(door)
    found = check_translation(recorded, ipv6_frame_size=84, ipv4_frame_size=64, mode="forward")
    return found, len(recorded.trials)


def test_a_preflight_names_whoever_failed():
    whole = ClassCount("negative", 10, 10, 0)
    assert preflight(lambda t: counted(t, t.frames, odd=whole)) == (None, 1)
    found, trials = preflight(lambda t: TrialResult(counted(t, 0).directions, ("it died",)))
    assert (found.tester, found.direction, trials) == (True, "", ATTEMPTS)
    assert "it died" in found.why
    found, trials = preflight(lambda t: counted(t, 0))
    assert (found.tester, found.direction, trials) == (False, "forward", ATTEMPTS)
    assert "none of 200" in found.why
    silent = {"class": "fg", "sent": "00", "expected": "00", "received": ""}
    found, trials = preflight(lambda t: shown(t, 0, missing=silent))
    assert (found.frames, trials) == (silent, ATTEMPTS), "a device that paused may answer the next"
    wrong = {**silent, "received": "01", "why": "octet 0"}
    found, trials = preflight(lambda t: shown(t, t.frames, mismatch=wrong))
    assert (found.frames, trials) == (wrong, 1)
    found, _ = preflight(lambda t: counted(t, t.frames, checked=0))
    assert found.why
