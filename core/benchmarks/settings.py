"""Settings that several benchmarks share; their defaults are the RFCs' figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pydantic import Field
from v6t.base.strict_model import StrictModel
from v6t.procedures.repetition import MIN_ADAPTIVE_REPETITIONS

MOST_CONNECTIONS = 1 << 28
"""What the Responder's table holds: 256 million take 3 GiB (ST-13)."""


def flags_in(model: type[StrictModel], above: str = "") -> Iterator[tuple[str, str]]:
    """Flags that a model's fields ask for, each with the setting's name."""
    for name, field in model.model_fields.items():
        for mark in field.metadata:
            if isinstance(mark, Flag):
                yield mark.name, above + name


class AdaptiveSettings(StrictModel):
    """Repeat the throughput search until its median is known well enough (TP-09)."""

    fewest: int = Field(default=MIN_ADAPTIVE_REPETITIONS, ge=MIN_ADAPTIVE_REPETITIONS, le=1000)
    """Repetitions at least."""
    most: int = Field(default=50, ge=MIN_ADAPTIVE_REPETITIONS, le=1000)
    """Repetitions at most."""
    width: float = Field(default=0.01, gt=0, lt=1)
    """Relative width of the median's confidence interval that is good enough."""
    confidence: float = Field(default=0.95, ge=0.5, lt=1)
    """Level of that interval."""


@dataclass(frozen=True)
class Flag:
    """In a field's annotation: the command line has a flag for it; several may share one."""

    name: str


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
