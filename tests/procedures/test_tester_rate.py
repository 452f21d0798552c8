"""Tester capacity, and the check of the translation before a measurement."""

import pytest
from v6t.procedures import tester_rate
from v6t.procedures.preflight import MAX_ATTEMPTS, check_translation
from v6t.procedures.tester_rate import CONFIRMING_SHARE, SelfTestSpec, TrialRules
from v6t.trials.result import TrialResult

from .support import Recorder, make_count, make_result

LONG = TrialRules(60.0, 2.0, 1.00001)


def make_answer(trial, received, negative=None, **more):
    classes = {"fg": (trial.frames, received)} | ({"negative": negative} if negative else {})
    return make_result(classes, trial.duration_s, **{"checked": 1, **more})


def make_passing_tester(short_fps, long_fps):
    def measure(trial):
        limit = long_fps if trial.duration_s > 1 else short_fps
        return make_answer(trial, trial.frames - (trial.rate_fps > limit))

    return Recorder(measure)


def make_spec(**changes):
    fields = {"media_fps": 1e9, "start_fps": 20_000.0, "rules": LONG, **changes}
    return SelfTestSpec(84, 64, "forward", **fields)


@pytest.mark.parametrize("tenths", [1, 2, 5])
def test_rate_of_short_trials_is_lowered_until_long_trial_passes(tenths):
    spec, tester = make_spec(rules=None), make_passing_tester(100_000, 0)
    short = tester_rate.measure_tester_capacity(spec, tester).rate_fps
    assert 75_000 <= short <= 100_000
    tester = make_passing_tester(100_000, short * CONFIRMING_SHARE**tenths * 1.001)
    result = tester_rate.measure_tester_capacity(make_spec(), tester)
    assert result.rate_fps == pytest.approx(short * CONFIRMING_SHARE**tenths)
    rates = [t.rate_fps for t in tester.trials if t.duration_s == LONG.duration_s]
    assert rates == pytest.approx([short * CONFIRMING_SHARE**n for n in range(tenths + 1)])


def test_tester_at_rate_of_medium_needs_no_trial():
    tester = Recorder(return_uncertain_counters)
    assert not tester_rate.can_carry_more(make_spec(), make_spec().media_fps, tester)
    assert tester.trials == []


def return_uncertain_counters(trial):
    """Return a result whose sending time is too uncertain for a short trial."""
    return make_answer(trial, trial.frames - (trial.rate_fps > 50_000), sending_time_error_s=0.02)


def test_rate_without_conclusive_short_trials_is_found_by_long_ones():
    notes, tester = [], Recorder(return_uncertain_counters)
    spec = make_spec(rules=TrialRules(3.0, 0.1, 1.02), media_fps=1e6)
    result = tester_rate.measure_tester_capacity(spec, tester, 0, notes.append)
    assert 35_000 <= result.rate_fps <= 50_000
    assert sum(trial.duration_s == 3.0 for trial in tester.trials) == 5
    (note,) = notes
    assert "3.1 s" in note


def test_rate_without_conclusive_trials_is_zero():
    notes, spec = [], make_spec(rules=TrialRules(0.4, 0.1, 1.02))
    recorder = Recorder(return_uncertain_counters)
    result = tester_rate.measure_tester_capacity(spec, recorder, 0, notes.append)
    assert (result.rate_fps, notes) == (0, [])
    assert result.faults
    tester = Recorder(lambda trial: make_answer(trial, 0))
    assert tester_rate.measure_tester_capacity(make_spec(), tester).rate_fps == 0
    assert {t.duration_s for t in tester.trials} == {make_spec().duration_s}


@pytest.mark.parametrize(
    ("rules", "confirmation_s"), [(LONG, 62.0), (None, 0.0), (TrialRules(0.1, 5.0, 1.5), 0.0)]
)
def test_confirmation_lasts_as_long_as_rules_require(rules, confirmation_s):
    assert make_spec(rules=rules).confirmation_s == confirmation_s


SILENT = {"class": "fg", "sent": "00", "expected": "00", "received": ""}
WRONG = {**SILENT, "received": "01", "why": "octet 0"}


@pytest.mark.parametrize(("measure", "attempts", "expected"), [
    (lambda t: make_answer(t, t.frames, make_count(10, 0, "negative")), 1, None),
    (lambda t: TrialResult(make_answer(t, 0).directions, ("it died",)), MAX_ATTEMPTS, (True, "", {})),
    (lambda t: make_answer(t, 0), MAX_ATTEMPTS, (False, "forward", {})),
    # a device that paused may forward the next trial
    (lambda t: make_answer(t, 0, missing=SILENT), MAX_ATTEMPTS, (False, "forward", SILENT)),
    (lambda t: make_answer(t, t.frames, mismatch=WRONG), 1, (False, "forward", WRONG)),
    (lambda t: make_answer(t, t.frames, checked=0), None, (False, "forward", {})),
], ids=["negative dropped", "tester", "device", "missing", "mismatch", "unchecked"])  # fmt: skip
def test_preflight_names_tester_or_device_and_shows_the_frame(measure, attempts, expected):
    tester = Recorder(measure)
    result = check_translation(tester, ipv6_frame_size=84, ipv4_frame_size=64, mode="forward")
    assert (result and (result.tester, result.direction, result.frames or {})) == expected
    assert attempts in (None, len(tester.trials))
    assert result is None or result.why
