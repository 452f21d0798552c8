"""Settings that several benchmarks share; their defaults are the RFCs' figures."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, PositiveFloat
from v6t.base.strict_model import StrictModel
from v6t.procedures.repetition import MIN_ADAPTIVE_REPETITIONS
from v6t.procedures.throughput import SearchMethod

# settings of `procedure` that the search for the throughput uses
SEARCH_SETTINGS = frozenset({
    "trial_duration_s", "resolution_fps", "loss_tolerance", "confirmations", "final_duration_s",
    "search", "adaptive",
})  # fmt: skip
# settings of `procedure` that the search for a connection rate uses
RATE_SEARCH_SETTINGS = frozenset({
    "connections.count", "connections.upper_cps", "connections.resolution_cps",
    "connections.validate_connections",
})  # fmt: skip
MAX_CONNECTIONS = 1 << 28  # capacity of the Responder's table, which then takes 3 GiB

ConnectionCount = Annotated[int, Field(ge=1, le=MAX_CONNECTIONS)]
RepetitionCount = Annotated[int, Field(ge=1, le=100_000)]
TrialLength = Annotated[float, Field(ge=0.001, le=86_400)]  # [s]


def list_flags(model: type[StrictModel], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the command line flags of a model, each with the name of its setting."""
    for name, field in model.model_fields.items():
        for item in field.metadata:
            if isinstance(item, Flag):
                yield item.name, prefix + name


class AdaptiveSettings(StrictModel):
    """Limits of adaptive repetition, which ends when the median is known well enough."""

    fewest: int = Field(default=MIN_ADAPTIVE_REPETITIONS, ge=MIN_ADAPTIVE_REPETITIONS, le=1000)
    """Smallest number of repetitions."""
    most: int = Field(50, ge=MIN_ADAPTIVE_REPETITIONS, le=1000, description="Maximum number.")
    width: float = Field(default=0.01, gt=0, lt=1)
    """Sufficient relative width of the median's confidence interval."""
    confidence: float = Field(0.95, ge=0.5, lt=1, description="Level of that interval.")


@dataclass(frozen=True)
class Flag:
    """Command line flag of a setting, for its annotation; several may share one."""

    name: str


class ConnectionSettings(StrictModel):
    """Settings of the connections of stateful devices."""

    count: ConnectionCount = Field(4_000_000, description="N, connections of a trial.")
    entries: ConnectionCount | None = Field(None, description="M, connections of phase 2; None: N.")
    reading: Literal["pseudorandom", "linear", "fixed"] = "pseudorandom"
    """Order in which the Responder reads its table."""
    wait_ms: float = Field(500.0, ge=0, le=60_000, description="T, wait for late frames.")
    gap_ms: float = Field(0.0, ge=0, le=1e8, description="Further wait before phase 2.")
    alpha: float = Field(default=1.0, gt=0, le=1)
    """Rate of the validation over the connection rate."""
    validate_connections: bool = Field(True, description="Send a frame through each connection.")
    rate_cps: PositiveFloat | None = Field(None, description="R of phase 1; None: ``rate_share``.")
    rate_share: float = Field(0.5, gt=0, le=0.9, description="R / P1 of the measured rates.")
    upper_cps: PositiveFloat | None = Field(None, description="Highest rate; None: the medium's.")
    resolution_cps: float | None = Field(default=None, gt=0)
    """Error of the search; None: ``resolution_ratio`` of the upper bound."""
    retakes: int = Field(3, ge=0, le=100, description="Repetitions of a failed phase 1.")
    keep: bool = Field(False, description="Reuse the open connections of a trial in the next one.")


class ProcedureSettings(StrictModel):
    """Settings of all trials and their repetitions."""

    trial_duration_s: Annotated[TrialLength, Flag("--duration")]
    """Length of each throughput trial [s]."""
    residual_wait_s: float = Field(ge=0, le=3600, description="Wait for late frames [s].")
    pause_s: float = Field(ge=0, le=86_400, description="Pause before each trial [s].")
    repetitions: Annotated[RepetitionCount, Flag("--reps")]
    """Repetitions of each benchmark that sets no number itself."""
    resolution_fps: Annotated[float | None, Flag("--resolution")] = Field(default=None, ge=0.001)
    """Stop when the bracket is this narrow [fps]; None: ``resolution_ratio`` of the upper bound. If an
    eighth of the lowest failed rate is smaller, the search stops there."""
    resolution_ratio: float = Field(default=0.001, ge=1e-9, lt=1)
    """Resolution over the upper bound."""
    loss_tolerance: Annotated[float, Flag("--loss-tolerance")] = Field(default=0.0, ge=0, lt=1)
    """Accepted share of lost frames in each direction."""
    sending_time_tolerance: float = Field(default=1.00001, gt=1, le=10)
    """Longest sending time, as a multiple of the duration; trials that exceed it are invalid."""
    invalid_retries: int = Field(2, ge=0, le=1000, description="Repetitions of an invalid trial.")
    confirmations: Annotated[int, Flag("--confirm")] = Field(default=0, ge=0, le=1000)
    """Times the found rate must pass again."""
    selftest_margin: float = Field(default=0.10, gt=0, lt=1)
    """Results above (1 - margin) of the tester's capacity are marked."""
    means: bool = Field(False, description="Also report means and their margins.")
    selftest: Literal["run", "cached"] = "run"
    """``run`` measures the tester's capacity in every run; ``cached`` uses an earlier result with
    the same tester, machine and streams."""
    search: Annotated[SearchMethod, Flag("--search")] = "binary"
    """``binary`` (RFC 2544) or ``mlrsearch`` (RFC 9971)."""
    final_duration_s: TrialLength | None = Field(None, description="Length of a last trial [s].")
    adaptive: AdaptiveSettings | None = None
    rate_from: Literal["median", "p1"] = "median"  #: Throughput that later benchmarks use.
    watch_device: bool = True
    """Read the load of the device's cores each second of trials of 3 s and longer.

    Since this is work for the device, the preset ``rfc`` does not do it."""
    read_device: bool = True
    """Read the device's counters before the first and after the last trial of each benchmark at a point,
    for its drop reasons and the use of its table."""
    connections: ConnectionSettings = ConnectionSettings()
    """Connections of stateful devices (RFC 9693)."""
