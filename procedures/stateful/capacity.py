"""Connection tracking table capacity (RFC 9693 section 4.9)."""

from __future__ import annotations

from dataclasses import dataclass, field

from v6t.procedures.search.binary import ROUGH
from v6t.procedures.stateful.connection_rate import ConnectionRateSpec, measure_connection_rate
from v6t.procedures.stateful.phases import PhaseOneSettings
from v6t.procedures.trial_runner import PointSpec, Watch
from v6t.trials.result import Measure
from v6t.trials.verdict import Attempt

BENCHMARK = "capacity"


@dataclass(frozen=True)
class CapacitySpec(PointSpec):
    """Specification of the search for the capacity.

    Attributes:
        first: connections to begin with, C0.
        most: connections there are four-tuples for, and the tester's table holds.
        beta: below this share of the last rate the table is too small.
        gamma: at this share and above it is large enough.
        error: the search ends when it is known to so many connections, E.
        upper_bound_cps: highest rate offered [connections/s].
        upper_bound_reason: ``media``, ``tester`` or ``given``.
        resolution_cps: error of the rate searches.
        phase_one: waits and validation (alpha).
        benchmark: who asks.
        fixed: connections come at the highest rate offered; what else is offered is a second try.
    """

    first: int
    most: int
    upper_bound_cps: float
    upper_bound_reason: str
    resolution_cps: float
    beta: float = 0.1
    gamma: float = 0.5
    error: int = 1
    phase_one: PhaseOneSettings = field(default_factory=PhaseOneSettings)
    benchmark: str = BENCHMARK
    fixed: bool = False

    def __post_init__(self) -> None:
        """Check the parameters.

        Raises:
            ValueError: shares out of range or out of order, nothing to begin with.
        """
        if not 0 < self.beta <= self.gamma <= 1:
            raise ValueError("0 < beta <= gamma <= 1 must hold")
        if not 1 <= self.first <= self.most or self.error < 1:
            raise ValueError("first and error must be at least 1, and first at most most")


@dataclass(frozen=True)
class CapacityStep:
    """Number of connections that was tried, and its result.

    Attributes:
        name: within the keys.
        phase: ``first``, ``exponential`` or ``binary``.
        connections: C.
        rate_cps: the rate found, 0.0 if none; below the floor it was not looked for to the end.
        carried: it is large enough a rate.
    """

    name: str
    phase: str
    connections: int
    rate_cps: float
    carried: bool


@dataclass(frozen=True)
class CapacityResult:
    """Result of the search.

    Attributes:
        capacity: the largest number carried, C_S; 0 if none was.
        rate_cps: its rate, R_S.
        first_failed: the smallest number that was not; None: all there was was carried.
        first_connections, first_rate_cps: C0 and R0 as they came out: where not even the first
            number is carried, it is halved until one is.
        steps: everything tried.
    """

    spec: CapacitySpec
    capacity: int
    rate_cps: float
    first_failed: int | None
    first_connections: int
    first_rate_cps: float
    steps: tuple[CapacityStep, ...]
    attempts: tuple[Attempt, ...]


def measure_capacity(
    spec: CapacitySpec, measure: Measure, watch: Watch | None = None
) -> CapacityResult:
    """Search for the largest number of connections that the table holds."""
    return _Search(spec, measure, watch).run()


class _Search:
    """Search for the capacity, step by step."""

    def __init__(self, spec: CapacitySpec, measure: Measure, watch: Watch | None) -> None:
        self._spec = spec
        self._measure = measure
        self._watch = watch
        self._steps: list[CapacityStep] = []
        self._attempts: list[Attempt] = []

    def run(self) -> CapacityResult:
        spec = self._spec
        good, rate, bad = self._find_start()
        first, first_rate = good, rate
        while good and bad is None and good < spec.most:
            wanted = min(2 * good, spec.most)
            passing_cps = self._find_rate(wanted, "exponential", rate, spec.beta)
            if passing_cps is None:
                bad = wanted
            else:
                good, rate = wanted, passing_cps
        while good and bad is not None and bad - good > spec.error:
            middle = (good + bad) // 2
            passing_cps = self._find_rate(middle, "binary", rate, spec.gamma)
            if passing_cps is None:
                bad = middle
            else:
                good, rate = middle, passing_cps
        return CapacityResult(
            spec, good, rate, bad, first, first_rate, tuple(self._steps), tuple(self._attempts)
        )

    def _find_start(self) -> tuple[int, float, int | None]:
        spec = self._spec
        count, failed = spec.first, None
        while count:
            share = spec.beta if spec.fixed else 0.0
            passing_cps = self._find_rate(count, "first", spec.upper_bound_cps, share)
            if passing_cps:
                return count, passing_cps, failed
            count, failed = count // 2, count
        return 0, 0.0, failed

    def _find_rate(self, count: int, phase: str, last_cps: float, share: float) -> float | None:
        spec = self._spec
        # what passed at a second try lowers no rate at which others are attempted
        upper_cps = spec.upper_bound_cps if spec.fixed else last_cps
        floor_cps = share * upper_cps
        name = f"c{len(self._steps):03d}"
        search = ConnectionRateSpec(
            conditions=spec.conditions,
            connections=count,
            upper_bound_cps=upper_cps,
            upper_bound_reason=spec.upper_bound_reason,
            resolution_cps=min(spec.resolution_cps, upper_cps / 2),
            phase_one=spec.phase_one,
            share=ROUGH,
            floor_cps=floor_cps,
            benchmark=spec.benchmark,
            step=f"{name}-{count}/",
        )
        (done,) = measure_connection_rate(search, self._measure, self._watch).repetitions
        self._attempts += done.attempts
        enough = done.rate_cps >= floor_cps or not done.device_failed
        carried = done.rate_cps > 0 and enough
        self._steps.append(CapacityStep(name, phase, count, done.rate_cps, carried))
        return done.rate_cps if carried else None
