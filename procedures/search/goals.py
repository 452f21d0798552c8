"""Goals of a Multiple Loss Ratio search, and their results (RFC 9971 section 4)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

RFC2544_TRIAL_S = 60.0  # length of trials (RFC 2544 section 24)

BoundType = Literal["lower", "upper", "undecided"]
Compliance = Literal["unconditionally", "conditionally", "not"]


@dataclass(frozen=True)
class Goal:
    """Search goal (RFC 9971 section 4.6)."""

    name: str
    loss_ratio: float  # a trial that loses a larger share is a high-loss trial
    exceed_ratio: float  # share of high-loss trials in the duration sum at a lower bound
    width: float  # sufficient distance of the bounds, relative to the upper one
    initial_trial_s: float  # length of the shortest trials [s]
    final_trial_s: float  # length of full trials [s]
    duration_sum_s: float  # total length of the trials at a load, unless they decide sooner [s]
    preceding_targets: int = 2  # speeds up the library's search only
    expansion_coefficient: int = 2  # speeds up the library's search only

    @property
    def code(self) -> str:
        """Short form of the attributes, as in RFC 9971: ``60f120d0l50e``."""
        return (
            f"{self.final_trial_s:g}f{self.duration_sum_s:g}d"
            f"{100 * self.loss_ratio:g}l{100 * self.exceed_ratio:g}e"
        )

    @property
    def like_rfc2544(self) -> Compliance:
        """Compliance of the goal's result with RFC 2544 (RFC 9971 section 4.10.2)."""
        if self.loss_ratio or self.exceed_ratio:
            return "not"
        return "unconditionally" if self.final_trial_s >= RFC2544_TRIAL_S else "conditionally"


@dataclass(frozen=True)
class ObservedTrial:
    """Load, duration and loss of a trial (RFC 9971 section 4.5)."""

    load_fps: float  # offered per direction
    duration_s: float  # sending time, also the effective duration [s]
    loss_ratio: float  # lost over required frames of both directions


@dataclass(frozen=True)
class GoalResult:
    """Bounds that a search found for a goal (RFC 9971 section 4.8.4)."""

    goal: Goal
    lower_fps: float | None  # relevant lower bound, or the largest one without an upper bound
    upper_fps: float | None  # relevant upper bound
    conditional_fps: float | None  # conditional throughput at the lower bound
    irregular: str = ""  # why the result is irregular; empty: it is regular

    @property
    def rate_fps(self) -> float:
        """Lower bound per direction [fps]; 0 without one."""
        return self.lower_fps or 0.0


def classify_load(goal: Goal, trials: Iterable[ObservedTrial]) -> BoundType:
    """Classify a load by its trials (RFC 9971 appendix A).

    A lower bound does not exceed the exceed ratio even if the rest of the duration sum has high loss; an
    upper bound exceeds it even if the rest has low loss. Short low-loss trials compensate short high-loss
    trials.
    """
    low = high = short_low = short_high = Fraction(0)
    for trial in trials:
        lasted, lossy = _make_exact(trial.duration_s), trial.loss_ratio > goal.loss_ratio
        if trial.duration_s >= goal.final_trial_s:
            low, high = (low, high + lasted) if lossy else (low + lasted, high)
        elif lossy:
            short_high += lasted
        else:
            short_low += lasted
    exceed = _make_exact(goal.exceed_ratio)
    high += max(Fraction(0), short_high - short_low * exceed / (1 - exceed))
    total_s = max(low + high, _make_exact(goal.duration_sum_s))
    if total_s - low <= exceed * total_s:
        return "lower"
    return "upper" if high > exceed * total_s else "undecided"


def compute_conditional_throughput(
    goal: Goal, load_fps: float, trials: Iterable[ObservedTrial]
) -> float:
    """Compute the conditional throughput of a lower bound (RFC 9971 appendix B).

    Full-length trials are sorted by loss; the rest of the duration sum counts as lost. The result is the
    forwarding rate of the trial that completes the share allowed by the exceed ratio.
    """
    full = [trial for trial in trials if trial.duration_s >= goal.final_trial_s]
    full.sort(key=lambda trial: trial.loss_ratio)
    lasted = sum((_make_exact(t.duration_s) for t in full), Fraction(0))
    remaining = max(lasted, _make_exact(goal.duration_sum_s)) * (1 - _make_exact(goal.exceed_ratio))
    for trial in full:
        remaining -= _make_exact(trial.duration_s)
        if remaining <= 0:
            return load_fps * (1 - trial.loss_ratio)
    return 0.0


def find_goal_result(
    goal: Goal, trials: Sequence[ObservedTrial], max_load_fps: float
) -> GoalResult:
    """Find the relevant bounds at the end of a search (RFC 9971 section 4.8)."""
    trials_by_load: dict[float, list[ObservedTrial]] = {}
    for trial in trials:
        trials_by_load.setdefault(trial.load_fps, []).append(trial)
    bounds = {load: classify_load(goal, trials) for load, trials in trials_by_load.items()}
    upper = min((load for load, bound in bounds.items() if bound == "upper"), default=None)
    lower_bounds = [load for load, bound in bounds.items() if bound == "lower"]
    lower = max((load for load in lower_bounds if upper is None or load < upper), default=None)
    conditional_fps = None
    if lower is not None:
        conditional_fps = compute_conditional_throughput(goal, lower, trials_by_load[lower])
    irregular = _find_irregularity(goal, lower, upper, max_load_fps)
    return GoalResult(goal, lower, upper, conditional_fps, irregular)


def _find_irregularity(
    goal: Goal, lower: float | None, upper: float | None, max_load: float
) -> str:
    """Return the reason for an irregular result, or ``""`` (RFC 9971 section 4.8.4.2)."""
    if lower is None:
        return "no load is a lower bound"
    if upper is None:
        return "the max load is a lower bound" if lower >= max_load else "no load is an upper bound"
    # loads are rounded to floating-point numbers
    if upper - lower > goal.width * upper * (1 + 1e-9):
        return f"the bounds are {(upper - lower) / upper:.4%} apart"
    return ""


def _make_exact(value: float) -> Fraction:
    """Return the decimal number that a float is printed as, without its rounding error."""
    return Fraction(str(value))
