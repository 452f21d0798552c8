"""Records of Multiple Loss Ratio searches for ``results.json`` (RFC 9971)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from math import inf
from typing import Any, Literal

from v6t.analysis.record import (
    FPS,
    Figure,
    Model,
    Number,
    RatesFound,
    Record,
    Row,
    Series,
    bounded_by_tester,
    figure_of,
    head,
    rates_found,
)
from v6t.procedures.mlrsearch import MlrResult
from v6t.procedures.search import mlr
from v6t.procedures.search.goals import Goal, GoalResult

CONTROLLER = f"{mlr.LIBRARY} {mlr.VERSION}"


class GoalAttributes(Model):
    """A search goal with all its attributes (RFC 9971 section 4.6)."""

    name: str
    """of the goal"""
    code: str
    """final trial, duration sum, loss and exceed ratio in a word, as in the RFC: `60f120d0l50e`"""
    loss_ratio: Number
    """goal loss ratio: trials that lose a larger share are high-loss trials"""
    exceed_ratio: Number
    """goal exceed ratio: share of the duration sum that high-loss trials may take at a lower bound"""
    width: Number
    """goal width, a relative difference: (upper - lower) / upper of the relevant bounds"""
    initial_trial_s: Number
    """goal initial trial duration [s]"""
    final_trial_s: Number
    """goal final trial duration [s]"""
    duration_sum_s: Number
    """goal duration sum [s]"""
    preceding_targets: int
    """coarser targets before the goal's own: of the library, the RFC has none"""
    expansion_coefficient: int
    """by which the library widens its steps: the RFC has none"""
    like_rfc2544: Literal["unconditionally", "conditionally", "not"]
    """how far the result complies with RFC 2544 section 24 (RFC 9971 section 4.10.2)"""


class GoalFigures(Model):
    """What the repetitions found for a goal; rates per direction [frames per second]."""

    goal: GoalAttributes
    """whose"""
    upper_bounds: Figure
    """relevant upper bounds; null: no load is one"""
    conditional_throughput: Figure
    """forwarding rate to be expected at the lower bound (RFC 9971 appendix B); 0: no load is one"""
    irregular: list[str]
    """of each repetition why its result is irregular (RFC 9971 section 4.8.4.2); empty: it is
    regular"""

    @property
    def marked(self) -> int:
        """Repetitions whose result is irregular."""
        return sum(bool(why) for why in self.irregular)


class GoalFound(RatesFound, GoalFigures):
    """One goal's result: `rates` are the relevant lower bounds, 0 where no load is one."""


class MlrRecord(Record):
    """Several search goals at one point, a result for each, from the same trials."""

    unit: Literal["frames per second"]
    """of the rates"""
    convention: Literal["per_direction"]
    """loads are those of one interface, so is everything in their unit; both directions carry twice
    as much"""
    controller: str
    """what chose the trials; its version is fixed"""
    min_load: Number
    """smallest load [frames per second per direction]"""
    max_load: Number
    """largest load [frames per second per direction]"""
    max_load_reason: str
    """`media` or `tester`"""
    goals: list[GoalFound]
    """the goals' results, in the order of the goals"""
    residual_wait_s: Number
    """wait for late frames (RFC 2544 section 23) [s]"""
    pause_s: Number
    """pause before full-length trials (RFC 2544 section 23) [s]"""
    sending_time_tolerance: Number
    """longest sending time of a valid trial, as a multiple of its length"""

    @property
    def limited(self) -> bool:
        return any(figures.limited for figures in self.goals)

    @property
    def odd(self) -> Sequence[str]:
        return [f"{figures.goal.name}: {note}" for figures in self.goals for note in figures.notes]

    def series(self) -> Iterator[tuple[str, Series, str]]:
        for figures in self.goals:
            yield f"{figures.goal.name} ", figures, "fps"
            yield f"{figures.goal.name} conditional ", figures.conditional_throughput, "fps"


def goal_figures(results: Sequence[GoalResult]) -> dict[str, Any]:
    """Of one goal, by the fields of :class:`GoalFigures`; undefined is what is infinite."""
    return {
        "goal": attributes(results[0].goal),
        "upper_bounds": figure_of(
            [inf if r.upper_fps is None else r.upper_fps for r in results], "fps"
        ),
        "conditional_throughput": figure_of([r.conditional_fps or 0.0 for r in results], "fps"),
        "irregular": [r.irregular for r in results],
    }


def attributes(goal: Goal) -> GoalAttributes:
    """All that was applied (RFC 9971 section 4.9.3)."""
    return GoalAttributes(**asdict(goal), code=goal.code, like_rfc2544=goal.like_rfc2544)


def mlr_record(
    result: MlrResult,
    *,
    capacity_fps: float | None,
    selftest_margin: float,
    conditions: Mapping[str, Any],
) -> MlrRecord:
    """The record of one point.

    Args:
        result: the repetitions.
        capacity_fps: the tester's own lossless rate per direction, None if unknown.
        selftest_margin: results above ``(1 - margin)`` of it are flagged (SELF-02).
        conditions: what else the reader must know.
    """
    spec, at = result.spec, result.spec.conditions
    attempts = [a for r in result.repetitions for a in r.attempts]
    limit = None if capacity_fps is None else capacity_fps * (1 - selftest_margin)
    return MlrRecord(
        **head(at, spec.benchmark, "MLRsearch (RFC 9971)", attempts, conditions),
        unit=FPS,
        repetitions=len(result.repetitions),
        controller=CONTROLLER,
        min_load=spec.min_load_fps,
        max_load=spec.max_load_fps,
        max_load_reason=spec.max_load_reason,
        goals=[
            _goal_figures(result, place, limit, capacity_fps) for place, _ in enumerate(spec.goals)
        ],
        residual_wait_s=at.residual_wait_s,
        pause_s=at.pause_s,
        sending_time_tolerance=at.sending_time_tolerance,
    )


def _goal_figures(
    result: MlrResult, place: int, limit_fps: float | None, capacity_fps: float | None
) -> GoalFound:
    spec = result.spec
    results = [r.results[place] for r in result.repetitions]
    rates = rates_found([r.rate_fps for r in results], "fps")
    return GoalFound(
        **rates,
        **goal_figures(results),
        tester_limited=(limit_fps is not None and rates["median"] > limit_fps)
        or any(
            bounded_by_tester(r.results[place].rate_fps, r.attempts) for r in result.repetitions
        ),
        tester_ceiling=capacity_fps,
        upper_bound=spec.max_load_fps,
        upper_bound_reason=spec.max_load_reason,
        upper_bound_hit=any(r.upper_fps is None and r.lower_fps is not None for r in results),
    )


def mlr_rows(result: MlrResult, started: Callable[[str], str]) -> list[Row]:
    """One row per repetition and goal; rates per direction."""
    at = result.spec.conditions
    return [
        {
            "No": r.number,
            "Size": at.size_label,
            "Dir": at.mode[0],
            "Goal": result.goal.name,
            "Code": result.goal.code,
            "Date": started(r.attempts[0].trial.key),
            "Iterations": len(r.attempts),
            "lower bound": result.lower_fps,
            "upper bound": result.upper_fps,
            "conditional throughput": result.conditional_fps,
            "regular": not result.irregular,
            "irregular": result.irregular,
        }
        for r in result.repetitions
        for result in r.results
    ]
