"""Latency (RFC 8219 section 7.2): LAT-01 to LAT-07.

At the throughput rate, a stream of at least 120 s in which at least 500 tagged frames (here
50,000 by default, so that the 99.9th percentile is not simply the maximum) are spread evenly over
the time from 60 s on. Typical latency TL is their median, worst case latency WCL their 99.9th
percentile by nearest rank.
"""

from __future__ import annotations

from v6t.procedures.conditions import Watch
from v6t.procedures.timing import Figures, TimingResult, TimingSpec, measure_timing
from v6t.trials.conditions import Conditions
from v6t.trials.delays import Distribution
from v6t.trials.result import Measure
from v6t.trials.trial import DelayRequest

BENCHMARK = "latency"


def latency_figures(delays: Distribution) -> Figures:
    """Typical and worst case latency [ns] of one stream's tags (LAT-04, LAT-05)."""
    return {
        "tl": delays.median_ns(),
        "wcl": delays.percentile_ns(99.9),
        "min": delays.minimum_ns,
        "max": delays.maximum_ns,
    }


def misfit(tags: int, first_tag_s: float, duration_s: float, rate_fps: float) -> str | None:
    """Why so many tags do not fit a stream; None if they do (LAT-02)."""
    if tags < 1:
        return f"{tags} tagged frames give no latency"
    if first_tag_s < 0:
        return f"the first tag cannot be {first_tag_s:g} s after the start"
    if duration_s <= first_tag_s:
        return f"a stream of {duration_s:g} s ends before the first tag at {first_tag_s:g} s"
    room = int(rate_fps * duration_s) - int(rate_fps * first_tag_s)
    if room < tags:
        return (
            f"{tags} tags do not fit the {room} frames that {rate_fps:,.0f} fps send in "
            f"{duration_s - first_tag_s:g} s"
        )
    return None


def latency_spec(
    conditions: Conditions,
    *,
    rate_fps: float,
    rate_source: str,
    duration_s: float,
    tags: int,
    first_tag_s: float,
    repetitions: int,
) -> TimingSpec:
    """One latency point.

    Raises:
        ValueError: the tags do not fit the stream; see :func:`misfit`.
    """
    problem = misfit(tags, first_tag_s, duration_s, rate_fps)
    if problem:
        raise ValueError(problem)
    request = DelayRequest(tags=tags, first_tag_s=first_tag_s)
    return TimingSpec(
        BENCHMARK, conditions, rate_fps, rate_source, duration_s, request, repetitions
    )


def measure_latency(spec: TimingSpec, measure: Measure, watch: Watch | None = None) -> TimingResult:
    """All repetitions; per direction ``tl``, ``wcl``, ``min`` and ``max`` [ns]."""
    return measure_timing(spec, measure, latency_figures, watch)
