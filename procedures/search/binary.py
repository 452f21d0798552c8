"""Binary search for the highest rate that passes (RFC 2544 section 26.1)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from v6t.procedures.search.goals import GoalResult
from v6t.trials.verdict import Verdict

NEAR, ROUGH = 1 / 8, 1 / 2
"""Shares of the rate that failed: a bracket that is wider says little of a slow device. Rough is enough for
a rate that is a means and no result."""
FLOOR_DIVISOR = 8
"""Halvings below the resolution, at most, until something passes."""

TryRate = Callable[[float, str], Verdict]
"""Offers a rate [fps]; the second argument names the step within the search."""


@dataclass(frozen=True)
class SearchStep:
    """A rate that was tried, and the bracket after it."""

    name: str
    rate_fps: float
    verdict: Verdict
    low_fps: float
    high_fps: float


@dataclass(frozen=True)
class SearchResult:
    """Outcome of one search.

    Attributes:
        rate_fps: highest rate that passed; 0.0 if none did.
        first_failed_fps: lowest rate that failed above it, or None at the upper bound.
        hit_upper_bound: the upper bound itself passed: the device may do more.
        steps: all rates in the order they were tried.
        goal: the result as RFC 9971 has it, where the search was MLRsearch.
    """

    rate_fps: float
    first_failed_fps: float | None
    hit_upper_bound: bool
    steps: tuple[SearchStep, ...]
    goal: GoalResult | None = None

    def compute_error_fps(self, resolution_fps: float) -> float:
        """Return the error of the search, for a resolution [fps]."""
        if self.first_failed_fps is None:
            return resolution_fps
        if not self.rate_fps:
            return self.first_failed_fps
        return find_widest_bracket(resolution_fps, self.first_failed_fps)


def find_widest_bracket(resolution_fps: float, failed_fps: float, share: float = NEAR) -> float:
    """Return the widest bracket that ends a search with a passing rate [fps].

    The resolution, or a share of the rate that failed where that is less: resolutions follow from a
    tester's or a medium's rate, and a device may be a thousand times slower.

    Args:
        resolution_fps: what was asked for [fps].
        failed_fps: upper end of the bracket [fps].
    """
    return min(resolution_fps, failed_fps * share)


def find_lowest_rate(resolution_fps: float) -> float:
    """Return the failing rate at which a search without a passing rate ends [fps]."""
    return resolution_fps / 2**FLOOR_DIVISOR


def count_halvings(upper_fps: float, resolution_fps: float) -> int:
    """Count the halvings until the interval from 0 is as narrow as the resolution."""
    steps = max(0, math.ceil(math.log2(upper_fps / resolution_fps)))
    # the logarithm rounds: decide at its edge by the widths themselves
    if steps and upper_fps / 2 ** (steps - 1) <= resolution_fps:
        steps -= 1
    elif upper_fps / 2**steps > resolution_fps:
        steps += 1
    return steps


def binary_search(
    try_rate: TryRate,
    *,
    upper_fps: float,
    resolution_fps: float,
    on_step: Callable[[SearchStep], None] | None = None,
    share: float = NEAR,
    floor_fps: float = 0.0,
) -> SearchResult:
    """Find the highest passing rate.

    Args:
        try_rate: runs a trial (with retries, if the caller wants them) and judges it.
        upper_fps: highest rate that makes sense [fps].
        resolution_fps: stop when the interval is this narrow [fps], or as :func:`widest_fps` has it.
        share: of the rate that failed; see there.
        floor_fps: the search ends when the rate is known to be below this, where the device failed a
            trial: where only the tester did, lower rates have to tell.

    Raises:
        ValueError: a bound or resolution that is not positive.
    """
    if upper_fps <= 0 or resolution_fps <= 0:
        raise ValueError("upper bound and resolution must be positive")
    steps: list[SearchStep] = []

    def add_step(name: str, rate: float, verdict: Verdict, low: float, high: float) -> None:
        steps.append(SearchStep(name, rate, verdict, low, high))
        if on_step is not None:
            on_step(steps[-1])

    verdict = try_rate(upper_fps, "s00")
    if verdict.passed:
        add_step("s00", upper_fps, verdict, upper_fps, upper_fps)
        return SearchResult(upper_fps, None, True, tuple(steps))
    low, high = 0.0, upper_fps
    add_step("s00", upper_fps, verdict, low, high)
    usual = count_halvings(upper_fps, resolution_fps)
    for number in count(1):
        if number > usual and is_narrow_enough(low, high, resolution_fps, share):
            break
        ended = high <= floor_fps or number > usual
        if ended and low < floor_fps and any(s.verdict.device_failed for s in steps):
            break
        rate = (low + high) / 2
        name = f"s{number:02d}"
        verdict = try_rate(rate, name)
        if verdict.passed:
            low = rate
        else:
            high = rate
        add_step(name, rate, verdict, low, high)
    return SearchResult(low, high, False, tuple(steps))


def is_narrow_enough(low: float, high: float, resolution_fps: float, share: float = NEAR) -> bool:
    """Check whether the bracket between a passing and a failing rate is narrow enough.

    Args:
        low, high: its ends [fps]; 0: nothing passed.
        resolution_fps, share: as of :func:`widest_fps`.
    """
    if not low:
        return high <= find_lowest_rate(resolution_fps)
    # halving rounds: what is as wide as it may be is no wider
    return high - low <= find_widest_bracket(resolution_fps, high, share) * (1 + 1e-9)
