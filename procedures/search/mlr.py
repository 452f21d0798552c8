"""Multiple Loss Ratio search (draft-ietf-bmwg-mlrsearch) through its own library (TP-07).

The library is FD.io CSIT's ``MLRsearch`` from PyPI, an optional extra. One goal is searched for:
loss ratio 0, exceed ratio 0, final trials and duration sum of the full duration, which the draft
calls unconditionally compliant with RFC 2544 section 24. What is reported is the relevant lower
bound, a rate that passed a full trial.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

from v6t.procedures.search.binary import SearchResult, Step
from v6t.procedures.validity import Verdict

LIBRARY = "MLRsearch"
LABEL = (
    "MLRsearch relevant lower bound; goal: loss ratio 0, exceed ratio 0, "
    "duration sum one full trial (draft-ietf-bmwg-mlrsearch)"
)

TryFor = Callable[[float, float, str], Verdict]


def available() -> bool:
    """Whether the library is installed."""
    return importlib.util.find_spec(LIBRARY) is not None


def mlr_search(
    try_for: TryFor,
    *,
    upper_fps: float,
    resolution_fps: float,
    duration_s: float,
    on_step: Callable[[Step], None] | None = None,
) -> SearchResult:
    """Search with the library.

    Args:
        try_for: runs a trial at a rate for a share of the full duration and judges it.
        upper_fps: highest rate that makes sense [fps].
        resolution_fps: error [fps]; the library narrows to this share of ``upper_fps``, so the
            error is no larger anywhere.
        duration_s: length of a full trial [s]; short ones are a thirtieth, at least.
        on_step: told of every step.

    Raises:
        ValueError: a bound or resolution that is not positive.
    """
    if upper_fps <= 0 or resolution_fps <= 0:
        raise ValueError("upper bound and resolution must be positive")
    library = importlib.import_module(LIBRARY)
    config = library.Config()
    goal = library.SearchGoal(
        loss_ratio=0.0,
        exceed_ratio=0.0,
        relative_width=min(0.5, resolution_fps / upper_fps),
        initial_trial_duration=duration_s / 30,
        final_trial_duration=duration_s,
        duration_sum=duration_s,
        preceding_targets=2,
        expansion_coefficient=2,
        fail_fast=False,
    )
    config.goals = [goal]
    # limits are set in an order that keeps the smallest load below the largest
    config.min_load = min(resolution_fps, upper_fps / 2)
    config.max_load = upper_fps
    # the library watches a real clock; the length of a search is bounded by its steps instead
    config.search_duration_max = 1e9
    config.warmup_duration = None
    measurer = _measurer(library, try_for, upper_fps, duration_s, on_step)
    results = library.MultipleLossRatioSearch(config=config).search(measurer)
    result = results[goal]
    low, high = result.relevant_lower_bound, result.relevant_upper_bound
    return SearchResult(
        rate_fps=float(low) if low else 0.0,
        first_failed_fps=float(high) if high else None,
        hit_upper_bound=high is None,
        steps=tuple(measurer.steps),
    )


def _measurer(
    library: Any,
    try_for: TryFor,
    upper_fps: float,
    duration_s: float,
    on_step: Callable[[Step], None] | None,
) -> Any:
    base: Any = library.AbstractMeasurer

    class Measurer(base):  # type: ignore[misc]
        """The library's call, answered by ours."""

        def __init__(self) -> None:
            self.steps: list[Step] = []
            self._low, self._high = 0.0, upper_fps

        def measure(self, intended_duration: float, intended_load: float) -> Any:
            name = f"s{len(self.steps):02d}"
            share = intended_duration / duration_s
            verdict = try_for(intended_load, share, name)
            if not verdict.passed:
                self._high = min(self._high, intended_load)
            elif share >= 1:
                self._low = max(self._low, intended_load)
            step = Step(name, intended_load, verdict, self._low, self._high)
            self.steps.append(step)
            if on_step is not None:
                on_step(step)
            offered = max(1, round(intended_load * intended_duration))
            lost = 0
            if not verdict.passed:
                # invalid or surplus: no loss is known, yet the trial did not pass
                lost = max(1, round(offered * max(verdict.loss.values(), default=0.0)))
            return library.MeasurementResult(
                intended_duration=intended_duration,
                intended_load=intended_load,
                offered_count=offered,
                loss_count=min(lost, offered),
            )

    return Measurer()
