"""The simulated tester and device have the properties that their options describe."""

from dataclasses import replace

import pytest
from pydantic import ValidationError
from v6t.drivers.sim.tester import SimOptions, SimTester
from v6t.tests.procedures.support import make_sim
from v6t.trials.trial import DelayRequest, DeviceEvent, Segment, Trial

from .lab_testers import compile_plugin

TRIAL = Trial("throughput", "throughput/104/forward/r01/s01/a1", 104, 64, "forward", 1000.0, 10.0)


def measure(device=None, **changes):
    """Measure TRIAL with changes on a simulated device; return the result of its direction."""
    return make_sim(**(device or {})).measure(replace(TRIAL, **changes)).directions["forward"]


def count_lost(counted):
    return counted.count_frames("required") - counted.count_frames("received")


@pytest.mark.parametrize(("options", "rate_fps", "expected"), [
    ({"capacity_fps": 900.0}, 1000.0, 1000),
    ({"capacity_fps": 900.0, "buffer_frames": 300}, 1000.0, 700),
    ({"capacity_fps": 900.0, "buffer_frames": 5000}, 1000.0, 0),
    ({"capacity_fps": 5000.0, "dead_zones": ((900.0, 1100.0),)}, 1000.0, 100),
    ({"capacity_fps": 5000.0, "dead_zones": ((900.0, 1100.0),)}, 2000.0, 0),
])  # fmt: skip
def test_capacity_buffer_and_dead_zones_determine_loss(options, rate_fps, expected):
    assert count_lost(measure(options, rate_fps=rate_fps)) == expected


def test_losses_occur_in_bursts():
    devices = ({"seed": n, "bursts_per_s": 0.01, "burst_frames": 10} for n in range(200))
    lost = [count_lost(measure(device, duration_s=100.0)) for device in devices]
    assert sum(lost) == pytest.approx(2000, rel=0.15)
    assert not any(number % 10 for number in lost)


def test_bimodal_device_keeps_mode_within_repetition():
    device = {"capacity_fps": 1000.0, "slow_repetitions": True, "slow_probability": 0.5}
    by_repetition = []
    for repetition in range(1, 31):
        keys = [f"throughput/104/forward/r{repetition:02d}/s{s}/a1" for s in range(5)]
        by_repetition.append({count_lost(measure(device, key=key)) for key in keys})
    assert all(len(losses) == 1 for losses in by_repetition)
    assert set.union(*by_repetition) == {0, 5000}


@pytest.mark.parametrize(("capacity_fps", "delays", "ipdv"), [
    (1e6, (10_000, 0), (9999, 0)), (900.0, (9000, 1000), (7999, 2000)),
])  # fmt: skip
def test_every_frame_that_is_not_lost_has_a_delay(capacity_fps, delays, ipdv):
    device = {"capacity_fps": capacity_fps, "delay_us": 100.0, "jitter_us": 50.0}
    counted = measure(device, delays=DelayRequest(ipdv=True))
    times, differences = counted.delays["fg"], counted.ipdv["fg"]
    assert [(d.frames, d.lost) for d in (times, differences)] == [delays, ipdv]
    assert 100_000 <= times.minimum_ns < 101_000
    assert 149_000 < times.maximum_ns <= 150_100
    assert differences.maximum_ns <= 50_100


def test_frames_after_deadline_are_late():
    device = {"tail_share": 0.01, "tail_us": 20_000.0}
    counted = measure(device, frame_timeout_s=0.01, delays=DelayRequest())
    assert (counted.classes["fg"].late, counted.classes["fg"].received) == (100, 9900)
    assert (counted.delays["fg"].frames, counted.delays["fg"].lost) == (9900, 100)
    assert count_lost(measure(device, frame_timeout_s=0.1, delays=DelayRequest())) == 0


@pytest.mark.parametrize(("options", "changes", "first_s", "last_s"), [
    ({}, {}, None, None),
    ({"capacity_fps": 900.0}, {}, 0.0, 9.999),
    ({"capacity_fps": 900.0, "recovery_s": 2.0}, {"second_segment": Segment(500.0, 10.0)}, 0.0, 12.0),
    ({"reset_s": 3.0}, {"device_event": DeviceEvent("software-reset", 4.0)}, 4.0, 7.0),
])  # fmt: skip
def test_loss_times_are_measured(options, changes, first_s, last_s):
    counted = measure(options, **changes)
    last = last_s if last_s is None else pytest.approx(last_s, abs=0.0021)
    assert (counted.first_lost_s, counted.last_lost_s) == (first_s, last)
    if "reset_s" in options:
        assert counted.longest_gap_s == 3.0
    if "recovery_s" in options:
        assert count_lost(counted) == 2000


def test_randomness_depends_on_seed_and_key():
    device = {"capacity_fps": 1000.0, "capacity_noise": 0.1}
    first, equal, other = (measure({"seed": seed, **device}) for seed in (3, 3, 4))
    assert first == equal
    assert count_lost(first) != count_lost(other)


def test_virtual_time_advances_by_trial_length():
    tester = make_sim()
    tester.measure(replace(TRIAL, pause_s=3.0, residual_wait_s=2.0))
    assert tester.read_clock() == pytest.approx(15.0)


def test_negative_traffic_is_dropped_and_not_timed():
    technology, streams = compile_plugin(n="10", m="9", negative_percent="10")
    tester = SimTester(SimOptions(capacity_fps=500.0))
    tester.load(streams, technology)
    trial = replace(TRIAL, mode="bidirectional", delays=DelayRequest(tags=100))
    for counted in tester.measure(trial).directions.values():
        assert sum(c.required for c in counted.classes.values()) == 10_000
        for name, count in counted.classes.items():
            assert (name in counted.delays) == (count.role != "negative") == (count.received > 0)


def test_simulated_time_may_exceed_the_calendar():
    tester = make_sim(teardown_s=1e15)
    tester.table.flush()
    assert tester.measure(TRIAL).started.startswith("5168-")


@pytest.mark.parametrize("options", [
    {"trial_delay_s": 3601}, {"loss_curve": [[1.2, 0.2], [0.5, 0.9]]}, {"loss_curve": [[1, 2]]},
])  # fmt: skip
def test_invalid_option_is_refused(options):
    with pytest.raises(ValidationError):
        SimOptions(**options)
