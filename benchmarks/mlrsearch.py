"""Multiple Loss Ratio search: several goals in one search (RFC 9971)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from pydantic import Field
from v6t.base.errors import UsageError
from v6t.base.strict_model import StrictModel
from v6t.benchmarks.base import RFC_DURATION_S, Benchmark
from v6t.benchmarks.point import Cost, Measured, MeasurementPoint, Point, cost_of
from v6t.benchmarks.presentations.goals import MlrPresentation
from v6t.benchmarks.records.goals import MlrRecord, mlr_record, mlr_rows
from v6t.benchmarks.settings import Flag
from v6t.benchmarks.throughput import USUAL_FULL, USUAL_PROBES
from v6t.procedures.mlrsearch import MlrSpec, measure_mlrsearch
from v6t.procedures.search import mlr
from v6t.procedures.search.goals import Goal

if TYPE_CHECKING:
    from v6t.benchmarks.context import RunContext

INITIAL_SHARE = 1 / 30


class GoalSettings(StrictModel):
    """A search goal (RFC 9971 section 4.6.7)."""

    name: str = Field(min_length=1, max_length=40, pattern=r"^[^\s,/]+$")
    """Of the goal, in tables and files."""
    loss_ratio: float = Field(default=0.0, ge=0, lt=1)
    """Goal Loss Ratio: a trial that loses a larger share is a high-loss trial."""
    exceed_ratio: float = Field(default=0.0, ge=0, lt=1)
    """Goal Exceed Ratio: share of the duration sum that high-loss trials may take at a lower bound."""
    width: float = Field(default=0.005, gt=0, lt=1)
    """Goal Width: the bounds are close enough at this share of the upper one."""
    final_trial_s: float | None = Field(default=None, ge=0.001, le=86_400)
    """Goal Final Trial Duration [s]; None: ``trial_duration_s``."""
    duration_sum_s: float | None = Field(default=None, ge=0.001, le=8_640_000)
    """Goal Duration Sum [s]; None: one final trial."""
    initial_trial_s: float | None = Field(default=None, ge=0.001, le=86_400)
    """Goal Initial Trial Duration [s]; None: a thirtieth of the final one."""
    preceding_targets: int = Field(default=2, ge=1, le=20)
    """Coarser targets that the library puts before the goal's own."""
    expansion_coefficient: int = Field(default=2, ge=2, le=64)
    """By which the library widens its steps."""

    def goal(self, trial_s: float) -> Goal:
        """With everything decided; ``trial_s``: where no final trial duration is given."""
        final_s = self.final_trial_s or trial_s
        return Goal(
            name=self.name,
            loss_ratio=self.loss_ratio,
            exceed_ratio=self.exceed_ratio,
            width=self.width,
            initial_trial_s=self.initial_trial_s or max(0.001, final_s * INITIAL_SHARE),
            final_trial_s=final_s,
            duration_sum_s=self.duration_sum_s or final_s,
            preceding_targets=self.preceding_targets,
            expansion_coefficient=self.expansion_coefficient,
        )


class MlrSettings(StrictModel):
    """Multiple Loss Ratio search (RFC 9971)."""

    goals: Annotated[tuple[GoalSettings, ...], Flag("--goals")] = Field(
        default=(
            GoalSettings(name="NDR"),
            GoalSettings(name="PDR", loss_ratio=0.005),
        ),
        min_length=1,
        max_length=20,
    )
    """MLRsearch's goals, searched for together; by default NDR without loss and PDR with 0.5 %.
    ``[{name: NDR}, {name: PDR, loss_ratio: 0.005, exceed_ratio: 0.5}]``"""
    min_load_fps: float | None = Field(default=None, gt=0)
    """Min Load [fps]; None: a thousandth of the largest, a frame in the shortest trial at least."""


