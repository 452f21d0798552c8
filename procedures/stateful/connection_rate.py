"""Maximum connection establishment rate (RFC 9693)."""

from dataclasses import dataclass, field

from v6t.procedures.search.binary import (
    FINE_SHARE,
    SearchResult,
    SearchStep,
    binary_search,
    count_halvings,
)
from v6t.procedures.stateful.phases import PhaseOneSettings, attempt_connections
from v6t.procedures.trial_runner import CPS, PointSpec, RepeatedResult, TrialRunner, Watch, repeat
from v6t.trials.result import Measure
from v6t.trials.verdict import Attempt, Verdict

BENCHMARK = "connection-rate"


@dataclass(frozen=True)
class ConnectionRateSpec(PointSpec):
    """Specification of the search for the connection rate."""

    unit, is_search = CPS, True
    connections: int  # N, number of connections
    upper_bound_cps: float  # highest rate offered
    upper_bound_reason: str  # ``media``, ``tester`` or ``given``
    resolution_cps: float  # error of the search; smaller for slow devices
    repetitions: int = 1  # searches; the RFC requires 20
    phase_one: PhaseOneSettings = field(default_factory=PhaseOneSettings)
    share: float = FINE_SHARE  # widest final bracket, as a share of the rate that failed
    floor_cps: float = 0.0  # the search ends below this rate; 0: never
    benchmark: str = BENCHMARK  # first part of the trial keys
    step: str = ""  # prefix of the step names in trial keys

    @property
    def steps(self) -> int:
        """Number of trials of one search without invalid ones."""
        return count_halvings(self.upper_bound_cps, self.resolution_cps) + 1


@dataclass(frozen=True)
class ConnectionRateRepetition:
    """Result of one search."""

    number: int  # from 1
    search: SearchResult  # the steps and the rate found
    attempts: tuple[Attempt, ...]

    @property
    def device_failed(self) -> bool:
        """Whether a valid trial failed because of the device."""
        return any(a.verdict.device_failed for a in self.attempts)

    @property
    def rate_cps(self) -> float:
        """Highest rate that passed [connections/s]; 0.0 if none did."""
        return self.search.rate_fps


ConnectionRateResult = RepeatedResult[ConnectionRateSpec, ConnectionRateRepetition]


def measure_connection_rate(
    spec: ConnectionRateSpec, measure: Measure, watch: Watch | None = None
) -> ConnectionRateResult:
    """Repeat the search for the highest connection rate."""
    return repeat(spec, spec.repetitions, measure, watch, lambda trials: _search(spec, trials))


def _search(spec: ConnectionRateSpec, trials: TrialRunner) -> ConnectionRateRepetition:
    bracket = (0.0, spec.upper_bound_cps)

    def set_bracket(step: SearchStep) -> None:
        nonlocal bracket
        bracket = step.low_fps, step.high_fps

    def try_rate(rate_cps: float, name: str) -> Verdict:
        return attempt_connections(
            trials,
            spec.conditions,
            spec.phase_one.make_connections(spec.connections, rate_cps),
            benchmark=spec.benchmark,
            step=f"{spec.step}{name}",
            steps=spec.steps,
            bracket=bracket,
        ).verdict

    search = binary_search(
        try_rate,
        upper_fps=spec.upper_bound_cps,
        resolution_fps=spec.resolution_cps,
        on_step=set_bracket,
        share=spec.share,
        floor_fps=spec.floor_cps,
    )
    return ConnectionRateRepetition(trials.number, search, tuple(trials.all))
