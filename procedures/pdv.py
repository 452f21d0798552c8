"""Packet delay variation (RFC 8219 section 7.3.1): PDV-01 to PDV-03.

At the throughput rate, the one-way delays of all frames of a stream of at least 60 s:
``PDV = D99.9 - Dmin``. Where a tester times only a sample, the result is another one and says so.
"""

from __future__ import annotations

from v6t.procedures.conditions import Watch
from v6t.procedures.timing import Figures, TimingResult, TimingSpec, measure_timing
from v6t.trials.conditions import Conditions
from v6t.trials.delays import Distribution
from v6t.trials.result import Measure
from v6t.trials.trial import DelayRequest

BENCHMARK = "pdv"


def pdv_figures(delays: Distribution) -> Figures:
    """PDV and the delays it is made of [ns]; infinite where lost frames decide (PDV-02)."""
    low, high = delays.minimum_ns, delays.percentile_ns(99.9)
    return {
        # infinity minus infinity is nothing: a stream of which nothing returned is undefined too
        "pdv": high if high == float("inf") else high - low,
        "min": low,
        "p99_9": high,
        "max": delays.maximum_ns,
    }


def pdv_spec(
    conditions: Conditions,
    *,
    rate_fps: float,
    rate_source: str,
    duration_s: float,
    repetitions: int,
) -> TimingSpec:
    """One PDV point."""
    return TimingSpec(
        BENCHMARK, conditions, rate_fps, rate_source, duration_s, DelayRequest(), repetitions
    )


def measure_pdv(spec: TimingSpec, measure: Measure, watch: Watch | None = None) -> TimingResult:
    """All repetitions; per direction ``pdv``, ``min``, ``p99_9`` and ``max`` [ns]."""
    return measure_timing(spec, measure, pdv_figures, watch)
