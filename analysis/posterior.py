"""Bayesian inference of the critical load from loss counts, over two shapes of the loss function."""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from v6t.trials.load_estimate import LoadEstimate, ShapeLoadEstimate, TrialLoss

F64 = NDArray[np.float64]

SAMPLE_COUNT = 500  # points at which each round computes the posterior
MIN_EFFECTIVE_SHARE = 0.3  # least effective sample size of a round, as a share of the points
VARIANCE_FACTOR = 2.0  # variance of the next points over that of the posterior, to cover its edges
FULL_LIKELIHOOD_ROUNDS = 2  # rounds at full likelihood before the search ends
MAX_ROUNDS = 80  # rounds of importance sampling
BISECTION_STEPS = 36  # steps of the bisection; they narrow the load to a part in 10^9
INTERVAL_COVERAGE = 0.95  # probability that the interval holds the critical load


def _compute_log_softplus(z: F64) -> F64:
    """Compute ``log(log(1 + e^z))`` without overflow for large and small z."""
    middle = np.log(np.log1p(np.exp(np.clip(z, -30.0, 30.0))))
    return np.where(z < -30, z, np.where(z > 30, np.log(np.maximum(z, 1.0)), middle))


def compute_log_stretch(load: F64, m: F64, a: F64) -> F64:
    """Return the logarithm of the loss rate whose derivative is a logistic function of the load."""
    x, c = load / a, m / a
    grown = x + np.log(-np.expm1(-x))  # log(e^x - 1)
    return np.log(a) + np.log1p(np.exp(-c)) + _compute_log_softplus(grown - np.logaddexp(0.0, c))


_TABLE_START, _TABLE_END, _TABLE_STEP = -6.0, 6.0, 1 / 400
_TABLE_POINTS = np.linspace(_TABLE_START, _TABLE_END, 4801)  # arguments of both tables
_ERFC_TABLE = np.array([math.erfc(t) for t in _TABLE_POINTS])  # values of erfc
_SERIES_LIMIT = 4.0  # largest argument of the closed form; beyond it, its terms cancel
# logarithms of the integral of erfc
_LOG_G_TABLE = np.log(
    [
        math.exp(-t * t) / math.sqrt(math.pi) - t * math.erfc(t)
        for t in _TABLE_POINTS[_TABLE_POINTS <= _SERIES_LIMIT]
    ]
)


def _interpolate(table: F64, t: F64) -> F64:
    """Interpolate a table of values at ``_TABLE_POINTS`` linearly."""
    position = np.clip((t - _TABLE_START) / _TABLE_STEP, 0.0, len(table) - 1.000001)
    index = position.astype(np.intp)
    value = table[index]
    value += (position - index) * (table[index + 1] - value)
    return value


def _compute_log_g(t: F64) -> F64:
    """Compute the logarithm of the integral of erfc, ``e^(-t^2) / sqrt(pi) - t erfc(t)``."""
    values = _interpolate(_LOG_G_TABLE, t)
    if (low := t < _TABLE_START).any():
        values[low] = np.log(-2 * t[low])
    if (high := t > _SERIES_LIMIT).any():
        squared = t[high] ** 2
        values[high] = (
            -squared
            - np.log(2 * math.sqrt(math.pi) * squared)
            + np.log1p(((-13.125 / squared + 3.75) / squared - 1.5) / squared)
        )
    return values


def compute_log_erf(load: F64, m: F64, a: F64) -> F64:
    """Return the logarithm of the loss rate whose second derivative is a Gaussian function."""
    upper, lower = _compute_log_g((m - load) / a), _compute_log_g(m / a)
    apart = np.minimum(lower - upper, -1e-15)
    area = 2.0 - _interpolate(_ERFC_TABLE, m / a)
    rate: F64 = np.log(a) + upper + np.log(-np.expm1(apart)) - np.log(area)
    return rate


# function of loads and the parameters m and a that returns logarithms of loss rates
Shape = Callable[["F64", "F64", "F64"], "F64"]
# shapes of the loss function by name
SHAPES: tuple[tuple[str, Shape], ...] = (("stretch", compute_log_stretch), ("erf", compute_log_erf))


class CriticalLoadInference:
    """Estimator of the critical load; each estimate begins near the previous posterior."""

    def __init__(self) -> None:
        self._near: dict[str, tuple[F64, F64]] = {}

    def __call__(self, trials: Sequence[TrialLoss], target: float, most_fps: float) -> LoadEstimate:
        """Estimate the critical load from all trials so far; ``most_fps`` is the scale of the prior."""
        loads = np.array([t.rate_fps for t in trials])
        # frames of all directions count: the time in which one direction would send as many
        spans = np.array([t.frames / t.rate_fps for t in trials])
        lost = np.array([t.lost for t in trials], dtype=float)
        estimates, values, weights = [], [], []
        for name, shape in SHAPES:
            near = self._near.get(name, (np.zeros(2), 4.0 * np.eye(2)))

            def log_likelihood(m: F64, a: F64, shape: Shape = shape) -> F64:
                rate = np.maximum(shape(loads[None, :], m[:, None], a[:, None]), -600.0)
                total = (lost * rate - spans * np.exp(rate)).sum(axis=1)
                return np.where(np.isfinite(total), total, -1e300)

            m, a, weight, self._near[name] = _sample_posterior(log_likelihood, most_fps, near)
            critical = _find_critical_loads(shape, m, a, target)
            mean = float(critical @ weight)
            deviation = math.sqrt((critical - mean) ** 2 @ weight)
            estimates.append(ShapeLoadEstimate(name, _round(mean), _round(deviation)))
            values.append(critical)
            weights.append(weight / len(SHAPES))
        return _pool_shapes(tuple(estimates), np.concatenate(values), np.concatenate(weights))


