"""Settings that several benchmarks share; their defaults are the RFCs' figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field
from v6t.base.strict_model import StrictModel
from v6t.procedures.repetition import MIN_ADAPTIVE_REPETITIONS
from v6t.procedures.throughput import SearchMethod

SEARCH_SETTINGS = frozenset({
    "trial_duration_s", "resolution_fps", "loss_tolerance", "confirmations", "final_duration_s",
    "search", "adaptive",
})  # fmt: skip
"""Settings of ``procedure`` that the search for the throughput uses."""
RATE_SEARCH_SETTINGS = frozenset({
    "connections.count", "connections.upper_cps", "connections.resolution_cps",
    "connections.validate_connections",
})  # fmt: skip
"""Settings of ``procedure`` that the search for a connection rate uses."""
MAX_CONNECTIONS = 1 << 28  # capacity of the Responder's table, which then takes 3 GiB


def list_flags(model: type[StrictModel], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the command line flags of a model, each with the name of its setting."""
    for name, field in model.model_fields.items():
        for mark in field.metadata:
            if isinstance(mark, Flag):
                yield mark.name, prefix + name


class AdaptiveSettings(StrictModel):
    """Repeat the throughput search until its median is known well enough."""

    fewest: int = Field(default=MIN_ADAPTIVE_REPETITIONS, ge=MIN_ADAPTIVE_REPETITIONS, le=1000)
    """Repetitions at least."""
    most: int = Field(50, ge=MIN_ADAPTIVE_REPETITIONS, le=1000, description="Repetitions at most.")
    width: float = Field(default=0.01, gt=0, lt=1)
    """Relative width of the median's confidence interval that is good enough."""
    confidence: float = Field(0.95, ge=0.5, lt=1, description="Level of that interval.")


@dataclass(frozen=True)
class Flag:
    """Command line flag of a setting, for its annotation; several may share one."""

    name: str


class ConnectionSettings(StrictModel):
    """Connections of stateful devices."""

    count: int = Field(default=4_000_000, ge=1, le=MAX_CONNECTIONS)
    """N, connections of a trial."""
    entries: int | None = Field(default=None, ge=1, le=MAX_CONNECTIONS)
    """M, connections the Responder sends in; None: all."""
    reading: Literal["pseudorandom", "linear", "fixed"] = "pseudorandom"
    """Order in which the Responder reads its table."""
    wait_ms: float = Field(default=500.0, ge=0, le=60_000)
    """T, wait for late frames after phase 1."""
    gap_ms: float = Field(0.0, ge=0, le=1e8, description="Further wait before phase 2.")
    alpha: float = Field(default=1.0, gt=0, le=1)
    """Every connection is tried at this share of its rate after phase 1."""
    validate_connections: bool = True
    """Send a frame back through every connection after phase 1."""
    rate_cps: float | None = Field(default=None, gt=0)
    """R of trials whose phase 2 is measured; None: from the measured maximum."""
    rate_share: float = Field(default=0.5, gt=0, le=0.9)
    """R as a share of P1 of the measured maximum."""
    upper_cps: float | None = Field(default=None, gt=0)
    """Highest rate offered; None: what medium and tester carry."""
    resolution_cps: float | None = Field(default=None, gt=0)
    """Error of the search; None: ``resolution_ratio`` of the upper bound."""
    retakes: int = Field(3, ge=0, le=100, description="Times that a failed phase 1 is repeated.")
    keep: bool = Field(False, description="Reuse the open connections of a trial in the next one.")


class ProcedureSettings(StrictModel):
    """How trials are run and repeated."""

    trial_duration_s: Annotated[float, Flag("--duration")] = Field(ge=0.001, le=86_400)
    """Length of each throughput trial [s]."""
    residual_wait_s: float = Field(ge=0, le=3600, description="Wait for late frames [s].")
    pause_s: float = Field(ge=0, le=86_400, description="Rest before each trial [s].")
    repetitions: Annotated[int, Flag("--reps")] = Field(ge=1, le=100_000)
    """Repetitions of each benchmark that does not set their number."""
    resolution_fps: Annotated[float | None, Flag("--resolution")] = Field(default=None, ge=0.001)
    """Stop when the bracket is this narrow [fps]; None: ``resolution_ratio`` of the upper bound. For slow
    devices: an eighth of the rate that failed."""
    resolution_ratio: float = Field(default=0.001, ge=1e-9, lt=1)
    """Stop when the bracket is this share of the upper bound."""
    loss_tolerance: Annotated[float, Flag("--loss-tolerance")] = Field(default=0.0, ge=0, lt=1)
    """Accepted share of lost frames, checked in each direction separately."""
    sending_time_tolerance: float = Field(default=1.00001, gt=1, le=10)
    """A trial whose sending takes longer than duration times this is invalid."""
    invalid_retries: int = Field(default=2, ge=0, le=1000)
    """How often an invalid trial is measured again before it counts as failed."""
    confirmations: Annotated[int, Flag("--confirm")] = Field(default=0, ge=0, le=1000)
    """How often a found rate must pass again."""
    selftest_margin: float = Field(default=0.10, gt=0, lt=1)
    """Results above (1 - margin) of the tester's own capacity are flagged."""
    means: bool = False
    """Mean, its margin and the relative deviation beside every median."""
    selftest: Literal["run", "cached"] = "run"
    """``run`` measures the tester's capacity in every run; ``cached`` takes one that was found with
    the same tester, machine and streams."""
    search: Annotated[SearchMethod, Flag("--search")] = "binary"
    """``binary`` (RFC 2544) or ``mlrsearch`` (RFC 9971)."""
    final_duration_s: float | None = Field(default=None, ge=0.001, le=86_400)
    """The found rate must pass once for so long."""
    adaptive: AdaptiveSettings | None = None
    rate_from: Literal["median", "p1"] = "median"
    """Which measured throughput later benchmarks take."""
    watch_device: bool = True
    """Read the load of a driven device's cores each second of trials of 3 s and longer.

    That is a little work for the device: the preset ``rfc`` leaves it alone."""
    read_device: bool = True
    """Read a driven device's counters before the first and after the last trial of each benchmark at a test
    point, while nothing is sent: what it dropped, by its own reasons, and how full its table is."""
    connections: ConnectionSettings = ConnectionSettings()
    """Connections of stateful devices (RFC 9693)."""
