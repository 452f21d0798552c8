"""Order statistics as the RFCs and papers define them: nearest rank, no interpolation; outliers and modes."""

import math
from collections.abc import Sequence
from statistics import fmean, median, stdev
from typing import Any

from v6t.trials.order_statistics import compute_median_interval, percentile


def summarize(values: Sequence[float]) -> dict[str, Any]:
    """Summarize repetitions; infinite and unknown values become None.

    ``dispersion`` is ``(p99 - p1) / median * 100`` [%], ``median_interval`` the distribution-free
    confidence interval, None where there are too few values.
    """
    if not values:
        names = ("median", "p1", "p99", "min", "max", "dispersion", "median_interval")
        return {"count": 0, **dict.fromkeys(names)}
    middle, p1, p99 = median(values), percentile(values, 1), percentile(values, 99)
    dispersion = (p99 - p1) / middle * 100 if middle and math.isfinite(middle) else None
    numbers = {"median": middle, "p1": p1, "p99": p99, "min": min(values), "max": max(values)}
    finite: dict[str, Any] = {name: drop_infinite(value) for name, value in numbers.items()}
    finite["dispersion"] = drop_infinite(dispersion)
    if interval := compute_median_interval(values):
        ends = {"low": drop_infinite(interval.low), "high": drop_infinite(interval.high)}
        finite["median_interval"] = {
            **ends, "coverage": interval.coverage, "ranks": list(interval.ranks)
        }  # fmt: skip
    return {"count": len(values), "median_interval": None, **finite}


def drop_infinite(value: float | None) -> float | None:
    """Return the value, or None if it is infinite or unknown, since JSON has no infinity."""
    return value if value is not None and math.isfinite(value) else None


UNRELIABLE_PERCENT = 10.0  # dispersion above which the Mapperf paper calls results unreliable
OUTLIER_DEVIATIONS = 5.0  # least distance of outliers, in scaled median absolute deviations
MAD_TO_SIGMA = 1.4826  # ratio of standard deviation to median deviation, if normal
_MIN_VALUES = 6  # fewer repetitions show neither outliers nor modes
_MIN_MODE_SHARE = 0.2  # least share of the repetitions in each of two modes
_MIN_MODE_GAP = 0.02  # least gap between two modes, as a share of the median


def describe_repetitions(values: Sequence[float], unit: str = "") -> list[str]:
    """Describe outliers, modes and undefined (infinite) repetitions of a figure in sentences."""
    sentences = []
    finite = [v for v in values if math.isfinite(v)]
    if len(finite) < len(values):
        sentences.append(f"{len(values) - len(finite)} of {len(values)} repetitions are undefined")
    if not finite:
        return sentences
    middle = median(finite)
    if middle:
        spread = (percentile(finite, 99) - percentile(finite, 1)) / abs(middle) * 100
        if spread > UNRELIABLE_PERCENT:
            sentences.append(
                f"dispersion {spread:.1f} % is above {UNRELIABLE_PERCENT:g} %: "
                "the median alone does not describe this device"
            )
    if (modes := find_two_modes(finite)) is not None:
        low, high = modes
        sentences.append(
            f"bimodal: {len(low)} repetitions around {_format_value(median(low), unit)}, "
            f"{len(high)} around {_format_value(median(high), unit)}"
        )
        return sentences
    if outliers := find_outliers(finite):
        shown = ", ".join(_format_value(v, unit) for v in outliers[:3])
        sentences.append(f"{len(outliers)} outlying repetition{'s' * (len(outliers) > 1)}: {shown}")
    return sentences


def find_outliers(values: Sequence[float]) -> list[float]:
    """Return values farther from the median than five scaled median absolute deviations.

    Where the deviation is 0, the limit is a hundredth of the median.
    """
    if len(values) < _MIN_VALUES:
        return []
    middle = median(values)
    limit = OUTLIER_DEVIATIONS * MAD_TO_SIGMA * median([abs(v - middle) for v in values])
    limit = max(limit, abs(middle) * 0.01)
    return [v for v in values if abs(v - middle) > limit]


def find_two_modes(values: Sequence[float]) -> tuple[list[float], list[float]] | None:
    """Return the lower and the higher values if they form two separate groups, else None.

    The widest gap must be wider than either group, leave at least a fifth of the values (and two) on
    either side, and be more than a fiftieth of the median.
    """
    if len(values) < _MIN_VALUES:
        return None
    ordered = sorted(values)
    gap, cut = max((ordered[i + 1] - ordered[i], i + 1) for i in range(len(ordered) - 1))
    low, high = ordered[:cut], ordered[cut:]
    fewest = max(2, math.ceil(_MIN_MODE_SHARE * len(ordered)))
    widest = max(low[-1] - low[0], high[-1] - high[0])
    is_separate = gap > widest and gap > _MIN_MODE_GAP * abs(median(ordered))
    return (low, high) if is_separate and min(len(low), len(high)) >= fewest else None


def _format_value(value: float, unit: str) -> str:
    return f"{value:,.6g}{' ' + unit if unit else ''}"


STANDARD_ERRORS_99 = 2.575  # half the width of the 99 % interval of a mean, in standard errors


def compute_means(values: Sequence[float | None]) -> dict[str, float] | None:
    """Compute mean, half of its 99 % interval and relative standard deviation [%].

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
