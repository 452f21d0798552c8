"""Goals of a Multiple Loss Ratio search, and what its trials say about them (RFC 9971 section 4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

RFC2544_TRIAL_S = 60.0
"""Trials of RFC 2544 section 24."""

Bound = Literal["lower", "upper", "undecided"]
Compliance = Literal["unconditionally", "conditionally", "not"]


@dataclass(frozen=True)
class Goal:
    """A search goal (RFC 9971 section 4.6).

    Attributes:
        name: of the goal.
        loss_ratio: a trial that loses a larger share is a high-loss trial.
        exceed_ratio: share of the duration sum that high-loss trials may take at a lower bound.
        width: the bounds are close enough when ``(upper - lower) / upper`` is no larger.
        initial_trial_s, final_trial_s: shortest trials, and those that decide [s].
        duration_sum_s: trials at a load last so long together, unless they decide sooner [s].
        preceding_targets, expansion_coefficient: how the library hurries; the result does not
            depend on them.
    """

    name: str
    loss_ratio: float
    exceed_ratio: float
    width: float
    initial_trial_s: float
    final_trial_s: float
    duration_sum_s: float
    preceding_targets: int = 2
    expansion_coefficient: int = 2

    @property
    def code(self) -> str:
        """Short form of the attributes, as in RFC 9971: ``60f120d0l50e``."""
        return (
            f"{self.final_trial_s:g}f{self.duration_sum_s:g}d"
            f"{100 * self.loss_ratio:g}l{100 * self.exceed_ratio:g}e"
        )

    @property
    def like_rfc2544(self) -> Compliance:
        """Compliance of its result with RFC 2544 section 24 (RFC 9971 section 4.10.2)."""
        if self.loss_ratio or self.exceed_ratio:
            return "not"
        return "unconditionally" if self.final_trial_s >= RFC2544_TRIAL_S else "conditionally"


@dataclass(frozen=True)
class ObservedTrial:
    """Load, duration and loss of a trial (RFC 9971 section 4.5).

    Attributes:
        load_fps: offered per direction.
        duration_s: of sending; the effective duration is the same.
        loss_ratio: lost share of all frames that were required, both directions together.
    """

    load_fps: float
    duration_s: float
    loss_ratio: float


@dataclass(frozen=True)
class GoalResult:
    """Bounds that a search found for a goal (RFC 9971 section 4.8.4).

    Attributes:
        goal: whose.
        lower_fps: relevant lower bound; where there is no upper bound, the largest lower one.
        upper_fps: relevant upper bound.
        conditional_fps: conditional throughput at the lower bound.
        irregular: why the result is not a regular one; empty: it is.
    """

    goal: Goal
    lower_fps: float | None
    upper_fps: float | None
    conditional_fps: float | None
    irregular: str = ""

    @property
    def rate_fps(self) -> float:
        """The lower bound; 0 where no load is one."""
        return self.lower_fps or 0.0


def classify_load(goal: Goal, trials: Iterable[ObservedTrial]) -> Bound:
    """Classify a load by its trials (RFC 9971 appendix A).

    A lower bound stays within the exceed ratio even if all that is missing to the duration sum loses
    too much, an upper bound exceeds it even if nothing of that does. Short high-loss trials count as
    far as short low-loss ones do not make up for them.
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
    whole = max(low + high, _make_exact(goal.duration_sum_s))
    if whole - low <= exceed * whole:
        return "lower"
    return "upper" if high > exceed * whole else "undecided"


def compute_conditional_throughput(
    goal: Goal, load_fps: float, trials: Iterable[ObservedTrial]
) -> float:
    """Compute the conditional throughput of a lower bound (RFC 9971 appendix B).

    Full-length trials stand in the order of their loss; what is missing to the duration sum loses all.
    The rate is that of the trial which completes the share that may not exceed the goal.
    """
    full = sorted(
        (t for t in trials if t.duration_s >= goal.final_trial_s), key=lambda t: t.loss_ratio
    )
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
    at: dict[float, list[ObservedTrial]] = {}
    for trial in trials:
        at.setdefault(trial.load_fps, []).append(trial)
    bounds = {load: classify_load(goal, trials) for load, trials in at.items()}
    upper = min((load for load, bound in bounds.items() if bound == "upper"), default=None)
    lower = max(
        (
            load
            for load, bound in bounds.items()
            if bound == "lower" and (upper is None or load < upper)
        ),
        default=None,
    )
    return GoalResult(
        goal,
        lower,
        upper,
        None if lower is None else compute_conditional_throughput(goal, lower, at[lower]),
        _find_irregularity(goal, lower, upper, max_load_fps),
    )


def _find_irregularity(
    goal: Goal, lower: float | None, upper: float | None, max_load: float
) -> str:
    """Explain why a result is irregular (RFC 9971 section 4.8.4.2)."""
    if lower is None:
        return "no load is a lower bound"
    if upper is None:
        at_max = lower >= max_load
        return "the max load is a lower bound" if at_max else "no load is an upper bound"
    # loads are rounded to floating-point numbers
    if upper - lower > goal.width * upper * (1 + 1e-9):
        return f"the bounds are {(upper - lower) / upper:.4%} apart"
    return ""


def _make_exact(value: float) -> Fraction:
    return Fraction(str(value))
