"""Settings of the single benchmarks; their defaults are the RFCs' figures."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from v6t.procedures.frame_loss import LARGEST_STEP
from v6t.procedures.repetition import FEWEST


class Frozen(BaseModel):
    """Immutable settings; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class AdaptiveSettings(Frozen):
    """Repeat the throughput search until its median is known well enough (TP-09)."""

    fewest: int = Field(default=FEWEST, ge=FEWEST, le=1000)
    most: int = Field(default=50, ge=FEWEST, le=1000)
    width: float = Field(default=0.01, gt=0, lt=1)
    """Relative width of the median's confidence interval that is good enough."""
    confidence: float = Field(default=0.95, ge=0.5, lt=1)


class LatencySettings(Frozen):
    """LAT-01, LAT-02."""

    duration_s: float = Field(default=120.0, ge=0.001, le=86_400)
    tags: int = Field(default=50_000, ge=1, le=10_000_000)
    first_tag_s: float = Field(default=60.0, ge=0, le=86_400)


class DelayVariationSettings(Frozen):
    """PDV-01, IPDV-01."""

    duration_s: float = Field(default=60.0, ge=0.001, le=86_400)


class FrameLossSettings(Frozen):
    """FLR-02, FLR-03."""

    step: float = Field(default=LARGEST_STEP, gt=0, le=LARGEST_STEP)
    """Step as a share of the maximum rate."""
    rates_fps: tuple[float, ...] | None = None
    """These rates instead of the RFC's descent: the procedure of the papers."""
    duration_s: float | None = Field(default=None, ge=0.001, le=86_400)
    """Length of each stream [s]; None: that of the throughput trials."""
    repetitions: int | None = Field(default=None, ge=1, le=100_000)
    """None: as for throughput."""


class BurstSettings(Frozen):
    """B2B-01 to B2B-03."""

    repetitions: int = Field(default=50, ge=1, le=100_000)
    first_frames: int = Field(default=1024, ge=1)
    longest_s: float = Field(default=2.0, gt=0, le=3600)
    resolution_frames: int = Field(default=64, ge=1)
    residual_wait_s: float = Field(default=2.0, ge=0, le=3600)
    """At least 2 s, so that the buffer has drained (RFC 9004 section 5.2)."""
    verifications: int = Field(default=1, ge=0, le=100)
    at: Literal["media", "tester"] = "media"
    """``media``: refuse where the tester cannot send at the medium's rate; ``tester``: send at the
    tester's own maximum and say so."""
    sending_time_tolerance: float | None = Field(default=None, gt=1, le=100)
    """For these short streams instead of the general one; None: the general one."""


class RecoverySettings(Frozen):
    """REC-01."""

    overload_s: float = Field(default=60.0, ge=0.001, le=86_400)
    afterwards_s: float = Field(default=60.0, ge=0.001, le=86_400)
    repetitions: int | None = Field(default=None, ge=1, le=100_000)
    """None: as for throughput."""


class ResetSettings(Frozen):
    """RST-01, RST-02."""

    hook: str = "software-reset"
    duration_s: float = Field(default=120.0, ge=0.001, le=86_400)
    at_s: float = Field(default=20.0, gt=0, le=86_400)
    repetitions: int = Field(default=5, ge=1, le=100_000)
