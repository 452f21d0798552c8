"""Connection tear-down rate (RFC 9693 section 4.8)."""

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
    """Specification of the measurement of the tear-down rate."""

    unit, is_search = CPS, True
    benchmark = BENCHMARK
    connections: int  # N, number of connections
    rate_cps: float  # rate of phase 1 [connections/s]
    rate_source: str  # origin of that rate
    repetitions: int  # number of times the table is filled and emptied
    phase_one: PhaseOneSettings = field(default_factory=PhaseOneSettings)
    retakes: int = MAX_RETAKES  # repetitions of a failed phase 1


@dataclass(frozen=True)
class TeardownRepetition:
    """Times of one tear-down [s]; None if the device or the tester does not report them."""

    full_s: float | None  # time to empty the full table
    idle_s: float | None  # time of the same command when the table is already empty
    sessions: int | None  # device's count before the table was emptied

    def compute_rate_cps(self, connections: int) -> float | None:
        """Return connections torn down per second, or None if the times do not give a rate."""
        if self.full_s is None or self.idle_s is None or self.full_s <= self.idle_s:
            return None
        return connections / (self.full_s - self.idle_s)


TeardownResult = RepeatedResult[TeardownSpec, TeardownRepetition]


def measure_teardown(
    spec: TeardownSpec, measure: Measure, watch: Watch | None = None
) -> TeardownResult:
    """Fill the table and measure the time to empty it, several times."""
    return repeat(spec, spec.repetitions, measure, watch, lambda trials: _tear_down(spec, trials))


def _tear_down(spec: TeardownSpec, trials: TrialRunner) -> TeardownRepetition:
    """Fill the table and measure the time to empty it, once."""
    connections = spec.phase_one.make_connections(spec.connections, spec.rate_cps)
    connections = replace(connections, purpose="tear-down", reuse=False)
    first_key = ""
    for retake in range(spec.retakes + 1):
        outcome = attempt_connections(
            trials, spec.conditions, connections, benchmark=BENCHMARK, step=f"t{retake + 1}"
        )
        first_key = first_key or outcome.attempts[0].trial.key
        phase_one = outcome.result.connections
        if phase_one is not None and phase_one.is_complete and outcome.verdict.valid:
            return TeardownRepetition(phase_one.flush_s, phase_one.idle_flush_s, phase_one.sessions)
    raise PhaseOneError(
        f"phase 1 at {spec.rate_cps:,.0f} connections per second failed {spec.retakes + 1} times: "
        + (outcome.verdict.reasons or ("unknown",))[0],
        first_key,
        tester=not outcome.verdict.valid,
    )
