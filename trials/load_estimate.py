"""Loss of trials by offered load, and the critical load estimated from it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class TrialLoss:
    """Required and lost frames of one trial over all directions, at a rate per direction."""

    rate_fps: float
    frames: int
    lost: int

    @property
    def ratio(self) -> float:
        """Lost share of the frames."""
        return self.lost / self.frames


@dataclass(frozen=True)
class ShapeLoadEstimate:
    """Mean and standard deviation of the critical load by one shape of the loss function."""

    name: str
    mean_fps: float
    deviation_fps: float


@dataclass(frozen=True)
class LoadEstimate:
    """Critical load by all trials."""

    shapes: tuple[ShapeLoadEstimate, ...]  # estimate of each shape
    mean_fps: float
    deviation_fps: float
    """Mean and standard deviation over all shapes with equal weights; the deviation includes the difference
    between shapes."""
    low_fps: float  # lower end of the interval of the critical load
    high_fps: float  # upper end of the interval of the critical load


EstimateLoad = Callable[[Sequence[TrialLoss], float, float], "LoadEstimate | None"]
"""Function of the trials, the target loss ratio and the highest load; None: too little is known."""
