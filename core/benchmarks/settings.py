"""Settings that several benchmarks share; their defaults are the RFCs' figures."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from v6t.procedures.repetition import FEWEST
from v6t.profiles.strict_model import StrictModel

MOST_CONNECTIONS = 1 << 28
"""What the Responder's table holds: 256 million take 3 GiB (ST-13)."""


class AdaptiveSettings(StrictModel):
    """Repeat the throughput search until its median is known well enough (TP-09)."""

    fewest: int = Field(default=FEWEST, ge=FEWEST, le=1000)
    """Repetitions at least."""
    most: int = Field(default=50, ge=FEWEST, le=1000)
    """Repetitions at most."""
    width: float = Field(default=0.01, gt=0, lt=1)
    """Relative width of the median's confidence interval that is good enough."""
    confidence: float = Field(default=0.95, ge=0.5, lt=1)
    """Level of that interval."""


class CapacitySettings(StrictModel):
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


class ConnectionSettings(StrictModel):
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
