"""Mean, its margin and the relative deviation beside the median, for those who ask (GEN-20).

IPv6NET's papers report ``mean +- 2.575 * s / sqrt(n)``; v6t reports medians, as RFC 8219 asks, and
these only where a run wants them, never as the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MARGIN_99 = 2.575
"""Standard errors on either side of the mean that hold it with 99 %, if values are normal."""


def means(values: Sequence[float | None]) -> dict[str, float] | None:
    """Mean, margin of 99 % and relative standard deviation [%].

    Args:
        values: of the repetitions; None is undefined.

    Returns:
        None if there are fewer than two values, an undefined one, or a mean of 0.
    """
    known = [v for v in values if v is not None and math.isfinite(v)]
    count = len(known)
    if count < 2 or count < len(values):
        return None
    mean = math.fsum(known) / count
    if not mean:
        return None
    deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in known) / (count - 1))
    return {
        "mean": mean,
        "margin_99": MARGIN_99 * deviation / math.sqrt(count),
        "rsd_percent": deviation / abs(mean) * 100,
    }


def add_means(record: dict[str, Any]) -> None:
    """Put them beside the repetitions of every figure in a record of ``results.json``."""
    for place, name in _figures(record):
        place["means"] = means(place[name])


def said_of_means(record: Mapping[str, Any]) -> Iterator[str]:
    """One phrase for every figure that has them."""
    for place, name in _figures(record):
        found = place.get("means")
        if found is None:
            continue
        what = "fps" if name == "rates" else record["unit"]
        yield (
            f"mean {found['mean']:,.6g} +- {found['margin_99']:,.3g} {what} (99 %), relative "
            f"standard deviation {found['rsd_percent']:.2f} %; the median is the result"
        )


def _figures(record: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    for name in ("rates", "values"):
        if isinstance(record.get(name), list) and all(
            v is None or isinstance(v, (int, float)) for v in record[name]
        ):
            yield record, name
    for found in record.get("directions", {}).values():
        if "values" in found:
            yield found, "values"
        for figure in found.values():
            if isinstance(figure, dict) and "values" in figure:
                yield figure, "values"
