"""The simulated device behaves as its options describe."""

from dataclasses import replace

import pytest
from v6t.core.config.plugins import load_technology_type
from v6t.core.runs.bench import compile_directions
from v6t.drivers.sim.tester import SimOptions, SimTester
from v6t.tests.expect import expect_error
from v6t.tests.procedures.support import BACKGROUND, FOREGROUND, sim
from v6t.trials.codec import decode, encode
from v6t.trials.result import TrialResult
from v6t.trials.trial import DelayRequest, DeviceEvent, Queries, Segment, Trial

TRIAL = Trial("throughput", "throughput/104/forward/r01/s01/a1", 104, 64, "forward", 1000.0, 10.0)


def count_lost(result, way="forward"):
    counted = result.directions[way]
    return counted.count_frames("required") - counted.count_frames("received")


def test_background_and_control_frames_are_counted_apart():
    counted = sim(streams=(FOREGROUND, BACKGROUND), control=7).measure(TRIAL).directions["forward"]
    assert {name: count.required for name, count in counted.classes.items()} == {
        "fg": 5000,
        "bg": 5000,
    }
    assert counted.control == 7


@pytest.mark.parametrize(
    ("options", "rate_fps", "expected"),
    [
        ({"capacity_fps": 900.0}, 1000.0, 1000),
        ({"capacity_fps": 900.0, "buffer_frames": 300}, 1000.0, 700),
        ({"capacity_fps": 900.0, "buffer_frames": 5000}, 1000.0, 0),
        ({"capacity_fps": 5000.0, "dead_zones": ((900.0, 1100.0),)}, 1000.0, 100),
        ({"capacity_fps": 5000.0, "dead_zones": ((900.0, 1100.0),)}, 2000.0, 0),
    ],
)
def test_capacity_buffer_and_dead_zones_decide_the_loss(options, rate_fps, expected):
    assert count_lost(sim(**options).measure(replace(TRIAL, rate_fps=rate_fps))) == expected


@pytest.mark.parametrize(("duration_s", "frames", "rel"), [(100.0, 400, 0.15), (10.0, 40, 0.5)])
def test_losses_come_in_bursts_over_time(duration_s, frames, rel):
    asked = replace(TRIAL, duration_s=duration_s)
    found = (sim(seed, bursts_per_s=0.01, burst_frames=10).measure(asked) for seed in range(400))
    assert sum(map(count_lost, found)) / 10 == pytest.approx(frames, rel=rel)


def test_bimodal_device_keeps_mode_within_repetition():
    options = {"capacity_fps": 1000.0, "slow_repetitions": True, "slow_probability": 0.5}
    tester = sim(**options)
    by_repetition = {}
    for repetition in range(1, 31):
        key = f"throughput/104/forward/r{repetition:02d}/s{{}}/a1"
        found = {count_lost(tester.measure(replace(TRIAL, key=key.format(s)))) for s in range(5)}
        assert len(found) == 1
        by_repetition[repetition] = found.pop()
    assert set(by_repetition.values()) == {0, 5000}


def test_delays_of_every_frame():
    asked = replace(TRIAL, delays=DelayRequest(ipdv=True))
    result = sim(delay_us=100.0, jitter_us=50.0).measure(asked)
    counted = result.directions["forward"]
    assert counted.delays["fg"].frames == 10_000
    assert 100_000 <= counted.delays["fg"].minimum_ns < 101_000
    assert 149_000 < counted.delays["fg"].maximum_ns <= 150_100
    assert counted.ipdv["fg"].frames == 9_999
    assert counted.ipdv["fg"].maximum_ns <= 50_100
    assert decode(TrialResult, encode(result)) == result


def test_lost_frames_have_no_delay():
    asked = replace(TRIAL, delays=DelayRequest(ipdv=True))
    counted = sim(capacity_fps=900.0).measure(asked).directions["forward"]
    assert (counted.delays["fg"].frames, counted.delays["fg"].lost) == (9000, 1000)
    assert counted.ipdv["fg"].lost == 2000
    assert counted.ipdv["fg"].frames == 7999


