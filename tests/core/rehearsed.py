"""Runs played with the simulated tester on a clock of their own: what their estimates were worth.

``python -m v6t.tests.core.rehearsed FIRST LAST`` plays runs that are drawn at random from these seeds.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from v6t.core.cli.progress import Silent
from v6t.core.config.bound import bind
from v6t.core.config.resolve import Flags, resolve
from v6t.core.runs import runner
from v6t.core.runs.bench import Bench
from v6t.core.runs.forecast import Forecast
from v6t.core.runs.plan import plan
from v6t.drivers.sim.kind import Sim


class Clock:
    """Time that passes when told."""

    def __init__(self) -> None:
        """At some time."""
        self.s = 100.0

    def __call__(self) -> float:
        """Now."""
        return self.s


@dataclass(frozen=True)
class Machine:
    """What a tester needs beside its trials [s], which is not what the plan assumes.

    Attributes:
        setup_s: once at the beginning; load_s: at each further frame size.
        overhead_s: of a trial; each varies by a factor of two.
    """

    setup_s: float = 3.0
    load_s: float = 1.0
    overhead_s: float = 0.1


@dataclass
class Play:
    """A run that was played.

    Attributes:
        planned_s, real_s: what the plan said, and what it took.
        seen: after how many seconds how many were thought to be left: expected, least, most.
    """

    planned_s: float
    real_s: float = 0.0
    seen: list[tuple[float, float, float, float]] = field(default_factory=list)

    def errors(self, since: float = 1 / 3, until: float = 1.0) -> list[float]:
        """Of the total, as a share of it, in a part of the run."""
        at = [s for s in self.seen if since * self.real_s <= s[0] <= until * self.real_s]
        return [(s[0] + s[1] - self.real_s) / self.real_s for s in at]

    @property
    def worst(self) -> float:
        """The largest error from a third on."""
        return max(self.errors(), key=abs, default=0.0)

    @property
    def held(self) -> float:
        """Share of the estimates from a third on whose interval holds the truth."""
        at = [s for s in self.seen if s[0] >= self.real_s / 3]
        held = [s[0] + s[2] <= self.real_s <= s[0] + s[3] for s in at]
        return sum(held) / max(1, len(held))


def play(flags: Mapping[str, Any], device: Mapping[str, Any], machine: Machine, seed: int) -> Play:
    """Carry a run out.

    Args:
        flags: of the run, without its tester.
        device: options of the simulated tester.
        machine: how long things take.
        seed: of the times' spread.
    """
    chance, clock = random.Random(seed), Clock()
    began = clock.s
    measure, load = Bench.measure, Bench.load
    sizes: list[Any] = []

    def spread() -> float:
        return chance.lognormvariate(0.0, 0.3)

    def measured(self: Bench, trial: Any, *sends: Any) -> Any:
        clock.s += trial.pause_s + trial.total_duration_s + trial.residual_wait_s
        clock.s += machine.overhead_s * spread()
        return measure(self, trial, *sends)

    def loaded(self: Bench, streams: Any) -> None:
        clock.s += (machine.load_s if sizes else machine.setup_s) * spread() / 2
        if len(self.__dict__) and not self._loopback:
            sizes.append(streams)
        load(self, streams)

    class Watch(Silent):
        def now(self, now: Any) -> None:
            total_s = clock.s - began + now.left_s
            off_s = total_s / 4  # what is told without an interval is meant to be so sharp
            least, most = now.between_s or (now.left_s - off_s, now.left_s + off_s)
            played.seen.append((clock.s - began, now.left_s, least, most))

    with (
        patch.object(Sim, "setup_s", 3.0),
        patch.object(Sim, "load_s", 1.0),
        patch.object(Sim, "overhead_s", 0.1),
        patch.object(Bench, "measure", measured),
        patch.object(Bench, "load", loaded),
        patch.object(runner, "Forecast", partial(Forecast, clock=clock)),
        tempfile.TemporaryDirectory() as place,
    ):
        given = Flags(**flags, tester="sim", tester_options={k: str(v) for k, v in device.items()})
        bound = bind(resolve(flags=given))
        played = Play(plan(bound).duration_s)
        runner.execute(bound, Path(place) / "run", Watch())
    played.real_s = clock.s - began
    return played


THREE = ("bidirectional", "forward", "reverse")
SIZES = (84, 128, 256, 512, 768, 1024, 1280, 1518)
FURTHER = ("latency", "pdv", "ipdv", "frame-loss", "back-to-back", "system-recovery")


def drawn(seed: int) -> tuple[dict[str, Any], dict[str, Any], Machine]:
    """A run nobody chose: its flags, its device, its machine.

    Devices of 0.06 to 3 times the tester's rate, one to eight sizes, up to five benchmarks, both
    presets, three searches.
    """
    chance = random.Random(f"run {seed}")
    rfc = chance.random() < 0.4
    tester_fps = 10 ** chance.uniform(5.0, 7.0)
    capacity_fps = tester_fps * 0.06 * 50 ** chance.random()
    procedure: dict[str, Any] = {
        "repetitions": chance.choice((2, 3, 4, 6) if rfc else (1, 2, 2, 3, 5)),
        "search": chance.choice(("binary", "binary", "binary", "mlrsearch")),
        "latency": {"tags": 100, **({} if rfc else {"duration_s": 1.0, "first_tag_s": 0.3})},
    }
    further = chance.sample(FURTHER, chance.choice((0, 0, 1, 1, 2, 3, 4)))
    if rfc and "back-to-back" in further:
        procedure["back_to_back"] = {"repetitions": 5}
    return (
        {
            "plugin": chance.choice(("siit", "ipv6-router")),
            "preset": "rfc" if rfc else "quick",
            "frame_sizes": SIZES[: chance.choice((1, 1, 2, 3, 4, 8))]
            if chance.random() < 0.5
            else tuple(sorted(chance.sample(SIZES, chance.choice((1, 2, 3, 5))))),
            "modes": chance.choice((THREE, THREE, THREE[:1], THREE[1:2], THREE[:2])),
            "benchmarks": ("throughput", *further),
            "procedure": procedure,
        },
        {
            "tester_fps": tester_fps,
            "capacity_fps": capacity_fps,
            # one core for both directions, or one for each
            "total_capacity_fps": chance.choice((0.0, capacity_fps)),
            "capacity_noise": chance.choice((0.0, 0.005, 0.02)),
            "loss_probability": chance.choice((0.0, 0.0, 0.02)),
        },
        Machine(
            setup_s=10 ** chance.uniform(0.0, 1.0),
            load_s=chance.uniform(0.3, 3.0),
            overhead_s=10 ** chance.uniform(-1.3, -0.3),
        ),
    )


def main() -> None:
    """Tell what was off, run by run, and the share that was not."""
    first, last = map(int, sys.argv[1:3])
    worst = []
    for seed in range(first, last + 1):
        flags, device, machine = drawn(seed)
        run = play(flags, device, machine, seed)
        worst.append(abs(run.worst))
        what = f"{flags['preset']} {len(flags['frame_sizes'])}x{len(flags['modes'])}"
        searches = f"{flags['procedure']['search']} x{flags['procedure']['repetitions']}"
        print(
            f"{seed}: {run.worst:+.0%} (two thirds {max(run.errors(2 / 3), key=abs):+.0%}, plan "
            f"{run.planned_s / run.real_s - 1:+.0%}, held {run.held:.0%}) of {run.real_s:.0f} s, "
            f"{what} {searches} {'+'.join(flags['benchmarks'])}; device "
            f"{device['capacity_fps'] / device['tester_fps']:.2f} of the tester's "
            f"{device['tester_fps']:,.0f}{' shared' if device['total_capacity_fps'] else ''}",
            flush=True,
        )
    within = sum(error <= 0.25 for error in worst) / len(worst)
    middle = statistics.median(worst)
    print(f"{within:.0%} within a quarter, median {middle:.0%}, worst {max(worst):.0%}")


if __name__ == "__main__":
    main()
