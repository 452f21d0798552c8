"""Compare the searches for throughput on classes of simulated devices.

    python tests/bench/bench_search.py            prints the table
    python tests/bench/bench_search.py --write    stores it for docs/method.md

Everything runs in virtual time and is drawn from seeds, so the table is the same everywhere.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from v6t.procedures.throughput import SearchMethod, ThroughputSpec, measure_throughput
from v6t.tests.procedures.support import Recorded, sim
from v6t.trials.conditions import Conditions

UPPER_FPS = 10_080_645.0
RESOLUTION_FPS = 1000.0
DURATION_S = 60.0
DEVICES = 10
REPETITIONS = 4
RECORDED = Path(__file__).with_name("searches.txt")

Truth = Callable[[Any, int], float]
"""What a repetition of a device should report: tester and repetition's number to a rate."""


@dataclass(frozen=True)
class Device:
    """One simulated device with its truth."""

    options: dict[str, Any]
    truth: Truth


@dataclass(frozen=True)
class Line:
    """One search on one class of devices.

    Attributes:
        traffic_s: seconds of traffic per repetition, mean.
        total_s: seconds per repetition with pauses and waits, mean.
        full: full trials per repetition, mean.
        bias, half, most: error against the truth [fps]: median, median and 95th percentile of its
            size.
        failures: share of repetitions that are off by more than the resolution.
        unproven: repetitions whose rate had passed no full trial.
    """

    device: str
    search: SearchMethod
    traffic_s: float
    total_s: float
    full: float
    bias: float
    half: float
    most: float
    failures: float
    unproven: int


def devices(chance: random.Random) -> dict[str, Device]:
    """Make a device of each class; its truth is the highest rate that a full trial passes."""
    capacity = chance.uniform(0.1, 0.9) * UPPER_FPS
    zone = chance.uniform(0.2, 0.8) * capacity

    def always(rate_fps: float) -> Truth:
        return lambda _tester, _repetition: rate_fps

    def of_its_mode(tester: Any, repetition: int) -> float:
        # as the simulated tester draws it
        key = f"throughput/104/forward/r{repetition:02d}"
        slow = random.Random(f"{tester._seed}/slow/{key}").random() < 0.3
        return capacity * (0.6 if slow else 1.0)

    def device(truth: Truth | None = None, **options: Any) -> Device:
        return Device({"capacity_fps": capacity, **options}, truth or always(capacity))

    hidden = 4000
    return {
        "steady": device(),
        "steady, buffer of 4,000 frames": device(
            always(capacity + hidden / DURATION_S), buffer_frames=hidden
        ),
        "noisy, 0.1 %": device(capacity_noise=0.001),
        "noisy, 1 %": device(capacity_noise=0.01),
        "bursty loss, every 10 min": device(bursts_per_s=1 / 600, burst_frames=1000),
        "bursty loss, every 5 min": device(bursts_per_s=1 / 300, burst_frames=1000),
        "bimodal": device(of_its_mode, slow_repetitions=True, slow_probability=0.3, slow_share=0.6),
        "not monotonic": device(dead_zones=((zone, zone + 0.15 * capacity),)),
        "collapses when overloaded": device(
            loss_curve=((1.0, 0.0), (1.05, 0.2), (1.5, 0.7), (5.0, 0.95))
        ),
        "soft knee from 90 %": device(
            always(0.9 * capacity), loss_curve=((0.9, 0.0), (1.0, 1e-5), (1.2, 0.17))
        ),
    }


def measure(search: SearchMethod, name: str) -> Line:
    """Run one search on all devices of a class."""
    errors, traffic, total, full, unproven = [], [], [], [], 0
    for seed in range(DEVICES):
        device = devices(random.Random(seed))[name]
        tester = sim(seed, **device.options)
        door = Recorded(tester.measure)
        spec = ThroughputSpec(
            conditions=Conditions(104, 64, "forward", residual_wait_s=2.0, pause_s=10.0),
            upper_bound_fps=UPPER_FPS,
            upper_bound_reason="media",
            resolution_fps=RESOLUTION_FPS,
            duration_s=DURATION_S,
            repetitions=REPETITIONS,
            search=search,
        )
        for repetition in measure_throughput(spec, door).repetitions:
            errors.append(repetition.rate_fps - device.truth(tester, repetition.number))
            unproven += repetition.rate_fps > 0 and not any(
                a.verdict.passed
                and a.trial.rate_fps == repetition.rate_fps
                and a.trial.duration_s >= DURATION_S
                for a in repetition.attempts
            )
        traffic.append(sum(t.duration_s for t in door.trials) / REPETITIONS)
        total.append(
            sum(t.pause_s + t.duration_s + t.residual_wait_s for t in door.trials) / REPETITIONS
        )
        full.append(sum(t.duration_s >= DURATION_S for t in door.trials) / REPETITIONS)
    sizes = sorted(map(abs, errors))
    return Line(
        device=name,
        search=search,
        traffic_s=statistics.mean(traffic),
        total_s=statistics.mean(total),
        full=statistics.mean(full),
        bias=statistics.median(errors),
        half=statistics.median(sizes),
        most=sizes[int(0.95 * len(sizes))],
        # a trial holds whole frames, a buffer hides some: a sixtieth of a frame per second
        failures=sum(size > RESOLUTION_FPS + 1 for size in sizes) / len(sizes),
        unproven=unproven,
    )


def installed() -> tuple[SearchMethod, ...]:
    """List the search methods that are installed."""
    there = importlib.util.find_spec("MLRsearch") is not None
    return tuple(s for s in get_args(SearchMethod) if there or s != "mlrsearch")


def compare() -> Iterator[Line]:
    """Run every search on every class."""
    for name in devices(random.Random(0)):
        for search in installed():
            yield measure(search, name)


def table(lines: list[Line]) -> str:
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
    plain = {line.device: line for line in lines if line.search == "binary"}
    for line in lines:
        base = plain[line.device]
        out.append(
            f"| {line.device} | {line.search} | {line.traffic_s:.0f} | "
            f"{line.traffic_s / base.traffic_s:.2f} | {line.total_s:.0f} | "
            f"{line.total_s / base.total_s:.2f} | {line.full:.2f} | {round(line.bias) + 0:,} | "
            f"{line.half:,.0f} | {line.most:,.0f} | {line.failures:.2f} | {line.unproven} |"
        )
    return "\n".join(out)


def main() -> None:
    """Print or store."""
    parser = argparse.ArgumentParser(description="Compare the searches for throughput.")
    parser.add_argument("--write", action="store_true", help="store it for docs/method.md")
    arguments = parser.parse_args()
    text = table(list(compare()))
    print(text)
    if arguments.write:
        RECORDED.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