def test_tags_of_both_classes():
    asked = replace(TRIAL, delays=DelayRequest(tags=1000, first_tag_s=5.0))
    tester = sim(streams=(FOREGROUND, BACKGROUND), capacity_fps=990.0)
    delays = tester.measure(asked).directions["forward"].delays
    assert sum(d.frames + d.lost for d in delays.values()) == 1000
    assert sum(d.lost for d in delays.values()) == pytest.approx(10, abs=4)
    assert delays["bg"].frames == pytest.approx(495, abs=10)


def test_a_deadline_makes_frames_late():
    asked = replace(TRIAL, frame_timeout_s=0.01, delays=DelayRequest())
    options = {"tail_share": 0.01, "tail_us": 20_000.0}
    counted = sim(**options).measure(asked).directions["forward"]
    assert counted.classes["fg"].late == 100
    assert counted.classes["fg"].received == 9900
    assert (counted.delays["fg"].frames, counted.delays["fg"].lost) == (9900, 100)
    relaxed = replace(asked, frame_timeout_s=0.1)
    assert count_lost(sim(**options).measure(relaxed)) == 0


@pytest.mark.parametrize(
    ("options", "changes", "first_s", "last_s"),
    [
        ({}, {}, None, None),
        ({"capacity_fps": 900.0}, {}, 0.0, 9.999),
        ({"capacity_fps": 900.0, "recovery_s": 2.0}, {"second_segment": Segment(500.0, 10.0)}, 0.0, 12.0),
        ({"reset_s": 3.0}, {"device_event": DeviceEvent("software-reset", 4.0)}, 4.0, 7.0),
    ],
)  # fmt: skip
def test_times_of_loss(options, changes, first_s, last_s):
    counted = sim(**options).measure(replace(TRIAL, **changes)).directions["forward"]
    assert (counted.first_lost_s, counted.last_lost_s) == (
        first_s,
        last_s if last_s is None else pytest.approx(last_s, abs=0.0021),
    )
    if "reset_s" in options:
        assert counted.longest_gap_s == 3.0
    if "recovery_s" in options:
        assert counted.count_frames("required") - counted.count_frames("received") == 2000


def test_loopback_has_no_device():
    tester = SimTester(SimOptions(capacity_fps=1.0, tail_share=0.5), loopback=True)
    tester.load({"forward": sim()._streams["forward"]}, None)
    asked = replace(TRIAL, delays=DelayRequest())
    result = tester.measure(asked)
    assert count_lost(result) == 0
    assert result.directions["forward"].delays["fg"].maximum_ns == 2000


def test_randomness_depends_on_seed_and_key():
    options = {"capacity_fps": 1000.0, "capacity_noise": 0.1}
    first = [sim(3, **options).measure(TRIAL) for _ in range(2)]
    assert first[0] == first[1]
    assert count_lost(sim(4, **options).measure(TRIAL)) != count_lost(first[0])


def test_virtual_time_moves_by_the_trials_length():
    tester = sim()
    tester.measure(replace(TRIAL, pause_s=3.0, residual_wait_s=2.0))
    assert tester.clock_s == pytest.approx(15.0)


def test_simulation_has_required_capabilities():
    event, segment = DeviceEvent("x", 1.0), Segment(1.0, 1.0)
    asked = {"frame_timeout_s": 1.0, "second_segment": segment, "device_event": event}
    trial = replace(TRIAL, delays=DelayRequest(ipdv=True), **asked)
    assert sim().capabilities >= trial.required_capabilities
    assert replace(TRIAL, delays=DelayRequest(tags=1)).required_capabilities == {"tags"}
    assert replace(TRIAL, queries=Queries()).required_capabilities == {"queries"}


def test_negative_traffic_is_dropped_and_not_timed():
    plugin = load_technology_type("mape-br")
    technology = plugin(plugin.params_model(n=10, m=9, negative_percent=10))
    tester = SimTester(SimOptions(capacity_fps=500.0))
    tester.load(compile_directions(technology, technology.make_frame_pair(104), 1), technology)
    asked = replace(TRIAL, mode="bidirectional", delays=DelayRequest(tags=100))
    for counted in tester.measure(asked).directions.values():
        assert sum(c.required for c in counted.classes.values()) == 10_000
        for name, count in counted.classes.items():
            assert (name in counted.delays) == (count.role != "negative") == (count.received > 0)


def test_simulated_tester_fault_makes_trial_invalid():
    with expect_error("tester-fault"):
        sim(crash_at=1).measure(TRIAL)