class MlrSearch(MlrPresentation, Benchmark[MlrRecord, MlrSettings]):
    """Bounds and conditional throughput of several goals, from one search."""

    summary = "Bounds and conditional throughput of several loss ratios in one search (RFC 9971)."
    order = 15
    searches = True
    connections = "also"
    section = "mlrsearch"
    model = MlrSettings
    # in shorter trials one hiccup of a shared machine is longer than what sending may take
    quick = MlrSettings(
        goals=(
            GoalSettings(name="NDR", initial_trial_s=0.25),
            GoalSettings(name="PDR", loss_ratio=0.005, initial_trial_s=0.25),
        )
    )

    def lacks(self) -> tuple[str, str] | None:
        """The library."""
        if mlr.available():
            return None
        return f"{self.name} needs {mlr.describe_requirement()}", "pip install 'v6t[mlrsearch]'"

    def goals(self, bound: RunContext) -> tuple[Goal, ...]:
        """With everything decided."""
        trial_s = bound.settings.procedure.trial_duration_s
        return tuple(goal.goal(trial_s) for goal in self.own(bound).goals)

    def check(self, bound: RunContext) -> None:
        """Refuse durations in the wrong order, and goals that nobody can tell apart."""
        goals = self.goals(bound)
        if len({goal.name for goal in goals}) < len(goals):
            raise UsageError("two of mlrsearch.goals have the same name", code="duplicate")
        for goal in goals:
            if not goal.initial_trial_s <= goal.final_trial_s <= goal.duration_sum_s:
                raise UsageError(
                    f"goal {goal.name}: initial trials of {goal.initial_trial_s:g} s, final ones of "
                    f"{goal.final_trial_s:g} s, duration sum {goal.duration_sum_s:g} s",
                    "none may be longer than the next",
                    code="conflict",
                )

    def caveats(self, bound: RunContext) -> Iterator[str]:
        """What the goals are, and what their results are not."""
        for goal in self.goals(bound):
            like = {
                "unconditionally": "RFC 2544 throughput (RFC 9971 section 4.10.2)",
                "conditionally": f"RFC 2544 throughput but for trials below {RFC_DURATION_S:g} s",
                "not": "no RFC 2544 throughput",
            }[goal.like_rfc2544]
            yield (
                f"MLRsearch goal {goal.name} ({goal.code}): loss ratio {goal.loss_ratio:.4g}, exceed "
                f"ratio {goal.exceed_ratio:.4g}, final trials of {goal.final_trial_s:g} s, duration "
                f"sum {goal.duration_sum_s:g} s, width {goal.width:.4g}; {like}"
            )

    def cautions(self, bound: RunContext) -> Iterator[str]:
        """What RFC 9971 does not recommend."""
        goals = self.goals(bound)
        if len({goal.final_trial_s for goal in goals}) > 1:
            yield (
                "the MLRsearch goals have different final trial durations, which weakens the "
                "classification of loads (RFC 9971 section 4.6.1)"
            )
        for goal in goals:
            if goal.width < goal.loss_ratio:
                yield (
                    f"MLRsearch goal {goal.name}: a width below the loss ratio is not recommended "
                    "(RFC 9971 section 4.6.5)"
                )

    def cost(self, point: Point) -> Cost:
        """What a search for each goal usually needs; later goals use the trials of the first ones."""
        spec = self._spec(point)
        each = Cost(0, 0.0)
        for goal in spec.goals:
            each += cost_of(spec.conditions, USUAL_PROBES, goal.initial_trial_s * 2)
            at_bound = math.ceil(goal.duration_sum_s / goal.final_trial_s)
            each += cost_of(spec.conditions, USUAL_FULL * at_bound, goal.final_trial_s)
        return each * spec.repetitions

    def run(self, point: MeasurementPoint) -> Measured:
        """Search, as often as asked."""
        result = measure_mlrsearch(self._spec(point), point.measure, point.watch)
        record = mlr_record(
            result,
            capacity_fps=point.tester_capacity.rate_fps,
            selftest_margin=point.procedure.selftest_margin,
            conditions=point.said,
        )
        return Measured(record, mlr_rows(result, lambda key: point.find(key).started))

    def _spec(self, point: Point) -> MlrSpec:
        goals, max_load = self.goals(point.bound), point.limit_fps
        shortest_s = min(goal.initial_trial_s for goal in goals)
        least = self.own(point.bound).min_load_fps or max(max_load / 1000, 1 / shortest_s)
        return MlrSpec(
            conditions=point.conditions(loss_tolerance=0.0, search_limit_fps=max_load),
            goals=goals,
            min_load_fps=min(least, max_load / 2),
            max_load_fps=max_load,
            max_load_reason=point.limit_reason,
            repetitions=point.procedure.repetitions,
        )
