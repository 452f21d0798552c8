"""Compare the throughput search methods on classes of simulated devices.

    python tests/bench/bench_search.py            prints the table
    python tests/bench/bench_search.py --write    writes it for docs/method.md

The comparison uses virtual time and fixed seeds, so the table is reproducible.
"""

import argparse
import importlib.util
import random
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from v6t.procedures.throughput import SearchMethod, ThroughputSpec, measure_throughput
from v6t.tests.procedures.support import Recorder, make_sim
from v6t.trials.conditions import Conditions

UPPER_FPS = 10_080_645.0
RESOLUTION_FPS = 1000.0
DURATION_S = 60.0
DEVICES = 10
REPETITIONS = 4
RECORDED = Path(__file__).with_name("searches.txt")

# returns the correct rate for a tester and the number of a repetition
CorrectRate = Callable[[Any, int], float]


@dataclass(frozen=True)
class Device:
    """A simulated device and its correct rate."""

    options: dict[str, Any]
    correct_rate: CorrectRate


@dataclass(frozen=True)
class Line:
    """Results of a search method on a class of devices."""

    device: str
    search: SearchMethod
    traffic_s: float  # seconds of traffic per repetition, mean
    total_s: float  # seconds per repetition with pauses and waits, mean
    full_trials: float  # full trials per repetition, mean
    median_bias: float  # median error [fps]
    median_error: float  # median of the absolute error [fps]
    p95_error: float  # 95th percentile of the absolute error [fps]
    failure_share: float  # share of repetitions with an error above the resolution
    unproven: int  # number of repetitions whose rate passed no full trial


def make_devices(rng: random.Random) -> dict[str, Device]:
    """Make a device of each class; its correct rate is the highest that passes a full trial."""
    capacity = rng.uniform(0.1, 0.9) * UPPER_FPS
    dead_zone = rng.uniform(0.2, 0.8) * capacity

    def make_constant(rate_fps: float) -> CorrectRate:
        return lambda _tester, _repetition: rate_fps

    def compute_bimodal(tester: Any, repetition: int) -> float:
        # the same random number as in the simulated tester
        key = f"throughput/104/forward/r{repetition:02d}"
        slow = random.Random(f"{tester._seed}/slow/{key}").random() < 0.3
        return capacity * (0.6 if slow else 1.0)

    def make_device(correct_rate: CorrectRate | None = None, **options: Any) -> Device:
        options = {"capacity_fps": capacity, **options}
        return Device(options, correct_rate or make_constant(capacity))

    buffer = 4000
    return {
        "steady": make_device(),
        "steady, buffer of 4,000 frames": make_device(
            make_constant(capacity + buffer / DURATION_S), buffer_frames=buffer
        ),
        "noisy, 0.1 %": make_device(capacity_noise=0.001),
        "noisy, 1 %": make_device(capacity_noise=0.01),
        "bursty loss, every 10 min": make_device(bursts_per_s=1 / 600, burst_frames=1000),
        "bursty loss, every 5 min": make_device(bursts_per_s=1 / 300, burst_frames=1000),
        "bimodal": make_device(
            compute_bimodal, slow_repetitions=True, slow_probability=0.3, slow_share=0.6
        ),
        "not monotonic": make_device(dead_zones=((dead_zone, dead_zone + 0.15 * capacity),)),
        "collapses when overloaded": make_device(
            loss_curve=((1.0, 0.0), (1.05, 0.2), (1.5, 0.7), (5.0, 0.95))
        ),
        "soft knee from 90 %": make_device(
            make_constant(0.9 * capacity), loss_curve=((0.9, 0.0), (1.0, 1e-5), (1.2, 0.17))
        ),
    }


def measure(search: SearchMethod, name: str) -> Line:
    """Run a search method on all devices of a class."""
    errors, traffic, total, full_trials, unproven = [], [], [], [], 0
    for seed in range(DEVICES):
        device = make_devices(random.Random(seed))[name]
        tester = make_sim(seed, **device.options)
        recorder = Recorder(tester.measure)
        spec = ThroughputSpec(
            conditions=Conditions(104, 64, "forward", residual_wait_s=2.0, pause_s=10.0),
            upper_bound_fps=UPPER_FPS, upper_bound_reason="media", resolution_fps=RESOLUTION_FPS,
            duration_s=DURATION_S, repetitions=REPETITIONS, search=search,
        )  # fmt: skip
        for repetition in measure_throughput(spec, recorder).repetitions:
            errors.append(repetition.rate_fps - device.correct_rate(tester, repetition.number))
            unproven += repetition.rate_fps > 0 and not any(
                a.verdict.passed
                and a.trial.rate_fps == repetition.rate_fps
                and a.trial.duration_s >= DURATION_S
                for a in repetition.attempts
            )
        traffic.append(sum(t.duration_s for t in recorder.trials) / REPETITIONS)
        seconds = [t.pause_s + t.duration_s + t.residual_wait_s for t in recorder.trials]
        total.append(sum(seconds) / REPETITIONS)
        full_trials.append(sum(t.duration_s >= DURATION_S for t in recorder.trials) / REPETITIONS)
    sizes = sorted(map(abs, errors))
    return Line(
        device=name,
        search=search,
        traffic_s=statistics.mean(traffic),
        total_s=statistics.mean(total),
        full_trials=statistics.mean(full_trials),
        median_bias=statistics.median(errors),
        median_error=statistics.median(sizes),
        p95_error=sizes[int(0.95 * len(sizes))],
        # tolerance for rounding to whole frames and for buffered frames
        failure_share=sum(size > RESOLUTION_FPS + 1 for size in sizes) / len(sizes),
        unproven=unproven,
    )


def list_installed() -> tuple[SearchMethod, ...]:
    has_mlrsearch = importlib.util.find_spec("MLRsearch") is not None
    return tuple(s for s in get_args(SearchMethod) if has_mlrsearch or s != "mlrsearch")


def compare() -> Iterator[Line]:
    for name in make_devices(random.Random(0)):
        for search in list_installed():
            yield measure(search, name)


def render_table(lines: list[Line]) -> str:
    """Render the lines as Markdown; shares are relative to the binary search on the same class."""
    out = [
        f"Per repetition, means over {DEVICES * REPETITIONS} repetitions ({DEVICES} devices, "
        f"capacity evenly between 10 and 90 % of {UPPER_FPS:,.0f} fps); resolution "
        f"{RESOLUTION_FPS:,.0f} fps, full trials of {DURATION_S:g} s, 2 s residual wait, 10 s "
        "pause (5 s before short trials). Errors in fps against the truth; *off* is the share of "
        "repetitions off by more than the resolution.",
        "",
        "| device | search | traffic s | share | with pauses s | share | full trials | "
        "median error | size: median | size: P95 | off | unproven |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    binary = {line.device: line for line in lines if line.search == "binary"}
    for line in lines:
        base = binary[line.device]
        out.append(
            f"| {line.device} | {line.search} | {line.traffic_s:.0f} | "
            f"{line.traffic_s / base.traffic_s:.2f} | {line.total_s:.0f} | "
            f"{line.total_s / base.total_s:.2f} | {line.full_trials:.2f} | {round(line.median_bias) + 0:,} | "
            f"{line.median_error:,.0f} | {line.p95_error:,.0f} | {line.failure_share:.2f} | {line.unproven} |"
        )
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the throughput search methods.")
    parser.add_argument("--write", action="store_true", help="write it for docs/method.md")
    arguments = parser.parse_args()
    text = render_table(list(compare()))
    print(text)
    if arguments.write:
        RECORDED.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
