"""Connection tear-down rate (RFC 9693 section 4.8)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from v6t.procedures.stateful.phases import (
    MAX_RETAKES,
    PhaseOneError,
    PhaseOneSettings,
    attempt_connections,
)
from v6t.procedures.trial_runner import CPS, PointSpec, RepeatedResult, TrialRunner, Watch, repeat
from v6t.trials.result import Measure

BENCHMARK = "teardown"


@dataclass(frozen=True)
class TeardownSpec(PointSpec):
    """Specification of the tear-down rate.

    Attributes:
        connections: N.
        rate_cps: at which they are established.
        rate_source: where that rate comes from, in words.
        repetitions: times the table is filled and emptied.
        retakes: how often phase 1 is taken again when it loses connections.
    """

    unit, searched = CPS, True
    benchmark = BENCHMARK
    connections: int
    rate_cps: float
    rate_source: str
    repetitions: int
    phase_one: PhaseOneSettings = field(default_factory=PhaseOneSettings)
    retakes: int = MAX_RETAKES


@dataclass(frozen=True)
class TeardownRepetition:
    """Times of one tear-down.

    Attributes:
        full_s, idle_s: time to empty the table with all connections, and an empty one [s]; None:
            the device or tester did not tell.
        sessions: the device's own count before it was emptied.
    """

    full_s: float | None
    idle_s: float | None
    sessions: int | None

    def compute_rate_cps(self, connections: int) -> float | None:
        """Return connections torn down per second, or None if both times are equal."""
        if self.full_s is None or self.idle_s is None or self.full_s <= self.idle_s:
            return None
        return connections / (self.full_s - self.idle_s)


TeardownResult = RepeatedResult[TeardownSpec, TeardownRepetition]


def measure_teardown(
    spec: TeardownSpec, measure: Measure, watch: Watch | None = None
) -> TeardownResult:
    """Fill the table and measure the time to empty it, several times.

    Raises:
        PhaseOneError: phase 1 lost connections every time.
    """
    return repeat(spec, spec.repetitions, measure, watch, lambda trials: _tear_down(spec, trials))


def _tear_down(spec: TeardownSpec, attempts: TrialRunner) -> TeardownRepetition:
    connections = spec.phase_one.make_connections(spec.connections, spec.rate_cps)
    connections = replace(connections, purpose="tear-down", reuse=False)
    for again in range(spec.retakes + 1):
        outcome = attempt_connections(
            attempts, spec.conditions, connections, benchmark=BENCHMARK, step=f"t{again + 1}"
        )
        phase_one = outcome.result.connections
        if phase_one is not None and phase_one.is_complete:
            return TeardownRepetition(phase_one.flush_s, phase_one.idle_flush_s, phase_one.sessions)
    raise PhaseOneError(
        f"phase 1 at {spec.rate_cps:,.0f} connections per second failed {spec.retakes + 1} times: "
        + (outcome.verdict.reasons or ("unknown",))[0],
        tester=not outcome.verdict.valid,
    )
