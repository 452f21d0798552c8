"""Multiple Loss Ratio search: several goals in one search (RFC 9971)."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PositiveFloat
from v6t.analysis.presentation import Card, Quantity, Ruling, TableRow, judge
from v6t.analysis.record import (
    Number,
    Record,
    RecordModel,
    RepeatedFigure,
    RepetitionSeries,
    SearchedRates,
    summarize_rates,
)
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import Column, format_count, mark_limited
from v6t.base.errors import UsageError
from v6t.base.strict_model import StrictModel
from v6t.benchmarks import common
from v6t.benchmarks.base import Benchmark
from v6t.benchmarks.point import Measurement, Point, RunContext
from v6t.benchmarks.settings import Flag, TrialLength
from v6t.procedures.mlrsearch import MlrResult, MlrSpec, measure_mlrsearch
from v6t.procedures.search import mlr
from v6t.procedures.search.goals import Goal, GoalResult

_COMPLIANCE_TEXTS = {
    "unconditionally": "unconditionally compliant with RFC 2544 section 24: its throughput",
    "conditionally": "conditionally compliant with RFC 2544: its throughput but for shorter trials",
    "not": "MLRsearch, no throughput of RFC 2544 or RFC 8219",
}

SEARCH_LIBRARY = f"{mlr.LIBRARY_NAME} {mlr.SUPPORTED_VERSION}"
INITIAL_TRIAL_SHARE = 1 / 30  # default ratio of initial to final trial duration


class GoalSettings(StrictModel):
    """Settings of a search goal (RFC 9971 section 4.6.7)."""

    name: str = Field(min_length=1, max_length=40, pattern=r"^[^\s,/]+$")
    """Name of the goal in tables and files."""
    loss_ratio: float = Field(default=0.0, ge=0, lt=1)
    """Goal Loss Ratio: a trial that loses a larger share is a high-loss trial."""
    exceed_ratio: float = Field(default=0.0, ge=0, lt=1)
    """Goal Exceed Ratio: share of the duration sum that high-loss trials may take at a lower bound."""
    width: float = Field(default=0.005, gt=0, lt=1)
    """Goal Width: sufficient distance of the bounds, as a share of the upper one."""
    final_trial_s: TrialLength | None = None
    """Goal Final Trial Duration [s]; None: ``trial_duration_s``."""
    duration_sum_s: float | None = Field(default=None, ge=0.001, le=8_640_000)
    """Goal Duration Sum [s]; None: one final trial."""
    initial_trial_s: TrialLength | None = None
    """Goal Initial Trial Duration [s]; None: a thirtieth of the final one."""
    preceding_targets: int = Field(2, ge=1, le=20, description="Number of coarser targets.")
    expansion_coefficient: int = Field(2, ge=2, le=64, description="Factor of the library's steps.")

    def make_goal(self, default_s: float) -> Goal:
        """Make the goal, with ``default_s`` for a final trial duration that is not set."""
        final_s = self.final_trial_s or default_s
        durations: dict[str, Any] = {
            "initial_trial_s": self.initial_trial_s or max(0.001, final_s * INITIAL_TRIAL_SHARE),
            "final_trial_s": final_s,
            "duration_sum_s": self.duration_sum_s or final_s,
        }
        return Goal(**{**self.model_dump(), **durations})


class GoalAttributes(GoalSettings):
    """A search goal with all its attributes (RFC 9971 section 4.6)."""

    name: str = Field(description="name of the goal; `RFC 2544` for throughput")
    code: str = Field(description="short form of the attributes, as in the RFC: `60f120d0l50e`")
    like_rfc2544: Literal["unconditionally", "conditionally", "not"]
    """compliance of the result with RFC 2544 (RFC 9971 section 4.10.2)"""


class LoadSeries(RepeatedFigure):
    """Load found by the search, for each repetition."""

    unit_name = "fps"


class GoalBounds(RecordModel):
    """Results of a goal in all repetitions; rates per direction [frames per second]."""

    goal: GoalAttributes = Field(description="the goal's attributes")
    upper_bounds: LoadSeries = Field(description="relevant upper bounds; null: none")
    conditional_throughput: LoadSeries
    """forwarding rate to expect at the lower bound (RFC 9971 appendix B); 0: there is no lower bound"""
    irregular: list[str] = Field(description="reasons why results are irregular, each repetition")

    @property
    def irregular_count(self) -> int:
        """Number of repetitions with an irregular result."""
        return sum(bool(why) for why in self.irregular)

    @property
    def result_text(self) -> str:
        """``"regular"``, or the number of irregular repetitions as text."""
        many = self.irregular_count
        return f"IRREGULAR {many}/{len(self.irregular)}" if many else "regular"

    @property
    def regularity(self) -> str:
        """Count and reasons of irregular repetitions (RFC 9971 section 4.8.4.2)."""
        whys = "; ".join(dict.fromkeys(filter(None, self.irregular)))
        return f"IRREGULAR in {self.irregular_count} of {len(self.irregular)}: {whys}"


class GoalRates(SearchedRates, GoalBounds):
    """Results of one goal: `rates` are the relevant lower bounds, or 0 without one."""


class MlrRecord(Record):
    """Results of all search goals at one point, from the same trials."""

    heading = "MLRsearch (RFC 9971)"
    unit: Literal["frames per second"] = Field(description="unit of rates")
    convention: Literal["per_direction"] = Field(description="loads are per direction")
    controller: str = Field(description="library that chose the trials")
    min_load: Number = Field(description="smallest load [frames per second per direction]")
    max_load: Number = Field(description="largest load [frames per second per direction]")
    max_load_reason: str = Field(description="`media` or `tester`")
    goals: list[GoalRates] = Field(description="results of each goal, in order")
    residual_wait_s: Number = Field(description="wait for late frames (RFC 2544 section 23) [s]")
    pause_s: Number = Field(description="pause before full-length trials (RFC 2544 section 23) [s]")
    sending_time_tolerance: Number = Field(description="longest sending time over trial length")

    @property
    def limited(self) -> bool:
        return any(figures.limited for figures in self.goals)

    @property
    def repetition_notes(self) -> Sequence[str]:
        return [f"{figures.goal.name}: {note}" for figures in self.goals for note in figures.notes]

    def list_series(self) -> Iterator[tuple[str, RepetitionSeries, str]]:
        for figures in self.goals:
            yield f"{figures.goal.name} ", figures, "fps"
            yield f"{figures.goal.name} conditional ", figures.conditional_throughput, "fps"


def summarize_goal(results: Sequence[GoalResult]) -> dict[str, Any]:
    """Return the fields of :class:`GoalBounds` for one goal."""
    goal = results[0].goal
    return {
        "goal": {**asdict(goal), "code": goal.code, "like_rfc2544": goal.like_rfc2544},
        "upper_bounds": {"values": [r.upper_fps for r in results]},
        "conditional_throughput": {"values": [r.conditional_fps or 0.0 for r in results]},
        "irregular": [r.irregular for r in results],
    }


def _summarize_goal_rates(result: MlrResult, index: int, point: Point) -> GoalRates:
    """Return the rates and bounds of the goal with this index."""
    spec, capacity = result.spec, point.tester_capacity.rate_fps
    results = [r.results[index] for r in result.repetitions]
    rates = [(r.results[index].rate_fps, r.attempts) for r in result.repetitions]
    return GoalRates(
        **summarize_rates(rates, capacity, point.procedure.selftest_margin),
        **summarize_goal(results),
        upper_bound=spec.max_load_fps,
        upper_bound_reason=spec.max_load_reason,
        upper_bound_hit=any(r.upper_fps is None and bool(r.rate_fps) for r in results),
    )


class MlrSettings(StrictModel):
    """Settings of the Multiple Loss Ratio search (RFC 9971)."""

    goals: Annotated[tuple[GoalSettings, ...], Flag("--goals")] = Field(
        default=(GoalSettings(name="NDR"), GoalSettings(name="PDR", loss_ratio=0.005)),
        min_length=1,
        max_length=20,
    )
    """MLRsearch's goals, searched for together; by default NDR without loss and PDR with 0.5 %.
    ``[{name: NDR}, {name: PDR, loss_ratio: 0.005, exceed_ratio: 0.5}]``"""
    min_load_fps: PositiveFloat | None = None
    """Min Load [fps]; None: a thousandth of the largest, at least a frame in the shortest trial."""


def _format_conditional(line: TableRow) -> str:
    return mark_limited(format_count(line.value.conditional_throughput.median), line.value.limited)


def _format_aggregate(line: TableRow) -> str:
    conditional = line.value.conditional_throughput.median
    if line.record.direction != "bidirectional" or conditional is None:
        return "-"
    return format_count(2 * conditional)


class MlrSearch(Benchmark[MlrRecord, MlrSettings]):
    """Bounds and conditional throughput of several loss ratios in one search (RFC 9971).

    FD.io's library chooses the loads and lengths of trials. The definitions of RFC 9971 appendix A
    decide which load is a lower or upper bound of each goal.
    """

    name = "mlrsearch"
    csv_columns: ClassVar = {
        "Goal": "name of the search goal",
        "Code": "attributes of the goal (RFC 9971, section 4.6.7)",
        "Date": common.SEARCH_COLUMNS["Date"],
        "Iterations": common.SEARCH_COLUMNS["Iterations"],
        "lower bound": "relevant lower bound [frames per second per direction]",
        "upper bound": "relevant upper bound [frames per second per direction]",
        "conditional throughput": "conditional throughput [frames per second per direction]",
        "regular": "the goal result is regular",
        "irregular": "reason why the goal result is irregular; empty: it is regular",
    }
    record = MlrRecord
    order = 15
    is_search = True
    connection_use = "optional"
    settings_model = MlrSettings
    # shorter trials are often invalid on a machine that other programs use
    quick_settings = MlrSettings(
        goals=(
            GoalSettings(name="NDR", initial_trial_s=0.25),
            GoalSettings(name="PDR", loss_ratio=0.005, initial_trial_s=0.25),
        )
    )

    def find_missing_requirement(self) -> tuple[str, str] | None:
        return mlr.find_missing_library()

    def make_goals(self, context: RunContext) -> tuple[Goal, ...]:
        """Make the search goals of a run."""
        trial_s = context.settings.procedure.trial_duration_s
        return tuple(goal.make_goal(trial_s) for goal in self.get_settings(context).goals)

    def find_trial_s(self, context: RunContext) -> float:
        return min(goal.final_trial_s for goal in self.make_goals(context))

    def check(self, context: RunContext) -> None:
        goals = self.make_goals(context)
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

    def list_deviations(self, context: RunContext) -> Iterator[str]:
        for goal in self.make_goals(context):
            yield f"MLRsearch {_describe_goal(goal)}"

    def list_setting_warnings(self, context: RunContext) -> Iterator[str]:
        goals = self.make_goals(context)
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

    def run(self, point: Point) -> Measurement:
        goals, max_load = self.make_goals(point.context), point.limit_fps
        shortest_s = min(goal.initial_trial_s for goal in goals)
        configured = self.get_settings(point.context).min_load_fps
        least = configured or max(max_load / 1000, 1 / shortest_s)
        spec = MlrSpec(
            conditions=point.make_conditions(loss_tolerance=0.0, search_limit_fps=max_load),
            goals=goals,
            min_load_fps=min(least, max_load / 2),
            max_load_fps=max_load,
            max_load_reason=point.limit_reason,
            repetitions=point.count_repetitions(point.procedure.repetitions),
        )
        result = measure_mlrsearch(spec, point.measure, point.watch)
        rows = (
            (r.number, (g.goal.name, g.goal.code, *common.describe_attempts(point, r.attempts),
                        g.lower_fps, g.upper_fps, g.conditional_fps, not g.irregular, g.irregular))
            for r in result.repetitions
            for g in r.results
        )  # fmt: skip
        record = MlrRecord.from_result(
            result,
            point.run_conditions,
            controller=SEARCH_LIBRARY,
            goals=[_summarize_goal_rates(result, n, point) for n, _ in enumerate(goals)],
        )
        return Measurement(record, self.make_rows(spec.conditions, rows))

    columns = (
        *common.POINT_COLUMNS,
        Column("goal", lambda line: line.value.goal.name, text=True),
        Column("code", lambda line: line.value.goal.code, text=True, wide=True),
        Column("loss\n%", lambda line: f"{100 * line.value.goal.loss_ratio:g}"),
        Column("exceed\n%", lambda line: f"{100 * line.value.goal.exceed_ratio:g}", wide=True),
        Column("width\n%", lambda line: f"{100 * line.value.goal.width:g}", wide=True),
        *common.make_rate_columns("lower\nbound fps"),
        common.INTERVAL_COLUMN,
        common.DISPERSION_COLUMN,
        Column("upper\nbound fps", lambda line: line.value.upper_bounds.median),
        Column("conditional\nthroughput", _format_conditional),
        Column("aggregate\nof both\ndirections", _format_aggregate, wide=True),
        common.WIDE_REPETITIONS_COLUMN,
        Column("result", lambda line: line.value.result_text, text=True),
    )

    def list_rows(self, records: Sequence[MlrRecord]) -> list[TableRow]:
        return [TableRow(r, figures) for r in records for figures in r.goals]

    def define_quantity(self, records: Sequence[MlrRecord]) -> str:
        return (
            "Relevant lower bound: the largest load below every upper bound at which high-loss trials "
            "stay within the exceed ratio; relevant upper bound: the smallest at which they do not. "
            "Conditional throughput: the forwarding rate to be expected at the lower bound. The loss "
            "ratio of a trial is that of both directions together; the effective duration of a trial is "
            "its duration; the width is (upper - lower) / upper."
        )

    def list_quantities(self, record: MlrRecord) -> Iterator[Quantity]:
        for figures in record.goals:
            goal, conditional = figures.goal, figures.conditional_throughput
            limit = " - limited by the tester" if figures.tester_limited else ""
            irregular = f" - {figures.regularity}" if figures.irregular_count else ""
            what = f"{record.title}, goal {goal.name}, {record.point}, median of "
            what += f"{figures.repetitions}{irregular}{limit}"
            lower = common.make_rate_quantity(
                figures,
                f"lower bound, {goal.name} {goal.code}",
                resolution=goal.width * figures.median,
                headline=f"{goal.name} lower bound",
            )
            card = Card(format_count(figures.median), "frames/s per direction", what)
            yield replace(lower, card=card)
            yield replace(
                lower,
                name=f"conditional throughput, {goal.name} {goal.code}",
                values=conditional.values,
                headline=f"{goal.name} conditional throughput",
                summary=conditional,
            )

    def find_warnings(self, record: MlrRecord) -> Iterator[tuple[str, str]]:
        for figures in record.goals:
            yield from find_goal_warnings(figures)

    def check_clauses(self, data: RunData, records: Sequence[MlrRecord]) -> Iterator[Ruling]:
        yield common.check_repetitions(self.name, records)
        if every := [figures for r in records for figures in r.goals]:
            marked = sum(figures.irregular_count for figures in every)
            yield judge("RFC 9971 section 4.8.4",
                        "regular results: both bounds, no farther apart than the goal's width",
                        f"{marked} irregular results, each marked" if marked else "all regular",
                        not marked)  # fmt: skip
            lengths = {figures.goal.final_trial_s for figures in every}
            yield judge("RFC 9971 section 4.6.1",
                        "all goals share the final trial duration",
                        ", ".join(f"{s:g} s" for s in sorted(filter(None, lengths))),
                        len(lengths) == 1)  # fmt: skip


def _describe_goal(goal: Goal | GoalAttributes) -> str:
    """Describe a goal by all its attributes (RFC 9971 section 4.9.3)."""
    return (
        f"goal {goal.name} ({goal.code}): loss ratio {goal.loss_ratio:.4g}, exceed ratio "
        f"{goal.exceed_ratio:.4g}, width {goal.width:.4g} (relative), initial and final trial "
        f"duration {goal.initial_trial_s:g} s and {goal.final_trial_s:g} s, duration sum "
        f"{goal.duration_sum_s:g} s, {goal.preceding_targets} preceding targets, expansion coefficient "
        f"{goal.expansion_coefficient}; {_COMPLIANCE_TEXTS[goal.like_rfc2544]}"
    )


def find_goal_warnings(figures: GoalBounds) -> Iterator[tuple[str, str]]:
    """Yield warnings that describe the goal and its irregular results."""
    yield "goal", _describe_goal(figures.goal)
    if figures.irregular_count:
        yield "irregular-goal", f"goal {figures.goal.name}: {figures.regularity}"
