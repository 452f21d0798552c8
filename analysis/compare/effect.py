"""The difference of two sets of repetitions, with a distribution-free confidence interval."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import comb
from statistics import median

CONFIDENCE = 0.95  # required coverage of intervals
MAX_REPETITIONS = 200  # repetitions of a run that are used; more would hardly change an interval


@dataclass(frozen=True)
class EffectEstimate:
    """A difference or a factor with its confidence interval, widened by the resolution of searches."""

    estimate: float
    low: float  # lower end of the interval
    high: float  # upper end of the interval
    coverage: float  # probability that the interval holds the true value

    @property
    def is_covered(self) -> bool:
        """Whether there are enough repetitions for the required coverage."""
        return self.coverage >= CONFIDENCE


def estimate_factor(
    first: Sequence[float], second: Sequence[float], resolution: tuple[float, float] = (0.0, 0.0)
) -> EffectEstimate | None:
    """Estimate the factor from ``first`` to ``second``; None if a value is zero or missing.

    Args:
        resolution: by how much a true value may lie above a measured one, in each run.
    """
    first, second = first[:MAX_REPETITIONS], second[:MAX_REPETITIONS]
    if not first or not second or min(first) <= 0 or min(second) <= 0:
        return None
    quotients = sorted(b / a for a in first for b in second)
    rank, coverage = _find_rank(len(first), len(second))
    lows = sorted(b / (a + resolution[0]) for a in first for b in second)
    highs = sorted((b + resolution[1]) / a for a in first for b in second)
    return EffectEstimate(median(quotients), lows[rank - 1], highs[-rank], coverage)


def estimate_shift(
    first: Sequence[float], second: Sequence[float], resolution: tuple[float, float] = (0.0, 0.0)
) -> EffectEstimate | None:
    """Estimate ``second`` minus ``first``, as :func:`estimate_factor` does; None without values."""
    first, second = first[:MAX_REPETITIONS], second[:MAX_REPETITIONS]
    if not first or not second:
        return None
    differences = sorted(b - a for a in first for b in second)
    rank, coverage = _find_rank(len(first), len(second))
    low, high = differences[rank - 1] - resolution[0], differences[-rank] + resolution[1]
    return EffectEstimate(median(differences), low, high, coverage)


@cache
def count_needed_repetitions() -> int:
    """Return the number of repetitions that two runs need for an interval of 95 % coverage."""
    return next(n for n in range(1, MAX_REPETITIONS) if _find_rank(n, n)[1] >= CONFIDENCE)


@cache
def _find_rank(m: int, n: int) -> tuple[int, float]:
    """Return the rank of the interval's ends among the differences of m and n values, and its coverage."""
    total = comb(m + n, n)
    below = 0
    rank, coverage = 0, 0.0
    for u, ways in enumerate(_count_orders(m, n)):
        reached = 1 - 2 * (below + ways) / total
        if u and reached < CONFIDENCE:
            break
        # the interval between the (u+1)-th smallest and largest difference leaves out U <= u
        rank, coverage = u + 1, reached
        if reached < CONFIDENCE:
            break
        below += ways
    return rank, max(0.0, coverage)


@cache
def _count_orders(m: int, n: int) -> tuple[int, ...]:
    """Count the orders of m and n values in which Mann and Whitney's U is 0, 1, 2 ..."""
    # coefficients of the Gaussian binomial: product of (1 - q^(n+i)) / (1 - q^i)
    size = m * n + 1
    counts = [0] * size
    counts[0] = 1
    for i in range(1, m + 1):
        for j in range(size - 1, n + i - 1, -1):
            counts[j] -= counts[j - n - i]
        for j in range(i, size):
            counts[j] += counts[j - i]
    return tuple(counts)
