"""Loss of trials by offered load, and the critical load estimated from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Offered:
    """One trial, over all its directions.

    Attributes:
        rate_fps: per direction.
        frames: that were asked for.
        lost: of them.
    """

    rate_fps: float
    frames: int
    lost: int

    @property
    def ratio(self) -> float:
        """Lost share."""
        return self.lost / self.frames


@dataclass(frozen=True)
class ShapeEstimate:
    """What one shape of the loss function makes of the trials.

    Attributes:
        name: of the shape.
        mean_fps, deviation_fps: of the critical load.
    """

    name: str
    mean_fps: float
    deviation_fps: float


@dataclass(frozen=True)
class Estimate:
    """What all trials say of the critical load.

    Attributes:
        shapes: each by itself.
        mean_fps, deviation_fps: of all shapes together, each with an equal say: where they differ
            nobody knows which is the device's, so their difference is in here.
        low_fps, high_fps: ends of the interval in which it is.
    """

    shapes: tuple[ShapeEstimate, ...]
    mean_fps: float
    deviation_fps: float
    low_fps: float
    high_fps: float


Infer = Callable[[Sequence[Offered], float, float], Estimate]
"""Trials, target loss ratio and the largest load to an estimate."""
