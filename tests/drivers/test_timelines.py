"""Timelines of trials: outages of the device, its load, and steps of the clock."""

import time
from contextlib import closing
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
from v6t.core.runs.device import compute_load, with_device_load
from v6t.drivers import clock
from v6t.drivers.clock import ClockReading, find_faults_between
from v6t.drivers.duts.session.telemetry import Sample
from v6t.drivers.embedded.timing import Arrivals, TimedTrial
from v6t.drivers.trex.bursts import OfferedLoad
from v6t.drivers.trex.counting import make_timeline
from v6t.tests.needs import needs_lab
from v6t.tests.procedures.support import make_sim
from v6t.tools.accuracy.study import Bench
from v6t.trials.result import TrialResult
from v6t.trials.trial import DeviceEvent, FlowStarts, Segment, Trial

from .faketrex import parse_trial
from .fault_injection import ROUTER, Fault, FaultBench, make_known_device
from .lab_testers import compile_plugin


def make_trial(rate=3000.0, duration=1.0, mode="forward", **more):
    return Trial("throughput", "t", 104, 64, mode, rate, duration, 0.4, 0.1, **more)


def simulate_trial(trial, **device):
    counted = make_sim(**device).measure(trial).directions["forward"]
    lost = counted.count_frames("required") - counted.count_frames("received")
    assert sum(counted.timeline.lost) == lost > 0
    return counted.timeline


def test_simulated_reset_appears_in_its_time_slots():
    trial = make_trial(1000.0, 10.0, device_event=DeviceEvent("reset", 4.0))
    timeline = simulate_trial(trial, reset_s=2.0, capacity_fps=1e6)
    assert timeline.slot_s == 0.2
    assert timeline.lost == (0,) * 20 + (200,) * 10 + (0,) * 20
    assert timeline.received == (200,) * 20 + (0,) * 10 + (200,) * 20


def test_simulated_rate_after_an_overload_is_lower():
    trial = make_trial(2_000_000.0, 6.0, second_segment=Segment(500_000.0, 4.0))
    timeline = simulate_trial(trial, capacity_fps=1e6, recovery_s=1.0, jitter_us=3)
    assert timeline.received[-1] < timeline.received[0]


def test_arrivals_are_counted_in_their_time_slots():
    trial = make_trial(1000.0)
    timed, began = TimedTrial(trial, (1,)), 10**18
    arrivals = Arrivals(timed)
    # one frame arrives before its departure
    arrivals.add_batch(began + np.array([5, 1_000_000]), 0, 40, began + 40_000_000)
    arrivals.add_batch(began + np.arange(15, 26) * 1_000_000, 0, 15, began)  # in two time slots
    arrivals.add_batch(np.array([began + 10**12]), 0, 9, began)  # after a clock step
    timeline = arrivals.make_timeline(timed.list_due_s({0: np.array([0, 19, 20, 300, 999])}))
    assert timeline.slot_s == 0.02
    assert timeline.received[:2] == (7, 6) and sum(timeline.received) == 14
    assert timeline.received[-1] == 1 and len(timeline.received) == 71
    assert {n: lost for n, lost in enumerate(timeline.lost) if lost} == {0: 2, 1: 1, 15: 1, 49: 1}
    starting = replace(trial, flow_starts=FlowStarts(2, 0.1))
    assert Arrivals(TimedTrial(starting, (1,))).make_timeline(np.array([0.001])) is None


def test_timeline_of_port_counters_shows_outage():
    # 1000 fps for 4 s, an outage from 1.5 to 2 s, 7 frames in flight
    received = (493, 993, 1493, 1493, 1993, 2493, 2993)
    counted = enumerate(received, 1)
    readings = [[0.5 * n, {"0": [500 * n, 0], "1": [0, frames]}] for n, frames in counted]
    raw = {"timeline_readings": readings,
           "ports": {"0": {"opackets": 4000, "ipackets": 0}, "1": {"opackets": 0, "ipackets": 3500}}}  # fmt: skip
    load = OfferedLoad(compile_plugin()[1]["forward"], [], 0, (1,))
    timeline = make_timeline(parse_trial(raw), [load], make_trial(1000.0, 4.0))
    assert timeline.slot_s == 0.5
    assert sum(timeline.received) == 3500 and sum(timeline.lost) == 500
    assert timeline.received[3] == 0 and timeline.lost[3] >= 493
    assert max(timeline.lost[:3] + timeline.lost[4:]) <= 7
    few = parse_trial({**raw, "timeline_readings": readings[:2]})
    assert make_timeline(few, [load], make_trial(1000.0, 4.0)) is None


def make_sample(at, idle, total):
    return Sample({"cpu": {"cpu0.idle": idle, "cpu0.total": total, "cpu1.idle": total,
                           "cpu1.total": total}}, at)  # fmt: skip


