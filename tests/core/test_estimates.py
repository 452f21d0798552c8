"""What estimates of the time left are worth, in runs that are played on a clock of their own.

Slow and fast devices, a loaded machine, one size or three: see docs/operations.md for many more.
"""

from __future__ import annotations

import statistics

import pytest
from v6t.tests.core.rehearsed import Machine, play

pytestmark = pytest.mark.slow

THREE = ("bidirectional", "forward", "reverse")
RUNS = {
    "carried at once": (
        {"frame_sizes": (84, 512), "modes": THREE, "benchmarks": ("throughput",)},
        {"tester_fps": 200_000, "capacity_fps": 900_000},
        Machine(overhead_s=0.3),
    ),
    "never carried": (
        {"frame_sizes": (84, 512), "modes": THREE, "benchmarks": ("throughput", "latency")},
        {"tester_fps": 900_000, "capacity_fps": 70_000, "capacity_noise": 0.01},
        Machine(setup_s=6.0, overhead_s=0.3),
    ),
    "carried at long frames, where the medium is slower": (
        {"frame_sizes": (84, 512, 1518), "modes": ("forward",), "benchmarks": ("throughput",),
         "preset": "rfc", "procedure": {"repetitions": 3}},
        {"tester_fps": 20_000_000, "capacity_fps": 3_000_000},
        Machine(),
    ),
    "losses are part of it": (
        {"frame_sizes": (84, 512), "modes": ("forward",),
         "benchmarks": ("throughput", "frame-loss", "back-to-back")},
        {"tester_fps": 400_000, "capacity_fps": 150_000},
        Machine(overhead_s=0.2),
    ),
    "a search that adapts": (
        {"frame_sizes": (84,), "modes": ("forward",), "benchmarks": ("throughput",),
         "procedure": {"search": "mlrsearch", "repetitions": 8}},
        {"tester_fps": 500_000, "capacity_fps": 300_000, "capacity_noise": 0.02},
        Machine(),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def played():
    return {
        name: play({"plugin": "siit", **flags}, device, machine, seed=7)
        for name, (flags, device, machine) in RUNS.items()
    }


@pytest.mark.parametrize("name", RUNS)
def test_from_a_third_on_the_total_is_known_to_a_quarter(played, name):
    # the trials of an adaptive search are not known before its first repetition
    assert abs(played[name].worst) <= (0.35 if "adapts" in name else 0.25)


def test_what_is_told_is_mostly_true_and_the_middle_is_close(played):
    assert statistics.median(abs(p.worst) for p in played.values()) <= 0.15
    assert statistics.mean(p.held for p in played.values()) >= 0.9
    for p in played.values():
        assert max(abs(e) for e in p.errors(since=2 / 3)) <= 0.15


def test_what_nobody_can_know_is_told_as_an_interval():
    """One search of one trial or of five is all of the run: before it has begun nobody knows."""
    flags = {"plugin": "siit", "frame_sizes": (84,), "modes": ("forward",),
             "benchmarks": ("throughput",), "procedure": {"repetitions": 4}}  # fmt: skip
    # one that carries less than eight resolutions takes some steps more than can be planned
    for capacity_fps in (300_000, 2_000_000):
        device = {"tester_fps": 500_000, "capacity_fps": capacity_fps}
        run = play(flags, device, Machine(), seed=7)
        passed_s, left_s, least_s, most_s = run.seen[3]
        assert passed_s + least_s <= run.real_s <= passed_s + most_s
        assert most_s - least_s > 0.5 * left_s
