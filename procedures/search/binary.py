"""Binary search for the highest rate that passes (RFC 2544 section 26.1)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from v6t.procedures.search.goals import GoalResult
from v6t.trials.verdict import Verdict

FINE_SHARE = 1 / 8  # widest final bracket of a result, as a share of the rate that failed
ROUGH_SHARE = 1 / 2  # wide enough where the rate itself is not a result
FLOOR_HALVINGS = 8  # largest number of halvings below the resolution until a rate passes

TryRate = Callable[[float, str], Verdict]  # offers a rate [fps] in a step of the search


@dataclass(frozen=True)
class SearchStep:
    """Trial of a rate, and the bracket of the search after it."""

    name: str  # name of the step, in trial keys
    rate_fps: float
    verdict: Verdict
    low_fps: float  # highest rate that passed so far
    high_fps: float  # lowest rate that failed so far


@dataclass(frozen=True)
class SearchResult:
    """Outcome of one search."""

    rate_fps: float  # highest rate that passed; 0.0 if none did
    first_failed_fps: float | None  # lowest rate that failed above it; None: the upper bound passed
    hit_upper_bound: bool  # the upper bound passed, so the device may forward more
    steps: tuple[SearchStep, ...]  # in the order of the trials
    goal: GoalResult | None = None  # result by RFC 9971, if the search was MLRsearch

    def compute_error_fps(self, resolution_fps: float) -> float:
        """Return the error of the search, for a resolution [fps]."""
        if self.first_failed_fps is None:
            return resolution_fps
        if not self.rate_fps:
            return self.first_failed_fps
        return find_widest_bracket(resolution_fps, self.first_failed_fps)


def find_widest_bracket(
    resolution_fps: float, failed_fps: float, share: float = FINE_SHARE
) -> float:
    """Return the widest bracket that ends a search with a passing rate [fps].

    It is the resolution, or a share of the rate that failed if that is less, since a device may be a
    thousand times slower than the tester.

    Args:
        resolution_fps: requested error [fps].
        failed_fps: upper end of the bracket [fps].
    """
    return min(resolution_fps, failed_fps * share)


def find_lowest_rate(resolution_fps: float) -> float:
    """Return the failing rate at which a search without a passing rate ends [fps]."""
    return resolution_fps / 2**FLOOR_HALVINGS


def count_halvings(upper_fps: float, resolution_fps: float) -> int:
    """Count the halvings until the interval from 0 is as narrow as the resolution."""
    steps = max(0, math.ceil(math.log2(upper_fps / resolution_fps)))
    # the logarithm is rounded, so compare the widths themselves
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
    share: float = FINE_SHARE,
    floor_fps: float = 0.0,
) -> SearchResult:
    """Find the highest passing rate.

    Args:
        try_rate: runs a trial, possibly with retries, and judges it.
        upper_fps: highest rate to offer [fps].
        resolution_fps, share: end of the search, see :func:`find_widest_bracket`.
        floor_fps: the search ends below this rate if the device failed a trial.

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


def is_narrow_enough(
    low: float, high: float, resolution_fps: float, share: float = FINE_SHARE
) -> bool:
    """Check whether the bracket between a passing and a failing rate is narrow enough.

    Args:
        low, high: ends of the bracket [fps]; 0: nothing passed.
        resolution_fps, share: see :func:`find_widest_bracket`.
    """
    if not low:
        return high <= find_lowest_rate(resolution_fps)
    # halving is rounded
    return high - low <= find_widest_bracket(resolution_fps, high, share) * (1 + 1e-9)
