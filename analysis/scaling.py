"""Formulas for scale-up, degradation and mixtures (RFC 8219 section 10 and papers)."""

from collections.abc import Mapping
from typing import Any

S_CPU_FORMULA = "S_CPU(n) = P(n) / (n * P(1))"  # efficiency of n cores
S_C_FORMULA = "S_C(n, n0) = P(n) / P(n0)"  # scale-up from n0 to n connections, CEs or rules
# degradation with n flows (RFC 8219 section 10.2.1) where higher values are better
XPD_FORMULA = "Xpd = (X1 - Xn) / X1 * 100 %"
XPD_LOWER_FORMULA = "Xpd = (Xn - X1) / X1 * 100 %"  # lower values are better
# throughput of a mixture with the translated share a: on several cores, and on one core
MIN_THROUGHPUT_FORMULA = "T(a) = min(Tt / a, Tn / (1 - a))"
HARMONIC_THROUGHPUT_FORMULA = "T(a) = 1 / (a / Tt + (1 - a) / Tn)"


def count_cores(value: Any) -> int | None:
    """Return the number of cores in an option: a number, or a list such as ``"1-4,6"``; else None."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return value or None
    parts = [part.partition("-") for part in str(value).split(",")]
    if not all(low.isdigit() and (high.isdigit() or not dash) for low, dash, high in parts):
        return None
    return sum(int(high or low) - int(low) + 1 for low, _, high in parts)


def compute_scaling(
    performance: Mapping[float, float], *, per_core: bool = False
) -> dict[float, float]:
    """Return the performance relative to that of the smallest number, sorted by number.

    Args:
        performance: performance by the number of connections, CEs, rules or cores.
        per_core: whether to return the efficiency by :data:`S_CPU_FORMULA`, where 1 is perfect,
            instead of the scale-up by :data:`S_C_FORMULA`.

    Raises:
        ValueError: there is no positive result for the smallest number, or for one core.
    """
    base = performance.get(1 if per_core else min(performance, default=0), 0.0)
    if base <= 0:
        raise ValueError("scale-up needs a positive result for the smallest number")
    return {n: p / (base * (n if per_core else 1)) for n, p in sorted(performance.items())}


def compute_degradation(with_n: float, with_one: float, *, more_is_better: bool = True) -> float:
    """Compute the degradation, positive if worse (:data:`XPD_FORMULA`, :data:`XPD_LOWER_FORMULA`).

    Raises:
        ValueError: ``with_one`` is 0, or not positive where more is better. The smallest IPDV is
            negative and worse the farther from 0, so that the formula applies unchanged.
    """
    if with_one == 0 or (more_is_better and with_one < 0):
        raise ValueError("degradation needs a positive result with one flow")
    worse = with_one - with_n if more_is_better else with_n - with_one
    return worse / with_one * 100


def predict_minimum(translated: float, native: float, share: float) -> float:
    """Predict the throughput of a mixture on several cores by :data:`MIN_THROUGHPUT_FORMULA`."""
    _check_mixture(translated, native, share)
    limits = ([translated / share] if share else []) + ([native / (1 - share)] if share < 1 else [])
    return min(limits)


def predict_harmonic(translated: float, native: float, share: float) -> float:
    """Predict the throughput of a mixture on one core by :data:`HARMONIC_THROUGHPUT_FORMULA`."""
    _check_mixture(translated, native, share)
    return 1 / (share / translated + (1 - share) / native)


def compute_residual(measured: float, predicted: float) -> float:
    """Return by how much a measurement exceeds a prediction [%]."""
    if predicted <= 0:
        raise ValueError("a residual needs a positive prediction")
    return (measured - predicted) / predicted * 100


def _check_mixture(translated: float, native: float, share: float) -> None:
    """Raise ValueError unless both throughputs are positive and the share is from 0 to 1."""
    if translated <= 0 or native <= 0 or not 0 <= share <= 1:
        raise ValueError("a mixture needs positive throughputs and a share from 0 to 1")
