"""Settings of the single benchmarks; their defaults are the RFCs' figures."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from v6t.procedures.frame_loss import LARGEST_STEP
from v6t.procedures.repetition import FEWEST

MOST_CONNECTIONS = 1 << 28
"""What the Responder's table holds: 256 million take 3 GiB (ST-13)."""


class Frozen(BaseModel):
    """Immutable settings; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class AdaptiveSettings(Frozen):
    """Repeat the throughput search until its median is known well enough (TP-09)."""

    fewest: int = Field(default=FEWEST, ge=FEWEST, le=1000)
    """Repetitions at least."""
    most: int = Field(default=50, ge=FEWEST, le=1000)
    """Repetitions at most."""
    width: float = Field(default=0.01, gt=0, lt=1)
    """Relative width of the median's confidence interval that is good enough."""
    confidence: float = Field(default=0.95, ge=0.5, lt=1)
    """Level of that interval."""


class LatencySettings(Frozen):
    """LAT-01, LAT-02."""

    duration_s: float = Field(default=120.0, ge=0.001, le=86_400)
    """Length of the stream [s]."""
    tags: int = Field(default=50_000, ge=1, le=10_000_000)
    """Tagged frames of a stream and direction."""
    first_tag_s: float = Field(default=60.0, ge=0, le=86_400)
    """Tags begin so long after the stream [s]."""


class DelayVariationSettings(Frozen):
    """PDV-01, IPDV-01."""

    duration_s: float = Field(default=60.0, ge=0.001, le=86_400)
    """Length of the stream [s]."""


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
    """Searches for the longest burst."""
    first_frames: int = Field(default=1024, ge=1)
    """Length of the first burst [frames]."""
    longest_s: float = Field(default=2.0, gt=0, le=3600)
    """Longest burst offered [s]."""
    resolution_frames: int = Field(default=64, ge=1)
    """Stop when the bracket is this narrow [frames]."""
    residual_wait_s: float = Field(default=2.0, ge=0, le=3600)
    """At least 2 s, so that the buffer has drained (RFC 9004 section 5.2)."""
    verifications: int = Field(default=1, ge=0, le=100)
    """Times a burst that loses is offered again before it counts."""
    at: Literal["media", "tester"] = "media"
    """``media``: refuse where the tester cannot send at the medium's rate; ``tester``: send at the
    tester's own maximum and say so."""
    sending_time_tolerance: float | None = Field(default=None, gt=1, le=100)
    """For these short streams instead of the general one; None: the general one."""


class RecoverySettings(Frozen):
    """REC-01."""

    overload_s: float = Field(default=60.0, ge=0.001, le=86_400)
    """Length of the overload [s]."""
    afterwards_s: float = Field(default=60.0, ge=0.001, le=86_400)
    """Length of the lower rate after it [s]."""
    repetitions: int | None = Field(default=None, ge=1, le=100_000)
    """None: as for throughput."""


class ResetSettings(Frozen):
    """RST-01, RST-02."""

    hook: str = "software-reset"
    """Name of the hook (`dut.options.hooks`) that resets the device."""
    duration_s: float = Field(default=120.0, ge=0.001, le=86_400)
    """Length of the stream [s]."""
    at_s: float = Field(default=20.0, gt=0, le=86_400)
    """The reset is so long after its beginning [s]."""
    repetitions: int = Field(default=5, ge=1, le=100_000)
    """Resets."""


class FlowSettings(Frozen):
    """SC-04."""

    counts: tuple[Annotated[int, Field(ge=1, le=65_535)], ...] = (1, 10, 100)
    """Flows through the device; one flow is always measured, as the base of Xpd."""
    starts: tuple[Literal["together", "successive"], ...] = ("together", "successive")
    """All flows begin together, one after the other, or both in turn."""
    interval_s: float = Field(default=1.0, gt=0, le=3600)
    """Between the beginnings of two flows that begin one after the other."""


class CapacitySettings(Frozen):
    """ST-12; the defaults are those of the RFC's example."""

    first: int = Field(default=1_000_000, ge=1, le=MOST_CONNECTIONS)
    """C0, connections of the first search."""
    most: int | None = Field(default=None, ge=1, le=MOST_CONNECTIONS)
    """Never more connections than these; None: as many as there are four-tuples."""
    beta: float = Field(default=0.1, gt=0, le=1)
    """Below this share of the last rate the table is too small."""
    gamma: float = Field(default=0.5, gt=0, le=1)
    """At this share of the rate and above it is large enough."""
    error: int = Field(default=1, ge=1)
    """E, error of the search [connections]."""
    resolution_cps: float | None = Field(default=None, gt=0)
    """Error of the rate searches on the way; None: as for the connection rate."""


class ConnectionSettings(Frozen):
    """Connections of stateful devices (ST-03 to ST-11)."""

    count: int = Field(default=4_000_000, ge=1, le=MOST_CONNECTIONS)
    """N, connections of a trial."""
    entries: int | None = Field(default=None, ge=1, le=MOST_CONNECTIONS)
    """M, connections the Responder sends in; None: all."""
    reading: Literal["pseudorandom", "linear", "fixed"] = "pseudorandom"
    """Order in which the Responder reads its table."""
    wait_ms: float = Field(default=500.0, ge=0, le=60_000)
    """T, wait for late frames after phase 1."""
    gap_ms: float = Field(default=0.0, ge=0, le=1e8)
    """Further wait before phase 2."""
    alpha: float = Field(default=1.0, gt=0, le=1)
    """Every connection is tried at this share of its rate after phase 1."""
    validate_connections: bool = True
    """Send a frame back through every connection after phase 1."""
    rate_cps: float | None = Field(default=None, gt=0)
    """R of trials whose phase 2 is measured; None: from the measured maximum."""
    rate_share: float = Field(default=0.5, gt=0, le=0.9)
    """R as a share of P1 of the measured maximum (ST-09)."""
    upper_cps: float | None = Field(default=None, gt=0)
    """Highest rate offered; None: what medium and tester carry."""
    resolution_cps: float | None = Field(default=None, gt=0)
    """Error of the search; None: ``resolution_ratio`` of the upper bound."""
    retakes: int = Field(default=3, ge=0, le=100)
    """Times phase 1 is taken again before phase 2 is given up (ST-08)."""
    keep: bool = False
    """Connections of one trial serve the next while they are whole."""
    teardown_repetitions: int | None = Field(default=None, ge=1, le=100_000)
    """Repetitions of the teardown; none: as for throughput."""
    capacity: CapacitySettings = CapacitySettings()
    """Search for the connection table's capacity (ST-12)."""
