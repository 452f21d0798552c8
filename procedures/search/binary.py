"""Binary search for the highest rate that passes (RFC 2544 section 26.1; TP-02 to TP-05).

The search works on the interval from 0 to an upper bound. It offers the upper bound first: a
device that carries it is reported with exactly that rate. Then it halves the interval until it is
no wider than the resolution, which takes ``ceil(log2(upper / resolution))`` steps, and reports
the highest rate that *passed*, never the last one tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from v6t.procedures.search.goals import GoalResult
from v6t.procedures.validity import Verdict

TryRate = Callable[[float, str], Verdict]
"""Offers a rate [fps]; the second argument names the step within the search."""


@dataclass(frozen=True)
class Step:
    """One rate that was tried, with the bracket it left."""

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
        hit_upper_bound: the upper bound itself passed: the device may do more (TP-05).
        steps: all rates in the order they were tried.
        goal: the result as RFC 9971 has it, where the search was MLRsearch.
    """

    rate_fps: float
    first_failed_fps: float | None
    hit_upper_bound: bool
    steps: tuple[Step, ...]
    goal: GoalResult | None = None


def halvings(upper_fps: float, resolution_fps: float) -> int:
    """Halving steps until the interval from 0 is no wider than the resolution."""
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
    on_step: Callable[[Step], None] | None = None,
    below: int = 0,
) -> SearchResult:
    """Find the highest passing rate.

    Args:
        try_rate: runs a trial (with retries, if the caller wants them) and judges it.
        upper_fps: highest rate that makes sense [fps].
        resolution_fps: stop when the interval is this narrow [fps].
        on_step: told of every step.
        below: so many steps more where nothing passed, to a quarter of what then does: for
            devices that are much slower than whoever measures them.

    Raises:
        ValueError: a bound or resolution that is not positive.
    """
    if upper_fps <= 0 or resolution_fps <= 0:
        raise ValueError("upper bound and resolution must be positive")
    steps: list[Step] = []

    def note(name: str, rate: float, verdict: Verdict, low: float, high: float) -> None:
        steps.append(Step(name, rate, verdict, low, high))
        if on_step is not None:
            on_step(steps[-1])

    verdict = try_rate(upper_fps, "s00")
    if verdict.passed:
        note("s00", upper_fps, verdict, upper_fps, upper_fps)
        return SearchResult(upper_fps, None, True, tuple(steps))
    low, high = 0.0, upper_fps
    note("s00", upper_fps, verdict, low, high)
    usual = halvings(upper_fps, resolution_fps)
    for number in range(1, usual + below + 1):
        enough = number == usual + 1 or high - low <= high / 4
        if number > usual and low and enough:
            break
        rate = (low + high) / 2
        name = f"s{number:02d}"
        verdict = try_rate(rate, name)
        if verdict.passed:
            low = rate
        else:
            high = rate
        note(name, rate, verdict, low, high)
    return SearchResult(low, high, False, tuple(steps))
