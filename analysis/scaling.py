"""Formulas for scale-up, degradation and mixtures (RFC 8219 section 10 and papers)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

S_CPU = "S_CPU(n) = P(n) / (n * P(1))"
S_C = "S_C(n, n0) = P(n) / P(n0)"
XPD = "Xpd = (X1 - Xn) / X1 * 100 %"
"""Of benchmarks where higher is better, as the throughput (RFC 8219 section 10.2.1)."""
XPD_LOWER = "Xpd = (Xn - X1) / X1 * 100 %"
"""Of those where lower is better, as delays."""
T_MIN = "T(a) = min(Tt / a, Tn / (1 - a))"
T_HARMONIC = "T(a) = 1 / (a / Tt + (1 - a) / Tn)"


def count_cores(value: Any) -> int | None:
    """Count the cores of an option: a number, or a list such as ``"1-4,6"``; else None."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return value or None
    parts = [part.partition("-") for part in str(value).split(",")]
    if not all(low.isdigit() and (high.isdigit() or not dash) for low, dash, high in parts):
        return None
    return sum(int(high or low) - int(low) + 1 for low, _, high in parts)


def compute_core_scaling(performance: Mapping[int, float]) -> dict[int, float]:
    """Return the efficiency by number of cores by :data:`S_CPU`; 1 is perfect.

    Raises:
        ValueError: no result for one core, or it is not positive.
    """
    base = _find_base(performance, 1, "one core")
    return {n: p / (n * base) for n, p in sorted(performance.items())}


def compute_load_scaling(
    performance: Mapping[int, float], base: int | None = None
) -> dict[int, float]:
    """Return the scale-up over connections, CEs or rules by :data:`S_C`.

    Raises:
        ValueError: no results, or none for ``base`` (by default the lowest number).
    """
    if not performance:
        raise ValueError("scale-up needs results")
    first = min(performance) if base is None else base
    reference = _find_base(performance, first, str(first))
    return {n: p / reference for n, p in sorted(performance.items())}


def compute_degradation(with_n: float, with_one: float, *, more_is_better: bool = True) -> float:
    """Compute the degradation by :data:`XPD` or :data:`XPD_LOWER`, positive where it is worse.

    Raises:
        ValueError: ``with_one`` is 0, or not positive where more is better. A smallest IPDV is negative, and
            the farther from 0 the worse, which the formula says of it as it stands.
    """
    if with_one == 0 or (more_is_better and with_one < 0):
        raise ValueError("degradation needs a positive result with one flow")
    worse = with_one - with_n if more_is_better else with_n - with_one
    return worse / with_one * 100


def predict_minimum(translated: float, native: float, share: float) -> float:
    """Predict a mixture with this translated share by :data:`T_MIN`: several cores."""
    _check_mixture(translated, native, share)
    limits = ([translated / share] if share else []) + ([native / (1 - share)] if share < 1 else [])
    return min(limits)


def predict_harmonic(translated: float, native: float, share: float) -> float:
    """Predict a mixture by :data:`T_HARMONIC`: one core, or many flows."""
    _check_mixture(translated, native, share)
    return 1 / (share / translated + (1 - share) / native)


def compute_residual(measured: float, predicted: float) -> float:
    """Return how far a measurement lies above (positive) or below a model [%]."""
    if predicted <= 0:
        raise ValueError("a residual needs a positive prediction")
    return (measured - predicted) / predicted * 100


def _find_base(performance: Mapping[int, float], number: int, what: str) -> float:
    base = performance.get(number, 0.0)
    if base <= 0:
        raise ValueError(f"scale-up needs a positive result for {what}")
    return base


def _check_mixture(translated: float, native: float, share: float) -> None:
    if translated <= 0 or native <= 0 or not 0 <= share <= 1:
        raise ValueError("a mixture needs positive throughputs and a share from 0 to 1")
