"""Figures of latency, PDV and IPDV (RFC 8219, sections 7.2 and 7.3)."""

import math
from collections.abc import Callable, Mapping

from v6t.trials.delays import Distribution

Figures = Mapping[str, float]  # figures of a distribution by name [ns]; infinite: undefined


def summarize_latency(delays: Distribution) -> Figures:
    """Return typical and worst case latency and the extremes of tagged frames."""
    return {
        "tl": delays.median_ns(),
        "wcl": delays.percentile_ns(99.9),
        "min": delays.minimum_ns,
        "max": delays.maximum_ns,
    }


def summarize_pdv(delays: Distribution) -> Figures:
    """Return PDV and its delays; PDV is infinite if the percentile falls on a lost frame."""
    low, high = delays.minimum_ns, delays.percentile_ns(99.9)
    return {
        # infinity minus infinity is not a number, for a stream that was lost completely
        "pdv": high if math.isinf(high) else high - low,
        "min": low,
        "p99_9": high,
        "max": delays.maximum_ns,
    }


def summarize_ipdv(differences: Distribution) -> Figures:
    """Return smallest, middle and largest difference; infinite if no pair is complete."""
    return {
        "min": differences.minimum_ns,
        "med": differences.median_ns(include_lost=False),
        "max": differences.maximum_ns,
    }


# function of each benchmark
COMPUTE_FIGURES: Mapping[str, Callable[[Distribution], Figures]] = {
    "latency": summarize_latency,
    "pdv": summarize_pdv,
    "ipdv": summarize_ipdv,
}


def find_tag_conflict(
    tags: int, first_tag_s: float, duration_s: float, rate_fps: float
) -> str | None:
    """Return the reason why tagged frames do not fit a stream, or None if they do."""
    if tags < 1:
        return f"{tags} tagged frames give no latency"
    if first_tag_s < 0:
        return f"the first tag cannot be {first_tag_s:g} s after the start"
    if duration_s <= first_tag_s:
        return f"a stream of {duration_s:g} s ends before the first tag at {first_tag_s:g} s"
    frames = max(1, round(rate_fps * duration_s)) - math.ceil(rate_fps * first_tag_s)
    if frames < tags:
        return (
            f"{tags} tags do not fit the {frames} frames that {rate_fps:,.0f} fps send in "
            f"{duration_s - first_tag_s:g} s"
        )
    return None
