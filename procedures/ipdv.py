"""Inter-packet delay variation (RFC 8219 section 7.3.2): IPDV-01, IPDV-02.

``IPDV(i) = D(i) - D(i-1)`` over consecutive frames of a stream of at least 60 s at the throughput
rate; reported are its minimum, median and maximum. Pairs with a lost member are skipped, counted.
"""

from __future__ import annotations

from v6t.procedures.conditions import Watch
from v6t.procedures.timing import Figures, TimingResult, TimingSpec, measure_timing
from v6t.trials.conditions import Conditions
from v6t.trials.delays import Distribution
from v6t.trials.result import Measure
from v6t.trials.trial import DelayRequest

BENCHMARK = "ipdv"


def ipdv_figures(differences: Distribution) -> Figures:
    """Smallest, middle and largest difference [ns]; infinite if no pair was complete."""
    return {
        "min": differences.minimum_ns,
        "med": differences.median_ns(include_lost=False),
        "max": differences.maximum_ns,
    }


def ipdv_spec(
    conditions: Conditions,
    *,
    rate_fps: float,
    rate_source: str,
    duration_s: float,
    repetitions: int,
) -> TimingSpec:
    """One IPDV point."""
    request = DelayRequest(ipdv=True)
    return TimingSpec(
        BENCHMARK, conditions, rate_fps, rate_source, duration_s, request, repetitions
    )


def measure_ipdv(spec: TimingSpec, measure: Measure, watch: Watch | None = None) -> TimingResult:
    """All repetitions; per direction ``min``, ``med`` and ``max`` [ns]."""
    return measure_timing(spec, measure, ipdv_figures, watch)
