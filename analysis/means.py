"""Means of repetitions with their margin and relative deviation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean, stdev

from v6t.analysis.record import Record, RepetitionMeans

STANDARD_ERRORS_99 = 2.575
"""Half the width of the 99 % interval of a mean, in standard errors (normal distribution)."""


def compute_means(values: Sequence[float | None]) -> dict[str, float] | None:
    """Compute mean, margin of 99 % and relative standard deviation [%].

    Returns:
        None if there are fewer than two values, an undefined one, or a mean of 0.
    """
    known = [v for v in values if v is not None and math.isfinite(v)]
    count = len(known)
    if count < 2 or count < len(values):
        return None
    mean = fmean(known)
    if not mean:
        return None
    deviation = stdev(known)
    return {
        "mean": mean,
        "margin_99": STANDARD_ERRORS_99 * deviation / math.sqrt(count),
        "rsd_percent": deviation / abs(mean) * 100,
    }


def add_means(record: Record) -> Record:
    """Return a copy of the record with the mean of the repetitions of each figure."""
    copy = record.model_copy(deep=True)
    for _, series, _ in copy.list_series():
        figures = compute_means(series.repetition_values)
        series.means = None if figures is None else RepetitionMeans(**figures)
    return copy


def describe_means(record: Record) -> Iterator[str]:
    """Yield a phrase for every figure with means."""
    for name, series, unit in record.list_series():
        if series.means is not None:
            yield (
                f"{name}mean {series.means.mean:,.6g} +- {series.means.margin_99:,.3g} {unit} (99 %), "
                f"relative standard deviation {series.means.rsd_percent:.2f} %; the median is the "
                "result"
            )
