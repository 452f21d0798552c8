"""What a search that is over says of one to come: how near they are, and whether its bound is carried.

A device that carries the bound is done with one trial where another takes ten.
"""

from __future__ import annotations

from dataclasses import dataclass

from v6t.core.runs.plan import PlannedStage, Stage

_NEAR, _SIBLING, _SIZE, _MODE, _FAR = 12.0, 6.0, 3.0, 1.5, 0.5
"""Weights of a finished stage: the same benchmark and mode at another size, another benchmark at the
same point, one at another size, the same in another mode, and all others."""
_UNKNOWN = (0.6, 0.5)
"""Before a search has shown it: how likely the bound is carried at once, and that guess's weight.
A little more likely than not: of two equally likely totals the shorter one is missed by a larger
share of itself."""
EASY = 0.9
"""From here on a search says nothing of how long a hard one would have taken."""
BOTH = "bidirectional"


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


@dataclass
class Sums:
    """What searches that are over say of a stage to come, each by its nearness."""

    total: float = _UNKNOWN[0] * _UNKNOWN[1]
    weight: float = _UNKNOWN[1]
    excess: float = 1.0
    counted: float = 1.0
    shown: int = 0

    def add(self, shown: Shown, planned: PlannedStage) -> None:
        """One more search."""
        near = _nearness(planned.stage, shown.stage)
        self.total += near * _expected(shown, planned)
        self.weight += near
        self.excess += near * shown.excess
        self.counted += near
        self.shown += 1


def _nearness(one: Stage, other: Stage) -> float:
    """How much the one tells of the other."""
    if one.mode == other.mode:
        if one.name == other.name:
            return _NEAR
        return _SIBLING if one.octets == other.octets else _SIZE
    return _MODE if one.name == other.name else _FAR


def _expected(shown: Shown, planned: PlannedStage) -> float:
    """How easily a bound will be carried after what was shown at another size or in another mode.

    Frames per second hardly depend on their size, but what the medium carries of them does; one
    direction alone gets as much as each of two, or as both together.
    """
    mode, its_mode = planned.stage.mode, shown.stage.mode
    # what the tester carries is about the same everywhere, the medium knows the size
    bound_fps = min(planned.limit_fps, shown.limit_fps)
    if shown.bracket is None or not bound_fps:
        return shown.ease
    if mode == its_mode and bound_fps > 0.95 * shown.limit_fps:
        return shown.ease
    low_fps, high_fps = shown.bracket
    if shown.ease > EASY:
        high_fps = 2 * low_fps
    if its_mode == BOTH and mode != BOTH:
        high_fps *= 2
    elif mode == BOTH and its_mode != BOTH:
        low_fps /= 2
    return min(1.0, max(0.0, (high_fps - bound_fps) / max(high_fps - low_fps, 1e-9)))