def test_device_load_counts_from_first_frame():
    idle = {99.0: (100, 100), 100.0: (200, 200), 101.0: (220, 300), 102.0: (220, 400)}
    samples = [make_sample(at, *ticks) for at, ticks in idle.items()]
    load = compute_load(samples, 100.5)
    assert load.end_times_s == (0.5, 1.5)
    assert (load.max_percent, load.mean_percent) == ((80, 100), (40, 50))
    assert compute_load(samples[:2], 100.5) is None
    assert compute_load([Sample({}, 1.0), Sample({}, 2.0)], 0.0) is None


def test_only_long_trials_are_sampled_by_cpu_watcher():
    samples = [make_sample(946684800.0, 0, 0), make_sample(946684801.0, 50, 100)]
    session = Mock(**{"start_watcher.return_value": Mock(**{"stop.return_value": samples})})
    session.get_sessions.return_value = [("router", session)]
    result = TrialResult({}, started="2000-01-01T00:00:00+00:00")
    measure = with_device_load(lambda _: result, lambda: session)
    assert measure(make_trial(duration=1.0)) is result
    session.start_watcher.assert_not_called()
    loaded = measure(make_trial(duration=3.0))
    session.start_watcher.assert_called_once_with("cpu")
    assert loaded.device_loads["router"].max_percent == (50,)


@pytest.mark.lab
@pytest.mark.slow
@needs_lab
def test_outage_is_found_in_real_trial():
    with closing(FaultBench("embedded")) as bench:
        device = make_known_device(outage_from=801, outage_frames=100)
        fault = Fault("outage", "", device, lambda seen: True, "", **ROUTER)
        timeline = bench.try_fault(fault).result.directions["forward"].timeline
    lost = {slot * timeline.slot_s: n for slot, n in enumerate(timeline.lost) if n}
    # at 2,000 fps, frames 801 to 900 are due from 0.4 s on; the device counts neighbor discovery, too
    assert 90 <= sum(lost.values()) <= 100
    assert min(lost) >= 0.38 and max(lost) <= 0.45
    assert sum(timeline.received) + sum(timeline.lost) == 1000


def make_reading(ahead_ns=0, duration_ns=100, at_s=0.0, raw_s=None):
    raw_s = at_s if raw_s is None else raw_s
    return ClockReading(2 * (10**18 + ahead_ns), duration_ns, int(at_s * 1e9), int(raw_s * 1e9))


@pytest.mark.parametrize("step_ns", [-3_000_000_000, -5_000, 5_000, 1_000_000, 10**15])
def test_clock_step_of_microseconds_is_detected(step_ns):
    (fault,) = find_faults_between(make_reading(), make_reading(step_ns, at_s=60))
    assert f"{step_ns / 1e9:+.6f} s" in fault


def test_slow_clock_reading_is_not_a_step():
    assert not find_faults_between(make_reading(), make_reading(5_000, duration_ns=10_100, at_s=60))
    assert find_faults_between(make_reading(), make_reading(5_000, duration_ns=9_800, at_s=60))


@pytest.mark.parametrize(("share", "is_fault"), [
    (500e-6, False), (-500e-6, False), (0.0011, True), (-0.0011, True), (1 / 12, True),
])  # fmt: skip
def test_kernel_slewing_is_accepted_but_faster_slewing_is_a_fault(share, is_fault):
    faults = find_faults_between(make_reading(), make_reading(at_s=60 * (1 + share), raw_s=60))
    assert bool(faults) is is_fault
    assert all(f"slewed by {share:+.2%}" in fault for fault in faults)


def test_fastest_clock_reading_is_used(monkeypatch):
    """Eight of nine readings are interrupted, which alone would look like a clock step."""
    real, calls = time.time_ns, []

    def interrupted():
        calls.append(1)
        if len(calls) % clock.READINGS != 4:
            time.sleep(0.0003)
        return real()

    before = clock.read()
    monkeypatch.setattr(time, "time_ns", interrupted)
    after = clock.read()
    assert len(calls) == clock.READINGS
    assert after.duration_ns < 300_000
    assert not find_faults_between(before, after)
    assert not clock.find_faults_since(before)


def test_accuracy_trial_with_clock_step_is_rejected(monkeypatch):
    real, steady, stepped = time.time_ns, make_trial(1000.0), make_trial(2000.0)

    def measure(trial):
        if trial is stepped:
            monkeypatch.setattr(time, "time_ns", lambda: real() - 1_000_000)
        return TrialResult({})

    bench = Mock(**{"_open.return_value.measure": measure})
    assert Bench._run_trial(bench, Mock(), steady)[0].faults == ()
    (fault,) = Bench._run_trial(bench, Mock(), stepped)[0].faults
    assert "clock" in fault and "-0.00" in fault
