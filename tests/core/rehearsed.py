"""Runs played with the simulated tester on a clock of their own: what their estimates were worth."""

from __future__ import annotations

import random
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


def play(
    flags: Mapping[str, Any],
    device: Mapping[str, Any],
    machine: Machine,
    seed: int,
) -> Play:
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

    def measured(self: Bench, trial: Any) -> Any:
        clock.s += trial.pause_s + trial.sending_s + trial.residual_wait_s
        clock.s += machine.overhead_s * spread()
        return measure(self, trial)

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
