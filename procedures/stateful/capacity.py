"""Connection tracking table capacity (RFC 9693 section 4.9)."""

from dataclasses import dataclass, field

from v6t.procedures.search.binary import ROUGH_SHARE
from v6t.procedures.stateful.connection_rate import ConnectionRateSpec, measure_connection_rate
from v6t.procedures.stateful.phases import PhaseOneSettings
from v6t.procedures.trial_runner import CPS, PointSpec, Watch
from v6t.trials.result import Measure
from v6t.trials.verdict import Attempt

BENCHMARK = "capacity"


@dataclass(frozen=True)
class CapacitySpec(PointSpec):
    """Specification of the search for the table's capacity."""

    unit, is_search = CPS, True
    first: int  # C0, connections of the first step
    most: int  # largest number of connections that can be tried
    upper_bound_cps: float  # highest rate offered
    upper_bound_reason: str  # ``media``, ``tester`` or ``given``
    resolution_cps: float  # error of the rate searches
    beta: float = 0.1  # the table is too small below this ratio to the last rate
    gamma: float = 0.5  # smallest ratio to the reference rate of a large enough table
    error: int = 1  # E, error of the search [connections]
    phase_one: PhaseOneSettings = field(default_factory=PhaseOneSettings)
    benchmark: str = BENCHMARK  # first part of the trial keys
    fixed: bool = False  # offer the highest rate only; repeat failed trials at a lower one

    def __post_init__(self) -> None:
        """Check the shares and numbers."""
        if not 0 < self.beta <= self.gamma <= 1:
            raise ValueError("0 < beta <= gamma <= 1 must hold")
        if not 1 <= self.first <= self.most or self.error < 1:
            raise ValueError("first and error must be at least 1, and first at most most")


@dataclass(frozen=True)
class CapacityStep:
    """Step of the search: the highest rate for a number of connections."""

    name: str  # name of the step, in trial keys
    phase: str  # ``first``, ``exponential`` or ``binary``
    connections: int  # C, number of connections tried
    rate_cps: float  # highest passed rate; 0.0 if none
    carried: bool  # the rate is high enough


@dataclass(frozen=True)
class CapacityResult:
    """Result of the search; C0 is halved until a number of connections is carried."""

    spec: CapacitySpec
    capacity: int  # C_S, largest number carried; 0 if none was
    rate_cps: float  # R_S, rate at the capacity
    first_failed: int | None  # smallest number not carried; None: none that the device failed
    first_connections: int  # C0, the first number carried
    first_rate_cps: float  # R0, rate at C0
    steps: tuple[CapacityStep, ...]
    attempts: tuple[Attempt, ...]


def measure_capacity(
    spec: CapacitySpec, measure: Measure, watch: Watch | None = None
) -> CapacityResult:
    """Search for the largest number of connections that the table holds."""
    return _CapacitySearch(spec, measure, watch).run()


class _CapacitySearch:
    """State of a search for the table's capacity."""

    def __init__(self, spec: CapacitySpec, measure: Measure, watch: Watch | None) -> None:
        self._spec = spec
        self._measure = measure
        self._watch = watch
        self._steps: list[CapacityStep] = []
        self._attempts: list[Attempt] = []
        self._unknown: set[int] = set()  # numbers of connections that only the tester failed

    def run(self) -> CapacityResult:
        spec = self._spec
        good, rate, bad = self._find_start()
        first, first_rate = good, rate
        while good and bad is None and good < spec.most:
            count = min(2 * good, spec.most)
            if passing_cps := self._find_rate(count, "exponential", rate, spec.beta):
                good, rate = count, passing_cps
            else:
                bad = count
        while good and bad is not None and bad - good > spec.error:
            count = (good + bad) // 2
            if passing_cps := self._find_rate(count, "binary", rate, spec.gamma):
                good, rate = count, passing_cps
            else:
                bad = count
        bad = None if bad in self._unknown else bad
        steps, attempts = tuple(self._steps), tuple(self._attempts)
        return CapacityResult(spec, good, rate, bad, first, first_rate, steps, attempts)

    def _find_start(self) -> tuple[int, float, int | None]:
        """Return C0 and R0, and the smallest number of connections above C0 that failed."""
        spec = self._spec
        count, failed = spec.first, None
        while count:
            share = spec.beta if spec.fixed else 0.0
            if passing_cps := self._find_rate(count, "first", spec.upper_bound_cps, share):
                return count, passing_cps, failed
            count, failed = count // 2, count
        return 0, 0.0, failed

    def _find_rate(self, count: int, phase: str, last_cps: float, share: float) -> float | None:
        """Return the highest rate for a number of connections, or None if the table is too small."""
        spec = self._spec
        # a second try at a lower rate does not lower the rate of later steps
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
            share=ROUGH_SHARE,
            floor_cps=floor_cps,
            benchmark=spec.benchmark,
            step=f"{name}-{count}/",
        )
        (done,) = measure_connection_rate(search, self._measure, self._watch).repetitions
        self._attempts += done.attempts
        enough = done.rate_cps >= floor_cps or not done.device_failed
        carried = done.rate_cps > 0 and enough
        if not (done.rate_cps or done.device_failed):
            self._unknown.add(count)
        self._steps.append(CapacityStep(name, phase, count, done.rate_cps, carried))
        return done.rate_cps if carried else None
