"""What stages took and showed: learned in a run, kept for the next with the same device and tester.

Estimates only: no result depends on it, and a file that is gone or damaged is as good as none.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError
from v6t.core.runs.certificates import write
from v6t.core.runs.plan import Stage
from v6t.core.runs.tester_capacity import cache, tester_facts

if TYPE_CHECKING:
    from v6t.core.config.bound import BoundRun

_FORMAT = 2
"""Raised whenever a figure comes to mean something else: files of another format are not read."""
_MOST = 500
"""Stages that are kept of a device."""


@dataclass(frozen=True)
class Shown:
    """What a search that is over showed.

    Attributes:
        stage: it was.
        ease: 1: the device carried the bound at once; 0: every search took all its steps.
        excess: seconds that all steps take over those of the plan, which knew no limit but the medium.
        bracket: between these the device's rate is [fps]; None: unknown.
        limit_fps: offered at most.
    """

    stage: Stage
    ease: float
    excess: float
    bracket: tuple[float, float] | None
    limit_fps: float


@dataclass
class Tally:
    """Trials of one kind.

    Attributes:
        trials: each counted once; again: times they were made again.
        own_s: what they take by themselves, every time.
        spent_s: seconds that passed.
    """

    trials: float = 0.0
    own_s: float = 0.0
    spent_s: float = 0.0
    again: float = 0.0

    def add(self, other: Tally, weight: float = 1.0) -> None:
        """Those of another."""
        self.trials += weight * other.trials
        self.own_s += weight * other.own_s
        self.spent_s += weight * other.spent_s
        self.again += weight * other.again

    def at_most(self, trials: int) -> Tally:
        """The same of so few trials, so that others soon count as much."""
        tally = Tally()
        tally.add(self, min(1.0, trials / max(1.0, self.trials)))
        return tally


@dataclass
class Experience:
    """Of one device with one tester.

    Attributes:
        tallies: by the names of stages.
        ratios: seconds that were planned and those it took, by ``name/mode`` of stages.
        shown: by searches.
        when: the last of it was learned.
    """

    tallies: dict[str, Tally] = field(default_factory=dict)
    ratios: dict[str, tuple[float, float]] = field(default_factory=dict)
    shown: list[Shown] = field(default_factory=list)
    when: str = ""

    def renewed(self, later: Experience) -> Experience:
        """With what a later run learned, which holds where both know something."""
        stages = {shown.stage: shown for shown in [*self.shown, *later.shown]}
        return Experience(
            {**self.tallies, **later.tallies},
            {**self.ratios, **later.ratios},
            list(stages.values())[-_MOST:],
            later.when,
        )


_FORM = TypeAdapter(Experience)


def recalled(bound: BoundRun) -> Experience:
    """What earlier runs with this device and tester learned; empty: there was none."""
    if bound.tester.simulates:
        return Experience()
    try:
        return _FORM.validate_json(_path(bound).read_bytes())
    except (OSError, ValidationError):
        return Experience()


def keep(bound: BoundRun, learned: Experience) -> None:
    """For later runs; a file that cannot be written is no error."""
    if bound.tester.simulates:
        return
    path = _path(bound)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write(path, _FORM.dump_json(recalled(bound).renewed(learned), indent=1).decode())
    except OSError:
        return


def _path(bound: BoundRun) -> Path:
    """Of the technology as it was parametrised, the device and the tester; not of how they are asked."""
    run = bound.settings
    what = [
        *tester_facts(bound),
        run.dut.model_dump(mode="json"),
        run.plugin,
        run.params,
        run.line_rate_bps,
        run.modifier,
    ]
    name = hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:32]
    return cache() / f"times-{_FORMAT}-{name}.json"
