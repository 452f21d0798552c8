"""What the benchmarks share: a plugin's streams, and pairs of figures measured in turn."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from v6t.core.config.bound import bind
from v6t.core.config.resolve import Flags, resolve
from v6t.core.runs.bench import compile_point
from v6t.profiles.streams import StreamSet


def streams(direction: str = "forward", plugin: str = "mape-br", size: int = 104, **params: str):
    """Technology and compiled streams of one direction."""
    run = resolve(flags=Flags(plugin=plugin, params=params))
    made = bind(run).technology
    found: StreamSet = compile_point(made, made.frame_pair(size), run.seed)[direction]
    return made, found


def rate(work: Callable[[], int], seconds: float = 1.0) -> float:
    """Units of work per second of one process; the first call is not counted."""
    work()
    done, began = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - began) < seconds:
        done += work()
    return done / elapsed


def in_turn(works: dict[str, Callable[[], float]], rounds: int = 5) -> dict[str, list[float]]:
    """Figures of several works, measured alternately so that noise hits all alike."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            found[name].append(work())
    return found


def show(title: str, figures: dict[str, list[float]], unit: str) -> None:
    """Minimum, median and maximum of each."""
    print(f"{title} [{unit}], {len(next(iter(figures.values())))} rounds in turn")
    for name, values in figures.items():
        print(
            f"  {name:<42} min {min(values):>12,.0f}  median {statistics.median(values):>12,.0f}"
            f"  max {max(values):>12,.0f}"
        )
