"""Throughput (RFC 8219 section 7.1, RFC 2544 section 26.1)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from v6t.procedures.repetition import AdaptiveLimits
from v6t.procedures.search.binary import (
    FINE_SHARE,
    SearchResult,
    SearchStep,
    binary_search,
    count_halvings,
    find_lowest_rate,
    find_widest_bracket,
    is_narrow_enough,
)
from v6t.procedures.search.goals import Goal, find_goal_result
from v6t.procedures.search.mlr import TrialCounts, run_search
from v6t.procedures.trial_runner import PointSpec, RepeatedResult, TrialRunner, Watch, repeat
from v6t.trials.result import Measure
from v6t.trials.verdict import Attempt, Verdict

BENCHMARK = "throughput"
TIMEOUT_BENCHMARK = "throughput-frame-timeout"  # with a deadline for every frame
PROBE_PAUSE_S = 5.0  # pause before a short trial: the minimum of RFC 2544 section 23

SearchMethod = Literal["binary", "mlrsearch"]

_MAX_DESCENTS = 20  # maximum of steps down from an unconfirmed rate
_Confirmations = list[tuple[str, float]]  # names of confirming trials, lengths over full length


@dataclass(frozen=True)
class ThroughputSpec(PointSpec):
    """Specification of the throughput search at a point."""

    is_search = True
    upper_bound_fps: float  # highest rate offered, per direction
    upper_bound_reason: str  # ``media`` or ``tester``, whichever is smaller
    resolution_fps: float  # error of the search; smaller if slow, see find_widest_bracket()
    duration_s: float  # length of a full trial [s]
    repetitions: int  # searches; the RFC requires 20
    confirmations: int = 0  # further trials that the result must pass
    final_duration_s: float | None = None  # length of a last trial; None: none
    search: SearchMethod = "binary"
    adaptive: AdaptiveLimits | None = None  # used in place of ``repetitions``

    @property
    def benchmark(self) -> str:
        """Name of the benchmark, with or without a deadline for every frame."""
        return BENCHMARK if self.conditions.frame_timeout_s is None else TIMEOUT_BENCHMARK

    @property
    def steps(self) -> int:
        """Number of trials of one binary search, without confirmations.

        This requires that every trial is valid and the search ends at the resolution.
        """
        return count_halvings(self.upper_bound_fps, self.resolution_fps) + 1


@dataclass(frozen=True)
class ThroughputRepetition:
    """Result of one search."""

    number: int  # from 1
    search: SearchResult  # the steps and the rate found
    rate_fps: float  # reported rate per direction, after confirmations
    attempts: tuple[Attempt, ...]

    def compute_error_fps(self, resolution_fps: float) -> float:
        """Return the error of the search, for a resolution [fps].

        A rate that was lowered since it did not pass again has a wider bracket than the search.
        """
        failed = [a.trial.rate_fps for a in self.attempts if not a.verdict.passed]
        above = min((rate for rate in failed if rate > self.rate_fps), default=None)
        if above is None:
            return self.search.compute_error_fps(resolution_fps)
        if not self.rate_fps:
            return above
        return max(find_widest_bracket(resolution_fps, above), above - self.rate_fps)

    @property
    def passed_above_failure(self) -> bool:
        """Whether a rate passed at or above one that failed.

        A short pass above a long failure does not count, since buffers hide overload for a while.
        """
        judged = [(a.trial, a.verdict) for a in self.attempts]
        failed = [trial for trial, verdict in judged if verdict.valid and not verdict.passed]
        passed = [trial for trial, verdict in judged if verdict.passed]
        return any(
            high.rate_fps >= low.rate_fps and high.duration_s >= low.duration_s
            for high in passed
            for low in failed
        )


ThroughputResult = RepeatedResult[ThroughputSpec, ThroughputRepetition]


def find_error_fps(result: ThroughputResult) -> float:
    """Return the largest error of the searches [fps]."""
    resolution_fps = result.spec.resolution_fps
    errors = (r.compute_error_fps(resolution_fps) for r in result.repetitions)
    return max(errors, default=resolution_fps)


def measure_throughput(
    spec: ThroughputSpec, measure: Measure, watch: Watch | None = None
) -> ThroughputResult:
    """Repeat the search for the highest rate without loss."""
    adaptive = spec.adaptive

    def is_known(done: Sequence[ThroughputRepetition]) -> bool:
        return adaptive is not None and adaptive.can_stop([r.rate_fps for r in done])

    return repeat(
        spec,
        spec.repetitions,
        measure,
        watch,
        lambda trials: _ThroughputSearch(spec, trials).run(),
        adaptive=adaptive,
        is_enough=is_known,
    )


class _ThroughputSearch:
    """Search of one repetition in progress."""

    def __init__(self, spec: ThroughputSpec, trials: TrialRunner) -> None:
        self._spec = spec
        self._trials = trials
        self._bracket = (0.0, spec.upper_bound_fps)

    def run(self) -> ThroughputRepetition:
        search = self._find_rate()
        rate_fps = self._confirm_rate(search)
        return ThroughputRepetition(self._trials.number, search, rate_fps, tuple(self._trials.all))

    def _find_rate(self) -> SearchResult:
        spec = self._spec
        if spec.search == "mlrsearch":
            return self._find_goal()
        return binary_search(
            lambda rate, step: self._offer_rate(rate, 1.0, step),
            upper_fps=spec.upper_bound_fps,
            resolution_fps=spec.resolution_fps,
            on_step=self._set_bracket,
        )

    def _find_goal(self) -> SearchResult:
        """Search for the RFC 2544 goal (RFC 9971 section 4.10.2); initial trials last 1/30."""
        spec, full_s = self._spec, self._spec.duration_s
        tolerated = spec.conditions.loss_tolerance
        steps: list[SearchStep] = []
        goal = Goal(
            name="RFC 2544",
            loss_ratio=tolerated,
            exceed_ratio=0.0,
            # a share of the upper bound, where the error is largest
            width=min(FINE_SHARE, spec.resolution_fps / spec.upper_bound_fps),
            initial_trial_s=full_s / 30,
            final_trial_s=full_s,
            duration_sum_s=full_s,
        )

        def offer(load_fps: float, duration_s: float, name: str) -> TrialCounts:
            share = duration_s / full_s
            verdict = self._offer_rate(load_fps, share, name)
            low, high = self._bracket
            if not verdict.passed:
                high = min(high, load_fps)
            elif share >= 1:
                low = max(low, load_fps)
            steps.append(SearchStep(name, load_fps, verdict, low, high))
            self._set_bracket(steps[-1])
            frames = max(1, round(load_fps * duration_s))
            # of the worse direction, since the tolerance holds for each
            lost = min(frames, round(frames * max(verdict.loss.values(), default=0.0)))
            if verdict.passed:  # rounding must not exceed the tolerance
                lost = min(lost, math.floor(frames * tolerated))
            return TrialCounts(frames, lost, verdict.passed)

        trials = run_search(
            offer,
            [goal],
            min_load_fps=find_lowest_rate(min(spec.resolution_fps, spec.upper_bound_fps / 2)),
            max_load_fps=spec.upper_bound_fps,
        )
        result = find_goal_result(goal, trials, spec.upper_bound_fps)
        unbounded = result.upper_fps is None
        return SearchResult(result.rate_fps, result.upper_fps, unbounded, tuple(steps), result)

    def _set_bracket(self, step: SearchStep) -> None:
        self._bracket = step.low_fps, step.high_fps

    def _offer_rate(self, rate_fps: float, share: float, step: str) -> Verdict:
        """Offer a rate for a share of the full duration, which exceeds 1 in the final trial."""
        spec = self._spec
        pause_s = spec.conditions.pause_s
        trial = spec.conditions.make_trial(
            spec.benchmark,
            rate_fps,
            spec.duration_s * share,
            pause_s=pause_s if share >= 1 else min(pause_s, PROBE_PAUSE_S),
        )
        return self._trials.run(trial, step, steps=spec.steps, bracket=self._bracket).verdict

    def _confirm_rate(self, search: SearchResult) -> float:
        """Return the highest rate found by a search that passes all further trials."""
        spec = self._spec
        final = (spec.final_duration_s or 0.0) / spec.duration_s
        checks: _Confirmations = [(f"{n}", 1.0) for n in range(1, spec.confirmations + 1)]
        if final > 1:
            checks.append(("final", final))
        if not checks or not search.rate_fps:
            return search.rate_fps
        passed = {
            a.trial.rate_fps
            for a in self._trials.all
            if a.verdict.passed and a.trial.duration_s >= spec.duration_s
        }
        failed = None
        for place, rate_fps in enumerate(sorted(passed, reverse=True)):
            if rate_fps > search.rate_fps:
                continue
            if self._is_confirmed(rate_fps, checks, f"c{place:02d}"):
                return rate_fps if failed is None else self._search_below(rate_fps, failed, checks)
            failed = rate_fps
        return self._descend(failed or search.rate_fps, checks)

    def _is_confirmed(self, rate_fps: float, checks: _Confirmations, step: str) -> bool:
        return all(self._offer_rate(rate_fps, share, f"{step}-{n}").passed for n, share in checks)

    def _descend(self, rate_fps: float, checks: _Confirmations) -> float:
        """Descend in growing steps until a rate passes again."""
        spec = self._spec
        step = find_widest_bracket(spec.resolution_fps, rate_fps)
        for place in range(1, _MAX_DESCENTS):
            # a step never exceeds half of the rate, so the rate stays positive
            failed, rate_fps = rate_fps, max(rate_fps - step, rate_fps / 2)
            if rate_fps <= find_lowest_rate(spec.resolution_fps):
                break
            step *= 2
            if self._is_confirmed(rate_fps, checks, f"d{place:02d}"):
                return self._search_below(rate_fps, failed, checks)
        return 0.0

    def _search_below(self, low_fps: float, high_fps: float, checks: _Confirmations) -> float:
        """Halve the interval between a confirmed and a refuted rate.

        Without a final trial, the result is the confirmed rate.
        """
        spec = self._spec
        if spec.final_duration_s is None:
            return low_fps
        for place in range(1, _MAX_DESCENTS):
            if is_narrow_enough(low_fps, high_fps, spec.resolution_fps):
                break
            middle = (low_fps + high_fps) / 2
            if self._is_confirmed(middle, checks, f"e{place:02d}"):
                low_fps = middle
            else:
                high_fps = middle
        return low_fps