def _pool_shapes(shapes: tuple[ShapeLoadEstimate, ...], loads: F64, weights: F64) -> LoadEstimate:
    """Combine the weighted critical loads of all shapes into a mean with its interval."""
    mean = float(loads @ weights)
    by_size = np.argsort(loads, kind="stable")
    cumulative = np.cumsum(weights[by_size])
    tail = (1 - INTERVAL_COVERAGE) / 2
    low, high = (
        float(loads[by_size[min(len(loads) - 1, int(np.searchsorted(cumulative, p)))]])
        for p in (tail, 1 - tail)
    )
    deviation = math.sqrt((loads - mean) ** 2 @ weights)
    return LoadEstimate(shapes, *map(_round, (mean, deviation, low, high)))


def _round(value: float) -> float:
    """Round to five significant digits: the last digits of NumPy's results depend on the processor.

    A run that is resumed on another machine must offer the same rates again.
    """
    return float(f"{value:.5g}")


def _transform_points(points: F64, most_fps: float) -> tuple[F64, F64, F64]:
    """Return the parameters m and a at points ``(n, 2)`` of the plane, and the logarithm of their prior.

    The coordinates are logits of two uniform variables: m is 1 plus a Lomax distributed variable of scale
    ``most_fps``, and a is m raised to the power of the second variable.
    """
    p, q = (1 / (1 + np.exp(-np.clip(points[:, axis], -35, 35))) for axis in (0, 1))
    m = 1.0 + most_fps * p / (1.0 - p)
    prior = np.log(p) + np.log1p(-p) + np.log(q) + np.log1p(-q)
    return m, m**q, prior


@lru_cache(maxsize=1)
def _spread_points() -> F64:
    """Return points ``(n, 2)`` spread like a Gaussian by the Halton sequence."""
    spreads = np.empty((SAMPLE_COUNT, 2))
    quantile = NormalDist().inv_cdf
    for axis, base in enumerate((2, 3)):
        for number in range(SAMPLE_COUNT):
            value, part, rest = 0.0, 1.0 / base, number + 1
            while rest:
                rest, digit = divmod(rest, base)
                value += digit * part
                part /= base
            spreads[number, axis] = quantile(value)
    return spreads


def _sample_posterior(
    log_likelihood: Callable[[F64, F64], F64], most_fps: float, near: tuple[F64, F64]
) -> tuple[F64, F64, F64, tuple[F64, F64]]:
    """Return points (m, a) of the posterior, their weights, and mean and covariance for the next call.

    Importance sampling with points that follow the posterior; the likelihood is raised to a growing power,
    so that the points of each round stay close to it.
    """
    centre, spread = near
    power, remaining = 0.0, FULL_LIKELIHOOD_ROUNDS
    proposed = -0.5 * (_spread_points() ** 2).sum(axis=1)
    for _ in range(MAX_ROUNDS):
        points = centre + _spread_points() @ np.linalg.cholesky(spread).T
        m, a, prior = _transform_points(points, most_fps)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            log_likelihoods = log_likelihood(m, a)
        power = _find_power(prior - proposed, log_likelihoods, power)
        weight = _normalize_weights(prior - proposed + power * log_likelihoods)
        centre = weight @ points
        deviations = points - centre
        spread = VARIANCE_FACTOR * (deviations.T * weight) @ deviations + 1e-18 * np.eye(2)
        remaining -= power >= 1.0
        if not remaining:
            break
    return m, a, weight, (centre, spread)


def _normalize_weights(logarithms: F64) -> F64:
    """Return weights of sum 1 from their logarithms."""
    weight: F64 = np.exp(logarithms - logarithms.max())
    shares: F64 = weight / weight.sum()
    return shares


def _find_power(base: F64, log_likelihoods: F64, power: float) -> float:
    """Return the largest power of the likelihood that keeps the required effective sample size."""

    def has_enough(exponent: float) -> bool:
        weights = _normalize_weights(base + exponent * log_likelihoods)
        return bool(1 / (weights**2).sum() >= MIN_EFFECTIVE_SHARE * SAMPLE_COUNT)

    if has_enough(1.0):
        return 1.0
    low, high = power, 1.0
    for _ in range(30):
        middle = math.sqrt(low * high) if low else high / 1000
        low, high = (middle, high) if has_enough(middle) else (low, middle)
        if (low and high / low < 1.05) or high < 1e-12:
            break
    return max(low, power)


def _find_critical_loads(shape: Shape, m: F64, a: F64, target: float) -> F64:
    """Find the loads at which the target share of the frames is lost, by bisection."""
    low, high = np.zeros(len(m)), m / (1 - target) + 60 * a
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for _ in range(BISECTION_STEPS):
            middle = (low + high) / 2
            above = shape(middle, m, a) > math.log(target) + np.log(middle)
            low, high = np.where(above, low, middle), np.where(above, middle, high)
    return (low + high) / 2
