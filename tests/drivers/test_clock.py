"""A clock that is not what stamps of one trial can be compared by."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from v6t.drivers import clock
from v6t.drivers.clock import Reading, find_faults_between
from v6t.tools.accuracy.certify import _Bench
from v6t.trials.result import TrialResult
from v6t.trials.trial import Trial


def reading(ahead_ns=0, within_ns=100, at_s=0.0, raw_s=None):
    raw_s = at_s if raw_s is None else raw_s
    return Reading(2 * (10**18 + ahead_ns), within_ns, int(at_s * 1e9), int(raw_s * 1e9))


@pytest.mark.parametrize("step_ns", [-3_000_000_000, -5_000, 5_000, 1_000_000, 10**15])
def test_a_step_of_microseconds_is_seen(step_ns):
    (told,) = find_faults_between(reading(), reading(step_ns, at_s=60))
    assert f"{step_ns / 1e9:+.6f} s" in told


def test_a_reading_that_was_interrupted_proves_no_step():
    assert not find_faults_between(reading(), reading(5_000, within_ns=10_100, at_s=60))
    assert find_faults_between(reading(), reading(5_000, within_ns=9_800, at_s=60))


@pytest.mark.parametrize(
    ("share", "said"),
    [(500e-6, False), (-500e-6, False), (0.0011, True), (-0.0011, True), (1 / 12, True)],
)
def test_what_the_kernel_disciplines_is_no_fault_and_a_hurried_server_is(share, said):
    faults = find_faults_between(reading(), reading(at_s=60 * (1 + share), raw_s=60))
    assert bool(faults) is said
    assert all(f"slewed by {share:+.2%}" in fault for fault in faults)


def test_the_quickest_reading_is_taken(monkeypatch):
    """Eight of nine are interrupted between the clocks: they would look like a step."""
    real, calls = time.time_ns, []

    def interrupted():
        calls.append(1)
        if len(calls) % clock.READINGS != 4:
            end = time.monotonic_ns() + 300_000
            while time.monotonic_ns() < end:
                pass
        return real()

    before = clock.read()
    monkeypatch.setattr(time, "time_ns", interrupted)
    after = clock.read()
    assert len(calls) == clock.READINGS
    assert after.within_ns < 300_000
    assert not find_faults_between(before, after)
    assert not clock.find_faults_since(before)


def test_a_step_while_frames_are_under_way(monkeypatch):
    before, real = clock.read(), time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() - 1_000_000)
    (told,) = clock.find_faults_since(before)
    assert "-0.00" in told


def test_the_truth_of_a_certificate_is_no_time_of_day_that_was_set(monkeypatch):
    real = time.time_ns
    trial = Trial("test", "k", 84, 64, "forward", 1000.0, 1.0)
    stepped = False

    def measure(asked):
        if stepped:
            monkeypatch.setattr(time, "time_ns", lambda: real() + 1_000_000)
        return TrialResult({})

    device = SimpleNamespace(behave=lambda known, seed: None, truth=lambda: "truth")
    asking = SimpleNamespace(_open=lambda: SimpleNamespace(measure=measure), _device=device)
    check = SimpleNamespace(known=None)
    assert _Bench._ask(asking, check, trial)[0].faults == ()
    stepped = True
    (told,) = _Bench._ask(asking, check, trial)[0].faults
    assert "clock" in told
