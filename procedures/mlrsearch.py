"""Multiple Loss Ratio search for several goals at once (RFC 9971)."""

from dataclasses import dataclass, replace
from math import inf

from v6t.procedures.search.goals import Goal, GoalResult, find_goal_result
from v6t.procedures.search.mlr import TrialCounts, run_search
from v6t.procedures.throughput import PROBE_PAUSE_S
from v6t.procedures.trial_runner import PointSpec, RepeatedResult, TrialRunner, Watch, repeat
from v6t.trials.result import Measure, TrialResult
from v6t.trials.trial import Trial
from v6t.trials.verdict import Attempt, Verdict

BENCHMARK = "mlrsearch"


@dataclass(frozen=True)
class MlrSpec(PointSpec):
    """Specification of a multiple loss ratio search."""

    is_search = True
    goals: tuple[Goal, ...]  # searched for together; each has a loss tolerance
    min_load_fps: float  # smallest load per direction
    max_load_fps: float  # largest load per direction
    max_load_reason: str  # ``media`` or ``tester``, whichever is smaller
    repetitions: int

    benchmark = BENCHMARK


@dataclass(frozen=True)
class MlrRepetition:
    """Result of one search."""

    number: int  # from 1
    results: tuple[GoalResult, ...]  # results of the goals, in order
    attempts: tuple[Attempt, ...]


MlrResult = RepeatedResult[MlrSpec, MlrRepetition]


def measure_mlrsearch(spec: MlrSpec, measure: Measure, watch: Watch | None = None) -> MlrResult:
    """Repeat the search for all goals."""
    return repeat(spec, spec.repetitions, measure, watch, lambda trials: _search(spec, trials))


def _search(spec: MlrSpec, trials: TrialRunner) -> MlrRepetition:
    """Search for the bounds of all goals, once."""
    conditions = spec.conditions
    loosest = max(goal.loss_ratio for goal in spec.goals)
    longest_s = max(goal.final_trial_s for goal in spec.goals)
    bracket = [0.0, spec.max_load_fps]

    def assess(trial: Trial, result: TrialResult) -> Verdict:
        """Judge a trial by the loosest goal, for the display of progress."""
        return replace(conditions, loss_tolerance=loosest).assess(trial, result)

    def offer_load(load_fps: float, duration_s: float, step: str) -> TrialCounts:
        longest_pause_s = inf if duration_s >= longest_s else PROBE_PAUSE_S
        pause_s = min(conditions.pause_s, longest_pause_s)
        trial = conditions.make_trial(spec.benchmark, load_fps, duration_s, pause_s=pause_s)
        low, high = bracket
        outcome = trials.run(trial, step, bracket=(low, high), assess=assess)
        if not outcome.verdict.passed:
            bracket[1] = min(high, load_fps)
        elif duration_s >= longest_s:
            bracket[0] = max(low, load_fps)
        frames = lost = 0
        for counted in outcome.result.directions.values():
            required = counted.count_frames("required")
            frames += required
            # frames of one direction do not compensate the loss of the other
            lost += max(0, required - counted.count_frames("received"))
        tolerant = replace(conditions, loss_tolerance=1.0)  # finds faults other than loss
        sound = tolerant.assess(outcome.trial, outcome.result).passed
        return TrialCounts(frames, lost, sound)

    observed = run_search(
        offer_load, spec.goals, min_load_fps=spec.min_load_fps, max_load_fps=spec.max_load_fps
    )
    results = tuple(find_goal_result(goal, observed, spec.max_load_fps) for goal in spec.goals)
    return MlrRepetition(trials.number, results, tuple(trials.all))
