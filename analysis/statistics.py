"""Order statistics as the RFCs and papers define them: nearest rank, no interpolation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

from v6t.trials.order_statistics import compute_median_interval, percentile


def summary_json(values: Sequence[float]) -> dict[str, Any]:
    """Repetitions as JSON-like values; what is infinite or unknown is None, "undefined" in print.

    ``dispersion`` is ``(p99 - p1) / median * 100`` [%] (GEN-19), None where the median is 0 or
    infinite. ``median_interval`` is the distribution-free confidence interval of the median, None
    where there are too few values (TP-09).
    """
    if not values:
        empty = dict.fromkeys(("median", "p1", "p99", "min", "max", "dispersion"))
        return {"count": 0, **empty, "median_interval": None}
    middle, p1, p99 = median(values), percentile(values, 1), percentile(values, 99)
    interval = compute_median_interval(values)
    return {
        "count": len(values),
        "median": finite(middle),
        "p1": finite(p1),
        "p99": finite(p99),
        "min": finite(min(values)),
        "max": finite(max(values)),
        "dispersion": finite((p99 - p1) / middle * 100)
        if middle and math.isfinite(middle)
        else None,
        "median_interval": interval
        and {
            "low": finite(interval.low),
            "high": finite(interval.high),
            "coverage": interval.coverage,
            "ranks": list(interval.ranks),
        },
    }


def finite(value: float | None) -> float | None:
    """Return the value, or None where it is infinite or unknown: JSON has no infinity."""
    return value if value is not None and math.isfinite(value) else None
